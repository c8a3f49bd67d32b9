//! Chart of PFC pauses over time.

use super::scheme::{Scheme, line};
use super::section::{Figure, Layout, Section};
use super::time::TimeAxis;
use crate::chart::{Axis, Chart, LegendPlacement};
use crate::format;

/// Returns the section with the cumulative number of pause frames over time.
pub(super) fn section(schemes: &[Scheme<'_>], time: &TimeAxis) -> Option<Section> {
    let pause_count = |s: &Scheme<'_>| s.trace.pauses.iter().filter(|p| p.is_pause).count();
    let max = schemes.iter().map(pause_count).max().filter(|&max| max > 0)?;
    let lines = schemes.iter().map(|s| {
        let mut points = vec![(0.0, 0.0)];
        for (i, pause) in s.trace.pauses.iter().filter(|p| p.is_pause).enumerate() {
            let x = time.at(pause.time);
            points.extend([(x, i as f64), (x, (i + 1) as f64)]);
        }
        points.push((time.at(s.trace.end), pause_count(s) as f64));
        let note = Some(format::count(pause_count(s) as u64));
        line(s, note, points)
    });
    let chart = Chart {
        alt: "PFC pause frames sent so far, over time".into(),
        x: time.axis(),
        y: Axis::from_zero("pause frames sent", max as f64),
        lines: lines.collect(),
        marks: time.marks(schemes.iter()),
        names: LegendPlacement::Legend,
    };
    let figure =
        Figure { file: "pauses".into(), title: String::new(), layout: Layout::Full, picture: chart.into() };
    Some(Section { title: "PFC pauses".into(), note: None, figures: vec![figure] })
}
