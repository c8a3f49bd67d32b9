//! Completion times by workload and size class, one statistic at a time: the rows of `fct.csv`.

use crate::classes::{class_of, ranges};
use crate::fct::SortedSample;
use crate::file::ALL_WORKLOADS;
use crate::results::{FctStatistic, FlowRecord};
use std::sync::Arc;
use weir_units::Bytes;

/// Percentiles of each group of flows.
const PERCENTILES: [(&str, usize); 3] = [("p50", 50), ("p95", 95), ("p99", 99)];
/// Probability that the true value is outside the interval, on each side.
const TAIL: f64 = 0.025;
/// Quantile of the standard normal distribution at `1 - TAIL`.
const NORMAL_QUANTILE: f64 = 1.959_964;
/// Minimum number of flows for an interval of the mean, below which means are too far from normally distributed.
const MIN_FOR_MEAN: usize = 30;

/// Returns the statistics of slowdown and completion time for each group of flows: all workloads if there are several,
/// then each workload; in each of them all sizes, then the classes between `bounds`. Groups in which no flow started have
/// no rows; those in which none finished have rows without values.
pub fn statistics(flows: &[FlowRecord], bounds: &[Bytes], workloads: &[Arc<str>]) -> Vec<FctStatistic> {
    let sized: Vec<&FlowRecord> = flows.iter().filter(|flow| flow.size.is_some()).collect();
    let mut rows = Vec::new();
    let all: Option<Arc<str>> = (workloads.len() > 1).then(|| ALL_WORKLOADS.into());
    for workload in all.iter().chain(workloads) {
        let of_workload: Vec<&FlowRecord> = (sized.iter().copied())
            .filter(|flow| Some(workload) == all.as_ref() || flow.workload == *workload)
            .collect();
        group(&mut rows, workload, (Bytes::ZERO, None), &of_workload);
        // Without bounds there is a single class, that of all sizes.
        for (class, range) in ranges(bounds).enumerate().filter(|_| !bounds.is_empty()) {
            let is_in_class =
                |flow: &&&FlowRecord| flow.size.is_some_and(|size| class_of(size, bounds) == class);
            let of_class: Vec<&FlowRecord> = of_workload.iter().filter(is_in_class).copied().collect();
            group(&mut rows, workload, range, &of_class);
        }
    }
    rows
}

/// Adds the statistics of these flows, whose sizes are in `range`.
fn group(
    rows: &mut Vec<FctStatistic>,
    workload: &Arc<str>,
    (over, upto): (Bytes, Option<Bytes>),
    flows: &[&FlowRecord],
) {
    let unfinished = flows.iter().filter(|flow| flow.fct.is_none()).count() as u64;
    let finished = || flows.iter().filter(|flow| flow.slowdown().is_some());
    let slowdowns = SortedSample::from_values(finished().filter_map(|flow| flow.slowdown()));
    let times = SortedSample::from_values(finished().filter_map(|flow| Some(flow.fct?.as_us_f64())));
    if slowdowns.is_none() && unfinished == 0 {
        return;
    }
    // A slowdown is at least 1, a time at least 0.
    for (quantity, min, sample) in [("slowdown", 1.0, slowdowns), ("fct_us", 0.0, times)] {
        let sample = sample.as_ref();
        let mut add = |statistic: &'static str, value: Option<f64>, interval: Option<(f64, f64)>| {
            rows.push(FctStatistic {
                workload: Arc::clone(workload),
                over_bytes: over.get(),
                upto_bytes: upto.map(Bytes::get),
                count: sample.map_or(0, SortedSample::count),
                unfinished,
                quantity: quantity.into(),
                statistic: statistic.into(),
                value,
                interval,
            });
        };
        add("mean", sample.map(SortedSample::mean), sample.and_then(|sample| interval_of_mean(sample, min)));
        for (statistic, percent) in PERCENTILES {
            let value = sample.map(|sample| sample.percentile(percent));
            add(statistic, value, sample.and_then(|sample| interval_of_percentile(sample, percent)));
        }
    }
}

/// Returns the 95 % confidence interval of the mean by the normal approximation, cut off at `min`, the least possible value;
/// `None` if there are too few values.
fn interval_of_mean(sample: &SortedSample, min: f64) -> Option<(f64, f64)> {
    let values = sample.values();
    if values.len() < MIN_FOR_MEAN {
        return None;
    }
    let (count, mean) = (values.len() as f64, sample.mean());
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half_width = NORMAL_QUANTILE * (variance / count).sqrt();
    Some(((mean - half_width).max(min), mean + half_width))
}

/// Returns the 95 % confidence interval of a percentile by order statistics, whatever the distribution: two values of the
/// sample, so that it cannot leave the range of possible values. `None` if there are too few values, that is less than 6
/// for the median, 72 for p95 and 368 for p99.
fn interval_of_percentile(sample: &SortedSample, percent: usize) -> Option<(f64, f64)> {
    let values = sample.values();
    // The number of values below the true percentile is binomially distributed.
    let (low, high) = binomial_quantiles(values.len() as u64, percent as f64 / 100.0);
    let at = |rank: u64| values.get(usize::try_from(rank).ok()?).copied();
    Some((at(low.checked_sub(1)?)?, at(high)?))
}

/// Returns the quantiles at `TAIL` and `1 - TAIL` of the binomial distribution: the smallest numbers of successes with at
/// least these cumulative probabilities.
fn binomial_quantiles(trials: u64, probability: f64) -> (u64, u64) {
    /// Probabilities below this share of the largest one do not matter.
    const NEGLIGIBLE: f64 = 1e-18;
    let n = trials as f64;
    let mode = (((n + 1.0) * probability) as u64).min(trials);
    let odds = probability / (1.0 - probability);
    // Probabilities relative to the one of the mode, which neither overflow nor underflow.
    let mut below = Vec::new();
    let (mut k, mut weight) = (mode, 1.0);
    while k > 0 && weight > NEGLIGIBLE {
        weight *= k as f64 / (n - k as f64 + 1.0) / odds;
        below.push(weight);
        k -= 1;
    }
    let mut weights: Vec<f64> = below.into_iter().rev().collect();
    let first = k;
    weights.push(1.0);
    (k, weight) = (mode, 1.0);
    while k < trials && weight > NEGLIGIBLE {
        weight *= (n - k as f64) / (k as f64 + 1.0) * odds;
        weights.push(weight);
        k += 1;
    }
    let total: f64 = weights.iter().sum();
    let quantile = |cumulative: f64| {
        let mut sum = 0.0;
        let index = weights.iter().position(|weight| {
            sum += weight;
            sum >= cumulative * total
        });
        first + index.unwrap_or(weights.len() - 1) as u64
    };
    (quantile(TAIL), quantile(1.0 - TAIL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Time;

    fn sample(count: usize) -> SortedSample {
        SortedSample::from_values((1..=count).map(|i| i as f64)).unwrap()
    }

    #[test]
    fn quantiles_are_those_of_the_binomial_distribution() {
        // From R: qbinom(c(0.025, 0.975), n, p).
        for (n, p, expected) in [
            (10, 0.5, (2, 8)),
            (100, 0.5, (40, 60)),
            (100, 0.95, (90, 99)),
            (1_000, 0.99, (983, 996)),
            (1, 0.5, (0, 1)),
        ] {
            assert_eq!(binomial_quantiles(n, p), expected, "{n} {p}");
        }
        let (low, high) = binomial_quantiles(1_000_000, 0.99);
        assert!((989_800..989_810).contains(&low) && (990_190..990_200).contains(&high), "{low} {high}");
    }

    #[test]
    fn too_few_flows_have_no_interval() {
        for (percent, enough) in [(50, 6), (95, 72), (99, 368)] {
            assert!(interval_of_percentile(&sample(enough), percent).is_some(), "{percent}");
            assert_eq!(interval_of_percentile(&sample(enough - 1), percent), None, "{percent}");
        }
        // Ranks 40 and 61 of 100 values.
        assert_eq!(interval_of_percentile(&sample(100), 50), Some((40.0, 61.0)));
        assert_eq!(interval_of_mean(&sample(29), 0.0), None);
    }

    #[test]
    fn a_slowdown_is_at_least_1_in_intervals_too() {
        let values = (0..30).map(|i| if i == 0 { 40.0 } else { 1.0 });
        let sample = SortedSample::from_values(values).unwrap();
        let (low, high) = interval_of_mean(&sample, 1.0).unwrap();
        assert!((sample.mean() - 2.3).abs() < 1e-9 && low == 1.0 && high > 4.8, "{low} {high}");
    }

    #[test]
    fn rows_are_by_workload_and_class() {
        let flow = |workload: &str, size, fct_us| FlowRecord {
            from: "h1".into(),
            to: "h2".into(),
            ordinal: 1,
            port: 50_000,
            incast: false,
            workload: workload.into(),
            size: Some(Bytes::new(size)),
            start: Time::ZERO,
            fct: Some(Time::from_us(fct_us)),
            error: None,
            ideal: Some(Time::from_us(1)),
            acked: Bytes::ZERO,
            retransmits: 0,
        };
        let flows = [flow("poisson", 100, 2), flow("incast", 5_000, 8), flow("poisson", 9_000, 4)];
        let workloads = ["poisson".into(), "incast".into()];
        let rows = statistics(&flows, &[Bytes::from_kb(1)], &workloads);
        let groups: Vec<_> = rows
            .iter()
            .filter(|row| (&*row.quantity, &*row.statistic) == ("slowdown", "mean"))
            .map(|row| (&*row.workload, row.over_bytes, row.upto_bytes, row.count, row.value.unwrap()))
            .collect();
        let expected = [
            ("all", 0, None, 3, 14.0 / 3.0),
            ("all", 0, Some(1_000), 1, 2.0),
            ("all", 1_000, None, 2, 6.0),
            ("poisson", 0, None, 2, 3.0),
            ("poisson", 0, Some(1_000), 1, 2.0),
            ("poisson", 1_000, None, 1, 4.0),
            ("incast", 0, None, 1, 8.0),
            ("incast", 1_000, None, 1, 8.0),
        ];
        assert_eq!(groups, expected);
        assert_eq!(rows.len(), 8 * expected.len(), "two quantities with four statistics each");
        let mut some_unfinished = flows.clone();
        some_unfinished[1].fct = None;
        let rows = statistics(&some_unfinished, &[Bytes::from_kb(1)], &workloads);
        let groups: Vec<_> = rows
            .iter()
            .filter(|row| (&*row.quantity, &*row.statistic) == ("slowdown", "p99"))
            .map(|row| (&*row.workload, row.over_bytes, row.count, row.unfinished, row.value))
            .collect();
        let expected = [
            ("all", 0, 2, 1, Some(4.0)),
            ("all", 0, 1, 0, Some(2.0)),
            ("all", 1_000, 1, 1, Some(4.0)),
            ("poisson", 0, 2, 0, Some(4.0)),
            ("poisson", 0, 1, 0, Some(2.0)),
            ("poisson", 1_000, 1, 0, Some(4.0)),
            ("incast", 0, 0, 1, None),
            ("incast", 1_000, 0, 1, None),
        ];
        assert_eq!(groups, expected);
        let single = statistics(&flows[..1], &[], &workloads[..1]);
        assert!(single.len() == 8 && single.iter().all(|row| &*row.workload == "poisson"));
    }
}
