//! Values of `summary.json` next to values published in papers.

use super::format;
use super::metrics::{LONG_US, ValueUnit};
use serde_json::Value;
use weir_experiment::results::Summary;
use weir_units::Time;

/// A published value, and the path of the measured one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaperValue {
    /// The quantity that was measured.
    pub what: String,
    /// The paper's value, as printed.
    pub value: String,
    /// Figure or section; may be empty.
    pub source: String,
    /// Measured value: a path below `schemes` of `summary.json` such as `fncc.queues.s1:3.peak_bytes`, the quotient
    /// of two paths, `A / B`, or the change from B to A in percent, `A vs B`. `None`: no measured value.
    pub ours: Option<String>,
    /// Reason for a difference from the paper, if known.
    pub reason: Option<String>,
}

/// Evaluates a formula, see [`PaperValue::ours`]; `None` if the summary lacks a value.
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
const QUOTIENT: &str = " / ";
const CHANGE: &str = " vs ";

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

/// Formats a value of `formula` with the unit that follows from the last key of its path.
pub fn text(formula: &str, value: f64) -> String {
    match operator_in(formula) {
        CHANGE => format!("{value:+.1} %"),
        QUOTIENT => format::significant(value),
        _ => match ValueUnit::of_path(formula.trim()) {
            ValueUnit::Microseconds if value >= LONG_US => format::duration(Time::from_secs_f64(value / 1e6)),
            ValueUnit::Microseconds => format!("{} us", format::decimal(value, 1)),
            ValueUnit::Bytes => format::bytes(value),
            ValueUnit::Gbps => format!("{} Gbit/s", format::significant(value)),
            ValueUnit::None => format::significant(value),
        },
    }
}

/// Returns the measured value as text; `None` if the note has no formula, or the summary lacks a value.
pub fn measured(note: &PaperValue, summary: &Summary) -> Option<String> {
    let formula = note.ours.as_deref()?;
    Some(text(formula, value(formula, summary)?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn value(formula: &str) -> Option<String> {
        let note = PaperValue { ours: Some(formula.into()), ..PaperValue::default() };
        measured(&note, &fixtures::dumbbell().summary)
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
    fn omitted_counts_are_zero() {
        assert_eq!(value("fncc.timeouts").as_deref(), Some("0"));
        assert_eq!(value("fncc.drops").as_deref(), Some("0"));
        assert_eq!(value("unknown.timeouts"), None);
    }

    #[test]
    fn missing_values_are_none() {
        for formula in ["dcqcn.marks", "fncc", "fncc.queues.s9:1.peak_bytes", "fncc.marks / fncc.marks", ""] {
            assert_eq!(value(formula), None, "{formula}");
        }
    }
}
