//! Agents that receive garbage, forged feedback and replayed frames.

use crate::harness::Test;
use crate::netns::{ADDRS, Net};
use crate::probe::{open_raw, ping};
use crate::{cpu_wait, end_with_flows, flow, start};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_agent::AgentConfig;
use weir_agent::results::{Ended, FlowResult, FlowState};
use weir_host::schemes::Registry;
use weir_host::wire::{
    Ecn, Flags, FrameRepr, FrameView, IntRecord, MAX_HEADER_LEN, MacAddr, PacketKind, RateCode, WeirRepr,
    internet_checksum,
};
use weir_units::Bytes;

pub(crate) const TESTS: &[Test] = &[
    ("garbage_does_not_stop_a_transfer", garbage_does_not_stop_a_transfer),
    ("forged_feedback_hurts_no_other_flow", forged_feedback_hurts_no_other_flow),
    (
        "forged_nacks_and_cnps_slow_one_flow_while_they_last",
        forged_nacks_and_cnps_slow_one_flow_while_they_last,
    ),
    ("agents_with_credits_and_announcements_survive", agents_with_credits_and_announcements_survive),
    ("replayed_data_is_delivered_once", replayed_data_is_delivered_once),
    ("frames_that_a_network_stack_discards_are_counted", frames_that_a_network_stack_discards_are_counted),
];

const ATTACK_DURATION: Duration = Duration::from_millis(800);

/// Returns the headers of an ACK from side 1 to side 0 with the maximum concurrency.
fn ack(message: u32, port: u16) -> FrameRepr {
    FrameRepr {
        source_mac: [2, 0, 10, 99, 0, 2],
        destination_mac: [2, 0, 10, 99, 0, 1],
        source: ADDRS[1],
        destination: ADDRS[0],
        dscp: 0,
        ecn: Ecn::NotEct,
        entropy_port: port,
        weir: WeirRepr { concurrency: u16::MAX, path_id: 0xabc, message, ..WeirRepr::of(PacketKind::Ack) },
        payload_len: 0,
    }
}

fn emit(repr: &FrameRepr, records: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; MAX_HEADER_LEN];
    let length = repr.emit(records, &mut frame).expect("the buffer holds all headers");
    frame.truncate(length);
    frame.resize(length + repr.payload_len as usize, 0);
    frame
}

fn garbage_does_not_stop_a_transfer() {
    let net = Net::new();
    let receiver = start(&net, 1, vec![], |_| ());
    let sender = start(&net, 0, vec![flow(0, Some(Bytes::new(2_000_000)), 50_000)], end_with_flows);
    let attacker = net.spawn(1, || {
        let (mut sender, _receiver) = open_raw();
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        let template = emit(&ack(1_000, 50_000), &[0x55; 16]);
        let (until, mut sent) = (Instant::now() + ATTACK_DURATION, 0_u64);
        while Instant::now() < until {
            let mut frame = template.clone();
            // Random bytes behind the UDP ports, and a random length. The ports stay, so that the agent's filter
            // accepts the frame.
            for _ in 0..rng.random_range(1..6) {
                let index = rng.random_range(38..frame.len());
                frame[index] = rng.random();
            }
            frame[42] = frame[42].max(0x20); // a wrong version: valid feedback by chance is not tested here
            frame.truncate(rng.random_range(42..=frame.len()));
            sent += u64::from(sender.send_to(&frame, None).is_some_and(|done| done.is_ok()));
        }
        sent
    });
    assert!(ping(&net, 0));
    let garbage = attacker.join().expect("the attacker thread panicked");
    let results = sender.wait();
    receiver.stop();
    assert_eq!(results.ended, Ended::Finished, "{:?}", results.drops);
    let dropped: u64 = results.drops.values().sum();
    assert!(garbage > 1_000 && dropped > 500, "{garbage} sent, {:?}", results.drops);
    assert!(results.drops.contains_key("bad_version"), "{:?}", results.drops);
}

fn forged_feedback_hurts_no_other_flow() {
    let net = Net::new();
    let receiver = start(&net, 1, vec![], |_| ());
    let flows =
        vec![flow(0, Some(Bytes::new(1_000_000)), 50_000), flow(0, Some(Bytes::new(1_000_000)), 50_001)];
    let sender = start(&net, 0, flows, |config| {
        end_with_flows(config);
        config.first_message = 7;
    });
    let attacker = net.spawn(1, || {
        let (mut sender, _receiver) = open_raw();
        let mut rng = Pcg64Mcg::seed_from_u64(4);
        let until = Instant::now() + ATTACK_DURATION;
        while Instant::now() < until {
            // The victim is flow 7: N = 65535, a random acknowledgement, impossible telemetry.
            let mut forged = ack(7, 50_000);
            forged.weir.seq = rng.random();
            forged.weir.timestamp = rng.random();
            let record = IntRecord {
                rate: RateCode::from_bits(rng.random()),
                timestamp: rng.random::<u32>() >> 8,
                tx_units: rng.random::<u32>() >> 12,
                queue_units: u16::MAX,
            };
            let records: Vec<u8> = (0..3).flat_map(|_| record.pack().to_be_bytes()).collect();
            let _ = sender.send_to(&emit(&forged, &records), None);
            // From a host that is not the peer, and for a flow that does not exist.
            let mut wrong_peer = ack(8, 50_001);
            wrong_peer.source = [10, 99, 0, 3].into();
            let _ = sender.send_to(&emit(&wrong_peer, &[]), None);
            let _ = sender.send_to(&emit(&ack(99, 50_001), &[]), None);
            sleep(Duration::from_micros(200));
        }
    });
    attacker.join().expect("the attacker thread panicked");
    let results = sender.wait();
    receiver.stop();
    for reason in ["ack_beyond_sent", "wrong_peer"] {
        assert!(results.drops.contains_key(reason), "{reason}: {:?}", results.drops);
    }
    let other = &results.flows[1];
    assert_eq!(other.state, FlowState::Finished, "{:?}", results.drops);
    // It takes 84 ms alone at 100 Mbit/s, and 170 ms beside the victim.
    assert!(other.fct_ns.unwrap() < 1_500_000_000, "{:?}", other.fct_ns);
    // HPCC's receiver reports no N, so any other value would come from the forged ACKs.
    assert_eq!(other.concurrency.unwrap().max, 0);
}

fn forged_nacks_and_cnps_slow_one_flow_while_they_last() {
    let net = Net::new();
    let with_dcqcn = |config: &mut AgentConfig| {
        config.host.scheme = Registry::builtin().get("dcqcn").expect("dcqcn is built in");
    };
    let receiver = start(&net, 1, vec![], with_dcqcn);
    let size = Some(Bytes::new(4_000_000));
    let sender = start(&net, 0, vec![flow(0, size, 50_000), flow(0, size, 50_001)], move |config| {
        end_with_flows(config);
        with_dcqcn(config);
        config.first_message = 7;
    });
    let attacker = net.spawn(1, || {
        let (mut sender, _receiver) = open_raw();
        let mut rng = Pcg64Mcg::seed_from_u64(5);
        let (until, before, mut sent) = (Instant::now() + ATTACK_DURATION, cpu_wait(), 0_u64);
        while Instant::now() < until {
            for kind in [PacketKind::Nack, PacketKind::Cnp] {
                let mut forged = ack(7, 50_000);
                // A NACK for the first byte, or for a byte that may be in flight.
                let seq = if rng.random() { 0 } else { rng.random_range(0..4_000_000) };
                forged.weir = WeirRepr { kind, seq, concurrency: 0, ..forged.weir };
                sent += u64::from(sender.send_to(&emit(&forged, &[]), None).is_some_and(|done| done.is_ok()));
            }
            sleep(Duration::from_micros(200));
        }
        (sent, cpu_wait().saturating_sub(before))
    });
    let (forged, attacker_cpu_wait) = attacker.join().expect("the attacker thread panicked");
    let (results, sender_cpu_wait) = sender.finish();
    receiver.interrupt();
    let (_, receiver_cpu_wait) = receiver.finish();
    let cpu_wait_ms = (sender_cpu_wait + receiver_cpu_wait).as_millis() as u64;
    let [victim, other] = &results.flows[..] else { panic!("{:?}", results.flows) };
    let ms = |flow: &FlowResult| flow.fct_ns.map_or(u64::MAX, |ns| ns / 1_000_000);
    eprintln!(
        "{forged} forged; victim {} ms, {} packets sent again; other {} ms; agents waited {cpu_wait_ms} ms for a CPU",
        ms(victim),
        victim.retransmits,
        ms(other)
    );
    // At least two frames per 1.6 ms of the time in which the attacker had a CPU.
    let min = 1_000.0 * (1.0 - attacker_cpu_wait.as_secs_f64() / ATTACK_DURATION.as_secs_f64());
    assert!(forged as f64 > min, "{forged} forged, the attacker waited {attacker_cpu_wait:?} for a CPU");
    assert_eq!(
        (victim.state, other.state),
        (FlowState::Finished, FlowState::Finished),
        "{:?}",
        results.drops
    );
    // The other flow takes 336 ms alone at 100 Mbit/s, and 670 ms beside the victim. The victim recovers after the
    // attack.
    let takes_less_than = |limit: u64, flow: &FlowResult| ms(flow) < limit + cpu_wait_ms;
    assert!(
        takes_less_than(2_000, other) && takes_less_than(8_000, victim),
        "{} and {} ms",
        ms(victim),
        ms(other)
    );
}

/// DASR, Dart and ExpressPass, whose packets have further meanings: packets of every kind for one message and for made-up
/// ones, to both sides, whole and with garbage. Another message is delivered whole.
fn agents_with_credits_and_announcements_survive() {
    const VICTIM: u32 = 7;
    const SIZE: Bytes = Bytes::new(1_000_000);
    for name in ["dasr", "dart", "expresspass"] {
        let net = Net::new();
        let with_scheme = move |config: &mut AgentConfig| {
            config.host.scheme = Registry::builtin().get(name).expect("the scheme is built in");
        };
        let receiver = start(&net, 1, vec![], with_scheme);
        let flows = vec![flow(0, Some(SIZE), 50_000), flow(0, Some(SIZE), 50_001)];
        let sender = start(&net, 0, flows, move |config| {
            end_with_flows(config);
            with_scheme(config);
            config.first_message = VICTIM;
        });
        let attackers = [0, 1].map(|side| net.spawn(side, move || attack_with_all_kinds(side, VICTIM)));
        let forged: u64 =
            attackers.into_iter().map(|thread| thread.join().expect("the attacker thread panicked")).sum();
        let sent = sender.wait();
        let received = receiver.stop();
        let other = &sent.flows[1];
        eprintln!(
            "{name}: {forged} forged; victim {:?}, other {:?} after {:?} ms; {:?}, {:?}",
            sent.flows[0].state,
            other.state,
            other.fct_ns.map(|ns| ns / 1_000_000),
            sent.drops,
            received.drops
        );
        assert!(forged > 1_000, "{name}: {forged}");
        assert_eq!(other.state, FlowState::Finished, "{name}: {:?}", sent.drops);
        let whole =
            received.received.iter().find(|message| message.message == VICTIM + 1 && message.port == 50_001);
        assert!(whole.is_some_and(|message| message.complete && message.bytes == SIZE.get()), "{name}");
        for drops in [&sent.drops, &received.drops] {
            assert!(drops.values().sum::<u64>() > 100, "{name}: {drops:?}");
        }
    }
}

/// Sends packets of all kinds from this side to the other: for the message `victim` and for messages that do not exist, half
/// of them with garbage behind the UDP header. Returns their number.
fn attack_with_all_kinds(side: usize, victim: u32) -> u64 {
    const FLAGS: [Flags; 7] = [
        Flags::NONE,
        Flags::START,
        Flags::END,
        Flags::TELEMETRY,
        Flags::ECN_ECHO,
        Flags::LOOKAHEAD,
        Flags::EXPRESS,
    ];
    let (mut out, _wire) = open_raw();
    let mut rng = Pcg64Mcg::seed_from_u64(6 + side as u64);
    let mac = |side: usize| [2, 0, 10, 99, 0, side as u8 + 1];
    let (until, mut sent) = (Instant::now() + ATTACK_DURATION, 0);
    while Instant::now() < until {
        for kind in PacketKind::ALL {
            let is_data = kind == PacketKind::Data;
            let message = if !is_data && rng.random() { victim } else { rng.random_range(1_000..2_000) };
            let repr = FrameRepr {
                source_mac: mac(side),
                destination_mac: mac(1 - side),
                source: ADDRS[side],
                destination: ADDRS[1 - side],
                entropy_port: if message == victim { 50_000 } else { rng.random() },
                payload_len: if is_data { rng.random_range(1..200) } else { 0 },
                weir: WeirRepr {
                    flags: FLAGS[rng.random_range(0..FLAGS.len())],
                    seq: rng.random(),
                    timestamp: rng.random(),
                    grant: rng.random(),
                    concurrency: rng.random(),
                    message,
                    ..WeirRepr::of(kind)
                },
                ..ack(message, 0)
            };
            let mut frame = emit(&repr, &[]);
            if rng.random() {
                let index = rng.random_range(42..frame.len());
                frame[index] = rng.random();
            }
            sent += u64::from(out.send_to(&frame, None).is_some_and(|done| done.is_ok()));
        }
        sleep(Duration::from_micros(200));
    }
    sent
}

fn replayed_data_is_delivered_once() {
    const MAX_RECORDED_FRAMES: usize = 300;
    let net = Net::new();
    let receiver = start(&net, 1, vec![], |_| ());
    let attacker = net.spawn(0, || {
        let (mut sender, mut receiver) = open_raw();
        let (until, mut recorded, mut sent) =
            (Instant::now() + 2 * ATTACK_DURATION, Vec::<Vec<u8>>::new(), 0_u64);
        while Instant::now() < until {
            let data = receiver
                .next()
                .ok()
                .filter(|frame| frame.len() > 500 && recorded.len() < MAX_RECORDED_FRAMES);
            recorded.extend(data.map(<[u8]>::to_vec));
            for _ in 0..4 {
                let Some(frame) = recorded.get(sent as usize % recorded.len().max(1)) else { break };
                sent += u64::from(sender.send_to(frame, None).is_some_and(|done| done.is_ok()));
            }
        }
        sent
    });
    let size = 1_000_000;
    let sender = start(&net, 0, vec![flow(0, Some(Bytes::new(size)), 50_000)], end_with_flows);
    let results = sender.wait();
    let replayed = attacker.join().expect("the attacker thread panicked");
    let received = receiver.stop();
    let duplicates = received.transport["duplicates"];
    eprintln!("{replayed} replayed, {duplicates} duplicates; {:?} ns", results.flows[0].fct_ns);
    assert_eq!(results.ended, Ended::Finished, "{:?}", results.drops);
    assert!(replayed > 1_000 && duplicates > 1_000, "{replayed} replayed, {duplicates} duplicates");
    let messages: Vec<u64> = received.received.iter().map(|message| message.bytes).collect();
    assert_eq!(messages, [size], "delivered once, whole");
}

fn frames_that_a_network_stack_discards_are_counted() {
    const OWN_MAC: MacAddr = [2, 0, 10, 99, 0, 1];
    const PEER_MAC: MacAddr = [2, 0, 10, 99, 0, 2];
    const BROADCAST: MacAddr = [0xff; 6];
    const TAG_OFFSET: usize = 12;
    const UDP_CHECKSUM_OFFSET: usize = 40;
    // DATA of 64 bytes to side 0. Each frame is a message of its own.
    let data = |message: u32| FrameRepr {
        source_mac: PEER_MAC,
        destination_mac: OWN_MAC,
        entropy_port: 20_000,
        payload_len: 64,
        weir: WeirRepr { flags: Flags::END, message, ..WeirRepr::of(PacketKind::Data) },
        ..ack(message, 20_000)
    };
    let tagged = |message, tags: &[u8]| {
        let mut frame = emit(&data(message), &[]);
        frame.splice(TAG_OFFSET..TAG_OFFSET, tags.iter().copied());
        frame
    };
    let with_checksum = |message, error: u16| {
        let mut frame = emit(&data(message), &[]);
        let datagram = &frame[34..];
        let length = datagram.len() as u8;
        let [a, b] = [ADDRS[1].octets(), ADDRS[0].octets()];
        let pseudo_header = [&a[..], &b, &[0, 17, 0, length], datagram].concat();
        let checksum = internet_checksum(&pseudo_header) ^ error;
        frame[UDP_CHECKSUM_OFFSET..][..2].copy_from_slice(&checksum.to_be_bytes());
        frame
    };
    let from = |message, source: [u8; 4]| emit(&FrameRepr { source: source.into(), ..data(message) }, &[]);
    let frames = [
        ("", tagged(1, &[])),
        ("", tagged(2, &[0x81, 0, 0xe0, 0])), // VLAN 0 has a priority only
        ("", with_checksum(3, 0)),
        ("vlan", tagged(4, &[0x81, 0, 0, 5])),
        ("vlan", tagged(5, &[0x81, 0, 0xf0, 5])),
        ("vlan", tagged(6, &[0x88, 0xa8, 0, 5])),
        ("wrong_mac", emit(&FrameRepr { destination_mac: BROADCAST, ..data(7) }, &[])),
        ("wrong_mac", emit(&FrameRepr { destination_mac: [2, 0, 10, 99, 0, 9], ..data(8) }, &[])),
        ("wrong_mac", emit(&FrameRepr { source_mac: BROADCAST, ..data(9) }, &[])),
        ("bad_source", from(10, [0, 0, 0, 0])),
        ("bad_source", from(11, [127, 0, 0, 1])),
        ("bad_source", from(12, [224, 1, 1, 1])),
        ("bad_source", from(13, [255; 4])),
        ("bad_source", from(14, ADDRS[0].octets())),
        ("udp_checksum", with_checksum(15, 1)),
    ];
    // Two tags: one stays in the frame, which is then not IPv4 for the filter.
    let filtered = tagged(16, &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]);
    let mut expected: BTreeMap<Cow<str>, u64> = BTreeMap::new();
    for (reason, _) in frames.iter().filter(|(reason, _)| !reason.is_empty()) {
        *expected.entry((*reason).into()).or_insert(0) += 1;
    }
    let net = Net::new();
    let receiver = start(&net, 0, vec![], |_| ());
    let attack = net.spawn(1, move || {
        let (mut out, mut wire) = open_raw();
        for frame in frames.iter().map(|(_, frame)| frame).chain([&filtered]) {
            assert!(out.send_to(frame, None).is_some_and(|sent| sent.is_ok()));
        }
        // All replies go to the sender of the three good frames.
        let until = Instant::now() + ATTACK_DURATION;
        let mut replies = Vec::new();
        while Instant::now() < until {
            if let Ok(frame) = wire.next()
                && FrameView::new(frame, 0).is_ok()
                && frame[6..12] == OWN_MAC
            {
                replies.push(MacAddr::try_from(&frame[..6]).unwrap());
            }
        }
        replies
    });
    let replies = attack.join().expect("the attacker thread panicked");
    let results = receiver.stop();
    let messages: Vec<u32> = results.received.iter().map(|message| message.message).collect();
    assert_eq!(messages, [1, 2, 3], "{:?}", results.drops);
    assert_eq!(results.drops, expected);
    assert_eq!(replies, [PEER_MAC; 3]);
}
