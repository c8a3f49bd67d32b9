//! The sending rate of a window-based scheme (docs/summary.md#sending-rates).

use crate::variants::scheme;
use weir_host::wire::{FrameRepr, PacketKind, WeirRepr};
use weir_testkit::frames::{deliver, from_peer, host, open, poll_transmit};
use weir_testkit::net::{BASE_RTT, RATE};
use weir_units::Time;

#[test]
fn it_is_window_over_rtt() {
    let scheme = scheme("dctcp", &[("form", "window"), ("initial_window", "10")]);
    let mut host = host(&scheme, |_| {});
    let flow = open(&mut host, Time::ZERO, 7, 1_000_000);
    let view = |host: &weir_host::Host| host.flow(flow).expect("the flow is not finished");
    let expected = |window: f64, rtt: Time| window * 8.0 / rtt.as_secs_f64();
    let (before, payload) = (view(&host), host.config().max_payload().expect("an MTU with room").as_f64());
    assert_eq!(before.rate, RATE, "the pacer does not limit");
    let difference = before.sending_rate.as_bps_f64() - expected(10.0 * payload, BASE_RTT);
    assert!(difference.abs() < 1.0, "{} before the first RTT sample", before.sending_rate);
    let sent = poll_transmit(&mut host, Time::ZERO).expect("the window is open");
    while poll_transmit(&mut host, Time::ZERO).is_some() {}
    let rtt = BASE_RTT * 2;
    let ack = |seq: f64, timestamp: u32| {
        let plain = from_peer(PacketKind::Ack, 7, seq as u32);
        FrameRepr { weir: WeirRepr { timestamp, ..plain.weir }, ..plain }
    };
    deliver(&mut host, rtt, &ack(payload, sent.weir.timestamp), &[]);
    let after = view(&host);
    let difference = after.sending_rate.as_bps_f64() - expected(after.window.as_f64(), rtt);
    assert!(difference.abs() < 1.0 && after.sending_rate < RATE, "{after:?}");
}

#[test]
fn it_is_at_most_line_rate() {
    let scheme = scheme("dctcp", &[("form", "window"), ("initial_window", "1000")]);
    let mut host = host(&scheme, |_| {});
    let flow = open(&mut host, Time::ZERO, 7, 1_000_000);
    assert_eq!(host.flow(flow).expect("the flow is not finished").sending_rate, RATE);
}

#[test]
fn it_is_the_pacing_rate_of_every_other_scheme() {
    for name in ["hpcc", "dcqcn", "dctcp", "timely"] {
        let mut host = host(&scheme(name, &[]), |_| {});
        let flow = open(&mut host, Time::ZERO, 7, 1_000_000);
        let view = host.flow(flow).expect("the flow is not finished");
        assert_eq!(view.sending_rate, view.rate, "{name}");
    }
}
