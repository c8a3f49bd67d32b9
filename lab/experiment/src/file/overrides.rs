//! `--set a.b=c`: replaces keys of the experiment file from the command line, or for a run of a sweep.

use super::assignment::Override;
use crate::yaml::{KeyError, Positions, in_assignment, is_within, join_path, without_rust_types};
use serde_yaml::{Mapping, Value};
use weir_host::suggest::did_you_mean;

/// Applies all `overrides` to `root` and marks them in `positions`.
///
/// # Errors
///
/// If one cannot be applied, or has no effect because a later one replaces its value. The message begins with the origin.
pub(super) fn apply_all(
    root: &mut Value,
    overrides: &[Override<'_>],
    positions: &mut Positions,
) -> Result<(), String> {
    let mut applied: Vec<(String, Override<'_>)> = Vec::new();
    for given in overrides {
        let key_path = apply(root, *given).map_err(|reason| format!("{} {reason}", given.origin))?;
        // A run of a sweep has no `sweep` of its own.
        if let Some((_, earlier)) =
            applied.iter().find(|(path, _)| path != "sweep" && is_within(path, &key_path))
        {
            return Err(format!("{earlier} has no effect: {given} replaces the value; remove one of them"));
        }
        positions.mark_overridden(&key_path, *given);
        applied.push((key_path, *given));
    }
    Ok(())
}

/// Applies `PATH=VALUE` to `root`. The path has dotted keys, and for entries of lists indices or names, such as
/// `flows.1.start=200us` and `workloads.burst.size=1KB`; the value is parsed as YAML. Returns the path in the notation of
/// error messages: `flows[1].start`.
fn apply(root: &mut Value, given: Override<'_>) -> Result<String, String> {
    let assignment = given.assignment;
    let (path, text) =
        assignment.split_once('=').filter(|(path, _)| !path.trim().is_empty()).ok_or_else(|| {
            format!(
                "\"{assignment}\" is not an assignment; expected KEY=VALUE, for example transport.ack_every=2"
            )
        })?;
    let invalid = |reason: &str, column| in_assignment(&format!("{path}: {reason}"), given, column);
    Positions::from_text(text).map_err(|error| {
        let column = error.position.filter(|at| at.line == 1).map(|at| path.chars().count() + 1 + at.column);
        invalid(&error.reason, column)
    })?;
    let value: Value =
        serde_yaml::from_str(text).map_err(|error| invalid(&without_rust_types(&error.to_string()), None))?;
    let keys: Vec<&str> = path.trim().split('.').collect();
    check_workload_spelling(root, &keys).map_err(|reason| format!("{path}: {reason}"))?;
    let (mut node, mut key_path) = (root, String::new());
    for (depth, key) in keys.iter().enumerate() {
        (node, key_path) = child_entry(node, key, &keys[..depth], &key_path)
            .map_err(|reason| format!("{path}: {reason}"))?;
    }
    *node = value;
    Ok(key_path)
}

/// Rejects `workload.load` for a file that has `workloads`, and the reverse: it would add a second workload.
fn check_workload_spelling(root: &Value, keys: &[&str]) -> Result<(), String> {
    let list = |key: &str| root.get(key).and_then(Value::as_sequence);
    match *keys {
        // The kind comes first where the command line adds a workload.
        ["workload", key, ..] if key != "kind" && root.get("workload").is_none() => {
            let Some(entries) = list("workloads").filter(|entries| !entries.is_empty()) else {
                return Ok(());
            };
            let names = entry_names(entries).into_iter().enumerate();
            let names: Vec<String> =
                names.map(|(index, name)| name.unwrap_or_else(|| index.to_string())).collect();
            let rest = keys[1..].join(".");
            Err(format!(
                "the file has `workloads` ({}); write workloads.{}.{rest}",
                names.join(", "),
                names[0]
            ))
        }
        ["workloads", entry, ..] if root.get("workloads").is_none() && root.get("workload").is_some() => {
            let rest = keys[2..].join(".");
            let place = join_path("workload", &rest);
            Err(format!("the file has a single `workload` and no list with an entry {entry}; write {place}"))
        }
        _ => Ok(()),
    }
}

/// Returns the name by which a path may address each entry of a list: its `name`, the label of a scheme, or else its kind,
/// with a number if several entries without a name have this kind.
fn entry_names(entries: &[Value]) -> Vec<Option<String>> {
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let own = |entry: &Value| {
        let label = || text(entry, "label").or_else(|| text(entry, "scheme"));
        text(entry, "name").or_else(label).or_else(|| entry.as_str().map(str::to_owned))
    };
    let kind = |entry: &Value| text(entry, "kind").filter(|_| own(entry).is_none());
    let name = |(index, entry): (usize, &Value)| {
        let by_kind = || {
            let kind_of_entry = kind(entry)?;
            let same = |entries: &[Value]| {
                entries.iter().filter(|other| kind(other).as_ref() == Some(&kind_of_entry)).count()
            };
            let number = same(&entries[..=index]);
            Some(if same(entries) > 1 { format!("{kind_of_entry}-{number}") } else { kind_of_entry.clone() })
        };
        own(entry).or_else(by_kind)
    };
    entries.iter().enumerate().map(name).collect()
}

/// Returns the value of `key` in `node`, and its path. A key that a map does not have is inserted. `parents` is the path of
/// `node` as in the assignment, `key_path` the same in the notation of error messages.
fn child_entry<'v>(
    node: &'v mut Value,
    key: &str,
    parents: &[&str],
    key_path: &str,
) -> Result<(&'v mut Value, String), String> {
    if node.is_null() {
        *node = Value::Mapping(Mapping::new());
    }
    match node {
        Value::Mapping(map) => {
            Ok((map.entry(Value::String(key.to_owned())).or_insert(Value::Null), join_path(key_path, key)))
        }
        Value::Sequence(list) => {
            let names = entry_names(list);
            let named = || names.iter().position(|name| name.as_deref() == Some(key));
            let index = key.parse::<usize>().ok().or_else(named).filter(|index| *index < list.len());
            let index = index.ok_or_else(|| no_entry(key, &names))?;
            Ok((&mut list[index], format!("{key_path}[{index}]")))
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

/// Says which entries a list has.
fn no_entry(key: &str, names: &[Option<String>]) -> String {
    let (last, known) = (names.len().saturating_sub(1), names.iter().flatten().map(String::as_str));
    let list: Vec<&str> = known.clone().collect();
    match key.parse::<usize>() {
        _ if names.is_empty() => format!("\"{key}\": the list is empty"),
        Ok(_) if list.is_empty() => format!("index \"{key}\" is out of range 0 to {last}"),
        Ok(_) => format!("index \"{key}\" is out of range 0 to {last} ({})", list.join(", ")),
        Err(_) if list.is_empty() => format!("\"{key}\" is not an index, 0 to {last}"),
        Err(_) => {
            let meant = did_you_mean(key, known);
            format!(
                "\"{key}\" is neither an index, 0 to {last}, nor the name of an entry: {}{meant}",
                list.join(", ")
            )
        }
    }
}

/// Says where the file has a key that `--set` gave without the path to it, such as `load` for `workload.load`.
pub(super) fn with_full_paths(error: KeyError, root: &Value) -> KeyError {
    /// Maximum number of paths in a message.
    const MAX_PATHS: usize = 3;
    let KeyError { key_path, reason, .. } = &error;
    let Some(assignment) = reason.rfind(" (").map(|start| &reason[start..]) else { return error };
    if !reason.starts_with("unknown field") || key_path.contains(['.', '[']) {
        return error;
    }
    let mut paths = Vec::new();
    find_key(root, key_path, "", &mut paths);
    paths.retain(|path| path != key_path);
    paths.truncate(MAX_PATHS);
    if paths.is_empty() {
        return error;
    }
    let reason = format!(
        "unknown field `{key_path}`; a path begins at the top of the file: {}{assignment}",
        paths.join(", ")
    );
    KeyError { reason, ..error }
}

/// Adds the paths in `node` that end with `key`, in the notation of `--set`.
fn find_key(node: &Value, key: &str, path: &str, paths: &mut Vec<String>) {
    match node {
        Value::Mapping(map) => {
            for (name, value) in map {
                let Some(name) = name.as_str() else { continue };
                let path = join_path(path, name);
                if name == key {
                    paths.push(path.clone());
                }
                find_key(value, key, &path, paths);
            }
        }
        Value::Sequence(list) => {
            let names = entry_names(list);
            for (index, (entry, name)) in list.iter().zip(names).enumerate() {
                find_key(entry, key, &join_path(path, &name.unwrap_or_else(|| index.to_string())), paths);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(root: &mut Value, assignment: &str) -> Result<String, String> {
        super::apply(root, Override { assignment, origin: "--set" })
    }

    #[test]
    fn a_value_that_another_one_replaces_is_an_error() {
        let apply_both = |first: (&str, &str), second: (&str, &str)| {
            let text = "{workload: {kind: poisson}, schemes: [fncc, {scheme: hpcc, label: x}]}";
            let mut positions = Positions::from_text(text).unwrap();
            let given = [first, second].map(|(origin, assignment)| Override { assignment, origin });
            apply_all(&mut serde_yaml::from_str(text).unwrap(), &given, &mut positions)
        };
        for (first, second) in [
            ("seed=1", "seed=2"),
            ("workload.load=10%", "workload={kind: poisson, load: 20%}"),
            ("schemes.x.set.eta=0.9", "schemes.1.set.eta=0.8"),
        ] {
            let error = apply_both(("--set", first), ("--over", second)).unwrap_err();
            let expected = format!(
                "--set {first} has no effect: --over {second} replaces the value; remove one of them"
            );
            assert_eq!(error, expected);
        }
        for (first, second) in [("workload={kind: poisson}", "workload.load=20%"), ("seed=1", "seeds=2")] {
            assert_eq!(apply_both(("--set", first), ("--set", second)), Ok(()));
        }
    }

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
        assert!(apply(&mut root, "flows.7=1").unwrap_err().contains("\"7\" is out of range"));
        assert_eq!(
            apply(&mut root, "flows.0.x=1").unwrap_err(),
            "flows.0.x: flows.0 is \"1\", not a map; replace the whole value: --set 'flows.0={x: ...}'"
        );
        let mut root: Value = serde_yaml::from_str("{schemes: [dctcp]}").unwrap();
        let error = apply(&mut root, "schemes.0.set.beta=7").unwrap_err();
        assert!(error.ends_with("--set 'schemes.0={scheme: dctcp, set: ...}'"), "{error}");
    }

    #[test]
    fn entries_of_lists_have_names() {
        let text = "{workloads: [{kind: incast}, {kind: poisson, name: bg}, {kind: incast}], schemes: [fncc, {scheme: hpcc, label: x}]}";
        let set = |assignment: &str| {
            let mut root: Value = serde_yaml::from_str(text).unwrap();
            apply(&mut root, assignment).map(|path| (path, root))
        };
        for (assignment, path) in [
            ("workloads.bg.load=1", "workloads[1].load"),
            ("workloads.incast-2.size=1", "workloads[2].size"),
            ("workloads.0.size=1", "workloads[0].size"),
            ("schemes.x.set.eta=1", "schemes[1].set.eta"),
            ("schemes.fncc=hpcc", "schemes[0]"),
        ] {
            assert_eq!(set(assignment).unwrap().0, path);
        }
        assert_eq!(set("workloads.bg.load=1").unwrap().1["workloads"][1]["load"], Value::from(1));
        assert_eq!(
            set("workloads.bgg.load=1").unwrap_err(),
            "workloads.bgg.load: \"bgg\" is neither an index, 0 to 2, nor the name of an entry: incast-1, bg, incast-2"
        );
        assert_eq!(
            set("workloads.incst-2.size=1").unwrap_err().rsplit_once("; ").unwrap().1,
            "did you mean \"incast-2\"?"
        );
        assert!(
            set("workloads.3.load=1").unwrap_err().contains("out of range 0 to 2 (incast-1, bg, incast-2)")
        );
        assert_eq!(
            set("workload.load=1").unwrap_err(),
            "workload.load: the file has `workloads` (incast-1, bg, incast-2); write workloads.incast-1.load"
        );
        let mut single: Value = serde_yaml::from_str("{workload: {kind: poisson}}").unwrap();
        let error = apply(&mut single, "workloads.0.load=1").unwrap_err();
        assert!(error.ends_with("write workload.load"), "{error}");
    }
}
