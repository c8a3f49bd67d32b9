//! The metrics that a sweep shows for each run.

use super::stats::Estimate;
use crate::format;
use crate::formula::{
    self, COUNTS_BY_REASON, Expansion, SizeClass, below_scheme, expand, operands, suggestion,
};
use crate::metrics::{self, MetricDefinition, OF_FLOWS};
use crate::unit::ValueUnit;
use std::collections::BTreeMap;
use weir_experiment::results::Summary;

/// A metric with a value for each run, or for each scheme of each run.
#[derive(Clone, Debug)]
pub struct MetricColumn {
    pub name: String,
    source: MetricSource,
    /// The size class of the flows that it covers; `None`: all sizes.
    class: Option<SizeClass>,
    /// True if the class was given by a wildcard. Then runs in which its bounds are different have no value.
    is_class_fixed: bool,
}

#[derive(Clone, Debug)]
enum MetricSource {
    /// A metric of the report's summary table.
    Row(&'static MetricDefinition),
    /// A path in the summary of each scheme, or a formula with paths that include schemes.
    Formula(String),
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
        let read = |name: &str, text: &str| {
            let formula = || MetricSource::Formula(text.to_owned());
            let source = metrics::by_name(text).map_or_else(formula, MetricSource::Row);
            let scheme = order.first().and_then(|label| serde_json::to_value(first.schemes.get(label)?).ok());
            let class = match &source {
                MetricSource::Formula(formula) => {
                    let path = operands(formula).next().unwrap_or_default();
                    scheme.and_then(|scheme| SizeClass::of_path(below_scheme(path, order), &scheme))
                }
                MetricSource::Row(_) => None,
            };
            let measure = MetricColumn { name: name.to_owned(), source, class, is_class_fixed: false };
            (!measure.values(first, order).is_empty()).then_some(measure)
        };
        // Labels of schemes may contain `=`, so the whole text is tried first.
        let with_heading = || text.split_once('=').and_then(|(name, text)| read(name.trim(), text.trim()));
        read(text.trim(), text.trim()).or_else(with_heading).ok_or_else(|| {
            let rows = metrics::metrics(first, order);
            let rows: Vec<&str> = rows.iter().map(|row| row.definition.name).collect();
            match suggestion(text, &rows, first, order) {
                Some(meant) => format!("{text}: unknown metric; {meant}"),
                None => format!(
                    "{text}: unknown metric; use a path in summary.json such as fct.slowdown.p95, or one of: {}",
                    rows.join(", ")
                ),
            }
        })
    }

    /// Like [`parse`](Self::parse), for a text that may have wildcards: `fct.classes.*.slowdown.p99` is one metric for each
    /// class, whose name has the bounds of the class.
    ///
    /// # Errors
    ///
    /// If the summary of `first` has no such value.
    pub fn parse_all(text: &str, first: &Summary, order: &[String]) -> Result<Vec<MetricColumn>, String> {
        let read = |heading: Option<&str>, text: &str| {
            let columns =
                expand(text, first, order)?.into_iter().filter_map(|Expansion { formula, mut keys }| {
                    let column = MetricColumn::parse(&formula, first, order).ok()?;
                    let name = match (heading, &column.class) {
                        (None, Some(class)) => format!("{formula} ({class})"),
                        (None, None) => formula,
                        (Some(heading), class) => {
                            if let Some(class) = class {
                                let index = keys.iter_mut().rfind(|key| class.has_index(key));
                                index.into_iter().for_each(|key| *key = class.to_string());
                            }
                            format!("{heading} ({})", keys.join(", "))
                        }
                    };
                    Some(MetricColumn { name, is_class_fixed: column.class.is_some(), ..column })
                });
            Some(columns.collect::<Vec<_>>()).filter(|columns| !columns.is_empty())
        };
        // Labels of schemes may contain `=`, so the whole text is tried first.
        let with_heading =
            || text.split_once('=').and_then(|(name, text)| read(Some(name.trim()), text.trim()));
        match read(None, text.trim()).or_else(with_heading) {
            Some(columns) => Ok(columns),
            None => Ok(vec![MetricColumn::parse(text, first, order)?]),
        }
    }

    /// Like [`parse_all`](Self::parse_all), with the values that a wildcard stands for in any of `runs`, which have been
    /// [checked](super::metric_check); a column without values if no run has any, for example because none had flows.
    pub fn parse_for_runs(text: &str, runs: &[(&Summary, &[String])]) -> Vec<MetricColumn> {
        let mut columns: Vec<MetricColumn> = Vec::new();
        for (summary, order) in runs {
            for column in MetricColumn::parse_all(text, summary, order).unwrap_or_default() {
                if !columns.iter().any(|known| known.name == column.name) {
                    columns.push(column);
                }
            }
            if !columns.is_empty() && !text.contains('*') {
                break;
            }
        }
        if columns.is_empty() && !runs.is_empty() {
            let (name, formula) = text.split_once('=').unwrap_or((text, text));
            let source = MetricSource::Formula(formula.trim().to_owned());
            let name = name.trim().to_owned();
            columns.push(MetricColumn { name, source, class: None, is_class_fixed: false });
        }
        columns
    }

    /// Returns the metrics of the report's summary table that apply to these runs.
    pub fn default_columns(runs: &[(&Summary, &[String])]) -> Vec<MetricColumn> {
        let mut list: Vec<MetricColumn> = Vec::new();
        for (summary, order) in runs {
            for row in metrics::metrics(summary, order) {
                let is_informative = row.values.iter().flatten().any(|value| *value != 0.0);
                let name = row.definition.name;
                if is_informative && !list.iter().any(|measure| measure.name == name) {
                    let source = MetricSource::Row(row.definition);
                    list.push(MetricColumn {
                        name: name.to_owned(),
                        source,
                        class: None,
                        is_class_fixed: false,
                    });
                }
            }
        }
        list
    }

    /// Returns the unit; empty for counts and ratios.
    pub fn unit(&self) -> &str {
        match &self.source {
            MetricSource::Row(definition) => definition.unit,
            MetricSource::Formula(formula) if formula.contains(" vs ") => "%",
            MetricSource::Formula(formula) if formula.contains(" / ") => "",
            MetricSource::Formula(path) => ValueUnit::of_path(path).text(),
        }
    }

    /// Returns the name for a heading, with the size class if the name does not have it.
    pub fn heading(&self) -> String {
        match &self.class {
            Some(class) if !self.is_class_fixed => format!("{} ({class})", self.name),
            _ => self.name.clone(),
        }
    }

    /// Returns the least and the largest possible value.
    fn domain(&self) -> (f64, f64) {
        let text = match &self.source {
            MetricSource::Row(definition) => return definition.domain,
            MetricSource::Formula(formula) => formula.as_str(),
        };
        let last = text.rsplit('.').next().unwrap_or(text);
        let has_key = |key: &str| text.split('.').any(|part| part == key);
        let is_slowdown =
            has_key("slowdown") || (has_key("by_size") && !["upto_bytes", "count"].contains(&last));
        match text {
            _ if text.contains(" vs ") => (-100.0, f64::INFINITY),
            _ if text.contains(" / ") => (0.0, f64::INFINITY),
            _ if is_slowdown => (1.0, f64::INFINITY),
            _ if has_key("utilisation") || last == "jain" || last.contains("_share") => (0.0, 1.0),
            // Times, sizes, rates and counts.
            _ => (0.0, f64::INFINITY),
        }
    }

    /// Returns the mean of the values with its confidence interval; `None` if there are no values.
    pub fn estimate(&self, values: &[f64]) -> Option<Estimate> {
        Some(Estimate { domain: self.domain(), ..Estimate::from_values(values)? })
    }

    /// Returns the last key of a path that is a mean or percentile of a sample.
    fn statistic(path: &str) -> Option<&str> {
        let last = path.rsplit('.').next()?.trim_end_matches("_us");
        let is_percentile =
            |text: &str| text.strip_prefix('p').is_some_and(|rank| rank.parse::<u8>().is_ok());
        (last == "mean" || is_percentile(last)).then_some(last)
    }

    /// Returns the count by reason that it is, such as `drops.buffer_full`; `None` for other metrics.
    pub fn reason(&self) -> Option<(&'static str, &str)> {
        let MetricSource::Formula(formula) = &self.source else { return None };
        COUNTS_BY_REASON.into_iter().find_map(|map| {
            let (_, reason) = formula
                .rsplit_once(&format!("{map}."))
                .filter(|(before, _)| before.is_empty() || before.ends_with('.'))?;
            (!reason.contains(['.', ' '])).then_some((map, reason))
        })
    }

    /// Returns whether it is a row of the summary table that is measured at the bottleneck.
    pub fn is_at_port(&self) -> bool {
        matches!(self.source, MetricSource::Row(definition) if definition.is_at_port())
    }

    /// Returns whether it is a mean or percentile of completion times of flows.
    pub fn is_of_flows(&self) -> bool {
        match &self.source {
            MetricSource::Row(definition) => definition.sample == Some(OF_FLOWS),
            MetricSource::Formula(formula) => {
                MetricColumn::statistic(formula).is_some() && formula.contains("fct.")
            }
        }
    }

    /// Returns the rank of a metric that is a percentile: 99 for `p99`.
    pub fn percentile(&self) -> Option<u8> {
        match &self.source {
            MetricSource::Row(definition) => definition.percentile(),
            MetricSource::Formula(formula) => {
                MetricColumn::statistic(formula)?.strip_prefix('p')?.parse().ok()
            }
        }
    }

    /// Returns the numbers of flows or jobs over which a run has computed a mean or percentile, of all schemes; empty for
    /// other metrics.
    pub fn sample_sizes(&self, summary: &Summary, order: &[String]) -> Vec<u64> {
        let paths: Vec<&str> = match &self.source {
            MetricSource::Row(definition) => definition.sample.into_iter().collect(),
            MetricSource::Formula(formula) => match MetricColumn::statistic(formula) {
                Some(_) => operands(formula).collect(),
                None => Vec::new(),
            },
        };
        // The count is in the object of the statistic or in one that contains it.
        let count = |path: &str| {
            let mut outer = path.match_indices('.').rev().map(|(dot, _)| &path[..dot]);
            outer.find_map(|path| formula::value(&format!("{path}.count"), summary))
        };
        let paths = paths.into_iter().flat_map(|path| {
            order.iter().map(move |label| format!("{label}.{path}")).chain([path.to_owned()])
        });
        paths.filter_map(|path| count(&path)).map(|count| count as u64).collect()
    }

    /// Returns the values of a run.
    pub fn values(&self, summary: &Summary, order: &[String]) -> BTreeMap<Subject, f64> {
        if let (Some(class), true) = (&self.class, self.is_class_fixed) {
            let mut schemes = summary.schemes.values().filter_map(|scheme| serde_json::to_value(scheme).ok());
            if !schemes.any(|scheme| class.is_in(&scheme)) {
                return BTreeMap::new();
            }
        }
        match &self.source {
            MetricSource::Row(definition) => {
                let port = metrics::bottleneck(summary);
                let value = |label: &String| definition.value(summary.schemes.get(label)?, port);
                order.iter().filter_map(|label| Some((Some(label.clone()), value(label)?))).collect()
            }
            MetricSource::Formula(formula) => {
                let value_of = |label: &String| formula::value(&format!("{label}.{formula}"), summary);
                let by_scheme: BTreeMap<Subject, f64> =
                    order.iter().filter_map(|label| Some((Some(label.clone()), value_of(label)?))).collect();
                if by_scheme.is_empty() {
                    return formula::value(formula, summary).map(|value| (None, value)).into_iter().collect();
                }
                by_scheme
            }
        }
    }

    /// Formats a value for a column whose heading has the [`unit`](Self::unit).
    pub fn number(&self, value: f64) -> String {
        match self.source {
            MetricSource::Row(definition) => format::decimal(value, definition.decimals),
            MetricSource::Formula(_) if self.unit() == "bytes" => format::decimal(value, 0),
            MetricSource::Formula(_) if self.unit() == "%" => format!("{value:+.1}"),
            MetricSource::Formula(_) => format::significant(value),
        }
    }

    /// Formats the confidence interval with the decimals of the mean: `± 0.02`, or `(1.00 to 4.20)` where the interval ends
    /// at the least or largest possible value; `None` for a single run.
    pub fn interval_text(&self, estimate: &Estimate) -> Option<String> {
        let mean = self.number(estimate.mean);
        let decimals = mean.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let half = estimate.half_width?;
        let (low, high) = estimate.interval();
        Some(match estimate.is_cut_off() {
            true => format!("({} to {})", format::decimal(low, decimals), format::decimal(high, decimals)),
            false => format!("± {}", format::decimal(half, decimals)),
        })
    }

    /// Formats an estimate: `1.50 ± 0.02`.
    pub fn text(&self, estimate: &Estimate) -> String {
        let mean = self.number(estimate.mean);
        match self.interval_text(estimate) {
            Some(interval) => format!("{mean} {interval}"),
            None => mean,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use weir_experiment::results::{FctClass, Percentiles, Results};

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
        assert!(reason.starts_with("fct.slowdwon.p95: unknown metric"), "{reason}");
    }

    #[test]
    fn an_unknown_metric_has_a_suggestion() {
        let results = fixtures::workload();
        let reason = |text: &str| {
            let error = MetricColumn::parse(text, &results.summary, &results.order).unwrap_err();
            error.split_once(": unknown metric; ").unwrap().1.to_owned()
        };
        for (text, expected) in [
            ("peak queu", "did you mean \"peak queue\"?"),
            ("x=fct.slowdwon.p95", "did you mean \"fct.slowdown.p95\"?"),
            ("fct.slowdown.p96", "did you mean \"fct.slowdown.p95\"?"),
            ("fct.slowdown.maximum", "fct.slowdown has mean, p50, p95, p99"),
            ("queues.s1:1", "it is no number; it has mean_bytes, p99_bytes, peak_bytes"),
            ("fct.by_size.90.count", "fct.by_size has the indices 0 to 19"),
            ("marks.all", "marks is a number"),
            (
                "fnc.marks vs hpcc.marks",
                "\"fnc\" is no scheme here (fncc, hpcc, dcqcn); did you mean \"fncc\"?",
            ),
        ] {
            assert_eq!(reason(text), expected, "{text}");
        }
        assert!(reason("nothing like it").starts_with("use a path in summary.json"));
    }

    #[test]
    fn an_interval_has_the_decimals_of_its_mean() {
        let results = fixtures::dumbbell();
        let measure =
            MetricColumn::parse("queues.s1:3.mean_bytes", &results.summary, &results.order).unwrap();
        let slowdown = MetricColumn::parse("first_slowdown_us", &results.summary, &results.order).unwrap();
        let estimate =
            |mean, half| Estimate { half_width: Some(half), ..measure.estimate(&[mean; 3]).unwrap() };
        assert_eq!(slowdown.text(&estimate(3.36, 0.0)), "3.36 ± 0.00");
        assert_eq!(slowdown.text(&estimate(11.36, 0.0004)), "11.4 ± 0.0");
        assert_eq!(measure.text(&estimate(1500.0, 2.5)), "1,500 ± 2");
    }

    /// Results of two schemes with 30 short flows and 200 long ones.
    fn with_classes() -> Results {
        let mut results = fixtures::dumbbell();
        let percentiles = Percentiles { mean: 1.5, p50: 1.2, p95: 2.0, p99: 3.0 };
        let class = |over_bytes, upto_bytes, count| FctClass {
            over_bytes,
            upto_bytes,
            count,
            slowdown: Some(percentiles),
            ..FctClass::default()
        };
        for scheme in results.summary.schemes.values_mut() {
            scheme.fct.classes = vec![class(0, Some(100_000), 30), class(100_000, None, 200)];
        }
        results
    }

    #[test]
    fn a_wildcard_is_one_column_for_each_class() {
        let results = with_classes();
        let (summary, order) = (&results.summary, &results.order);
        let columns = |text: &str| MetricColumn::parse_all(text, summary, order).unwrap();
        let names = |text: &str| columns(text).into_iter().map(|column| column.name).collect::<Vec<_>>();
        assert_eq!(
            names("fct.classes.*.slowdown.p99"),
            ["fct.classes.0.slowdown.p99 (up to 100 KB)", "fct.classes.1.slowdown.p99 (above 100 KB)"]
        );
        assert_eq!(names("tail=fct.classes.*.slowdown.p99"), ["tail (up to 100 KB)", "tail (above 100 KB)"]);
        assert_eq!(names("queues.*.peak_bytes").len(), 3);
        assert_eq!(names("q=queues.*.peak_bytes")[0], "q (s1:3)");
        let changes = columns("fncc.fct.classes.*.slowdown.p99 vs hpcc eta=0.95.fct.classes.*.slowdown.p99");
        assert_eq!((changes.len(), changes[0].values(summary, order)[&None]), (2, 0.0));
        assert_eq!(names("marks"), ["marks"]);
        assert!(MetricColumn::parse_all("fct.clases.*.slowdown.p99", summary, order).is_err());
        let column = &columns("fct.classes.*.slowdown.p99")[0];
        assert_eq!(
            (column.values(summary, order).len(), column.sample_sizes(summary, order)),
            (2, vec![30, 30])
        );
        // The same index is another class in a run with other bounds.
        let mut other = summary.clone();
        other.schemes.values_mut().for_each(|scheme| scheme.fct.classes[0].upto_bytes = Some(1_000));
        assert!(column.values(&other, order).is_empty());
        let explicit = MetricColumn::parse("fct.classes.0.slowdown.p99", summary, order).unwrap();
        assert_eq!(
            (explicit.values(&other, order).len(), explicit.name.as_str()),
            (2, "fct.classes.0.slowdown.p99")
        );
        assert_eq!(explicit.heading(), "fct.classes.0.slowdown.p99 (up to 100 KB)");
    }

    #[test]
    fn an_interval_has_only_possible_values() {
        let results = with_classes();
        let column = |text: &str| MetricColumn::parse(text, &results.summary, &results.order).unwrap();
        let slowdown = column("fct.classes.0.slowdown.p99").estimate(&[1.0, 4.0, 1.3]).unwrap();
        assert_eq!(slowdown.interval().0, 1.0, "a slowdown is at least 1");
        assert_eq!(column("fct.classes.0.slowdown.p99").text(&slowdown), "2.10 (1.00 to 6.20)");
        assert_eq!(column("jain").estimate(&[0.2, 1.0]).unwrap().interval(), (0.0, 1.0));
        assert_eq!(column("peak queue").estimate(&[0.0, 9.0]).unwrap().interval().0, 0.0);
    }

    #[test]
    fn default_columns_have_values_other_than_zero() {
        let results = fixtures::dumbbell();
        let columns = MetricColumn::default_columns(&[(&results.summary, &results.order)]);
        let names: Vec<&str> = columns.iter().map(|measure| measure.name.as_str()).collect();
        assert!(names.contains(&"peak queue") && !names.contains(&"drops"), "{names:?}");
    }
}
