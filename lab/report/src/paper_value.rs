//! Values of `summary.json` next to values published in papers.

use super::format;
use super::formula::{self, CHANGE, QUOTIENT, operator_in};
use super::metrics::LONG_US;
use super::unit::ValueUnit;
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

/// Formats a value of `formula` with the unit that follows from the last key of its path.
pub fn text(formula: &str, value: f64) -> String {
    match operator_in(formula) {
        CHANGE => format!("{value:+.1} %"),
        QUOTIENT => format::significant(value),
        _ => match ValueUnit::of_path(formula.trim()) {
            ValueUnit::Microseconds if value >= LONG_US => format::duration(Time::from_secs_f64(value / 1e6)),
            ValueUnit::Microseconds => format!("{} us", format::decimal(value, 1)),
            ValueUnit::Bytes => format::bytes(value),
            unit @ (ValueUnit::Gbps | ValueUnit::BitsPerSecond) => {
                format!("{} {}", format::significant(value), unit.text())
            }
            ValueUnit::None => format::significant(value),
        },
    }
}

/// Returns the measured value as text; `None` if the note has no formula, or the summary lacks a value.
pub fn measured(note: &PaperValue, summary: &Summary) -> Option<String> {
    let formula = note.ours.as_deref()?;
    Some(text(formula, formula::value(formula, summary)?))
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
