//! The list of metrics: each with its name, unit, definition, direction, range, sample and value in one place.

use BetterWhen::{Higher, Lower, Neither};
use std::fmt::Write as _;
use weir_experiment::results::{JobTimes, Percentiles, QueueSummary, SchemeSummary};

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
