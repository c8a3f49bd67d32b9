//! `--set a.b=c`: replaces keys of the experiment file from the command line.

use crate::yaml::{Positions, in_assignment, join_path};
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
    let invalid = |reason: &str, column| in_assignment(&format!("{path}: {reason}"), assignment, column);
    Positions::from_text(text).map_err(|error| {
        let column = error.position.filter(|at| at.line == 1).map(|at| path.chars().count() + 1 + at.column);
        invalid(&error.reason, column)
    })?;
    let value: Value = serde_yaml::from_str(text).map_err(|error| invalid(&error.to_string(), None))?;
    let keys: Vec<&str> = path.trim().split('.').collect();
    let mut node = root;
    for (depth, key) in keys.iter().enumerate() {
        node = child_entry(node, key, &keys[..depth]).map_err(|reason| format!("{path}: {reason}"))?;
    }
    *node = value;
    Ok(())
}

/// Returns the path of an assignment in the notation of error messages: `flows[1].start`.
pub(super) fn key_path(assignment: &str) -> String {
    let keys = assignment.split_once('=').map_or("", |(path, _)| path).trim().split('.');
    keys.fold(String::new(), |path, key| match key.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) => join_path(&path, key),
    })
}

/// Returns the value of `key` in `node`. A key that a map does not have is inserted. `parents` is the path of `node`.
fn child_entry<'v>(node: &'v mut Value, key: &str, parents: &[&str]) -> Result<&'v mut Value, String> {
    if node.is_null() {
        *node = Value::Mapping(Mapping::new());
    }
    match node {
        Value::Mapping(map) => Ok(map.entry(Value::String(key.to_owned())).or_insert(Value::Null)),
        Value::Sequence(list) => {
            let len = list.len();
            key.parse::<usize>()
                .ok()
                .and_then(|i| list.get_mut(i))
                .ok_or_else(|| format!("index \"{key}\" is out of range 0 to {}", len.saturating_sub(1)))
        }
        scalar => {
            let value = serde_yaml::to_string(scalar).unwrap_or_default();
            let (value, path) = (value.trim_end(), parents.join("."));
            // A scheme without parameters may be written as its name alone.
            let assignment = match path.strip_prefix("schemes.") {
                Some(entry) if !entry.contains('.') => format!("{path}={{scheme: {value}, {key}: ...}}"),
                _ => format!("{path}={{{key}: ...}}"),
            };
            Err(format!("{path} is \"{value}\", not a map; replace the whole value: --set '{assignment}'"))
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
