//! The schemes of a run with the styles of their lines, and the data that charts draw of them.

use crate::chart::Line;
use crate::metrics::ports_by_congestion;
use std::collections::{HashMap, HashSet};
use weir_experiment::results::{PortSeries, Results, SchemeTrace};

/// Appearance of a scheme in every chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineStyle {
    /// Index of its colour.
    pub colour: usize,
    /// Index of its dash pattern.
    pub dash: usize,
    /// Name of the scheme's run, if the charts show several runs.
    pub run: Option<String>,
}

/// A scheme with the style of its lines and its trace.
pub(super) struct Scheme<'a> {
    pub label: &'a str,
    pub style: &'a LineStyle,
    pub trace: &'a SchemeTrace,
}

/// Returns the observed ports, the most congested first.
pub(super) fn observed_ports(results: &Results, schemes: &[Scheme<'_>]) -> Vec<String> {
    let ranks: HashMap<&str, usize> =
        ports_by_congestion(results.summary.schemes.values()).into_iter().zip(0..).collect();
    let all = schemes.iter().flat_map(|s| &s.trace.ports).map(|port| port.port.as_str());
    let mut seen = HashSet::new();
    let mut ports: Vec<&str> = all.filter(|port| seen.insert(*port)).collect();
    // A port that never sent comes last.
    ports.sort_by_key(|port| ranks.get(port).copied().unwrap_or(usize::MAX));
    ports.into_iter().map(str::to_owned).collect()
}

pub(super) fn series<'a>(scheme: &Scheme<'a>, port: &str) -> Option<&'a PortSeries> {
    scheme.trace.ports.iter().find(|p| p.port == port)
}

/// Returns a line for each scheme that has points.
pub(super) fn by_scheme<'a>(
    schemes: &[Scheme<'a>],
    points: impl Fn(&Scheme<'a>) -> Option<Vec<(f64, f64)>>,
) -> Vec<Line> {
    let to_line = |s: &Scheme<'a>| points(s).filter(|p| !p.is_empty()).map(|points| line(s, None, points));
    schemes.iter().filter_map(to_line).collect()
}

/// Draws a scheme as a line of a chart.
pub(super) fn line(scheme: &Scheme<'_>, note: Option<String>, points: Vec<(f64, f64)>) -> Line {
    let LineStyle { colour, dash, .. } = *scheme.style;
    Line { name: scheme.label.into(), note, colour, dash, points, ..Line::default() }
}
