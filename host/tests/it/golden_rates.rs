//! DCQCN, TIMELY and DCTCP against the worked numbers of docs/algorithms/, through the public trait.

use crate::variants::scheme;
use std::sync::Arc;
use weir_host::scheme::{Decision, FlowParams, SchemeConfig};
use weir_host::schemes::Registry;
use weir_host::wire::{Ecn, Flags, FrameRepr, PacketKind};
use weir_testkit::frames::{deliver, from_peer, host, poll_transmit};
use weir_testkit::sender_harness::{SenderHarness, params};
use weir_units::{Bandwidth, Bytes, Time};

fn gbps(rate: u64) -> Bandwidth {
    Bandwidth::from_gbps(rate)
}

fn us(us: u64) -> Time {
    Time::from_us(us)
}

fn probe(scheme: &Arc<dyn SchemeConfig>, nic: Bandwidth) -> SenderHarness {
    SenderHarness::new(&**scheme, &params(nic, us(20)))
}

/// Rates to the bit: what is compared was computed in decimal.
fn assert_rate(decision: Decision, bps: f64) {
    let rate = decision.rate.as_bps_f64();
    assert!((rate - bps).abs() <= 1.0 + bps * 1e-9, "{rate} is not {bps}");
}

/// An ACK of the next packet, marked or not.
fn ack(probe: &mut SenderHarness, marked: bool) -> Decision {
    probe.ecn_echo = marked;
    probe.ack(&[])
}

/// docs/algorithms/dcqcn.md#worked-numbers-of-the-paper: first CNP at 40 Gbit/s: R_C 20, R_T 40; recovery 30, 35, 37.5,
/// 38.75, 39.375. The fifth step is additive, but the target is at line rate.
#[test]
fn dcqcn_recovers_from_a_first_cnp() {
    let mut probe = probe(&scheme("dcqcn", &[]), gbps(40));
    let start = probe.now;
    let cut = probe.sender.on_cnp(start);
    assert_eq!((cut.rate, cut.timer), (gbps(20), Some(start + us(55))));
    for (step, mbps) in [30_000, 35_000, 37_500, 38_750, 39_375].into_iter().enumerate() {
        let before = probe.run_timers_until(start + us(55 * (step as u64 + 1)) - Time::from_ns(1));
        let after = probe.run_timers_until(start + us(55 * (step as u64 + 1)));
        assert!(before.rate < after.rate);
        assert_eq!(after.rate, Bandwidth::from_mbps(mbps));
    }
}

/// docs/algorithms/dcqcn.md#worked-numbers-of-the-paper: alpha 1 -> .99609375 -> .9922027588 -> .9883269668 per 55 us
/// without a CNP, seen by the next cut.
#[test]
fn dcqcn_alpha_decays() {
    for (periods, alpha) in [(0, 1.0), (1, 0.996_093_75), (2, 0.992_202_758_8), (3, 0.988_326_966_8)] {
        let mut probe = probe(&scheme("dcqcn", &[("increase_timer", "1s")]), gbps(40));
        let start = probe.now;
        probe.sender.on_cnp(start);
        probe.run_timers_until(start + us(55 * periods));
        let cut = probe.sender.on_cnp(start + us(55 * periods));
        let rate = cut.rate.as_bps_f64();
        assert!((rate - 20e9 * (1.0 - alpha / 2.0)).abs() < 2.0, "{periods}: {rate}");
    }
}

/// DCQCN Algorithm 1 line by line after a cut from 20 to 10 Gbit/s: a CNP takes R_T down to R_C; five
/// fast steps less one, additive by timer alone, hyper once the byte counter has also passed F.
#[test]
fn dcqcn_stages() {
    let parameters =
        [("byte_counter", "1KB"), ("r_hai", "200Mbps"), ("r_ai", "40Mbps"), ("alpha_timer", "1s")];
    let mut probe = probe(&scheme("dcqcn", &parameters), gbps(40));
    let start = probe.now;
    probe.sender.on_cnp(start);
    let cut = probe.sender.on_cnp(start);
    assert_eq!(cut.rate, gbps(10), "alpha is 1 still");
    let (mut target, mut current) = (20e9, 10e9);
    let halve = |target: f64, current: &mut f64| {
        *current = (*current + target) / 2.0;
        *current
    };
    for step in 1..=8u64 {
        target += if step < 5 { 0.0 } else { 40e6 };
        let decision = probe.run_timers_until(start + us(55 * step));
        assert_rate(decision, halve(target, &mut current));
    }
    // Every ACK of 1,000 bytes is a byte counter's worth; T_cnt is 8.
    for count in 1..=8u64 {
        target += match count {
            0..=5 => 40e6,
            more => (more - 5) as f64 * 200e6,
        };
        assert_rate(ack(&mut probe, false), halve(target, &mut current));
    }
    // A CNP resets both counters.
    let decision = probe.sender.on_cnp(probe.now);
    assert_rate(decision, current / 2.0);
    assert_rate(ack(&mut probe, false), current * 0.75);
}

/// DCQCN section 3.2: at once, then at most one in 50 us while marked packets arrive; per flow; none without marks.
#[test]
fn dcqcn_receiver_sends_cnps() {
    let mut host = host(&scheme("dcqcn", &[]), |_| {});
    let mut seqs = [0; 3];
    let mut cnps = |at: u64, flow: u32, ecn: Ecn, flags: Flags| {
        let mut repr = from_peer(PacketKind::Data, flow, seqs[flow as usize]);
        seqs[flow as usize] += 1000;
        repr.ecn = ecn;
        repr.weir.flags = flags;
        let now = Time::from_ms(1) + us(at);
        deliver(&mut host, now, &repr, &[0; 8]);
        let mut cnps = 0;
        while let Some(FrameRepr { weir, .. }) = poll_transmit(&mut host, now) {
            if weir.kind == PacketKind::Cnp {
                assert_eq!((weir.message, weir.flags, weir.int_hops), (flow, Flags::NONE, 0));
                cnps += 1;
            }
        }
        cnps
    };
    let none = Flags::NONE;
    assert_eq!(cnps(0, 1, Ecn::Ect0, none), 0);
    assert_eq!(cnps(1, 1, Ecn::Ce, none), 1);
    assert_eq!(cnps(2, 1, Ecn::Ce, none), 0);
    assert_eq!(cnps(3, 2, Ecn::Ce, none), 1, "another flow has its own interval");
    assert_eq!(cnps(50, 1, Ecn::Ce, none), 0);
    assert_eq!(cnps(51, 1, Ecn::Ce, none), 1);
    assert_eq!(cnps(200, 1, Ecn::Ect0, none), 0);
    // A message ends; the next one in its place starts with its own interval.
    assert_eq!(cnps(201, 1, Ecn::Ce, Flags::END), 1);
    assert_eq!(cnps(202, 0, Ecn::Ce, none), 1);
    assert_eq!(host.stats().cnps_sent, 5);
}

/// The sender takes a CNP of its peer only.
#[test]
fn cnps_of_others_are_refused() {
    let mut host = host(&scheme("dcqcn", &[]), |_| {});
    let flow = weir_testkit::frames::open(&mut host, Time::ZERO, 7, 1_000_000);
    let forged = FrameRepr { source: weir_testkit::net::addr(5), ..from_peer(PacketKind::Cnp, 7, 0) };
    deliver(&mut host, us(1), &forged, &[]);
    assert_eq!((host.stats().cnps_received, host.flow(flow).unwrap().rate), (0, weir_testkit::net::RATE));
    deliver(&mut host, us(2), &from_peer(PacketKind::Cnp, 7, 0), &[]);
    assert_eq!((host.stats().cnps_received, host.flow(flow).unwrap().rate), (1, weir_testkit::net::RATE / 2));
    // And recovers by its own timer.
    let timer = host.next_wakeup().unwrap();
    assert!(timer <= us(57), "{timer}");
    host.wakeup(us(57));
    assert_eq!(host.flow(flow).unwrap().rate, weir_testkit::net::RATE * 3 / 4);
}

/// docs/algorithms/dcqcn.md#variant-simulator: the first mark only starts timers; the cut comes with the decrease
/// timer, at alpha 1; a second cut in a row leaves R_T; then F = 1: one fast step, one additive, then hyper ones, 300
/// us apart.
#[test]
fn dcqcn_simulator_variant() {
    let dcqcn = scheme("dcqcn", &[("variant", "simulator"), ("g", "0")]);
    let mut probe = probe(&dcqcn, gbps(100));
    let start = probe.now + us(1);
    let first = ack(&mut probe, true);
    assert_eq!((first.rate, first.timer), (gbps(100), Some(start + us(1))));
    assert_eq!(probe.run_timers_until(start + us(4)).rate, gbps(100));
    let ns = Time::from_ns(1);
    assert_eq!(probe.run_timers_until(start + us(4) + ns).rate, gbps(50));
    // Without another mark there is no other cut.
    assert_eq!(probe.run_timers_until(start + us(8) + ns).rate, gbps(50));
    ack(&mut probe, true);
    assert_eq!(probe.run_timers_until(start + us(12) + ns).rate, gbps(25));
    let after = |probe: &mut SenderHarness, n: u64| probe.run_timers_until(start + us(12 + 300 * n) + ns);
    // R_T stayed 100 Gbit/s: timeStage was 0 at the second cut, and CLAMP_TARGET_RATE is off.
    assert_rate(after(&mut probe, 1), 62.5e9);
    assert_rate(after(&mut probe, 2), 81.25e9);
    assert_rate(after(&mut probe, 3), 90.625e9);
    // A third cut takes R_T along; additive is 20, hyper 200 Mbit/s.
    ack(&mut probe, true);
    let cut = probe.run_timers_until(probe.now + us(4));
    assert_rate(cut, 45.3125e9);
    let next = |probe: &mut SenderHarness| probe.run_timers_until(probe.now + us(300)).rate.as_bps_f64();
    let fast = next(&mut probe);
    assert_eq!(fast, (45.3125e9 + 90.625e9) / 2.0);
    let additive = next(&mut probe);
    assert_eq!(additive, (fast + 90.645e9) / 2.0);
    assert_eq!(next(&mut probe), (additive + 90.845e9) / 2.0);
}

/// docs/algorithms/dcqcn.md#variant-simulator: alpha moves by g towards 1 while marks come and towards 0 while not,
/// each microsecond.
#[test]
fn dcqcn_simulator_alpha() {
    let mut probe = probe(&scheme("dcqcn", &[("variant", "simulator")]), gbps(100));
    ack(&mut probe, true);
    let start = probe.now;
    // Alpha at 4 us: a mark seen at 1 us, none at 2, 3 and 4.
    let cut = probe.run_timers_until(start + us(4) + Time::from_ns(1));
    assert_rate(cut, 100e9 * (1.0 - 0.996_093_75f64.powi(3) / 2.0));
}

/// docs/algorithms/dcqcn.md: which marks a variant asks for, by the paper's 40 Gbit/s and HPCC's 25 Gbit/s.
#[test]
fn marking_follows_the_variant_and_the_parameter() {
    let marking = |name: &str, parameters: &[(&str, &str)]| {
        let ecn = scheme(name, parameters).needs().ecn.unwrap();
        (ecn.kmin.get(), ecn.kmax.get(), ecn.pmax.get(), ecn.reference_rate)
    };
    assert_eq!(marking("dcqcn", &[]), (5_000, 200_000, 0.01, gbps(40)));
    assert_eq!(marking("dcqcn", &[("variant", "simulator")]), (100_000, 400_000, 0.2, gbps(25)));
    assert_eq!(marking("dctcp", &[]), (30_000, 30_000, 1.0, gbps(10)));
    let parameter = [("ecn", "40KB-1000KB:1/40Gbps"), ("variant", "simulator")];
    assert_eq!(marking("dcqcn", &parameter), (40_000, 1_000_000, 1.0, gbps(40)));
    assert_eq!(scheme("dcqcn", &parameter).get("ecn").as_deref(), Some("40KB-1MB:1/40Gbps"));
    for bad in ["30KB", "30KB/0bps", "9KB-8KB:1/1Gbps", "1KB-2KB/1Gbps", "1KB-2KB:1.1/1Gbps", "1KB:1/1Gbps"] {
        let error = Registry::builtin().make("dctcp", &[("ecn", bad)]).unwrap_err();
        assert!(error.to_string().contains("expected K/rate"), "{error}");
    }
}

/// docs/algorithms/timely.md#worked-numbers: a .875, minRTT 20 us, R 10 Gbit/s after an RTT of 100 us: 40 us gives
/// 10.010, then 60 us a gradient of .546875 and 5.630625, then 120 us a gradient of 2.6934 and the floor.
#[test]
fn timely_vector() {
    let parameters =
        [("variant", "simulator"), ("delta", "10Mbps"), ("min_rtt", "20us"), ("min_rate", "1Gbps")];
    let nic = Bandwidth::from_mbps(10_010);
    let mut probe = probe(&scheme("timely", &parameters), nic);
    let mut next = |rtt: u64| {
        probe.rtt = Some(us(rtt));
        probe.ack_next_round(&[])
    };
    assert_eq!(next(100).rate, nic, "the first is only something to compare with");
    assert_eq!(next(40).rate, nic);
    assert_rate(next(60), 5_630_625_000.0);
    assert_eq!(next(120).rate, gbps(1));
    // Below T_low again: up by delta.
    assert_eq!(next(40).rate, Bandwidth::from_mbps(1_010));
}

/// docs/algorithms/timely.md#variant-paper: the thresholds, and hyperactive increase after five completions with a
/// falling RTT.
#[test]
fn timely_thresholds_and_hai() {
    let parameters =
        [("variant", "paper"), ("ewma", "1"), ("delta", "10Mbps"), ("segment", "1KB"), ("min_rate", "1Mbps")];
    let mut probe = probe(&scheme("timely", &parameters), gbps(10));
    let mut next = |rtt: u64| {
        probe.rtt = Some(us(rtt));
        probe.ack(&[]).rate.as_bps()
    };
    next(1_000);
    // Above T_high: 1 - 0.8 * (1 - 500/1000).
    assert_eq!(next(1_000), 6_000_000_000);
    assert_eq!(next(1_000), 3_600_000_000);
    // A gradient of exactly 0 between the thresholds rises by delta and is no completion for HAI.
    next(400);
    let mut rate = next(400);
    for falling in 1..=6 {
        let now = next(400 - falling * 10);
        assert_eq!(now - rate, if falling < 5 { 10_000_000 } else { 50_000_000 }, "{falling}");
        rate = now;
    }
    // 10 us more, minRTT 20 us: 1 - 0.8 * 0.5.
    assert_eq!(next(350), rate * 6 / 10);
    assert_eq!(next(340), rate * 6 / 10 + 10_000_000, "and it counts anew");
}

/// TIMELY §5: one sample per segment of 16 KB, whatever the packets.
#[test]
fn timely_samples_segments() {
    let mut probe = probe(&scheme("timely", &[("variant", "paper")]), gbps(10));
    probe.rtt = Some(us(1_000));
    for packet in 1..=48 {
        let rate = probe.ack(&[]).rate;
        assert_eq!(rate < gbps(10), packet >= 32, "packet {packet}");
    }
}

/// docs/algorithms/timely.md#variant-patched: between the thresholds w = 2g + 1/2, error = (rtt - T_low)/T_low.
#[test]
fn timely_patched_law() {
    let parameters =
        [("ewma", "1"), ("delta", "10Mbps"), ("segment", "1KB"), ("min_rtt", "20us"), ("patch_beta", "0.1")];
    let run = |rtts: &[u64]| {
        let mut probe = probe(&scheme("timely", &parameters), gbps(10));
        let mut rate = 0.0;
        for &rtt in rtts {
            // A whole minimum RTT apart, so that nothing is scaled.
            probe.now += us(20);
            probe.rtt = Some(us(rtt));
            rate = probe.ack(&[]).rate.as_bps_f64();
        }
        rate
    };
    // Gradient 0: half of each. Error (100 - 50)/50 = 1.
    assert_eq!(run(&[100, 100]), 10e9 * (1.0 - 0.1 * 0.5) + 5e6);
    // Gradient 1/4 and above: only the cut. Error 1.1 at 105 us.
    assert_eq!(run(&[100, 105]), (10e9 * (1.0 - 0.1 * 1.1f64)).floor());
    // Gradient 1/8 and -1/8: w 3/4 and 1/4.
    let law = |w: f64, error: f64| 10e9 * (1.0 - 0.1 * w * error) + 10e6 * (1.0 - w);
    assert!((run(&[97, 99]) - law(0.7, 0.98)).abs() < 2.0);
    assert!((run(&[99, 97]) - law(0.3, 0.94)).abs() < 2.0);
    // At most to a half at once.
    assert_eq!(run(&[490, 499]), 5e9);
}

/// docs/algorithms/dctcp.md#worked-numbers: alpha 1, F = 0, 0, 0, 1 -> .9375, .87890625, .823974609, .834976196, seen
/// by the cut that a mark makes.
#[test]
fn dctcp_vector() {
    let run = |unmarked: usize, all: bool| {
        let mut probe = probe(&scheme("dctcp", &[("increase", "0bps")]), gbps(100));
        // The first round trip moves nothing.
        probe.ack_next_round(&[]);
        for _ in 0..unmarked {
            probe.ack_next_round(&[]);
        }
        if all {
            // The ACK that ends a round trip belongs to it: alpha moves first, then the rate is cut.
            probe.ecn_echo = true;
            return 2.0 * (1.0 - probe.ack_next_round(&[]).rate.as_bps_f64() / 100e9);
        }
        2.0 * (1.0 - ack(&mut probe, true).rate.as_bps_f64() / 100e9)
    };
    for (unmarked, alpha) in [(0, 1.0), (1, 0.9375), (2, 0.878_906_25), (3, 0.823_974_609)] {
        let ours = run(unmarked, false);
        assert!((ours - alpha).abs() < 1e-9, "{unmarked}: {ours} is not {alpha}");
    }
    let ours = run(3, true);
    assert!((ours - 0.834_976_196).abs() < 1e-9, "{ours}");
}

/// docs/algorithms/dctcp.md#algorithm: once per round trip down, once per round trip up by a packet over T: 1,000 B in
/// 13 us are the simulator's 615 Mbit/s.
#[test]
fn dctcp_cuts_and_grows_once_per_round_trip() {
    let params = FlowParams { payload: Bytes::new(1000), ..params(gbps(100), us(13)) };
    let mut probe = SenderHarness::new(&*scheme("dctcp", &[]), &params);
    probe.ack_next_round(&[]);
    let cut = ack(&mut probe, true).rate;
    assert_eq!(cut, gbps(50));
    assert_eq!(ack(&mut probe, true).rate, cut);
    assert_eq!(ack(&mut probe, false).rate, cut);
    let grown = probe.ack_next_round(&[]).rate;
    let step = grown.as_bps() - cut.as_bps();
    assert_eq!(step / 1_000_000, 615);
    assert_eq!(ack(&mut probe, false).rate, grown);
    assert_eq!(grown.bytes_in(us(13)), probe.sender.decision().window, "the window follows the rate");
    // A loss halves, once per round trip.
    let loss = weir_host::scheme::LossEvent {
        now: probe.now,
        kind: weir_host::scheme::LossKind::Nack,
        seq: 200_000_000,
        snd_nxt: 200_001_000,
    };
    let halved = probe.sender.on_loss(&loss).rate.as_bps();
    assert!(halved.abs_diff(grown.as_bps() / 2) <= 1);
    assert_eq!(probe.sender.on_loss(&loss).rate.as_bps(), halved);
}

/// RFC 8257 §3.2: with cumulative ACKs the packets before a marked one are acknowledged unmarked.
#[test]
fn marks_are_echoed_exactly() {
    let mut host = host(&scheme("dctcp", &[]), |config| config.ack_every = 4);
    let mut acks = Vec::new();
    for (packet, ecn) in [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ect0].into_iter().enumerate() {
        let mut repr = from_peer(PacketKind::Data, 3, packet as u32 * 1000);
        repr.ecn = ecn;
        deliver(&mut host, us(1), &repr, &[]);
        while let Some(ack) = poll_transmit(&mut host, us(1)) {
            acks.push((ack.weir.seq, ack.weir.flags.has(Flags::ECN_ECHO)));
        }
    }
    assert_eq!(acks, [(2000, false), (3000, true), (4000, true)]);
}
