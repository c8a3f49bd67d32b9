//! What an unknown metric probably means.

use crate::paper_value;
use serde_json::Value;
use weir_experiment::results::Summary;
use weir_experiment::suggest::{closest_match, did_you_mean};

/// Returns what an unknown metric probably means: `did you mean "fct.slowdown.p95"?`, or the keys at the place where its
/// path ends; `None` if nothing is near.
pub(super) fn suggestion(text: &str, rows: &[&str], summary: &Summary, order: &[String]) -> Option<String> {
    let scheme = order.first().and_then(|label| serde_json::to_value(summary.schemes.get(label)?).ok())?;
    let formula = text.split_once('=').map_or(text, |(_, formula)| formula).trim();
    let is_formula = !paper_value::operator_in(formula).is_empty();
    paper_value::operands(formula).find_map(|path| {
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
pub(super) fn below_scheme<'a>(path: &'a str, order: &[String]) -> &'a str {
    let rest = |label: &String| path.strip_prefix(label.as_str())?.strip_prefix('.');
    order.iter().find_map(rest).unwrap_or(path)
}
