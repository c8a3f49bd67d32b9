//! The metrics by which schemes are compared, for the tables on the terminal and in the HTML report.

use super::format;
use std::collections::BTreeMap;
use weir_experiment::results::{JobTimes, Results, SchemeSummary, Summary};

/// A metric with its value for every scheme.
pub struct Metric {
    pub name: &'static str,
    /// Unit of values; empty for counts and ratios.
    pub unit: &'static str,
    /// Definition in one sentence; shown as tooltip of the column head.
    pub meaning: &'static str,
    /// Direction in which values are better.
    pub better: BetterWhen,
    /// Value of each scheme, in the order of the experiment; `None` if the metric does not apply.
    pub values: Vec<Option<f64>>,
    /// Number of decimals.
    pub decimals: usize,
}

/// Direction in which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetterWhen {
    Lower,
    Higher,
    /// Neither direction is better: the metric only describes the run.
    Neither,
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
        let best = match self.better {
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

/// Returns the bottleneck: the port with the longest mean queue over all schemes; among equals the one with the highest
/// utilisation. `None` if nothing was sent.
pub fn bottleneck(summary: &Summary) -> Option<&str> {
    ports_by_congestion(summary).into_iter().next()
}

/// Returns a port with its neighbour, if the port was observed: `s1:3 towards s2`.
pub fn port_name(results: &Results, port: &str) -> String {
    let series = results.traces.values().flat_map(|trace| &trace.ports).find(|series| series.port == port);
    series.map_or_else(|| port.to_owned(), |series| format!("{port} towards {}", series.towards))
}

/// Returns all ports that sent something, the most congested first.
pub fn ports_by_congestion(summary: &Summary) -> Vec<&str> {
    // Sums over the schemes of mean queue and utilisation.
    let mut ports: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for scheme in summary.schemes.values() {
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

const KB: f64 = 1e3;

/// Returns the metrics that apply to at least one scheme. Queue and utilisation are those of the [`bottleneck`].
pub fn metrics(results: &Results) -> Vec<Metric> {
    let port = bottleneck(&results.summary);
    metrics_at(results, &vec![port; results.order.len()])
}

/// Like [`metrics`], but with queue and utilisation of the given port for each scheme.
pub fn metrics_at(results: &Results, ports: &[Option<&str>]) -> Vec<Metric> {
    let (schemes, ports): (Vec<&SchemeSummary>, Vec<Option<&str>>) = results
        .order
        .iter()
        .zip(ports)
        .filter_map(|(label, port)| Some((results.summary.schemes.get(label)?, *port)))
        .unzip();
    let at_ports = |value: &dyn Fn(&SchemeSummary, &str) -> Option<f64>| {
        schemes.iter().zip(&ports).map(|(s, port)| value(s, (*port)?)).collect::<Vec<_>>()
    };
    let per_scheme =
        |value: &dyn Fn(&SchemeSummary) -> Option<f64>| schemes.iter().map(|s| value(s)).collect::<Vec<_>>();
    let queue = |value: fn(&weir_experiment::results::QueueSummary) -> f64| {
        at_ports(&|s, port| s.queues.get(port).map(value))
    };
    let metric = |better| {
        move |name, unit, decimals, values, meaning| Metric { name, unit, meaning, better, values, decimals }
    };
    let (lower_is_better, higher_is_better, neutral) =
        (metric(BetterWhen::Lower), metric(BetterWhen::Higher), metric(BetterWhen::Neither));
    let count = |value: fn(&SchemeSummary) -> u64| per_scheme(&|s| Some(value(s) as f64));

    let mut list = vec![
        lower_is_better(
            "peak queue",
            "KB",
            1,
            queue(|q| q.peak_bytes as f64 / KB),
            "maximum queue length of the bottleneck port",
        ),
        lower_is_better(
            "mean queue",
            "KB",
            1,
            queue(|q| q.mean_bytes / KB),
            "mean over the whole run, bottleneck port",
        ),
        lower_is_better(
            "p99 queue",
            "KB",
            1,
            queue(|q| q.p99_bytes as f64 / KB),
            "99th percentile of the samples, bottleneck port",
        ),
        higher_is_better(
            "utilisation",
            "%",
            1,
            at_ports(&|s, port| s.utilisation.get(port).map(|u| 100.0 * u)),
            "bytes sent / link capacity over the whole run, bottleneck port",
        ),
        lower_is_better(
            "first slowdown",
            "us",
            1,
            per_scheme(&|s| s.first_slowdown_us),
            "time at which the first flow reduced its rate after another joined",
        ),
        higher_is_better(
            "Jain index",
            "",
            4,
            per_scheme(&|s| s.jain),
            "Jain's index of goodput in the fairness window; 1: equal shares",
        ),
        lower_is_better(
            "drops",
            "",
            0,
            count(|s| s.drops.values().sum()),
            "packets dropped in switches and hosts, all reasons",
        ),
        neutral("ECN marks", "", 0, count(|s| s.marks), "packets marked CE by switches"),
        lower_is_better("PFC pauses", "", 0, count(|s| s.pauses), "PFC pause frames sent, without resumes"),
        lower_is_better("retransmits", "", 0, count(|s| s.retransmits), "retransmitted data packets"),
    ];
    if schemes.iter().any(|s| s.deflections > 0) {
        list.push(neutral(
            "deflections",
            "",
            0,
            count(|s| s.deflections),
            "packets deflected from a congested port",
        ));
    }
    if schemes.iter().any(|s| s.fct.count + s.fct.unfinished > 0) {
        let slowdown = |value: fn(&weir_experiment::results::Percentiles) -> f64| {
            per_scheme(&|s| s.fct.slowdown.as_ref().map(value))
        };
        list.push(lower_is_better(
            "FCT slowdown p50",
            "",
            2,
            slowdown(|p| p.p50),
            "completion time of flows / that on an idle fabric, median",
        ));
        list.push(lower_is_better(
            "FCT slowdown p95",
            "",
            2,
            slowdown(|p| p.p95),
            "the same, 95th percentile",
        ));
        list.push(lower_is_better(
            "FCT slowdown p99",
            "",
            2,
            slowdown(|p| p.p99),
            "the same, 99th percentile",
        ));
        list.push(lower_is_better(
            "unfinished",
            "",
            0,
            count(|s| s.fct.unfinished),
            "flows with a size that had not finished at the end",
        ));
    }
    if schemes.iter().any(|s| s.jobs.is_some()) {
        let time = |value: fn(&JobTimes) -> f64| per_scheme(&|s| s.jobs.as_ref().map(value));
        list.push(neutral("jobs", "", 0, time(|jobs| jobs.count as f64), "jobs that finished"));
        list.push(lower_is_better(
            "JCT p50",
            "us",
            1,
            time(|jobs| jobs.p50_us),
            "completion time of jobs, from the first request to the last byte of the last response, median",
        ));
        list.push(lower_is_better("JCT p99", "us", 1, time(|jobs| jobs.p99_us), "the same, 99th percentile"));
    }
    list.retain(|metric| metric.values.iter().any(Option::is_some));
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn completion_times_of_jobs_are_compared() {
        let mut results = fixtures::dumbbell();
        let names = |results: &Results| metrics(results).iter().map(|metric| metric.name).collect::<Vec<_>>();
        assert!(!names(&results).contains(&"JCT p99"));
        let jobs = JobTimes { count: 7, mean_us: 3.0, p50_us: 2.0, p90_us: 5.0, p99_us: 6.0 };
        results.summary.schemes.get_mut("fncc").unwrap().jobs = Some(jobs);
        assert!(names(&results).ends_with(&["jobs", "JCT p50", "JCT p99"]), "{:?}", names(&results));
        let all = metrics(&results);
        let last = all.last().unwrap();
        let fncc = results.order.iter().position(|scheme| scheme == "fncc").unwrap();
        assert_eq!((last.unit, last.values[fncc]), ("us", Some(6.0)));
    }
}
