//! HPCC and FNCC against the worked numbers of docs/algorithms/hpcc.md and fncc.md, through the public trait.

use crate::variants::scheme;
use std::sync::Arc;
use weir_host::scheme::{Decision, FlowParams, SchemeConfig};
use weir_host::schemes::Registry;
use weir_host::telemetry::{GatheredBy, Hop, Telemetry};
use weir_host::wire::{IntRecord, PacketKind, RateCode, RecordFormat};
use weir_testkit::frames::{deliver, drain, from_peer, host, open};
use weir_testkit::net::{BASE_RTT, RATE};
use weir_testkit::sender_harness::{SenderHarness, hop, params};
use weir_units::{Bandwidth, Bytes, Time};

/// T of docs/algorithms/hpcc.md#worked-numbers and of HPCC's 320-host topology.
const T: Time = Time::from_ns(12_240);

fn gbps(rate: u64) -> Bandwidth {
    Bandwidth::from_gbps(rate)
}

/// The parameters of docs/algorithms/hpcc.md#worked-numbers: the authors' RAI of 50 Mbit/s and minimum of 1 Gbit/s.
fn golden(max_stage: &str, min_rate: &str) -> Arc<dyn SchemeConfig> {
    scheme("hpcc", &[("w_ai", "50Mbps"), ("min_rate", min_rate), ("max_stage", max_stage)])
}

fn rate_and_window(decision: Decision) -> (u64, u64) {
    (decision.rate.as_bps(), decision.window.get())
}

/// docs/algorithms/hpcc.md#worked-numbers, row 1: u 1.326797386, U 1.026699133.
#[test]
fn golden_row_1_a_full_link_with_a_queue() {
    let mut probe = SenderHarness::new(&*golden("0", "1Gbps"), &params(gbps(100), T));
    probe.ack_next_round(&[hop(100, 0, 0, 60_000)]);
    let decision = probe.ack_next_round(&[hop(100, 1_000, 12_500, 50_000)]);
    assert_eq!(rate_and_window(decision), (92_579_541_483, 141_646));
}

/// HPCC Alg. 1 takes the smaller of two queues, whichever came first: row 1 with a queue that grew.
#[test]
fn the_smaller_queue_counts() {
    let mut probe = SenderHarness::new(&*golden("0", "1Gbps"), &params(gbps(100), T));
    probe.ack_next_round(&[hop(100, 0, 0, 50_000)]);
    let decision = probe.ack_next_round(&[hop(100, 1_000, 12_500, 60_000)]);
    assert_eq!(rate_and_window(decision), (92_579_541_483, 141_646));
}

/// docs/algorithms/hpcc.md#worked-numbers, row 2: u 0.5, U 0.959150327.
#[test]
fn golden_row_2_a_half_used_link() {
    let mut probe = SenderHarness::new(&*golden("0", "1Gbps"), &params(gbps(100), T));
    probe.ack_next_round(&[hop(100, 0, 0, 0)]);
    let decision = probe.ack_next_round(&[hop(100, 1_000, 6_250, 0)]);
    assert_eq!(rate_and_window(decision), (99_095_996_593, 151_616));
}

/// docs/algorithms/hpcc.md#worked-numbers, row 3: U and u 0.5, maxStage 5, from Rc 10 Gbit/s. A minimum rate of 10
/// Gbit/s and a great queue bring Rc there exactly, an ACK of one whole T brings U to 0.5.
#[test]
fn golden_row_3_additive_increase_for_five_stages() {
    let mut probe = SenderHarness::new(&*golden("5", "10Gbps"), &params(gbps(100), T));
    probe.ack_next_round(&[hop(100, 0, 0, 10_000_000)]);
    let slow = probe.ack_next_round(&[hop(100, 12_240, 153_000, 10_000_000)]);
    assert_eq!(slow.rate, gbps(10));
    probe.ack(&[hop(100, 24_480, 153_000 + 76_500, 0)]);
    let (mut at, mut tx) = (24_480, 153_000 + 76_500);
    let mut next = || {
        at += 1_000;
        tx += 6_250;
        probe.ack_next_round(&[hop(100, at, tx, 0)])
    };
    assert_eq!(rate_and_window(next()), (10_050_000_000, 15_376));
    for stage in 2..=5 {
        assert_eq!(next().rate.as_bps(), 10_000_000_000 + stage * 50_000_000);
    }
    // HPCC Alg. 1: incStage has reached maxStage, so the sixth divides by U/eta = 0.5/0.95.
    assert_eq!(next().rate.as_bps(), 10_250_000_000 * 95 / 50 + 50_000_000);
    // And the stages begin anew.
    assert_eq!(next().rate.as_bps(), 10_250_000_000 * 95 / 50 + 100_000_000);
}

/// docs/algorithms/hpcc.md#worked-numbers, row 4: u and U 2.960784314.
#[test]
fn golden_row_4_a_whole_round_trip_of_congestion() {
    let mut probe = SenderHarness::new(&*golden("0", "1Gbps"), &params(gbps(100), T));
    probe.ack_next_round(&[hop(100, 0, 0, 300_000)]);
    let decision = probe.ack_next_round(&[hop(100, 12_240, 153_000, 300_000)]);
    assert_eq!(rate_and_window(decision), (32_136_092_715, 49_168));
}

/// docs/algorithms/hpcc.md#worked-numbers, row 5: u and U 2.0 over 2 T, which count as one; Rc 50 Gbit/s, here that of
/// the NIC.
#[test]
fn golden_row_5_tau_is_clamped_to_t() {
    let mut probe = SenderHarness::new(&*golden("0", "1Gbps"), &params(gbps(50), T));
    probe.ack_next_round(&[hop(100, 0, 0, 153_000)]);
    let decision = probe.ack_next_round(&[hop(100, 24_480, 306_000, 153_000)]);
    assert_eq!(rate_and_window(decision), (23_800_000_000, 36_414));
}

/// A last hop at 100 Gbit/s with a queue of its own BDP, seen twice within `ticks`.
fn congested(probe: &mut SenderHarness, first: Hop) -> Decision {
    let last = |at, tx| hop(100, at, tx, 150_000);
    probe.ack_next_round(&[first, last(0, 0)]);
    probe.ack_next_round(&[Hop { timestamp: 1_000, ..first }, last(1_000, 12_500)])
}

/// docs/algorithms/fncc.md#last-hop-congestion-speedup: 100 Gbit/s, T 12 us, N 4, beta 0.9 -> 33,750 B, directly
/// (`lhcs: direct`).
#[test]
fn golden_lhcs_sets_the_window_to_the_fair_share() {
    let fncc = scheme("fncc", &[]);
    let mut probe = SenderHarness::new(&*fncc, &params(gbps(100), Time::from_us(12)));
    probe.concurrency = 4;
    let decision = congested(&mut probe, hop(100, 0, 0, 0));
    assert_eq!(decision.window, Bytes::new(33_750));
    assert_eq!(decision.rate, Bandwidth::from_mbps(22_500));
    // It holds from ACK to ACK while it fires (ambiguity 4).
    let again = probe.ack(&[hop(100, 2_000, 0, 0), hop(100, 2_000, 25_000, 150_000)]);
    assert_eq!(again, decision);
}

/// Alg. 3 read literally (variant a) still divides what LHCS set, by U/eta: u is 2 here, so U is
/// 1 + (1000/12000) after the first and W = 33,750 * 0.95 / U + 80.
#[test]
fn lhcs_literal_divides_once_more() {
    let fncc = scheme("fncc", &[("lhcs", "literal")]);
    let mut probe = SenderHarness::new(&*fncc, &params(gbps(100), Time::from_us(12)));
    probe.concurrency = 4;
    let decision = congested(&mut probe, hop(100, 0, 0, 0));
    let expected = 33_750.0 * 0.95 / (13.0 / 12.0) + 80.0;
    assert_eq!(decision.window.get(), expected as u64);
}

/// LHCS off, or another hop worse, or u' not above alpha: FNCC is HPCC.
#[test]
fn without_lhcs_fncc_is_hpcc() {
    let params = params(gbps(100), Time::from_us(12));
    let run = |name: &str, parameters: &[(&str, &str)], first: Hop| {
        let mut probe = SenderHarness::new(&*scheme(name, parameters), &params);
        probe.concurrency = 4;
        congested(&mut probe, first)
    };
    let idle = hop(100, 0, 0, 0);
    let worse = hop(100, 0, 0, 400_000);
    let hpcc = run("hpcc", &[], idle);
    assert_eq!(run("fncc", &[("lhcs", "off")], idle), hpcc);
    assert_eq!(run("fncc", &[("alpha", "2.1")], idle), hpcc);
    assert_ne!(run("fncc", &[("alpha", "1.9")], idle), hpcc);
    assert_eq!(run("fncc", &[], worse), run("hpcc", &[], worse));
}

/// While ACKs return on another path than that of DATA, their records are of other ports: LHCS is suspended, each such
/// ACK is counted, and a change of either path restarts the measurement.
#[test]
fn without_a_common_path_there_is_no_lhcs() {
    let params = params(gbps(100), Time::from_us(12));
    let run = |name: &str, data_path: Option<u16>| {
        let mut probe = SenderHarness::new(&*scheme(name, &[]), &params);
        probe.concurrency = 4;
        probe.data_path = data_path;
        let decision = congested(&mut probe, hop(100, 0, 0, 0));
        (decision, probe)
    };
    let (with, mut probe) = run("fncc", None);
    let (without, apart) = run("fncc", Some(9));
    assert_eq!((without, apart.checks.other_path), (run("hpcc", None).0, 2));
    assert_ne!((with, probe.checks.other_path), (without, 2));
    // DATA moves to another path, and the next ACK only records.
    probe.data_path = Some(9);
    assert_eq!(probe.ack_next_round(&[hop(100, 9_000, 0, 0), hop(100, 9_000, 99_000, 400_000)]), with);
    assert_eq!(probe.checks.other_path, 1);
}

/// A reading that shows more than the link's rate is noise of counting whole frames: without a
/// queue LHCS does not fire, whatever the instant looked like.
#[test]
fn lhcs_needs_a_queue() {
    let mut probe = SenderHarness::new(&*scheme("fncc", &[]), &params(gbps(100), Time::from_us(12)));
    probe.concurrency = 100;
    probe.ack_next_round(&[hop(100, 0, 0, 0)]);
    // Two frames in the time of one and a half: u' is 1.33.
    let noisy = probe.ack_next_round(&[hop(100, 182, 3_036, 0)]);
    assert!(noisy.rate > gbps(80), "{}", noisy.rate);
    let queued = probe.ack_next_round(&[hop(100, 364, 6_072, 0)]);
    assert!(queued.rate > gbps(80), "the queue was empty before: {}", queued.rate);
    probe.ack_next_round(&[hop(100, 546, 9_108, 8_000)]);
    let queued = probe.ack_next_round(&[hop(100, 728, 12_144, 8_000)]);
    assert_eq!(queued.rate, Bandwidth::from_mbps(900));
}

/// N is at least 1 and the window at most W_init, at least the minimum rate's (docs/algorithms/fncc.md#open-points, 5).
#[test]
fn lhcs_survives_any_n() {
    let params = params(gbps(100), Time::from_us(12));
    for (n, window) in [(0, 135_000), (1, 135_000), (u16::MAX, 150)] {
        let mut probe = SenderHarness::new(&*scheme("fncc", &[]), &params);
        probe.concurrency = n;
        assert_eq!(congested(&mut probe, hop(100, 0, 0, 0)).window, Bytes::new(window), "N {n}");
    }
    // A last hop faster than the NIC: the fair share of the link is more than the NIC has.
    let mut probe = SenderHarness::new(&*scheme("fncc", &[]), &params);
    probe.ack_next_round(&[hop(400, 0, 0, 700_000)]);
    let decision = probe.ack_next_round(&[hop(400, 1_000, 50_000, 700_000)]);
    assert_eq!(rate_and_window(decision), (100_000_000_000, 150_000));
}

/// docs/algorithms/hpcc.md#maxstage: maxStage is the simulator's 0 unless asked for; then every update divides, also
/// upwards.
#[test]
fn trap_1_max_stage_is_zero_by_default() {
    let up = |max_stage: &str| {
        let mut probe = SenderHarness::new(&*golden(max_stage, "1Gbps"), &params(gbps(100), T));
        probe.ack_next_round(&[hop(100, 0, 0, 300_000)]);
        let low = probe.ack_next_round(&[hop(100, 12_240, 153_000, 300_000)]).rate;
        (low, probe.ack_next_round(&[hop(100, 24_480, 153_000 + 76_500, 0)]).rate)
    };
    let (low, high) = up("simulator");
    assert_eq!(scheme("hpcc", &[]).get("max_stage").as_deref(), Some("simulator"));
    let divided = low.as_bps_f64() * 0.95 / 0.5 + 50e6;
    assert!((high.as_bps_f64() - divided).abs() < 2.0, "{high} is not {divided}");
    let (low, high) = up("paper");
    assert_eq!(high, low + Bandwidth::from_mbps(50));
}

/// docs/algorithms/hpcc.md#first-ack: the first ACK only records.
#[test]
fn trap_2_the_first_ack_only_records() {
    for name in ["hpcc", "fncc"] {
        let mut probe = SenderHarness::new(&*scheme(name, &[]), &params(gbps(100), T));
        let start = probe.sender.decision();
        assert_eq!(probe.ack_next_round(&[hop(100, 5_000, 1_000_000, 5_000_000)]), start, "{name}");
        assert_ne!(probe.ack_next_round(&[hop(100, 6_000, 1_012_500, 5_000_000)]), start, "{name}");
    }
}

/// docs/algorithms/fncc.md#open-points, 1: the last hop of the data path is the same hop whichever packet gathered the
/// records. On the wire the newest record is first: of DATA that is the last hop, of an ACK the first.
#[test]
fn trap_4_hops_are_in_data_path_order() {
    let code = |gbps| RateCode::from_bandwidth(Bandwidth::from_gbps(gbps)).unwrap();
    let wire = |order: [u64; 3]| -> Vec<u8> {
        let word = |gbps| IntRecord::from_counters(code(gbps), 1, Bytes::ZERO, Bytes::ZERO).pack();
        order.iter().flat_map(|&gbps| word(gbps).to_be_bytes()).collect()
    };
    // First hop 10G, middle 25G, last 40G.
    let (last_first, first_first) = (wire([40, 25, 10]), wire([10, 25, 40]));
    let by_data = Telemetry::from_wire(&last_first, RecordFormat::BASE, GatheredBy::Data);
    let by_ack = Telemetry::from_wire(&first_first, RecordFormat::BASE, GatheredBy::Ack);
    assert_eq!(by_data.hops(), by_ack.hops());
    let rates: Vec<_> = by_ack.hops().iter().map(|hop| hop.rate.to_string()).collect();
    assert_eq!(rates, ["10Gbps", "25Gbps", "40Gbps"]);
}

/// The same through a host: LHCS fires for the record that lies last behind an ACK's header, that
/// of the receiver's switch, and not for the first.
#[test]
fn trap_4_lhcs_looks_at_the_receivers_switch() {
    let window = |congested_last: bool| {
        let mut host = host(&scheme("fncc", &[]), |_| {});
        let flow = open(&mut host, Time::ZERO, 7, 100_000_000);
        let (_, now) = drain(&mut host, Time::ZERO);
        for step in 0..2u64 {
            let record = |queue| {
                let rate = RateCode::from_bandwidth(RATE).unwrap();
                IntRecord::from_counters(rate, step * 1_000, Bytes::new(step * 12_800), Bytes::new(queue))
                    .pack()
            };
            let (first, last) = if congested_last { (0, 80_000) } else { (80_000, 0) };
            let records: Vec<u8> = [record(first), record(last)].map(u64::to_be_bytes).concat();
            let mut ack = from_peer(PacketKind::Ack, 7, 1454 * (step as u32 + 1));
            ack.weir.concurrency = 10;
            deliver(&mut host, now + Time::from_us(step), &ack, &records);
        }
        host.flow(flow).unwrap().window.get()
    };
    let share = RATE.bytes_in(BASE_RTT).get() * 9 / 10 / 10;
    assert_eq!(window(true), share);
    assert!(window(false) > share * 5);
}

/// docs/algorithms/hpcc.md#least-rate: the minimum rate is the simulator's 100 Mbit/s of 100 Gbit/s, and so a
/// thousandth of a slow NIC too.
#[test]
fn trap_6_the_minimum_rate_follows_the_nic() {
    for (nic, t, tick, min) in [
        (gbps(100), T, Time::from_ns(1), Bandwidth::from_mbps(100)),
        (Bandwidth::from_mbps(10), Time::from_ms(10), Time::from_us(1), Bandwidth::from_bps(10_000)),
    ] {
        let params = FlowParams { tick, ..params(nic, t) };
        let mut probe = SenderHarness::new(&*scheme("hpcc", &[("w_ai", "0B")]), &params);
        let at = |at, tx| Hop { rate: nic, ..hop(0, at, tx, u32::MAX) };
        probe.ack_next_round(&[at(0, 0)]);
        for step in 1..20 {
            probe.ack_next_round(&[at(step * 20_000, 0)]);
        }
        let Decision { rate, window, .. } = probe.sender.decision();
        assert_eq!(rate, min);
        assert!(window >= Bytes::new(1));
    }
}

/// HPCC Alg. 1 averages over T, FNCC's Eq. 5 and 6 have no average. U starts at 1, the sample is 1.25 of T/4.
#[test]
fn average_over_sets_the_time_constant_of_u() {
    let window = |average_over: &str| {
        let hpcc = scheme("hpcc", &[("average_over", average_over), ("w_ai", "0B")]);
        let mut probe = SenderHarness::new(&*hpcc, &params(gbps(100), T));
        probe.ack_next_round(&[hop(100, 0, 0, 38_240)]);
        probe.ack_next_round(&[hop(100, 3_060, 38_250, 38_240)]).window.get() as f64
    };
    // B*T is 153,000 B: u' is 38,240/153,000 + 1.
    for (average_over, u) in [("T", 1.0625), ("T/2", 1.125), ("T/4", 1.25), ("T/100", 1.25), ("off", 1.25)] {
        let expected = 153_000.0 * 0.95 / u;
        assert!((window(average_over) - expected).abs() < 20.0, "{average_over}: {}", window(average_over));
    }
    let wrong = |text: &str| Registry::builtin().make("hpcc", &[("average_over", text)]).is_err();
    assert!(wrong("T/0") && wrong("2T") && wrong("on"));
    assert_eq!(scheme("hpcc++", &[]).get("max_stage").as_deref(), Some("paper"));
}

/// docs/algorithms/hpcc.md#multiple-rates: the smallest hop's window holds; with one hop it is the single-rate law.
#[test]
fn multi_rate_takes_the_smallest_hop() {
    let params = params(gbps(100), T);
    let run = |multi: &str, hops: &[fn(u32) -> Hop]| {
        let hpcc = scheme("hpcc", &[("multi_rate", multi)]);
        let mut probe = SenderHarness::new(&*hpcc, &params);
        let mut decision = probe.sender.decision();
        for step in 0..10 {
            decision = probe.ack_next_round(&hops.iter().map(|hop| hop(step)).collect::<Vec<_>>());
        }
        decision
    };
    let busy: fn(u32) -> Hop = |step| hop(100, step * 1_000, step * 12_500, 30_000);
    let calm: fn(u32) -> Hop = |step| hop(100, step * 1_000, step * 3_000, 0);
    assert_eq!(run("on", &[busy]), run("off", &[busy]));
    assert_eq!(run("on", &[calm, busy]), run("on", &[busy]));
    assert_eq!(run("on", &[busy, calm]), run("on", &[busy]));
    assert_ne!(run("on", &[calm]), run("on", &[busy]));
}

/// fast_react off: nothing moves, and nothing is recorded, within a round trip.
#[test]
fn without_fast_react_only_commits_count() {
    let mut probe = SenderHarness::new(&*scheme("hpcc", &[("fast_react", "off")]), &params(gbps(100), T));
    let start = probe.ack_next_round(&[hop(100, 0, 0, 60_000)]);
    assert_eq!(probe.ack(&[hop(100, 1_000, 12_500, 60_000)]), start);
    let slow = probe.ack_next_round(&[hop(100, 12_240, 153_000, 60_000)]);
    let mut once = SenderHarness::new(&*scheme("hpcc", &[]), &params(gbps(100), T));
    once.ack_next_round(&[hop(100, 0, 0, 60_000)]);
    assert_eq!(once.ack_next_round(&[hop(100, 12_240, 153_000, 60_000)]), slow);
    assert_ne!(slow, start);
}

/// W_AI in its three forms (docs/algorithms/hpcc.md#additive-increase): 50 Mbit/s * T = 76.5 B; (1 - eta) * 153,000 B /
/// 100 = 76.5 B.
#[test]
fn w_ai_as_size_rate_or_headroom() {
    let run = |w_ai: &str| {
        let mut probe = SenderHarness::new(
            &*scheme("hpcc", &[("w_ai", w_ai), ("max_stage", "255")]),
            &params(gbps(100), T),
        );
        probe.ack_next_round(&[hop(100, 0, 0, 300_000)]);
        let low = probe.ack_next_round(&[hop(100, 12_240, 153_000, 300_000)]).rate;
        probe.ack_next_round(&[hop(100, 24_480, 153_000, 0)]).rate.as_bps() - low.as_bps()
    };
    assert_eq!(run("50Mbps"), 50_000_000);
    assert_eq!(run("headroom/100"), 50_000_000);
    // 80 B in 12.24 us.
    assert_eq!(run("80B"), 52_287_582);
}
