//! `--set a.b=c`: replaces keys of the experiment file from the command line.

use crate::yaml::join_path;
use serde_yaml::{Mapping, Value};

/// Applies `PATH=VALUE` to `root`. The path has dotted keys and list indices, such as `flows.1.start=200us`; the value is
/// parsed as YAML.
pub(super) fn apply(root: &mut Value, assignment: &str) -> Result<(), String> {
    let (path, text) =
        assignment.split_once('=').filter(|(path, _)| !path.trim().is_empty()).ok_or_else(|| {
            format!(
                "\"{assignment}\" is not an assignment; expected KEY=VALUE, for example transport.ack_every=2"
            )
        })?;
    let value: Value = serde_yaml::from_str(text).map_err(|e| format!("{path}: {e}"))?;
    let keys: Vec<&str> = path.trim().split('.').collect();
    let mut at = root;
    for (depth, key) in keys.iter().enumerate() {
        at = step(at, key, &keys[..depth]).map_err(|reason| format!("{path}: {reason}"))?;
    }
    *at = value;
    Ok(())
}

/// Returns the path of an assignment in the notation of error messages: `flows[1].start`.
pub(super) fn path(assignment: &str) -> String {
    let keys = assignment.split_once('=').map_or("", |(path, _)| path).trim().split('.');
    keys.fold(String::new(), |path, key| match key.parse::<usize>() {
        Ok(entry) => format!("{path}[{entry}]"),
        Err(_) => join_path(&path, key),
    })
}

/// Returns the child `key` of `at`, and inserts it if it is a new key of a map. `above` is the path of `at`.
fn step<'v>(at: &'v mut Value, key: &str, above: &[&str]) -> Result<&'v mut Value, String> {
    if at.is_null() {
        *at = Value::Mapping(Mapping::new());
    }
    match at {
        Value::Mapping(map) => Ok(map.entry(Value::String(key.to_owned())).or_insert(Value::Null)),
        Value::Sequence(list) => {
            let len = list.len();
            key.parse::<usize>()
                .ok()
                .and_then(|i| list.get_mut(i))
                .ok_or_else(|| format!("index \"{key}\" is out of range 0 to {}", len.saturating_sub(1)))
        }
        single => {
            let value = serde_yaml::to_string(single).unwrap_or_default();
            let (value, above) = (value.trim_end(), above.join("."));
            let whole = match above.strip_prefix("schemes.") {
                Some(entry) if !entry.contains('.') => format!("{above}={{scheme: {value}, {key}: ...}}"),
                _ => format!("{above}={{{key}: ...}}"),
            };
            Err(format!("{above} is \"{value}\", not a map; replace the whole value: --set '{whole}'"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_keys_and_list_entries() {
        let mut root: Value =
            serde_yaml::from_str("{a: {b: 1}, flows: [{start: 0us}, {start: 1us}]}").unwrap();
        apply(&mut root, "a.b=2").unwrap();
        apply(&mut root, "flows.1.start=5us").unwrap();
        apply(&mut root, "new.key=[x, y]").unwrap();
        let expected: Value =
            serde_yaml::from_str("{a: {b: 2}, flows: [{start: 0us}, {start: 5us}], new: {key: [x, y]}}")
                .unwrap();
        assert_eq!(root, expected);
    }

    #[test]
    fn errors_are_reported_with_the_reason() {
        let mut root: Value = serde_yaml::from_str("{flows: [1]}").unwrap();
        assert!(apply(&mut root, "novalue").unwrap_err().contains("not an assignment"));
        assert!(apply(&mut root, "flows.7=1").unwrap_err().contains("index \"7\" is out of range"));
        assert_eq!(
            apply(&mut root, "flows.0.x=1").unwrap_err(),
            "flows.0.x: flows.0 is \"1\", not a map; replace the whole value: --set 'flows.0={x: ...}'"
        );
        let mut root: Value = serde_yaml::from_str("{schemes: [dctcp]}").unwrap();
        let error = apply(&mut root, "schemes.0.set.beta=7").unwrap_err();
        assert!(error.ends_with("--set 'schemes.0={scheme: dctcp, set: ...}'"), "{error}");
    }
}
