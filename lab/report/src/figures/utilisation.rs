//! Chart of the bottleneck's utilisation over time.

use super::scheme::{Scheme, line, observed_ports, series};
use super::section::{Figure, Layout, Section};
use super::time::TimeAxis;
use crate::chart::{Axis, Chart, LegendPlacement};
use crate::format;
use crate::metrics::port_name;
use crate::names::file_name;
use weir_experiment::results::Results;
use weir_units::Time;

/// Returns the section with the bottleneck's utilisation, averaged over short windows.
pub(super) fn section(results: &Results, schemes: &[Scheme<'_>], time: &TimeAxis) -> Option<Section> {
    /// Number of windows. Single samples are not meaningful, because within a short interval a link is either busy or
    /// idle.
    const WINDOWS: usize = 200;
    /// Upper end of the axis in percent, so that the line of a full link does not touch the frame.
    const FULL: f64 = 104.0;
    let port = observed_ports(results, schemes).into_iter().next()?;
    let mut window = Time::ZERO;
    let mut lines = Vec::new();
    for s in schemes {
        let Some(values) = series(s, &port).map(|p| carry_over_utilisation(&p.utilisation)) else { continue };
        let samples = values.len().div_ceil(WINDOWS).max(1);
        window = s.trace.interval * samples as u64;
        let points = values.chunks(samples).enumerate().map(|(i, chunk)| {
            let mean = chunk.iter().sum::<f64>() / chunk.len() as f64;
            let until = i * samples + chunk.len();
            (time.at(s.trace.interval * until as u64), 100.0 * mean)
        });
        let summary = results.summary.schemes.get(s.label).and_then(|sum| sum.utilisation.get(&port));
        let note = summary.map(|u| format!("{} %", format::decimal(100.0 * u, 1)));
        lines.push(line(s, note, points.collect()));
    }
    let name = port_name(results, &port);
    let chart = Chart {
        alt: format!("Utilisation over time at {name}"),
        x: time.axis(),
        y: Axis::exactly("utilisation (%)", 0.0, FULL),
        lines,
        marks: time.marks(schemes.iter().filter(|s| series(s, &port).is_some())),
        names: LegendPlacement::Legend,
    };
    let figure = Figure {
        file: format!("utilisation-{}", file_name(&port)),
        title: name,
        layout: Layout::Full,
        picture: chart.into(),
    };
    let note =
        Some(format!("Each point is the mean of {window}. The number after a name is the mean of the run."));
    Some(Section { title: "Utilisation".into(), note, figures: vec![figure] })
}

/// Returns the utilisation of each sample, at most 1. The bytes of a frame are counted when its transmission starts,
/// so a sample may exceed 1; the excess is carried over to the next sample. The sum is preserved except after the
/// last sample.
pub fn carry_over_utilisation(samples: &[f64]) -> Vec<f64> {
    let mut excess = 0.0;
    let corrected = |&sample: &f64| {
        let total = sample + excess;
        excess = (total - 1.0f64).max(0.0);
        total - excess
    };
    samples.iter().map(corrected).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_utilisation_is_carried_over() {
        assert_eq!(carry_over_utilisation(&[0.5, 1.25, 0.5, 0.0]), [0.5, 1.0, 0.75, 0.0]);
        assert_eq!(carry_over_utilisation(&[2.5, 0.0, 0.0]), [1.0, 1.0, 0.5]);
    }
}
