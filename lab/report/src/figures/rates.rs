//! Charts of sending rates: one line per flow if there are few, else their distribution over time.

use super::scheme::Scheme;
use super::section::{Figure, Layout, Section};
use super::time::TimeAxis;
use crate::chart::{Axis, Chart, LegendPlacement, Line, Unit};
use crate::format;
use crate::names::file_name;
use weir_experiment::results::RateSeries;

/// Maximum number of flows that are drawn as separate lines.
const MAX_LINES: usize = 6;
/// Number of time windows in which the rates of more flows are summarised.
const WINDOWS: usize = 140;
/// Percentiles between which the band of a summary lies, as shares.
const BAND_LOW: f64 = 0.1;
const BAND_HIGH: f64 = 0.9;

/// Returns the section with a chart of sending rates for each scheme.
pub(super) fn section(schemes: &[Scheme<'_>], time: &TimeAxis) -> Option<Section> {
    let max_rate = |flow: &RateSeries| flow.rate.iter().map(|r| r.as_bps()).max().unwrap_or(0);
    let max = schemes.iter().flat_map(|s| &s.trace.rates).map(max_rate).max()? as f64;
    let unit = Unit::for_rate(max);
    let figures = schemes.iter().filter(|s| !s.trace.rates.is_empty()).map(|s| {
        let flows = s.trace.rates.len();
        let lines =
            if flows <= MAX_LINES { line_per_flow(s, time, unit) } else { summary_lines(s, time, unit) };
        Figure {
            file: format!("rates-{}", file_name(s.label)),
            title: s.label.to_owned(),
            layout: Layout::Half,
            picture: Chart {
                alt: format!("Sending rates of {flows} flows over time under {}", s.label),
                x: time.axis(),
                y: Axis::from_zero(format!("sending rate ({})", unit.name), max / unit.scale),
                lines,
                marks: time.marks([s].into_iter()),
                names: if flows <= MAX_LINES { LegendPlacement::Direct } else { LegendPlacement::None },
            }
            .into(),
        }
    });
    let (flows, observed) = schemes.first().map(|s| (s.trace.flows.len(), s.trace.rates.len()))?;
    let notes = [
        (flows > observed).then(|| format!("The first {observed} of {flows} flows.")),
        schemes.iter().any(|s| s.trace.rates.len() > MAX_LINES).then(|| {
            format!(
                "Of the flows that are sending at an instant, the line is the median, the band reaches from the \
                 {:.0}th to the {:.0}th percentile, and dotted lines are the lowest and the highest rate.",
                100.0 * BAND_LOW,
                100.0 * BAND_HIGH
            )
        }),
    ];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    let note = (!notes.is_empty()).then(|| notes.join(" "));
    Some(Section { title: "Sending rates".into(), note, figures: figures.collect() })
}

/// Returns one line per flow, in the colour of the scheme.
fn line_per_flow(scheme: &Scheme<'_>, time: &TimeAxis, unit: Unit) -> Vec<Line> {
    let lines = scheme.trace.rates.iter().enumerate().map(|(i, flow)| Line {
        name: format::flow(&flow.flow),
        colour: scheme.style.colour,
        dash: i,
        points: time.samples(scheme.trace, flow.rate.iter().map(|r| r.as_bps_f64() / unit.scale)),
        ..Line::default()
    });
    lines.collect()
}

/// Returns median, band and extremes of the rates of flows that are sending.
fn summary_lines(scheme: &Scheme<'_>, time: &TimeAxis, unit: Unit) -> Vec<Line> {
    let (trace, flows) = (scheme.trace, &scheme.trace.rates);
    let samples = flows.iter().map(|flow| flow.rate.len()).max().unwrap_or(0);
    let window = samples.div_ceil(WINDOWS).max(1);
    let (mut median, mut band, mut lowest, mut highest) = (vec![], vec![], vec![], vec![]);
    for from in (0..samples).step_by(window) {
        let until = (from + window).min(samples);
        let x = time.at(trace.interval * until as u64);
        let in_window =
            flows.iter().flat_map(|flow| flow.rate.get(from..until.min(flow.rate.len())).unwrap_or(&[]));
        let mut rates: Vec<f64> =
            in_window.map(|rate| rate.as_bps_f64() / unit.scale).filter(|&rate| rate > 0.0).collect();
        if rates.is_empty() {
            rates.push(0.0);
        }
        rates.sort_unstable_by(f64::total_cmp);
        let quantile = |share: f64| rates[(share * (rates.len() - 1) as f64).round() as usize];
        median.push((x, quantile(0.5)));
        band.push((quantile(BAND_LOW), quantile(BAND_HIGH)));
        lowest.push((x, rates[0]));
        highest.push((x, rates[rates.len() - 1]));
    }
    let colour = scheme.style.colour;
    let line = |name: &str, dash, points, band| Line {
        name: name.into(),
        colour,
        dash,
        points,
        band,
        ..Line::default()
    };
    vec![
        line("median", 0, median, band),
        line("highest", 2, highest, Vec::new()),
        line("lowest", 2, lowest, Vec::new()),
    ]
}
