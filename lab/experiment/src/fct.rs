//! Completion times and goodput of flows and jobs: the statistics in `summary.json`, and how they are computed. Those of
//! completion times are as in the HPCC simulator's `fct_analysis.py` (docs/algorithms/methods.md).

use crate::classes::{class_of, ranges};
use crate::results::FlowRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_units::{Bytes, Time};

/// `fct_analysis.py` divides the flows, sorted by size, into parts of 5 %.
const BUCKETS: usize = 20;

/// Flow completion times, as slowdown relative to an idle fabric (docs/algorithms/methods.md#completion-times).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fct {
    /// Number of finished flows.
    pub count: u64,
    /// Flows with a size that started and did not finish before the end of the run, including aborted flows.
    pub unfinished: u64,
    /// Flows that their senders aborted, with or without a size, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, u64>,
    /// Slowdown of all finished flows; `None` if there are none.
    pub slowdown: Option<Percentiles>,
    /// Buckets of equal counts in ascending order of flow size, as in HPCC's `fct_analysis.py`.
    pub by_size: Vec<FctBucket>,
    /// The classes of `observe.size_classes` in ascending order; the last has no upper bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<FctClass>,
    /// The same for the flows of each workload, by its name; empty unless the experiment names a workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workloads: BTreeMap<String, Fct>,
}

/// Completion times of the flows of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FctClass {
    /// Exclusive lower bound of the flow size.
    pub over_bytes: u64,
    /// Inclusive upper bound of the flow size; `None` for the last class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upto_bytes: Option<u64>,
    /// Number of finished flows.
    pub count: u64,
    /// Slowdown; `None` if no flow finished.
    pub slowdown: Option<Percentiles>,
    /// Completion times in microseconds.
    pub fct_us: Option<Percentiles>,
    /// Mean over the flows of size divided by completion time, in Gbit/s.
    #[serde(default)]
    pub goodput_gbps: Option<f64>,
}

/// Mean and percentiles of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Slowdowns of the flows up to one size that are larger than those of the previous bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FctBucket {
    /// Size of the largest flow in the bucket.
    pub upto_bytes: u64,
    /// Number of flows in the bucket.
    pub count: u64,
    #[serde(flatten)]
    pub slowdown: Percentiles,
}

/// Job completion times, from the first request of a job to the last byte of its last response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobTimes {
    /// Number of finished jobs.
    pub count: u64,
    /// Arithmetic mean, in microseconds.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
}

/// Goodput of flows without a size: acknowledged payload over the time since the start of the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoodputSummary {
    /// Number of flows.
    pub flows: u64,
    /// Arithmetic mean, in Gbit/s.
    pub mean_gbps: f64,
    /// 5th percentile.
    pub p5_gbps: f64,
    /// Median.
    pub p50_gbps: f64,
    /// 95th percentile.
    pub p95_gbps: f64,
}

impl FlowRecord {
    /// Returns completion time over ideal, at least 1; `None` if the flow is unfinished or has no size.
    pub fn slowdown(&self) -> Option<f64> {
        let (fct, ideal) = (self.fct?, self.ideal?);
        Some((fct.as_ps() as f64 / ideal.as_ps() as f64).max(1.0))
    }
}

/// Returns the flows whose completion times count: those that start at `warmup` (`observe.warmup`) or later.
pub fn measured(flows: &[FlowRecord], warmup: Option<Time>) -> Cow<'_, [FlowRecord]> {
    match warmup {
        None => Cow::Borrowed(flows),
        Some(warmup) => flows.iter().filter(|flow| flow.start >= warmup).cloned().collect(),
    }
}

/// Summarises the flows that have a size, and those of each of `workloads`. `bounds` are the upper bounds of the size
/// classes; empty: no classes.
pub fn summarise(flows: &[FlowRecord], bounds: &[Bytes], workloads: &[Arc<str>]) -> Fct {
    let all: Vec<&FlowRecord> = flows.iter().collect();
    let of_workload = |name: &Arc<str>| {
        let flows: Vec<&FlowRecord> = flows.iter().filter(|flow| flow.workload == *name).collect();
        (name.to_string(), summary(&flows, bounds))
    };
    Fct { workloads: workloads.iter().map(of_workload).collect(), ..summary(&all, bounds) }
}

fn summary(flows: &[&FlowRecord], bounds: &[Bytes]) -> Fct {
    let sized = || flows.iter().filter(|f| f.size.is_some());
    let unfinished = sized().filter(|f| f.fct.is_none()).count() as u64;
    let mut failed = BTreeMap::new();
    for error in flows.iter().filter_map(|f| f.error.as_deref()) {
        *failed.entry(error.to_owned()).or_default() += 1;
    }
    let mut finished: Vec<(u64, f64)> =
        sized().filter_map(|f| Some((f.size?.get(), f.slowdown()?))).collect();
    finished.sort_by_key(|(size, _)| *size);
    let (by_size, classes) = (buckets(&finished), classes(flows, bounds));
    let (count, slowdown) = (finished.len() as u64, slowdowns(&finished));
    Fct { count, unfinished, failed, slowdown, by_size, classes, workloads: BTreeMap::new() }
}

/// Divides flows (size and slowdown, sorted by size) into parts of equal counts. Flows of the same size are always in the same
/// part, because a division between them would be arbitrary.
fn buckets(finished: &[(u64, f64)]) -> Vec<FctBucket> {
    let ends = (1..=BUCKETS).filter_map(|i| {
        let (size, _) = finished[..finished.len() * i / BUCKETS].last()?;
        Some(finished.partition_point(|(other, _)| other <= size))
    });
    let mut from = 0;
    let mut buckets = Vec::new();
    for end in ends {
        let part = &finished[from..end];
        from = end;
        let Some((slowdown, (upto_bytes, _))) = slowdowns(part).zip(part.last()) else { continue };
        buckets.push(FctBucket { upto_bytes: *upto_bytes, count: part.len() as u64, slowdown });
    }
    buckets
}

fn slowdowns(part: &[(u64, f64)]) -> Option<Percentiles> {
    percentiles(part.iter().map(|(_, slowdown)| *slowdown))
}

/// Returns the statistics of one class up to each of `bounds`, and of one class above the last.
fn classes(flows: &[&FlowRecord], bounds: &[Bytes]) -> Vec<FctClass> {
    if bounds.is_empty() {
        return Vec::new();
    }
    ranges(bounds)
        .enumerate()
        .map(|(class, (over, upto))| {
            let is_in_class = |f: &&&FlowRecord| f.size.is_some_and(|size| class_of(size, bounds) == class);
            let flows = || flows.iter().filter(is_in_class);
            let slowdowns: Vec<f64> = flows().filter_map(|f| f.slowdown()).collect();
            let times = flows().filter_map(|f| Some(f.fct?.as_us_f64()));
            let gbps = |f: &&FlowRecord| Some(f.size?.as_f64() * 8.0 / f.fct?.as_us_f64() / 1e3);
            FctClass {
                over_bytes: over.get(),
                upto_bytes: upto.map(Bytes::get),
                count: slowdowns.len() as u64,
                slowdown: percentiles(slowdowns),
                fct_us: percentiles(times),
                goodput_gbps: percentiles(flows().filter_map(gbps)).map(|goodput| goodput.mean),
            }
        })
        .collect()
}

/// Values in ascending order; at least one.
pub(crate) struct SortedSample(Vec<f64>);

impl SortedSample {
    /// Returns `None` if there are no values.
    pub(crate) fn from_values(values: impl Iterator<Item = f64>) -> Option<SortedSample> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(SortedSample(values))
    }
    pub(crate) fn values(&self) -> &[f64] {
        &self.0
    }
    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }
    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }
    /// Returns the percentile with the index `int(n * p)`, as `fct_analysis.py` does.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }
}

/// Summarises the completion times of jobs; `None` if there are none.
pub fn job_times(times: impl Iterator<Item = Time>) -> Option<JobTimes> {
    let sample = SortedSample::from_values(times.map(Time::as_us_f64))?;
    let [p50_us, p90_us, p99_us] = [50, 90, 99].map(|percent| sample.percentile(percent));
    Some(JobTimes { count: sample.count(), mean_us: sample.mean(), p50_us, p90_us, p99_us })
}

/// Summarises the goodput until `end` of the flows without a size; `None` if there are none.
pub fn goodputs(flows: &[FlowRecord], end: Time) -> Option<GoodputSummary> {
    let running = flows.iter().filter(|flow| flow.size.is_none() && flow.start < end);
    let gbps = |flow: &FlowRecord| flow.acked.as_f64() * 8.0 / (end - flow.start).as_us_f64() / 1e3;
    let sample = SortedSample::from_values(running.map(gbps))?;
    let [p5_gbps, p50_gbps, p95_gbps] = [5, 50, 95].map(|percent| sample.percentile(percent));
    Some(GoodputSummary { flows: sample.count(), mean_gbps: sample.mean(), p5_gbps, p50_gbps, p95_gbps })
}

/// Returns mean and percentiles, with the index `int(n * p)` as in `fct_analysis.py`; `None` if there are no values.
pub fn percentiles(values: impl IntoIterator<Item = f64>) -> Option<Percentiles> {
    let sample = SortedSample::from_values(values.into_iter())?;
    let [p50, p95, p99] = [50, 95, 99].map(|percent| sample.percentile(percent));
    Some(Percentiles { mean: sample.mean(), p50, p95, p99 })
}

/// Returns Jain's fairness index: 1 if all shares are equal, 1/n if all but one are 0. `None` if there are fewer than two
/// shares or all are 0.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (shares.len() >= 2 && squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_the_truncated_index() {
        let p = percentiles((1..=200).map(f64::from)).unwrap();
        assert_eq!((p.mean, p.p50, p.p95, p.p99), (100.5, 101.0, 191.0, 199.0));
        assert_eq!(percentiles(vec![]), None);
        assert_eq!(percentiles(vec![3.0]).unwrap().p99, 3.0);
    }

    #[test]
    fn jain_is_one_when_equal() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[1.0]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }

    fn flow(size: u64, fct_ns: Option<u64>) -> FlowRecord {
        FlowRecord {
            from: "h1".into(),
            to: "h2".into(),
            ordinal: 1,
            port: 50_000,
            incast: false,
            workload: "poisson".into(),
            size: Some(Bytes::new(size)),
            start: Time::ZERO,
            fct: fct_ns.map(Time::from_ns),
            error: None,
            ideal: Some(Time::from_ns(1_000)),
            acked: Bytes::ZERO,
            retransmits: 0,
        }
    }

    #[test]
    fn flows_that_start_before_the_warmup_ends_do_not_count() {
        let at = |us| FlowRecord { start: Time::from_us(us), ..flow(1_000, Some(1_000)) };
        let flows = [at(0), at(9), at(10), at(11)];
        assert_eq!(measured(&flows, Some(Time::from_us(10))).len(), 2);
        assert_eq!(measured(&flows, None).len(), 4);
    }

    #[test]
    fn buckets_hold_equal_counts_by_size() {
        let flows: Vec<_> = (1..=40).rev().map(|i| flow(i * 1_000, Some(1_000 * i))).collect();
        let fct = summarise(&flows, &[], &[]);
        assert_eq!((fct.count, fct.unfinished, fct.by_size.len()), (40, 0, 20));
        assert!(fct.by_size.iter().all(|b| b.count == 2));
        assert_eq!(fct.by_size[0].upto_bytes, 2_000);
        assert_eq!(fct.by_size[19].slowdown.p50, 40.0);
    }

    #[test]
    fn flows_of_one_size_are_in_one_bucket() {
        let sizes = [2_000, 4_000, 1_000_000];
        let flows: Vec<_> = (0..99).map(|i| flow(sizes[i / 33], Some(1_000 * (1 + i as u64)))).collect();
        let by_size = summarise(&flows, &[], &[]).by_size;
        let seen: Vec<_> = by_size.iter().map(|b| (b.upto_bytes, b.count, b.slowdown.p50)).collect();
        assert_eq!(seen, [(2_000, 33, 17.0), (4_000, 33, 50.0), (1_000_000, 33, 83.0)]);
    }

    #[test]
    fn slowdown_is_never_below_one_and_unfinished_flows_are_counted() {
        let fct = summarise(&[flow(1, Some(900)), flow(1, None)], &[], &[]);
        assert_eq!((fct.count, fct.unfinished), (1, 1));
        assert_eq!(fct.slowdown.unwrap().mean, 1.0);
    }

    #[test]
    fn aborted_flows_are_counted_by_reason() {
        let failed = |error: &str| FlowRecord { error: Some(error.into()), ..flow(1, None) };
        let fct =
            summarise(&[failed("lost"), failed("unanswered"), failed("lost"), flow(1, Some(900))], &[], &[]);
        let reasons: Vec<_> = fct.failed.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        assert_eq!((fct.unfinished, reasons), (3, vec![("lost", 2), ("unanswered", 1)]));
    }

    #[test]
    fn all_classes_except_the_last_have_an_upper_bound() {
        let flows: Vec<_> =
            [(100, 2_000), (1_000, 3_000), (1_001, 4_000)].map(|(n, t)| flow(n, Some(t))).into();
        let fct = summarise(&flows, &[Bytes::new(1_000), Bytes::new(5_000)], &[]);
        let seen: Vec<_> = fct.classes.iter().map(|c| (c.over_bytes, c.upto_bytes, c.count)).collect();
        assert_eq!(seen, [(0, Some(1_000), 2), (1_000, Some(5_000), 1), (5_000, None, 0)]);
        assert_eq!(fct.classes[0].slowdown.unwrap().p95, 3.0);
        assert_eq!(fct.classes[1].fct_us.unwrap().mean, 4.0);
        assert_eq!(fct.classes[1].goodput_gbps, Some(1_001.0 * 8.0 / 4_000.0), "bits per nanosecond");
        assert_eq!(fct.classes[2].slowdown, None);
    }

    #[test]
    fn flows_are_summarised_by_workload() {
        let of = |name: &str, fct_ns| FlowRecord { workload: name.into(), ..flow(100, Some(fct_ns)) };
        let flows = [of("poisson", 2_000), of("incast", 9_000), of("poisson", 4_000)];
        let fct = summarise(&flows, &[Bytes::new(1_000)], &["poisson".into(), "incast".into()]);
        let counts: Vec<_> = fct.workloads.iter().map(|(name, of)| (name.as_str(), of.count)).collect();
        assert_eq!((fct.count, counts), (3, vec![("incast", 1), ("poisson", 2)]));
        assert_eq!(fct.workloads["poisson"].slowdown.unwrap().mean, 3.0);
        assert_eq!(fct.workloads["incast"].classes[0].slowdown.unwrap().p99, 9.0);
        let without_names = summarise(&flows, &[], &[]);
        assert!(
            !serde_json::to_string(&without_names).unwrap().contains("workloads"),
            "the digest is as before"
        );
    }

    #[test]
    fn goodput_covers_only_flows_without_a_size() {
        let long = |start_us: u64, kb: u64| FlowRecord {
            size: None,
            start: Time::from_us(start_us),
            acked: Bytes::from_kb(kb),
            ..flow(1, None)
        };
        // 1,000 KB in 1 ms, and 500 KB in the second half of this 1 ms: 8 Gbit/s each.
        let flows = [long(0, 1_000), long(500, 500), long(2_000, 0), flow(1_000, Some(1_000))];
        let goodput = goodputs(&flows, Time::from_ms(1)).unwrap();
        assert_eq!((goodput.flows, goodput.mean_gbps, goodput.p5_gbps, goodput.p95_gbps), (2, 8.0, 8.0, 8.0));
        assert_eq!(goodputs(&flows[3..], Time::from_ms(1)), None);
    }

    #[test]
    fn job_times_have_percentiles() {
        let times = job_times((1..=100).map(Time::from_us)).unwrap();
        assert_eq!((times.count, times.p50_us, times.p90_us, times.p99_us), (100, 51.0, 91.0, 100.0));
        assert_eq!(job_times([].into_iter()), None);
    }
}
