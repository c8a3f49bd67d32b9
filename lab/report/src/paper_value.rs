//! "The paper says, we measured": values from `summary.json` beside published ones.

use super::format;
use super::metrics::LONG_US;
use serde_json::Value;
use weir_experiment::results::Summary;
use weir_units::Time;

/// A published value, and where ours is found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaperValue {
    /// The quantity that was measured.
    pub what: String,
    /// The paper's value, in its words.
    pub value: String,
    /// Figure or section; may be empty.
    pub source: String,
    /// Ours: a path into `schemes` of `summary.json` such as `fncc.queues.s1:3.peak_bytes`; the
    /// quotient of two, `A / B`; or by how much one differs from the other, `A vs B`, in percent.
    pub ours: Option<String>,
    /// The reason why ours differs, if it is known.
    pub reason: Option<String>,
}

/// Returns what a [`PaperValue::ours`] comes to; `None` when it asks for nothing that the summary has.
pub fn value(formula: &str, summary: &Summary) -> Option<f64> {
    let schemes = serde_json::to_value(&summary.schemes).ok()?;
    let number = |path: &str| match find(&schemes, path.trim()) {
        // `drops` is of all reasons; of none the sum would be -0.
        Some(Value::Object(counts)) => {
            counts.values().map(Value::as_f64).sum::<Option<f64>>().map(|sum| sum + 0.0)
        }
        Some(value) => value.as_f64(),
        None => {
            let (scheme, count) = path.trim().rsplit_once('.')?;
            (ABSENT_IF_ZERO.contains(&count) && find(&schemes, scheme).is_some()).then_some(0.0)
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

/// Counts that `summary.json` leaves out where there were none.
const ABSENT_IF_ZERO: [&str; 2] = ["timeouts", "suppressions"];
const QUOTIENT: &str = " / ";
const CHANGE: &str = " vs ";

/// Returns a value of `formula` as text, with the unit that the end of its path names.
pub fn text(formula: &str, value: f64) -> String {
    match formula.trim() {
        f if f.contains(CHANGE) => format!("{value:+.1} %"),
        f if f.contains(QUOTIENT) => format::significant(value),
        f if f.ends_with("_us") && value >= LONG_US => format::duration(Time::from_secs_f64(value / 1e6)),
        f if f.ends_with("_us") => format!("{} us", format::decimal(value, 1)),
        f if f.ends_with("_bytes") => format::bytes(value),
        _ => format::significant(value),
    }
}

/// Our value as text; `None` when the note asks for none, or for nothing that the summary has.
pub fn ours(note: &PaperValue, summary: &Summary) -> Option<String> {
    let formula = note.ours.as_deref()?;
    Some(text(formula, value(formula, summary)?))
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
    use crate::fixtures;

    fn value(formula: &str) -> Option<String> {
        let note = PaperValue { ours: Some(formula.into()), ..PaperValue::default() };
        ours(&note, &fixtures::dumbbell().summary)
    }

    #[test]
    fn finds_numbers_quotients_and_changes() {
        assert_eq!(value("fncc.first_slowdown_us").as_deref(), Some("304.0 us"));
        assert_eq!(value("hpcc eta=0.95.queues.s1:3.peak_bytes").as_deref(), Some("180 KB"));
        let quotient = value("fncc.queues.s1:3.peak_bytes / hpcc eta=0.95.queues.s1:3.peak_bytes");
        assert_eq!(quotient.as_deref(), Some("0.667"));
        let change = value("fncc.queues.s1:3.peak_bytes vs hpcc eta=0.95.queues.s1:3.peak_bytes");
        assert_eq!(change.as_deref(), Some("-33.3 %"));
    }

    #[test]
    fn counts_that_are_left_out_are_zero() {
        assert_eq!(value("fncc.timeouts").as_deref(), Some("0"));
        assert_eq!(value("fncc.drops").as_deref(), Some("0"));
        assert_eq!(value("nobody.timeouts"), None);
    }

    #[test]
    fn missing_values_are_none() {
        for formula in ["dcqcn.marks", "fncc", "fncc.queues.s9:1.peak_bytes", "fncc.marks / fncc.marks", ""] {
            assert_eq!(value(formula), None, "{formula}");
        }
    }
}
