//! Keys with two spellings. Inside there is one: `workloads` for `workload`, and the fault `impair` with `loss` for `loss` with
//! `rate`, which serde reads as aliases.

use crate::yaml::Positions;

/// Returns the key path in the spelling of the file: `workload.size` instead of `workloads[0].size`.
pub(super) fn as_written(key_path: &str, positions: &Positions) -> String {
    let workload = || {
        let (index, key) = key_path.strip_prefix("workloads[")?.split_once(']')?;
        match index.parse::<usize>().ok()?.checked_sub(1) {
            _ if !positions.has("workload") => None,
            None => Some(format!("workload{key}")),
            Some(index) => Some(format!("workloads[{index}]{key}")),
        }
    };
    let loss = || {
        let fault = key_path.strip_suffix(".loss").filter(|path| path.starts_with("faults["))?;
        Some(format!("{fault}.rate")).filter(|path| positions.has(path))
    };
    workload().or_else(loss).unwrap_or_else(|| key_path.to_owned())
}
