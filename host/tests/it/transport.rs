//! Complete transfers between hosts, with every scheme.

use crate::variants::{all_schemes, all_variants, is_credited, scheme};
use proptest::prelude::*;
use std::sync::Arc;
use weir_host::scheme::{LossRecovery, SchemeConfig};
use weir_host::wire::{Flags, FrameView, HEADERS_LEN, INT_RECORD_LEN, MAX_HEADER_LEN, MAX_HOPS};
use weir_host::{HostConfig, HostEvent, Transmit};
use weir_testkit::frames;
use weir_testkit::net::{BASE_RTT, Faults, LINK_DELAY, RATE, TestNetwork};
use weir_units::{Bytes, Time};

/// A single flow takes the ideal time at line rate, without retransmissions or drops.
#[test]
fn a_flow_alone_runs_at_line_rate() {
    for scheme in all_schemes() {
        let mut net = TestNetwork::star(2, &scheme);
        let size = Bytes::new(10_000_000);
        net.open(0, 1, Some(size));
        net.run_to_end(Time::from_ms(2));
        let payload = net.hosts[0].config().max_payload().unwrap().get();
        let wire = size.get() + size.get().div_ceil(payload) * HEADERS_LEN as u64;
        let ideal = RATE.tx_time(Bytes::new(wire)) + LINK_DELAY * 4;
        let fct = net.fcts()[0];
        assert!(fct >= ideal, "{}: {fct} is faster than the link's {ideal}", scheme.name());
        // Credits take a round trip to come, and leave room for themselves and for ACKs.
        let slack = if is_credited(&scheme) { 115 } else { 110 };
        assert!(fct < ideal * slack / 100, "{}: {fct} against an ideal {ideal}", scheme.name());
        assert_eq!(net.hosts[0].stats().retransmits, 0);
        assert_eq!(net.hosts[0].stats().drops.total() + net.hosts[1].stats().drops.total(), 0);
        assert_eq!(net.hosts[1].stats().payload_received, size.get());
    }
}

/// A message of one packet: the completion time is that of DATA and ACK through empty queues.
#[test]
fn fct_is_from_open_to_the_last_acknowledgement() {
    let mut net = TestNetwork::star(2, &scheme("fncc", &[]));
    net.open(0, 1, Some(Bytes::new(1000)));
    net.run_to_end(Time::from_us(100));
    let data = RATE.tx_time(Bytes::new(1000 + HEADERS_LEN as u64));
    let ack = RATE.tx_time(Bytes::new(HEADERS_LEN as u64));
    let ack_with_record = RATE.tx_time(Bytes::new((HEADERS_LEN + INT_RECORD_LEN) as u64));
    assert_eq!(net.fcts(), [LINK_DELAY * 4 + data * 2 + ack + ack_with_record]);
}

/// Up to a fifth of all packets is lost, and timeouts double six times from 200 ms: seven in a row take 25 s.
const TIMEOUT: Time = Time::from_secs(300);

fn transfer(
    scheme: &Arc<dyn SchemeConfig>,
    faults: Faults,
    seed: u64,
    sizes: &[u64],
    tune: impl Fn(&mut HostConfig),
) -> Vec<(usize, HostEvent)> {
    let mut net = TestNetwork::with_config(3, scheme, seed, tune);
    net.faults = faults;
    for (i, &size) in sizes.iter().enumerate() {
        net.open(i % 2, 2, Some(Bytes::new(size)));
    }
    net.run_to_end(TIMEOUT);
    // Packets that are still in flight belong to no flow and change nothing.
    net.run_until(net.now + Time::from_secs(1));
    for (i, &size) in sizes.iter().enumerate() {
        let message = i as u32 + 1;
        let received = net.events.iter().filter(|(host, event)| {
            *host == 2
                && matches!(event, HostEvent::MessageReceived { message: m, bytes, .. }
                    if *m == message && bytes.get() == size)
        });
        assert_eq!(received.count(), 1, "message {message}");
    }
    let total: u64 = sizes.iter().sum();
    assert_eq!(net.hosts[2].stats().payload_received, total);
    assert_eq!(net.fcts().len(), sizes.len());
    net.events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every message arrives once and complete under loss, duplication, reordering and marks. The network checks every
    /// packet against window and pacing.
    #[test]
    fn transfers_survive_loss_reordering_and_duplication(
        (_, scheme) in prop::sample::select(all_variants()),
        loss in 0.0..0.2,
        duplicate in 0.0..0.2,
        reorder in 0.0..0.2,
        mark in 0.0..0.2,
        seed: u64,
        sizes in prop::collection::vec(1u64..60_000, 1..8),
        ack_every in 1u32..6,
    ) {
        let faults = Faults { loss, duplicate, reorder, mark, ..Faults::default() };
        transfer(&scheme, faults, seed, &sizes, |config| config.ack_every = ack_every);
    }
}

/// The same seed gives the same events at the same times; another seed gives others.
#[test]
fn runs_repeat_exactly() {
    let faults = Faults { loss: 0.05, duplicate: 0.05, reorder: 0.05, ..Faults::default() };
    let run = |seed| transfer(&scheme("fncc", &[]), faults, seed, &[50_000, 70_000, 90_000], |_| {});
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

/// The 32-bit offset wraps at 4 GiB without effect on the flow. Large frames keep the test short.
#[test]
fn flows_longer_than_32_bits_of_offset() {
    let size = Bytes::new((1 << 32) + 123_456_789);
    let mut net = TestNetwork::with_config(2, &scheme("hpcc", &[]), 1, |config| {
        config.mtu = Bytes::new(65_549);
        config.base_rtt = Time::from_us(30);
    });
    net.faults.loss = 0.0001;
    net.open(0, 1, Some(size));
    net.run_to_end(Time::from_secs(5));
    assert_eq!(net.hosts[1].stats().payload_received, size.get());
    assert!(net.hosts[0].stats().retransmits > 0);
    let received = |(_, event): &(usize, HostEvent)| matches!(event, HostEvent::MessageReceived { bytes, .. } if *bytes == size);
    assert!(net.events.iter().any(received));
}

/// Timestamps have 32 bits of nanoseconds and wrap after 4.29 s; those of telemetry have 24 bits and wrap many times.
#[test]
fn clocks_wrap_in_the_middle_of_a_flow() {
    for scheme in all_schemes() {
        let mut net = TestNetwork::star(2, &scheme);
        net.run_until(Time::from_ns((1 << 32) - 200_000));
        let flow = net.open(0, 1, None);
        for step in 1..=40 {
            net.run_until(Time::from_ns((1 << 32) - 200_000 + step * 10_000));
            let view = net.flow(0, flow);
            if is_credited(&scheme) && step < 3 {
                continue; // a round trip later than others
            }
            let rtt = view.rtt.expect("ACKs came");
            assert!(
                rtt >= LINK_DELAY * 4 && rtt < LINK_DELAY * 12,
                "{}: {rtt} at {}",
                scheme.name(),
                net.now
            );
            assert!(
                view.rate.as_bps() > RATE.as_bps() * 8 / 10,
                "{}: {} at {}",
                scheme.name(),
                view.rate,
                net.now
            );
        }
        assert_eq!(net.hosts[0].stats().telemetry.total(), 0);
    }
}

/// A stopped flow sends one more packet, with END, and finishes like any other.
#[test]
fn a_stopped_flow_finishes() {
    let mut net = TestNetwork::star(2, &scheme("fncc", &[]));
    let flow = net.open(0, 1, None);
    net.run_until(Time::from_us(50));
    let view = net.flow(0, flow);
    assert_eq!(view.size, None);
    net.stop(0, flow);
    let size = net.flow(0, flow).size.expect("a stopped flow has a size");
    assert_eq!(size, view.sent + net.hosts[0].config().max_payload().unwrap());
    net.run_to_end(Time::from_us(100));
    assert_eq!(net.hosts[1].stats().payload_received, size.get());
    assert_eq!(net.hosts[0].flow(flow), None);
    net.stop(0, flow);
    assert_eq!(net.fcts().len(), 1);
}

/// A paused class sends no frames, its flows do not time out, and they continue after the resume.
#[test]
fn a_pause_is_not_a_loss() {
    let mut net = TestNetwork::with_config(2, &scheme("hpcc", &[]), 1, |config| {
        config.control_class = 7;
        config.data_class = 3;
    });
    let flow = net.open(0, 1, None);
    net.run_until(Time::from_us(100));
    net.pause(0, 1 << 3);
    let sent = net.flow(0, flow).sent;
    net.run_until(Time::from_ms(100));
    assert_eq!(net.flow(0, flow).sent, sent);
    assert_eq!(net.hosts[0].stats().timeouts, 0);
    net.pause(0, 1 << 7);
    net.run_until(Time::from_ms(101));
    assert!(net.flow(0, flow).sent > sent);
    assert_eq!(net.hosts[0].stats().retransmits, 0);
}

/// The same with packets in flight whose ACKs are paused too: timeouts that expire in the meantime cause no
/// retransmission and do not back off.
#[test]
fn a_pause_with_packets_in_flight_is_not_a_loss() {
    let mut net = TestNetwork::with_config(2, &scheme("hpcc", &[]), 1, |config| {
        config.control_class = 7;
        config.data_class = 3;
    });
    let flow = net.open(0, 1, None);
    net.run_until(Time::from_us(100));
    net.pause(1, 1 << 7);
    net.run_until(Time::from_us(110));
    net.pause(0, 1 << 3);
    assert!(net.flow(0, flow).inflight > Bytes::ZERO);
    net.run_until(Time::from_ms(100));
    assert!(net.flow(0, flow).inflight > Bytes::ZERO, "the sender went back");
    net.pause(1, 0);
    net.pause(0, 0);
    net.run_until(Time::from_ms(101));
    let stats = net.hosts[0].stats();
    assert_eq!((stats.timeouts, stats.retransmits), (0, 0));
}

/// A short message is sent before waiting long ones, in its own class: a pause of one class does not block the other.
/// With both kinds of loss recovery.
#[test]
fn short_messages_go_first_in_their_class() {
    for recovery in [LossRecovery::GoBackN, LossRecovery::Selective] {
        let mut host = frames::host(&scheme("dcqcn", &[("short_first", "8KB")]), |config| {
            (config.data_class, config.express_class) = (3, 5);
            config.transport.recovery = Some(recovery);
        });
        let [long, short, longer] = [(1, 8_001), (2, 8_000), (3, 100_000)]
            .map(|(id, size)| frames::open(&mut host, Time::ZERO, id, size));
        let mut head = [0; MAX_HEADER_LEN];
        let mut next = |paused: u8| match host.transmit(Time::ZERO, paused, &mut head) {
            Transmit::Frame { head_len, payload, class, flow } => {
                let frame = FrameView::new(&head[..head_len], payload).expect("a good frame");
                Some((class, flow, frame.weir.flags().has(Flags::EXPRESS)))
            }
            Transmit::Policy { .. } | Transmit::Nothing => None,
        };
        assert_eq!(next(1 << 5), Some((3, Some(long), false)), "{recovery}");
        assert_eq!(next(0), Some((5, Some(short), true)), "{recovery}");
        assert_eq!(next(1 << 5), Some((3, Some(longer), false)), "{recovery}");
        assert_eq!(next(1 << 5 | 1 << 3), None, "{recovery}");
    }
}

/// The window is checked before a packet is added: a window of exactly ten packets allows ten, and one byte more allows
/// an eleventh.
#[test]
fn the_window_is_tested_before_the_packet() {
    let in_flight = |base_rtt: Time| {
        let mut net = TestNetwork::with_config(2, &scheme("hpcc", &[]), 1, |config| {
            config.mtu = Bytes::new(1000 + (HEADERS_LEN + MAX_HOPS * INT_RECORD_LEN) as u64);
            config.base_rtt = base_rtt;
        });
        net.pause(1, 1);
        let flow = net.open(0, 1, None);
        net.run_until(Time::from_us(50));
        let view = net.flow(0, flow);
        (view.window.get(), view.inflight.get())
    };
    assert_eq!(in_flight(Time::from_ns(800)), (10_000, 10_000));
    assert_eq!(in_flight(Time::from_ps(800_080)), (10_001, 11_000));
}

/// While the class of ACKs is paused, the sender stops at its window.
#[test]
fn the_window_holds_without_acks() {
    for scheme in all_schemes() {
        let mut net = TestNetwork::star(2, &scheme);
        net.pause(1, 1);
        let flow = net.open(0, 1, None);
        net.run_until(Time::from_us(100));
        let view = net.flow(0, flow);
        let payload = net.hosts[0].config().max_payload().unwrap();
        if is_credited(&scheme) {
            assert_eq!(view.sent, Bytes::ZERO, "credits wait with the ACKs");
        } else if view.window < RATE.bytes_in(BASE_RTT) + payload || scheme.needs().transport.uses_slow_start
        {
            assert!(view.inflight >= view.window && view.inflight < view.window + payload);
        } else {
            // A scheme without a window: the NIC was never idle.
            assert!(view.inflight.get() > RATE.bytes_in(Time::from_us(99)).get() * 9 / 10);
        }
        net.pause(1, 0);
        net.run_until(Time::from_us(200));
        assert!(net.flow(0, flow).acked > view.inflight);
    }
}

/// Thousands of flows of one host take turns.
#[test]
fn many_flows_share_the_nic_evenly() {
    let flows = 2_000;
    let mut net = TestNetwork::star(2, &scheme("fncc", &[("lhcs", "off")]));
    let ids: Vec<_> = (0..flows).map(|_| net.open(0, 1, None)).collect();
    net.run_until(RATE.tx_time(Bytes::new(1518)) * flows * 20);
    let sent: Vec<u64> = ids.iter().map(|&id| net.flow(0, id).sent.get()).collect();
    let total: u64 = sent.iter().sum();
    let (min, max) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
    assert!(*min * 10 > total / flows * 7, "{min} of {}", total / flows);
    assert!(*max * 10 < total / flows * 13, "{max} of {}", total / flows);
    assert!(RATE.bytes_in(net.now).get() < total * 110 / 100, "the NIC was idle");
}

/// With telemetry on DATA, the frame fits the MTU after eight switches have added a record.
#[test]
fn grown_frames_fit_the_mtu() {
    for scheme in all_schemes() {
        let net = TestNetwork::star(1, &scheme);
        let config = net.hosts[0].config();
        let grows = match scheme.needs().telemetry {
            weir_host::scheme::TelemetrySource::Data => MAX_HOPS * scheme.needs().records.record_len(),
            _ => 0,
        };
        let frame = config.max_payload().unwrap().get() as usize + HEADERS_LEN + grows;
        assert_eq!(frame as u64, config.mtu.get(), "{}", scheme.name());
    }
}

/// If only every m-th packet is acknowledged, a window smaller than m packets does not stall: the delayed ACK is sent
/// after a delay.
#[test]
fn cumulative_acks_do_not_stall_small_windows() {
    let mut net = TestNetwork::with_config(2, &scheme("hpcc", &[]), 1, |config| {
        config.ack_every = 1000;
    });
    net.open(0, 1, Some(Bytes::new(1_000_000)));
    net.run_to_end(Time::from_ms(1));
    assert_eq!(net.hosts[0].stats().timeouts, 0);
    let acks = net.hosts[1].stats().acks_sent;
    assert!(acks > 5 && acks < 50, "{acks}");
}

/// With selective retransmission and no RTT sample, a lost first packet is retransmitted after a second (RFC 6298
/// section 2.1), or after the configured `initial_rto`.
#[test]
fn a_lost_first_packet_is_retransmitted_after_the_initial_timeout() {
    for (set, expected) in [(None, Time::from_secs(1)), (Some(Time::from_ms(200)), Time::from_ms(200))] {
        let mut host = frames::host(&scheme("xmp", &[]), |config| {
            config.transport.initial_rto = set.unwrap_or(config.transport.initial_rto);
        });
        frames::open(&mut host, Time::ZERO, 1, 100);
        let (sent, at) = frames::drain(&mut host, Time::ZERO);
        assert_eq!((sent.len(), at), (1, Time::ZERO));
        assert_eq!(host.next_wakeup(), Some(expected));
        host.wakeup(expected);
        assert!(
            frames::poll_transmit(&mut host, expected)
                .is_some_and(|frame| frame.weir.flags.has(Flags::RETRANSMIT))
        );
        assert_eq!(host.stats().timeouts, 1);
    }
}
