//! Charts of flow completion times, as slowdown relative to an idle fabric.

use super::distribution;
use super::scheme::{Scheme, by_scheme};
use super::section::{Figure, Layout, Section};
use crate::chart::{Axis, Chart, LegendPlacement, Line};
use crate::format;
use std::collections::BTreeSet;
use weir_experiment::results::{FctBucket, Results, SchemeTrace};

/// Returns the section with slowdown by flow size and the distribution of slowdown.
pub(super) fn section(results: &Results, schemes: &[Scheme<'_>]) -> Option<Section> {
    let mut figures = Vec::new();
    for (file, title, value) in [
        ("slowdown-p50", "Median by flow size", (|b: &FctBucket| b.slowdown.p50) as fn(&FctBucket) -> f64),
        ("slowdown-p95", "95th percentile by flow size", |b: &FctBucket| b.slowdown.p95),
        ("slowdown-p99", "99th percentile by flow size", |b: &FctBucket| b.slowdown.p99),
    ] {
        let lines = by_scheme(schemes, |s| {
            let buckets = &results.summary.schemes.get(s.label)?.fct.by_size;
            Some(buckets.iter().map(|b| (b.upto_bytes as f64, value(b))).collect())
        });
        // With a single size there would be a point instead of a line.
        let size_count = |line: &Line| line.points.iter().map(|p| p.0 as u64).collect::<BTreeSet<_>>().len();
        if lines.iter().any(|line| size_count(line) > 1) {
            figures.push(slowdown_by_size(file, title, lines));
        }
    }
    figures.extend(cumulative(schemes));
    let note = "Flow completion time divided by that on an idle fabric; 1 is ideal.";
    (!figures.is_empty()).then(|| Section {
        title: "Flow completion".into(),
        note: Some(note.into()),
        figures,
    })
}

fn slowdown_by_size(file: &str, title: &str, lines: Vec<Line>) -> Figure {
    let points = || lines.iter().flat_map(|l| &l.points);
    let smallest = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
    let largest = points().map(|p| p.0).fold(0.0, f64::max);
    let max = points().map(|p| p.1).fold(1.0, f64::max);
    let mut x = Axis::log("flow size (log)", smallest, largest);
    x.format = format::bytes_short;
    let chart = Chart {
        alt: format!("Slowdown of flow completion time: {title}"),
        x,
        y: Axis::from_zero("slowdown", max),
        lines,
        marks: Vec::new(),
        names: LegendPlacement::Legend,
    };
    Figure { file: file.into(), title: title.into(), layout: Layout::Half, picture: chart.into() }
}

/// Returns the cumulative distribution of slowdown.
fn cumulative(schemes: &[Scheme<'_>]) -> Option<Figure> {
    /// Ratio of largest to smallest slowdown up to which the axis is linear.
    const MAX_LINEAR_RATIO: f64 = 3.0;
    /// Margin of the axis at both ends, as a share of its range.
    const MARGIN: f64 = 0.02;
    let mut lines = by_scheme(schemes, |s| Some(distribution::at_most(&slowdowns(s.trace))));
    let slowdown_values = || lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let (min, max) = (slowdown_values().reduce(f64::min)?, slowdown_values().fold(1.0, f64::max));
    let mut x = if max / min > MAX_LINEAR_RATIO {
        let margin_factor = (max / min).powf(MARGIN);
        Axis::log("slowdown (log)", (min / margin_factor).max(1.0), max * margin_factor)
    } else {
        // If all slowdowns are equal, the axis still has a width.
        let margin = (MARGIN * (max - min)).max(0.01 * max);
        Axis::exactly("slowdown", (min - margin).max(1.0 - margin), max + margin)
    };
    x.format = format::significant_short;
    // Extend each line at 100 % to the right edge.
    lines.iter_mut().for_each(|line| line.points.push((x.high, 100.0)));
    let chart = Chart {
        alt: "Distribution of flow completion time slowdown".into(),
        x,
        y: Axis::exactly("flows (%)", 0.0, 100.0),
        lines,
        marks: Vec::new(),
        names: LegendPlacement::Legend,
    };
    Some(Figure {
        file: "slowdown-cdf".into(),
        title: "Distribution".into(),
        layout: Layout::Half,
        picture: chart.into(),
    })
}

fn slowdowns(trace: &SchemeTrace) -> Vec<f64> {
    let mut slowdowns: Vec<f64> = trace.flows.iter().filter_map(|f| f.slowdown()).collect();
    slowdowns.sort_by(f64::total_cmp);
    slowdowns
}
