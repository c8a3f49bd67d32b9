//! The NIC model of a host.

use crate::variants::scheme;
use std::cell::Cell;
use weir_host::scheme::SchemeConfig;
use weir_host::{FlowInfo, Host, HostConfig, NicConfig};
use weir_testkit::net::{BASE_RTT, Faults, RATE, TestNetwork, addr};
use weir_units::{Bytes, Time};

fn us(n: u64) -> Time {
    Time::from_us(n)
}

/// Runs a message of one packet from a host with `sender` to one with `receiver`, and returns its completion time.
fn one_packet(sender: NicConfig, receiver: NicConfig) -> Time {
    let next = Cell::new(0);
    let nics = [sender, receiver];
    let mut net = TestNetwork::with_config(2, &scheme("timely", &[]), 1, |config| {
        config.nic = nics[next.replace(next.get() + 1)];
    });
    net.open(0, 1, Some(Bytes::new(1_000)));
    net.run_to_end(Time::from_ms(10));
    net.fcts()[0]
}

#[test]
fn each_delay_adds_to_the_round_trip() {
    let ideal = NicConfig::default();
    let base = one_packet(ideal, ideal);
    let delayed = |sender, receiver| one_packet(sender, receiver) - base;
    assert_eq!(delayed(NicConfig { send_delay: us(3), ..ideal }, ideal), us(3));
    assert_eq!(delayed(NicConfig { receive_delay: us(4), ..ideal }, ideal), us(4));
    assert_eq!(delayed(ideal, NicConfig { receive_delay: us(4), ..ideal }), us(4));
    assert_eq!(delayed(ideal, NicConfig { ack_delay: us(5), ..ideal }), us(5));
    assert_eq!(delayed(ideal, NicConfig { cnp_delay: us(5), ..ideal }), Time::ZERO);
    assert_eq!(delayed(ideal, NicConfig { coalesce_time: us(7), ..ideal }), us(7));
    let full_batch = NicConfig { coalesce_time: us(7), coalesce_frames: Some(1), ..ideal };
    assert_eq!(delayed(ideal, full_batch), Time::ZERO);
    // Both directions of both hosts.
    let all = NicConfig { send_delay: us(1), receive_delay: us(2), ack_delay: us(4), ..ideal };
    assert_eq!(delayed(all, all), us(1 + 2 + 4 + 1 + 2));
}

/// Runs a flow for 2 ms from the first of two hosts to the second and returns its state and the network.
fn run(scheme: &std::sync::Arc<dyn SchemeConfig>, nic: NicConfig) -> (TestNetwork, FlowInfo) {
    let mut net = TestNetwork::with_config(2, scheme, 1, |config| config.nic = nic);
    let flow = net.open(0, 1, None);
    net.run_until(Time::from_ms(2));
    let info = net.flow(0, flow);
    (net, info)
}

#[test]
fn a_long_send_delay_does_not_limit_the_rate() {
    let nic = NicConfig { send_delay: us(50), ..NicConfig::default() };
    let (_, info) = run(&scheme("dcqcn", &[]), nic);
    let rate = info.acked.as_f64() * 8.0 / 0.0019;
    assert!(rate > 0.94 * RATE.as_bps_f64(), "{rate}");
}

#[test]
fn the_packet_rate_limits_both_directions() {
    let nic = NicConfig { packet_rate: Some(1_000_000), ..NicConfig::default() };
    let (net, _) = run(&scheme("dcqcn", &[]), nic);
    let sent = net.hosts[0].stats().data_sent;
    assert!((1_990..=2_001).contains(&sent), "{sent} packets in 2 ms");
    // Two senders of half the receiver's rate each: it handles no more.
    let mut net = TestNetwork::with_config(4, &scheme("dcqcn", &[]), 1, |config| config.nic = nic);
    (0..3).for_each(|host| {
        net.open(host, 3, None);
    });
    net.run_until(Time::from_ms(2));
    let stats = net.hosts[3].stats();
    let handled = stats.data_received + stats.out_of_order + stats.duplicates;
    assert!((1_980..=2_001).contains(&handled), "{handled} packets in 2 ms");
}

#[test]
fn a_cnp_waits_for_its_own_delay() {
    let nic = NicConfig { cnp_delay: us(55), ..NicConfig::default() };
    let slowdown = |nic| {
        let mut net = TestNetwork::with_config(2, &scheme("dcqcn", &[]), 1, |config| config.nic = nic);
        net.faults = Faults { mark: 1.0, ..Faults::default() };
        let flow = net.open(0, 1, None);
        while net.flow(0, flow).rate == RATE {
            net.run_until(net.now + Time::from_ns(100));
        }
        net.now
    };
    let (ideal, delayed) = (slowdown(NicConfig::default()), slowdown(nic));
    let added = delayed - ideal;
    assert!((us(54)..us(56)).contains(&added), "{added}");
}

#[test]
fn coalescing_batches_acks() {
    let nic = NicConfig { coalesce_time: us(20), coalesce_frames: Some(32), ..NicConfig::default() };
    let (net, info) = run(&scheme("dctcp", &[]), nic);
    assert_eq!(info.retransmits, 0);
    assert!(net.hosts[1].stats().acks_sent > 5_000, "each packet is acknowledged");
    // The window of a base RTT is spent after 6 us; then the sender waits for the next batch.
    assert!(info.acked.as_f64() * 8.0 / 0.002 < 0.9 * RATE.as_bps_f64(), "{}", info.acked);
    let (_, ideal) = run(&scheme("dctcp", &[]), NicConfig::default());
    assert!(ideal.acked > info.acked);
}

/// The share of the RTT that passed in hosts reaches the sender with the ACK.
#[test]
fn endpoint_delay_is_reported() {
    let nic = NicConfig { receive_delay: us(3), ack_delay: us(5), ..NicConfig::default() };
    let mut net = TestNetwork::with_config(2, &scheme("swift", &[]), 1, |config| config.nic = nic);
    let flow = net.open(0, 1, None);
    net.run_until(us(100));
    let mut gauges = std::collections::BTreeMap::new();
    net.hosts[0].gauges(flow, &mut |name, value| {
        gauges.insert(name, value);
    });
    // Both hosts have a receive delay.
    let endpoint = gauges["endpoint_delay"];
    assert!((10.9..11.2).contains(&endpoint), "{endpoint} us");
    let rtt = net.flow(0, flow).rtt.expect("a sample").as_us_f64();
    assert!((gauges["fabric_delay"] + endpoint - rtt).abs() < 1.0, "{gauges:?} of {rtt}");
}

#[test]
fn pauses_hold_frames_in_the_pipeline() {
    let nic = NicConfig { send_delay: us(10), ..NicConfig::default() };
    let mut net = TestNetwork::with_config(2, &scheme("dcqcn", &[]), 1, |config| config.nic = nic);
    net.open(0, 1, Some(Bytes::from_kb(1_000)));
    net.run_until(us(5));
    net.pause(0, 1);
    net.run_until(us(1_000));
    let sent = net.hosts[0].stats().payload_sent;
    assert_eq!(net.hosts[1].stats().payload_received, 0);
    // No more than the pipeline holds: 10 us at line rate and a frame.
    assert!(sent < 130_000, "{sent}");
    net.pause(0, 0);
    net.run_to_end(Time::from_ms(10));
    assert_eq!(net.hosts[1].stats().payload_received, 1_000_000);
}

#[test]
fn impossible_values_are_refused() {
    let message = |nic| {
        let mut config = HostConfig::new(addr(0), RATE, BASE_RTT, scheme("hpcc", &[]));
        config.nic = nic;
        Host::new(config).unwrap_err().to_string()
    };
    let ideal = NicConfig::default();
    assert_eq!(
        message(NicConfig { packet_rate: Some(0), ..ideal }),
        "packet_rate: must be at least 1; omit it for no limit"
    );
    assert!(
        message(NicConfig { coalesce_frames: Some(8), ..ideal })
            .starts_with("coalesce_frames: requires coalesce_time")
    );
}
