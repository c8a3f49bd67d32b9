//! Swift against the worked numbers of docs/algorithms/swift.md.

use crate::variants::scheme;
use weir_host::scheme::{Decision, LossEvent, LossKind};
use weir_host::{DropReason, NicConfig};
use weir_testkit::net::{RATE, TestNetwork};
use weir_testkit::sender_harness::{SenderHarness, hop, params};
use weir_units::{Bandwidth, Bytes, Time};

const BASE_RTT: Time = Time::from_us(12);
/// Payload of a packet in bytes, as in `params`.
const PAYLOAD: u64 = 1_000;
/// Length of its frame.
const FRAME: u64 = 1_066;

/// A sender at 10 Gbit/s, which starts with the 15 packets of 12 us.
fn harness(parameters: &[(&str, &str)]) -> SenderHarness {
    SenderHarness::new(&*scheme("swift", parameters), &params(Bandwidth::from_gbps(10), BASE_RTT))
}

/// Delivers an ACK of one packet with this RTT, long after the last one.
fn ack(harness: &mut SenderHarness, rtt: Time) -> Decision {
    harness.now += Time::from_ms(1);
    harness.rtt = Some(rtt);
    harness.ack_next_round(&[])
}

fn gauge(harness: &SenderHarness, wanted: &str) -> f64 {
    let mut found = None;
    harness.sender.gauges(&mut |name, value| found = (name == wanted).then_some(value).or(found));
    found.expect("the gauge exists")
}

#[track_caller]
fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 0.0005 * expected.abs().max(1.0), "{value}, not {expected}");
}

#[test]
fn the_target_depends_on_hops_and_window() {
    let mut harness = harness(&[("max_cwnd", "1000")]);
    assert_near(gauge(&harness, "fcwnd"), 15.0);
    assert_near(gauge(&harness, "target_delay"), 25.0 + 6.313);
    harness.rtt = None;
    harness.ack(&[hop(10, 0, 0, 0); 3]);
    assert_near(gauge(&harness, "target_delay"), 25.0 + 3.0 + 6.313);
    // Below 0.1 packets the scaling is its range, above 256 it is none.
    for (window, scaling) in [("0.05", 100.0), ("0.1", 100.0), ("1", 30.244), ("256", 0.0), ("900", 0.0)] {
        let mut harness = self::harness(&[("min_cwnd", "0.01"), ("max_cwnd", "1000"), ("max_mdf", "0.99")]);
        let wanted: f64 = window.parse().unwrap();
        let from = weir_host::scheme::SendingRate { rate: 1e9, window: wanted * PAYLOAD as f64 };
        harness.sender.resume(harness.now, &from);
        assert_near(gauge(&harness, "fcwnd"), wanted);
        assert_near(gauge(&harness, "target_delay"), 25.0 + scaling);
    }
}

#[test]
fn windows_rise_below_the_target_and_fall_above_it() {
    let mut harness = harness(&[]);
    // 1/15 packets.
    ack(&mut harness, Time::from_us(20));
    assert_near(gauge(&harness, "fcwnd"), 15.0667);
    // The target is 25 us + 32.2601 us / sqrt(15.0667) - 2.0163 us = 31.295 us, the cut 0.8 * 8.705 / 40.
    ack(&mut harness, Time::from_us(40));
    assert_near(gauge(&harness, "fcwnd"), 12.4436);
    // At most max_mdf.
    let decision = ack(&mut harness, Time::from_us(400));
    assert_near(gauge(&harness, "fcwnd"), 6.2218);
    assert_eq!((decision.window, decision.rate), (Bytes::new(6 * PAYLOAD), Bandwidth::from_gbps(10)));
}

#[test]
fn a_window_falls_once_per_round_trip() {
    let mut harness = harness(&[]);
    harness.rtt = Some(Time::from_us(400));
    for _ in 0..400 {
        // Each ACK comes 1 us after the last.
        harness.ack_next_round(&[]);
    }
    assert_near(gauge(&harness, "fcwnd"), 7.5);
    harness.ack_next_round(&[]);
    assert_near(gauge(&harness, "fcwnd"), 3.75);
}

#[test]
fn a_window_below_one_packet_is_a_pace() {
    let mut harness = harness(&[]);
    for _ in 0..5 {
        ack(&mut harness, Time::from_us(400));
    }
    // 15 / 2^5 packets: one every 853 us.
    assert_near(gauge(&harness, "fcwnd"), 0.46875);
    let decision = harness.sender.decision();
    assert_eq!(decision.window, Bytes::new(PAYLOAD));
    assert_near(decision.rate.tx_time(Bytes::new(FRAME)).as_us_f64(), 400.0 / 0.46875);
    // Below one packet the increase is ai packets per packet.
    let decision = ack(&mut harness, Time::from_us(20));
    assert_near(gauge(&harness, "fcwnd"), 1.46875);
    assert_eq!((decision.window, decision.rate), (Bytes::new(PAYLOAD), Bandwidth::from_gbps(10)));
}

#[test]
fn the_smaller_of_both_windows_is_used() {
    let mut harness = harness(&[]);
    harness.endpoint_delay = Some(Time::from_us(380));
    // The fabric's share is 20 us: its window rises. That of the hosts is far above 100 us.
    let decision = ack(&mut harness, Time::from_us(400));
    assert_near(gauge(&harness, "fabric_delay"), 20.0);
    assert_near(gauge(&harness, "fcwnd"), 15.0667);
    assert_near(gauge(&harness, "endpoint_delay"), 380.0);
    assert_near(gauge(&harness, "ecwnd"), 128.0);
    assert_eq!(decision.window, Bytes::new(15 * PAYLOAD));
    for _ in 0..6 {
        ack(&mut harness, Time::from_us(400));
    }
    assert_near(gauge(&harness, "ecwnd"), 2.0);
    assert_eq!(harness.sender.decision().window, Bytes::new(2 * PAYLOAD));
    // The average falls below 100 us with the fifth sample of 0: 380 us * 0.75^5 = 90 us.
    harness.endpoint_delay = Some(Time::ZERO);
    let windows: Vec<f64> = (0..6)
        .map(|_| {
            ack(&mut harness, Time::from_us(20));
            gauge(&harness, "ecwnd")
        })
        .collect();
    let (falling, rising) = windows.split_at(4);
    assert!(falling.is_sorted_by(|a, b| a > b) && falling[0] < 2.0, "{windows:?}");
    assert!(rising[0] > falling[3] && rising[1] > rising[0], "{windows:?}");
}

#[test]
fn losses_cut_the_window_once_per_round_trip() {
    let mut harness = harness(&[("min_cwnd", "0.02")]);
    ack(&mut harness, Time::from_us(20));
    let lose = |harness: &mut SenderHarness, kind, gap| {
        harness.now += gap;
        let loss = LossEvent { now: harness.now, kind, seq: 0, snd_nxt: 100_000 };
        harness.sender.on_loss(&loss);
        gauge(harness, "fcwnd")
    };
    let rtt = Time::from_us(20);
    assert_near(lose(&mut harness, LossKind::Nack, Time::ZERO), 7.5333);
    assert_near(lose(&mut harness, LossKind::Nack, rtt - Time::from_ns(1)), 7.5333);
    assert_near(lose(&mut harness, LossKind::Timeout, Time::from_ns(1)), 3.7667);
    assert_near(lose(&mut harness, LossKind::Timeout, rtt), 1.8833);
    // The third timeout in a row.
    assert_near(lose(&mut harness, LossKind::Timeout, Time::ZERO), 0.02);
    ack(&mut harness, rtt);
    assert_near(lose(&mut harness, LossKind::Timeout, rtt), 0.51);
}

/// Opens two long flows to a receiver whose NIC handles half as many packets as arrive at line rate.
fn overloaded_receiver(parameters: &[(&str, &str)]) -> (TestNetwork, f64) {
    // 100 Gbit/s are 8.2 million full frames a second.
    let nic = NicConfig { packet_rate: Some(4_100_000), ..NicConfig::default() };
    let mut net = TestNetwork::with_config(3, &scheme("swift", parameters), 1, |config| {
        if config.addr.octets()[3] == 3 {
            config.nic = nic;
        }
    });
    let flows = [net.open(0, 2, None), net.open(1, 2, None)];
    net.run_until(Time::from_ms(20));
    let before = net.hosts[2].stats().payload_received;
    net.run_until(Time::from_ms(22));
    let rate = (net.hosts[2].stats().payload_received - before) as f64 * 8.0 / 0.002;
    let endpoint_delay = flows.iter().enumerate().map(|(host, &flow)| {
        let mut delay = 0.0;
        net.hosts[host].gauges(flow, &mut |name, value| {
            if name == "endpoint_delay" {
                delay = value
            }
        });
        delay
    });
    let delay = endpoint_delay.sum::<f64>() / 2.0;
    assert!(rate > 0.45 * RATE.as_bps_f64(), "{rate}");
    (net, delay)
}

#[test]
fn an_overloaded_host_is_kept_at_the_endpoint_target() {
    let (net, delay) = overloaded_receiver(&[]);
    assert!((70.0..130.0).contains(&delay), "{delay} us in the hosts");
    assert_eq!(net.hosts[2].stats().drops.get(DropReason::ReceiveRingFull), 0);
    assert!(net.peak_queue[2] < 400_000, "the fabric is not congested: {}", net.peak_queue[2]);
    let (_, delay) = overloaded_receiver(&[("endpoint_target", "50us")]);
    assert!((35.0..70.0).contains(&delay), "{delay} us in the hosts");
}
