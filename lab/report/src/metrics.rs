//! The metrics by which schemes are compared, for the tables on the terminal and in the HTML report: each with its name,
//! unit, definition, direction, range, sample and value in one place.

use super::format;
use BetterWhen::{Higher, Lower, Neither};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use weir_experiment::results::{JobTimes, Percentiles, QueueSummary, Results, SchemeSummary, Summary};

/// Direction in which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetterWhen {
    Lower,
    Higher,
    /// Neither direction is better: the metric only describes the run.
    Neither,
}

/// Definition of a metric.
#[derive(Debug)]
pub struct MetricDefinition {
    pub name: &'static str,
    /// Unit of values; empty for counts and ratios.
    pub unit: &'static str,
    /// Number of decimals.
    pub decimals: usize,
    /// Direction in which values are better.
    pub better: BetterWhen,
    /// Definition in one sentence; shown as tooltip of the column head.
    pub meaning: &'static str,
    /// Least and largest possible value.
    pub domain: (f64, f64),
    /// The path of the sample's size below a scheme in `summary.json`, if the metric is a mean or percentile of flows or
    /// jobs.
    pub sample: Option<&'static str>,
    /// Whether tables leave the metric out if it is 0 for every scheme, because it belongs to a mechanism that few
    /// experiments have.
    pub is_rare: bool,
    value: Value,
}

/// How the value follows from the results of a scheme; `None` if the metric does not apply to it.
#[derive(Clone, Copy, Debug)]
enum Value {
    /// A value of one port, by its name.
    AtPort(fn(&SchemeSummary, &str) -> Option<f64>),
    OfScheme(fn(&SchemeSummary) -> Option<f64>),
}

impl MetricDefinition {
    /// Returns the value of a scheme. `port` is the port for metrics of one port.
    pub fn value(&self, scheme: &SchemeSummary, port: Option<&str>) -> Option<f64> {
        match self.value {
            Value::AtPort(value) => value(scheme, port?),
            Value::OfScheme(value) => value(scheme),
        }
    }

    /// Returns whether the value is that of one port.
    pub fn is_at_port(&self) -> bool {
        matches!(self.value, Value::AtPort(_))
    }

    /// Returns the rank of a metric that is a percentile of a sample: 99 for `JCT p99`.
    pub fn percentile(&self) -> Option<u8> {
        self.sample.and(self.name.rsplit_once(" p")?.1.parse().ok())
    }
}

/// Returns the metric with this name.
pub fn by_name(name: &str) -> Option<&'static MetricDefinition> {
    ALL.iter().find(|metric| metric.name == name)
}

/// Returns the list as a Markdown table, for `docs/summary.md`.
pub fn markdown() -> String {
    let mut text = "| metric | unit | better | definition |\n|---|---|---|---|\n".to_owned();
    for MetricDefinition { name, unit, better, meaning, .. } in ALL {
        let better = match better {
            Lower => "lower",
            Higher => "higher",
            Neither => "",
        };
        writeln!(text, "| `{name}` | {unit} | {better} | {meaning} |").expect("a string takes everything");
    }
    text
}

/// [`MetricDefinition::sample`] of the completion times of flows.
pub const OF_FLOWS: &str = "fct.count";
const COUNT: (f64, f64) = (0.0, f64::INFINITY);
const KB: f64 = 1e3;

/// What most metrics are: a count.
const BASE: MetricDefinition = MetricDefinition {
    name: "",
    unit: "",
    decimals: 0,
    better: Lower,
    meaning: "",
    domain: COUNT,
    sample: None,
    is_rare: false,
    value: Value::OfScheme(|_| None),
};

const fn queue(
    name: &'static str,
    meaning: &'static str,
    value: fn(&SchemeSummary, &str) -> Option<f64>,
) -> MetricDefinition {
    MetricDefinition { name, unit: "KB", decimals: 1, meaning, value: Value::AtPort(value), ..BASE }
}

const fn count(
    name: &'static str,
    better: BetterWhen,
    meaning: &'static str,
    value: fn(&SchemeSummary) -> Option<f64>,
) -> MetricDefinition {
    MetricDefinition { name, better, meaning, value: Value::OfScheme(value), ..BASE }
}

const fn slowdown(
    name: &'static str,
    meaning: &'static str,
    value: fn(&SchemeSummary) -> Option<f64>,
) -> MetricDefinition {
    let sample = Some(OF_FLOWS);
    let value = Value::OfScheme(value);
    MetricDefinition { name, decimals: 2, meaning, domain: (1.0, f64::INFINITY), sample, value, ..BASE }
}

const fn job_time(
    name: &'static str,
    meaning: &'static str,
    value: fn(&SchemeSummary) -> Option<f64>,
) -> MetricDefinition {
    let (sample, value) = (Some("jobs.count"), Value::OfScheme(value));
    MetricDefinition { name, unit: "us", decimals: 1, meaning, sample, value, ..BASE }
}

/// All metrics, in the order of columns.
pub static ALL: &[MetricDefinition] = &[
    queue("peak queue", "maximum queue length of the bottleneck port", |scheme, port| {
        at(scheme, port, |queue| queue.peak_bytes as f64 / KB)
    }),
    queue("mean queue", "mean over the whole run, bottleneck port", |scheme, port| {
        at(scheme, port, |queue| queue.mean_bytes / KB)
    }),
    queue("p99 queue", "99th percentile of the samples, bottleneck port", |scheme, port| {
        at(scheme, port, |queue| queue.p99_bytes as f64 / KB)
    }),
    MetricDefinition {
        name: "utilisation",
        unit: "%",
        decimals: 1,
        better: Higher,
        meaning: "bytes sent / link capacity over the whole run, bottleneck port",
        domain: (0.0, 100.0),
        value: Value::AtPort(|scheme, port| scheme.utilisation.get(port).map(|share| 100.0 * share)),
        ..BASE
    },
    MetricDefinition {
        name: "first slowdown",
        unit: "us",
        decimals: 1,
        meaning: "time at which the first flow reduced its rate after another joined",
        value: Value::OfScheme(|scheme| scheme.first_slowdown_us),
        ..BASE
    },
    MetricDefinition {
        name: "Jain index",
        decimals: 4,
        better: Higher,
        meaning: "Jain's index of goodput in the fairness window; 1: equal shares",
        domain: (0.0, 1.0),
        value: Value::OfScheme(|scheme| scheme.jain),
        ..BASE
    },
    count("drops", Lower, "packets dropped in switches and hosts, all reasons", |scheme| {
        Some(scheme.drops.values().sum::<u64>() as f64)
    }),
    count("ECN marks", Neither, "packets marked CE by switches", |scheme| Some(scheme.marks as f64)),
    count("PFC pauses", Lower, "PFC pause frames sent, without resumes", |scheme| Some(scheme.pauses as f64)),
    count("retransmits", Lower, "retransmitted data packets", |scheme| Some(scheme.retransmits as f64)),
    MetricDefinition {
        is_rare: true,
        ..count("deflections", Neither, "packets deflected from a congested port", |scheme| {
            Some(scheme.deflections as f64)
        })
    },
    slowdown("FCT slowdown p50", "completion time of flows / that on an idle fabric, median", |scheme| {
        of_flows(scheme, |p| p.p50)
    }),
    slowdown("FCT slowdown p95", "the same, 95th percentile", |scheme| of_flows(scheme, |p| p.p95)),
    slowdown("FCT slowdown p99", "the same, 99th percentile", |scheme| of_flows(scheme, |p| p.p99)),
    count("unfinished", Lower, "flows with a size that had not finished at the end", |scheme| {
        let fct = &scheme.fct;
        (fct.count + fct.unfinished > 0).then_some(fct.unfinished as f64)
    }),
    count("jobs", Neither, "jobs that finished", |scheme| of_jobs(scheme, |jobs| jobs.count as f64)),
    job_time(
        "JCT p50",
        "completion time of jobs, from the first request to the last byte of the last response, median",
        |scheme| of_jobs(scheme, |jobs| jobs.p50_us),
    ),
    job_time("JCT p99", "the same, 99th percentile", |scheme| of_jobs(scheme, |jobs| jobs.p99_us)),
];

fn at(scheme: &SchemeSummary, port: &str, value: fn(&QueueSummary) -> f64) -> Option<f64> {
    scheme.queues.get(port).map(value)
}

fn of_flows(scheme: &SchemeSummary, value: fn(&Percentiles) -> f64) -> Option<f64> {
    scheme.fct.slowdown.as_ref().map(value)
}

fn of_jobs(scheme: &SchemeSummary, value: fn(&JobTimes) -> f64) -> Option<f64> {
    scheme.jobs.as_ref().map(value)
}

/// A metric with its value for every scheme.
pub struct Metric {
    pub definition: &'static MetricDefinition,
    /// Unit of values: the definition's, or a larger one ([`readable`](Metric::readable)).
    pub unit: &'static str,
    /// Number of decimals in this unit.
    pub decimals: usize,
    /// Value of each scheme, in the order of the experiment; `None` if the metric does not apply.
    pub values: Vec<Option<f64>>,
}

/// Times of at least this many microseconds are shown in a larger unit; they occur in scale models.
pub const LONG_US: f64 = 1e5;

impl Metric {
    /// Converts µs to s if a value is at least [`LONG_US`].
    pub fn readable(mut self) -> Metric {
        let max = self.values.iter().flatten().copied().fold(0.0, f64::max);
        if self.unit == "us" && max >= LONG_US {
            (self.unit, self.decimals) = ("s", 3);
            self.values.iter_mut().flatten().for_each(|value| *value /= 1e6);
        }
        self
    }

    /// Returns the value of scheme `index` as text.
    pub fn text(&self, index: usize) -> String {
        match self.values.get(index).copied().flatten() {
            Some(value) => format::decimal(value, self.decimals),
            None => "-".to_owned(),
        }
    }

    /// Returns whether the value of scheme `index` is the best, and the values differ when printed.
    pub fn is_best(&self, index: usize) -> bool {
        let texts: Vec<String> = (0..self.values.len()).map(|i| self.text(i)).collect();
        let texts_differ = texts.iter().any(|t| *t != texts[0]);
        let values = self.values.iter().flatten().copied();
        let best = match self.definition.better {
            BetterWhen::Lower => values.reduce(f64::min),
            BetterWhen::Higher => values.reduce(f64::max),
            BetterWhen::Neither => None,
        };
        let value = self.values.get(index).copied().flatten();
        texts_differ
            && best.is_some_and(|best| {
                value.is_some_and(|_| format::decimal(best, self.decimals) == texts[index])
            })
    }
}

/// Returns the bottleneck: the port with the largest mean queue over the run and all schemes; among equals the one with
/// the highest utilisation. Not the port with the largest peak, which may be that of a single burst. `None` if nothing was
/// sent.
pub fn bottleneck(summary: &Summary) -> Option<&str> {
    ports_by_congestion(summary.schemes.values()).into_iter().next()
}

/// Says at which port queue and utilisation of a summary table were measured, why there, and where the longest queue was
/// if that is another port.
pub fn port_note(results: &Results, port: &str) -> String {
    port_note_over(results, port, if results.order.len() > 1 { " over all schemes" } else { "" })
}

/// Like [`port_note`]. `over` says over what the port's mean queue is the largest.
pub(crate) fn port_note_over(results: &Results, port: &str, over: &str) -> String {
    let schemes = &results.summary.schemes;
    let peaks = schemes.iter().flat_map(|(label, scheme)| {
        scheme.queues.iter().map(move |(port, queue)| (queue.peak_bytes, port, label))
    });
    let own = schemes.values().filter_map(|scheme| Some(scheme.queues.get(port)?.peak_bytes)).max();
    let longest = peaks.max_by_key(|(peak, ..)| *peak).filter(|(peak, ..)| Some(*peak) > own);
    let longest = longest.map_or_else(String::new, |(peak, other, label)| {
        let other = port_name(results, other);
        let under = if schemes.len() > 1 { format!(" under {label}") } else { String::new() };
        format!("; the longest queue, {}, was at {other}{under}", format::bytes(peak as f64))
    });
    let port = port_name(results, port);
    format!("Queue and utilisation at {port}, the port with the largest mean queue{over}{longest}")
}

/// Returns a port with its neighbour, if the port was observed: `s1:3 towards s2`.
pub fn port_name(results: &Results, port: &str) -> String {
    let series = results.traces.values().flat_map(|trace| &trace.ports).find(|series| series.port == port);
    series.map_or_else(|| port.to_owned(), |series| format!("{port} towards {}", series.towards))
}

/// Returns all ports that sent something under any of the schemes, the most congested first.
pub fn ports_by_congestion<'s>(schemes: impl Iterator<Item = &'s SchemeSummary>) -> Vec<&'s str> {
    // Sums over the schemes of mean queue and utilisation.
    let mut ports: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for scheme in schemes {
        for (port, queue) in &scheme.queues {
            let (queue_sum, utilisation_sum) = ports.entry(port).or_default();
            *queue_sum += queue.mean_bytes;
            *utilisation_sum += scheme.utilisation.get(port).copied().unwrap_or(0.0);
        }
    }
    let mut ports: Vec<_> = ports.into_iter().collect();
    // Stable sort: equals remain in the order of their names.
    ports.sort_by(|(_, a), (_, b)| b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1)));
    ports.into_iter().map(|(port, _)| port).collect()
}

/// Returns the metrics that apply to at least one scheme. Queue and utilisation are those of the [`bottleneck`].
pub fn metrics(summary: &Summary, order: &[String]) -> Vec<Metric> {
    metrics_at(summary, order, &vec![bottleneck(summary); order.len()])
}

/// Like [`metrics`], but with queue and utilisation of the given port for each scheme.
pub fn metrics_at(summary: &Summary, order: &[String], ports: &[Option<&str>]) -> Vec<Metric> {
    let schemes = order.iter().zip(ports);
    let schemes = schemes.filter_map(|(label, port)| Some((summary.schemes.get(label)?, *port)));
    let schemes: Vec<(&SchemeSummary, Option<&str>)> = schemes.collect();
    let metric = |definition: &'static MetricDefinition| {
        let values = schemes.iter().map(|(scheme, port)| definition.value(scheme, *port)).collect();
        let MetricDefinition { unit, decimals, .. } = *definition;
        Metric { definition, unit, decimals, values }
    };
    let applies = |metric: &Metric| {
        let mut values = metric.values.iter().flatten();
        if metric.definition.is_rare { values.any(|value| *value != 0.0) } else { values.next().is_some() }
    };
    ALL.iter().map(metric).filter(applies).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_note_names_the_port_with_the_longest_queue_if_it_is_another_one() {
        let mut results = fixtures::dumbbell();
        let note = |results: &Results| port_note(results, bottleneck(&results.summary).unwrap());
        let own =
            "Queue and utilisation at s1:3 towards s2, the port with the largest mean queue over all schemes";
        assert_eq!(note(&results), own);
        let scheme = results.summary.schemes.get_mut("fncc").unwrap();
        scheme.queues.get_mut("s2:2").unwrap().peak_bytes = 300_000;
        assert_eq!(
            note(&results),
            format!("{own}; the longest queue, 300 KB, was at s2:2 towards s3 under fncc")
        );
        results.summary.schemes.retain(|label, _| label != "fncc");
        results.order.retain(|label| label != "fncc");
        assert_eq!(note(&results), own.trim_end_matches(" over all schemes"));
    }

    #[test]
    fn completion_times_of_jobs_are_compared() {
        let mut results = fixtures::dumbbell();
        let all = |results: &Results| metrics(&results.summary, &results.order);
        let names = |list: &[Metric]| list.iter().map(|metric| metric.definition.name).collect::<Vec<_>>();
        assert!(!names(&all(&results)).contains(&"JCT p99"));
        let jobs = JobTimes { count: 7, mean_us: 3.0, p50_us: 2.0, p90_us: 5.0, p99_us: 6.0 };
        results.summary.schemes.get_mut("fncc").unwrap().jobs = Some(jobs);
        let all = all(&results);
        assert!(names(&all).ends_with(&["jobs", "JCT p50", "JCT p99"]), "{:?}", names(&all));
        let last = all.last().unwrap();
        let fncc = results.order.iter().position(|scheme| scheme == "fncc").unwrap();
        assert_eq!((last.unit, last.values[fncc]), ("us", Some(6.0)));
    }

    /// `docs/summary.md` has the list as a table.
    #[test]
    fn the_documentation_has_the_list() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/summary.md");
        let table = markdown();
        assert!(
            std::fs::read_to_string(path).unwrap().contains(&table),
            "docs/summary.md needs this:\n{table}"
        );
    }
}
