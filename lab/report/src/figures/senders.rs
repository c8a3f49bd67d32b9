//! Charts of `observe.sender`: one section for each quantity, with a chart for each scheme and a line for each flow.

use super::scheme::Scheme;
use super::section::{Figure, Layout, Section};
use super::time::TimeAxis;
use crate::chart::{Axis, Chart, LegendPlacement, Line, Unit};
use crate::format;
use crate::names::file_name;
use crate::unit::ValueUnit;
use weir_experiment::results::SenderSeries;

/// Maximum number of flows in a chart.
const MAX_LINES: usize = 6;

/// Returns a section for each quantity that was recorded, in the order of recording.
pub(super) fn sections(schemes: &[Scheme<'_>], time: &TimeAxis) -> Vec<Section> {
    let mut quantities: Vec<&str> = Vec::new();
    // A quantity that no sender has, such as the window of a scheme that limits its rate only, has no section.
    let all = schemes.iter().flat_map(|s| &s.trace.senders);
    for series in all.filter(|series| series.values.iter().any(Option::is_some)) {
        if !quantities.contains(&series.quantity.as_str()) {
            quantities.push(&series.quantity);
        }
    }
    quantities.into_iter().map(|quantity| section(quantity, schemes, time)).collect()
}

/// Returns the series of a quantity that have a value.
fn series<'a>(scheme: &Scheme<'a>, quantity: &str) -> Vec<&'a SenderSeries> {
    let all = scheme.trace.senders.iter().filter(|series| series.quantity == quantity);
    all.filter(|series| series.values.iter().any(Option::is_some)).collect()
}

fn section(quantity: &str, schemes: &[Scheme<'_>], time: &TimeAxis) -> Section {
    let values = || {
        let all = schemes.iter().flat_map(|s| series(s, quantity));
        all.flat_map(|series| series.values.iter().copied().flatten())
    };
    let (lowest, highest) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    let largest = highest.max(-lowest);
    let (unit, scale) = match ValueUnit::of_quantity(quantity) {
        // Series have microseconds, units picoseconds.
        ValueUnit::Microseconds => (Some(Unit::for_time(largest * 1e6)), 1e6),
        ValueUnit::Bytes => (Some(Unit::for_bytes(largest)), 1.0),
        ValueUnit::BitsPerSecond => (Some(Unit::for_rate(largest)), 1.0),
        ValueUnit::Gbps => (Some(Unit::for_rate(largest * 1e9)), 1e9),
        ValueUnit::None => (None, 1.0),
    };
    let (title, name) = match quantity {
        "rtt" => ("Round-trip times".to_owned(), "RTT"),
        "window" => ("Windows".to_owned(), "window"),
        "rate" => ("Senders: rate".to_owned(), "sending rate"),
        gauge => (format!("Senders: {gauge}"), gauge),
    };
    let (axis, scale) = match unit {
        Some(unit) => (format!("{name} ({})", unit.name), unit.scale / scale),
        None => (name.to_owned(), 1.0),
    };
    let y = match lowest < 0.0 {
        true => Axis::exactly(axis, lowest / scale, highest / scale),
        false => Axis::from_zero(axis, highest / scale),
    };
    let drawn = schemes.iter().filter(|s| !series(s, quantity).is_empty());
    let figures = drawn.map(|s| {
        let lines = series(s, quantity).into_iter().take(MAX_LINES).enumerate().map(|(i, flow)| {
            // Samples without a value are left out: before the start and after the end of the flow.
            let points =
                time.samples(s.trace, flow.values.iter().map(|value| value.unwrap_or(f64::NAN) / scale));
            Line {
                name: format::flow(&flow.flow),
                colour: s.style.colour,
                dash: i,
                points: points.into_iter().filter(|(_, value)| value.is_finite()).collect(),
                ..Line::default()
            }
        });
        Figure {
            file: format!("sender-{}-{}", file_name(quantity), file_name(s.label)),
            title: s.label.to_owned(),
            layout: Layout::Half,
            picture: Chart {
                alt: format!("{title} over time under {}", s.label),
                x: time.axis(),
                y: y.clone(),
                lines: lines.collect(),
                marks: time.marks([s].into_iter()),
                names: LegendPlacement::Direct,
            }
            .into(),
        }
    });
    let flows = schemes.iter().map(|s| series(s, quantity).len()).max().unwrap_or(0);
    let note = (flows > MAX_LINES).then(|| format!("The first {MAX_LINES} of {flows} recorded flows."));
    Section { figures: figures.collect(), title, note }
}
