//! A single flow over a chain of switches, without competing flows.

use weir_experiment::Experiment;
use weir_sim::run;

/// Returns the utilisation of the busiest link in percent, under HPCC and FNCC, with this number of switches.
fn utilisation(switches: usize) -> [f64; 2] {
    let yaml = format!(
        "{{topology: {{kind: dumbbell, switches: {switches}, senders: 1, receivers: 1, rate: 100Gbps, delay: 1.5us}},
          pfc: {{threshold: 500KB}}, schemes: [hpcc, fncc], duration: 3ms, observe: {{interval: 50us, rates: false}},
          flows: [{{from: h1, to: h2, start: 0us}}]}}"
    );
    let experiment = Experiment::parse(&yaml, "hops.yaml", "hops", &[], None)
        .unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    let results = run(&experiment, &mut ()).unwrap_or_else(|error| panic!("{error}"));
    ["hpcc", "fncc"]
        .map(|label| 100.0 * results.summary.schemes[label].utilisation.values().copied().fold(0.0, f64::max))
}

/// Each hop truncates its byte count with another phase, and FNCC samples hops at different times. The maximum over
/// hops must not accumulate these errors.
#[test]
fn a_lone_flow_uses_as_much_of_its_links_over_six_switches_as_over_one() {
    let one = utilisation(1);
    for switches in [2, 3, 4, 6] {
        for (scheme, (one, many)) in ["hpcc", "fncc"].iter().zip(one.iter().zip(utilisation(switches))) {
            assert!(
                (one - many).abs() < 0.5,
                "{scheme}: {one:.2} % with one switch, {many:.2} % with {switches}"
            );
        }
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
