//! The results of AMP's paper, on the experiment files that Weir ships, shortened.

use std::path::Path;
use weir_experiment::Experiment;
use weir_experiment::results::{Results, SchemeSummary, SchemeTrace};
use weir_sim::run;

fn results(name: &str, overrides: &[&str]) -> Results {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments").join(name);
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    let experiment = Experiment::load(&file, &overrides, None).unwrap_or_else(|e| panic!("{e}"));
    run(&experiment, &mut ()).unwrap_or_else(|e| panic!("{e}"))
}

fn scheme<'a>(results: &'a Results, label: &str) -> (&'a SchemeSummary, &'a SchemeTrace) {
    (&results.summary.schemes[label], &results.traces[label])
}

/// Mean completion time in ms; all flows finished.
fn mean_fct(trace: &SchemeTrace) -> f64 {
    let all: Vec<f64> = trace.flows.iter().map(|f| f.fct.expect("finished").as_us_f64() / 1_000.0).collect();
    all.iter().sum::<f64>() / all.len() as f64
}

/// The window grows even while the NIC has not sent all bytes that it allows: a single flow at line rate takes 0.207
/// ms, as in the authors' code (docs/authors-code.md).
#[test]
fn slow_start_doubles_the_window_at_line_rate() {
    let lone =
        ["workload.senders=1", "workload.size=131072B", "schemes=[{scheme: dctcp, set: {form: window}}]"];
    let results = results("amp-incast.yaml", &lone);
    let took = mean_fct(scheme(&results, "dctcp").1);
    assert!((took - 0.207).abs() < 0.001, "{took} ms");
}

/// The pacing rate of a window-based scheme is the NIC's throughout. What its windows allow shows that the first flow
/// yields to the second.
#[test]
fn windows_tell_when_the_first_flow_slows_down() {
    let dctcp = ["schemes=[{scheme: dctcp, set: {form: window}}]", "duration=1ms"];
    let results = results("quickstart.yaml", &dctcp);
    let (summary, trace) = scheme(&results, "dctcp");
    let at = summary.first_slowdown_us.expect("it slows down");
    assert!((300.0..600.0).contains(&at), "{at} us");
    for (us, low, high) in [(290, 90.0, 100.0), (900, 30.0, 90.0)] {
        let rate = trace.rates[0].rate[us - 1].as_bps_f64() / 1e9;
        assert!((low..=high).contains(&rate), "{rate} Gbit/s at {us} us");
    }
}

/// Figures 2 and 8: AMP is within a factor of two of DCTCP; XMP and DCM wait for timeouts.
#[test]
fn amp_survives_an_incast() {
    for senders in [30, 40] {
        let results = results("amp-incast.yaml", &[&format!("workload.senders={senders}")]);
        let (dctcp, amp) = (scheme(&results, "dctcp"), scheme(&results, "amp"));
        assert!(mean_fct(amp.1) < 2.0 * mean_fct(dctcp.1), "{senders}: {} ms", mean_fct(amp.1));
        assert_eq!((amp.0.timeouts, amp.0.drops.len()), (0, 0), "{senders}");
        assert!(amp.0.suppressions >= senders / 2);
        for label in ["xmp", "dcm"] {
            let (summary, trace) = scheme(&results, label);
            assert!(summary.timeouts > 0 && summary.drops["tail_drop"] > 0, "{label} {senders}");
            assert!(mean_fct(trace) > 10.0 * mean_fct(dctcp.1), "{label} {senders}: {} ms", mean_fct(trace));
        }
    }
}

/// Figures 4 and 9: subflows whose windows stay at two packets or more take bandwidth from DCTCP flows. AMP's do not,
/// because it suppresses subflows.
#[test]
fn amp_is_fair_to_single_paths() {
    for (multipath, amp, others) in [(1, 0.98, 0.86), (2, 0.96, 0.7), (4, 0.88, 0.7)] {
        let file = format!("amp-fair-{multipath}.yaml");
        let results = results(&file, &["duration=40ms", "observe.fairness_window=30ms"]);
        let jain = |label: &str| scheme(&results, label).0.jain.expect("many flows");
        assert!(jain("amp") > amp, "{multipath}: {}", jain("amp"));
        for label in ["amp-no-ssr", "xmp", "dcm"] {
            assert!(jain(label) < others, "{label} {multipath}: {}", jain(label));
        }
    }
}

/// The remaining difference between AMP and DCTCP is the depth of the window cut: with a cut by a third, four AMP flows
/// get fair shares. XMP flows with one subflow get them with a cut by a quarter, since they do not grow on marked ACKs.
#[test]
fn the_depth_of_the_cut_decides_where_all_packets_are_marked() {
    let results = results("amp-beta.yaml", &[]);
    let jain = |label: &str| scheme(&results, label).0.jain.expect("many flows");
    for label in ["amp, 1/3", "xmp, one subflow, 1/4", "dcm, one subflow"] {
        assert!(jain(label) > 0.97, "{label}: {}", jain(label));
    }
    assert!(jain("amp, 1/4") < 0.94, "{}", jain("amp, 1/4"));
}

/// Figure 4: from three subflows on, XMP and DCM take more than their share; AMP never does.
#[test]
fn the_syndrome_begins_with_three_subflows() {
    let results = results("amp-fig4.yaml", &["duration=40ms", "observe.fairness_window=30ms"]);
    let shares = |label: &str| {
        let (first, others) = scheme(&results, label).1.flows.split_first().expect("nine flows");
        let mean = others.iter().map(|flow| flow.acked.as_f64()).sum::<f64>() / others.len() as f64;
        first.acked.as_f64() / mean
    };
    for rival in ["xmp", "dcm"] {
        let by_subflows = [2, 3, 4, 6, 8].map(|subflows| shares(&format!("{rival}-{subflows}")));
        assert!(
            by_subflows[0] < 1.5 && by_subflows[1] > 1.6 && by_subflows[2] > 2.3,
            "{rival}: {by_subflows:?}"
        );
        assert!(by_subflows.is_sorted(), "{rival}: {by_subflows:?}");
    }
    for subflows in [2, 3, 4, 6, 8] {
        let amp = shares(&format!("amp-{subflows}"));
        assert!((0.7..1.5).contains(&amp), "{subflows}: {amp}");
    }
}

/// Figures 6 and 11: AMP leaves a congested path sooner than DCM, because its other subflow uses another path.
#[test]
fn amp_shifts_sooner_than_dcm() {
    let results = results("amp-shift.yaml", &[]);
    let shifted = |label: &str| {
        let trace = scheme(&results, label).1;
        let joined = trace.rates.iter().find(|series| series.flow == "h3->h6").expect("its rate is recorded");
        let from = 400; // 40 ms, in samples of 100 us
        let windows: Vec<f64> = joined.goodput[from..]
            .windows(5)
            .map(|five| five.iter().map(|rate| rate.as_bps_f64()).sum::<f64>() / 5.0)
            .collect();
        windows.iter().position(|&bps| bps > 8e9).expect("it reaches 8 Gbit/s")
    };
    let (amp, dcm) = (shifted("amp"), shifted("dcm"));
    assert!(amp < 20 && dcm > amp * 3 / 2, "AMP {amp}, DCM {dcm} tenths of a millisecond");
    // Both paths are used, each by one subflow: with one path the connection could not keep its rate.
    let (_, trace) = scheme(&results, "amp");
    let connection = trace.flows.iter().find(|flow| flow.name() == "h1->h4").expect("the flow ran");
    let rate = connection.acked.as_f64() * 8.0 / trace.end.as_secs_f64();
    assert!(rate > 9e9, "{rate}");
}

/// Runs six connections of two subflows, one over each spine; a link of one spine goes down at 2 ms. `more` are further
/// keys of the fault.
fn with_failing_path(more: &str) -> SchemeSummary {
    let yaml = format!(
        "{{topology: {{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 6, rate: 10Gbps, delay: 2us}},
          mtu: 1466B, pfc: off, queue_packets: 100, ecn: {{kmin: 14660B, kmax: 14660B, pmax: 1, per: 10Gbps}},
          schemes: [{{scheme: amp, set: {{subflows: 2}}}}], duration: 400ms, until_idle: true,
          transport: {{initial_rto: 1ms, min_rto: 1ms}}, observe: {{interval: 1ms, rates: false}},
          faults: [{{kind: down, links: [s1-s4], from: 2ms{more}}}],
          flows: [{}]}}",
        [50_000, 50_001, 50_002, 50_003, 50_004, 50_005]
            .map(|port| format!("{{from: h{}, to: h7, size: 2MB, port: {port}}}", port - 49_999))
            .join(", ")
    );
    let experiment = Experiment::parse(&yaml, "paths.yaml", "paths", &[], None)
        .unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    run(&experiment, &mut ()).unwrap_or_else(|e| panic!("{e}")).summary.schemes["amp"].clone()
}

/// The unacknowledged data of the first subflow is sent by the other one when its path fails, even if the other one was
/// suppressed.
#[test]
fn a_dead_first_subflow_does_not_hold_up_its_message() {
    let dead = with_failing_path("");
    assert!(dead.suppressions > 0 && dead.timeouts > 0, "{dead:?}");
    assert_eq!((dead.fct.count, dead.fct.unfinished), (6, 0));
    // A recovered path is used again, and no data is delivered twice.
    let back = with_failing_path(", to: 8ms");
    assert_eq!((back.fct.count, back.fct.unfinished), (6, 0));
    assert!(
        back.drops.keys().all(|reason| reason == "link_down" || reason == "tail_drop"),
        "{:?}",
        back.drops
    );
}

/// Runs are reproducible, and single-path schemes run with `transport.recovery: selective` too.
#[test]
fn the_lossy_transport_repeats_and_carries_any_scheme() {
    let run = || results("amp-incast.yaml", &["workload.senders=20", "duration=1s"]).summary.digest;
    assert_eq!(run(), run());
    let rates = ["workload.senders=8", "transport.recovery=selective", "schemes=[dctcp, dcqcn, timely]"];
    let results = results("amp-incast.yaml", &rates);
    for (label, summary) in &results.summary.schemes {
        assert_eq!((summary.fct.count, summary.fct.unfinished), (8, 0), "{label}");
    }
}
