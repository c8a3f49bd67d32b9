//! Conformance tests for schemes with any control law. Each function panics if the scheme fails.

use crate::net::{Faults, RATE, TestNetwork};
use crate::sender_harness::{SenderHarness, hop, params};
use proptest::prelude::*;
use std::sync::Arc;
use weir_host::parameter::{Parameter, ParameterError};
use weir_host::scheme::{
    CongestionPoint, FlowParams, LossEvent, LossKind, RateEvent, SchemeConfig, TelemetrySource,
};
use weir_host::telemetry::Hop;
use weir_units::{Bandwidth, Bytes, Time};

/// A scheme with its parameter values.
pub type SchemeRef = Arc<dyn SchemeConfig>;

/// Approximate share of a full frame that is payload, with room reserved for eight telemetry records.
const PAYLOAD_SHARE: f64 = 1390.0 / 1518.0;
const FLOW_BASE_RTT: Time = Time::from_us(12);
/// Tick of the clock of a hardware switch.
const NS_TICK: Time = Time::from_ns(1);
/// Tick of the clock of BMv2.
const US_TICK: Time = Time::from_us(1);

/// Bounds for two flows that share a port of 100 Gbit/s with a base RTT of 6 us, with default parameters. The second
/// flow starts when the first one uses the whole link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectations {
    /// Time from the start of the second flow until Jain's fairness index exceeds 0.95 and the link is busy.
    pub fair_within: Time,
    /// Time from the end of the second flow until the first one uses nine tenths of the link again.
    pub recovers_within: Time,
    /// Longest queue in bytes, including the start of the second flow at line rate.
    pub peak: Bytes,
    /// Longest queue in bytes once both flows have converged.
    pub steady: Bytes,
}

/// Defines a module `$name` with a test for each function of this module, run on a scheme of type `$scheme` with
/// default parameters.
#[macro_export]
macro_rules! conformance {
    ($name:ident: $scheme:ty, $expectations:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            use $crate::conformance;

            fn scheme() -> conformance::SchemeRef {
                conformance::default_config::<$scheme>()
            }

            $crate::conformance!(@tests scheme:
                starts_at_line_rate, survives_any_feedback, ignores_implausible_telemetry, skips_equal_timestamps,
                remembers_a_quiet_hop, counts_across_wraps, restarts_after_long_gaps, restarts_on_another_path,
                continues_after_a_long_pause, completes_an_incast);
            $crate::conformance!(@bounded scheme, $expectations,
                shares_a_port, survives_repeated_feedback, needs_few_acks);

            #[test]
            fn reads_and_writes_its_parameters() {
                conformance::reads_and_writes_its_parameters(scheme());
            }
        }
    };
    (@tests $scheme:ident: $($test:ident),+) => {
        $(
            #[test]
            fn $test() {
                conformance::$test(&$scheme());
            }
        )+
    };
    (@bounded $scheme:ident, $expectations:expr, $($test:ident),+) => {
        $(
            #[test]
            fn $test() {
                conformance::$test(&$scheme(), &$expectations);
            }
        )+
    };
}

/// Returns the scheme of type `S` with its default parameters.
///
/// # Panics
///
/// A built-in scheme has the same name.
pub fn default_config<S: weir_host::scheme::Scheme>() -> SchemeRef {
    let registry = weir_host::schemes::Registry::builtin().with::<S>();
    registry.get(S::NAME).expect("defaults are in range")
}

/// Checks that flows start at line rate, or with a window below it in slow start.
///
/// # Panics
///
/// The first decision of a sender has another rate or window, or starts a timer.
pub fn starts_at_line_rate(scheme: &SchemeRef) {
    for nic in [Bandwidth::from_mbps(10), RATE, Bandwidth::from_gbps(400)] {
        let start = scheme.sender(&params(nic, FLOW_BASE_RTT)).decision();
        assert_eq!(start.rate, nic, "{}", scheme.name());
        let uses_slow_start = scheme.needs().transport.uses_slow_start;
        assert!(
            uses_slow_start || start.window >= nic.bytes_in(FLOW_BASE_RTT),
            "{}: {}",
            scheme.name(),
            start.window
        );
        assert!(
            !uses_slow_start || start.window < nic.bytes_in(FLOW_BASE_RTT) || nic < RATE,
            "{}: {}",
            scheme.name(),
            start.window
        );
        assert_eq!(start.timer, None, "{}: a timer before any event", scheme.name());
    }
}

/// Generates hops as a forger or a faulty switch may write them.
fn any_hop() -> impl Strategy<Value = Hop> {
    let rate = prop::sample::select(vec![0, 1_000_000, 10_000_000_000, 100_000_000_000, 800_000_000_000]);
    let edge = |max: u32| prop_oneof![Just(0), Just(max - 1), 0..max];
    (rate, edge(Hop::TIMESTAMP_MODULUS), edge(Hop::TX_BYTES_MODULUS), prop_oneof![Just(0), any::<u32>()])
        .prop_map(|(rate, at, tx_bytes, queue)| {
            let rate = Bandwidth::from_bps(rate);
            Hop { rate, timestamp: at, tx_bytes, queue, link: 0, queue_share: None }
        })
}

/// Checks that window and rate stay above zero and within line rate, and that timers advance, for arbitrary feedback.
pub fn survives_any_feedback(scheme: &SchemeRef) {
    let step = || {
        (
            prop::collection::vec(any_hop(), 0..=8),
            (any::<u16>(), 0u16..3, any::<bool>(), prop::option::of(0u64..10_000_000_000)),
            0u8..9,
            0u64..20_000_000_000u64,
        )
    };
    proptest!(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() }, |(
        nic in prop::sample::select(vec![1u64, 10_000_000, 100_000_000_000, 800_000_000_000]),
        tick in prop::sample::select(vec![NS_TICK, US_TICK]),
        steps in prop::collection::vec(step(), 1..60),
    )| {
        let nic = Bandwidth::from_bps(nic);
        let mut params = params(nic, FLOW_BASE_RTT);
        params.tick = tick;
        let mut harness = SenderHarness::new(&**scheme, &params);
        let start = harness.sender.decision();
        for (hops, (concurrency, path, marked, rtt), event, gap) in steps {
            harness.now += Time::from_ps(gap);
            harness.concurrency = concurrency;
            harness.path_id = path;
            harness.ecn_echo = marked;
            harness.rtt = rtt.map(Time::from_ps);
            let now = harness.now;
            let decision = match event {
                0 => harness.sender.on_cnp(now),
                8 => {
                    let rate = Bandwidth::from_bps(u64::from(concurrency) * u64::from(concurrency) * 1_000);
                    let congestion_point = CongestionPoint { port: concurrency.into(), path_id: path };
                    harness.sender.on_rate(&RateEvent { now, rate, congestion_point })
                }
                1 => {
                    let decision = harness.sender.on_timer(now);
                    prop_assert!(
                        decision.timer.is_none_or(|at| at > now),
                        "a timer must be later than now, {now}: {:?}",
                        decision
                    );
                    decision
                }
                2 => harness.sender.on_loss(&LossEvent { now, kind: LossKind::Nack, seq: 0, snd_nxt: 9 }),
                3 | 4 => harness.ack_next_round(&hops),
                _ => harness.ack(&hops),
            };
            prop_assert!(decision.window >= Bytes::new(1), "the window must be at least 1 B: {:?}", decision);
            // With slow start the window grows while it is used: the harness has 100 packets in flight.
            let max = if scheme.needs().transport.uses_slow_start { Bytes::new(102_000) } else { start.window };
            let max = if decision.window > max { max.max(max_window(scheme, &params)) } else { max };
            prop_assert!(decision.window <= max, "the window must not exceed {max}: {:?}", decision);
            prop_assert!(
                decision.rate.as_bps() >= 1 && decision.rate <= nic,
                "the rate must be from 1 bit/s to the NIC's {nic}: {:?}",
                decision
            );
        }
    });
}

/// Returns the largest window that a sender reaches without congestion: it grows until several round trips
/// of ACKs change nothing.
fn max_window(scheme: &SchemeRef, params: &FlowParams) -> Bytes {
    let mut harness = SenderHarness::new(&**scheme, params);
    harness.rtt = Some(Time::from_ns(1));
    let (mut window, mut unchanged) = (harness.sender.decision().window, 0);
    while unchanged < 10_000 {
        let next = harness.ack_next_round(&[]).window;
        unchanged = if next > window { 0 } else { unchanged + 1 };
        window = window.max(next);
    }
    window
}

fn uses_telemetry(scheme: &SchemeRef) -> bool {
    !matches!(scheme.needs().telemetry, TelemetrySource::None | TelemetrySource::RateNotifications)
}

/// Returns a harness whose sender has seen a congested path; `None` if the scheme uses no telemetry.
fn congested(scheme: &SchemeRef) -> Option<SenderHarness> {
    if !uses_telemetry(scheme) {
        return None;
    }
    let mut harness = SenderHarness::new(&**scheme, &params(RATE, FLOW_BASE_RTT));
    harness.ack_next_round(&[hop(100, 0, 0, 300_000)]);
    harness.ack_next_round(&[hop(100, 12_000, 150_000, 300_000)]);
    assert!(harness.sender.decision().rate < RATE, "{}", scheme.name());
    Some(harness)
}

/// Checks that implausible telemetry is ignored and counted, and that valid telemetry is used afterwards.
///
/// # Panics
///
/// An implausible record changes the decision or is not counted, or a valid one after it changes nothing.
pub fn ignores_implausible_telemetry(scheme: &SchemeRef) {
    if let Some(mut harness) = congested(scheme) {
        let before = harness.sender.decision();
        let name = scheme.name();
        assert_eq!(
            harness.ack_next_round(&[Hop { rate: Bandwidth::ZERO, ..hop(0, 13_000, 162_500, 0) }]),
            before,
            "{name}"
        );
        assert_eq!(harness.ack_next_round(&[hop(100, 11_999, 162_500, 0)]), before, "{name}");
        // 1 MB in 1 us is 8 Tbit/s.
        assert_eq!(harness.ack_next_round(&[hop(100, 13_000, 1_150_000, 0)]), before, "{name}");
        let checks = harness.checks;
        assert_eq!((checks.unknown_rate, checks.stale, checks.too_fast), (1, 1, 1), "{name}");
        // One frame more than the rate allows is plausible: switches count a frame when its first byte leaves.
        assert_ne!(harness.ack_next_round(&[hop(100, 12_001, 151_518, 0)]), before, "{name}");
        assert_eq!(harness.checks.total(), 3, "{name}");
    }
}

/// Checks that two ACKs with the same snapshot cause no division by zero
/// (docs/algorithms/README.md#same-snapshot): the stored record stays, and the next ACK is measured from it.
///
/// # Panics
///
/// The second ACK changes the decision, or the third one measures from another record.
pub fn skips_equal_timestamps(scheme: &SchemeRef) {
    if let Some(mut harness) = congested(scheme) {
        let before = harness.sender.decision();
        for _ in 0..3 {
            assert_eq!(harness.ack_next_round(&[hop(100, 12_000, 151_000, 0)]), before, "{}", scheme.name());
        }
        // The counter advances to 225,000: measured since 150,000, that is half the link's rate over T.
        let next = harness.ack_next_round(&[hop(100, 24_000, 225_000, 0)]);
        let mut without_repeats = congested(scheme).expect("the scheme uses telemetry");
        assert_eq!(
            next,
            without_repeats.ack_next_round(&[hop(100, 24_000, 225_000, 0)]),
            "{}",
            scheme.name()
        );
    }
}

/// Checks that a hop without new data keeps its last value: a less congested hop must not become the bottleneck.
///
/// # Panics
///
/// The decision is that of the less congested hop.
pub fn remembers_a_quiet_hop(scheme: &SchemeRef) {
    if uses_telemetry(scheme) {
        let mut harness = SenderHarness::new(&**scheme, &params(RATE, FLOW_BASE_RTT));
        let busy_hop = |ticks, tx| hop(100, ticks, tx, 300_000);
        let idle_hop = |ticks| hop(100, ticks, 0, 0);
        harness.ack_next_round(&[busy_hop(100, 0), idle_hop(100)]);
        let congested = harness.ack_next_round(&[busy_hop(12_000, 150_000), idle_hop(12_000)]);
        let next = harness.ack_next_round(&[busy_hop(12_000, 150_000), idle_hop(24_000)]);
        assert_eq!(next, congested, "{}: the idle hop became the bottleneck", scheme.name());
    }
}

/// Checks that counters that wrap between two ACKs are measured as if they did not.
///
/// # Panics
///
/// The decision differs from the one without a wrap, or the telemetry is counted as implausible.
pub fn counts_across_wraps(scheme: &SchemeRef) {
    if uses_telemetry(scheme) {
        let run = |start_ticks: u32, start_tx: u32| {
            let mut harness = SenderHarness::new(&**scheme, &params(RATE, FLOW_BASE_RTT));
            let hop = |ticks: u32, bytes: u32| {
                let timestamp = (start_ticks + ticks) % Hop::TIMESTAMP_MODULUS;
                hop(100, timestamp, (start_tx + bytes) % Hop::TX_BYTES_MODULUS, 50_000)
            };
            harness.ack_next_round(&[hop(0, 0)]);
            let decision = harness.ack_next_round(&[hop(4_000, 50_000)]);
            assert_eq!(harness.checks.total(), 0, "{}", scheme.name());
            decision
        };
        assert_eq!(
            run(Hop::TIMESTAMP_MODULUS - 1_000, Hop::TX_BYTES_MODULUS - 10_000),
            run(0, 0),
            "{}",
            scheme.name()
        );
    }
}

/// Checks that the first ACK after an idle time that is too long for the counters only stores its records
/// (docs/algorithms/README.md#wraps). The limit depends on the clock and on the port's rate.
///
/// # Panics
///
/// An ACK within the limit changes nothing, or one beyond it changes the decision.
pub fn restarts_after_long_gaps(scheme: &SchemeRef) {
    let half_ns_wrap = Time::from_ns(1 << 23);
    let half_us_wrap = Time::from_us(1 << 23);
    // At 400G the byte counter (2^27) wraps in 2.7 ms, sooner than the timestamp (2^24 ns).
    let half_tx_wrap_400g = Bandwidth::from_gbps(400).tx_time(Bytes::new(1 << 26));
    let half_tx_wrap_10g = Bandwidth::from_gbps(10).tx_time(Bytes::new(1 << 26));
    for (tick, gbps, limit) in
        [(NS_TICK, 10, half_ns_wrap), (NS_TICK, 400, half_tx_wrap_400g), (US_TICK, 10, half_tx_wrap_10g)]
    {
        assert!(limit < half_us_wrap);
        if !uses_telemetry(scheme) {
            return;
        }
        // A standing queue is known of without the counters.
        let after = |gap: Time, queue: u32| {
            let mut params = params(Bandwidth::from_gbps(gbps), FLOW_BASE_RTT);
            params.tick = tick;
            let mut harness = SenderHarness::new(&**scheme, &params);
            let start = harness.ack_next_round(&[hop(gbps, 0, 0, queue)]);
            // The harness itself advances by a microsecond per ACK.
            harness.now += gap.saturating_sub(Time::from_us(1));
            let ticks = (gap / tick) as u32;
            (start, harness.ack_next_round(&[hop(gbps, ticks % (Hop::TIMESTAMP_MODULUS / 2), 1_000, queue)]))
        };
        let (start, within) = after(limit - Time::from_us(2), 9_000_000);
        assert_ne!(within, start, "{} {tick} {gbps}G", scheme.name());
        let (start, beyond) = after(limit + Time::from_us(2), 0);
        assert_eq!(beyond, start, "{} {tick} {gbps}G", scheme.name());
    }
}

/// Checks that another path, or a path of another length, restarts the measurement without changing the window (HPCC
/// §4.1).
///
/// # Panics
///
/// The first ACK of the other path changes the decision, or the second one changes nothing.
pub fn restarts_on_another_path(scheme: &SchemeRef) {
    if let Some(mut harness) = congested(scheme) {
        let before = harness.sender.decision();
        harness.path_id = 0x123;
        assert_eq!(harness.ack_next_round(&[hop(100, 13_000, 162_500, 0)]), before, "{}", scheme.name());
        assert_ne!(harness.ack_next_round(&[hop(100, 14_000, 165_000, 0)]), before, "{}", scheme.name());
        let before = harness.sender.decision();
        let longer = [hop(100, 15_000, 168_000, 0), hop(100, 15_000, 0, 0)];
        assert_eq!(harness.ack_next_round(&longer), before, "{}", scheme.name());
        // If a port's rate has changed, the measurement of this hop alone restarts.
        let faster = [hop(400, 16_000, 171_000, 0), hop(100, 16_000, 1_000, 0)];
        assert_ne!(harness.ack_next_round(&faster), before, "{}", scheme.name());
    }
}

/// Returns Jain's fairness index.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

/// Checks that two flows to one port share it within `expectations`: fair, with a busy link, bounded queues and no
/// retransmissions; and that after the end of one the other uses the whole link again.
///
/// # Panics
///
/// A bound of `expectations` does not hold, or a packet was dropped or sent again.
pub fn shares_a_port(scheme: &SchemeRef, expectations: &Expectations) {
    let name = scheme.name();
    let Expectations { fair_within, recovers_within, peak, steady } = *expectations;
    let mut net = TestNetwork::star(3, scheme);
    let first = net.open(0, 2, None);
    net.run_until(Time::from_us(300));
    let second = net.open(1, 2, None);
    net.run_until(net.now + fair_within);
    let acked = |net: &TestNetwork| [net.flow(0, first).acked.as_f64(), net.flow(1, second).acked.as_f64()];
    let (before, first_peak) = (acked(&net), net.peak_queue[2]);
    net.peak_queue[2] = 0;
    net.run_until(net.now + Time::from_ms(1));
    let after = acked(&net);
    let shares = [after[0] - before[0], after[1] - before[1]];
    let capacity = RATE.bytes_in(Time::from_ms(1)).as_f64() * PAYLOAD_SHARE;
    let utilisation = shares.iter().sum::<f64>() / capacity;
    let steady_peak = net.peak_queue[2];
    assert!(jain(&shares) > 0.95, "{name}: {shares:?}");
    assert!(utilisation > 0.9, "{name}: {utilisation} of the link");
    assert!(first_peak < peak.get(), "{name}: queue of {first_peak} B before convergence");
    assert!(steady_peak < steady.get(), "{name}: queue of {steady_peak} B after convergence");
    net.stop(1, second);
    net.run_until(net.now + recovers_within);
    let rate = net.flow(0, first).sending_rate;
    assert!(rate.as_bps() > RATE.as_bps() * 9 / 10, "{name}: {rate}");
    for host in &net.hosts {
        let stats = host.stats();
        assert_eq!((stats.retransmits, stats.telemetry.total(), stats.drops.total()), (0, 0, 0), "{name}");
    }
}

/// Checks that two flows that start together share the link fairly after the scheme's convergence time, without
/// retransmissions or drops.
fn two_flows_share_fairly(scheme: &SchemeRef, expectations: &Expectations, faults: Faults, ack_every: u32) {
    let name = scheme.name();
    let mut net = TestNetwork::with_config(3, scheme, 1, |config| config.ack_every = ack_every);
    net.faults = faults;
    let flows = [net.open(0, 2, None), net.open(1, 2, None)];
    net.run_until(expectations.fair_within);
    let acked = |net: &TestNetwork| [0, 1].map(|host| net.flow(host, flows[host]).acked.as_f64());
    let before = acked(&net);
    net.run_until(net.now + Time::from_ms(1));
    let after = acked(&net);
    let shares = [after[0] - before[0], after[1] - before[1]];
    let capacity = RATE.bytes_in(Time::from_ms(1)).as_f64() * PAYLOAD_SHARE;
    let utilisation = shares.iter().sum::<f64>() / capacity;
    assert!(jain(&shares) > 0.9 && utilisation > 0.8, "{name}: {utilisation} of the link, {shares:?}");
    let stats = net.hosts[0].stats();
    assert_eq!((stats.retransmits, stats.timeouts, stats.drops.total()), (0, 0, 0), "{name}");
}

/// Checks that two flows share a port even if the network delivers every packet twice: duplicate feedback must neither
/// starve a flow nor make it too aggressive.
pub fn survives_repeated_feedback(scheme: &SchemeRef, expectations: &Expectations) {
    two_flows_share_fairly(scheme, expectations, Faults { duplicate: 1.0, ..Faults::default() }, 1);
}

/// Checks that two flows share a port with one ACK for eight packets (FNCC §3.2.3, HPCC++ §6.2).
pub fn needs_few_acks(scheme: &SchemeRef, expectations: &Expectations) {
    two_flows_share_fairly(scheme, expectations, Faults::default(), 8);
}

/// Checks that sixteen flows that start at line rate into one port finish: no flow starves, and the link stays busy.
///
/// # Panics
///
/// The last flow takes more than twice the ideal time, or a packet was sent again.
pub fn completes_an_incast(scheme: &SchemeRef) {
    let name = scheme.name();
    let (senders, size) = (16, Bytes::from_kb(500));
    let mut net = TestNetwork::star(senders + 1, scheme);
    for sender in 0..senders {
        net.open(sender, senders, Some(size));
    }
    net.run_to_end(Time::from_ms(50));
    let ideal = RATE.tx_time(size * senders as u64);
    let last = net.fcts().into_iter().max().expect("flows finished");
    assert!(last < ideal * 2, "{name}: the last flow finished after {last}, ideal is {ideal}");
    assert_eq!(net.hosts.iter().map(|host| host.stats().retransmits).sum::<u64>(), 0, "{name}");
}

/// Checks that a flow that was idle for longer than the telemetry clock's range continues as before.
///
/// # Panics
///
/// The flow has less than nine tenths of the link afterwards, or a packet was sent again.
pub fn continues_after_a_long_pause(scheme: &SchemeRef) {
    let mut net = TestNetwork::star(2, scheme);
    let flow = net.open(0, 1, None);
    for round in 1..6 {
        net.run_until(net.now + Time::from_us(1_000));
        net.pause(0, 1);
        net.run_until(net.now + Time::from_us(16_777 + round * 3_000));
        net.pause(0, 0);
        net.run_until(net.now + Time::from_us(320));
        let info = net.flow(0, flow);
        assert!(info.rate.as_bps() > RATE.as_bps() * 9 / 10, "{}: {}", scheme.name(), info.rate);
        assert_eq!(info.retransmits, 0);
    }
}

/// Checks that each parameter has its default in a new scheme and can be set to it, and that invalid values are refused
/// with a message that contains the range, without changing the scheme.
///
/// # Panics
///
/// A parameter breaks one of these rules, has no description, or occurs twice.
pub fn reads_and_writes_its_parameters(mut scheme: SchemeRef) {
    let scheme = Arc::get_mut(&mut scheme).expect("there is no other reference to the scheme");
    let name = scheme.name();
    let mut names = Vec::new();
    for Parameter { info, default, .. } in scheme.parameters() {
        let default = default.as_str();
        assert_eq!(scheme.get(info.name).as_deref(), Some(default), "{name} {}", info.name);
        scheme.set(info.name, default).unwrap();
        assert_eq!(scheme.get(info.name).as_deref(), Some(default), "{name} {}", info.name);
        for invalid in ["", "nonsense", "-1", "NaN"] {
            let error = scheme.set(info.name, invalid).unwrap_err();
            assert!(
                matches!(&error, ParameterError::InvalidValue { parameter, .. } if *parameter == info.name)
            );
            assert!(error.to_string().contains(info.range), "{error}");
            assert_eq!(scheme.get(info.name).as_deref(), Some(default));
        }
        for text in [info.unit, info.range, info.symbol, info.source, info.help] {
            assert!(!text.is_empty(), "{name} {}", info.name);
        }
        names.push(info.name);
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "{name} has a parameter twice");
    let unknown = scheme.set("colour", "red").unwrap_err();
    assert!(matches!(unknown, ParameterError::Unknown { .. }));
    assert_eq!(scheme.get("colour"), None);
}
