//! A section in the report: how many flows have finished.

use weir::report::chart::{Axis, Chart, Line, LegendPlacement, Unit};
use weir::report::figures::{Figure, Layout, Section};
use weir_experiment::results::Results;

/// Draws the number of finished flows over time, a line for each scheme; nothing if no flow has finished.
pub fn section(results: &Results) -> Option<Section> {
    let end = results.traces.values().map(|trace| trace.end).max()?;
    let unit = Unit::for_time(end.as_ps() as f64);
    let mut lines = Vec::new();
    for (i, label) in results.order.iter().enumerate() {
        let flows = &results.traces.get(label)?.flows;
        let mut ends: Vec<_> = flows.iter().filter_map(|flow| Some(flow.start + flow.fct?)).collect();
        ends.sort();
        let at = |(n, end): (usize, &weir_units::Time)| (end.as_ps() as f64 / unit.scale, (n + 1) as f64);
        let points = ends.iter().enumerate().map(at).collect();
        lines.push(Line { name: label.clone(), colour: i, dash: i, points, ..Line::default() });
    }
    let most = lines.iter().map(|line| line.points.len()).max().filter(|&most| most > 0)?;
    let chart = Chart {
        alt: "Finished flows over time".into(),
        x: Axis::exactly(format!("virtual time ({})", unit.name), 0.0, end.as_ps() as f64 / unit.scale),
        y: Axis::from_zero("finished flows", most as f64),
        lines,
        marks: Vec::new(),
        names: LegendPlacement::Legend,
    };
    let figure =
        Figure { file: "finished".into(), title: String::new(), layout: Layout::Full, picture: chart.into() };
    Some(Section { title: "Finished flows".into(), note: None, figures: vec![figure] })
}
