//! Metrics with wildcards: `fct.classes.*.slowdown.p99` stands for one metric of each class.

use crate::format;
use crate::paper_value::{operands, operator_in};
use serde_json::Value;
use std::fmt;
use weir_experiment::results::Summary;

/// A key in the path of a metric that stands for any key or index at its place.
const WILDCARD: &str = "*";

/// A size class of `summary.json`, to which a metric belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SizeClass {
    /// Path of the class below a scheme, such as `fct.classes.1`.
    path: String,
    over_bytes: u64,
    upto_bytes: Option<u64>,
}

impl SizeClass {
    /// Returns the class to which `path`, a path below a scheme, belongs; `None` if there is none.
    pub(super) fn of_path(path: &str, scheme: &Value) -> Option<SizeClass> {
        let end = path.match_indices('.').map(|(dot, _)| dot).rev().find(|&dot| {
            let pointer = format!("/{}", path[..dot].replace('.', "/"));
            scheme.pointer(&pointer).is_some_and(|value| value["over_bytes"].is_u64())
        })?;
        let path = path[..end].to_owned();
        let class = scheme.pointer(&format!("/{}", path.replace('.', "/")))?;
        let (over_bytes, upto_bytes) = (class["over_bytes"].as_u64()?, class["upto_bytes"].as_u64());
        Some(SizeClass { path, over_bytes, upto_bytes })
    }

    /// Returns whether this is the index of the class.
    pub(super) fn has_index(&self, key: &str) -> bool {
        self.path.rsplit('.').next() == Some(key)
    }

    /// Returns whether the class with this path has the same bounds in another run.
    pub(super) fn is_in(&self, scheme: &Value) -> bool {
        SizeClass::of_path(&format!("{}.count", self.path), scheme).as_ref() == Some(self)
    }
}

/// Formats the bounds of the class, see [`format::size_range`].
impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format::size_range(self.over_bytes, self.upto_bytes))
    }
}

/// A metric without wildcards that a metric with wildcards stands for.
pub(super) struct Expansion {
    pub(super) formula: String,
    /// The keys in place of the wildcards.
    pub(super) keys: Vec<String>,
}

/// Returns the metrics that a formula stands for in a summary; `None` if it has no wildcards. The wildcards of all paths of
/// a formula stand for the same keys. `order` are the labels of the schemes; paths may begin with one or not.
pub(super) fn expand(formula: &str, summary: &Summary, order: &[String]) -> Option<Vec<Expansion>> {
    let first = operands(formula).next().filter(|path| has_wildcard(path))?;
    let mut found: Vec<Vec<String>> = Vec::new();
    for label in order {
        let Some(scheme) = summary.schemes.get(label) else { continue };
        let scheme = serde_json::to_value(scheme).ok()?;
        let path =
            first.strip_prefix(label.as_str()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(first);
        let parts: Vec<&str> = path.split('.').collect();
        matches(&scheme, &parts, &mut Vec::new(), &mut found);
    }
    let substitute = |path: &str, keys: &[String]| {
        let mut keys = keys.iter().map(String::as_str);
        let parts =
            path.split('.').map(|part| if part == WILDCARD { keys.next().unwrap_or(part) } else { part });
        parts.collect::<Vec<_>>().join(".")
    };
    let expansion = |keys: Vec<String>| {
        let paths: Vec<String> = operands(formula).map(|path| substitute(path, &keys)).collect();
        Expansion { formula: paths.join(operator_in(formula)), keys }
    };
    Some(found.into_iter().map(expansion).collect())
}

fn has_wildcard(path: &str) -> bool {
    path.split('.').any(|part| part == WILDCARD)
}

/// Appends to `found` the keys in place of the wildcards of all paths below `value` that match `parts`.
fn matches(value: &Value, parts: &[&str], keys: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let Some((part, rest)) = parts.split_first() else {
        if value.is_number() && !found.contains(keys) {
            found.push(keys.clone());
        }
        return;
    };
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, child)| (key.clone(), child)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(i, child)| (i.to_string(), child)).collect(),
        _ => Vec::new(),
    };
    for (key, child) in children {
        if *part == WILDCARD {
            keys.push(key);
            matches(child, rest, keys, found);
            keys.pop();
        } else if *part == key {
            matches(child, rest, keys, found);
        }
    }
}
