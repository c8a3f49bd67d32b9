//! Finds the hosts and links that keys name.

use super::error::ExperimentError;
use crate::workload::undeclared_host;
use weir_controller::topology::{HostIx, Topology};

/// Returns the host with this name.
pub(super) fn host(
    topology: &Topology,
    name: &str,
    key_path: &str,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<HostIx, ExperimentError> {
    let found = topology.host_ixs().find(|&ix| topology.host(ix).name == name);
    found.ok_or_else(|| invalid(key_path, undeclared_host(topology, name)))
}

/// Returns the indices of the links that `names` select, in ascending order without duplicates.
pub(super) fn links(
    topology: &Topology,
    names: &[String],
    key_path: &str,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<usize>, ExperimentError> {
    let mut selected = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let len_before = selected.len();
        for (i, link) in topology.links.iter().enumerate() {
            let ends = [link.a, link.b].map(|end| topology.node_name(end.node));
            // Names of nodes may contain dashes, so the name cannot be split at the first one.
            let is_between =
                |a: &str, b: &str| name.strip_prefix(a).and_then(|rest| rest.strip_prefix('-')) == Some(b);
            if ends.contains(&name.as_str()) || is_between(ends[0], ends[1]) || is_between(ends[1], ends[0]) {
                selected.push(i);
            }
        }
        if selected.len() == len_before {
            return Err(invalid(
                &format!("{key_path}[{index}]"),
                format!("\"{name}\" is neither a node nor a link; a link is written as s1-s2"),
            ));
        }
    }
    selected.sort_unstable();
    selected.dedup();
    Ok(selected)
}
