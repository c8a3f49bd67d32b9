//! HPCC++ with queues that share ports by weight, and with telemetry upon congestion (draft §9.4 and §6).

use weir_experiment::Experiment;
use weir_experiment::results::SchemeSummary;

fn experiment(text: &str) -> Result<Experiment, String> {
    Experiment::parse(text, "x.yaml", "x", &[], None).map_err(|error| error.to_string())
}

fn run(text: &str, scheme: &str) -> SchemeSummary {
    let experiment = experiment(text).unwrap_or_else(|error| panic!("{error}"));
    let mut results = weir_sim::run(&experiment, &mut ()).unwrap_or_else(|error| panic!("{error}"));
    results.summary.schemes.remove(scheme).expect("the scheme ran")
}

/// Returns an experiment with one flow in a queue of weight 3 and two flows in a queue of weight 1, over one link.
/// `more` are further keys of the first flow.
fn weighted(more: &str) -> String {
    format!(
        "topology: {{kind: dumbbell, switches: 2, senders: 3, receivers: 3, rate: 100Gbps, delay: 1.5us}}
ack_priority: true
queues: [{{weight: 3, hosts: h1}}, {{weight: 1, hosts: h2-h3}}]
schemes: [hpcc++, {{scheme: hpcc++, label: weighted, set: {{queue: weighted}}}}]
flows: [{{from: h1, to: h4{more}}}, {{from: h2, to: h5, start: 50us}}, {{from: h3, to: h6, start: 100us}}]
duration: 2ms
observe: {{fairness_window: 1ms}}"
    )
}

/// The queues get 3/4 and 1/4 of eta, minus headers and telemetry; bandwidth that the first queue does not use goes to
/// the second. PFC has its defaults: hosts receive pauses of their own queue only.
#[test]
fn queues_get_their_shares_and_unused_bandwidth_of_others() {
    let both = run(&weighted(""), "weighted");
    let [three, one] = both.queue_gbps[..] else { panic!("{:?}", both.queue_gbps) };
    assert!((three / one - 3.0).abs() < 0.25, "{three} {one}");
    assert!((80.0..90.0).contains(&(three + one)), "{three} {one}");
    let mean = both.queues["s1:4"].mean_bytes;
    assert!(mean < 30_000.0, "{mean}");
    let stopped = run(&weighted(", stop: 900us"), "weighted");
    let [three, one] = stopped.queue_gbps[..] else { panic!("{:?}", stopped.queue_gbps) };
    assert!(three == 0.0 && (80.0..92.0).contains(&one), "{three} {one}");
    // If HPCC++ reacts to the load of the whole port, the shares are not kept.
    let [three, one] = run(&weighted(""), "hpcc++").queue_gbps[..] else { panic!("two queues") };
    assert!((three / one - 3.0).abs() > 1.0, "{three} {one}");
}

#[test]
fn invalid_queues_are_rejected() {
    let rejected = |from: &str, to: &str| {
        let text = weighted("");
        assert!(text.contains(from));
        experiment(&text.replace(from, to)).err().unwrap_or_else(|| panic!("{to} was accepted"))
    };
    assert!(
        rejected("ack_priority: true", "ack_priority: false").contains("feedback would queue behind data")
    );
    assert!(rejected("hosts: h2-h3", "hosts: h1-h3").contains("h1 is already assigned to another queue"));
    assert!(rejected("hosts: h2-h3", "hosts: h9").contains("h9"));
    assert!(rejected("weight: 3", "weight: 0").contains("weight"));
    assert!(
        rejected("schemes: [hpcc++,", "schemes: [hpcc,").contains("hpcc does not support weighted queues")
    );
    let many = ["{weight: 1, hosts: h2}"; 7].join(", ");
    assert!(rejected("{weight: 1, hosts: h2-h3}", &many).contains("at most 6 queues"));
}

/// Runs eight flows to one receiver over three switches, with this `telemetry` of HPCC++.
fn meeting(telemetry: &str) -> SchemeSummary {
    let text = format!(
        "topology: {{kind: dumbbell, switches: 3, senders: 8, receivers: 1, rate: 100Gbps, fabric_rate: 400Gbps, delay: 1.5us}}
pfc: off
schemes: [{{scheme: hpcc++, label: hpcc++, set: {{telemetry: {telemetry}}}}}]
workload: {{kind: incast, to: h9, senders: 8, size: 1GB, interval: 10us}}
duration: 1500us
observe: {{packets: true}}"
    );
    run(&text, "hpcc++")
}

/// Telemetry upon congestion gives a queue as short as with records on every packet, and saves most of the bytes that
/// records once per round trip save.
#[test]
fn telemetry_upon_congestion_warns_as_early_and_costs_less() {
    let [always, upon, rtt] = ["packet", "congestion", "rtt"].map(meeting);
    let peak = |summary: &SchemeSummary| summary.queues["s3:1"].peak_bytes as f64;
    assert!(peak(&upon) < 1.05 * peak(&always), "{} {}", peak(&upon), peak(&always));
    assert!(peak(&rtt) > 1.3 * peak(&always), "{} {}", peak(&rtt), peak(&always));
    let bytes = |summary: &SchemeSummary| {
        let packets = summary.packets.as_ref().expect("observed");
        packets.link_bytes as f64 / packets.classes[0].received as f64
    };
    let saved = 1.0 - bytes(&upon) / bytes(&always);
    assert!(saved > 0.6 * (1.0 - bytes(&rtt) / bytes(&always)) && saved > 0.01, "{saved}");
}
