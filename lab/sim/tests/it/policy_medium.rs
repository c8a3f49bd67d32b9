//! Policies by Trickle over a lossy broadcast medium (`docs/policy.md`): what RFC 6206 promises, and what it warns of.

use std::num::NonZeroU32;
use weir_host::DropReason;
use weir_host::policy::{Policy, PolicyConfig, PolicyKey, PolicyNode};
use weir_host::schemes::Registry;
use weir_host::trickle::TrickleConfig;
use weir_sim::medium::{Medium, address};
use weir_units::Time;

const IMIN: Time = Time::from_us(50);
/// Half of a round trip, where Imin is 16 round trips, the default.
const DELAY: Time = Time::from_ns(1_562);
const DOUBLINGS: u32 = 6;
const MAX_INTERVAL: Time = Time::from_us(50 << DOUBLINGS);

fn config(k: u32) -> PolicyConfig {
    let key = PolicyKey::new(b"what all of them know").unwrap();
    let trickle = TrickleConfig::new(IMIN, DOUBLINGS, k).unwrap();
    PolicyConfig { trickle, ..PolicyConfig::new(key, 0, Time::from_us(10)) }
}

fn nodes(count: usize, k: u32, loss: f64) -> Medium {
    Medium::new(vec![config(k); count], DELAY, loss, 1)
}

fn policy(eta: &str) -> Policy {
    Policy::of(&*Registry::builtin().make("hpcc", &[("eta", eta)]).unwrap())
}

/// All quiet: intervals at their longest.
fn settle(medium: &mut Medium) {
    let until = medium.now + MAX_INTERVAL * 4;
    medium.run_until(until);
    assert!(medium.nodes.iter().all(|node| node.trickle().interval() == MAX_INTERVAL));
}

/// From the quiet of the longest intervals: the one who sets it resets, speaks in the second half of an Imin, and all hear
/// it. With loss it takes the next to say it again.
#[test]
fn a_new_policy_reaches_all_within_a_few_imin() {
    for (count, loss, max) in
        [(16, 0.0, 2), (64, 0.0, 2), (256, 0.0, 2), (64, 0.2, 4), (256, 0.5, 6), (1_024, 0.2, 4)]
    {
        let mut medium = nodes(count, 2, loss);
        settle(&mut medium);
        let began = medium.now;
        let id = medium.set(count / 2, policy("0.9")).unwrap();
        let all = medium.run_until_converged(id, began + MAX_INTERVAL).expect("it spreads");
        let imins = (all - began).as_secs_f64() / IMIN.as_secs_f64();
        assert!(imins <= f64::from(max), "{count} nodes, loss {loss}: {imins:.1} Imin");
        assert!(imins >= 0.5, "nothing is sent at a reset");
    }
}

/// Each interval is twice as long as the one before, and has as many messages in all.
#[test]
fn messages_per_host_fall_as_intervals_double() {
    let mut medium = nodes(128, 2, 0.0);
    settle(&mut medium);
    let began = medium.now;
    medium.set(3, policy("0.9")).unwrap();
    medium.run_until(began + MAX_INTERVAL * 4);
    let mut from = began + IMIN * 2;
    for doubling in 1..DOUBLINGS {
        let to = from + IMIN * (1 << doubling);
        let sent = medium.sent_within(from, to);
        assert!((1..=10).contains(&sent), "interval {doubling}: {sent} messages of 128 hosts");
        from = to;
    }
    let (sent, hosts) = (medium.sent_within(from, medium.now), medium.nodes.len());
    let rounds = (medium.now - from).as_secs_f64() / MAX_INTERVAL.as_secs_f64();
    assert!((sent as f64) < 6.0 * rounds, "{sent} messages of {hosts} hosts in {rounds:.1} intervals");
}

/// Messages in all, per longest interval.
fn messages_per_interval(count: usize, k: u32, loss: f64) -> f64 {
    const INTERVALS: u64 = 20;
    let mut medium = nodes(count, k, loss);
    medium.run_until(MAX_INTERVAL * 6);
    let from = medium.now;
    medium.run_until(from + MAX_INTERVAL * INTERVALS);
    medium.sent_within(from, medium.now) as f64 / INTERVALS as f64
}

/// Levis 2004: with loss some hear too little, and how many do grows with the logarithm of their number.
#[test]
fn messages_per_interval_grow_no_faster_than_the_logarithm() {
    for loss in [0.0, 0.2, 0.5] {
        let of: Vec<f64> = [16, 64, 256].map(|count| messages_per_interval(count, 1, loss)).into();
        let steps = [of[1] - of[0], of[2] - of[1]];
        // The same step for four times the nodes, give or take: linear growth would have four times the step.
        assert!(steps[1] < 1.5 * steps[0].max(1.0) + 1.0, "loss {loss}: {of:?}");
        assert!(of[2] < 2.5 * of[0] + 2.0, "loss {loss}: {of:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_messages() {
    let run = |seed| {
        let mut medium = Medium::new(vec![config(2); 32], DELAY, 0.3, seed);
        medium.run_until(MAX_INTERVAL * 3);
        medium.sent
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn a_late_host_catches_up() {
    let late = PolicyConfig { start: MAX_INTERVAL * 5, ..config(2) };
    let mut medium = Medium::new([vec![config(2); 31], vec![late]].concat(), DELAY, 0.1, 1);
    medium.partitions[31] = 0;
    medium.run_until(MAX_INTERVAL * 2);
    let id = medium.set(0, policy("0.9")).unwrap();
    medium.run_until(MAX_INTERVAL * 5);
    assert_eq!(medium.count_holding(id), 31);
    medium.partitions[31] = 1;
    let all = medium.run_until_converged(id, MAX_INTERVAL * 6).expect("it asks by being older");
    // It speaks within an Imin, the others reset, and one of them answers within an Imin.
    assert!(all - MAX_INTERVAL * 5 <= IMIN * 6, "{}", all - MAX_INTERVAL * 5);
}

/// A partition, a policy on each side, and then one network again: the higher version wins, or with equal versions the
/// higher writer; who lost is told.
#[test]
fn a_partition_heals_to_one_winner() {
    let mut medium = nodes(40, 2, 0.1);
    settle(&mut medium);
    (20..40).for_each(|node| medium.partitions[node] = 2);
    let low = medium.set(5, policy("0.9")).unwrap();
    let high = medium.set(30, policy("0.8")).unwrap();
    let until = medium.now + MAX_INTERVAL * 3;
    medium.run_until(until);
    assert_eq!((medium.count_holding(low), medium.count_holding(high), low.version), (20, 20, high.version));
    medium.partitions.fill(1);
    let healed = medium.now;
    let all = medium.run_until_converged(high, healed + MAX_INTERVAL * 3).expect("one wins");
    assert!(all - healed <= MAX_INTERVAL + IMIN * 8, "{}", all - healed);
    let told = |node: &PolicyNode| node.history().any(|record| record.lost);
    let losers: Vec<_> = (0..40).filter(|&node| told(&medium.nodes[node])).collect();
    assert_eq!(losers, [5], "who set the one that lost, and nobody else");
    // What is set next beats both.
    let next = medium.set(5, policy("0.7")).unwrap();
    assert_eq!(next.version, high.version + 1);
    let until = medium.now + MAX_INTERVAL;
    assert!(medium.run_until_converged(next, until).is_some());
    assert!((0..40).filter(|&node| told(&medium.nodes[node])).eq([5]), "30 was not beaten, but followed");
}

/// Hosts come and go all the time, one in ten per longest interval; all that are present at the end agree.
#[test]
fn churn_does_no_harm() {
    let mut medium = nodes(60, 2, 0.2);
    settle(&mut medium);
    let mut last = None;
    for round in 0..12u64 {
        let of = |round: u64| (0..6).map(move |i| ((round * 6 + i) * 37 % 60) as usize);
        of(round).for_each(|node| medium.partitions[node] = 0);
        if let Some(back) = round.checked_sub(3) {
            of(back).for_each(|node| medium.partitions[node] = 1);
        }
        let setter = (0..60).find(|&node| medium.partitions[node] == 1).unwrap();
        last = Some(medium.set(setter, policy(&format!("0.{}", 50 + round))).unwrap());
        let until = medium.now + MAX_INTERVAL;
        medium.run_until(until);
    }
    medium.partitions.fill(1);
    let (id, until) = (last.unwrap(), medium.now + MAX_INTERVAL * 4);
    assert!(medium.run_until_converged(id, until).is_some(), "{} hold {id}", medium.count_holding(id));
}

fn sent_by(medium: &Medium, from: Time, chosen: impl Fn(usize) -> bool) -> usize {
    medium.sent.iter().filter(|(at, node)| *at >= from && chosen(*node)).count()
}

/// RFC 6206 §6.1: where all have k = 1 and one has 2, it may speak in every interval, whatever their number.
#[test]
fn a_higher_k_sends_more_messages() {
    let mut configs = vec![config(1); 64];
    configs[7] = config(2);
    let mut medium = Medium::new(configs, DELAY, 0.0, 3);
    settle(&mut medium);
    let from = medium.now;
    medium.run_until(from + MAX_INTERVAL * 40);
    let odd = sent_by(&medium, from, |node| node == 7);
    let others = sent_by(&medium, from, |node| node != 7) as f64 / 63.0;
    assert!(odd >= 30, "it speaks in almost every interval of 40: {odd}");
    assert!(others < 2.0, "the others share what is left: {others:.2} each");
}

/// RFC 6206 §6.2: a faster Imin speaks first after a reset, and quiets the slower ones for no longer than one of their
/// shortest intervals.
#[test]
fn a_lower_imin_is_ahead_for_one_slow_interval_only() {
    const FASTER: u64 = 8;
    let slow = config(1);
    let trickle = TrickleConfig { imin: IMIN / FASTER, doublings: DOUBLINGS + 3, ..slow.trickle };
    let fast = PolicyConfig { trickle, ..slow.clone() };
    let configs: Vec<_> = (0..32).map(|i| if i < 4 { fast.clone() } else { slow.clone() }).collect();
    let mut medium = Medium::new(configs, Time::from_us(1), 0.0, 4);
    let until = MAX_INTERVAL * 5;
    medium.run_until(until);
    let began = medium.now;
    let id = medium.set(0, policy("0.9")).unwrap();
    let all = medium.run_until_converged(id, began + IMIN).expect("it is fast");
    assert!(all - began <= IMIN / FASTER + Time::from_us(1), "within the fast Imin: {}", all - began);
    medium.run_until(began + IMIN);
    assert_eq!(sent_by(&medium, began, |node| node >= 4), 0, "the slow ones were not needed yet");
    // Intervals have become alike.
    let slowest = medium.nodes[9].trickle().interval();
    let fastest = medium.nodes[0].trickle().interval();
    assert!(fastest * 2 >= slowest && slowest * 4 >= fastest, "{fastest} and {slowest}");
    medium.run_until(began + MAX_INTERVAL * 60);
    assert!(
        sent_by(&medium, began + MAX_INTERVAL, |node| node >= 4) > 10,
        "and then the slow ones speak as well"
    );
}

/// RFC 6206 §6.2, last sentence: equal doublings of unequal Imin are unequal longest intervals, which is §6.3.
/// §6.3: who has the lower Imax speaks for all, for ever.
#[test]
fn a_lower_imax_carries_the_load_for_ever() {
    let long = config(1);
    let short = PolicyConfig { trickle: TrickleConfig { doublings: 3, ..long.trickle }, ..long.clone() };
    let configs: Vec<_> = (0..32).map(|i| if i < 4 { short.clone() } else { long.clone() }).collect();
    let mut medium = Medium::new(configs, DELAY, 0.0, 5);
    medium.run_until(MAX_INTERVAL * 5);
    let from = medium.now;
    medium.run_until(from + MAX_INTERVAL * 40);
    let (few, many) = (sent_by(&medium, from, |node| node < 4), sent_by(&medium, from, |node| node >= 4));
    assert_eq!(many, 0, "always suppressed");
    let intervals = 40 << (DOUBLINGS - 3);
    assert!(few >= intervals, "{few} messages in {intervals} short intervals");
}

/// §6.5: k = 0 is infinity: everybody speaks in every interval.
#[test]
fn without_suppression_all_speak() {
    assert_eq!(config(0).trickle.k, None::<NonZeroU32>);
    let mut medium = nodes(32, 0, 0.0);
    settle(&mut medium);
    let from = medium.now;
    medium.run_until(from + MAX_INTERVAL * 10);
    assert!((310..=330).contains(&medium.sent_within(from, medium.now)));
}

/// An attacker without the key has no effect except on counters.
#[test]
fn forged_replayed_and_malformed_packets_change_and_reset_nothing() {
    let mut medium = nodes(24, 2, 0.0);
    let first = medium.set(2, policy("0.9")).unwrap();
    assert!(medium.run_until_converged(first, MAX_INTERVAL).is_some());
    // A packet of the first policy, for later.
    let speaker = medium.sent.last().unwrap().1;
    let old = medium.last_message_of(speaker).unwrap();
    let second = medium.set(4, policy("0.85")).unwrap();
    assert!(medium.run_until_converged(second, MAX_INTERVAL * 2).is_some());
    settle(&mut medium);
    let speaker_now = medium.sent.last().unwrap().1;
    let current = medium.last_message_of(speaker_now).unwrap();
    let stranger = {
        let key = PolicyKey::new(b"what nobody told them").unwrap();
        let mut node = PolicyNode::new(&PolicyConfig { key, ..config(2) }, address(1_000), usize::MAX);
        for _ in 0..9 {
            node.set(Time::ZERO, policy("0.1")).unwrap();
        }
        let at = node.next_wakeup();
        node.wakeup(at);
        let mut bytes = Vec::new();
        node.transmit(at, &mut bytes);
        bytes
    };
    let state = |medium: &Medium| -> Vec<_> {
        let of = |node: &PolicyNode| {
            (node.held().clone(), *node.trickle().config(), node.stats().resets, node.trickle().next())
        };
        medium.nodes.iter().map(of).collect()
    };
    let before = state(&medium);
    let heard: Vec<_> = medium.nodes.iter().map(|node| node.trickle().heard()).collect();
    medium.rejected.clear();
    let mut changed = current.clone();
    changed[40] ^= 0xff;
    let attacks: [(usize, &[u8]); 6] = [
        (1_000, &stranger),              // another key
        (speaker_now, &changed),         // a changed packet
        (9, &current),                   // a true packet as from another host
        (speaker, &old),                 // a true packet of before, which would be "older" and reset all
        (speaker_now, &current),         // a true packet again, which would be "consistent" and quiet all
        (9, b"\x01\x00\xff\xffnothing"), // no packet
    ];
    for (source, bytes) in attacks {
        medium.inject(address(source), 1, bytes);
    }
    let until = medium.now + DELAY;
    medium.run_until(until);
    assert_eq!(state(&medium), before, "nothing changes, nothing resets");
    assert!(medium.nodes.iter().map(|node| node.trickle().heard()).eq(heard), "nobody is quieted");
    let count = |expected| medium.rejected.iter().filter(|(_, reason)| *reason == expected).count();
    // As from oneself a packet is an echo, whatever it is.
    assert_eq!(count(DropReason::PolicyForged), 24 + 23 + 23);
    assert_eq!(count(DropReason::PolicyReplayed), 23 + 23);
    assert_eq!(count(DropReason::PolicyMalformed), 23);
    assert_eq!(count(DropReason::PolicyLoopback), 5);
    assert_eq!(medium.rejected.len(), 24 * 6);
}

/// A host that restarts with what it kept, and one that kept nothing.
#[test]
fn a_restart_keeps_the_policy_and_knows_replays() {
    let mut medium = nodes(8, 2, 0.0);
    let id = medium.set(0, policy("0.9")).unwrap();
    assert!(medium.run_until_converged(id, MAX_INTERVAL).is_some());
    settle(&mut medium);
    let now = medium.now;
    let kept = medium.nodes[3].export(now);
    let fresh = |epoch_ns| PolicyNode::new(&PolicyConfig { epoch_ns, ..config(2) }, address(3), usize::MAX);
    let mut node = fresh(0);
    node.restore(Time::ZERO, &kept, Time::ZERO).unwrap();
    assert_eq!(node.held().id, id);
    assert_eq!(node.held().digest, medium.nodes[0].held().digest);
    // Its clock began at zero again, and its packets are later than those before all the same.
    let packet = |node: &mut PolicyNode| {
        let at = node.next_wakeup();
        node.wakeup(at);
        let mut bytes = Vec::new();
        node.transmit(at, &mut bytes);
        bytes
    };
    let bytes = packet(&mut node);
    assert!(medium.nodes[0].on_packet(now, address(3), &bytes).is_ok());
    assert_eq!(medium.nodes[0].on_packet(now, address(3), &bytes), Err(DropReason::PolicyReplayed));
    // One that kept nothing and whose clock goes back is taken for a replay; with a wall clock it is not.
    let mut forgetful = fresh(0);
    let bytes = packet(&mut forgetful);
    assert_eq!(medium.nodes[0].on_packet(now, address(3), &bytes), Err(DropReason::PolicyReplayed));
    let mut forgetful = fresh(now.as_ns() * 2);
    let bytes = packet(&mut forgetful);
    assert!(medium.nodes[0].on_packet(now, address(3), &bytes).is_ok());
    // Another host's state, or one that a disk has spoiled, is none.
    assert!(PolicyNode::new(&config(2), address(4), usize::MAX).restore(now, &kept, Time::ZERO).is_err());
    for at in [0, 20, kept.len() - 1] {
        let mut spoiled = kept.clone();
        spoiled[at] ^= 1;
        assert!(fresh(0).restore(now, &spoiled, Time::ZERO).is_err());
    }
    assert!(fresh(0).restore(now, &kept[..9], Time::ZERO).is_err());
}

/// Ages go with the packets, so that a lifetime ends everywhere at about the same time, for late ones too.
#[test]
fn a_lifetime_is_counted_from_when_it_was_set() {
    let late = PolicyConfig { start: MAX_INTERVAL * 3, ..config(2) };
    let mut medium = Medium::new([vec![config(2); 7], vec![late]].concat(), DELAY, 0.0, 1);
    medium.partitions[7] = 0;
    let set_at = medium.now;
    let policy = policy("0.9").edit(&Registry::builtin(), &[("lifetime", "1s")]).unwrap();
    let id = medium.set(0, policy).unwrap();
    medium.run_until(MAX_INTERVAL * 3);
    medium.partitions[7] = 1;
    assert!(medium.run_until_converged(id, MAX_INTERVAL * 4).is_some());
    let ends = set_at + Time::from_secs(1);
    for node in &medium.nodes {
        let expires = node.held().expires().unwrap();
        assert!(expires >= ends && expires - ends <= DELAY * 8, "{expires}");
    }
}
