//! The metrics that a sweep shows for each run.

use super::stats::Estimate;
use crate::metrics::{self, Metric};
use crate::{format, paper_value};
use std::collections::BTreeMap;
use weir_experiment::results::{Results, Summary};

/// A metric with a value for each run, or for each scheme of each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricColumn {
    pub name: String,
    source: MetricSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MetricSource {
    /// A metric of the report's summary table.
    Row { row: &'static str, decimals: usize, unit: &'static str },
    /// A path in the summary of each scheme, or a formula with paths that include schemes.
    Formula(String),
}

impl MetricSource {
    fn row(row: &Metric) -> MetricSource {
        MetricSource::Row { row: row.name, decimals: row.decimals, unit: row.unit }
    }
}

/// The subject of a value: a scheme, or the whole run (`None`).
pub type Subject = Option<String>;

impl MetricColumn {
    /// Parses `fct.slowdown.p95`, `fncc.marks vs hpcc.marks` or `peak queue`, optionally with `HEADING=` in front.
    /// `first` is the summary of a run of the sweep, `order` the order of its schemes.
    ///
    /// # Errors
    ///
    /// If the summary of `first` has no such value.
    pub fn parse(text: &str, first: &Summary, order: &[String]) -> Result<MetricColumn, String> {
        let rows = metrics::metrics(&without_traces(first, order));
        let read = |name: &str, text: &str| {
            let row = rows.iter().find(|row| row.name == text);
            let source = row.map_or_else(|| MetricSource::Formula(text.to_owned()), MetricSource::row);
            let measure = MetricColumn { name: name.to_owned(), source };
            (!measure.values(first, order).is_empty()).then_some(measure)
        };
        // Labels of schemes may contain `=`, so the whole text is tried first.
        let with_heading = || text.split_once('=').and_then(|(name, text)| read(name.trim(), text.trim()));
        read(text.trim(), text.trim()).or_else(with_heading).ok_or_else(|| {
            let rows: Vec<&str> = rows.iter().map(|row| row.name).collect();
            let rows = rows.join(", ");
            format!("{text}: unknown metric; use a path in summary.json such as fct.slowdown.p95, or one of: {rows}")
        })
    }

    /// Returns the metrics of the report's summary table that apply to these runs.
    pub fn default_columns(runs: &[(&Summary, &[String])]) -> Vec<MetricColumn> {
        let mut list: Vec<MetricColumn> = Vec::new();
        for (summary, order) in runs {
            for row in metrics::metrics(&without_traces(summary, order)) {
                let is_informative = row.values.iter().flatten().any(|value| *value != 0.0);
                if is_informative && !list.iter().any(|measure| measure.name == row.name) {
                    list.push(MetricColumn { name: row.name.to_owned(), source: MetricSource::row(&row) });
                }
            }
        }
        list
    }

    /// Returns the unit; empty for counts and ratios.
    pub fn unit(&self) -> &str {
        match &self.source {
            MetricSource::Row { unit, .. } => unit,
            MetricSource::Formula(formula) if formula.contains(" vs ") => "%",
            MetricSource::Formula(formula) if formula.contains(" / ") => "",
            MetricSource::Formula(formula) if formula.ends_with("_us") => "us",
            MetricSource::Formula(formula) if formula.ends_with("_bytes") => "bytes",
            MetricSource::Formula(_) => "",
        }
    }

    /// Returns the values of a run.
    pub fn values(&self, summary: &Summary, order: &[String]) -> BTreeMap<Subject, f64> {
        match &self.source {
            MetricSource::Row { row, .. } => {
                let rows = metrics::metrics(&without_traces(summary, order));
                let row = rows.iter().find(|other| other.name == *row);
                let values = row.into_iter().flat_map(|row| order.iter().zip(&row.values));
                values.filter_map(|(label, value)| Some((Some(label.clone()), (*value)?))).collect()
            }
            MetricSource::Formula(formula) => {
                let value_of = |label: &String| paper_value::value(&format!("{label}.{formula}"), summary);
                let by_scheme: BTreeMap<Subject, f64> =
                    order.iter().filter_map(|label| Some((Some(label.clone()), value_of(label)?))).collect();
                if by_scheme.is_empty() {
                    return paper_value::value(formula, summary)
                        .map(|value| (None, value))
                        .into_iter()
                        .collect();
                }
                by_scheme
            }
        }
    }

    /// Formats a value for a column whose heading has the [`unit`](Self::unit).
    pub fn number(&self, value: f64) -> String {
        match self.source {
            MetricSource::Row { decimals, .. } => format::decimal(value, decimals),
            MetricSource::Formula(_) if self.unit() == "bytes" => format::decimal(value, 0),
            MetricSource::Formula(_) if self.unit() == "%" => format!("{value:+.1}"),
            MetricSource::Formula(_) => format::significant(value),
        }
    }

    /// Formats half the width of the confidence interval with the decimals of the mean; `None` for a single run.
    pub fn half_width_text(&self, estimate: &Estimate) -> Option<String> {
        let mean = self.number(estimate.mean);
        let decimals = mean.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        estimate.half_width.map(|half| format::decimal(half, decimals))
    }

    /// Formats an estimate: `1.50 ± 0.02`.
    pub fn text(&self, estimate: &Estimate) -> String {
        let mean = self.number(estimate.mean);
        match self.half_width_text(estimate) {
            Some(half) => format!("{mean} ± {half}"),
            None => mean,
        }
    }
}

fn without_traces(summary: &Summary, order: &[String]) -> Results {
    Results { summary: summary.clone(), traces: BTreeMap::new(), order: order.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn parses_paths_formulas_and_rows() {
        let results = fixtures::dumbbell();
        let (summary, order) = (&results.summary, &results.order);
        let read = |text: &str| MetricColumn::parse(text, summary, order);
        let values = |text: &str| read(text).unwrap().values(summary, order);
        let hpcc = Some("hpcc eta=0.95".to_owned());
        assert_eq!(values("queues.s1:3.peak_bytes")[&hpcc], 180_000.0);
        assert_eq!(values("peak queue")[&hpcc], 180.0);
        assert_eq!(values("peak queue").len(), 2);
        let change = values("queue=fncc.queues.s1:3.peak_bytes vs hpcc eta=0.95.queues.s1:3.peak_bytes");
        assert!((change[&None] + 33.333).abs() < 0.01 && change.len() == 1);
        let named = read("most=peak queue").unwrap();
        assert_eq!((named.name.as_str(), named.unit()), ("most", "KB"));
        assert_eq!(named.values(summary, order), values("peak queue"));
        assert_eq!(values("hpcc eta=0.95.first_slowdown_us")[&None], 331.0);
        let reason = read("fct.slowdwon.p95").unwrap_err();
        assert!(reason.contains("slowdwon") && reason.contains("mean queue"), "{reason}");
    }

    #[test]
    fn an_interval_has_the_decimals_of_its_mean() {
        let results = fixtures::dumbbell();
        let measure =
            MetricColumn::parse("queues.s1:3.mean_bytes", &results.summary, &results.order).unwrap();
        let slowdown = MetricColumn::parse("first_slowdown_us", &results.summary, &results.order).unwrap();
        let estimate = |mean, half| Estimate { runs: 3, mean, half_width: Some(half) };
        assert_eq!(slowdown.text(&estimate(3.36, 0.0)), "3.36 ± 0.00");
        assert_eq!(slowdown.text(&estimate(11.36, 0.0004)), "11.4 ± 0.0");
        assert_eq!(measure.text(&estimate(1500.0, 2.5)), "1,500 ± 2");
    }

    #[test]
    fn default_columns_have_values_other_than_zero() {
        let results = fixtures::dumbbell();
        let columns = MetricColumn::default_columns(&[(&results.summary, &results.order)]);
        let names: Vec<&str> = columns.iter().map(|measure| measure.name.as_str()).collect();
        assert!(names.contains(&"peak queue") && !names.contains(&"drops"), "{names:?}");
    }
}
