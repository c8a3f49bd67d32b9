//! PowerTCP and theta-PowerTCP against the worked numbers of docs/algorithms/powertcp.md, through the public trait.

use crate::variants::scheme;
use weir_host::scheme::Decision;
use weir_testkit::sender_harness::{SenderHarness, hop, params};
use weir_units::{Bandwidth, Bytes, Time};

/// `tau` of docs/algorithms/powertcp.md#worked-numbers: a BDP of 153,000 B.
const TAU: Time = Time::from_ns(12_240);

fn gbps(rate: u64) -> Bandwidth {
    Bandwidth::from_gbps(rate)
}

fn probe(name: &str, variant: &str) -> SenderHarness {
    let scheme = scheme(name, &[("beta", "150Mbps"), ("min_rate", "1Gbps"), ("variant", variant)]);
    SenderHarness::new(&*scheme, &params(gbps(100), TAU))
}

/// Compares a rate with one that was computed in decimal.
fn assert_rate(decision: Decision, bps: f64) {
    let rate = decision.rate.as_bps_f64();
    assert!((rate - bps).abs() <= 1.0 + bps * 1e-9, "{rate} is not {bps}");
}

/// Row 1: arrivals 1.8 of the link, voltage 1.392, power 2.506 for 1,000 ns of 12,240.
#[test]
fn a_queue_that_grows() {
    let mut probe = probe("powertcp", "paper");
    probe.ack_next_round(&[hop(100, 0, 0, 50_000)]);
    let decision = probe.ack_next_round(&[hop(100, 1_000, 12_500, 60_000)]);
    assert_rate(decision, 90_275_362_889.4);
    assert_eq!(decision.window, Bytes::new(138_121), "rate times tau");
}

/// Rows 2 to 4: a round trip of congestion; then the queue is gone, and two ACKs of the next round trip.
#[test]
fn the_window_of_the_last_round_trip_is_divided() {
    let mut probe = probe("powertcp", "paper");
    probe.ack_next_round(&[hop(100, 0, 0, 300_000)]);
    assert_rate(probe.ack_next_round(&[hop(100, 12_240, 153_000, 300_000)]), 40_532_350_993.4);
    // The queue shrank by more than the link sent: arrivals count as half the link's rate.
    assert_rate(probe.ack(&[hop(100, 24_480, 306_000, 0)]), 77_146_466_887.4);
    // The same power again divides the same window; only the average moves on.
    assert_rate(probe.ack(&[hop(100, 36_720, 382_500, 0)]), 80_807_878_476.8);
}

/// docs/algorithms/powertcp.md#variant-simulator: power over 0.95, averaged with the window that is divided.
#[test]
fn the_simulator_averages_with_the_old_window() {
    let mut probe = probe("powertcp", "simulator");
    probe.ack_next_round(&[hop(100, 0, 0, 300_000)]);
    assert_rate(probe.ack_next_round(&[hop(100, 12_240, 153_000, 300_000)]), 39_012_483_443.7);
    for (at, tx) in [(24_480, 306_000), (36_720, 382_500)] {
        assert_rate(probe.ack(&[hop(100, at, tx, 0)]), 70_747_595_033.1);
    }
}

/// docs/algorithms/powertcp.md#a-paused-port: nothing arrives and nothing leaves, so the paper's power is 0 whatever the
/// queue.
#[test]
fn a_paused_port_is_congested() {
    let paused = |min_current: &str| {
        let scheme = scheme("powertcp", &[("min_current", min_current)]);
        let mut probe = SenderHarness::new(&*scheme, &params(gbps(100), TAU));
        probe.ack_next_round(&[hop(100, 0, 0, 600_000)]);
        probe.ack_next_round(&[hop(100, 12_240, 0, 600_000)]).rate
    };
    assert!(paused("0.5") < gbps(50));
    assert_eq!(paused("0"), gbps(100));
}

/// Delivers RTT samples, each in a new round trip and `TAU` after the one before, and returns the last decision.
fn rtts(probe: &mut SenderHarness, multiples_of_tau: &[u64]) -> Decision {
    for &multiple in multiples_of_tau {
        // The harness itself advances by a microsecond per ACK.
        probe.now += TAU.saturating_sub(Time::from_us(1));
        probe.rtt = Some(TAU * multiple);
        probe.ack_next_round(&[]);
    }
    probe.sender.decision()
}

/// docs/algorithms/powertcp.md#worked-numbers, theta: the RTT doubles, stays and halves.
#[test]
fn theta_follows_the_gradient() {
    let mut probe = probe("theta-powertcp", "paper");
    assert_eq!(rtts(&mut probe, &[1]).rate, gbps(100), "the first is only something to compare with");
    assert_rate(rtts(&mut probe, &[2]), 33_760_000_000.0);
    assert_rate(rtts(&mut probe, &[2]), 19_462_600_000.0);
    assert_rate(rtts(&mut probe, &[1]), 38_865_574_000.0);
}

/// PowerTCP Alg. 2 updates once per round trip; the authors' simulator reacts to each ACK, with another gamma.
#[test]
fn theta_updates_once_per_round_trip() {
    for (variant, within, after) in [("paper", 100e9, 33.76e9), ("simulator", 48.48e9, 48.48e9)] {
        let mut probe = probe("theta-powertcp", variant);
        rtts(&mut probe, &[1]);
        // One sample of the same round trip, `TAU` later, and one of the next at the same time.
        probe.now += TAU.saturating_sub(Time::from_us(1));
        probe.rtt = Some(TAU * 2);
        assert_rate(probe.ack(&[]), within);
        let mut probe = self::probe("theta-powertcp", variant);
        assert_rate(rtts(&mut probe, &[1, 2]), after);
    }
}

/// docs/algorithms/powertcp.md#tau-of-theta-powertcp: the smallest RTT counts, at most the host's.
#[test]
fn theta_learns_tau() {
    let run = |first: u64, second: u64| {
        let mut probe = probe("theta-powertcp", "paper");
        for rtt in [first, second, second] {
            probe.now += TAU.saturating_sub(Time::from_us(1));
            probe.rtt = Some(Time::from_ns(rtt));
            probe.ack_next_round(&[]);
        }
        probe.sender.decision()
    };
    // A path of half the length: the host's whole tau is a queue.
    assert!(run(6_120, 12_240).rate < gbps(60));
    assert_eq!(run(12_240, 12_240).rate, gbps(100));
    // A queue at the start is not taken for the path.
    assert!(run(24_480, 24_480).rate < gbps(60));
    // The window is the rate times that tau.
    assert_eq!(run(6_120, 6_120).window, Bytes::new(76_500));
}
