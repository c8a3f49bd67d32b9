//! Charts of the queues of observed ports over time, and of the distribution of the bottleneck's queue.

use super::distribution;
use super::scheme::{Scheme, by_scheme, line, observed_ports, series};
use super::section::{Figure, Layout, Section};
use super::time::TimeAxis;
use crate::chart::{Axis, Chart, LegendPlacement, Picture, Unit};
use crate::format;
use crate::metrics::{bottleneck, port_name, ports_by_congestion};
use crate::names::file_name;
use weir_experiment::results::Results;

/// Maximum number of ports on the page; the table of queues has all.
const MAX_PORTS: usize = 8;

pub(super) fn section(results: &Results, schemes: &[Scheme<'_>], time: &TimeAxis) -> Option<Section> {
    let ports = observed_ports(results, schemes);
    let note = match ports.len() {
        _ if schemes.is_empty() => return None,
        0 => Some(no_ports_note(results)),
        n if n > MAX_PORTS => Some(format!("The {MAX_PORTS} most congested of {n} observed ports.")),
        _ => None,
    };
    // It may be a port that was not observed.
    let bottleneck = bottleneck(&results.summary);
    let mut figures: Vec<Figure> = ports
        .iter()
        .take(MAX_PORTS)
        .enumerate()
        .map(|(rank, port)| {
            let peak = |s: &Scheme<'_>| {
                let recorded = series(s, port).and_then(|p| p.queue_bytes.iter().max().copied()).unwrap_or(0);
                // The summary has the exact peak, which may lie between two samples.
                let queue = results.summary.schemes.get(s.label).and_then(|sum| sum.queues.get(port));
                queue.map_or(recorded, |q| q.peak_bytes.max(recorded))
            };
            let max = schemes.iter().map(peak).max().unwrap_or(0) as f64;
            let unit = Unit::for_bytes(max);
            let lines = schemes.iter().filter_map(|s| {
                let values = &series(s, port)?.queue_bytes;
                let points = time.samples(s.trace, values.iter().map(|&b| b as f64 / unit.scale));
                let note = format!("peak {}", format::bytes(peak(s) as f64));
                Some(line(s, Some(note), points))
            });
            let name = port_name(results, port);
            Figure {
                file: format!("queue-{}", file_name(port)),
                title: if bottleneck == Some(port) && ports.len() > 1 {
                    format!("{name} (bottleneck)")
                } else {
                    name.clone()
                },
                layout: if rank == 0 { Layout::Full } else { Layout::Half },
                picture: Picture::Chart(Chart {
                    alt: format!("Queue length over time at {name}"),
                    x: time.axis(),
                    y: Axis::from_zero(format!("queue ({})", unit.name), max / unit.scale),
                    lines: lines.collect(),
                    marks: time.marks(schemes.iter().filter(|s| series(s, port).is_some())),
                    names: LegendPlacement::Legend,
                }),
            }
        })
        .collect();
    let detail = figures.first().and_then(|bottleneck| detail_figure(bottleneck, time.unit));
    let tail = ports.first().and_then(|port| tail_figure(port, &port_name(results, port), schemes));
    // Both charts follow that of the bottleneck.
    let position = figures.len().min(1);
    figures.splice(position..position, detail.into_iter().chain(tail));
    Some(Section { title: "Queue length".into(), note, figures })
}

/// Returns the note of a report without time series: how to record those of the most congested ports.
fn no_ports_note(results: &Results) -> String {
    let ports: Vec<&str> =
        ports_by_congestion(results.summary.schemes.values()).into_iter().take(MAX_PORTS).collect();
    let reason =
        "No port was observed over time: the flows cross more than 8 ports, and observe.ports selects none.";
    if ports.is_empty() {
        return reason.to_owned();
    }
    format!(
        "{reason} The same run with --set 'observe.ports=[{}]' records the most congested ones.",
        ports.iter().map(|port| format!("\"{port}\"")).collect::<Vec<_>>().join(", ")
    )
}

/// Returns the complementary distribution of a port's queue length. Both axes are logarithmic, because most queues
/// are empty most of the time, and schemes differ in the rest.
fn tail_figure(port: &str, name: &str, schemes: &[Scheme<'_>]) -> Option<Figure> {
    let sorted = |s: &Scheme<'_>| {
        let mut values: Vec<f64> = series(s, port)?.queue_bytes.iter().map(|&bytes| bytes as f64).collect();
        values.sort_unstable_by(f64::total_cmp);
        Some(values)
    };
    let all: Vec<Vec<f64>> = schemes.iter().filter_map(sorted).collect();
    let values = || all.iter().flatten().copied().filter(|&bytes| bytes > 0.0);
    let (min, max) = (values().reduce(f64::min)?, values().fold(0.0, f64::max));
    let rarest = all.iter().map(|values| 100.0 / values.len().max(1) as f64).fold(100.0, f64::min);
    let mut x = Axis::log("queue (log)", min, max);
    x.format = format::bytes_short;
    let chart = Chart {
        alt: format!("Complementary distribution of the queue length at {name}"),
        x,
        y: Axis::log("samples with at least this queue (%, log)", rarest, 100.0),
        lines: by_scheme(schemes, |s| Some(distribution::at_least(&sorted(s)?, min))),
        marks: Vec::new(),
        names: LegendPlacement::Legend,
    };
    Some(Figure {
        file: format!("queue-{}-tail", file_name(port)),
        title: format!("Distribution over the run, {name}"),
        layout: Layout::Half,
        picture: chart.into(),
    })
}

/// Returns the chart for the interval in which values exceed the rest level, if this interval is short.
fn detail_figure(figure: &Figure, unit: Unit) -> Option<Figure> {
    /// Values below this share of the peak are at rest.
    const REST_LEVEL: f64 = 0.05;
    /// Maximum length of the active interval as a share of the run, for a second chart.
    const MAX_SHARE: f64 = 0.3;
    /// Margin on both sides, as a share of the interval.
    const MARGIN: f64 = 0.15;
    let chart = figure.picture.chart()?;
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let peak = points().map(|p| p.1).fold(0.0, f64::max);
    let active = points().filter(|p| p.1 > REST_LEVEL * peak).map(|p| p.0);
    let (from, to) = (active.clone().fold(f64::INFINITY, f64::min), active.fold(0.0, f64::max));
    let span = to - from;
    if span <= 0.0 || span > MAX_SHARE * (chart.x.high - chart.x.low) {
        return None;
    }
    // Round to a tenth of the span's order of magnitude.
    let rounding = 10f64.powf(span.log10().floor() - 1.0);
    let low = (((from - MARGIN * span) / rounding).floor() * rounding).max(chart.x.low);
    let high = (((to + MARGIN * span) / rounding).ceil() * rounding).min(chart.x.high);
    let mut chart = chart.clone();
    for line in &mut chart.lines {
        line.points.retain(|p| (low..=high).contains(&p.0));
    }
    chart.x.low = low;
    chart.x.high = high;
    chart.marks.retain(|mark| (low..=high).contains(&mark.x));
    let [from, to] = [low, high].map(chart.x.format);
    let title = format!("Detail from {from} to {to} {}", unit.name);
    chart.alt = format!("{}, {title}", chart.alt);
    Some(Figure {
        file: format!("{}-closer", figure.file),
        title,
        layout: Layout::Full,
        picture: chart.into(),
    })
}
