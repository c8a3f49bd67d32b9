//! DASR where the sender's line is faster than the receiver's.

use weir_experiment::Experiment;
use weir_sim::run;

/// Four senders at 100 Gbit/s. Some send to a receiver at 25 Gbit/s, one more every 200 us.
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

/// Each sender's share is of the receiver's line, and what a faster one queued in its first round trip is gone soon. Without
/// the one there are 493 KB in the queue for good and 152 pauses, without the other 272 KB.
#[test]
fn nothing_stays_queued_at_a_slower_receiver() {
    for senders in [1, 2, 4] {
        let experiment = Experiment::parse(&yaml(senders), "dasr.yaml", "dasr", &[], None).unwrap();
        let results = run(&experiment, &mut ()).unwrap();
        let (summary, trace) = (&results.summary.schemes["dasr"], &results.traces["dasr"]);
        assert_eq!(summary.pauses, 0, "{senders} senders");
        assert!(summary.utilisation["s1:5"] > 0.97, "{senders} senders: {}", summary.utilisation["s1:5"]);
        assert!(summary.jain.is_none_or(|jain| jain > 0.999), "{senders} senders: {:?}", summary.jain);
        let port = trace.ports.iter().find(|port| port.port == "s1:5").expect("the receiver's");
        // From 200 us after the last one has begun.
        let late = &port.queue_bytes[usize::try_from(senders * 20 + 1).unwrap()..];
        let max = late.iter().max().unwrap();
        assert!(*max <= 25_000, "{senders} senders: {max} B");
    }
}
