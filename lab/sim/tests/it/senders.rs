//! `observe.sender`: time series of senders.

use std::path::Path;
use weir_experiment::Experiment;
use weir_experiment::results::{Results, SenderSeries};

const SCHEMES: &str = "schemes=[dctcp, hpcc, {scheme: dctcp, label: windows, set: {form: window}}]";

fn run(overrides: &[&str]) -> Result<Results, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/quickstart.yaml");
    let schemes = Some(&SCHEMES).filter(|_| !overrides.iter().any(|text| text.starts_with("schemes=")));
    let overrides: Vec<String> =
        schemes.into_iter().chain(overrides).map(|text| (*text).to_owned()).collect();
    let experiment = Experiment::load(&file, &overrides, None).map_err(|error| error.to_string())?;
    Ok(weir_sim::run(&experiment, &mut ()).unwrap_or_else(|e| panic!("{e}")))
}

/// Returns the value of a quantity of a flow at `us`.
fn value(results: &Results, scheme: &str, flow: &str, quantity: &str, us: usize) -> Option<f64> {
    let is_it = |series: &&SenderSeries| series.flow == flow && series.quantity == quantity;
    results.traces[scheme].senders.iter().find(is_it).expect("it is recorded").values[us - 1]
}

#[test]
fn quantities_of_senders_are_recorded_and_change_nothing() {
    let plain = run(&[]).unwrap();
    assert!(plain.traces.values().all(|trace| trace.senders.is_empty()));
    let results = run(&["observe.sender=[rate, alpha, rtt, window, u]"]).unwrap();
    assert_eq!(results.summary.digest, plain.summary.digest);
    let quantities = |scheme: &str| {
        let of_first = results.traces[scheme].senders.iter().filter(|series| series.flow == "h1->h3");
        of_first.map(|series| series.quantity.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(quantities("dctcp"), ["rtt", "window", "rate", "alpha"]);
    assert_eq!(quantities("hpcc"), ["rtt", "window", "rate", "u"]);
    for scheme in ["dctcp", "windows"] {
        let alpha = value(&results, scheme, "h1->h3", "alpha", 900).expect("the flow is running");
        assert!((0.0..1.0).contains(&alpha), "{scheme}: {alpha}");
    }
    assert_eq!(value(&results, "hpcc", "h2->h3", "rtt", 299), None, "before the flow starts");
    let rtt = value(&results, "hpcc", "h2->h3", "rtt", 900).expect("the flow is running");
    assert!((12.0..30.0).contains(&rtt), "{rtt} us");
    for (scheme, trace) in &results.traces {
        let rate = trace.rates[0].rate[899].as_bps_f64();
        assert_eq!(value(&results, scheme, "h1->h3", "rate", 900), Some(rate), "{scheme}");
    }
}

#[test]
fn all_stands_for_every_quantity_also_without_rates() {
    let results = run(&["observe.sender=all", "observe.rates=false", "duration=350us"]).unwrap();
    let trace = &results.traces["hpcc"];
    let quantities: Vec<_> = trace.senders.iter().map(|series| series.quantity.as_str()).collect();
    let each = ["rtt", "window", "rate", "u", "reference_window"];
    assert_eq!(quantities, [each, each].concat(), "two flows");
    assert!(trace.rates.is_empty() && trace.senders.iter().all(|series| series.values.len() == 350));
}

#[test]
fn unknown_quantities_are_rejected() {
    let reason = run(&["observe.sender=[rtt, alfa]"]).expect_err("it is rejected");
    let expected = "observe.sender[1]: \"alfa\" is no quantity of a sender under these schemes; known: rtt, window, \
                    rate, alpha, u, reference_window, all; did you mean";
    assert!(reason.contains(expected), "{reason}");
}

/// Flows that a workload starts during the run are recorded too, and a scheme without a window has none.
#[test]
fn senders_of_flows_that_start_during_the_run_are_recorded() {
    let keys = [
        "schemes=[dcqcn, hpcc]",
        "flows=[{from: h1, to: h3, size: 100KB}]",
        "workload={kind: jobs, jobs: 2, servers: 2, request: 1KB, response: 20KB}",
        "observe.interval=1us",
        "duration=400us",
    ];
    let plain = run(&keys).unwrap();
    let results = run(&[&keys[..], &["observe.sender=[window, rtt]"]].concat()).unwrap();
    assert_eq!(results.summary.digest, plain.summary.digest, "recording changes nothing");
    for (scheme, trace) in &results.traces {
        let flows: Vec<&str> = trace.senders.iter().step_by(2).map(|series| series.flow.as_str()).collect();
        let started: Vec<String> = trace.flows.iter().take(16).map(|flow| flow.name()).collect();
        assert_eq!(flows.len(), 16, "{scheme}: {flows:?}");
        assert_eq!(flows, started, "{scheme}");
        assert!(trace.senders.iter().all(|series| series.values.len() == 400), "{scheme}");
        let values = |quantity: &str| {
            let series = trace.senders.iter().filter(|series| series.quantity == quantity);
            series.flat_map(|series| &series.values).flatten().count()
        };
        assert!(values("rtt") > 0, "{scheme}");
        assert_eq!(values("window") > 0, scheme == "hpcc", "{scheme}");
    }
}
