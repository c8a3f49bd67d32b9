//! IOFD keeps every message in order, however it deflects (Dart §IV): a smaller run of the example `in_order`.

mod watch;

use watch::{EVEN_FABRICS, FABRICS, Seen, experiment, watch, with_incasts};
use weir_units::Time;

fn run(topology: &str, scheme: &str, seed: u64) -> Seen {
    watch(&experiment(topology, scheme, seed, Time::from_us(200)))
}

/// No packet is out of order or lost and no entry is overwritten or left over, with enough deflections to be
/// significant.
#[test]
fn deflected_messages_stay_in_order() {
    for (name, topology) in FABRICS {
        for scheme in ["dart", "iofd", "{scheme: weir, set: {deflect_above: 1500B/10Gbps}}"] {
            let seen = run(topology, scheme, 1);
            assert_eq!(seen.violations(), Vec::<String>::new(), "{name} {scheme}");
            assert!(seen.packets > 5_000, "{name} {scheme}: {seen:?}");
            assert!(seen.deflections > 100 && seen.max_entries > 1, "{name} {scheme}: {seen:?}");
        }
    }
}

/// Tables fill up and tokens run out, because two packets in a queue count as congestion.
#[test]
fn messages_stay_in_order_when_every_packet_is_deflected() {
    let scheme = "{scheme: iofd, set: {deflect_above: 200B/10Gbps, tokens: 2}}";
    for (name, topology) in FABRICS {
        let seen = run(topology, scheme, 2);
        assert_eq!(seen.violations(), Vec::<String>::new(), "{name}");
        assert!(seen.max_entries == 8 && seen.deflections > 1_000, "{name}: {seen:?}");
    }
}

/// Packets are also deflected at receivers' ports, back into the network.
#[test]
fn messages_stay_in_order_when_receivers_ports_are_congested() {
    let run = |topology, at_hosts| {
        let parameters = format!("tokens: 3, deflect_above: 1500B/10Gbps, deflect_at_hosts: {at_hosts}");
        let scheme = format!("{{scheme: dart, set: {{{parameters}}}}}");
        watch(&with_incasts(topology, &scheme, 1, Time::from_us(200)))
    };
    for (name, topology) in EVEN_FABRICS {
        let [fabric, everywhere] = ["off", "on"].map(|at_hosts| run(topology, at_hosts));
        assert_eq!(everywhere.violations(), Vec::<String>::new(), "{name}");
        assert!(everywhere.deflections > fabric.deflections, "{name}: {fabric:?} {everywhere:?}");
    }
    // Uplinks are congested here, so only few of the deflections are at receivers' ports.
    let (name, topology) = FABRICS[0];
    let seen = run(topology, "on");
    assert_eq!(seen.violations(), Vec::<String>::new(), "{name} of three spines");
    assert!(seen.deflections > 1_000, "{name} of three spines: {seen:?}");
}

/// Without tokens the same traffic is not deflected, so the other tests do test IOFD.
#[test]
fn without_tokens_nothing_is_deflected() {
    let seen = run(FABRICS[0].1, "{scheme: iofd, set: {tokens: 0}}", 1);
    assert_eq!((seen.deflections, seen.max_entries), (0, 0));
    assert_eq!(seen.violations(), Vec::<String>::new());
}
