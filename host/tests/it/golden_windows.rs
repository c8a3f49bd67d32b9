//! AMP, XMP, DCM and DCTCP's window against the worked numbers of docs/algorithms/dctcp.md, amp.md and multipath.md,
//! through the public trait: one sender half for all subflows.

use crate::variants::scheme;
use weir_host::scheme::{AckEvent, LossEvent, LossKind, MultipathSender, RecoveryState};
use weir_host::telemetry::{Telemetry, TelemetryCounters};
use weir_host::wire::RecordFormat;
use weir_testkit::sender_harness::params;
use weir_units::{Bandwidth, Bytes, Time};

/// Payload of a packet in bytes, as in `params`.
const PAYLOAD: u64 = 1_000;

/// Drives the sender half of a message with several subflows. Each subflow has a full window in flight.
struct MultipathHarness {
    control: Box<dyn MultipathSender>,
    /// Acknowledged packets of each subflow.
    acked: [u64; 4],
    rtts: [u64; 4],
}

impl MultipathHarness {
    fn new(name: &str, parameters: &[(&str, &str)]) -> MultipathHarness {
        let scheme = scheme(name, parameters);
        let control = scheme.multipath_sender(&params(Bandwidth::from_gbps(10), Time::from_us(100)));
        MultipathHarness { control, acked: [0; 4], rtts: [100; 4] }
    }

    /// Returns the window in whole packets.
    fn window(&self, subflow: usize) -> u64 {
        self.control.decision(subflow).window.get() / PAYLOAD
    }

    fn active(&self) -> Vec<usize> {
        (0..4).filter(|&subflow| self.control.is_active(subflow)).collect()
    }

    /// Delivers an ACK of the next packet, with a full window in flight.
    fn ack(&mut self, subflow: usize, marked: bool, recovery: RecoveryState) {
        let inflight = self.window(subflow);
        self.acked[subflow] += 1;
        let seq = self.acked[subflow] * PAYLOAD;
        let ack = AckEvent {
            now: Time::from_ms(1),
            seq,
            acked: Bytes::new(PAYLOAD),
            snd_nxt: seq + (inflight - 1) * PAYLOAD,
            rtt: Some(Time::from_us(self.rtts[subflow])),
            hops: None,
            ecn_echo: marked,
            concurrency: 0,
            grant: 0,
            endpoint_delay: None,
            path_id: 0,
            data_path: 0,
            telemetry: &Telemetry::new(&[], RecordFormat::BASE),
        };
        self.control.on_ack(subflow, recovery, &ack, &mut TelemetryCounters::default());
    }

    /// Delivers `count` ACKs on a subflow.
    fn acks(&mut self, subflow: usize, count: u64, marked: bool) {
        (0..count).for_each(|_| self.ack(subflow, marked, RecoveryState::Open));
    }

    /// Delivers ACKs until the window has this size, and returns their number.
    fn grow_to(&mut self, subflow: usize, window: u64) -> u64 {
        (0..10_000)
            .find(|_| {
                self.window(subflow) == window || {
                    self.ack(subflow, false, RecoveryState::Open);
                    false
                }
            })
            .expect("the window reaches this size")
    }

    fn lose(&mut self, subflow: usize, kind: LossKind) {
        let seq = self.acked[subflow] * PAYLOAD;
        let snd_nxt = seq + self.window(subflow) * PAYLOAD;
        self.control.on_loss(subflow, &LossEvent { now: Time::from_ms(1), kind, seq, snd_nxt });
    }
}

/// docs/algorithms/amp.md: slow start adds a packet per ACK with every scheme.
#[test]
fn slow_start_adds_a_packet_per_ack() {
    for name in ["uncoupled", "amp", "xmp", "dcm", "mptcp"] {
        let mut sender = MultipathHarness::new(name, &[]);
        assert_eq!((sender.window(0), sender.active()), (1, vec![0]), "{name}");
        sender.acks(0, 19, false);
        assert_eq!(
            (sender.window(0), sender.window(1), sender.active()),
            (20, 1, vec![0, 1, 2, 3]),
            "{name}"
        );
    }
}

/// docs/algorithms/amp.md: the first mark of a window of data cuts a quarter; further marks cut nothing until that
/// window of data is acknowledged.
#[test]
fn amp_cuts_by_a_constant_once_per_window() {
    let mut sender = MultipathHarness::new("amp", &[("initial_window", "20"), ("subflows", "1")]);
    sender.ack(0, true, RecoveryState::Open);
    // 21 after the ACK, in slow start; three quarters of it.
    assert_eq!(sender.window(0), 15);
    sender.acks(0, 18, true);
    assert_eq!(sender.window(0), 16, "one packet more per window of ACKs, no second cut");
    sender.acks(0, 3, true);
    assert_eq!(sender.window(0), 12);
    // Alone it adds a packet per window: (w + 1) * 3/4 = w at 3. Four subflows add a quarter each, and end at 2.
    sender.acks(0, 300, true);
    assert!((3..=4).contains(&sender.window(0)), "{}", sender.window(0));
}

/// docs/algorithms/amp.md: `1/w_total` per ACK: of four subflows with 10 packets each, one grows by one in 40 ACKs.
#[test]
fn amp_adds_one_packet_over_all_subflows() {
    let mut sender = MultipathHarness::new("amp", &[]);
    for subflow in 0..4 {
        sender.grow_to(subflow, 13);
        sender.ack(subflow, true, RecoveryState::Open);
    }
    // Three quarters of 14: 10.5 each, 42 together.
    assert_eq!([0, 1, 2, 3].map(|subflow| sender.window(subflow)), [10; 4]);
    let acks = sender.grow_to(0, 12);
    assert!((1.5 * 42.0..1.5 * 42.0 + 3.0).contains(&(acks as f64)), "{acks} ACKs for 1.5 packets");
}

/// docs/algorithms/amp.md: after S windows of data with all windows at two packets only the first subflow sends; after
/// E windows of data above two packets without a mark all subflows send again.
#[test]
fn amp_suppresses_and_releases() {
    let mut sender = MultipathHarness::new("amp", &[("suppress_after", "3"), ("release_after", "4")]);
    for _ in 0..20 {
        (0..4).for_each(|subflow| sender.ack(subflow, true, RecoveryState::Open));
        if sender.active() == [0] {
            break;
        }
    }
    assert_eq!([0, 1, 2, 3].map(|subflow| sender.window(subflow)), [2; 4]);
    assert_eq!(sender.active(), [0]);
    // Alone it adds a packet per window of its own.
    sender.acks(0, 5, true);
    assert_eq!(sender.active(), [0], "marks keep it alone");
    let mut unmarked_acks = 0;
    while sender.active() == [0] {
        sender.ack(0, false, RecoveryState::Open);
        unmarked_acks += 1;
        assert!(unmarked_acks < 60, "released after a few windows of data");
    }
    assert!(unmarked_acks > 4 * 3, "released before four windows of data: {unmarked_acks} ACKs");
    assert_eq!(sender.active(), [0, 1, 2, 3]);
}

/// docs/algorithms/amp.md: a subflow without any ACK, or in loss recovery, keeps the count of windows at zero; with
/// `ssr: off` subflows are never suppressed.
#[test]
fn amp_waits_for_all_subflows_and_for_loss_recovery() {
    for (parameters, recovery) in
        [(&[][..], RecoveryState::Loss), (&[("ssr", "off")][..], RecoveryState::Open)]
    {
        let mut sender = MultipathHarness::new("amp", parameters);
        for _ in 0..100 {
            (0..3).for_each(|subflow| sender.ack(subflow, true, RecoveryState::Open));
            sender.ack(3, true, recovery);
        }
        assert_eq!(sender.active(), [0, 1, 2, 3]);
    }
    let mut sender = MultipathHarness::new("amp", &[]);
    for _ in 0..100 {
        (0..3).for_each(|subflow| sender.ack(subflow, true, RecoveryState::Open));
    }
    assert_eq!(sender.active(), [0, 1, 2, 3], "the fourth has not answered");
}

/// docs/algorithms/amp.md: a loss halves the window to half of the bytes in flight, at least two packets; a timeout
/// sets it to one packet.
#[test]
fn losses_halve_and_timeouts_start_over() {
    for name in ["uncoupled", "amp", "xmp", "dcm", "mptcp"] {
        let mut sender = MultipathHarness::new(name, &[("initial_window", "20")]);
        sender.lose(0, LossKind::Nack);
        assert_eq!((sender.window(0), sender.window(1)), (10, 20), "{name}");
        sender.lose(0, LossKind::Timeout);
        assert_eq!(sender.window(0), 1, "{name}");
        assert_eq!(sender.grow_to(0, 5), 4, "{name}: slow start up to half of 10");
        let mut sender = MultipathHarness::new(name, &[("initial_window", "2")]);
        sender.lose(0, LossKind::Nack);
        assert_eq!(sender.window(0), 2, "{name}");
    }
}

/// docs/algorithms/multipath.md#xmp: with equal round-trip times delta is the share of the window: two subflows of 12
/// and 6 packets add two and one packet in three rounds.
#[test]
fn xmp_grows_by_its_share() {
    let mut sender = MultipathHarness::new("xmp", &[("subflows", "2")]);
    for (subflow, window) in [(0, 12), (1, 6)] {
        sender.grow_to(subflow, window);
        // The first mark ends slow start and changes nothing.
        sender.ack(subflow, true, RecoveryState::Open);
        assert_eq!(sender.window(subflow), window);
    }
    // Rounds without growth until both have a rate.
    let mut start = [0, 0];
    for round in 0..12 {
        if round == 3 {
            start = [sender.window(0), sender.window(1)];
        }
        sender.acks(0, 13, false);
        sender.acks(1, 7, false);
    }
    let grown = [sender.window(0) - start[0], sender.window(1) - start[1]];
    assert!((5..=7).contains(&grown[0]) && (2..=4).contains(&grown[1]), "{start:?} {grown:?}");
}

/// docs/algorithms/multipath.md#xmp: `w -= max(1, floor(w/beta))`, only after slow start; the window does not grow in
/// the round after the cut.
#[test]
fn xmp_cuts_whole_packets() {
    let mut sender = MultipathHarness::new("xmp", &[("subflows", "1"), ("initial_window", "11")]);
    sender.ack(0, true, RecoveryState::Open);
    assert_eq!(sender.window(0), 11, "slow start ends");
    sender.acks(0, 11, false);
    let before = sender.window(0);
    sender.ack(0, true, RecoveryState::Open);
    assert_eq!(sender.window(0), before - before / 4);
    sender.acks(0, 5, true);
    assert_eq!(sender.window(0), before - before / 4);
}

/// docs/algorithms/multipath.md#xmp: a marked ACK adds nothing. A new subflow whose packets are all marked has one
/// packet for two round trips, then the minimum of two; under DCM, which grows before it cuts, it has two after the
/// first.
#[test]
fn xmp_does_not_grow_by_marked_acks() {
    for (name, windows) in [("xmp", [1, 2, 2, 2]), ("dcm", [2, 2, 2, 2])] {
        let mut sender = MultipathHarness::new(name, &[]);
        let seen = [0; 4].map(|subflow| {
            sender.ack(subflow, true, RecoveryState::Open);
            sender.window(subflow)
        });
        assert_eq!(seen, windows, "{name}");
    }
}

/// docs/algorithms/multipath.md#dcm and docs/algorithms/amp.md#worked-numbers-of-amp: with equal round-trip times DCM
/// adds `w_max/w_total^2` per ACK, less than AMP's `1/w_total`, and as much where one subflow has all.
#[test]
fn dcm_links_the_increase() {
    let mut sender = MultipathHarness::new("dcm", &[("subflows", "2"), ("initial_window", "19")]);
    for subflow in 0..2 {
        sender.ack(subflow, true, RecoveryState::Open);
        assert_eq!(sender.window(subflow), 10, "alpha is 1 at first: half of 20");
    }
    // 10/(20*20): 40 ACKs for a packet, and a few more as windows grow.
    let acks = sender.grow_to(0, 11);
    assert!((40..=42).contains(&acks), "{acks}");
}

/// docs/algorithms/dctcp.md#worked-numbers: alpha 1, shares 0, 0, 0, 1: .9375, .87890625, .823974609, .834976196, seen
/// by the cuts.
#[test]
fn dctcp_alpha_decays() {
    for (clean, alpha) in [(1, 0.9375), (2, 0.878_906_25), (3, 0.823_974_609)] {
        let mut sender = MultipathHarness::new("uncoupled", &[("subflows", "1"), ("initial_window", "1000")]);
        sender.lose(0, LossKind::Nack);
        let mut windows = 0;
        // The first window of data only opens the count.
        while windows <= clean {
            let window = sender.window(0);
            sender.acks(0, if windows == 0 { 1 } else { window }, false);
            windows += 1;
        }
        let before = sender.window(0) as f64;
        sender.ack(0, true, RecoveryState::Open);
        let after = sender.window(0) as f64;
        let expected = before * (1.0 - alpha / 2.0);
        assert!((after - expected).abs() <= 2.0, "{clean}: {before} to {after}, not {expected}");
    }
}
