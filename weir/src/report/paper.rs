//! "The paper says, we measured": values from `summary.json` beside published ones.

use super::format;
use serde_json::Value;
use weir_sim::results::Summary;

/// A published value, and where ours is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaperValue {
    /// What was measured.
    pub what: String,
    /// What the paper says, in its words.
    pub value: String,
    /// Ours: a path into `schemes` of `summary.json` such as `fncc.queues.s1:3.peak_bytes`, or the
    /// quotient of two, `fncc.first_slowdown_us / hpcc.first_slowdown_us`.
    pub ours: Option<String>,
}

/// Our value as text; `None` when the note names none, or nothing of the summary.
pub fn ours(note: &PaperValue, summary: &Summary) -> Option<String> {
    let schemes = serde_json::to_value(&summary.schemes).ok()?;
    let number = |path: &str| find(&schemes, path.trim())?.as_f64();
    let formula = note.ours.as_deref()?;
    let value = match formula.split_once(" / ") {
        Some((above, below)) => number(above)? / number(below)?,
        None => number(formula)?,
    };
    value.is_finite().then(|| format::significant(value))
}

/// Follows a path of keys joined by dots. A key may have dots in it (`hpcc eta=0.95`), so every key
/// that begins the path is tried.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn value(formula: &str) -> Option<String> {
        let note = PaperValue { ours: Some(formula.into()), ..PaperValue::default() };
        ours(&note, &sample::dumbbell().summary)
    }

    #[test]
    fn finds_numbers_and_quotients() {
        assert_eq!(value("fncc.first_slowdown_us").as_deref(), Some("304"));
        assert_eq!(value("hpcc eta=0.95.queues.s1:3.peak_bytes").as_deref(), Some("180,000"));
        let quotient = value("fncc.queues.s1:3.peak_bytes / hpcc eta=0.95.queues.s1:3.peak_bytes");
        assert_eq!(quotient.as_deref(), Some("0.667"));
    }

    #[test]
    fn what_is_not_there_is_none() {
        for formula in ["dcqcn.marks", "fncc", "fncc.queues.s9:1.peak_bytes", "fncc.marks / fncc.marks", ""] {
            assert_eq!(value(formula), None, "{formula}");
        }
    }
}
