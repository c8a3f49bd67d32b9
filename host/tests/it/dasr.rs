//! DASR: which senders are counted, how fast shares follow, and the three congestion states (Dart §III,
//! docs/algorithms/dart.md#dasr).

use crate::variants::scheme;
use std::net::Ipv4Addr;
use weir_host::wire::{Ecn, Flags, FrameRepr, PacketKind, max_announced_under_any_scheme};
use weir_host::{Announcement, DropReason, Host, HostConfig};
use weir_testkit::frames::{deliver, from_peer, host, poll_transmit};
use weir_testkit::net::{BASE_RTT, Frame, LINK_DELAY, RATE, TestNetwork, addr};
use weir_units::{Bandwidth, Bytes, Time};

fn us(us: u64) -> Time {
    Time::from_us(us)
}

fn receiver() -> Host {
    host(&scheme("dasr", &[]), |_: &mut HostConfig| {})
}

fn data(from: usize, message: u32, seq: u32, flags: Flags) -> FrameRepr {
    let mut repr = FrameRepr { source: addr(from), ..from_peer(PacketKind::Data, message, seq) };
    repr.weir.flags = flags;
    repr
}

/// Returns the content of the receiver's answer: n, whether it echoes the mark, and the number of CNPs.
fn answer(host: &mut Host, now: Time, repr: &FrameRepr) -> (u16, bool, usize) {
    deliver(host, now, repr, &[]);
    let (mut n, mut echo, mut cnps) = (0, false, 0);
    while let Some(frame) = poll_transmit(host, now) {
        match frame.weir.kind {
            PacketKind::Cnp => cnps += 1,
            _ => (n, echo) = (frame.weir.concurrency, frame.weir.flags.has(Flags::ECN_ECHO)),
        }
    }
    (n, echo, cnps)
}

fn n(host: &mut Host, now: Time, repr: &FrameRepr) -> u16 {
    answer(host, now, repr).0
}

/// §III-B: senders are counted, not messages. The last packet of its last message removes a sender.
#[test]
fn senders_are_counted_once() {
    let (mut host, t) = (receiver(), Time::from_ms(1));
    let none = Flags::NONE;
    assert_eq!(n(&mut host, t, &data(1, 1, 0, Flags::START)), 1);
    assert_eq!(n(&mut host, t, &data(2, 1, 0, Flags::START)), 2);
    assert_eq!(n(&mut host, t, &data(1, 2, 0, Flags::START)), 2, "two messages of one sender share its NIC");
    assert_eq!(
        n(&mut host, t, &data(1, 1, 1000, Flags::END)),
        2,
        "another message of this sender is unfinished"
    );
    assert_eq!(n(&mut host, t, &data(1, 2, 5000, Flags::END)), 2, "an END behind a gap ends nothing");
    assert_eq!(n(&mut host, t, &data(1, 2, 1000, Flags::END)), 1);
    assert_eq!(n(&mut host, t, &data(1, 2, 1000, Flags::END)), 1, "repeated: it is not counted again");
    // A message of one packet comes and goes.
    assert_eq!(n(&mut host, t, &data(3, 1, 0, Flags::START | Flags::END)), 1);
    assert_eq!(n(&mut host, t, &data(2, 1, 1000, none)), 1);
}

/// §III-B: a sender that stops is removed after the soft-state time, at the next of eight sweeps per soft-state time. A
/// sender that was only silent is counted again. A newcomer is told how many there are: for senders that stay, an unused
/// link means n = 1.
#[test]
fn silent_senders_are_removed_after_the_soft_state_time() {
    let mut host = receiver();
    let t = Time::from_secs(10);
    n(&mut host, t, &data(1, 1, 0, Flags::START));
    assert_eq!(n(&mut host, t, &data(2, 1, 0, Flags::START)), 2);
    let mut seq = 0;
    let mut left = None;
    for step in 1..=300 {
        let now = t + Time::from_ms(step * 10);
        seq += 1000;
        n(&mut host, now, &data(2, 1, seq, Flags::NONE));
        let all = n(&mut host, now, &data(3, step as u32, 0, Flags::START));
        n(&mut host, now, &data(3, step as u32, 1000, Flags::END));
        if all == 2 && left.is_none() {
            left = Some(now - t);
        }
    }
    let left = left.expect("the silent sender is removed");
    assert!(left > Time::from_secs(2) && left <= Time::from_ms(2_260), "{left}");
    assert_eq!(n(&mut host, t + Time::from_secs(4), &data(1, 1, 1000, Flags::NONE)), 2);
}

/// The number of counted senders is bounded, so forged ones have a limited effect.
#[test]
fn at_most_1024_senders_are_counted() {
    let (mut host, t) = (receiver(), Time::from_ms(1));
    let mut max = 0;
    for sender in 0..3_000u32 {
        let repr = FrameRepr { source: (0x0b00_0000 + sender).into(), ..data(1, sender, 0, Flags::START) };
        max = max.max(n(&mut host, t, &repr));
    }
    assert_eq!(max, 1_024);
}

/// A receiver and a sender of one long message.
struct Feed {
    host: Host,
    now: Time,
    seq: u32,
}

impl Feed {
    /// Delivers packets at a share of line rate for `windows` round trips. Returns n and the ECN echo of the last
    /// answer, and the number of CNPs.
    fn run(&mut self, share: f64, ecn: Ecn, windows: u64) -> (u16, bool, usize) {
        let until = self.now + BASE_RTT * windows;
        let mut last = (0, false, 0);
        let mut cnps = 0;
        while self.now < until {
            // Frames have 1,066 bytes.
            let gap = RATE.tx_time(Bytes::new(1_066)).as_ps() as f64 / share;
            self.now += Time::from_ps(gap as u64);
            let mut repr = data(1, 1, self.seq, Flags::NONE);
            repr.ecn = ecn;
            self.seq += 1_000;
            last = answer(&mut self.host, self.now, &repr);
            cnps += last.2;
        }
        (last.0, last.1, cnps)
    }
}

/// §III-C, Figure 5: each transition, with n, the ECN echo and the number of CNPs. And the state of a link that the
/// shares do not fill, which lasts until a mark or until the senders change.
#[test]
fn the_states_of_the_receiver() {
    let mut host = receiver();
    let t = Time::from_ms(1);
    n(&mut host, t, &data(2, 1, 0, Flags::START));
    n(&mut host, t, &data(3, 1, 0, Flags::START));
    let mut feed = Feed { host, now: t, seq: 0 };
    let (plain, marked) = (Ecn::Ect0, Ecn::Ce);
    let (none, underused, receiver, non_receiver) =
        ((3, false, 0), (1, false, 0), (4, false, 0), |cnps| (1, true, cnps));
    assert_eq!(feed.run(1.0, plain, 4), none);
    assert_eq!(feed.run(0.5, plain, 4), underused);
    assert_eq!(feed.run(1.0, plain, 4), underused);
    assert_eq!(n(&mut feed.host, feed.now, &data(4, 1, 0, Flags::START)), 4, "a sender comes");
    n(&mut feed.host, feed.now, &data(4, 1, 1000, Flags::END));
    assert_eq!(feed.run(1.0, plain, 2), none);
    // Marks below line rate: congestion in the network. Four round trips take 26 us, so there is one CNP.
    assert_eq!(feed.run(0.5, marked, 4), non_receiver(1));
    // Marks at line rate: congestion at the receiver within two windows. No CNP is due yet.
    assert_eq!(feed.run(1.0, marked, 3), receiver);
    // Just below line rate the state stays (hysteresis), further below it changes.
    assert_eq!(feed.run(0.92, marked, 3), receiver);
    assert_eq!(feed.run(0.85, marked, 12), non_receiver(2));
    // The marks end.
    assert_eq!(feed.run(0.85, plain, 2), underused);
    // At line rate straight to the receiver's state.
    assert_eq!(feed.run(1.0, plain, 3), underused);
    assert_eq!(feed.run(1.0, marked, 3), receiver);
    assert_eq!(feed.run(1.0, plain, 2), none);
    // Just below line rate, coming from a lower rate, does not count as line rate.
    feed.run(0.5, plain, 3);
    assert_eq!(feed.run(0.92, marked, 2).0, 1);
}

/// With `drain` the receiver counts one sender too many in the state Receiver Congestion, and only then.
#[test]
fn a_queue_at_the_receiver_is_drained() {
    for (drain, n_of_marked) in [("on", 3), ("off", 2)] {
        let mut host = host(&scheme("dasr", &[("drain", drain)]), |_| {});
        let t = Time::from_ms(1);
        n(&mut host, t, &data(2, 1, 0, Flags::START));
        let mut feed = Feed { host, now: t, seq: 0 };
        assert_eq!(feed.run(1.0, Ecn::Ect0, 3), (2, false, 0));
        assert_eq!(feed.run(1.0, Ecn::Ce, 3), (n_of_marked, false, 0));
        assert_eq!(feed.run(1.0, Ecn::Ect0, 2), (2, false, 0));
        assert_eq!(feed.run(0.5, Ecn::Ce, 4).0, 1);
    }
}

/// Dart Fig. 15 and Fig. 9: when a second sender starts, both send at exactly half of line rate within one round trip
/// of its first packet's arrival; when it ends, the first one returns to line rate.
#[test]
fn one_round_trip_to_the_fair_share() {
    let mut net = TestNetwork::star(3, &scheme("dasr", &[]));
    let first = net.open(0, 2, None);
    net.run_until(us(300));
    assert_eq!(net.flow(0, first).rate, RATE);
    let second = net.open(1, 2, None);
    // Its first packet reaches the receiver half a round trip later, behind the packets queued there.
    net.run_until(us(300) + BASE_RTT / 2);
    assert_eq!(net.flow(0, first).rate, RATE);
    net.run_until(us(300) + BASE_RTT + LINK_DELAY);
    for (host, flow) in [(0, first), (1, second)] {
        assert_eq!(net.flow(host, flow).rate, RATE / 2);
    }
    net.stop(1, second);
    net.run_until(net.now + BASE_RTT * 2);
    assert_eq!(net.flow(0, first).rate, RATE);
}

/// The sender uses the smaller of the granted share and DCQCN's rate.
#[test]
fn the_smaller_of_share_and_dcqcn_holds() {
    let mut host = host(&scheme("dasr", &[]), |_| {});
    let flow = weir_testkit::frames::open(&mut host, Time::ZERO, 7, 10_000_000);
    let (_, now) = weir_testkit::frames::drain(&mut host, Time::ZERO);
    let mut ack = from_peer(PacketKind::Ack, 7, 1000);
    let kbps = |rate: Bandwidth| (rate.as_bps() / 1_000) as u32;
    (ack.weir.concurrency, ack.weir.grant) = (4, kbps(RATE / 4));
    deliver(&mut host, now, &ack, &[]);
    assert_eq!(host.flow(flow).unwrap().rate, RATE / 4);
    deliver(&mut host, now, &from_peer(PacketKind::Cnp, 7, 0), &[]);
    assert_eq!(host.flow(flow).unwrap().rate, RATE / 4, "DCQCN's rate is half of line rate");
    (ack.weir.concurrency, ack.weir.grant) = (1, kbps(RATE));
    deliver(&mut host, now, &ack, &[]);
    assert_eq!(host.flow(flow).unwrap().rate, RATE / 2);
    // A share above line rate, and the fields of a receiver with another scheme, do not limit the rate.
    for (concurrency, grant) in [(1, kbps(RATE * 4)), (0, 0x123), (0, 0), (2, 0)] {
        (ack.weir.concurrency, ack.weir.grant) = (concurrency, grant);
        deliver(&mut host, now, &ack, &[]);
        assert_eq!(host.flow(flow).unwrap().rate, RATE / 2, "n {concurrency}, grant {grant}");
    }
}

/// The receiver's line rate is divided, independent of the senders' line rates. The concurrency field carries n, the
/// grant field the share.
#[test]
fn the_share_is_of_the_receivers_line() {
    for (rate, shares) in
        [(RATE, [100_000_000, 50_000_000, 33_333_333]), (RATE / 4, [25_000_000, 12_500_000, 8_333_333])]
    {
        let mut host = host(&scheme("dasr", &[]), |config: &mut HostConfig| config.nic_rate = rate);
        for (sender, share) in (1..).zip(shares) {
            deliver(&mut host, us(1), &data(sender, 1, 0, Flags::START), &[]);
            let ack = poll_transmit(&mut host, us(1)).unwrap().weir;
            assert_eq!((ack.concurrency, ack.grant), (sender as u16, share), "{rate}");
        }
    }
}

/// §III-D: the first message of an incast announces all senders. The next ACK of the long flow reports them, before
/// their packets arrive. They are counted once, and removed as usual.
#[test]
fn announced_senders_count_at_once() {
    for (look_ahead, expected) in [("on", [4, 4, 4, 3]), ("off", [2, 2, 3, 2])] {
        let mut host = host(&scheme("dasr", &[("look_ahead", look_ahead)]), |_| {});
        let t = Time::from_ms(1);
        n(&mut host, t, &data(9, 1, 0, Flags::START));
        // addr(1) announces itself and two others at the beginning of the payload.
        let start = data(1, 1, 0, Flags::START);
        let frame = announcement(start, 0, &[addr(1), addr(2), addr(3)]);
        host.receive(t, &frame.head, frame.payload);
        let mut seen = vec![poll_transmit(&mut host, t).unwrap().weir.concurrency];
        // The same packet again: nothing is counted twice.
        host.receive(t, &frame.head, frame.payload);
        assert_eq!(poll_transmit(&mut host, t).unwrap().weir.concurrency, seen[0]);
        seen.push(n(&mut host, t, &data(9, 1, 1000, Flags::NONE)));
        seen.push(n(&mut host, t, &data(2, 1, 0, Flags::START)));
        seen.push(n(&mut host, t, &data(2, 1, 1000, Flags::END)));
        assert_eq!(seen, expected, "look_ahead {look_ahead}");
    }
}

/// Returns a DATA packet whose payload begins with an announcement of these senders of an incast.
fn announcement(mut packet: FrameRepr, incast: u32, senders: &[Ipv4Addr]) -> Frame {
    packet.weir.flags |= Flags::LOOKAHEAD;
    let mut frame = weir_testkit::net::rebuild(&packet, &[]);
    let mut list = (senders.len() as u16).to_be_bytes().to_vec();
    list.extend(incast.to_be_bytes());
    list.extend(senders.iter().flat_map(|&sender| (u32::from(sender) as u16).to_be_bytes()));
    frame.head.extend_from_slice(&list);
    frame.payload -= list.len() as u32;
    frame
}

/// Delivers the first packet of a message of host `from` that announces these hosts without an incast number. Returns n
/// of the answer.
fn announce(host: &mut Host, now: Time, from: Ipv4Addr, listed: &[Ipv4Addr]) -> u16 {
    let start = FrameRepr { source: from, ..data(1, 1, 0, Flags::START) };
    n_of(host, now, &announcement(start, 0, listed))
}

/// Delivers a frame and returns n of the answer.
fn n_of(host: &mut Host, now: Time, frame: &Frame) -> u16 {
    host.receive(now, &frame.head, frame.payload);
    poll_transmit(host, now).unwrap().weir.concurrency
}

/// Each message of an incast announces all senders. Only the first announcement counts: a late one neither adds a
/// sender that has finished nor extends the time of one that never starts. The announcement of another incast counts
/// again.
#[test]
fn a_late_announcement_of_an_incast_adds_no_finished_sender() {
    let all = [addr(1), addr(2), addr(3)];
    for (incast, late, other) in [(7, 3, 4), (0, 4, 4)] {
        let (mut host, t) = (receiver(), Time::from_ms(1));
        n(&mut host, t, &data(9, 1, 0, Flags::START));
        // The second sender starts first, and its message of one packet is complete.
        let only = data(2, 1, 0, Flags::START | Flags::END);
        assert_eq!(n_of(&mut host, t, &announcement(only, incast, &all)), 3);
        let start = announcement(data(1, 1, 0, Flags::START), incast, &all);
        assert_eq!(n_of(&mut host, t + us(50), &start), late, "incast {incast}");
        assert_eq!(
            n(&mut host, t + us(251), &data(9, 1, 1000, Flags::NONE)),
            2,
            "the third sender never starts"
        );
        let next = announcement(data(1, 2, 0, Flags::START), 8, &all);
        assert_eq!(n_of(&mut host, t + us(252), &next), other, "the next incast, after {incast}");
    }
}

/// An announcement that does not fit into one packet takes several. Each part counts once, when its packet is accepted
/// in order.
#[test]
fn a_long_announcement_takes_several_packets() {
    let all: Vec<_> = (1..=40).map(|host| Ipv4Addr::new(10, 0, 9, host)).collect();
    let (mut host, t) = (receiver(), Time::from_ms(1));
    let from = |seq, flags| FrameRepr { source: all[0], ..data(1, 1, seq, flags) };
    assert_eq!(n_of(&mut host, t, &announcement(from(0, Flags::START), 1, &all[..29])), 29);
    let second = announcement(from(1000, Flags::NONE), 1, &all[29..]);
    assert_eq!(n_of(&mut host, t, &second), 40);
    assert_eq!(n_of(&mut host, t, &second), 40, "again");
    let ahead = announcement(from(5000, Flags::NONE), 2, &[addr(1)]);
    host.receive(t, &ahead.head, ahead.payload);
    assert_eq!(
        poll_transmit(&mut host, t).unwrap().weir.kind,
        PacketKind::Nack,
        "the packet is out of order"
    );
    assert_eq!(n(&mut host, t, &from(2000, Flags::NONE)), 40);
}

/// docs/algorithms/dart.md#tenants: an announcement may name senders of its own tenant only and counts for this tenant
/// only; active senders count for all tenants. With 24 bits a tenant is a /24 network.
#[test]
fn an_announcement_counts_for_its_tenant_only() {
    let at = |tenant, host| Ipv4Addr::new(10, 0, tenant, host);
    let from = |source, message, seq, flags| FrameRepr { source, ..data(1, message, seq, flags) };
    for (bits, [one, other]) in [("24", [4, 2]), ("16", [5, 5])] {
        let mut host = host(&scheme("dasr", &[("tenant_bits", bits)]), |_| {});
        let t = Time::from_ms(1);
        assert_eq!(n(&mut host, t, &from(at(2, 1), 1, 0, Flags::START)), 1);
        // Three senders of its own tenant, including itself, and one of another tenant.
        let listed = [at(1, 1), at(1, 2), at(1, 3), at(2, 9)];
        assert_eq!(announce(&mut host, t, at(1, 1), &listed), one, "{bits} bits");
        assert_eq!(n(&mut host, t, &from(at(2, 1), 1, 1000, Flags::NONE)), other, "{bits} bits");
        // An announced sender starts and counts for all tenants from then on; another one never starts.
        n(&mut host, t, &from(at(1, 2), 1, 0, Flags::START));
        assert_eq!(n(&mut host, t, &from(at(2, 1), 1, 2000, Flags::NONE)), if bits == "24" { 3 } else { 5 });
        assert_eq!(n(&mut host, t, &from(at(1, 1), 1, 1000, Flags::NONE)), one);
        // All senders end, except a silent one, which is removed after the soft-state time.
        n(&mut host, t, &from(at(1, 2), 1, 1000, Flags::END));
        assert_eq!(n(&mut host, t, &from(at(1, 1), 1, 2000, Flags::NONE)), one - 1);
        let later = t + Time::from_ms(2_300);
        assert_eq!(n(&mut host, later, &from(at(1, 1), 1, 3000, Flags::NONE)), 1);
        assert_eq!(n(&mut host, later, &from(at(1, 1), 1, 4000, Flags::END)), 1);
        assert_eq!(n(&mut host, later, &from(at(2, 1), 1, 3000, Flags::NONE)), 1);
    }
}

/// If an announcement names a sender that has finished or never starts, it is forgotten after `announced_for`. A sender
/// that starts later counts like any other.
#[test]
fn an_announced_sender_that_does_not_start_is_forgotten() {
    let (mut host, t) = (receiver(), Time::from_ms(1));
    n(&mut host, t, &data(9, 1, 0, Flags::START));
    assert_eq!(n(&mut host, t, &data(2, 1, 0, Flags::START | Flags::END)), 1);
    assert_eq!(announce(&mut host, t, addr(1), &[addr(2), addr(3)]), 4);
    assert_eq!(n(&mut host, t + us(200), &data(9, 1, 1000, Flags::NONE)), 4);
    assert_eq!(n(&mut host, t + us(201), &data(9, 1, 2000, Flags::NONE)), 2);
    assert_eq!(n(&mut host, t + us(201), &data(3, 1, 0, Flags::START)), 3);
    assert_eq!(n(&mut host, t + us(500), &data(9, 1, 3000, Flags::NONE)), 3);
}

/// While packets are marked, those of an announced sender may wait in a queue, so its time does not pass.
#[test]
fn an_announced_sender_is_expected_while_packets_are_marked() {
    let (mut host, t) = (receiver(), Time::from_ms(1));
    let list = announcement(data(2, 1, 0, Flags::START), 1, &[addr(2), addr(3), addr(4)]);
    assert_eq!(n_of(&mut host, t, &list), 3);
    let mut feed = Feed { host, now: t, seq: 0 };
    feed.run(1.0, Ecn::Ect0, 2);
    // Receiver Congestion, in which one more sender is counted.
    assert_eq!(feed.run(1.0, Ecn::Ce, 100).0, 5, "650 us");
    assert_eq!(feed.run(1.0, Ecn::Ect0, 25).0, 4, "162 us later");
    assert_eq!(feed.run(1.0, Ecn::Ect0, 10).0, 2, "227 us later");
}

/// A retransmitted packet of a finished message does not extend the time of an announcement of its sender.
#[test]
fn a_retransmission_does_not_extend_an_announcement() {
    let (mut host, t) = (receiver(), Time::from_ms(1));
    n(&mut host, t, &data(9, 1, 0, Flags::START));
    assert_eq!(n(&mut host, t, &data(2, 1, 0, Flags::START | Flags::END)), 1);
    assert_eq!(announce(&mut host, t, addr(1), &[addr(2)]), 3);
    let again = data(2, 1, 0, Flags::START | Flags::END | Flags::RETRANSMIT);
    assert_eq!(n(&mut host, t + us(10), &again), 3);
    assert_eq!(n(&mut host, t + us(20), &data(1, 1, 1000, Flags::END)), 2);
    assert_eq!(n(&mut host, t + us(201), &data(9, 1, 1000, Flags::NONE)), 1);
}

/// A sender that was removed after a silence is announced, continues its message and ends it.
#[test]
fn a_silent_sender_that_is_announced_and_ends_is_counted_once() {
    let (mut host, t) = (receiver(), Time::from_ms(1));
    n(&mut host, t, &data(2, 1, 0, Flags::START));
    let t = t + Time::from_ms(2_400);
    assert_eq!(n(&mut host, t, &data(9, 1, 0, Flags::START)), 1);
    assert_eq!(announce(&mut host, t, addr(1), &[addr(2)]), 3);
    assert_eq!(n(&mut host, t, &data(2, 1, 1000, Flags::NONE)), 3, "now active instead of announced");
    assert_eq!(n(&mut host, t, &data(2, 1, 2000, Flags::END)), 2);
    assert_eq!(n(&mut host, t + us(1), &data(1, 1, 1000, Flags::END)), 1);
    assert_eq!(n(&mut host, t + us(2), &data(9, 1, 1000, Flags::END)), 1);
    assert_eq!(n(&mut host, t + us(3), &data(9, 2, 0, Flags::START)), 1);
    assert_eq!(n(&mut host, t + us(3), &data(3, 1, 0, Flags::START)), 2, "others still count");
}

/// Thousands of announced senders leave room for active ones.
#[test]
fn announcements_are_bounded_and_leave_room() {
    let (mut host, t) = (receiver(), Time::from_ms(1));
    let mut max = 0;
    for first in (0..3_000u32).step_by(29) {
        let listed: Vec<_> = (first..first + 29).map(|low| Ipv4Addr::from(0x0a00_1000 + low)).collect();
        let source = Ipv4Addr::from(0x0a00_8000 + first);
        max = max.max(announce(&mut host, t, source, &listed));
    }
    assert!((1_024..1_024 + 3_000 / 29 + 2).contains(&max), "{max}");
    assert_eq!(n(&mut host, t, &data(9, 1, 0, Flags::START)), max + 1);
}

/// A packet with a truncated announcement is dropped.
#[test]
fn truncated_announcements_are_dropped() {
    for list in [&[][..], &[0], &[0, 2, 0, 0, 0, 0, 0, 1], &[0xff, 0xff, 0, 0, 0, 0, 0, 1], &[0, 30]] {
        let mut host = receiver();
        let start = data(1, 1, 0, Flags::START | Flags::LOOKAHEAD);
        let mut frame = weir_testkit::net::rebuild(&FrameRepr { payload_len: 64, ..start }, &[]);
        frame.head.extend_from_slice(list);
        frame.payload -= list.len() as u32;
        host.receive(us(1), &frame.head, frame.payload);
        assert_eq!(host.stats().drops.get(DropReason::LengthMismatch), 1, "{list:?}");
        assert_eq!(host.active_inbound(us(1)), 0);
    }
}

/// Between hosts: the announcement travels in the first packet, and the long flow slows down to a fifth of line rate
/// although only one of four announced senders has started.
#[test]
fn an_announcement_slows_the_long_flow_down() {
    let mut net = TestNetwork::star(6, &scheme("dasr", &[]));
    let long = net.open(0, 5, None);
    net.run_until(us(100));
    let announcement = Announcement { incast: 1, senders: (1..5).map(addr).collect() };
    let short = net.open_announcing(1, 5, Bytes::new(50_000), &announcement);
    net.run_until(us(100) + BASE_RTT + LINK_DELAY);
    assert_eq!(net.flow(0, long).rate, RATE / 5);
    net.run_until(us(200));
    assert!(net.hosts[1].flow(short).is_none(), "the short flow is finished");
    assert_eq!(net.flow(0, long).rate, RATE / 4, "three announced senders have not started yet");
    let small = net.open(2, 5, Some(Bytes::new(1_460)));
    let senders = vec![addr(1); 31];
    let too_many = net.hosts[2].announce(small, &Announcement { incast: 1, senders }).unwrap_err();
    assert_eq!(too_many.to_string(), "message 3 cannot announce 31 senders; its packets have room for 30");
}

/// Between hosts: an announcement of a hundred senders takes four packets, and fills the last one.
#[test]
fn an_announcement_of_a_hundred_senders_takes_four_packets() {
    let mut net = TestNetwork::star(3, &scheme("dasr", &[]));
    let long = net.open(0, 2, None);
    net.run_until(us(100));
    let senders = (1..=100).map(|host| Ipv4Addr::new(10, 0, 9, host)).collect();
    let announcement = Announcement { incast: 1, senders };
    // Full packets have 1,452 bytes.
    net.open_announcing(1, 2, Bytes::new(3 * 1_452 + 6 + 2 * 13), &announcement);
    net.run_until(us(120));
    let share = RATE.as_bps() / 1_000 / 101 * 1_000; // grants are in kbit/s
    assert_eq!(net.flow(0, long).rate.as_bps(), share, "the announcing sender has not finished");
    net.run_until(us(400));
    assert_eq!(net.flow(0, long).rate, RATE);
}

/// An announcement of this length fits with every scheme.
#[test]
fn minimum_room_for_an_announcement() {
    let rooms = [100, 1_460, 2_000, 8_000].map(|size| max_announced_under_any_scheme(size, 1_518));
    assert_eq!(rooms, [29, 30, 58, 174]);
    assert_eq!(max_announced_under_any_scheme(8_000, 60), 0, "no room for headers");
}
