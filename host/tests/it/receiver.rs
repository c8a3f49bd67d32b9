//! The receiving half of the transport: ACKs and NACKs, the number of active flows N, and the memory of finished
//! messages.

use crate::variants::scheme;
use std::net::Ipv4Addr;
use weir_host::wire::{Ecn, Flags, FrameRepr, PacketKind};
use weir_host::{DropReason, Host, HostConfig, HostEvent};
use weir_testkit::frames::{deliver, drain, from_peer, host, open, poll_transmit, record, take_frame};
use weir_testkit::net::{BASE_RTT, RATE, addr};
use weir_units::{Bytes, Time};

fn receiver(name: &str, tune: impl FnOnce(&mut HostConfig)) -> Host {
    host(&scheme(name, &[]), tune)
}

fn data(message: u32, seq: u32, flags: Flags) -> FrameRepr {
    let mut repr = from_peer(PacketKind::Data, message, seq);
    repr.weir.flags = flags;
    repr
}

const T0: Time = Time::from_ms(1);

/// The ACK returns the packet's records byte for byte, its timestamp, mark and path id, on the reverse five-tuple.
#[test]
fn acks_echo_the_packet() {
    let mut host = receiver("hpcc", |_| {});
    let mut repr = data(9, 0, Flags::START | Flags::TELEMETRY);
    repr.weir.timestamp = 0xdead_beef;
    repr.weir.path_id = 0xabc;
    repr.ecn = Ecn::Ce;
    let records: Vec<u8> = (0..24).collect();
    deliver(&mut host, T0, &repr, &records);
    let frame = take_frame(&mut host, T0).unwrap();
    assert_eq!(frame.view().records(), &records[..]);
    let ack = FrameRepr::parse(&frame.view());
    assert_eq!((ack.weir.kind, ack.weir.seq, ack.weir.timestamp), (PacketKind::Ack, 1000, 0xdead_beef));
    assert_eq!(ack.weir.flags, Flags::ECN_ECHO);
    assert_eq!((ack.weir.grant, ack.weir.path_id), (0xabc, 0));
    assert_eq!((ack.source, ack.destination, ack.entropy_port), (addr(0), addr(1), repr.entropy_port));
    assert_eq!(ack.ecn, Ecn::NotEct);
    assert_eq!(host.inbound(addr(1), 9).unwrap().path_id, 0xabc);
}

/// FNCC's ACKs and NACKs request telemetry from switches and carry N; HPCC's do neither.
#[test]
fn answers_request_the_telemetry_of_the_scheme() {
    for (name, flags, n) in [("fncc", Flags::TELEMETRY, 1), ("hpcc", Flags::NONE, 0)] {
        let mut host = receiver(name, |_| {});
        for (kind, seq) in [(PacketKind::Ack, 0), (PacketKind::Nack, 2_000)] {
            deliver(&mut host, T0, &data(9, seq, Flags::NONE), &[]);
            let answer = poll_transmit(&mut host, T0).unwrap();
            assert_eq!(
                (answer.weir.kind, answer.weir.flags, answer.weir.concurrency),
                (kind, flags, n),
                "{name}"
            );
        }
    }
}

/// Telemetry on a NACK lowers the rate as on an ACK: a gap means that a queue has overflowed.
#[test]
fn nacks_bring_telemetry() {
    for name in ["fncc", "hpcc", "hpcc++"] {
        let after = |kind: PacketKind| {
            let mut host = receiver(name, |_| {});
            let flow = open(&mut host, T0, 7, 100_000_000);
            let (sent, now) = drain(&mut host, T0);
            let payload = sent[0].payload_len;
            deliver(&mut host, now, &from_peer(PacketKind::Ack, 7, payload), &record(1_000, 0, 300_000));
            deliver(&mut host, now, &from_peer(kind, 7, 2 * payload), &record(13_000, 150_000, 300_000));
            host.flow(flow).unwrap().rate
        };
        assert_eq!(after(PacketKind::Nack), after(PacketKind::Ack), "{name}");
        assert!(after(PacketKind::Nack) < RATE, "{name}: {}", after(PacketKind::Nack));
    }
}

/// The receiver acknowledges every m-th packet, and END and a mark at once.
#[test]
fn acks_are_sent_every_m_packets_and_for_end_and_marks() {
    let mut host = receiver("fncc", |config| config.ack_every = 4);
    let mut seq = 0;
    let mut next = |host: &mut Host, flags: Flags, ecn: Ecn| {
        deliver(host, T0, &FrameRepr { ecn, ..data(9, seq, flags) }, &[]);
        seq += 1000;
        poll_transmit(host, T0).map(|ack| ack.weir.seq)
    };
    for expected in [None, None, None, Some(4000), None] {
        assert_eq!(next(&mut host, Flags::NONE, Ecn::NotEct), expected);
    }
    // The delayed ACK of the unmarked packets is sent first, then the ACK of the marked packet.
    assert_eq!(next(&mut host, Flags::NONE, Ecn::Ce), Some(5000));
    assert_eq!(poll_transmit(&mut host, T0).map(|ack| ack.weir.seq), Some(6000));
    assert_eq!(next(&mut host, Flags::NONE, Ecn::NotEct), None);
    assert_eq!(next(&mut host, Flags::END, Ecn::NotEct), Some(8000));
    // No delayed ACK is left.
    host.wakeup(T0 + Time::from_secs(1));
    assert_eq!(poll_transmit(&mut host, T0 + Time::from_secs(1)), None);
}

#[test]
fn a_delayed_ack_is_sent_after_ack_delay() {
    let delay = Time::from_us(5);
    let mut host = receiver("fncc", |config| {
        config.ack_every = 4;
        config.transport.ack_delay = Some(delay);
    });
    deliver(&mut host, T0, &data(9, 0, Flags::START), &[]);
    deliver(&mut host, T0 + Time::from_us(1), &data(9, 1000, Flags::NONE), &[]);
    assert_eq!(host.next_wakeup(), Some(T0 + delay));
    host.wakeup(T0 + Time::from_us(4));
    assert_eq!(poll_transmit(&mut host, T0 + Time::from_us(4)), None);
    host.wakeup(T0 + delay);
    assert_eq!(poll_transmit(&mut host, T0 + delay).unwrap().weir.seq, 2000);
    assert_eq!(host.next_wakeup(), None);
}

/// One NACK per interval for the same gap; a NACK at once for a new gap; duplicates are acknowledged.
#[test]
fn nacks_are_limited_per_gap() {
    let interval = Time::from_us(500);
    let mut host = receiver("hpcc", |config| config.transport.nack_interval = Some(interval));
    let mut step = |at: Time, seq: u32| {
        deliver(&mut host, at, &data(9, seq, Flags::NONE), &[]);
        poll_transmit(&mut host, at).map(|reply| (reply.weir.kind, reply.weir.seq))
    };
    assert_eq!(step(T0, 0), Some((PacketKind::Ack, 1000)));
    assert_eq!(step(T0, 2000), Some((PacketKind::Nack, 1000)));
    assert_eq!(step(T0, 3000), None);
    assert_eq!(step(T0 + interval - Time::from_ps(1), 4000), None);
    assert_eq!(step(T0 + interval, 5000), Some((PacketKind::Nack, 1000)));
    assert_eq!(step(T0 + interval, 1000), Some((PacketKind::Ack, 2000)));
    assert_eq!(step(T0 + interval, 9000), Some((PacketKind::Nack, 2000)));
    assert_eq!(step(T0 + interval, 0), Some((PacketKind::Ack, 2000)));
    // A packet with old and new bytes: the new ones are accepted.
    assert_eq!(step(T0 + interval, 1500), Some((PacketKind::Ack, 2500)));
    let stats = host.stats();
    assert_eq!((stats.out_of_order, stats.nacks_sent, stats.duplicates), (5, 3, 1));
    assert_eq!(stats.payload_received, 2500);
}

/// N counts flows with a packet within the active window, not connections (docs/algorithms/README.md#active-flows).
#[test]
fn n_counts_active_flows() {
    let window = Time::from_us(100);
    let mut host = receiver("fncc", |config| config.transport.active_window = Some(window));
    let mut n = |at: Time, message: u32, seq: u32, flags: Flags| {
        deliver(&mut host, at, &data(message, seq, flags), &[]);
        poll_transmit(&mut host, at).unwrap().weir.concurrency
    };
    assert_eq!(n(T0, 1, 0, Flags::START), 1);
    assert_eq!(n(T0, 2, 0, Flags::START), 2);
    assert_eq!(n(T0, 3, 0, Flags::START), 3);
    assert_eq!(n(T0 + window, 3, 1000, Flags::NONE), 3);
    // The last packets of 1 and 2 arrived at T0.
    assert_eq!(n(T0 + window + Time::from_ps(1), 3, 2000, Flags::NONE), 1);
    // Message 1 continues.
    assert_eq!(n(T0 + window * 2, 1, 1000, Flags::NONE), 2);
    // The answer to END still counts the flow; then the flow is removed.
    assert_eq!(n(T0 + window * 2, 1, 2000, Flags::END), 2);
    assert_eq!(n(T0 + window * 2, 3, 3000, Flags::NONE), 1);
    // A retransmission of a finished message does not count as a flow; the answer carries the number of others.
    assert_eq!(n(T0 + window * 2, 1, 2000, Flags::END), 1);
    assert_eq!(host.active_inbound(T0 + window * 2), 1);
    assert_eq!(host.active_inbound(T0 + window * 4), 0);
}

/// A flow is (source, message): the same message id of another host is another flow.
#[test]
fn message_ids_belong_to_their_source() {
    let mut host = receiver("fncc", |_| {});
    deliver(&mut host, T0, &data(1, 0, Flags::START), &[]);
    deliver(&mut host, T0, &FrameRepr { source: addr(2), ..data(1, 0, Flags::START) }, &[]);
    assert_eq!(host.active_inbound(T0), 2);
    assert_eq!(host.inbound(addr(2), 1).unwrap().received, Bytes::new(1000));
    assert_eq!(host.inbound(addr(3), 1), None);
}

/// The state of a message is freed at its end. A repeated END is acknowledged, but the message is not received a second
/// time. The number of tombstones is bounded.
#[test]
fn a_bounded_number_of_finished_messages_is_remembered() {
    let mut host = receiver("hpcc", |config| config.transport.tombstones = 2);
    for message in 1..=3 {
        deliver(&mut host, T0, &data(message, 0, Flags::START | Flags::END), &[]);
        assert_eq!(poll_transmit(&mut host, T0).unwrap().weir.seq, 1000);
        assert_eq!(host.inbound(addr(1), message), None);
    }
    deliver(&mut host, T0, &data(3, 0, Flags::START | Flags::END | Flags::RETRANSMIT), &[]);
    assert_eq!(poll_transmit(&mut host, T0).unwrap().weir.seq, 1000);
    let events: Vec<_> = std::iter::from_fn(|| host.poll_event()).collect();
    assert_eq!(events.len(), 3);
    let peer = addr(1);
    assert_eq!(events[2], HostEvent::MessageReceived { peer, message: 3, bytes: Bytes::new(1000), at: T0 });
    // Bytes beyond the end of a finished message.
    deliver(&mut host, T0, &data(3, 1000, Flags::NONE), &[]);
    assert_eq!(host.stats().drops.get(DropReason::BeyondEnd), 1);
    // The first message was forgotten, so its packet starts a new one.
    deliver(&mut host, T0, &data(1, 0, Flags::START | Flags::END), &[]);
    assert!(matches!(host.poll_event(), Some(HostEvent::MessageReceived { message: 1, .. })));
}

/// If the missing bytes of one subflow have arrived on another, the finished message acknowledges all subflows.
#[test]
fn ended_messages_acknowledge_every_subflow() {
    let mut host = receiver("amp", |_| {});
    let on = |subflow: u8, seq: u32, data_from: u32, flags: Flags| {
        let mut repr = data(9, seq, flags);
        (repr.weir.subflow, repr.weir.grant) = (subflow, data_from);
        repr
    };
    // Subflow 1 lacks its first packet, and its bytes arrive on subflow 0.
    deliver(&mut host, T0, &on(1, 1000, 1000, Flags::END), &[]);
    deliver(&mut host, T0, &on(0, 0, 0, Flags::START), &[]);
    let answers: Vec<_> = std::iter::from_fn(|| poll_transmit(&mut host, T0))
        .map(|ack| (ack.weir.subflow, ack.weir.seq))
        .collect();
    assert_eq!(answers, [(1, 0), (0, 1000)]);
    for (subflow, seq, data_from, reached) in [(1, 0, 0, 1000), (1, 1000, 1000, 2000), (2, 0, 1000, 1000)] {
        deliver(&mut host, T0, &on(subflow, seq, data_from, Flags::NONE), &[]);
        let ack = poll_transmit(&mut host, T0).expect("an ACK");
        assert_eq!((ack.weir.subflow, ack.weir.seq), (subflow, reached));
    }
    deliver(&mut host, T0, &on(1, 2000, 2000, Flags::NONE), &[]);
    assert_eq!((poll_transmit(&mut host, T0), host.stats().drops.get(DropReason::BeyondEnd)), (None, 1));
}

/// With two messages of proven senders (a packet later than a round trip after the first) the table is full: a new
/// message evicts an idle one, and is refused if none is idle.
#[test]
fn inbound_flows_are_bounded() {
    let window = Time::from_us(100);
    let mut host = receiver("fncc", |config| {
        config.transport.max_inbound = 2;
        config.transport.active_window = Some(window);
    });
    deliver(&mut host, T0 - BASE_RTT, &data(1, 0, Flags::START), &[]);
    deliver(&mut host, T0, &data(1, 1000, Flags::NONE), &[]);
    deliver(&mut host, T0 + window - BASE_RTT, &data(2, 0, Flags::START), &[]);
    deliver(&mut host, T0 + window, &data(2, 1000, Flags::NONE), &[]);
    deliver(&mut host, T0 + window, &data(3, 0, Flags::START), &[]);
    assert_eq!(host.stats().drops.get(DropReason::ReceiverFull), 1);
    assert_eq!(host.inbound(addr(1), 3), None);
    deliver(&mut host, T0 + window * 2, &data(3, 0, Flags::START), &[]);
    assert_eq!((host.inbound(addr(1), 1), host.stats().inbound_evicted), (None, 1));
    assert!(host.inbound(addr(1), 2).is_some() && host.inbound(addr(1), 3).is_some());
}

/// Forged sources send one packet per message, because they see no answer. Their messages evict each other, not the
/// message of a sender that is silent for a while.
#[test]
fn made_up_sources_evict_each_other() {
    let mut host = receiver("fncc", |config| config.transport.max_inbound = 100);
    deliver(&mut host, T0, &data(1, 0, Flags::START), &[]);
    deliver(&mut host, T0 + BASE_RTT, &data(1, 1000, Flags::NONE), &[]);
    for n in 0..1_000u32 {
        let source = Ipv4Addr::from_bits(0x0a01_0000 + n);
        // All within the active window.
        let at = T0 + Time::from_us(200) + Time::from_us(n.into());
        deliver(&mut host, at, &FrameRepr { source, ..data(n, 0, Flags::START) }, &[]);
    }
    assert_eq!(host.stats().inbound_evicted, 901);
    assert_eq!(host.inbound(addr(1), 1).map(|it| it.received), Some(Bytes::new(2000)));
}

/// Control frames are sent before DATA; if their class is paused, only they wait.
#[test]
fn control_frames_go_first_and_keep_to_their_class() {
    let mut host = receiver("hpcc", |config| {
        config.control_class = 6;
        config.transport.control_queue = 2;
    });
    weir_testkit::frames::open(&mut host, T0, 1, 10_000);
    for seq in 0..3 {
        deliver(&mut host, T0, &data(9, seq * 1000, Flags::NONE), &[]);
    }
    assert_eq!(host.stats().drops.get(DropReason::ControlQueueFull), 1);
    let mut head = [0; weir_host::wire::MAX_HEADER_LEN];
    let mut classes = |paused| match host.transmit(T0, paused, &mut head) {
        weir_host::Transmit::Frame { class, flow, .. } => Some((class, flow.is_some())),
        weir_host::Transmit::Policy { .. } | weir_host::Transmit::Nothing => None,
    };
    assert_eq!(classes(0b0100_0001), None);
    assert_eq!(classes(0b0000_0001), Some((6, false)));
    assert_eq!(classes(0b0100_0000), Some((0, true)));
    assert_eq!(classes(0), Some((6, false)));
}
