//! The charts of a run.

mod completion;
mod distribution;
mod load;
mod pauses;
mod queues;
mod rates;
#[cfg(test)]
mod tests;
mod time;
mod utilisation;

pub use utilisation::carry_over_utilisation;

use super::chart::{Line, Picture};
use super::metrics::ports_by_congestion;
use std::collections::{HashMap, HashSet};
use time::TimeAxis;
use weir_experiment::results::{PortSeries, Results, SchemeTrace};

/// Some charts under one heading.
pub struct Section {
    pub title: String,
    /// Note on how to read the charts.
    pub note: Option<String>,
    pub figures: Vec<Figure>,
}

/// One chart of the report.
pub struct Figure {
    /// Name of its SVG file, without the extension.
    pub file: String,
    /// Heading; empty if the section's is enough.
    pub title: String,
    /// Width on the page.
    pub layout: Layout,
    pub picture: Picture,
}

/// Part of the page's width that a figure takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Full,
    /// Half, where there is room for two.
    Half,
}

/// Number of finished flows from which they count as a workload.
const MANY_FLOWS: usize = 50;

/// Appearance of a scheme in every chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineStyle {
    /// Index of its colour.
    pub colour: usize,
    /// Index of its dash pattern.
    pub dash: usize,
    /// Name of the run that it belongs to, if the charts show several.
    pub run: Option<String>,
}

/// A scheme's line: label, look and trace.
struct Scheme<'a> {
    label: &'a str,
    look: &'a LineStyle,
    trace: &'a SchemeTrace,
}

/// Returns all charts of a run, the most telling first; every scheme looks different.
pub fn sections(results: &Results) -> Vec<Section> {
    let looks: Vec<LineStyle> =
        (0..results.order.len()).map(|i| LineStyle { colour: i, dash: i, run: None }).collect();
    sections_as(results, &looks)
}

/// Returns all charts, with a look for each scheme in order.
pub fn sections_as(results: &Results, looks: &[LineStyle]) -> Vec<Section> {
    let schemes: Vec<Scheme<'_>> = results
        .order
        .iter()
        .zip(looks)
        .filter_map(|(label, look)| Some(Scheme { label, look, trace: results.traces.get(label)? }))
        .collect();
    let time = TimeAxis::new(results, &schemes);
    // Where there are many flows, when they finish says most.
    let flows = schemes.iter().map(|s| s.trace.flows.iter().filter(|f| f.fct.is_some()).count()).max();
    let whole = [completion::section(results, &schemes), load::section(results)];
    let (before, after) =
        if flows >= Some(MANY_FLOWS) { (whole, [None, None]) } else { ([None, None], whole) };
    let series = [
        queues::section(results, &schemes, &time),
        rates::section(&schemes, &time),
        utilisation::section(results, &schemes, &time),
    ];
    let pauses = pauses::section(&schemes, &time);
    before.into_iter().chain(series).chain(after).chain([pauses]).flatten().collect()
}

/// Returns the observed ports, the most congested first.
fn observed_ports(results: &Results, schemes: &[Scheme<'_>]) -> Vec<String> {
    let ranks: HashMap<&str, usize> = ports_by_congestion(&results.summary).into_iter().zip(0..).collect();
    let all = schemes.iter().flat_map(|s| &s.trace.ports).map(|port| port.port.as_str());
    let mut seen = HashSet::new();
    let mut ports: Vec<&str> = all.filter(|port| seen.insert(*port)).collect();
    // A port that never sent comes last.
    ports.sort_by_key(|port| ranks.get(port).copied().unwrap_or(usize::MAX));
    ports.into_iter().map(str::to_owned).collect()
}

fn series<'a>(scheme: &Scheme<'a>, port: &str) -> Option<&'a PortSeries> {
    scheme.trace.ports.iter().find(|p| p.port == port)
}

/// Returns a line for each scheme that has points.
fn by_scheme<'a>(
    schemes: &[Scheme<'a>],
    points: impl Fn(&Scheme<'a>) -> Option<Vec<(f64, f64)>>,
) -> Vec<Line> {
    let of = |s: &Scheme<'a>| points(s).filter(|p| !p.is_empty()).map(|points| line(s, None, points));
    schemes.iter().filter_map(of).collect()
}

/// Draws a scheme as a line of a chart.
fn line(scheme: &Scheme<'_>, note: Option<String>, points: Vec<(f64, f64)>) -> Line {
    let LineStyle { colour, dash, .. } = *scheme.look;
    Line { name: scheme.label.into(), note, colour, dash, points, ..Line::default() }
}
