//! Schemes whose rates are computed by switches: the host's part, and the worked numbers of the port algorithms
//! (docs/algorithms/rocc.md#worked-numbers, docs/algorithms/rcp.md#worked-number-of-rcp).

use crate::variants::scheme;
use weir_host::port_algorithm::{PortAlgorithm, UNLIMITED_GRANT};
use weir_host::wire::{Flags, FrameRepr, PacketKind, WeirRepr};
use weir_host::{DropReason, FlowId, Host};
use weir_testkit::frames::{deliver, from_peer, host, open, poll_transmit};
use weir_testkit::net::{RATE, addr};
use weir_testkit::reference_port::{rcp, rocc};
use weir_units::{Bandwidth, Time};

const fn us(n: u64) -> Time {
    Time::from_us(n)
}

/// Returns a RATE packet for message 7 from a port of a switch.
fn rate_packet(kbps: u32, port: u32, path_id: u16) -> FrameRepr {
    let plain = from_peer(PacketKind::Rate, 7, port);
    FrameRepr { weir: WeirRepr { grant: kbps, path_id, ..plain.weir }, ..plain }
}

fn rate(host: &Host, flow: FlowId) -> Bandwidth {
    host.flow(flow).expect("the flow is not finished").rate
}

/// The paper's units at 100 Gbit/s: 10 Mbit/s and 600 B.
#[test]
fn roccs_worked_numbers() {
    let Some(PortAlgorithm::Rocc(params)) = scheme("rocc", &[]).port_algorithm(us(10)) else {
        panic!("rocc runs RoCC's algorithm at ports")
    };
    for (rate, queue, previous_queue, expected) in [
        (10_000.0, 1_200.0, 0.0, 10.0),
        (10_000.0, 1_000.0, 0.0, 5_000.0),
        (10_000.0, 600.0, 500.0, 9_730.0),
        (3_000.0, 600.0, 500.0, 2_865.0),
        (10.0, 0.0, 0.0, 17.031_25),
        (1_000.0, 1_200.0, 100.0, 651.25),
    ] {
        let next = rocc(&params, 100e9, rate * 1e7, queue * 600.0, previous_queue * 600.0) / 1e7;
        assert!((next - expected).abs() < 1e-6, "{rate} {queue} {previous_queue}: {next}, not {expected}");
    }
}

#[test]
fn rcps_worked_number() {
    let parameters = [("period", "20us"), ("rtt", "20us"), ("gamma", "1")];
    let Some(PortAlgorithm::Rcp(params)) = scheme("rcp", &parameters).port_algorithm(us(10)) else {
        panic!("rcp runs RCP's algorithm at ports")
    };
    let next = rcp(&params, 10e9, 5e9, 12e9, 50e3, us(20));
    assert!((next - 0.6e9).abs() < 1.0, "{next}");
    let Some(PortAlgorithm::Rcp(params)) = scheme("rcp", &[]).port_algorithm(us(10)) else {
        panic!("rcp runs RCP's algorithm at ports")
    };
    assert_eq!((params.period, params.rtt), (us(10), us(10)), "the fabric's base round-trip time");
}

/// docs/algorithms/rocc.md#host: the source applies a lower rate, or one of the same port; the timer doubles the rate
/// up to line rate.
#[test]
fn rocc_follows_the_port_that_limits_it() {
    let mut host = host(&scheme("rocc", &[]), |_| {});
    let flow = open(&mut host, Time::ZERO, 7, 10_000_000);
    let frame = weir_testkit::frames::poll_transmit(&mut host, Time::ZERO).expect("line rate at once");
    assert!(frame.weir.flags.has(Flags::TELEMETRY), "DATA requests RATE packets");
    let gbps = Bandwidth::from_gbps;
    for (at, kbps, port, path, expected) in [
        (1, 40_000_000, 3, 0x11, 40),
        (2, 60_000_000, 4, 0x12, 40), // another port, less strict
        (3, 50_000_000, 3, 0x11, 50), // the same one
        (4, 50_000_000, 3, 0x12, 50), // the same number at another switch, not stricter
        (5, 60_000_000, 3, 0x11, 50), // which is the one that limits now
        (6, 30_000_000, 3, 0x12, 30),
    ] {
        deliver(&mut host, us(at), &rate_packet(kbps, port, path), &[]);
        assert_eq!(rate(&host, flow), gbps(expected), "at {at} us");
    }
    // Without grants an ACK's field echoes the path of the data; here switch 1.
    let echo = from_peer(PacketKind::Ack, 7, frame.payload_len);
    deliver(&mut host, us(7), &FrameRepr { weir: WeirRepr { grant: 1, ..echo.weir }, ..echo }, &[]);
    for (at, expected) in [(205, 30), (206, 60), (406, 100), (606, 100)] {
        while host.next_wakeup().is_some_and(|due| due <= us(at)) {
            host.wakeup(us(at));
        }
        assert_eq!(rate(&host, flow), gbps(expected), "at {at} us");
    }
    assert_eq!(host.stats().rates_received, 6);
}

/// Forged rates neither stop a flow nor raise its rate above the NIC's; a rate for an unknown flow is dropped.
#[test]
fn forged_rates_do_little() {
    let mut rocc = host(&scheme("rocc", &[]), |_| {});
    let flow = open(&mut rocc, Time::ZERO, 7, 10_000_000);
    deliver(&mut rocc, us(1), &FrameRepr { source: addr(5), ..rate_packet(1, 3, 1) }, &[]);
    deliver(&mut rocc, us(1), &FrameRepr { entropy_port: 99, ..rate_packet(1, 3, 1) }, &[]);
    deliver(&mut rocc, us(1), &from_peer(PacketKind::Rate, 8, 3), &[]);
    let drops = |host: &Host, reason| host.stats().drops.get(reason);
    assert_eq!((drops(&rocc, DropReason::WrongPeer), drops(&rocc, DropReason::UnknownFlow)), (2, 1));
    assert_eq!((rate(&rocc, flow), rocc.stats().rates_received), (RATE, 0));
    deliver(&mut rocc, us(2), &rate_packet(0, 3, 1), &[]);
    assert_eq!(rate(&rocc, flow), RATE / 1000, "the parameter min_rate");
    deliver(&mut rocc, us(3), &rate_packet(u32::MAX, 3, 1), &[]);
    assert_eq!(rate(&rocc, flow), RATE);

    for name in ["fncc", "rcp"] {
        let mut other = host(&scheme(name, &[]), |_| {});
        let flow = open(&mut other, Time::ZERO, 7, 10_000_000);
        deliver(&mut other, us(1), &rate_packet(1_000, 3, 1), &[]);
        assert_eq!((rate(&other, flow), drops(&other, DropReason::UnexpectedKind)), (RATE, 1), "{name}");
    }
}

/// The receiver sends an unlimited grant, and the sender applies the grant that switches have lowered.
#[test]
fn grants_on_acks() {
    for scheme in [scheme("rcp", &[]), scheme("rocc", &[("feedback", "ack")])] {
        let name = scheme.name();
        let mut host = host(&scheme, |_| {});
        deliver(&mut host, us(1), &from_peer(PacketKind::Data, 1, 0), &[]);
        let ack = poll_transmit(&mut host, us(1)).expect("an ACK");
        assert_eq!((ack.weir.kind, ack.weir.grant), (PacketKind::Ack, UNLIMITED_GRANT), "{name}");

        let flow = open(&mut host, us(2), 7, 10_000_000);
        let data = poll_transmit(&mut host, us(2)).expect("line rate at once");
        assert!(!data.weir.flags.has(Flags::TELEMETRY), "{name}");
        let grants = [
            (UNLIMITED_GRANT, RATE),
            (40_000_000, RATE * 2 / 5),
            (0, RATE * 2 / 5), // no grant
            (UNLIMITED_GRANT, RATE * 2 / 5),
            (1, RATE / 1000),
            (200_000_000, RATE),
        ];
        for (acked, (grant, expected)) in (0..).zip(grants) {
            let plain = from_peer(PacketKind::Ack, 7, acked);
            deliver(&mut host, us(3), &FrameRepr { weir: WeirRepr { grant, ..plain.weir }, ..plain }, &[]);
            assert_eq!(rate(&host, flow), expected, "{name}, grant {grant}");
        }
    }
}

/// As with RCP's SYN, the sender sends one packet until it receives a rate.
#[test]
fn rcp_can_request_a_rate_first() {
    let mut host = host(&scheme("rcp", &[("start", "request")]), |_| {});
    let flow = open(&mut host, Time::ZERO, 7, 10_000_000);
    let first = poll_transmit(&mut host, Time::ZERO).expect("the request");
    assert!(poll_transmit(&mut host, us(5)).is_none());
    let plain = from_peer(PacketKind::Ack, 7, first.payload_len);
    deliver(
        &mut host,
        us(6),
        &FrameRepr { weir: WeirRepr { grant: 25_000_000, ..plain.weir }, ..plain },
        &[],
    );
    assert_eq!(rate(&host, flow), RATE / 4);
    assert!(poll_transmit(&mut host, us(6)).is_some());
}
