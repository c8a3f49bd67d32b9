//! PFC deadlocks: they are detected and reported, and deflection does not cause any.

use weir_experiment::Experiment;
use weir_experiment::results::{DeadlockSummary, SchemeSummary};
use weir_sim::run;
use weir_units::Time;

fn summary(yaml: &str) -> (SchemeSummary, Time) {
    let experiment = Experiment::parse(yaml, "deadlock.yaml", "deadlock", &[], None)
        .unwrap_or_else(|error| panic!("{error}\n{yaml}"));
    let results = run(&experiment, &mut ()).unwrap_or_else(|error| panic!("{error}"));
    let (label, summary) = results.summary.schemes.into_iter().next().unwrap();
    (summary, results.traces[&label].end)
}

/// Six switches in a ring. The routes to each host form a tree, but together they form a cycle.
fn ring(more: &str) -> String {
    format!(
        "{{topology: {{kind: custom, hosts: [h1, h2, h3, h4, h5, h6], switches: [s1, s2, s3, s4, s5, s6], rate: 10Gbps,
          links: [[h1, s1], [h2, s2], [h3, s3], [h4, s4], [h5, s5], [h6, s6],
                  [s1, s2], [s2, s3], [s3, s4], [s4, s5], [s5, s6], [s6, s1]]}},
          pfc: {{threshold: 15KB}}, schemes: [dcqcn], duration: 5ms, observe: {{interval: 50us, rates: false}},
          workload: {{kind: poisson, sizes: 100KB, load: 60%, stop: 2ms}}{more}}}"
    )
}

/// Returns whether each queue of the cycle is at a neighbour of the switch of the previous queue, the first after the
/// last.
fn is_ring(deadlock: &DeadlockSummary) -> bool {
    let number = |port: &str| port[1..2].parse::<u8>().unwrap();
    let switches: Vec<u8> = deadlock.cycle.iter().map(|queue| number(&queue.port)).collect();
    let next = switches.iter().cycle().skip(1);
    switches.len() == 6 && switches.iter().zip(next).all(|(&a, &b)| a.abs_diff(b) % 4 == 1)
}

#[test]
fn a_deadlock_ends_the_run_and_is_named() {
    let (summary, end) = summary(&ring(""));
    let deadlock = summary.deadlock.expect("the ring is full");
    assert!(is_ring(&deadlock), "{deadlock}");
    assert_eq!(end.as_us_f64(), deadlock.at_us);
    assert!(end < Time::from_ms(2), "{end}");
    assert!(summary.fct.unfinished > 10);
    let (mut packets, queues) = (0, deadlock.queues);
    for queue in &deadlock.cycle {
        assert!(queue.class == 0 && queue.packets > 0 && queue.bytes >= 1_000, "{queue:?}");
        let first = queue.first.as_deref().expect("data");
        assert!(first.starts_with('h') && first.contains(" message "), "{first}");
        packets += u64::from(queue.packets);
    }
    assert!(queues >= 6 && deadlock.packets >= packets, "{deadlock}");
    let text = deadlock.to_string();
    let port = &deadlock.cycle[0].port;
    assert!(text.starts_with(&format!("deadlock at {} us: {port} -> ", deadlock.at_us)), "{text}");
    assert!(text.contains(&format!(" -> {port} (class 0; {} packets", deadlock.packets)), "{text}");
}

/// On up*/down* paths the same traffic does not deadlock. The watchdog names the ports of the ring that do, as they stay
/// paused.
#[test]
fn up_down_routes_do_not_deadlock() {
    let (summary, end) = summary(&ring(", routing: up-down"));
    assert_eq!((summary.deadlock, end), (None, Time::from_ms(5)));
    assert!(summary.pauses > 100 && summary.fct.count > 50, "{} pauses", summary.pauses);
    let (routed, up_down) = (ring(""), ring(", routing: up-down"));
    let cycle_of = |text: &str| {
        let experiment = Experiment::parse(text, "deadlock.yaml", "deadlock", &[], None);
        experiment.unwrap_or_else(|error| panic!("{error}")).pfc_cycle()
    };
    let cycle = cycle_of(&routed).expect("several trees share the ring");
    assert_eq!(cycle.split(" -> ").count(), 7, "{cycle}");
    assert_eq!(cycle_of(&up_down), None);
    assert_eq!(cycle_of(&routed.replace("pfc: {threshold: 15KB}", "pfc: off")), None);
}

/// The run continues while a scheduled change could resolve the deadlock.
#[test]
fn a_deadlock_that_a_restart_may_end_does_not_end_the_run() {
    let (summary, end) =
        summary(&ring(", faults: [{kind: restart, switch: s1, at: 4900us, refill_after: 10us}]"));
    assert!(end > Time::from_us(4_900), "{end}");
    assert!(summary.fct.unfinished > 10);
}

/// An experiment whose load exceeds these low PFC thresholds all the time.
fn shallow(scheme: &str, threshold: &str, seed: u64) -> String {
    format!(
        "{{topology: {{kind: leaf-spine, leaves: 4, spines: 2, hosts_per_leaf: 4, rate: 10Gbps}},
          pfc: {{threshold: {threshold}}}, ack_priority: true, seed: {seed}, schemes: [{scheme}],
          duration: 60ms, until_idle: true, observe: {{interval: 100us, rates: false}}, workloads: [
            {{kind: incast, senders: 12, size: {{choice: [2KB, 4KB, 8KB]}}, load: 30%, stop: 1500us, jitter: 20us}},
            {{kind: poisson, sizes: 1MB, load: 10%, stop: 1500us}}]}}"
    )
}

/// If deflected packets changed their class only with the last token, iofd with four tokens would finish 3,191 of
/// 4,555 flows here and then deadlock.
#[test]
fn deflection_does_not_deadlock() {
    for scheme in ["iofd", "dart", "{scheme: iofd, set: {tokens: 3}}", "{scheme: weir, set: {tokens: 2}}"] {
        for (threshold, seed) in [("15KB", 1), ("15KB", 2), ("50KB", 1)] {
            let (summary, _) = summary(&shallow(scheme, threshold, seed));
            let name = format!("{scheme}, {threshold}, seed {seed}");
            assert_eq!(summary.deadlock, None, "{name}");
            assert_eq!((summary.fct.unfinished, summary.drops.len()), (0, 0), "{name}");
            assert!(summary.deflections > 100 && summary.pauses > 0, "{name}: {} pauses", summary.pauses);
        }
    }
}
