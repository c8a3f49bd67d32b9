//! DASR at the sender: one share for all messages to a receiver, marks of the source's NIC, and announcements of many
//! senders (Dart §III-B to III-D, docs/algorithms/dart.md#dasr).

use crate::variants::scheme;
use std::net::Ipv4Addr;
use weir_host::wire::{Ecn, Flags, FrameRepr, PacketKind};
use weir_host::{Announcement, FlowInfo, FlowSpec, Host, HostConfig};
use weir_testkit::frames::{deliver, from_peer, host, poll_transmit, take_frame};
use weir_testkit::net::{RATE, TestNetwork, addr};
use weir_units::{Bytes, Time};

/// §III-B: the messages of one sender are serialised by its NIC, so they share its part of the receiver's link and take
/// turns. A message that is opened later has no line rate of its own.
#[test]
fn messages_to_one_receiver_share_the_senders_share() {
    let mut net = TestNetwork::star(4, &scheme("dasr", &[]));
    let flows = [(0, net.open(0, 3, None)), (1, net.open(1, 3, None))];
    net.run_until(Time::from_us(200));
    let second = net.open(0, 3, None);
    assert_eq!(net.flow(0, second).rate, RATE / 2, "the share of its host is known");
    net.run_until(Time::from_us(300));
    let sent = |net: &TestNetwork| -> [u64; 3] {
        [flows[0], (0, second), flows[1]].map(|(host, flow)| net.flow(host, flow).sent.get())
    };
    let before = sent(&net);
    net.run_until(Time::from_us(1_300));
    let after = sent(&net);
    let [first, second, other] = [0, 1, 2].map(|i| (after[i] - before[i]) as f64);
    assert!((first / second - 1.0).abs() < 0.01, "they take turns: {first}, {second}");
    assert!(
        ((first + second) / other - 1.0).abs() < 0.01,
        "half of the link each: {first} + {second}, {other}"
    );
}

fn open_to(host: &mut Host, peer: usize, message: u32) -> weir_host::FlowId {
    let spec = FlowSpec { peer: addr(peer), next_hop_mac: [2; 6], entropy_port: 50_000, size: None, message };
    host.open(Time::ZERO, spec).unwrap()
}

/// Returns the ECN field of each DATA frame of the first `frames` that the NIC sends back to back, and how long after
/// the first of them the last one leaves.
fn marks(host: &mut Host, frames: usize) -> (Vec<Ecn>, Time) {
    let mut now = Time::ZERO;
    let mut marks = Vec::new();
    while marks.len() < frames {
        host.wakeup(now);
        match poll_transmit(host, now) {
            Some(FrameRepr { ecn, payload_len, .. }) => {
                marks.push(ecn);
                now += RATE.tx_time(Bytes::new(66 + u64::from(payload_len)));
            }
            None => now = host.next_wakeup().expect("an endless message"),
        }
    }
    (marks, now)
}

/// §III-C: a source whose messages exceed its own link marks its packets once they wait longer than `source_marking`. A
/// lone message at line rate does not wait.
#[test]
fn a_source_marks_what_waits_for_its_nic() {
    for (receivers, source_marking, is_marked) in [(1, "18us", false), (2, "18us", true), (2, "off", false)] {
        let mut host = host(&scheme("dasr", &[("source_marking", source_marking)]), |_: &mut HostConfig| {});
        for receiver in 1..=receivers {
            open_to(&mut host, receiver, receiver as u32);
        }
        let (marks, _) = marks(&mut host, 1_000);
        let first = marks.iter().position(|&ecn| ecn == Ecn::Ce);
        assert_eq!(first.is_some(), is_marked, "{receivers} receivers, {source_marking}");
        if let Some(first) = first {
            // Two messages at line rate: half of the time passes before a frame is 18 us late.
            let at = RATE.tx_time(Bytes::new(1_518)) * first as u64;
            assert!((Time::from_us(34)..Time::from_us(38)).contains(&at), "{at}");
            assert!(marks[first..].iter().all(|&ecn| ecn == Ecn::Ce), "the queue of the NIC stays");
        }
    }
}

/// A frame that waited for the NIC is made up for, so that shares that add up to the link's rate are reached even if
/// frames collide.
#[test]
fn shares_that_fill_the_link_are_reached() {
    let mut host = host(&scheme("dasr", &[]), |_: &mut HostConfig| {});
    let flows = [(1, 3), (2, 3), (3, 3)].map(|(peer, n)| (open_to(&mut host, peer, peer as u32), peer, n));
    for (_, peer, n) in flows {
        let mut ack = from_peer(PacketKind::Ack, peer as u32, 0);
        ack.source = addr(peer);
        (ack.weir.concurrency, ack.weir.grant) = (n, (RATE.as_bps() / u64::from(n) / 1_000) as u32);
        deliver(&mut host, Time::ZERO, &ack, &[]);
    }
    let (_, until) = marks(&mut host, 3_000);
    for (flow, ..) in flows {
        let FlowInfo { sent, .. } = host.flow(flow).unwrap();
        let share = sent.as_f64() * 8.0 / until.as_secs_f64() / RATE.as_bps_f64();
        assert!((share - 0.3188).abs() < 0.003, "{share} of the link, less headers");
    }
}

/// Returns the addresses that the first packet of a message of this host announces.
fn first_list(own: usize, senders: &[Ipv4Addr]) -> Vec<Ipv4Addr> {
    let mut host = host(&scheme("dasr", &[]), |config: &mut HostConfig| config.addr = senders[own]);
    let flow = weir_testkit::frames::open(&mut host, Time::ZERO, 7, 100_000);
    host.announce(flow, &Announcement { incast: 1, senders: senders.to_vec() }).unwrap();
    let frame = take_frame(&mut host, Time::ZERO).unwrap();
    assert!(frame.view().weir.flags().has(Flags::LOOKAHEAD));
    let (_, list) = frame.view().payload().split_at(6);
    let low = |id: &[u8; 2]| Ipv4Addr::from(0x0a00_0000 | u32::from(u16::from_be_bytes(*id)));
    list.as_chunks().0.iter().map(low).collect()
}

/// §III-D: a packet has room for 29 senders of an incast of 1,000. The first packets of different messages announce
/// different senders: those of 35 in a row announce all.
#[test]
fn first_packets_of_an_incast_announce_all_senders() {
    let senders: Vec<Ipv4Addr> = (0..1_000).map(|n| Ipv4Addr::from(0x0a00_0100 + n)).collect();
    let mut announced: Vec<_> = (400..435).flat_map(|own| first_list(own, &senders)).collect();
    announced.sort_unstable();
    announced.dedup();
    assert_eq!(announced, senders);
}
