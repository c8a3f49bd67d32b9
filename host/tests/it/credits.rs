//! ExpressPass at single hosts: no credit, no packet; and the receiver's law against hand-made numbers.

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

/// One packet for each credit, which says whose it is. A credit that comes twice, or late, is worth nothing.
#[test]
fn a_packet_per_credit() {
    let mut host = host(&scheme("expresspass", &[]), |_| {});
    open(&mut host, Time::ZERO, 7, 1_000_000);
    let request = poll_transmit(&mut host, Time::ZERO).expect("it asks");
    assert_eq!((request.weir.kind, request.weir.message, request.payload_len), (PacketKind::Probe, 7, 0));
    assert!(poll_transmit(&mut host, Time::from_us(50)).is_none(), "and waits");
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

/// Credits of others are refused, those of a message that is over are old; what a flood of them brings is bounded.
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

/// A request, or all credits, may be lost: it asks again after a timeout.
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

/// The receiver paces credits from the request until the end of the message; who did not hear of the end and asks is told.
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
    // Half of one in 132 ns.
    assert!((70..=82).contains(&numbers.len()), "{}", numbers.len());
    assert!(numbers.is_sorted_by(|a, b| a < b));
    let mut last = from_peer(PacketKind::Data, 1, 0);
    last.weir.flags = Flags::START | Flags::END;
    deliver(&mut host, now, &last, &[]);
    drain(&mut host, now);
    assert_eq!(host.next_wakeup(), None, "no more credits");
    deliver(&mut host, now, &from_peer(PacketKind::Probe, 1, 0), &[]);
    let told = poll_transmit(&mut host, now).expect("an answer");
    assert_eq!((told.weir.kind, told.weir.seq), (PacketKind::Ack, 1000));
}

struct Fed(Box<dyn Receiver>, Time);

impl Fed {
    /// The gap to the next credit, over the least, and its number.
    fn credit(&mut self, begins: bool) -> (f64, Option<u32>) {
        let Credit { number, next } = self.0.credit(self.1, 0, begins).expect("there are credits");
        let Some(PortAlgorithm::Credits(law)) = scheme("expresspass", &[]).port_algorithm(T) else {
            panic!("credits' law")
        };
        ((next - self.1).as_secs_f64() / law.interval(RATE).as_secs_f64(), number)
    }
    fn data(&mut self, credit: u32) {
        let data = DataEvent {
            now: self.1,
            source: addr(1),
            payload: Bytes::new(1000),
            frame: Bytes::new(1066),
            marked: false,
            slot: Some(0),
            first: false,
            last: false,
            active_flows: 1,
            announced: &[],
            incast: 0,
            credit,
            path_id: 0,
            telemetry: &Telemetry::EMPTY,
        };
        self.0.on_data(&data, &mut TelemetryCounters::default());
    }
}

/// `xpass.cc`: without loss the rate moves towards the maximum by the fraction w of the difference; with loss it is the
/// rate of arrivals, and w is halved.
#[test]
fn the_feedback_law() {
    let config = scheme("expresspass", &[("jitter", "0")]);
    let mut fed = Fed(config.receiver(&params(RATE, T)), Time::from_ms(1));
    let near = |(gap, _): (f64, Option<u32>), rate: f64| {
        assert!((gap * rate - 1.0).abs() < 1e-3, "{gap}, not 1/{rate}")
    };
    near(fed.credit(true), 0.5);
    for _ in 0..200 {
        fed.1 += Time::from_us(1);
        fed.credit(false);
    }
    fed.data(1);
    near(fed.credit(false), 0.5 + 0.5 * 0.5);
    // Within a round trip nothing changes, whatever is lost.
    fed.1 += Time::from_us(6);
    fed.data(3);
    near(fed.credit(false), 0.75);
    // Then: of the 4 up to number 5, 2 came in 12 us.
    fed.1 += Time::from_us(6);
    for number in [5, 9, 11] {
        fed.data(number);
    }
    let came = 2.0 * 0.132 / 12.0;
    let min = 0.132 / 12.0;
    let first = f64::max(came * (1.0 + 0.25 * 0.125), min);
    near(fed.credit(false), first);
    // Of the next 7 again 4 were lost; what came would be more, but loss never raises a rate.
    fed.1 += Time::from_us(12);
    fed.data(12);
    near(fed.credit(false), first);
    // None lost: an eighth of the difference, since w was halved twice.
    fed.1 += Time::from_us(12);
    fed.data(13);
    let second = 0.125 + 0.875 * first;
    near(fed.credit(false), second);
    // Old numbers and numbers that were never sent are not heard.
    fed.1 += Time::from_us(12);
    fed.data(11);
    fed.data(1_000_000);
    near(fed.credit(false), second);
}

/// Without jitter or loss a host's own link is not oversold: beyond eight at once every credit waits for its turn.
#[test]
fn the_hosts_own_port_is_shaped() {
    let config = scheme("expresspass", &[]);
    let mut fed = Fed(config.receiver(&params(RATE, T)), Time::from_ms(1));
    let sent = (0..100).filter(|n| fed.credit(*n == 0).1.is_some()).count();
    assert_eq!(sent, 8);
    fed.1 += Time::from_ns(132 * 3);
    let sent = (0..100).filter(|_| fed.credit(false).1.is_some()).count();
    assert_eq!(sent, 3);
}
