//! ExpressPass at single hosts: senders send one packet per credit, and the receiver's control law gives the numbers
//! computed by hand.

use crate::variants::scheme;
use weir_host::DropReason;
use weir_host::port_algorithm::PortAlgorithm;
use weir_host::scheme::{Credit, DataEvent, Receiver};
use weir_host::telemetry::{Telemetry, TelemetryCounters};
use weir_host::wire::{Flags, FrameRepr, PacketKind};
use weir_testkit::frames::{deliver, drain, from_peer, host, open, poll_transmit};
use weir_testkit::net::{RATE, addr};
use weir_testkit::sender_harness::params;
use weir_units::{Bytes, Time};

const T: Time = Time::from_us(12);

/// The sender sends one DATA packet per credit, with the credit's number. Duplicate and late credits are ignored.
#[test]
fn a_packet_per_credit() {
    let mut host = host(&scheme("expresspass", &[]), |_| {});
    open(&mut host, Time::ZERO, 7, 1_000_000);
    let request = poll_transmit(&mut host, Time::ZERO).expect("a request for credits");
    assert_eq!((request.weir.kind, request.weir.message, request.payload_len), (PacketKind::Probe, 7, 0));
    assert!(poll_transmit(&mut host, Time::from_us(50)).is_none(), "no packet without a credit");
    let mut now = Time::from_us(60);
    for (number, answered) in [
        (5, true),
        (5, false),
        (4, false),
        (6, true),
        (900, true),
        (899, false),
        (1 << 30, true),
        (901, true),
    ] {
        now += Time::from_us(1);
        deliver(&mut host, now, &from_peer(PacketKind::ProbeReply, 7, number), &[]);
        let data = poll_transmit(&mut host, now);
        assert_eq!(
            data.map(|data| (data.weir.kind, data.weir.grant)),
            answered.then_some((PacketKind::Data, number))
        );
    }
    let stats = host.stats();
    assert_eq!((stats.data_sent, stats.probe_replies_received, stats.stale_feedback), (5, 5, 3));
}

/// Credits from another host are refused, those of an unknown message are stale, and a flood of credits releases a
/// bounded number of packets.
#[test]
fn forged_credits_do_little() {
    let mut host = host(&scheme("expresspass", &[]), |_| {});
    open(&mut host, Time::ZERO, 7, 1_000_000);
    drain(&mut host, Time::ZERO);
    deliver(
        &mut host,
        Time::ZERO,
        &FrameRepr { source: addr(5), ..from_peer(PacketKind::ProbeReply, 7, 1) },
        &[],
    );
    assert_eq!(host.stats().drops.get(DropReason::WrongPeer), 1);
    deliver(&mut host, Time::ZERO, &from_peer(PacketKind::ProbeReply, 8, 1), &[]);
    assert_eq!(host.stats().stale_feedback, 1);
    for number in 1..=1_000 {
        deliver(&mut host, Time::ZERO, &from_peer(PacketKind::ProbeReply, 7, number), &[]);
    }
    let (sent, _) = drain(&mut host, Time::ZERO);
    assert_eq!(sent.len(), 64);
}

/// The request or all credits may be lost: the sender requests credits again after a timeout.
#[test]
fn silence_leads_to_another_request() {
    let mut host = host(&scheme("expresspass", &[]), |_| {});
    open(&mut host, Time::ZERO, 7, 3_000);
    drain(&mut host, Time::ZERO);
    for round in 0..3 {
        let due = host.next_wakeup().expect("a timeout");
        host.wakeup(due);
        let again = poll_transmit(&mut host, due).unwrap_or_else(|| panic!("round {round}"));
        assert_eq!(again.weir.kind, PacketKind::Probe);
    }
}

/// The receiver paces credits from the request until the end of the message. A sender that missed the ACK of the end
/// and requests credits again gets the ACK once more.
#[test]
fn the_receiver_credits_until_the_end() {
    let mut host = host(&scheme("expresspass", &[]), |_| {});
    deliver(&mut host, Time::ZERO, &from_peer(PacketKind::Probe, 1, 0), &[]);
    let mut now = Time::ZERO;
    let mut numbers = Vec::new();
    while now < Time::from_us(20) {
        while let Some(frame) = poll_transmit(&mut host, now) {
            assert_eq!((frame.weir.kind, frame.weir.message), (PacketKind::ProbeReply, 1));
            numbers.push(frame.weir.seq);
        }
        now = host.next_wakeup().expect("the next credit");
        host.wakeup(now);
    }
    // Half of the maximum rate, which is one credit in 132 ns.
    assert!((70..=82).contains(&numbers.len()), "{}", numbers.len());
    assert!(numbers.is_sorted_by(|a, b| a < b));
    let mut last = from_peer(PacketKind::Data, 1, 0);
    last.weir.flags = Flags::START | Flags::END;
    deliver(&mut host, now, &last, &[]);
    drain(&mut host, now);
    assert_eq!(host.next_wakeup(), None, "no more credits");
    deliver(&mut host, now, &from_peer(PacketKind::Probe, 1, 0), &[]);
    let answer = poll_transmit(&mut host, now).expect("an answer");
    assert_eq!((answer.weir.kind, answer.weir.seq), (PacketKind::Ack, 1000));
}

struct ReceiverHarness {
    receiver: Box<dyn Receiver>,
    now: Time,
}

impl ReceiverHarness {
    fn new(receiver: Box<dyn Receiver>) -> ReceiverHarness {
        ReceiverHarness { receiver, now: Time::from_ms(1) }
    }

    /// Returns the gap to the next credit, relative to the minimum gap, and the number of this credit.
    fn credit(&mut self, is_first: bool) -> (f64, Option<u32>) {
        let Credit { number, next_at } =
            self.receiver.credit(self.now, 0, is_first).expect("the scheme uses credits");
        let Some(PortAlgorithm::Credits(limit)) = scheme("expresspass", &[]).port_algorithm(T) else {
            panic!("expresspass limits credits at ports")
        };
        ((next_at - self.now).as_secs_f64() / limit.interval(RATE).as_secs_f64(), number)
    }

    /// Delivers a DATA packet that echoes this credit number.
    fn data(&mut self, credit: u32) {
        let data = DataEvent {
            now: self.now,
            source: addr(1),
            payload: Bytes::new(1000),
            frame: Bytes::new(1066),
            is_marked: false,
            slot: Some(0),
            is_first: false,
            completes_message: false,
            active_flows: 1,
            announced: &[],
            incast: 0,
            credit,
            path_id: 0,
            telemetry: &Telemetry::EMPTY,
        };
        self.receiver.on_data(&data, &mut TelemetryCounters::default());
    }
}

/// `xpass.cc`: without loss the rate moves towards the maximum by the fraction w of the difference; with loss it falls
/// to the rate of arrivals, and w is halved.
#[test]
fn rate_follows_credit_loss() {
    let config = scheme("expresspass", &[("jitter", "0")]);
    let mut harness = ReceiverHarness::new(config.receiver(&params(RATE, T)));
    let assert_rate = |(gap, _): (f64, Option<u32>), rate: f64| {
        assert!((gap * rate - 1.0).abs() < 1e-3, "{gap}, not 1/{rate}")
    };
    assert_rate(harness.credit(true), 0.5);
    for _ in 0..200 {
        harness.now += Time::from_us(1);
        harness.credit(false);
    }
    harness.data(1);
    assert_rate(harness.credit(false), 0.5 + 0.5 * 0.5);
    // At most one update per round trip, also under loss.
    harness.now += Time::from_us(6);
    harness.data(3);
    assert_rate(harness.credit(false), 0.75);
    // Of the 4 credits 2 to 5, only 2 brought data within 12 us.
    harness.now += Time::from_us(6);
    for number in [5, 9, 11] {
        harness.data(number);
    }
    let goodput = 2.0 * 0.132 / 12.0;
    let min = 0.132 / 12.0;
    let first = f64::max(goodput * (1.0 + 0.25 * 0.125), min);
    assert_rate(harness.credit(false), first);
    // Of the next 7 credits 4 were lost. The rate of arrivals is higher than before, but loss never raises the rate.
    harness.now += Time::from_us(12);
    harness.data(12);
    assert_rate(harness.credit(false), first);
    // No loss: the rate moves by an eighth of the difference, because w was halved twice.
    harness.now += Time::from_us(12);
    harness.data(13);
    let second = 0.125 + 0.875 * first;
    assert_rate(harness.credit(false), second);
    // Old numbers and numbers that were never sent have no effect.
    harness.now += Time::from_us(12);
    harness.data(11);
    harness.data(1_000_000);
    assert_rate(harness.credit(false), second);
}

/// The host limits credits at its own link as a switch does: a burst of eight, then one per interval.
#[test]
fn credits_are_limited_at_the_hosts_own_link() {
    let config = scheme("expresspass", &[]);
    let mut harness = ReceiverHarness::new(config.receiver(&params(RATE, T)));
    let sent = (0..100).filter(|n| harness.credit(*n == 0).1.is_some()).count();
    assert_eq!(sent, 8);
    harness.now += Time::from_ns(132 * 3);
    let sent = (0..100).filter(|_| harness.credit(false).1.is_some()).count();
    assert_eq!(sent, 3);
}
