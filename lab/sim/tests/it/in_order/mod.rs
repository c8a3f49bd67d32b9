//! IOFD keeps every message in order, however it deflects (Dart §IV): a smaller run of the example `in_order`.

mod watch;

use watch::{EVEN_FABRICS, FABRICS, Seen, experiment, watch, with_incasts};
use weir_units::Time;

fn run(topology: &str, scheme: &str, seed: u64) -> Seen {
    watch(&experiment(topology, scheme, seed, Time::from_us(200)))
}

/// Nothing out of order, nothing lost, no entry overwritten or left; and enough was deflected for that to mean something.
#[test]
fn deflected_messages_stay_in_order() {
    for (name, topology) in FABRICS {
        for scheme in ["dart", "iofd", "{scheme: weir, set: {deflect_above: 1500B/10Gbps}}"] {
            let seen = run(topology, scheme, 1);
            assert_eq!(seen.faults(), Vec::<String>::new(), "{name} {scheme}");
            assert!(seen.packets > 5_000, "{name} {scheme}: {seen:?}");
            assert!(seen.deflections > 100 && seen.max > 1, "{name} {scheme}: {seen:?}");
        }
    }
}

/// Tables that are full, tokens that run out: the port is congested with two packets in its queue.
#[test]
fn messages_stay_in_order_when_every_packet_is_deflected() {
    let scheme = "{scheme: iofd, set: {deflect_above: 200B/10Gbps, tokens: 2}}";
    for (name, topology) in FABRICS {
        let seen = run(topology, scheme, 2);
        assert_eq!(seen.faults(), Vec::<String>::new(), "{name}");
        assert!(seen.max == 8 && seen.deflections > 1_000, "{name}: {seen:?}");
    }
}

/// Back into the network from a receiver's port, and to it again.
#[test]
fn messages_stay_in_order_when_receivers_ports_are_congested() {
    let run = |topology, at_hosts| {
        let parameters = format!("tokens: 3, deflect_above: 1500B/10Gbps, deflect_at_hosts: {at_hosts}");
        let scheme = format!("{{scheme: dart, set: {{{parameters}}}}}");
        watch(&with_incasts(topology, &scheme, 1, Time::from_us(200)))
    };
    for (name, topology) in EVEN_FABRICS {
        let [fabric, everywhere] = ["off", "on"].map(|at_hosts| run(topology, at_hosts));
        assert_eq!(everywhere.faults(), Vec::<String>::new(), "{name}");
        assert!(everywhere.deflections > fabric.deflections, "{name}: {fabric:?} {everywhere:?}");
    }
    // Where it is uplinks that are congested, deflections at receivers' ports are few among all.
    let (name, topology) = FABRICS[0];
    let seen = run(topology, "on");
    assert_eq!(seen.faults(), Vec::<String>::new(), "{name} of three spines");
    assert!(seen.deflections > 1_000, "{name} of three spines: {seen:?}");
}

/// The same traffic without tokens is not deflected: what the others show is IOFD's.
#[test]
fn without_tokens_nothing_is_deflected() {
    let seen = run(FABRICS[0].1, "{scheme: iofd, set: {tokens: 0}}", 1);
    assert_eq!((seen.deflections, seen.max), (0, 0));
    assert_eq!(seen.faults(), Vec::<String>::new());
}
