//! Finds the value at fault below the path of a serde error. serde buffers maps with a `kind` and maps with flattened keys, so
//! that paths end there.

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};
use serde_yaml::{Mapping, Value};

/// The key of maps that serde buffers. Without it a map fails for another reason.
const KIND: &str = "kind";

/// Returns the path, relative to `path`, of the value for which `root` is not a `T`: `.links[1].rate`. Empty if the error is at
/// `path` itself, or if its place is unknown.
///
/// The value is found by reading `root` again without some of its parts: the error stays the same as long as the value at fault
/// is there.
pub(crate) fn below<T: DeserializeOwned>(mut root: Value, path: &Path) -> String {
    let failure = |root: &Value| T::deserialize(root).err().map(|error| error.to_string());
    let (Some(expected), Some(mut steps)) = (failure(&root), steps(path)) else { return String::new() };
    let mut relative = String::new();
    loop {
        let Some(value) = value_at(&mut root, &steps).cloned() else { return relative };
        let mut reason_with = |part: Value| {
            *value_at(&mut root, &steps)? = part;
            failure(&root)
        };
        let step = match &value {
            Value::Mapping(map) if expected.contains("missing field `") => {
                list_at_fault(map, &expected, &mut reason_with)
            }
            Value::Mapping(map) => key_at_fault(map, &expected, &mut reason_with),
            Value::Sequence(list) => entry_at_fault(list, &expected, &mut reason_with),
            _ => None,
        };
        reason_with(value);
        let Some(step) = step else { return relative };
        match &step {
            Step::Key(key) => relative.extend([".", key]),
            Step::Entry(index) => relative.extend(["[", &index.to_string(), "]"]),
        }
        steps.push(step);
    }
}

/// A step from a list or map to a value in it.
enum Step {
    Key(String),
    Entry(usize),
}

fn steps(path: &Path) -> Option<Vec<Step>> {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(Step::Entry(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().map(step).collect()
}

fn value_at<'a>(root: &'a mut Value, steps: &[Step]) -> Option<&'a mut Value> {
    steps.iter().try_fold(root, |value, step| match step {
        Step::Key(key) => value.get_mut(key.as_str()),
        Step::Entry(index) => value.get_mut(*index),
    })
}

/// Returns the smallest length from 1 to `max` for which `fails` is true. It is true of all greater ones, and not of 0.
fn smallest(max: usize, mut fails: impl FnMut(usize) -> bool) -> Option<usize> {
    if max == 0 || fails(0) || !fails(max) {
        return None;
    }
    let (mut passing, mut failing) = (0, max);
    while passing + 1 < failing {
        let middle = usize::midpoint(passing, failing);
        if fails(middle) { failing = middle } else { passing = middle }
    }
    Some(failing)
}

/// Returns the key of a map whose value is wrong.
fn key_at_fault(
    map: &Mapping,
    expected: &str,
    reason_with: &mut impl FnMut(Value) -> Option<String>,
) -> Option<Step> {
    let (kind, others): (Vec<_>, Vec<_>) = map.iter().partition(|(key, _)| key.as_str() == Some(KIND));
    let entries = |entries: &[(&Value, &Value)]| {
        let all = kind.iter().chain(entries).map(|&(key, value)| (key.clone(), value.clone()));
        Value::Mapping(all.collect())
    };
    let first_to_fail =
        smallest(others.len(), |len| reason_with(entries(&others[..len])).as_deref() == Some(expected))?;
    // The error of a flattened key comes after those of missing keys, so this may be the last required key instead: without it
    // alone, it is missing.
    let is_at_fault = |index: usize, reason: Option<String>| {
        let missing = others[index].0.as_str().map(|key| format!("missing field `{key}`"));
        reason.as_deref() != Some(expected)
            && !reason.zip(missing).is_some_and(|(reason, missing)| reason.contains(&missing))
    };
    let mut without = |index: usize| reason_with(entries(&[&others[..index], &others[index + 1..]].concat()));
    let last = first_to_fail - 1;
    let mut candidates = std::iter::once(last).chain(0..others.len());
    let index = candidates.find(|&index| is_at_fault(index, without(index))).unwrap_or(last);
    others[index].0.as_str().map(|key| Step::Key(key.to_owned()))
}

/// Returns the key of a map whose list has an entry that lacks a key.
fn list_at_fault(
    map: &Mapping,
    expected: &str,
    reason_with: &mut impl FnMut(Value) -> Option<String>,
) -> Option<Step> {
    let is_at_fault = |(key, value): &(&Value, &Value)| {
        let mut changed = map.clone();
        changed.insert((*key).clone(), Value::Sequence(Vec::new()));
        value.is_sequence() && reason_with(Value::Mapping(changed)).as_deref() != Some(expected)
    };
    map.iter().find(is_at_fault)?.0.as_str().map(|key| Step::Key(key.to_owned()))
}

/// Returns the entry of a list that is wrong; `None` if it is the list itself.
fn entry_at_fault(
    list: &[Value],
    expected: &str,
    reason_with: &mut impl FnMut(Value) -> Option<String>,
) -> Option<Step> {
    let mut reason_of = |len: usize| reason_with(Value::Sequence(list[..len].to_vec()));
    // A list in place of a map: the first entries are read as its first values.
    if reason_of(0)
        .is_some_and(|reason| ["invalid length ", "missing field "].iter().any(|r| reason.starts_with(r)))
    {
        return None;
    }
    smallest(list.len(), |len| reason_of(len).as_deref() == Some(expected)).map(|len| Step::Entry(len - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_controller::topology::TopologySpec;

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Set {
        at: u32,
        #[serde(flatten)]
        values: std::collections::BTreeMap<String, u8>,
    }

    fn found<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> String {
        let root: Value = serde_yaml::from_str(text).unwrap();
        let error = serde_path_to_error::deserialize::<_, T>(&root).unwrap_err();
        below::<T>(root, error.path())
    }

    #[test]
    fn the_value_at_fault_is_found_below_a_kind() {
        let custom = |keys: &str| {
            found::<TopologySpec>(&format!("{{kind: custom, hosts: [h1], switches: [s1], {keys}}}"))
        };
        assert_eq!(found::<TopologySpec>("{kind: star, delay: 1us, hosts: 1e9, rate: 1Gbps}"), ".hosts");
        assert_eq!(custom("links: [[h1, s1], [h2]]"), ".links[1]");
        assert_eq!(custom("links: [[h1, s1], {a: h1, b: s1, rate: 3}]"), ".links[1].rate");
        assert_eq!(custom("links: [[h1, s1], {a: h1, b: s1, rat: 3}]"), ".links[1].rat");
        assert_eq!(custom("links: [{a: h1}]"), ".links[0]");
        assert_eq!(found::<TopologySpec>("[star]"), "");
        // Of two equal values, the first.
        let twice = "{kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 1x, fabric_rate: 1x}";
        assert_eq!(found::<TopologySpec>(twice), ".rate");
        assert_eq!(found::<TopologySpec>("{kind: star}"), "");
    }

    #[test]
    fn a_flattened_key_is_found_before_a_required_one() {
        assert_eq!(found::<Vec<Set>>("[{at: 1}, {eta: 300, g: 1, at: 2}]"), ".eta");
        assert_eq!(found::<Vec<Set>>("[{at: x, eta: 3}]"), "");
    }
}
