//! DASR with a receiver whose link is slower than those of the senders.

use weir_experiment::Experiment;
use weir_sim::run;

/// Four hosts at 100 Gbit/s and a receiver at 25 Gbit/s. The first `senders` hosts start to send to it, 200 us apart.
fn yaml(senders: u32) -> String {
    let flow = |n: u32| format!("{{from: h{n}, to: h5, start: {}us}}", 200 * (n - 1));
    let flows: Vec<String> = (1..=senders).map(flow).collect();
    format!(
        "{{topology: {{kind: custom, hosts: [h1, h2, h3, h4, h5], switches: [s1], links:
            [[h1, s1], [h2, s1], [h3, s1], [h4, s1], {{a: h5, b: s1, rate: 25Gbps}}]}},
          schemes: [dasr], flows: [{}], duration: 4ms, observe: {{interval: 10us}}}}",
        flows.join(", ")
    )
}

/// Each sender gets a share of the receiver's rate, not of its own, and the queue that a faster sender builds up in its
/// first round trip drains soon. Without the former, 493 KB stay in the queue and there are 152 pauses; without the
/// latter, 272 KB stay.
#[test]
fn nothing_stays_queued_at_a_slower_receiver() {
    for senders in [1, 2, 4] {
        let experiment = Experiment::parse(&yaml(senders), "dasr.yaml", "dasr", &[], None).unwrap();
        let results = run(&experiment, &mut ()).unwrap();
        let (summary, trace) = (&results.summary.schemes["dasr"], &results.traces["dasr"]);
        assert_eq!(summary.pauses, 0, "{senders} senders");
        assert!(summary.utilisation["s1:5"] > 0.97, "{senders} senders: {}", summary.utilisation["s1:5"]);
        assert!(summary.jain.is_none_or(|jain| jain > 0.999), "{senders} senders: {:?}", summary.jain);
        let port =
            trace.ports.iter().find(|port| port.port == "s1:5").expect("the receiver's port is observed");
        // From 200 us after the last sender has started.
        let late = &port.queue_bytes[usize::try_from(senders * 20 + 1).unwrap()..];
        let max = late.iter().max().unwrap();
        assert!(*max <= 25_000, "{senders} senders: {max} B");
    }
}
