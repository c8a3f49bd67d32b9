//! HPCC++: where telemetry comes from, how often, and who computes (docs/algorithms/hpcc-plus-plus.md).

use crate::variants::scheme;
use weir_host::scheme::FlowParams;
use weir_host::telemetry::{GatheredBy, Hop, QueueShare, Telemetry};
use weir_host::wire::{Ecn, Flags, FrameRepr, PacketKind, RecordFormat};
use weir_host::{DropReason, HostStats};
use weir_testkit::frames::{deliver, drain, from_peer, host, open, poll_transmit, record, take_frame};
use weir_testkit::net::{BASE_RTT, RATE, TestNetwork};
use weir_testkit::sender_harness::{SenderHarness, hop, params};
use weir_units::{Bandwidth, Bytes, Time};

fn us(us: u64) -> Time {
    Time::from_us(us)
}

/// With HPCC's W_AI it is HPCC, ACK by ACK.
#[test]
fn with_hpccs_increase_it_is_hpcc() {
    let params = params(RATE, us(12));
    let run = |name: &str| {
        let mut probe = SenderHarness::new(&*scheme(name, &[("w_ai", "80B")]), &params);
        probe.concurrency = 7;
        (0..40u32)
            .map(|step| {
                let hops = [hop(100, step * 3_000, step * 37_500, 30_000 * (step % 5))];
                if step % 4 == 0 { probe.ack_next_round(&hops) } else { probe.ack(&hops) }
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run("hpcc++"), run("hpcc"));
}

/// Draft §5: W_AI = W_init*(1-eta)/N with the receiver's N: 150,000 * 0.05 / 4 = 1,875 B. §6.2: N is of the last hop;
/// where another is the most congested, and where no N is reported, W_AI is HPCC's 80 B.
#[test]
fn the_reported_n_sets_the_increase_at_the_last_hop() {
    let grown = |n: u16| {
        let mut probe = SenderHarness::new(&*scheme("hpcc++", &[("max_stage", "9")]), &params(RATE, us(12)));
        probe.concurrency = n;
        probe.ack_next_round(&[hop(100, 0, 0, 300_000)]);
        let low = probe.ack_next_round(&[hop(100, 12_000, 150_000, 300_000)]).window.get();
        probe.ack_next_round(&[hop(100, 24_000, 150_000, 0)]).window.get() - low
    };
    assert_eq!(grown(4), 1_875);
    assert_eq!(grown(1), 7_500);
    assert_eq!(grown(100), 75);
    assert_eq!(grown(0), 80);
    // A report that is forged.
    assert!(grown(u16::MAX) <= 1);
    let elsewhere = |n: u16| {
        let mut probe = SenderHarness::new(&*scheme("hpcc++", &[("max_stage", "9")]), &params(RATE, us(12)));
        probe.concurrency = n;
        let idle = |at: u32| hop(100, at, 0, 0);
        probe.ack_next_round(&[hop(100, 0, 0, 300_000), idle(0)]);
        let low = probe.ack_next_round(&[hop(100, 12_000, 150_000, 300_000), idle(12_000)]).window.get();
        probe.ack_next_round(&[hop(100, 24_000, 150_001, 0), idle(24_000)]).window.get() - low
    };
    assert_eq!([1, 4, 100].map(elsewhere), [80; 3]);
}

/// Draft §5: N * W_AI is the headroom of the link, and not that of the sender's NIC, so that senders of any rate grow alike.
#[test]
fn the_headroom_is_that_of_the_receivers_link() {
    let grown = |nic_gbps: u64, link_gbps: u64| {
        let params = params(Bandwidth::from_gbps(nic_gbps), us(12));
        let mut probe = SenderHarness::new(&*scheme("hpcc++", &[("max_stage", "9")]), &params);
        probe.concurrency = 4;
        let bytes = |us: u32| us * 125 * link_gbps as u32;
        probe.ack_next_round(&[hop(link_gbps, 0, 0, 300_000)]);
        let low = probe.ack_next_round(&[hop(link_gbps, 12_000, bytes(12), 300_000)]).window.get();
        probe.ack_next_round(&[hop(link_gbps, 24_000, bytes(12), 0)]).window.get() - low
    };
    assert_eq!([400, 100, 40].map(|nic| grown(nic, 100)), [1_875; 3]);
    assert_eq!(grown(100, 40), 750);
}

/// Telemetry once per round trip: the first packet, then the first after its ACK; again if it was lost.
#[test]
fn one_packet_per_round_trip_asks() {
    let mut host = host(&scheme("hpcc++", &[("telemetry", "rtt")]), |_| {});
    open(&mut host, Time::ZERO, 7, 100_000_000);
    let asks = |sent: &[FrameRepr]| -> Vec<u32> {
        let asking = sent.iter().filter(|frame| frame.weir.flags.has(Flags::TELEMETRY));
        asking.map(|frame| frame.weir.seq).collect()
    };
    let (sent, now) = drain(&mut host, Time::ZERO);
    let payload = sent[0].payload_len;
    assert_eq!(asks(&sent), [0]);
    // An ACK of that packet: the next one asks, once.
    let next = sent.len() as u32 * payload;
    deliver(&mut host, now, &from_peer(PacketKind::Ack, 7, payload), &record(1_000, 0, 0));
    let (sent, now) = drain(&mut host, now);
    assert_eq!(asks(&sent), [next]);
    // ACKs of what came before it: none.
    deliver(&mut host, now, &from_peer(PacketKind::Ack, 7, 2 * payload), &[]);
    let (sent, now) = drain(&mut host, now);
    assert!(!sent.is_empty() && asks(&sent).is_empty());
    // All is lost: the first packet that is repeated asks.
    deliver(&mut host, now, &from_peer(PacketKind::Nack, 7, 2 * payload), &[]);
    let (sent, _) = drain(&mut host, now);
    assert_eq!(asks(&sent), [2 * payload]);
}

/// Probes: one before the first DATA, the next a base round trip later and not before the reply; DATA
/// does not ask, and is longer by the reserve of eight records.
#[test]
fn probes_bring_the_telemetry() {
    let mut host = host(&scheme("hpcc++", &[("telemetry", "probe")]), |_| {});
    let flow = open(&mut host, Time::ZERO, 7, 100_000_000);
    let probes = |sent: &[FrameRepr]| -> Vec<u32> {
        let probes = sent.iter().filter(|frame| frame.weir.kind == PacketKind::Probe);
        probes
            .inspect(|p| assert_eq!((p.payload_len, p.weir.flags), (0, Flags::TELEMETRY)))
            .map(|p| p.weir.seq)
            .collect()
    };
    let (sent, now) = drain(&mut host, Time::ZERO);
    assert_eq!((sent[0].weir.kind, probes(&sent)), (PacketKind::Probe, vec![0]));
    assert_eq!(sent[1].payload_len, 1518 - 66);
    assert!(sent[1..].iter().all(|frame| !frame.weir.flags.has(Flags::TELEMETRY)));
    assert_eq!(sent[0].entropy_port, sent[1].entropy_port, "the same path");
    // A reply to a probe that was not sent, then the right one, then that one again.
    for (number, stale) in [(1, 1), (0, 1), (0, 2)] {
        deliver(&mut host, now, &from_peer(PacketKind::ProbeReply, 7, number), &record(1_000, 0, 900_000));
        assert_eq!(host.stats().stale_feedback, stale);
    }
    assert_eq!(host.flow(flow).unwrap().rate, RATE, "the first only records");
    // The next probe is with the next DATA, a base RTT later.
    let later = now + BASE_RTT;
    deliver(&mut host, later, &from_peer(PacketKind::Ack, 7, 5 * sent[1].payload_len), &[]);
    let (sent, now) = drain(&mut host, later);
    assert_eq!(probes(&sent), [1]);
    deliver(&mut host, now, &from_peer(PacketKind::ProbeReply, 7, 1), &record(14_000, 162_500, 900_000));
    let slow = host.flow(flow).unwrap().rate;
    assert!(slow < RATE / 5, "{slow}");
    // An ACK changes nothing: it has no telemetry.
    deliver(&mut host, now, &from_peer(PacketKind::Ack, 7, 6 * 1452), &[]);
    assert_eq!(host.flow(flow).unwrap().rate, slow);
    assert_eq!((host.stats().probes_sent, host.stats().probe_replies_received), (2, 2));
}

/// The receiver turns a probe round with its records; one with payload is refused.
#[test]
fn probes_are_answered() {
    let mut host = host(&scheme("hpcc++", &[("telemetry", "probe")]), |_| {});
    let mut probe = FrameRepr { payload_len: 0, ..from_peer(PacketKind::Probe, 9, 42) };
    probe.weir.path_id = 0x123;
    let records = record(77, 128, 80);
    deliver(&mut host, us(1), &probe, &records);
    let reply = poll_transmit(&mut host, us(1)).unwrap();
    assert_eq!((reply.weir.kind, reply.weir.seq, reply.weir.int_hops), (PacketKind::ProbeReply, 42, 1));
    assert_eq!((reply.weir.grant, reply.entropy_port), (0x123, probe.entropy_port));
    probe.payload_len = 1;
    deliver(&mut host, us(2), &probe, &records);
    assert_eq!(host.stats().drops.get(DropReason::LengthMismatch), 1);
    assert_eq!(host.stats().probe_replies_sent, 1);
}

/// Rx-HPCC (draft §6.2): an ACK with the window once per T however many packets come, the same window as
/// the sender's algorithm that sees what the receiver sees; no records go back.
#[test]
fn the_receiver_computes_once_per_t() {
    let mut host = host(&scheme("hpcc++", &[("compute", "receiver")]), |config| config.ack_every = 10_000);
    // A full frame of 1,518 B with eight records of 12 B.
    let full = FlowParams { payload: Bytes::new(1_518 - 66 - 8 * 12), ..params(RATE, BASE_RTT) };
    let mut model = SenderHarness::new(&*scheme("hpcc++", &[]), &full);
    model.concurrency = 1;
    model.gathered_by = GatheredBy::Data;
    let mut grants = Vec::new();
    for packet in 0..100u64 {
        let now = Time::from_ms(1) + us(packet);
        let mut data = from_peer(PacketKind::Data, 9, packet as u32 * 1000);
        data.weir.flags = Flags::TELEMETRY;
        let (at, tx, queue) = (packet * 1_000, packet * 12_800, 160_000 - packet * 1_600);
        deliver(&mut host, now, &data, &record(at, tx, queue));
        let hops = [hop(100, at as u32, tx as u32, queue as u32)];
        // T is 6.5 us: the first packet, then every seventh.
        let expected = if packet % 7 == 0 { model.ack_next_round(&hops) } else { model.ack(&hops) };
        if let Some(ack) = poll_transmit(&mut host, now) {
            assert_eq!((ack.weir.kind, ack.weir.int_hops, ack.ecn), (PacketKind::Ack, 0, Ecn::NotEct));
            assert_eq!(u64::from(ack.weir.grant), expected.window.get(), "packet {packet}");
            grants.push(packet);
        }
    }
    assert_eq!(grants, (0..100).step_by(7).collect::<Vec<_>>());
}

/// The sender obeys, within its limits.
#[test]
fn the_sender_takes_the_window() {
    let mut host = host(&scheme("hpcc++", &[("compute", "receiver")]), |_| {});
    let flow = open(&mut host, Time::ZERO, 7, 100_000_000);
    let (_, now) = drain(&mut host, Time::ZERO);
    let bdp = RATE.bytes_in(BASE_RTT).get();
    for (grant, window) in [(20_000, 20_000), (0, 20_000), (u32::MAX, bdp), (1, bdp / 1000)] {
        let mut ack = from_peer(PacketKind::Ack, 7, 0);
        ack.weir.grant = grant;
        deliver(&mut host, now, &ack, &[]);
        let view = host.flow(flow).unwrap();
        assert_eq!(view.window, Bytes::new(window), "{grant}");
        let rate = Bandwidth::from_bps_f64(window as f64 * 8.0 / BASE_RTT.as_secs_f64());
        assert!(view.rate.as_bps().abs_diff(rate.as_bps()) <= rate.as_bps() / 50, "{}", view.rate);
    }
}

/// The cost of the variants: two flows for a millisecond. Rx-HPCC sends a tenth of the ACKs; probes are few.
#[test]
fn less_telemetry_and_fewer_acks() {
    let run = |parameter: (&str, &str), every: u32| -> (HostStats, HostStats) {
        let mut net = TestNetwork::with_config(3, &scheme("hpcc++", &[parameter]), 1, |config| {
            config.ack_every = every
        });
        net.open(0, 2, None);
        net.open(1, 2, None);
        net.run_until(Time::from_ms(1));
        (net.hosts[0].stats().clone(), net.hosts[2].stats().clone())
    };
    let (_, every_packet) = run(("telemetry", "packet"), 1);
    let (_, at_receiver) = run(("compute", "receiver"), 1_000);
    let received = at_receiver.data_received;
    assert!(received * 10 > every_packet.data_received * 8, "{received} packets");
    assert!(at_receiver.acks_sent * 8 < every_packet.acks_sent, "{} ACKs", at_receiver.acks_sent);
    let (sender, _) = run(("telemetry", "probe"), 1);
    let round_trips = Time::from_ms(1) / BASE_RTT;
    assert!(
        sender.probes_sent <= round_trips && sender.probes_sent > round_trips / 3,
        "{}",
        sender.probes_sent
    );
    assert!(sender.probes_sent - sender.probe_replies_received <= 1, "one at a time");
}

/// Draft §6.1: a hop is who it says it is. Another port with the same path_id and number of hops is not compared
/// with the one before it: its counters have nothing to do with those.
#[test]
fn another_port_is_another_hop() {
    let mut probe = SenderHarness::new(&*scheme("hpcc++", &[]), &params(RATE, us(12)));
    probe.format = RecordFormat::LINK;
    let at = |link: u32, hop: Hop| Hop { link, ..hop };
    probe.ack_next_round(&[at(0x0001_0002, hop(100, 0, 0, 0))]);
    let line = probe.ack_next_round(&[at(0x0001_0003, hop(100, 12_000, 150_000, 300_000))]);
    assert_eq!(line.rate, RATE, "recorded, not compared");
    let slow = probe.ack_next_round(&[at(0x0001_0003, hop(100, 24_000, 300_000, 300_000))]);
    assert!(slow.rate < RATE / 2, "{}", slow.rate);
    assert_eq!(probe.checks.total(), 0);
}

/// Draft §9.4: sojourn / T stands for qLen / (B*T). 6 us of 12 is what 75 KB are at 100 Gbit/s.
#[test]
fn sojourn_time_counts_like_the_queue_it_is() {
    let run = |parameter: &str, format: RecordFormat, queue: u32| {
        let mut probe =
            SenderHarness::new(&*scheme("hpcc++", &[("queue", parameter)]), &params(RATE, us(12)));
        probe.format = format;
        probe.ack_next_round(&[hop(100, 0, 0, queue)]);
        probe.ack_next_round(&[hop(100, 12_000, 150_000, queue)])
    };
    let by_length = run("length", RecordFormat::LINK, 75_000);
    let by_time = run("sojourn", RecordFormat::LINK.union(RecordFormat::SOJOURN), 6_000);
    assert_eq!(by_length, by_time);
    assert!(by_time.rate < RATE);
}

/// Records on the wire, with ids and time; what the parameters ask for stands in every DATA packet, and in the ACK.
#[test]
fn the_format_travels_with_the_records() {
    for (queue, bits) in [("length", 1), ("sojourn", 3), ("weighted", 11)] {
        let mut host = host(&scheme("hpcc++", &[("queue", queue)]), |_| {});
        open(&mut host, Time::ZERO, 7, 100_000);
        let sent = poll_transmit(&mut host, Time::ZERO).unwrap();
        assert_eq!(sent.weir.format.bits(), bits);
        let len = sent.weir.format.record_len() as u64;
        assert_eq!(len, if bits == 11 { 16 } else { 12 });
        assert_eq!(u64::from(sent.payload_len), 1518 - 66 - 8 * len);
        let mut data = from_peer(PacketKind::Data, 9, 0);
        data.weir.format = sent.weir.format;
        let mut records = vec![0, 9, 0, 3];
        if bits == 11 {
            // A quarter of the port, 100 units sent.
            records.extend(0x4000_0064_u32.to_be_bytes());
        }
        records.extend(record(1_000, 12_800, 160));
        deliver(&mut host, us(1), &data, &records);
        let ack = take_frame(&mut host, us(1)).unwrap();
        assert_eq!((ack.view().weir.format(), ack.view().records()), (sent.weir.format, &records[..]));
        let read = Telemetry::from_wire(&records, sent.weir.format, GatheredBy::Data);
        // Two units: of 80 bytes, or of 4 ticks.
        let queued = if bits == 1 { 160 } else { 8 };
        assert_eq!((read.hops()[0].link, read.hops()[0].queue), (0x0009_0003, queued));
        let share = (bits == 11).then_some(QueueShare { share: 0x400, tx_bytes: 12_800 });
        assert_eq!(read.hops()[0].queue_share, share);
    }
}

/// A port of 100 Gbit/s at `at` ns; of `tx` bytes `own` are of the flow's queue, which has a quarter of the port.
fn quarter(at: u32, tx: u32, own: u32) -> Hop {
    let queue_share = Some(QueueShare { share: QueueShare::FULL_SHARE / 4, tx_bytes: own });
    Hop { queue_share, ..hop(100, at, tx, 0) }
}

/// Draft §9.4, in Weir's form: a queue may have its share of the port, or what others leave of eta. `T` 12 us: 150,000
/// B.
#[test]
fn a_weighted_queue_is_measured_against_its_share_or_what_others_leave() {
    let u = |tx: u32, own: u32| {
        let parameters = [("queue", "weighted"), ("max_stage", "0"), ("w_ai", "1B"), ("average_over", "off")];
        let mut probe = SenderHarness::new(&*scheme("hpcc++", &parameters), &params(RATE, us(12)));
        probe.format = RecordFormat::LINK.union(RecordFormat::SOJOURN).union(RecordFormat::QUEUE);
        probe.ack_next_round(&[Hop { queue: 36_000, ..quarter(0, 0, 0) }]);
        // Down to 1/4 of the window by a wait of three T, then one step that shows U.
        probe.ack_next_round(&[Hop { queue: 36_000, ..quarter(12_000, 150_000, 37_500) }]);
        let before = probe.sender.decision().window.get() as f64;
        probe.ack_next_round(&[quarter(24_000, 150_000 + tx, 37_500 + own)]);
        0.95 * before / (probe.sender.decision().window.get() as f64 - 1.0)
    };
    // Others have the rest of eta: the share counts, u' = 0.2375 / 0.25.
    assert!((u(142_500, 35_625) - 0.95).abs() < 0.01);
    // Others have more than that: still the share, whatever the port's load.
    assert!((u(150_000, 30_000) - 0.8).abs() < 0.01);
    // Others have half of eta: the other half is free, u' = 0.2375 / 0.5.
    assert!((u(71_250 + 35_625, 35_625) - 0.475).abs() < 0.01);
    // Alone: HPCC.
    assert!((u(120_000, 120_000) - 0.8).abs() < 0.01);
}

/// Draft §6: the packets between two that ask for all records ask for those of congested ports.
#[test]
fn other_packets_ask_for_records_of_congested_ports() {
    let mut host = host(&scheme("hpcc++", &[("telemetry", "congestion")]), |_| {});
    open(&mut host, Time::ZERO, 7, 100_000_000);
    let (sent, now) = drain(&mut host, Time::ZERO);
    let upon = RecordFormat::LINK.union(RecordFormat::CONGESTED);
    assert!(sent.iter().all(|frame| frame.weir.flags.has(Flags::TELEMETRY)));
    let formats: Vec<_> = sent.iter().map(|frame| frame.weir.format).collect();
    assert_eq!(formats[0], RecordFormat::LINK);
    assert!(formats.len() > 2 && formats[1..].iter().all(|&format| format == upon));
    let payload = sent[0].payload_len;
    deliver(&mut host, now, &from_peer(PacketKind::Ack, 7, payload), &[]);
    let (sent, now) = drain(&mut host, now);
    assert!(
        sent[0].weir.format == RecordFormat::LINK && sent[1..].iter().all(|frame| frame.weir.format == upon)
    );
    deliver(&mut host, now, &from_peer(PacketKind::Ack, 7, 2 * payload), &[]);
    let (sent, _) = drain(&mut host, now);
    assert!(!sent.is_empty() && sent.iter().all(|frame| frame.weir.format == upon), "the same round trip");
    // The receiver answers what carries records at once, and says what they are.
    let mut receiver =
        self::host(&scheme("hpcc++", &[("telemetry", "congestion")]), |config| config.ack_every = 8);
    let mut data = from_peer(PacketKind::Data, 9, 0);
    data.weir.format = upon;
    let records = [&[0, 9, 0, 3][..], &record(1_000, 12_800, 160)].concat();
    deliver(&mut receiver, us(1), &data, &[]);
    assert!(take_frame(&mut receiver, us(1)).is_none());
    data.weir.seq = data.payload_len;
    deliver(&mut receiver, us(1), &data, &records);
    let ack = take_frame(&mut receiver, us(1)).unwrap();
    assert_eq!((ack.view().weir.format(), ack.view().records()), (upon, &records[..]));
}

/// Records of congested ports are found by their ids, lower the window at once, and commit nothing.
#[test]
fn a_congested_port_lowers_the_window_between_two_whole_readings() {
    let at = |link: u32, at: u32, tx: u32, queue: u32| Hop { link, ..hop(100, at, tx, queue) };
    let parameters = [("telemetry", "congestion"), ("w_ai", "1B"), ("max_stage", "0")];
    let mut probe = SenderHarness::new(&*scheme("hpcc++", &parameters), &params(RATE, us(12)));
    probe.format = RecordFormat::LINK;
    probe.ack_next_round(&[at(1, 0, 0, 0), at(2, 5_000, 0, 0)]);
    let calm = probe.ack_next_round(&[at(1, 12_000, 142_500, 0), at(2, 17_000, 142_500, 0)]);
    // The second port alone, 6 us later: 75 KB queued, line rate.
    probe.format = RecordFormat::LINK.union(RecordFormat::CONGESTED);
    probe.ack_next_round(&[at(2, 20_000, 180_000, 75_000)]);
    let warned = probe.ack(&[at(2, 26_000, 255_000, 75_000)]);
    assert!(warned.window.get() * 5 < calm.window.get() * 4, "{warned:?} {calm:?}");
    // A port that is not on the path, and none.
    let strange = probe.ack(&[at(3, 26_000, 255_000, 900_000)]);
    assert_eq!((strange, probe.checks.other_port), (warned, 1));
    assert_eq!(probe.ack(&[]), warned);
    // The next whole reading starts from the window that was committed last.
    probe.format = RecordFormat::LINK;
    let whole = probe.ack_next_round(&[at(1, 38_000, 450_000, 0), at(2, 43_000, 465_000, 0)]);
    assert!(whole.window > warned.window, "{whole:?}");
}
