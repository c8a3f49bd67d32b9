//! Every scheme of the registry, also those written after this test: what any sender half must
//! hold, its parameters, and a small fabric.

use crate::common::expectations::Expectations;
use crate::common::probe::{Probe, hop, params};
use crate::common::{Faults, Net, RATE, all_schemes, all_ways};
use proptest::prelude::*;
use std::sync::Arc;
use weir_host::parameter::{Parameter, ParameterError};
use weir_host::scheme::{LossEvent, LossKind, RateEvent, SchemeConfig, TelemetryOn};
use weir_host::schemes::{Registry, SchemeError};
use weir_host::telemetry::{Clock, Hop};
use weir_units::{Bandwidth, Bytes, Time};

const T: Time = Time::from_us(12);

#[test]
fn flows_start_at_line_rate() {
    for scheme in all_schemes() {
        for nic in [Bandwidth::from_mbps(10), RATE, Bandwidth::from_gbps(400)] {
            let start = scheme.sender(&params(nic, T)).decision();
            assert_eq!(start.rate, nic, "{}", scheme.name());
            let slow = scheme.needs().transport.slow_start;
            assert!(slow || start.window >= nic.bytes_in(T), "{}: {}", scheme.name(), start.window);
            assert!(
                !slow || start.window < nic.bytes_in(T) || nic < RATE,
                "{}: {}",
                scheme.name(),
                start.window
            );
            assert_eq!(start.timer, None, "{}: there is nothing to wait for yet", scheme.name());
        }
    }
}

/// A hop as a forger or a broken switch may write it.
fn any_hop() -> impl Strategy<Value = Hop> {
    let rate = prop::sample::select(vec![0, 1_000_000, 10_000_000_000, 100_000_000_000, 800_000_000_000]);
    let edge = |max: u32| prop_oneof![Just(0), Just(max - 1), 0..max];
    (rate, edge(Hop::TICKS), edge(Hop::TX_BYTES), prop_oneof![Just(0), any::<u32>()]).prop_map(
        |(rate, at, tx_bytes, queue)| Hop { rate: Bandwidth::from_bps(rate), at, tx_bytes, queue, link: 0 },
    )
}

proptest! {
    /// Whatever a sender half is told, its window and rate stay above zero and within line rate, and its
    /// timer does not stand still.
    #[test]
    fn no_feedback_stops_a_flow_or_makes_it_faster_than_its_nic(
        which in any::<prop::sample::Index>(),
        nic in prop::sample::select(vec![1u64, 10_000_000, 100_000_000_000, 800_000_000_000]),
        clock in prop::sample::select(vec![Clock::Ns, Clock::Us]),
        steps in prop::collection::vec(
            (
                prop::collection::vec(any_hop(), 0..=8),
                (any::<u16>(), 0u16..3, any::<bool>(), prop::option::of(0u64..10_000_000_000)),
                0u8..9,
                0u64..20_000_000_000,
            ),
            1..60,
        ),
    ) {
        let scheme = which.get(&all_schemes()).clone();
        let nic = Bandwidth::from_bps(nic);
        let mut params = params(nic, T);
        params.clock = clock;
        let mut probe = Probe::new(&*scheme, &params);
        let start = probe.sender.decision();
        for (hops, (concurrency, path, marked, rtt), what, gap) in steps {
            probe.now += Time::from_ps(gap);
            probe.concurrency = concurrency;
            probe.path_id = path;
            probe.ecn_echo = marked;
            probe.rtt = rtt.map(Time::from_ps);
            let now = probe.now;
            let decision = match what {
                0 => probe.sender.on_cnp(now),
                8 => {
                    let rate = Bandwidth::from_bps(u64::from(concurrency) * u64::from(concurrency) * 1_000);
                    probe.sender.on_rate(&RateEvent { now, rate, point: (concurrency.into(), path) })
                }
                1 => {
                    let decision = probe.sender.on_timer(now);
                    prop_assert!(decision.timer.is_none_or(|at| at > now), "{:?} at {now}", decision);
                    decision
                }
                2 => probe.sender.on_loss(&LossEvent { now, kind: LossKind::Nack, seq: 0, snd_nxt: 9 }),
                3 | 4 => probe.commit(&hops),
                _ => probe.ack(&hops),
            };
            prop_assert!(decision.window >= Bytes::new(1), "{:?}", decision);
            // A window that starts small grows while it is filled: the probe has 100 packets on their way.
            let most = if scheme.needs().transport.slow_start { Bytes::new(102_000) } else { start.window };
            prop_assert!(decision.window <= most, "{:?}", decision);
            prop_assert!(decision.rate.as_bps() >= 1 && decision.rate <= nic, "{:?}", decision);
        }
    }
}

/// Schemes that use telemetry.
fn with_telemetry() -> Vec<Arc<dyn SchemeConfig>> {
    let mut all = all_schemes();
    all.retain(|s| !matches!(s.needs().telemetry, TelemetryOn::Nothing | TelemetryOn::Notices));
    all
}

/// Each of them with a congested path to start from.
fn congested() -> Vec<(Arc<dyn SchemeConfig>, Probe)> {
    let start = |scheme: Arc<dyn SchemeConfig>| {
        let mut probe = Probe::new(&*scheme, &params(RATE, T));
        probe.commit(&[hop(100, 0, 0, 300_000)]);
        probe.commit(&[hop(100, 12_000, 150_000, 300_000)]);
        assert!(probe.sender.decision().rate < RATE, "{}", scheme.name());
        (scheme, probe)
    };
    with_telemetry().into_iter().map(start).collect()
}

/// Telemetry that cannot be is left out and counted, and what follows is taken again.
#[test]
fn impossible_telemetry_is_left_out_and_counted() {
    for (scheme, mut probe) in congested() {
        let before = probe.sender.decision();
        let name = scheme.name();
        assert_eq!(
            probe.commit(&[Hop { rate: Bandwidth::ZERO, ..hop(0, 13_000, 162_500, 0) }]),
            before,
            "{name}"
        );
        assert_eq!(probe.commit(&[hop(100, 11_999, 162_500, 0)]), before, "{name}");
        // 1 MB in 1 us is 8 Tbit/s.
        assert_eq!(probe.commit(&[hop(100, 13_000, 1_150_000, 0)]), before, "{name}");
        let checks = probe.checks;
        assert_eq!((checks.unknown_rate, checks.backwards, checks.too_fast), (1, 1, 1), "{name}");
        // One frame more than the rate allows, counted when its first byte left, is no forgery.
        assert_ne!(probe.commit(&[hop(100, 12_001, 151_518, 0)]), before, "{name}");
        assert_eq!(probe.checks.total(), 3, "{name}");
    }
}

/// schemes.md §1.5 and §3.1: two ACKs with the same snapshot divide nothing by zero; the record
/// stays, so the next one measures from it.
#[test]
fn equal_timestamps_are_skipped() {
    for (scheme, mut probe) in congested() {
        let before = probe.sender.decision();
        for _ in 0..3 {
            assert_eq!(probe.commit(&[hop(100, 12_000, 151_000, 0)]), before, "{}", scheme.name());
        }
        // The counter ran on to 225,000: measured since 150,000 that is half the link in T.
        let next = probe.commit(&[hop(100, 24_000, 225_000, 0)]);
        let (_, mut direct) = congested().into_iter().find(|(s, _)| s.name() == scheme.name()).unwrap();
        assert_eq!(next, direct.commit(&[hop(100, 24_000, 225_000, 0)]), "{}", scheme.name());
    }
}

/// A hop without news keeps what it told: a less congested hop beside it must not pass for the worst.
#[test]
fn a_quiet_hop_does_not_hide_the_congestion_it_reported() {
    for scheme in with_telemetry() {
        let mut probe = Probe::new(&*scheme, &params(RATE, T));
        let crowded = |at, tx| hop(100, at, tx, 300_000);
        let idle = |at| hop(100, at, 0, 0);
        probe.commit(&[crowded(100, 0), idle(100)]);
        let congested = probe.commit(&[crowded(12_000, 150_000), idle(12_000)]);
        let next = probe.commit(&[crowded(12_000, 150_000), idle(24_000)]);
        assert_eq!(next, congested, "{}: the idle hop was taken for the worst", scheme.name());
    }
}

/// Counters wrap between two ACKs as if they had not.
#[test]
fn counters_wrap_unnoticed() {
    for scheme in with_telemetry() {
        let run = |at: u32, tx: u32| {
            let mut probe = Probe::new(&*scheme, &params(RATE, T));
            let hop = |ticks: u32, bytes: u32| {
                hop(100, (at + ticks) % Hop::TICKS, (tx + bytes) % Hop::TX_BYTES, 50_000)
            };
            probe.commit(&[hop(0, 0)]);
            let decision = probe.commit(&[hop(4_000, 50_000)]);
            assert_eq!(probe.checks.total(), 0, "{}", scheme.name());
            decision
        };
        assert_eq!(run(Hop::TICKS - 1_000, Hop::TX_BYTES - 10_000), run(0, 0), "{}", scheme.name());
    }
}

/// A flow idle for longer than a counter can tell: its next ACK only records (schemes.md §1.5).
/// The limit follows the clock and the rate of the port.
#[test]
fn long_gaps_restart_the_measurement() {
    let half_ns_wrap = Time::from_ns(1 << 23);
    let half_us_wrap = Time::from_us(1 << 23);
    // 2^27 bytes pass in 2.7 ms at 400G, which is sooner than 24 bits of nanoseconds wrap.
    let half_tx_wrap_400 = Bandwidth::from_gbps(400).tx_time(Bytes::new(1 << 26));
    let half_tx_wrap_10g = Bandwidth::from_gbps(10).tx_time(Bytes::new(1 << 26));
    for (clock, gbps, limit) in
        [(Clock::Ns, 10, half_ns_wrap), (Clock::Ns, 400, half_tx_wrap_400), (Clock::Us, 10, half_tx_wrap_10g)]
    {
        assert!(limit < half_us_wrap);
        for scheme in with_telemetry() {
            let after = |gap: Time| {
                let mut params = params(Bandwidth::from_gbps(gbps), T);
                params.clock = clock;
                let mut probe = Probe::new(&*scheme, &params);
                let start = probe.commit(&[hop(gbps, 0, 0, 9_000_000)]);
                // The probe itself takes a microsecond.
                probe.now += gap.saturating_sub(Time::from_us(1));
                let ticks = (gap / clock.tick()) as u32;
                (start, probe.commit(&[hop(gbps, ticks % (Hop::TICKS / 2), 1_000, 9_000_000)]))
            };
            let (start, within) = after(limit - Time::from_us(2));
            assert_ne!(within, start, "{} {clock:?} {gbps}G", scheme.name());
            let (start, beyond) = after(limit + Time::from_us(2));
            assert_eq!(beyond, start, "{} {clock:?} {gbps}G", scheme.name());
        }
    }
}

/// HPCC §4.1: another path, or one of another length, starts its records anew; the window stays.
#[test]
fn another_path_restarts_the_measurement() {
    for (scheme, mut probe) in congested() {
        let before = probe.sender.decision();
        probe.path_id = 0x123;
        assert_eq!(probe.commit(&[hop(100, 13_000, 162_500, 0)]), before, "{}", scheme.name());
        assert_ne!(probe.commit(&[hop(100, 14_000, 165_000, 0)]), before, "{}", scheme.name());
        let before = probe.sender.decision();
        let longer = [hop(100, 15_000, 168_000, 0), hop(100, 15_000, 0, 0)];
        assert_eq!(probe.commit(&longer), before, "{}", scheme.name());
        // A port that changed its rate starts anew alone.
        let faster = [hop(400, 16_000, 171_000, 0), hop(100, 16_000, 1_000, 0)];
        assert_ne!(probe.commit(&faster), before, "{}", scheme.name());
    }
}

/// Jain's index.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

/// Two flows into one port: within the time that the scheme says fair, the link busy, the queue as it
/// says, nothing repeated; and when one has stopped the other takes the line again.
#[test]
fn two_flows_share_a_port() {
    for (name, scheme) in all_ways() {
        let Expectations { fair_within, recovers_within, peak, steady } = Expectations::of(&*scheme);
        let mut net = Net::star(3, &scheme);
        let first = net.open(0, 2, None);
        net.run_until(Time::from_us(300));
        let second = net.open(1, 2, None);
        net.run_until(net.now + fair_within);
        let acked = |net: &Net| [net.flow(0, first).acked.as_f64(), net.flow(1, second).acked.as_f64()];
        let (before, met) = (acked(&net), net.peak[2]);
        net.peak[2] = 0;
        net.run_until(net.now + Time::from_ms(1));
        let after = acked(&net);
        let shares = [after[0] - before[0], after[1] - before[1]];
        let capacity = RATE.bytes_in(Time::from_ms(1)).as_f64() * 1390.0 / 1518.0;
        let share = shares.iter().sum::<f64>() / capacity;
        let later = net.peak[2];
        assert!(jain(&shares) > 0.95, "{name}: {shares:?}");
        assert!(share > 0.9, "{name}: {share} of the link");
        assert!(met < peak.get(), "{name}: {met} B");
        assert!(later < steady.get(), "{name}: {later} B once they know of each other");
        net.stop(1, second);
        net.run_until(net.now + recovers_within);
        let rate = net.flow(0, first).rate;
        assert!(rate.as_bps() > RATE.as_bps() * 9 / 10, "{name}: {rate}");
        for host in &net.hosts {
            let stats = host.stats();
            assert_eq!(
                (stats.retransmits, stats.telemetry.total(), stats.drops.total()),
                (0, 0, 0),
                "{name}"
            );
        }
    }
}

/// Two flows from the start, under some condition: Jain's index and the share of the link once they had
/// the time that their scheme asks for, and that nothing was repeated or dropped.
fn two_flows(name: &str, scheme: &Arc<dyn SchemeConfig>, faults: Faults, ack_every: u32) {
    let mut net = Net::with(3, scheme, 1, |config| config.ack_every = ack_every);
    net.faults = faults;
    let flows = [net.open(0, 2, None), net.open(1, 2, None)];
    net.run_until(Expectations::of(&**scheme).fair_within);
    let acked = |net: &Net| [0, 1].map(|host| net.flow(host, flows[host]).acked.as_f64());
    let before = acked(&net);
    net.run_until(net.now + Time::from_ms(1));
    let after = acked(&net);
    let shares = [after[0] - before[0], after[1] - before[1]];
    let capacity = RATE.bytes_in(Time::from_ms(1)).as_f64() * 1390.0 / 1518.0;
    let share = shares.iter().sum::<f64>() / capacity;
    assert!(jain(&shares) > 0.9 && share > 0.8, "{name}: {share} of the link, {shares:?}");
    let stats = net.hosts[0].stats();
    assert_eq!((stats.retransmits, stats.timeouts, stats.drops.total()), (0, 0, 0), "{name}");
}

/// Every packet and every answer to it arrives twice: feedback that tells nothing new neither starves a
/// flow nor stops it from sharing.
#[test]
fn feedback_that_comes_twice_is_survived() {
    for (name, scheme) in all_ways() {
        two_flows(&name, &scheme, Faults { duplicate: 1.0, ..Faults::default() }, 1);
    }
}

/// One ACK for eight packets (FNCC §3.2.3, HPCC++ §6.2).
#[test]
fn cumulative_acks_are_enough() {
    for (name, scheme) in all_ways() {
        two_flows(&name, &scheme, Faults::default(), 8);
    }
}

/// Sixteen flows of one message each into one port, all at line rate: every scheme gets them through, none
/// starves, and the line is busy while they last.
#[test]
fn an_incast_gets_through() {
    for (name, scheme) in all_ways() {
        let (senders, size) = (16, Bytes::from_kb(500));
        let mut net = Net::star(senders + 1, &scheme);
        for sender in 0..senders {
            net.open(sender, senders, Some(size));
        }
        net.run_to_end(Time::from_ms(50));
        let ideal = RATE.tx_time(size * senders as u64);
        let last = net.fcts().into_iter().max().expect("flows finished");
        assert!(last < ideal * 2, "{name}: the last finished after {last}, alone on the line {ideal}");
        assert_eq!(net.hosts.iter().map(|host| host.stats().retransmits).sum::<u64>(), 0, "{name}");
    }
}

/// Idle for longer than the clock of the telemetry counts, then on as if nothing had been.
#[test]
fn a_pause_longer_than_a_wrap() {
    for scheme in all_schemes() {
        let mut net = Net::star(2, &scheme);
        let flow = net.open(0, 1, None);
        for round in 1..6 {
            net.run_until(net.now + Time::from_us(1_000));
            net.pause(0, 1);
            net.run_until(net.now + Time::from_us(16_777 + round * 3_000));
            net.pause(0, 0);
            net.run_until(net.now + Time::from_us(320));
            let view = net.flow(0, flow);
            assert!(view.rate.as_bps() > RATE.as_bps() * 9 / 10, "{}: {}", scheme.name(), view.rate);
            assert_eq!(view.retransmits, 0);
        }
    }
}

/// Each parameter's default reads back as itself, is what a fresh scheme has, and nonsense is refused
/// with the range and without a change.
#[test]
fn parameters_are_read_and_written() {
    for mut scheme in Registry::builtin().schemes() {
        let name = scheme.name();
        let mut names = Vec::new();
        for Parameter { info, default } in scheme.parameters() {
            let default = default.as_str();
            assert_eq!(scheme.get(info.name).as_deref(), Some(default), "{name} {}", info.name);
            scheme.set(info.name, default).unwrap();
            assert_eq!(scheme.get(info.name).as_deref(), Some(default), "{name} {}", info.name);
            for nonsense in ["", "nonsense", "-1", "NaN"] {
                let error = scheme.set(info.name, nonsense).unwrap_err();
                assert!(
                    matches!(&error, ParameterError::BadValue { parameter, .. } if *parameter == info.name)
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
}

#[test]
fn schemes_are_made_by_name() {
    let tuned = Registry::builtin().make("fncc", &[("lhcs", "off"), ("eta", "90%")]).unwrap();
    assert_eq!(tuned.get("lhcs").as_deref(), Some("off"));
    assert_eq!(tuned.get("eta").as_deref(), Some("0.9"));
    let error = Registry::builtin().get("bbr").unwrap_err();
    let known: Vec<_> = Registry::builtin().names().collect();
    assert_eq!(error.to_string(), format!("there is no scheme \"bbr\", there are {}", known.join(", ")));
    let error = Registry::builtin().make("hpcc", &[("lhcs", "off")]).unwrap_err();
    assert!(matches!(error, SchemeError::Parameter(ParameterError::Unknown { scheme: "hpcc", .. })));
    assert!(error.to_string().starts_with("hpcc has no parameter \"lhcs\", it has eta, "), "{error}");
    let error = Registry::builtin().make("fncc", &[("beta", "2")]).unwrap_err();
    assert_eq!(error.to_string(), "beta: 2 is out of range, it takes 0.01 to 1");
}

/// A message whose END is lost must not keep its switch entry for good.
#[test]
fn entries_of_deflected_messages_expire_by_default() {
    let schemes = Registry::builtin();
    let lifetimes: Vec<_> = schemes.schemes().filter_map(|scheme| scheme.needs().deflection).collect();
    assert_eq!(lifetimes.len(), 3, "iofd, dart and weir");
    assert!(lifetimes.iter().all(|it| it.lifetime == Some(Time::from_ms(10))), "{lifetimes:?}");
    let forever = schemes.make("dart", &[("entry_lifetime", "off")]).unwrap();
    assert_eq!(forever.needs().deflection.and_then(|it| it.lifetime), None);
}
