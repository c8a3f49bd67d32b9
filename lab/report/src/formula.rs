//! Formulas over `summary.json`: the path of a number such as `fct.classes.0.slowdown.p99`, a quotient `A / B`, or a change
//! `A vs B`. Wildcards in paths stand for several formulas.

use super::format;
use serde_json::Value;
use std::fmt;
use weir_experiment::results::Summary;
use weir_experiment::suggest::{closest_match, did_you_mean};

/// Evaluates a formula whose paths are below `schemes` of `summary.json`; `None` if the summary lacks a value.
pub fn value(formula: &str, summary: &Summary) -> Option<f64> {
    let schemes = serde_json::to_value(&summary.schemes).ok()?;
    let number = |path: &str| match find(&schemes, path.trim()) {
        // `drops` is the sum over all reasons. The sum of no floats would be -0.
        Some(Value::Object(counts)) => {
            let key = path.trim().rsplit('.').next().filter(|key| COUNTS_BY_REASON.contains(key));
            key?;
            counts.values().map(Value::as_f64).sum::<Option<f64>>().map(|sum| sum + 0.0)
        }
        Some(value) => value.as_f64(),
        None => {
            let (outer, count) = path.trim().rsplit_once('.')?;
            let by_reason = outer.rsplit_once('.').filter(|(_, map)| COUNTS_BY_REASON.contains(map));
            let scheme = by_reason.map(|(scheme, _)| scheme);
            let scheme = scheme.or(ABSENT_IF_ZERO.contains(&count).then_some(outer))?;
            find(&schemes, scheme).is_some().then_some(0.0)
        }
    };
    let formula = formula.trim();
    let value = if let Some((one, other)) = formula.split_once(QUOTIENT) {
        number(one)? / number(other)?
    } else if let Some((one, other)) = formula.split_once(CHANGE) {
        100.0 * (number(one)? / number(other)? - 1.0)
    } else {
        number(formula)?
    };
    value.is_finite().then_some(value)
}

/// Counts that `summary.json` omits if they are 0.
const ABSENT_IF_ZERO: [&str; 2] = ["timeouts", "suppressions"];
/// Maps of counts by reason. A reason that did not occur is absent.
pub const COUNTS_BY_REASON: [&str; 4] = ["drops", "failed", "refused", "telemetry"];
pub const QUOTIENT: &str = " / ";
pub const CHANGE: &str = " vs ";

/// Returns the operator of a formula with its spaces; empty for a single path.
pub fn operator_in(formula: &str) -> &'static str {
    [QUOTIENT, CHANGE].into_iter().find(|operator| formula.contains(operator)).unwrap_or_default()
}

/// Returns the paths of a formula.
pub fn operands(formula: &str) -> impl Iterator<Item = &str> {
    let (one, other) = match operator_in(formula) {
        "" => (formula, None),
        operator => formula.split_once(operator).map_or((formula, None), |(one, other)| (one, Some(other))),
    };
    [Some(one), other].into_iter().flatten().map(str::trim)
}

/// Follows a path of keys joined by dots. Keys may contain dots (`hpcc eta=0.95`), so every key that is a prefix of
/// the path is tried.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    match value {
        _ if path.is_empty() => Some(value),
        Value::Object(map) => map.iter().find_map(|(key, inner)| {
            let rest = path.strip_prefix(key.as_str())?;
            match rest.strip_prefix('.') {
                Some(rest) => find(inner, rest),
                None => rest.is_empty().then_some(inner),
            }
        }),
        Value::Array(list) => {
            let (index, rest) = path.split_once('.').unwrap_or((path, ""));
            find(list.get(index.parse::<usize>().ok()?)?, rest)
        }
        _ => None,
    }
}

/// A key in the path of a metric that stands for any key or index at its place.
const WILDCARD: &str = "*";

/// A size class of `summary.json`, to which a metric belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SizeClass {
    /// Path of the class below a scheme, such as `fct.classes.1`.
    path: String,
    over_bytes: u64,
    upto_bytes: Option<u64>,
}

impl SizeClass {
    /// Returns the class to which `path`, a path below a scheme, belongs; `None` if there is none.
    pub(crate) fn of_path(path: &str, scheme: &Value) -> Option<SizeClass> {
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
    pub(crate) fn has_index(&self, key: &str) -> bool {
        self.path.rsplit('.').next() == Some(key)
    }

    /// Returns whether the class with this path has the same bounds in another run.
    pub(crate) fn is_in(&self, scheme: &Value) -> bool {
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
pub(crate) struct Expansion {
    pub(crate) formula: String,
    /// The keys in place of the wildcards.
    pub(crate) keys: Vec<String>,
}

/// Returns the metrics that a formula stands for in a summary; `None` if it has no wildcards. The wildcards of all paths of
/// a formula stand for the same keys. `order` are the labels of the schemes; paths may begin with one or not.
pub(crate) fn expand(formula: &str, summary: &Summary, order: &[String]) -> Option<Vec<Expansion>> {
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

/// Returns what an unknown metric probably means: `did you mean "fct.slowdown.p95"?`, or the keys at the place where its
/// path ends; `None` if nothing is near.
pub(crate) fn suggestion(text: &str, rows: &[&str], summary: &Summary, order: &[String]) -> Option<String> {
    let scheme = order.first().and_then(|label| serde_json::to_value(summary.schemes.get(label)?).ok())?;
    let formula = text.split_once('=').map_or(text, |(_, formula)| formula).trim();
    let is_formula = !operator_in(formula).is_empty();
    operands(formula).find_map(|path| {
        let below = below_scheme(path, order);
        // The first key of a formula's path is a scheme.
        if is_formula && below == path {
            let label = path.split('.').next().unwrap_or(path);
            let meant = did_you_mean(label, order.iter().map(String::as_str));
            return Some(format!("\"{label}\" is no scheme here ({}){meant}", order.join(", ")));
        }
        wrong_key(below, &scheme, rows)
    })
}

/// Returns what is wrong with the first key of `path` that does not exist in `scheme`; `None` if all do, or nothing is near.
fn wrong_key(path: &str, scheme: &Value, rows: &[&str]) -> Option<String> {
    let keys: Vec<&str> = path.split('.').collect();
    let mut value = scheme;
    for (depth, key) in keys.iter().enumerate() {
        let child = match value {
            Value::Object(map) if *key == "*" => map.values().next(),
            Value::Array(list) if *key == "*" => list.first(),
            Value::Array(list) => key.parse::<usize>().ok().and_then(|index| list.get(index)),
            _ => value.get(*key),
        };
        if let Some(child) = child {
            value = child;
            continue;
        }
        let parent = keys[..depth].join(".");
        let known: Vec<&str> = match value {
            Value::Object(map) => map.keys().map(String::as_str).collect(),
            Value::Array(list) => {
                return Some(format!("{parent} has the indices 0 to {}", list.len().saturating_sub(1)));
            }
            _ => return Some(format!("{parent} is a number")),
        };
        let rows = rows.iter().copied().filter(|_| depth == 0);
        return match closest_match(key, known.iter().copied().chain(rows)) {
            Some(meant) => {
                let rest = [&keys[..depth], &[meant], &keys[depth + 1..]].concat().join(".");
                Some(format!("did you mean \"{rest}\"?"))
            }
            None if depth == 0 => None,
            None => Some(format!("{parent} has {}", listed(&known))),
        };
    }
    let keys = value.as_object()?.keys().map(String::as_str).collect::<Vec<_>>();
    Some(format!("it is no number; it has {}", listed(&keys)))
}

/// Joins the first of these names.
fn listed(names: &[&str]) -> String {
    /// Maximum number of names in a message.
    const MAX_LISTED: usize = 12;
    let rest = if names.len() > MAX_LISTED { ", ..." } else { "" };
    names[..names.len().min(MAX_LISTED)].join(", ") + rest
}

/// Returns a path without the label of a scheme in front.
pub(crate) fn below_scheme<'a>(path: &'a str, order: &[String]) -> &'a str {
    let rest = |label: &String| path.strip_prefix(label.as_str())?.strip_prefix('.');
    order.iter().find_map(rest).unwrap_or(path)
}
