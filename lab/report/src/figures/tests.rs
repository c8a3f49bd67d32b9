//! Tests of the charts of a run.

use super::*;
use crate::chart::{Chart, Scale};
use crate::fixtures;
use weir_experiment::results::{PolicySetSummary, PolicySummary, RateSeries, SchemeTrace};
use weir_units::{Bandwidth, Time};

#[test]
fn the_bottleneck_comes_first_and_fills_the_width() {
    let sections = sections(&fixtures::dumbbell());
    let queues = &sections[0];
    assert_eq!(queues.figures[0].title, "s1:3 towards s2 (bottleneck)");
    assert_eq!(queues.figures[0].layout, Layout::Full);
    assert_eq!(queues.figures[2].file, "queue-s1-3-tail");
    // The tail is that of the observed port with the longest queue, even if another port is the bottleneck of the run.
    assert_eq!(queues.figures[2].title, "Distribution over the run, s1:3 towards s2");
    assert!(queues.figures[2..].iter().all(|f| f.layout == Layout::Half));
    let titles: Vec<&str> = sections.iter().map(|s| s.title.as_str()).collect();
    assert_eq!(titles, ["Queue length", "Sending rates", "Utilisation"]);
}

#[test]
fn a_short_burst_has_a_detail_chart_and_a_busy_queue_has_none() {
    let burst = &sections(&fixtures::dumbbell())[0].figures[1];
    assert_eq!(burst.file, "queue-s1-3-closer");
    let chart = burst.picture.chart().unwrap();
    let x = &chart.x;
    assert!((250.0..301.0).contains(&x.low) && (380.0..600.0).contains(&x.high), "{x:?}");
    assert!(chart.lines.iter().all(|line| line.points.len() > 50));
    let sections = sections(&fixtures::workload());
    let busy = sections.iter().find(|section| section.title == "Queue length").unwrap();
    assert!(busy.figures.iter().all(|figure| !figure.file.ends_with("closer")));
}

#[test]
fn a_scheme_has_the_same_colour_everywhere() {
    let results = fixtures::workload();
    for figure in sections(&results).iter().flat_map(|s| &s.figures) {
        for line in figure.picture.chart().map_or(&[][..], |chart| &chart.lines) {
            let by_name = results.order.iter().position(|label| *label == line.name);
            let by_panel = results.order.iter().position(|label| *label == figure.title);
            assert_eq!(Some(line.colour), by_name.or(by_panel), "{} in {}", line.name, figure.file);
        }
    }
}

#[test]
fn files_have_distinct_names() {
    for results in [fixtures::dumbbell(), fixtures::workload()] {
        let mut files: Vec<String> =
            sections(&results).into_iter().flat_map(|s| s.figures).map(|f| f.file).collect();
        let all = files.len();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), all);
    }
}

#[test]
fn later_starts_are_marked_unless_there_are_too_many() {
    let marks = |results: &Results| sections(results)[0].figures[0].picture.chart().unwrap().marks.len();
    let mut results = fixtures::dumbbell();
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
    let mut results = fixtures::dumbbell();
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
fn flows_of_one_size_have_no_chart_by_size() {
    let files = |results: &Results| -> Vec<String> {
        sections(results).into_iter().flat_map(|s| s.figures).map(|f| f.file).collect()
    };
    let mut results = fixtures::workload();
    assert!(files(&results).contains(&"slowdown-p99".to_owned()));
    for bucket in results.summary.schemes.values_mut().flat_map(|s| &mut s.fct.by_size) {
        bucket.upto_bytes = 200_000;
    }
    assert!(!files(&results).contains(&"slowdown-p99".to_owned()));
    assert!(files(&results).contains(&"slowdown-cdf".to_owned()));
}

#[test]
fn without_observations_there_are_no_charts() {
    let mut results = fixtures::dumbbell();
    for trace in results.traces.values_mut() {
        *trace = SchemeTrace::default();
    }
    let remaining = sections(&results);
    assert!(remaining.iter().all(|section| section.figures.is_empty()));
    assert!(remaining[0].note.as_ref().is_some_and(|note| note.contains("observe.ports")));
    results.order.clear();
    assert!(sections(&results).is_empty());
}

fn chart_of(results: &Results, file: &str) -> Chart {
    let figures = sections(results).into_iter().flat_map(|s| s.figures);
    let figure = figures.into_iter().find(|f| f.file == file).unwrap_or_else(|| panic!("{file}"));
    figure.picture.chart().unwrap().clone()
}

#[test]
fn the_tail_of_the_queue_is_on_logarithmic_axes() {
    let chart = chart_of(&fixtures::dumbbell(), "queue-s1-3-tail");
    assert_eq!((chart.x.scale, chart.y.scale), (Scale::Log, Scale::Log));
    for line in &chart.lines {
        assert!(line.points.windows(2).all(|p| p[0].0 <= p[1].0 && p[0].1 >= p[1].1), "{}", line.name);
        assert!(line.points.iter().all(|p| p.0 > 0.0 && p.1 > 0.0));
        assert!(line.points[0].1 < 100.0, "samples of an empty queue are not in the tail");
    }
}

#[test]
fn the_distribution_of_slowdowns_fills_its_axis_in_steps() {
    let mut results = fixtures::workload();
    for flow in results.traces.values_mut().flat_map(|trace| &mut trace.flows) {
        flow.fct = flow.ideal.map(|ideal| ideal * (10 + u64::from(flow.ordinal)) + flow.fct.unwrap() / 20);
    }
    let chart = chart_of(&results, "slowdown-cdf");
    for line in &chart.lines {
        let steps = line.points.windows(2).all(|p| p[0].0 == p[1].0 || p[0].1 == p[1].1);
        assert!(steps, "{} slopes", line.name);
    }
    let min = chart.lines.iter().map(|line| chart.x.position(line.points[0].0)).fold(1.0, f64::min);
    assert!(min < 0.1, "the first step is at {min} of the axis");
}

#[test]
fn many_flows_are_a_median_a_band_and_extremes() {
    let mut results = fixtures::dumbbell_with_samples(4);
    let trace = results.traces.get_mut("fncc").unwrap();
    trace.rates = (0..11)
        .map(|i| {
            // The last flow has not started.
            let rate = vec![Bandwidth::from_gbps(if i == 10 { 0 } else { 10 + i }); 4];
            RateSeries { flow: format!("h{i}->h99"), goodput: rate.clone(), rate }
        })
        .collect();
    let chart = chart_of(&results, "rates-fncc");
    let names: Vec<&str> = chart.lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["median", "highest", "lowest"]);
    let last = |i: usize| chart.lines[i].points[3].1;
    assert_eq!((last(0), last(1), last(2)), (15.0, 19.0, 10.0));
    assert_eq!(chart.lines[0].band[3], (11.0, 18.0));
    assert!(chart.svg_file(crate::chart::Size::Wide).contains("class=\"band"));
}

#[test]
fn an_event_of_one_run_is_marked_only_where_that_run_is_drawn() {
    let mut results = fixtures::dumbbell();
    let styles = ["a", "b"].map(|run| LineStyle { run: Some(run.into()), ..LineStyle::default() });
    let trace = results.traces.get_mut("fncc").unwrap();
    trace.flows.iter_mut().for_each(|flow| flow.start = Time::ZERO);
    trace.ports.retain(|port| port.port == "s1:3");
    let figures: Vec<Figure> =
        sections_with_styles(&results, &styles).into_iter().flat_map(|s| s.figures).collect();
    let marks = |file: &str| -> Vec<String> {
        let figure = figures.iter().find(|f| f.file == file).unwrap();
        figure.picture.chart().unwrap().marks.iter().map(|mark| mark.label.clone()).collect()
    };
    assert_eq!(marks("queue-s1-3"), ["h2→h3 starts (b)"], "the chart shows both runs");
    assert_eq!(marks("queue-s2-2"), ["h2→h3 starts"], "the chart shows only the run with the event");
    assert_eq!(marks("rates-fncc"), [""; 0]);
}

/// In a large fabric nobody knows the congested ports before the run.
#[test]
fn a_report_without_series_says_which_ports_to_observe() {
    let mut results = fixtures::dumbbell();
    results.traces.values_mut().for_each(|trace| trace.ports.clear());
    let sections = sections(&results);
    let note = sections.iter().find(|section| section.title == "Queue length").unwrap().note.clone().unwrap();
    assert!(note.contains("--set 'observe.ports=[\"s1:3\", "), "{note}");
}

/// The unit follows from the name, and a quantity that no sender has is not drawn.
#[test]
fn gauges_have_units() {
    let mut results = fixtures::senders();
    for trace in results.traces.values_mut() {
        for series in &mut trace.senders {
            let (name, values) = match series.quantity.as_str() {
                "rtt" => ("target_rate", vec![Some(25e9); 1000]),
                _ => ("window", vec![None; 1000]),
            };
            (series.quantity, series.values) = (name.to_owned(), values);
        }
    }
    let sections = sections(&results);
    let section = sections.last().unwrap();
    assert_eq!(section.title, "Senders: target_rate");
    assert_eq!(section.figures[0].picture.chart().unwrap().y.title, "target_rate (Gbit/s)");
}

#[test]
fn each_quantity_of_senders_has_a_section() {
    let sections = sections(&fixtures::senders());
    let titles: Vec<&str> = sections.iter().map(|s| s.title.as_str()).collect();
    assert_eq!(
        titles,
        ["Queue length", "Sending rates", "Utilisation", "Round-trip times", "Senders: gradient"]
    );
    let chart = |section: usize| sections[section].figures[0].picture.chart().unwrap();
    assert_eq!(chart(3).y.title, "RTT (us)");
    assert!(chart(4).y.low < 0.0 && chart(4).y.high > 0.0, "{:?}", chart(4).y);
    assert_eq!(chart(4).lines[0].points.len(), 700, "no points before the flow starts");
}
