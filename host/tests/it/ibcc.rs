//! InfiniBand's congestion control against the worked numbers of docs/algorithms/ibcc.md.

use crate::variants::scheme;
use weir_host::scheme::{EcnThresholds, SendingRate};
use weir_host::wire::{Ecn, Flags, FrameRepr, PacketKind};
use weir_testkit::frames::{deliver, from_peer, host, poll_transmit};
use weir_testkit::sender_harness::{SenderHarness, params};
use weir_units::{Bandwidth, Bytes, Time};

/// 150 units of 1.024 us.
const TIMER: Time = Time::from_ns(153_600);

fn probe(parameters: &[(&str, &str)]) -> SenderHarness {
    SenderHarness::new(&*scheme("ibcc", parameters), &params(Bandwidth::from_gbps(40), Time::from_us(12)))
}

/// Delivers a marked or an unmarked ACK and returns the rate in Mbit/s, rounded down.
fn ack(probe: &mut SenderHarness, is_marked: bool) -> u64 {
    probe.ecn_echo = is_marked;
    probe.ack(&[]).rate.as_bps() / 1_000_000
}

type Parameters<'a> = &'a [(&'a str, &'a str)];

/// docs/algorithms/ibcc.md#worked-numbers: the three published tables, at 40 Gbit/s.
#[test]
fn entries_of_the_published_tables() {
    let mellanox = [("cct_shift", "0"), ("max_delay", "57.39")];
    let omni_path = [("cct", "linear"), ("cct_shift", "3"), ("max_delay", "10")];
    let tables: [(Parameters<'_>, [(usize, u64); 5]); 3] = [
        (&[], [(18, 40_000), (19, 35_555), (38, 26_666), (53, 20_000), (127, 5_925)]),
        (&mellanox, [(16, 40_000), (17, 20_000), (24, 13_333), (30, 10_000), (127, 689)]),
        (&omni_path, [(1, 40_000), (2, 35_555), (13, 20_000), (64, 6_666), (127, 3_636)]),
    ];
    for (parameters, entries) in tables {
        let mut probe = probe(parameters);
        let rates: Vec<u64> = (0..127).map(|_| ack(&mut probe, true)).collect();
        for (ccti, mbps) in entries {
            assert_eq!(rates[ccti - 1], mbps, "{parameters:?}, entry {ccti}");
        }
        assert_eq!(ack(&mut probe, true), rates[126], "the table ends at CCTI_Limit");
        assert!(rates.is_sorted_by(|a, b| a >= b));
    }
}

/// docs/algorithms/ibcc.md#source: the timer starts with the first notification; later ones and ACKs without a mark do not
/// restart it. It stops at CCTI_Min.
#[test]
fn the_timer_takes_one_step_after_the_other() {
    let mut probe = probe(&[("ccti_increase", "10")]);
    assert_eq!((ack(&mut probe, true), ack(&mut probe, true)), (40_000, 35_555), "entries 10 and 20");
    let first = probe.now - Time::from_us(1) + TIMER;
    assert_eq!(probe.sender.decision().timer, Some(first));
    ack(&mut probe, false);
    assert_eq!(probe.sender.decision().timer, Some(first));
    assert!(probe.run_timers_until(first).rate < Bandwidth::from_gbps(40), "entry 19");
    assert_eq!(probe.run_timers_until(first + TIMER).rate, Bandwidth::from_gbps(40), "entry 18");
    // A driver that is late catches up.
    assert_eq!(probe.sender.on_timer(first + TIMER * 18).timer, Some(first + TIMER * 19));
    assert_eq!(probe.sender.on_timer(first + TIMER * 19).timer, None);
    assert_eq!(ack(&mut probe, false), 40_000);
    assert_eq!(probe.sender.decision().timer, None);
}

/// A step beyond CCTI_Limit ends there; flows start at CCTI_Min and return to it.
#[test]
fn the_index_stays_within_its_limits() {
    let mut probe = probe(&[("ccti_increase", "100"), ("ccti_min", "53"), ("ccti_limit", "127")]);
    assert_eq!(probe.sender.decision().rate, Bandwidth::from_gbps(20));
    assert_eq!(ack(&mut probe, true), 5_925);
    let last = probe.now + TIMER * 74;
    assert_eq!(probe.run_timers_until(last - TIMER).timer, Some(last));
    assert_eq!(probe.run_timers_until(last).timer, None);
    assert_eq!(probe.sender.decision().rate, Bandwidth::from_gbps(20));
}

/// A policy that changes the scheme leaves flows at an entry of at most their rate.
#[test]
fn running_flows_keep_their_rate() {
    let cases = [(40e9, 40_000, None), (20.5e9, 20_000, Some(TIMER)), (1e6, 5_925, Some(TIMER))];
    for (rate, mbps, timer) in cases {
        let mut probe = probe(&[]);
        let decision = probe.sender.resume(Time::ZERO, &SendingRate { rate, window: 1.0 });
        assert_eq!((decision.rate.as_bps() / 1_000_000, decision.timer), (mbps, timer));
    }
}

/// docs/algorithms/ibcc.md#switch: the threshold is (16 - weight) / 16 of the buffer; weight 0 marks nothing.
#[test]
fn weights_are_sixteenths_of_the_buffer() {
    let ecn = |weight: &str| scheme("ibcc", &[("threshold", weight)]).needs().ecn;
    let step = |bytes| Some(EcnThresholds::step(Bytes::new(bytes), Bandwidth::from_gbps(40)));
    assert_eq!(ecn("0"), None);
    assert_eq!([ecn("1"), ecn("8"), ecn("15")], [step(122_880), step(65_536), step(8_192)]);
}

/// docs/algorithms/ibcc.md#destination: one marked packet in Marking_Rate + 1 is answered by a notification.
#[test]
fn the_destination_thins_out_marks() {
    for (marking_rate, at_least, at_most) in [("0", 2000, 2000), ("10", 140, 230), ("65535", 0, 3)] {
        let mut host = host(&scheme("ibcc", &[("marking_rate", marking_rate)]), |_| {});
        let mut echoed = 0;
        for packet in 0..2000u32 {
            let mut repr = from_peer(PacketKind::Data, 1, packet * 1000);
            repr.ecn = if packet % 2 == 0 { Ecn::Ce } else { Ecn::Ect0 };
            let now = Time::from_ms(1) + Time::from_ns(304) * u64::from(packet);
            deliver(&mut host, now, &repr, &[]);
            while let Some(FrameRepr { weir, .. }) = poll_transmit(&mut host, now) {
                echoed += u32::from(weir.flags.has(Flags::ECN_ECHO));
            }
        }
        assert!((at_least / 2..=at_most / 2).contains(&echoed), "Marking_Rate {marking_rate}: {echoed}");
    }
}
