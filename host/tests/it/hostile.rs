//! Hostile frames of a peer, a switch or a forger: the host drops each, counts it under its reason and goes on.

use crate::variants::{all_schemes, is_credited, scheme};
use proptest::prelude::*;
use std::sync::Arc;
use weir_host::scheme::SchemeConfig;
use weir_host::wire::{Flags, FrameRepr, HEADERS_LEN, INT_RECORD_LEN, PacketKind, internet_checksum};
use weir_host::{ConfigError, DropReason, FlowSpec, Host, HostConfig, HostEvent, OpenError};
use weir_testkit::frames::{PORT, deliver, drain, from_peer, host, open, poll_transmit, take_frame};
use weir_testkit::net::{BASE_RTT, RATE, addr, rebuild};
use weir_units::{Bandwidth, Bytes, Time};

fn fncc() -> Host {
    host(&scheme("fncc", &[]), |_| {})
}

/// A frame with one invalid field is dropped with the reason of that field; the valid frame is accepted.
#[test]
fn every_drop_has_its_reason() {
    let good = rebuild(&from_peer(PacketKind::Data, 1, 0), &[]).head;
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut head = good.clone();
        change(&mut head);
        // Correct the checksum, except in the case that breaks it.
        if head.len() >= 34 && head[24..26] == good[24..26] {
            head[24..26].copy_from_slice(&[0, 0]);
            let sum = internet_checksum(&head[14..34]);
            head[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        head
    };
    let cases: Vec<(Vec<u8>, DropReason)> = vec![
        (with(&|h| h.truncate(13)), DropReason::Truncated),
        (with(&|h| h[12] = 0x86), DropReason::NotIpv4),
        (with(&|h| h[14] = 0x65), DropReason::NotIpv4),
        (with(&|h| h[14] = 0x46), DropReason::BadIpHeader),
        (with(&|h| h[24] ^= 1), DropReason::BadIpChecksum),
        (with(&|h| h[20] = 0x20), DropReason::Fragment),
        (with(&|h| h[16] = 0xff), DropReason::LengthMismatch),
        (with(&|h| h[39] ^= 1), DropReason::LengthMismatch),
        (with(&|h| h[23] = 6), DropReason::NotWeir),
        (with(&|h| h[36] = 0), DropReason::NotWeir),
        (with(&|h| h[33] = 99), DropReason::NotForUs),
        (with(&|h| h[42] = 0x20), DropReason::BadVersion),
        (with(&|h| h[42] = 0x18), DropReason::BadKind),
        (with(&|h| h[42] = 0x17), DropReason::UnexpectedKind),
        (with(&|h| h[48] = 0x90), DropReason::TooManyHops),
        (with(&|h| h[48] = 0x10), DropReason::Truncated),
        // An ACK to the forward port.
        (with(&|h| h[42] = 0x11), DropReason::NotWeir),
    ];
    for (frame, reason) in cases {
        let mut host = fncc();
        host.receive(Time::ZERO, &frame, 1000);
        let drops: Vec<_> = host.stats().drops.iter().collect();
        assert_eq!(drops, [(reason, 1)]);
        assert_eq!(poll_transmit(&mut host, Time::ZERO), None);
    }
    let mut host = fncc();
    host.receive(Time::ZERO, &good, 1000);
    assert_eq!(host.stats().drops.total(), 0);
    assert_eq!(poll_transmit(&mut host, Time::ZERO).unwrap().weir.kind, PacketKind::Ack);
}

/// Lengths without room for the records, DATA without payload, and padding, which is cut off.
#[test]
fn lengths_inside_the_packet() {
    let mut host = fncc();
    let mut lying = rebuild(&FrameRepr { payload_len: 4, ..from_peer(PacketKind::Data, 1, 0) }, &[]).head;
    lying[48] = 0x10;
    host.receive(Time::ZERO, &lying, 4);
    assert_eq!(host.stats().drops.get(DropReason::RecordsLengthMismatch), 1);
    deliver(&mut host, Time::ZERO, &FrameRepr { payload_len: 0, ..from_peer(PacketKind::Data, 1, 0) }, &[]);
    assert_eq!(host.stats().drops.get(DropReason::EmptyData), 1);
    let mut padded = rebuild(&FrameRepr { payload_len: 1, ..from_peer(PacketKind::Data, 1, 0) }, &[]).head;
    padded.extend([0; 50]);
    host.receive(Time::ZERO, &padded, 0);
    assert_eq!(host.stats().payload_received, 1);
}

/// Forged feedback is counted and changes no flow.
#[test]
fn forged_feedback_is_refused() {
    for scheme in all_schemes() {
        let mut host = host(&scheme, |_| {});
        let flow = open(&mut host, Time::ZERO, 7, 1_000_000);
        let (mut sent, mut now) = drain(&mut host, Time::ZERO);
        if is_credited(&scheme) {
            for number in 1..=20 {
                deliver(&mut host, now, &from_peer(PacketKind::ProbeReply, 7, number), &[]);
            }
            (sent, now) = drain(&mut host, now);
        }
        assert!(sent.len() > 10 || scheme.needs().transport.uses_slow_start);
        let before = host.flow(flow).unwrap();
        let mut expect = |repr: &FrameRepr, reason: DropReason| {
            deliver(&mut host, now, repr, &[]);
            assert_eq!(host.stats().drops.get(reason), 1, "{reason}");
            assert_eq!(host.flow(flow).unwrap(), before, "{reason}");
        };
        let ack = from_peer(PacketKind::Ack, 7, before.sent.get() as u32 + 1);
        expect(&ack, DropReason::AckBeyondSent);
        expect(&from_peer(PacketKind::Ack, 8, 0), DropReason::UnknownFlow);
        expect(&FrameRepr { source: addr(5), ..from_peer(PacketKind::Nack, 7, 0) }, DropReason::WrongPeer);
        // An ACK of less than the first byte is stale.
        deliver(&mut host, now, &from_peer(PacketKind::Ack, 7, u32::MAX), &[]);
        assert_eq!(host.stats().stale_feedback, 1);
        assert_eq!(host.flow(flow).unwrap(), before);
        // The UDP port identifies the flow too.
        deliver(
            &mut host,
            now,
            &FrameRepr { entropy_port: PORT + 1, ..from_peer(PacketKind::Ack, 7, 0) },
            &[],
        );
        assert_eq!(host.stats().drops.get(DropReason::WrongPeer), 2);
    }
}

/// With an N of 65,535 and arbitrary telemetry, window and rate stay within their bounds.
#[test]
fn absurd_n_and_telemetry_are_survived() {
    for scheme in all_schemes() {
        let mut host = host(&scheme, |_| {});
        let flow = open(&mut host, Time::ZERO, 7, 100_000_000);
        let start = host.flow(flow).unwrap().window;
        let (_, mut now) = drain(&mut host, Time::ZERO);
        for round in 0..200u64 {
            now += Time::from_us(1);
            let mut ack = from_peer(PacketKind::Ack, 7, 0);
            ack.weir.concurrency = [0, 1, u16::MAX][round as usize % 3];
            let word = match round % 4 {
                0 => u64::MAX,
                1 => 0xc << 60 | round << 36 | 0xffff,
                2 => round,
                _ => 0xc << 60 | (round * 100) << 36 | (round * 90) << 16,
            };
            deliver(&mut host, now, &ack, &word.to_be_bytes().repeat(round as usize % 9));
            let view = host.flow(flow).unwrap();
            assert!(view.window >= Bytes::new(1) && view.window <= start);
            assert!(view.rate.as_bps() >= 1 && view.rate <= RATE, "{}", view.rate);
        }
    }
}

/// A NACK makes the sender go back; a NACK for acknowledged bytes has no effect.
#[test]
fn nacks_go_back_and_old_ones_do_not() {
    let mut host = host(&scheme("hpcc", &[]), |_| {});
    let flow = open(&mut host, Time::ZERO, 7, 1_000_000);
    let (sent, now) = drain(&mut host, Time::ZERO);
    let second = sent[1].weir.seq;
    deliver(&mut host, now, &from_peer(PacketKind::Nack, 7, second), &[]);
    assert_eq!(host.flow(flow).unwrap().inflight, Bytes::ZERO);
    let (again, now) = drain(&mut host, now);
    assert_eq!(again[0].weir.seq, second);
    assert!(again[0].weir.flags.has(Flags::RETRANSMIT));
    assert_eq!(again.len(), sent.len());
    assert!(!again.last().unwrap().weir.flags.has(Flags::RETRANSMIT), "one packet more than before");
    let before = host.flow(flow).unwrap();
    deliver(&mut host, now, &from_peer(PacketKind::Nack, 7, 0), &[]);
    assert_eq!(host.flow(flow).unwrap(), before);
    assert_eq!((host.stats().nacks_received, host.stats().stale_feedback), (1, 1));
}

/// An ACK of packets that were sent before going back advances the flow again.
#[test]
fn late_acks_after_going_back_are_accepted() {
    let mut host = host(&scheme("hpcc", &[]), |_| {});
    let flow = open(&mut host, Time::ZERO, 7, 1_000_000);
    let (sent, now) = drain(&mut host, Time::ZERO);
    deliver(&mut host, now, &from_peer(PacketKind::Nack, 7, 0), &[]);
    deliver(&mut host, now, &from_peer(PacketKind::Ack, 7, sent[5].weir.seq), &[]);
    assert_eq!(host.flow(flow).unwrap().acked.get(), u64::from(sent[5].weir.seq));
    assert_eq!(drain(&mut host, now).0[0].weir.seq, sent[5].weir.seq);
}

/// Without feedback the timeout doubles, up to six times.
#[test]
fn timeouts_back_off() {
    let mut host = host(&scheme("hpcc", &[]), |config| config.transport.rto = Some(Time::from_ms(1)));
    open(&mut host, Time::ZERO, 7, 100);
    assert!(poll_transmit(&mut host, Time::ZERO).is_some());
    let mut sent_at = Vec::new();
    let mut now = Time::ZERO;
    while sent_at.len() < 9 {
        now = host.next_wakeup().expect("the retransmission timer is armed");
        host.wakeup(now);
        if poll_transmit(&mut host, now).is_some() {
            sent_at.push(now);
        }
    }
    let gaps: Vec<u64> = sent_at.windows(2).map(|w| (w[1] - w[0]) / Time::from_ms(1)).collect();
    assert_eq!(sent_at[0], Time::from_ms(1));
    assert_eq!(gaps, [2, 4, 8, 16, 32, 64, 64, 64]);
    assert!(now > Time::from_ms(200));
}

#[test]
fn bad_flows_and_configs_are_refused() {
    let mut host = fncc();
    open(&mut host, Time::ZERO, 7, 100);
    let spec = FlowSpec { peer: addr(1), next_hop_mac: [2; 6], entropy_port: PORT, size: None, message: 7 };
    assert_eq!(host.open(Time::ZERO, spec), Err(OpenError::MessageInUse { message: 7 }));
    let empty = FlowSpec { size: Some(Bytes::ZERO), message: 8, ..spec };
    assert_eq!(host.open(Time::ZERO, empty), Err(OpenError::Empty { message: 8 }));
    assert_eq!(host.flow_count(), 1);

    let good = HostConfig::new(addr(0), RATE, BASE_RTT, scheme("hpcc", &[]));
    let error = |change: &dyn Fn(&mut HostConfig)| {
        let mut config = good.clone();
        change(&mut config);
        Host::new(config).map(|_| ()).unwrap_err()
    };
    let min = Bytes::new((HEADERS_LEN + 8 * INT_RECORD_LEN) as u64);
    let too_small = ConfigError::MtuTooSmall { mtu: min, min: min + Bytes::new(1) };
    assert_eq!(error(&|c| c.mtu = min), too_small);
    assert!(Host::new(HostConfig { mtu: min + Bytes::new(1), ..good.clone() }).is_ok());
    let max = Bytes::new(65_549);
    assert!(Host::new(HostConfig { mtu: max, ..good.clone() }).is_ok());
    assert_eq!(error(&|c| c.mtu = Bytes::new(65_550)), ConfigError::MtuTooLarge { mtu: Bytes::new(65_550) });
    assert_eq!(error(&|c| c.nic_rate = Bandwidth::ZERO), ConfigError::ZeroNicRate);
    assert_eq!(error(&|c| c.base_rtt = Time::ZERO), ConfigError::ZeroBaseRtt);
    assert_eq!(error(&|c| c.ack_every = 0), ConfigError::ZeroAckEvery);
    assert_eq!(error(&|c| c.data_class = 8), ConfigError::InvalidClass { class: 8 });
    assert_eq!(error(&|c| c.transport.rto = Some(Time::ZERO)), ConfigError::ZeroTimer { key: "rto" });
    assert_eq!(error(&|c| c.transport.max_inbound = 0), ConfigError::ZeroMaxInbound);
    let text = error(&|c| c.ack_every = 0).to_string();
    assert_eq!(text, "ack_every: must be at least 1 (1 acknowledges every packet)");
}

/// Invalid headers are not written: too long for IPv4, nine records, an incomplete record, a buffer that is too short.
#[test]
fn invalid_frames_are_not_written() {
    let longest = 65_535 - (HEADERS_LEN - 14) as u32;
    let emit = |payload_len, records: usize, room: usize| {
        let repr = FrameRepr { payload_len, ..from_peer(PacketKind::Data, 1, 0) };
        repr.emit(&vec![0; records], &mut vec![0; room])
    };
    assert_eq!(emit(longest, 0, 200), Some(HEADERS_LEN));
    assert_eq!(emit(longest + 1, 0, 200), None);
    assert_eq!(emit(u32::MAX, 0, 200), None);
    assert_eq!(emit(1, 64, 200), Some(HEADERS_LEN + 64));
    assert_eq!(emit(longest, 8, 200), None);
    assert_eq!(emit(1, 72, 200), None);
    assert_eq!(emit(1, 12, 200), None);
    assert_eq!(emit(1, 8, HEADERS_LEN + 7), None);
}

/// Returns a host with an open flow in each direction, and valid frames for it. Mutations of these reach all code
/// paths.
fn busy_host(scheme: &Arc<dyn SchemeConfig>) -> (Host, Vec<Vec<u8>>) {
    let mut host = host(scheme, |_| {});
    open(&mut host, Time::ZERO, 1, 1_000_000);
    let data = take_frame(&mut host, Time::ZERO).unwrap();
    deliver(&mut host, Time::ZERO, &from_peer(PacketKind::Data, 1, 0), &[]);
    let record = 0xc000_0010_0001_0000_u64.to_be_bytes();
    let seeds = [
        rebuild(&from_peer(PacketKind::Data, 1, 1000), &record).head,
        rebuild(&from_peer(PacketKind::Ack, 1, data.payload), &record.repeat(5)).head,
        rebuild(&from_peer(PacketKind::Nack, 1, 0), &[]).head,
        rebuild(&from_peer(PacketKind::Cnp, 1, 0), &[]).head,
        rebuild(&from_peer(PacketKind::Rate, 1, 3), &[]).head,
    ];
    (host, seeds.to_vec())
}

proptest! {
    /// Frames of random bytes, and valid frames with some random bytes: no panic, and each frame is counted exactly
    /// once, as accepted or under one drop reason.
    #[test]
    fn no_bytes_panic(
        scheme in prop::sample::select(all_schemes()),
        frames in prop::collection::vec((0usize..6, prop::collection::vec(any::<u8>(), 0..140), any::<u32>(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)), 1..40),
    ) {
        let (mut host, seeds) = busy_host(&scheme);
        let mut now = Time::from_us(1);
        for (seed, bytes, tail, changes) in frames {
            now += Time::from_ns(u64::from(tail % 100_000));
            let mut frame = seeds.get(seed).cloned().unwrap_or(bytes);
            let tail = if seed < seeds.len() { 1000 } else { tail };
            for (index, byte) in changes {
                if !frame.is_empty() {
                    let index = index.index(frame.len());
                    frame[index] = byte;
                }
            }
            // Correct the checksum of most frames, so that they pass the first check.
            if frame.len() >= 34 && tail % 8 != 0 {
                frame[24..26].copy_from_slice(&[0, 0]);
                let sum = internet_checksum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            let counted = |host: &Host| {
                let s = host.stats();
                s.drops.total() + s.data_received + s.duplicates + s.out_of_order + s.acks_received
                    + s.nacks_received + s.cnps_received + s.rates_received + s.probe_replies_received + s.stale_feedback
            };
            let before = counted(&host);
            host.receive(now, &frame, tail);
            prop_assert_eq!(counted(&host), before + 1);
            host.wakeup(now);
            while poll_transmit(&mut host, now).is_some() {}
            while let Some(event) = host.poll_event() {
                if let HostEvent::FlowFinished { bytes, .. } = event {
                    prop_assert_eq!(bytes, Bytes::new(1_000_000));
                }
            }
        }
    }

    /// Emitted frames are parsed back to the same values.
    #[test]
    fn frames_round_trip(
        kind in prop::sample::select(PacketKind::ALL.to_vec()),
        fields: (u8, u8, u8, u16, u16, u32, u32, u32, u32),
        macs: ([u8; 6], [u8; 6]),
        addrs: (u32, u32),
        entropy_port: u16,
        ecn in 0u8..4,
        payload_len in 0u32..9000,
        words in prop::collection::vec(any::<u64>(), 0..=8),
    ) {
        let mut repr = from_peer(kind, fields.5, fields.6);
        repr.source_mac = macs.0;
        repr.destination_mac = macs.1;
        repr.source = addrs.0.into();
        repr.destination = addrs.1.into();
        repr.entropy_port = entropy_port;
        repr.ecn = weir_host::wire::Ecn::from_bits(ecn);
        repr.payload_len = payload_len;
        repr.weir.flags = Flags(fields.0);
        repr.weir.tokens = fields.1 & 0xf;
        repr.weir.subflow = fields.2 & 0xf;
        repr.weir.concurrency = fields.3;
        repr.weir.path_id = fields.4 & 0xfff;
        repr.weir.timestamp = fields.7;
        repr.weir.grant = fields.8;
        repr.weir.int_hops = words.len() as u8;
        let records: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let frame = rebuild(&repr, &records);
        prop_assert_eq!(FrameRepr::parse(&frame.view()), repr);
        prop_assert_eq!(frame.view().records(), &records[..]);
        prop_assert_eq!(internet_checksum(&frame.head[14..34]), 0);
    }
}
