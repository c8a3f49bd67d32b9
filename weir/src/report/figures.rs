//! From the results of a run to its charts.

use super::chart::{Axis, Chart, Heat, Line, Mark, Names, Picture, Unit};
use super::dir::file_name;
use super::format;
use super::metrics::{port_name, ports_by_congestion};
use std::collections::BTreeSet;
use weir_sim::results::{FctBucket, PortSeries, RateSeries, Results, SchemeTrace};
use weir_units::Time;

/// Some charts under one heading.
pub struct Section {
    /// The heading.
    pub title: String,
    /// Note on how to read the charts.
    pub note: Option<String>,
    /// The charts.
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
    /// Content.
    pub picture: Picture,
}

/// Part of the page's width that a figure takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All of it.
    Full,
    /// Half, where there is room for two.
    Half,
}

/// More ports than this are in `queues.csv`, not in the page.
const MOST_PORTS: usize = 8;
/// The most lines that have their names beside them.
const MOST_DIRECT_NAMES: usize = 6;
/// Number of finished flows from which they count as a workload.
const MANY_FLOWS: usize = 50;
/// The most times that are marked.
const MOST_MARKS: usize = 5;

/// Appearance of a scheme in every chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Index of its colour.
    pub colour: usize,
    /// Index of its dash pattern.
    pub dash: usize,
}

/// A scheme's line: label, look and trace.
struct Scheme<'a> {
    label: &'a str,
    look: Look,
    trace: &'a SchemeTrace,
}

/// All charts of a run, the most telling first; every scheme looks different.
pub fn sections(results: &Results) -> Vec<Section> {
    let looks: Vec<Look> = (0..results.order.len()).map(|i| Look { colour: i, dash: i }).collect();
    sections_as(results, &looks)
}

/// All charts, with a look for each scheme in order.
pub fn sections_as(results: &Results, looks: &[Look]) -> Vec<Section> {
    let schemes: Vec<Scheme<'_>> = results
        .order
        .iter()
        .zip(looks)
        .filter_map(|(label, &look)| Some(Scheme { label, look, trace: results.traces.get(label)? }))
        .collect();
    let end = schemes.iter().map(|s| s.trace.end).max().unwrap_or_default();
    let time = TimeAxis { unit: Unit::of_time(end.as_ps() as f64), end, marks: moments(results, &schemes) };
    // Where there are many flows, when they finish says most.
    let flows = schemes.iter().map(|s| s.trace.flows.iter().filter(|f| f.fct.is_some()).count()).max();
    let (before, after) = if flows >= Some(MANY_FLOWS) {
        ([slowdown(results, &schemes), load(results)], [None, None])
    } else {
        ([None, None], [slowdown(results, &schemes), load(results)])
    };
    let series =
        [queues(results, &schemes, &time), rates(&schemes, &time), utilisation(results, &schemes, &time)];
    before.into_iter().chain(series).chain(after).chain([pauses(&schemes, &time)]).flatten().collect()
}

/// The time axis that all charts of a run share.
struct TimeAxis {
    unit: Unit,
    end: Time,
    marks: Vec<(Time, String)>,
}

impl TimeAxis {
    fn axis(&self) -> Axis {
        Axis::exactly(format!("virtual time ({})", self.unit.name), 0.0, self.at(self.end))
    }
    fn at(&self, time: Time) -> f64 {
        time.as_ps() as f64 / self.unit.scale
    }
    fn marks(&self) -> Vec<Mark> {
        self.marks.iter().map(|(time, label)| Mark { x: self.at(*time), label: label.clone() }).collect()
    }
}

/// Returns what happened meanwhile: flows that joined, policies that were set.
fn moments(results: &Results, schemes: &[Scheme<'_>]) -> Vec<(Time, String)> {
    let mut moments = later_starts(schemes);
    let policy = schemes.first().and_then(|first| results.summary.schemes.get(first.label)?.policy.as_ref());
    let sets = policy.map_or(&[][..], |policy| &policy.sets);
    if sets.len() <= MOST_MARKS {
        moments.extend(sets.iter().map(|set| (Time::from_secs_f64(set.at_us / 1e6), set.change.clone())));
    }
    moments
}

/// Returns the times at which flows join after the beginning: one mark per time, none at all if there are many.
fn later_starts(schemes: &[Scheme<'_>]) -> Vec<(Time, String)> {
    let Some(first) = schemes.first() else { return Vec::new() };
    let mut starts: Vec<(Time, Vec<String>)> = Vec::new();
    for flow in first.trace.flows.iter().filter(|flow| flow.start > Time::ZERO) {
        match starts.iter_mut().find(|(time, _)| *time == flow.start) {
            Some((_, names)) => names.push(flow.name()),
            None => starts.push((flow.start, vec![flow.name()])),
        }
        if starts.len() > MOST_MARKS {
            return Vec::new();
        }
    }
    let words = |names: Vec<String>| match &names[..] {
        [one] => format!("{} starts", format::flow(one)),
        _ => format!("{} flows start", names.len()),
    };
    starts.into_iter().map(|(time, names)| (time, words(names))).collect()
}

/// The observed ports, the most congested first.
fn observed_ports(results: &Results, schemes: &[Scheme<'_>]) -> Vec<String> {
    let rank = ports_by_congestion(&results.summary);
    let mut ports: Vec<&str> = Vec::new();
    for port in schemes.iter().flat_map(|s| &s.trace.ports) {
        if !ports.contains(&port.port.as_str()) {
            ports.push(&port.port);
        }
    }
    // A port that never sent comes last.
    ports.sort_by_key(|port| rank.iter().position(|p| p == port).unwrap_or(rank.len()));
    ports.into_iter().map(str::to_owned).collect()
}

fn series<'a>(scheme: &Scheme<'a>, port: &str) -> Option<&'a PortSeries> {
    scheme.trace.ports.iter().find(|p| p.port == port)
}

fn queues(results: &Results, schemes: &[Scheme<'_>], time: &TimeAxis) -> Option<Section> {
    let ports = observed_ports(results, schemes);
    let note = match ports.len() {
        _ if schemes.is_empty() => return None,
        0 => Some("No port was observed; observe.ports in the experiment names those to draw.".to_owned()),
        n if n > MOST_PORTS => Some(format!("The {MOST_PORTS} most congested of {n} observed ports.")),
        _ => None,
    };
    let mut figures: Vec<Figure> = ports
        .iter()
        .take(MOST_PORTS)
        .enumerate()
        .map(|(rank, port)| {
            let peak = |s: &Scheme<'_>| {
                let recorded = series(s, port).and_then(|p| p.queue_bytes.iter().max().copied()).unwrap_or(0);
                // The summary has the true peak, which may lie between two samples.
                let queue = results.summary.schemes.get(s.label).and_then(|sum| sum.queues.get(port));
                queue.map_or(recorded, |q| q.peak_bytes.max(recorded))
            };
            let most = schemes.iter().map(peak).max().unwrap_or(0) as f64;
            let unit = Unit::of_bytes(most);
            let lines = schemes.iter().filter_map(|s| {
                let values = &series(s, port)?.queue_bytes;
                let points = samples(s.trace, time, values.iter().map(|&b| b as f64 / unit.scale));
                let note = Some(format!("peak {}", format::bytes(peak(s) as f64)));
                Some(Line {
                    name: s.label.into(),
                    note,
                    colour: s.look.colour,
                    dash: s.look.dash,
                    points,
                    ..Line::default()
                })
            });
            let name = port_name(results, port);
            Figure {
                file: format!("queue-{}", file_name(port)),
                title: if rank == 0 && ports.len() > 1 {
                    format!("{name} (bottleneck)")
                } else {
                    name.clone()
                },
                layout: if rank == 0 { Layout::Full } else { Layout::Half },
                picture: Picture::Chart(Chart {
                    alt: format!("Queue length over time at {name}"),
                    x: time.axis(),
                    y: Axis::from_zero(format!("queue ({})", unit.name), most / unit.scale),
                    lines: lines.collect(),
                    marks: time.marks(),
                    names: Names::Legend,
                }),
            }
        })
        .collect();
    let zoom = figures.first().and_then(|bottleneck| closer(bottleneck, time.unit));
    let shares = ports.first().and_then(|port| queue_distribution(port, &port_name(results, port), schemes));
    figures.splice(figures.len().min(1)..figures.len().min(1), zoom.into_iter().chain(shares));
    Some(Section { title: "Queue length".into(), note, figures })
}

/// Share of the samples, in percent, at which a port held at most so much.
fn queue_distribution(port: &str, name: &str, schemes: &[Scheme<'_>]) -> Option<Figure> {
    let sorted = |s: &Scheme<'_>| {
        let mut values = series(s, port)?.queue_bytes.clone();
        values.sort_unstable();
        (!values.is_empty()).then_some(values)
    };
    let most = schemes.iter().filter_map(|s| sorted(s)?.last().copied()).max().filter(|&most| most > 0)?;
    let unit = Unit::of_bytes(most as f64);
    let lines = by_scheme(schemes, |s| {
        let values = sorted(s)?;
        let points = quantiles(&values).map(|(value, share)| (value as f64 / unit.scale, share));
        Some(points.chain([(most as f64 / unit.scale, 100.0)]).collect())
    });
    let chart = Chart {
        alt: format!("Distribution of the queue length at {name}"),
        x: Axis::from_zero(format!("queue ({})", unit.name), most as f64 / unit.scale),
        y: Axis::exactly("samples (%)", 0.0, 100.0),
        lines,
        marks: Vec::new(),
        names: Names::Legend,
    };
    Some(Figure {
        file: format!("queue-{}-cdf", file_name(port)),
        title: "Distribution over the run, bottleneck".into(),
        layout: Layout::Half,
        picture: chart.into(),
    })
}

/// Values of an ascending list with the share of it, in percent, that they are the end of.
fn quantiles<T: Copy>(values: &[T]) -> impl Iterator<Item = (T, f64)> {
    /// Quantiles drawn; every half percent is finer than a pixel.
    const STEPS: usize = 200;
    let last = values.len().saturating_sub(1);
    let steps = STEPS.min(values.len()).max(1);
    (0..=steps).filter(|_| !values.is_empty()).map(move |i| {
        let index = i * last / steps;
        (values[index], 100.0 * (index + 1) as f64 / values.len() as f64)
    })
}

/// Returns the section on the load of every port: a map for each scheme.
fn load(results: &Results) -> Option<Section> {
    /// Fewer are read off the table of ports.
    const FEWEST: usize = 8;
    /// More switches than this take the page's width.
    const NARROW: usize = 20;
    let summary = &results.summary;
    // In the order of their numbers: s2 before s10.
    let mut switches: Vec<(String, u64, String)> = Vec::new();
    let mut ports: Vec<u64> = Vec::new();
    let of = |port: &str| -> Option<((String, u64, String), u64)> {
        let (switch, number) = port.rsplit_once(':')?;
        let name = switch.trim_end_matches(|c: char| c.is_ascii_digit());
        let order = switch[name.len()..].parse().unwrap_or(0);
        Some(((name.to_owned(), order, switch.to_owned()), number.parse().ok()?))
    };
    let all: BTreeSet<&String> = summary.schemes.values().flat_map(|s| s.utilisation.keys()).collect();
    for (switch, port) in all.iter().filter_map(|name| of(name)) {
        switches.push(switch);
        ports.push(port);
    }
    ports.sort_unstable();
    ports.dedup();
    switches.sort();
    switches.dedup();
    if all.len() < FEWEST || switches.len() < 2 {
        return None;
    }
    let figures = results.order.iter().filter_map(|label| {
        let loads = &summary.schemes.get(label)?.utilisation;
        let cells = loads.iter().filter_map(|(name, share)| {
            let (switch, port) = of(name)?;
            Some((switches.binary_search(&switch).ok()?, ports.binary_search(&port).ok()?, *share))
        });
        let (busiest, most) = loads.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let mean = loads.values().sum::<f64>() / loads.len() as f64;
        let percent = |share: f64| format::decimal(100.0 * share, 1);
        let heat = Heat {
            alt: format!("Load of every port under {label}"),
            note: format!("mean {} %, most {} % at {busiest}", percent(mean), percent(*most)),
            across: "switch".into(),
            down: "port".into(),
            columns: switches.iter().map(|(_, _, name)| name.clone()).collect(),
            rows: ports.iter().map(u64::to_string).collect(),
            cells: cells.collect(),
        };
        Some(Figure {
            file: format!("load-{}", file_name(label)),
            title: label.clone(),
            layout: if switches.len() > NARROW { Layout::Full } else { Layout::Half },
            picture: Picture::Heat(heat),
        })
    });
    Some(Section {
        title: "Link load".into(),
        note: Some(
            "Utilisation of every switch port over the run; ports that sent nothing are blank.".into(),
        ),
        figures: figures.collect(),
    })
}

/// The chart again for the short while in which most of it happens, if there is one.
fn closer(figure: &Figure, unit: Unit) -> Option<Figure> {
    /// Share of the peak below which a value counts as rest.
    const REST: f64 = 0.05;
    /// To be worth a second chart the unrest must be at most this share of the run...
    const SHORT: f64 = 0.3;
    /// ...and is shown with this share of itself on both sides.
    const MARGIN: f64 = 0.15;
    let chart = figure.picture.chart()?;
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let peak = points().map(|p| p.1).fold(0.0, f64::max);
    let unrest = points().filter(|p| p.1 > REST * peak).map(|p| p.0);
    let (from, to) = (unrest.clone().fold(f64::INFINITY, f64::min), unrest.fold(0.0, f64::max));
    let span = to - from;
    if span <= 0.0 || span > SHORT * (chart.x.high - chart.x.low) {
        return None;
    }
    // To round numbers, a tenth of the span's magnitude.
    let grain = 10f64.powf(span.log10().floor() - 1.0);
    let low = (((from - MARGIN * span) / grain).floor() * grain).max(chart.x.low);
    let high = (((to + MARGIN * span) / grain).ceil() * grain).min(chart.x.high);
    let mut chart = chart.clone();
    for line in &mut chart.lines {
        line.points.retain(|p| (low..=high).contains(&p.0));
    }
    chart.x.low = low;
    chart.x.high = high;
    chart.marks.retain(|mark| (low..=high).contains(&mark.x));
    let [from, to] = [low, high].map(chart.x.format);
    let title = format!("The same from {from} to {to} {}", unit.name);
    chart.alt = format!("{}, {title}", chart.alt);
    Some(Figure {
        file: format!("{}-closer", figure.file),
        title,
        layout: Layout::Full,
        picture: chart.into(),
    })
}

/// Points of a series, one value per sample.
fn samples(trace: &SchemeTrace, time: &TimeAxis, values: impl Iterator<Item = f64>) -> Vec<(f64, f64)> {
    values.enumerate().map(|(i, value)| (time.at(trace.interval * (i as u64 + 1)), value)).collect()
}

fn rates(schemes: &[Scheme<'_>], time: &TimeAxis) -> Option<Section> {
    let highest = |flow: &RateSeries| flow.rate.iter().map(|r| r.as_bps()).max().unwrap_or(0);
    let most = schemes.iter().flat_map(|s| &s.trace.rates).map(highest).max()? as f64;
    let unit = Unit::of_rate(most);
    let figures = schemes.iter().filter(|s| !s.trace.rates.is_empty()).map(|s| {
        let flows = &s.trace.rates;
        let few = flows.len() <= MOST_DIRECT_NAMES;
        let lines = flows.iter().enumerate().map(|(i, flow)| Line {
            name: format::flow(&flow.flow),
            note: None,
            colour: s.look.colour,
            dash: if few { i } else { 0 },
            points: samples(s.trace, time, flow.rate.iter().map(|r| r.as_bps_f64() / unit.scale)),
            ..Line::default()
        });
        Figure {
            file: format!("rates-{}", file_name(s.label)),
            title: s.label.to_owned(),
            layout: Layout::Half,
            picture: Picture::Chart(Chart {
                alt: format!("Sending rates of {} flows over time under {}", flows.len(), s.label),
                x: time.axis(),
                y: Axis::from_zero(format!("sending rate ({})", unit.name), most / unit.scale),
                lines: lines.collect(),
                marks: time.marks(),
                names: if few { Names::Direct } else { Names::None },
            }),
        }
    });
    let (flows, watched) = schemes.first().map(|s| (s.trace.flows.len(), s.trace.rates.len()))?;
    let note = (flows > watched).then(|| format!("The first {watched} of {flows} flows."));
    Some(Section { title: "Sending rates".into(), note, figures: figures.collect() })
}

fn utilisation(results: &Results, schemes: &[Scheme<'_>], time: &TimeAxis) -> Option<Section> {
    /// Number of points that show how a link is used; between two samples a link is either busy or not.
    const WINDOWS: usize = 200;
    /// Percent at the top of the chart: a full link does not touch the frame.
    const FULL: f64 = 104.0;
    let port = observed_ports(results, schemes).into_iter().next()?;
    let mut window = Time::ZERO;
    let mut lines = Vec::new();
    for s in schemes {
        let Some(values) = series(s, &port).map(|p| &p.utilisation) else { continue };
        let each = values.len().div_ceil(WINDOWS).max(1);
        window = s.trace.interval * each as u64;
        let points = values.chunks(each).enumerate().map(|(i, chunk)| {
            let mean = chunk.iter().sum::<f64>() / chunk.len() as f64;
            let until = i * each + chunk.len();
            (time.at(s.trace.interval * until as u64), 100.0 * mean)
        });
        let summary = results.summary.schemes.get(s.label).and_then(|sum| sum.utilisation.get(&port));
        let note = summary.map(|u| format!("{} %", format::decimal(100.0 * u, 1)));
        lines.push(Line {
            name: s.label.into(),
            note,
            colour: s.look.colour,
            dash: s.look.dash,
            points: points.collect(),
            ..Line::default()
        });
    }
    let name = port_name(results, &port);
    let chart = Chart {
        alt: format!("Utilisation over time at {name}"),
        x: time.axis(),
        y: Axis::exactly("utilisation (%)", 0.0, FULL),
        lines,
        marks: time.marks(),
        names: Names::Legend,
    };
    let figure = Figure {
        file: format!("utilisation-{}", file_name(&port)),
        title: name,
        layout: Layout::Full,
        picture: chart.into(),
    };
    let note =
        Some(format!("Each point is the mean of {window}. The number beside a name is the mean of the run."));
    Some(Section { title: "Utilisation".into(), note, figures: vec![figure] })
}

fn slowdown(results: &Results, schemes: &[Scheme<'_>]) -> Option<Section> {
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
        // One size is a point, not a line.
        let sizes = |line: &Line| line.points.iter().map(|p| p.0 as u64).collect::<BTreeSet<_>>().len();
        if lines.iter().any(|line| sizes(line) > 1) {
            figures.push(slowdown_by_size(file, title, lines));
        }
    }
    let lines = by_scheme(schemes, |s| Some(distribution(s.trace)));
    if !lines.is_empty() {
        let most = lines.iter().flat_map(|l| &l.points).map(|p| p.0).fold(1.0, f64::max);
        let mut x = Axis::log("slowdown (log)", 1.0, (most * 1.05).max(2.0));
        x.format = format::significant_short;
        let chart = Chart {
            alt: "Distribution of flow completion time slowdown".into(),
            x,
            y: Axis::exactly("flows (%)", 0.0, 100.0),
            lines,
            marks: Vec::new(),
            names: Names::Legend,
        };
        figures.push(Figure {
            file: "slowdown-cdf".into(),
            title: "Distribution".into(),
            layout: Layout::Half,
            picture: chart.into(),
        });
    }
    let note = "Completion time of a flow over what it takes alone on the fabric: 1 is perfect.";
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
    let most = points().map(|p| p.1).fold(1.0, f64::max);
    let mut x = Axis::log("flow size (log)", smallest, largest);
    x.format = format::bytes_short;
    let chart = Chart {
        alt: format!("Slowdown of flow completion time: {title}"),
        x,
        y: Axis::from_zero("slowdown", most),
        lines,
        marks: Vec::new(),
        names: Names::Legend,
    };
    Figure { file: file.into(), title: title.into(), layout: Layout::Half, picture: chart.into() }
}

/// A line for each scheme that has points.
fn by_scheme<'a>(
    schemes: &[Scheme<'a>],
    points: impl Fn(&Scheme<'a>) -> Option<Vec<(f64, f64)>>,
) -> Vec<Line> {
    let line = |s: &Scheme<'a>| {
        let points = points(s).filter(|p| !p.is_empty())?;
        Some(Line {
            name: s.label.into(),
            colour: s.look.colour,
            dash: s.look.dash,
            points,
            ..Line::default()
        })
    };
    schemes.iter().filter_map(line).collect()
}

/// Share of flows, in percent, with at most this slowdown.
fn distribution(trace: &SchemeTrace) -> Vec<(f64, f64)> {
    let mut slowdowns: Vec<f64> = trace.flows.iter().filter_map(|f| f.slowdown()).collect();
    slowdowns.sort_by(f64::total_cmp);
    quantiles(&slowdowns).collect()
}

fn pauses(schemes: &[Scheme<'_>], time: &TimeAxis) -> Option<Section> {
    let paused = |s: &Scheme<'_>| s.trace.pauses.iter().filter(|p| p.on).count();
    let most = schemes.iter().map(paused).max().filter(|&most| most > 0)?;
    let lines = schemes.iter().map(|s| {
        let mut points = vec![(0.0, 0.0)];
        for (i, pause) in s.trace.pauses.iter().filter(|p| p.on).enumerate() {
            let x = time.at(pause.time);
            points.extend([(x, i as f64), (x, (i + 1) as f64)]);
        }
        points.push((time.at(s.trace.end), paused(s) as f64));
        let note = Some(format::count(paused(s) as u64));
        Line {
            name: s.label.into(),
            note,
            colour: s.look.colour,
            dash: s.look.dash,
            points,
            ..Line::default()
        }
    });
    let chart = Chart {
        alt: "PFC pause frames sent so far, over time".into(),
        x: time.axis(),
        y: Axis::from_zero("pause frames sent", most as f64),
        lines: lines.collect(),
        marks: time.marks(),
        names: Names::Legend,
    };
    let figure =
        Figure { file: "pauses".into(), title: String::new(), layout: Layout::Full, picture: chart.into() };
    Some(Section { title: "PFC pauses".into(), note: None, figures: vec![figure] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use weir_sim::results::{PolicySetSummary, PolicySummary};

    #[test]
    fn the_bottleneck_comes_first_and_fills_the_width() {
        let sections = sections(&sample::dumbbell());
        let queues = &sections[0];
        assert_eq!(queues.figures[0].title, "s1:3 towards s2 (bottleneck)");
        assert_eq!(queues.figures[0].layout, Layout::Full);
        assert_eq!(queues.figures[2].file, "queue-s1-3-cdf");
        assert!(queues.figures[2..].iter().all(|f| f.layout == Layout::Half));
        let titles: Vec<&str> = sections.iter().map(|s| s.title.as_str()).collect();
        assert_eq!(titles, ["Queue length", "Sending rates", "Utilisation"]);
    }

    #[test]
    fn a_short_burst_is_shown_closer_and_a_busy_queue_is_not() {
        let burst = &sections(&sample::dumbbell())[0].figures[1];
        assert_eq!(burst.file, "queue-s1-3-closer");
        let chart = burst.picture.chart().unwrap();
        let x = &chart.x;
        assert!((250.0..301.0).contains(&x.low) && (380.0..600.0).contains(&x.high), "{x:?}");
        assert!(chart.lines.iter().all(|line| line.points.len() > 50));
        let sections = sections(&sample::workload());
        let busy = sections.iter().find(|section| section.title == "Queue length").unwrap();
        assert!(busy.figures.iter().all(|figure| !figure.file.ends_with("closer")));
    }

    #[test]
    fn a_scheme_has_the_same_colour_everywhere() {
        let results = sample::workload();
        for figure in sections(&results).iter().flat_map(|s| &s.figures) {
            for line in figure.picture.chart().map_or(&[][..], |chart| &chart.lines) {
                let by_name = results.order.iter().position(|label| *label == line.name);
                let by_panel = results.order.iter().position(|label| *label == figure.title);
                assert_eq!(Some(line.colour), by_name.or(by_panel), "{} in {}", line.name, figure.file);
            }
        }
    }

    #[test]
    fn files_have_names_of_their_own() {
        for results in [sample::dumbbell(), sample::workload()] {
            let mut files: Vec<String> =
                sections(&results).into_iter().flat_map(|s| s.figures).map(|f| f.file).collect();
            let all = files.len();
            files.sort();
            files.dedup();
            assert_eq!(files.len(), all);
        }
    }

    #[test]
    fn a_later_start_is_marked_and_many_are_not() {
        let marks = |results: &Results| sections(results)[0].figures[0].picture.chart().unwrap().marks.len();
        let mut results = sample::dumbbell();
        assert_eq!(marks(&results), 1);
        let trace = results.traces.get_mut("fncc").unwrap();
        for i in 0..10 {
            let mut flow = trace.flows[1].clone();
            flow.start = Time::from_us(400 + i);
            trace.flows.push(flow);
        }
        assert_eq!(marks(&results), 0);
    }

    #[test]
    fn a_policy_that_was_set_is_marked() {
        let mut results = sample::dumbbell();
        let set = PolicySetSummary { at_us: 600.0, change: "eta=0.9".into(), ..PolicySetSummary::default() };
        let policy = PolicySummary { sets: vec![set], ..PolicySummary::default() };
        for scheme in results.summary.schemes.values_mut() {
            scheme.policy = Some(policy.clone());
        }
        let chart = sections(&results)[0].figures[0].picture.chart().unwrap().clone();
        let marks: Vec<_> = chart.marks.iter().map(|mark| (mark.x, mark.label.as_str())).collect();
        assert_eq!(marks[1..], [(600.0, "eta=0.9")]);
    }

    #[test]
    fn flows_of_one_size_have_no_line_by_size() {
        let files = |results: &Results| -> Vec<String> {
            sections(results).into_iter().flat_map(|s| s.figures).map(|f| f.file).collect()
        };
        let mut results = sample::workload();
        assert!(files(&results).contains(&"slowdown-p99".to_owned()));
        for bucket in results.summary.schemes.values_mut().flat_map(|s| &mut s.fct.by_size) {
            bucket.upto_bytes = 200_000;
        }
        assert!(!files(&results).contains(&"slowdown-p99".to_owned()));
        assert!(files(&results).contains(&"slowdown-cdf".to_owned()));
    }

    #[test]
    fn nothing_observed_draws_nothing() {
        let mut results = sample::dumbbell();
        for trace in results.traces.values_mut() {
            *trace = SchemeTrace::default();
        }
        let sections_left = sections(&results);
        assert!(sections_left.iter().all(|section| section.figures.is_empty()));
        assert!(sections_left[0].note.as_ref().is_some_and(|note| note.contains("observe.ports")));
        results.order.clear();
        assert!(sections(&results).is_empty());
    }
}
