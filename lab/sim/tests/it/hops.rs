//! One or two flows over a chain of switches.

use weir_experiment::Experiment;
use weir_experiment::results::{Results, SchemeSummary};
use weir_sim::run;

fn results(yaml: &str) -> Results {
    let experiment = Experiment::parse(yaml, "hops.yaml", "hops", &[], None)
        .unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    run(&experiment, &mut ()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the utilisation of the busiest link in percent.
fn busiest(scheme: &SchemeSummary) -> f64 {
    100.0 * scheme.utilisation.values().copied().fold(0.0, f64::max)
}

const SCHEMES: [&str; 3] = ["hpcc", "fncc", "hpcc++"];

/// Returns the utilisation of the busiest link in percent, under each of [`SCHEMES`], with this number of switches and of
/// flows that start 5.3 us apart.
fn utilisation(switches: usize, flows: usize) -> [f64; 3] {
    let receiver = flows + 1;
    let flows: Vec<String> = (0..flows)
        .map(|i| format!("{{from: h{}, to: h{receiver}, start: {}ns}}", i + 1, 5_300 * i))
        .collect();
    let results = results(&format!(
        "{{topology: {{kind: dumbbell, switches: {switches}, senders: {}, receivers: 1, rate: 100Gbps, delay: 1.5us}},
          pfc: {{threshold: 500KB}}, schemes: [hpcc, fncc, {{scheme: hpcc++, set: {{w_ai: 80B}}}}], duration: 6ms,
          observe: {{interval: 50us, rates: false, fairness_window: 1ms}}, flows: [{}]}}",
        receiver - 1,
        flows.join(", ")
    ));
    SCHEMES.map(|label| busiest(&results.summary.schemes[label]))
}

/// Records count bytes in units of 128 B. Hops must not round differently (HPCC), and if they do, because they are read at
/// different times (FNCC), the largest of several roundings must not count.
#[test]
fn flows_use_as_much_of_their_links_over_six_switches_as_over_one() {
    for flows in [1, 2] {
        let one = utilisation(1, flows);
        for switches in [2, 3, 4, 6] {
            for (scheme, (one, many)) in SCHEMES.iter().zip(one.iter().zip(utilisation(switches, flows))) {
                assert!(
                    (one - many).abs() < 0.5,
                    "{scheme}, {flows} flows: {one:.2} % with one switch, {many:.2} % with {switches}"
                );
            }
        }
    }
}

/// Links of 480 us at 10 Gbit/s: T is 3.8 ms.
#[test]
fn long_round_trips_cost_no_utilisation() {
    let results = results(
        "{topology: {kind: dumbbell, switches: 3, senders: 1, receivers: 1, rate: 10Gbps, delay: 480us}, pfc: off,
          schemes: [hpcc, fncc], duration: 40ms, observe: {interval: 1ms, rates: false},
          flows: [{from: h1, to: h2, start: 0us}]}",
    );
    for (label, scheme) in &results.summary.schemes {
        assert!(busiest(scheme) > 92.0, "{label}: {}", busiest(scheme));
    }
}

/// HPCC++'s additive increase depends on the receiver's number of flows only where the receiver's link is congested. Here
/// the link between the switches is.
#[test]
fn hpcc_plus_is_fair_on_a_link_that_is_not_the_last() {
    for n in [2, 3, 4, 8] {
        let flow = |i: usize| format!("{{from: h{i}, to: h{}, start: {}us}}", i + n, 7 * i);
        let flows: Vec<String> = (1..=n).map(flow).collect();
        let results = results(&format!(
            "{{topology: {{kind: dumbbell, switches: 2, senders: {n}, receivers: {n}, rate: 100Gbps, delay: 1.5us}},
              pfc: off, schemes: [hpcc++, {{scheme: hpcc++, label: rx-hpcc, set: {{compute: receiver}}}}], duration: 20ms,
              observe: {{interval: 50us, rates: false, fairness_window: 5ms}}, flows: [{}]}}",
            flows.join(", ")
        ));
        for (label, scheme) in &results.summary.schemes {
            let jain = scheme.jain.expect("flows that run throughout");
            assert!(jain > 0.95, "{label}, {n} flows: {jain}");
        }
    }
}

/// A queue that makes the round trip longer than counters reach must be answered by senders that read once per round trip.
#[test]
fn a_queue_is_answered_though_readings_are_older_than_a_wrap() {
    let results = results(
        "{topology: {kind: star, hosts: 3, rate: 100Gbps, delay: 1.5ms}, pfc: off, buffer: 1GB,
          schemes: [{scheme: hpcc++, label: packet, set: {w_ai: 80B}},
            {scheme: hpcc++, label: rtt, set: {telemetry: rtt, w_ai: 80B}}],
          flows: [{from: h1, to: h3, start: 0us}, {from: h2, to: h3, start: 1ms}],
          duration: 120ms, observe: {interval: 1ms, ports: ['s1:h3'], rates: false}}",
    );
    for label in results.summary.schemes.keys() {
        let queues = &results.traces[label].ports[0].queue_bytes;
        let (peak, last) = (*queues.iter().max().unwrap(), *queues.last().unwrap());
        assert!(peak > 50_000_000 && last < 1_000_000, "{label}: {peak} B, {last} B after 120 ms");
    }
}

/// If FNCC's table is refreshed every 5 us, most ACKs carry new telemetry of some hops only: old telemetry must neither
/// keep `U` high nor update the window again.
#[test]
fn a_table_that_is_seldom_refreshed_costs_no_utilisation() {
    let yaml =
        "{topology: {kind: dumbbell, switches: 3, senders: 2, receivers: 1, rate: 100Gbps, delay: 1.5us},
          pfc: {threshold: 500KB}, schemes: [{scheme: fncc, set: {refresh: 5us}}], duration: 1ms,
          observe: {interval: 10us, fairness_window: 300us},
          flows: [{from: h1, to: h3, start: 0us}, {from: h2, to: h3, start: 300us}]}";
    let experiment =
        Experiment::parse(yaml, "refresh.yaml", "refresh", &[], None).unwrap_or_else(|e| panic!("{e}"));
    let results = run(&experiment, &mut ()).unwrap_or_else(|error| panic!("{error}"));
    let fncc = &results.summary.schemes["fncc"];
    let busiest = fncc.utilisation.values().copied().fold(0.0, f64::max);
    let jain = fncc.jain.expect("two flows");
    assert!(busiest > 0.92 && jain > 0.95, "utilisation {busiest}, Jain's index {jain}");
}
