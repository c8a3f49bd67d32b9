//! HPCC++ with queues that share ports by weight, and with telemetry upon congestion (draft §9.4 and §6).

use weir_experiment::Experiment;
use weir_experiment::results::SchemeSummary;

fn experiment(text: &str) -> Result<Experiment, String> {
    Experiment::parse(text, "x.yaml", "x", &[], None).map_err(|error| error.to_string())
}

fn run(text: &str, scheme: &str) -> SchemeSummary {
    let experiment = experiment(text).unwrap_or_else(|error| panic!("{error}"));
    let mut results = weir_sim::run(&experiment, &mut ()).unwrap_or_else(|error| panic!("{error}"));
    results.summary.schemes.remove(scheme).expect("it ran")
}

/// One flow in a queue of weight 3, two in one of weight 1, over one link.
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

/// 3/4 and 1/4 of eta, headers and telemetry less; what the first queue leaves is for the second. With PFC at its default:
/// hosts hear of their own queue's pauses.
#[test]
fn queues_get_their_shares_of_a_link_and_what_others_leave() {
    let both = run(&weighted(""), "weighted");
    let [three, one] = both.queue_gbps[..] else { panic!("{:?}", both.queue_gbps) };
    assert!((three / one - 3.0).abs() < 0.25, "{three} {one}");
    assert!((80.0..90.0).contains(&(three + one)), "{three} {one}");
    let mean = both.queues["s1:4"].mean_bytes;
    assert!(mean < 30_000.0, "{mean}");
    let left = run(&weighted(", stop: 900us"), "weighted");
    let [three, one] = left.queue_gbps[..] else { panic!("{:?}", left.queue_gbps) };
    assert!(three == 0.0 && (80.0..92.0).contains(&one), "{three} {one}");
    // By the port's load alone shares are not kept.
    let [three, one] = run(&weighted(""), "hpcc++").queue_gbps[..] else { panic!("two queues") };
    assert!((three / one - 3.0).abs() > 1.0, "{three} {one}");
}

#[test]
fn queues_that_cannot_be_are_refused() {
    let refused = |from: &str, to: &str| {
        let text = weighted("");
        assert!(text.contains(from));
        experiment(&text.replace(from, to)).err().unwrap_or_else(|| panic!("{to} was taken"))
    };
    assert!(
        refused("ack_priority: true", "ack_priority: false").contains("feedback would queue behind data")
    );
    assert!(refused("hosts: h2-h3", "hosts: h1-h3").contains("h1 is already assigned to another queue"));
    assert!(refused("hosts: h2-h3", "hosts: h9").contains("h9"));
    assert!(refused("weight: 3", "weight: 0").contains("weight"));
    assert!(
        refused("schemes: [hpcc++,", "schemes: [hpcc,").contains("hpcc does not support weighted queues")
    );
    let many = ["{weight: 1, hosts: h2}"; 7].join(", ");
    assert!(refused("{weight: 1, hosts: h2-h3}", &many).contains("at most 6 queues"));
}

/// Eight flows meet behind three switches.
fn meeting(telemetry: &str) -> SchemeSummary {
    let text = format!(
        "topology: {{kind: dumbbell, switches: 3, senders: 8, receivers: 1, rate: 100Gbps, fabric_rate: 400Gbps, delay: 1.5us}}
pfc: off
schemes: [{{scheme: hpcc++, label: it, set: {{telemetry: {telemetry}}}}}]
workload: {{kind: incast, to: h9, senders: 8, size: 1GB, interval: 10us}}
duration: 1500us
observe: {{packets: true}}"
    );
    run(&text, "it")
}

/// As short a queue as with records on every packet, nearly as few bytes as with one a round trip.
#[test]
fn telemetry_upon_congestion_warns_as_early_and_costs_less() {
    let [always, upon, rtt] = ["packet", "congestion", "rtt"].map(meeting);
    let peak = |it: &SchemeSummary| it.queues["s3:1"].peak_bytes as f64;
    assert!(peak(&upon) < 1.05 * peak(&always), "{} {}", peak(&upon), peak(&always));
    assert!(peak(&rtt) > 1.3 * peak(&always), "{} {}", peak(&rtt), peak(&always));
    let bytes = |it: &SchemeSummary| {
        let packets = it.packets.as_ref().expect("observed");
        packets.link_bytes as f64 / packets.classes[0].received as f64
    };
    let saved = 1.0 - bytes(&upon) / bytes(&always);
    assert!(saved > 0.6 * (1.0 - bytes(&rtt) / bytes(&always)) && saved > 0.01, "{saved}");
}
