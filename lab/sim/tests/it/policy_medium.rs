//! Dissemination of policies with Trickle over a lossy broadcast medium (`docs/policy.md`): the properties that RFC
//! 6206 promises, and the effects of unequal parameters that it warns of.

use std::num::NonZeroU32;
use weir_host::DropReason;
use weir_host::policy::{Policy, PolicyConfig, PolicyKey, PolicyNode};
use weir_host::schemes::Registry;
use weir_host::trickle::TrickleConfig;
use weir_sim::medium::{Medium, address};
use weir_units::Time;

const IMIN: Time = Time::from_us(50);
/// Half of the round-trip time if Imin has its default, 16 round-trip times.
const DELAY: Time = Time::from_ns(1_562);
const DOUBLINGS: u32 = 6;
const MAX_INTERVAL: Time = Time::from_us(50 << DOUBLINGS);

fn config(k: u32) -> PolicyConfig {
    let key = PolicyKey::new(b"a key that all nodes share").unwrap();
    let trickle = TrickleConfig::new(IMIN, DOUBLINGS, k).unwrap();
    PolicyConfig { trickle, ..PolicyConfig::new(key, 0, Time::from_us(10)) }
}

fn nodes(count: usize, k: u32, loss: f64) -> Medium {
    Medium::new(vec![config(k); count], DELAY, loss, 1)
}

fn policy(eta: &str) -> Policy {
    Policy::of(&*Registry::builtin().make("hpcc", &[("eta", eta)]).unwrap())
}

/// Runs until all intervals have their maximum length.
fn settle(medium: &mut Medium) {
    let until = medium.now + MAX_INTERVAL * 4;
    medium.run_until(until);
    assert!(medium.nodes.iter().all(|node| node.trickle().interval() == MAX_INTERVAL));
}

/// When all intervals are at their maximum, the node that sets a policy resets its timer, sends in the second half of
/// an Imin, and all nodes receive the policy. With losses, other nodes have to repeat it.
#[test]
fn a_new_policy_reaches_all_within_a_few_imin() {
    for (count, loss, max) in
        [(16, 0.0, 2), (64, 0.0, 2), (256, 0.0, 2), (64, 0.2, 4), (256, 0.5, 6), (1_024, 0.2, 4)]
    {
        let mut medium = nodes(count, 2, loss);
        settle(&mut medium);
        let started_at = medium.now;
        let id = medium.set(count / 2, policy("0.9")).unwrap();
        let all = medium.run_until_converged(id, started_at + MAX_INTERVAL).expect("the policy spreads");
        let imins = (all - started_at).as_secs_f64() / IMIN.as_secs_f64();
        assert!(imins <= f64::from(max), "{count} nodes, loss {loss}: {imins:.1} Imin");
        assert!(imins >= 0.5, "a reset does not send a message");
    }
}

/// Each interval is twice as long as the previous one, with about the same total number of messages.
#[test]
fn messages_per_host_fall_as_intervals_double() {
    let mut medium = nodes(128, 2, 0.0);
    settle(&mut medium);
    let started_at = medium.now;
    medium.set(3, policy("0.9")).unwrap();
    medium.run_until(started_at + MAX_INTERVAL * 4);
    let mut from = started_at + IMIN * 2;
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

/// Returns the mean number of messages of all nodes per maximum interval.
fn messages_per_interval(count: usize, k: u32, loss: f64) -> f64 {
    const INTERVALS: u64 = 20;
    let mut medium = nodes(count, k, loss);
    medium.run_until(MAX_INTERVAL * 6);
    let from = medium.now;
    medium.run_until(from + MAX_INTERVAL * INTERVALS);
    medium.sent_within(from, medium.now) as f64 / INTERVALS as f64
}

/// Levis 2004: with losses some nodes miss the messages that would suppress theirs; the number of messages grows with
/// the logarithm of the number of nodes.
#[test]
fn messages_per_interval_grow_no_faster_than_the_logarithm() {
    for loss in [0.0, 0.2, 0.5] {
        let means: Vec<f64> = [16, 64, 256].map(|count| messages_per_interval(count, 1, loss)).into();
        let steps = [means[1] - means[0], means[2] - means[1]];
        // Each step multiplies the nodes by four. Logarithmic growth has equal steps, linear growth four times the
        // step.
        assert!(steps[1] < 1.5 * steps[0].max(1.0) + 1.0, "loss {loss}: {means:?}");
        assert!(means[2] < 2.5 * means[0] + 2.0, "loss {loss}: {means:?}");
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
    let all = medium.run_until_converged(id, MAX_INTERVAL * 6).expect("its older policy makes others send");
    // It sends within an Imin, the others reset, and one of them sends the newer policy within an Imin.
    assert!(all - MAX_INTERVAL * 5 <= IMIN * 6, "{}", all - MAX_INTERVAL * 5);
}

/// Two partitions set different policies and then merge: the higher version wins, or with equal versions the higher
/// writer. The writer of the other policy is notified.
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
    let is_notified = |node: &PolicyNode| node.history().any(|record| record.superseded);
    let losers: Vec<_> = (0..40).filter(|&node| is_notified(&medium.nodes[node])).collect();
    assert_eq!(losers, [5], "only the writer of the superseded policy");
    // The next policy supersedes both.
    let next = medium.set(5, policy("0.7")).unwrap();
    assert_eq!(next.version, high.version + 1);
    let until = medium.now + MAX_INTERVAL;
    assert!(medium.run_until_converged(next, until).is_some());
    assert!(
        (0..40).filter(|&node| is_notified(&medium.nodes[node])).eq([5]),
        "the policy of node 30 was replaced by a newer one, which is no loss"
    );
}

/// Hosts join and leave all the time, one in ten per maximum interval; all that are present at the end agree.
#[test]
fn churn_does_no_harm() {
    let mut medium = nodes(60, 2, 0.2);
    settle(&mut medium);
    let mut last = None;
    for round in 0..12u64 {
        let group = |round: u64| (0..6).map(move |i| ((round * 6 + i) * 37 % 60) as usize);
        group(round).for_each(|node| medium.partitions[node] = 0);
        if let Some(back) = round.checked_sub(3) {
            group(back).for_each(|node| medium.partitions[node] = 1);
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

/// RFC 6206 §6.1: if all nodes have k = 1 and one has k = 2, that one may send in every interval, for any number of
/// nodes.
#[test]
fn a_higher_k_sends_more_messages() {
    let mut configs = vec![config(1); 64];
    configs[7] = config(2);
    let mut medium = Medium::new(configs, DELAY, 0.0, 3);
    settle(&mut medium);
    let from = medium.now;
    medium.run_until(from + MAX_INTERVAL * 40);
    let higher_k = sent_by(&medium, from, |node| node == 7);
    let others = sent_by(&medium, from, |node| node != 7) as f64 / 63.0;
    assert!(higher_k >= 30, "it sends in almost every one of 40 intervals: {higher_k}");
    assert!(others < 2.0, "the others send the rest: {others:.2} each");
}

/// RFC 6206 §6.2: nodes with a smaller Imin send first after a reset, and suppress the slower ones for at most one of
/// their shortest intervals.
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
    let started_at = medium.now;
    let id = medium.set(0, policy("0.9")).unwrap();
    let all = medium.run_until_converged(id, started_at + IMIN).expect("it spreads within an Imin");
    assert!(
        all - started_at <= IMIN / FASTER + Time::from_us(1),
        "within the fast Imin: {}",
        all - started_at
    );
    medium.run_until(started_at + IMIN);
    assert_eq!(sent_by(&medium, started_at, |node| node >= 4), 0, "the slow nodes are suppressed");
    // The intervals have become about equal.
    let slowest = medium.nodes[9].trickle().interval();
    let fastest = medium.nodes[0].trickle().interval();
    assert!(fastest * 2 >= slowest && slowest * 4 >= fastest, "{fastest} and {slowest}");
    medium.run_until(started_at + MAX_INTERVAL * 60);
    assert!(
        sent_by(&medium, started_at + MAX_INTERVAL, |node| node >= 4) > 10,
        "later the slow nodes send too"
    );
}

/// RFC 6206 §6.3: the nodes with the lower Imax send for all others, for ever. By the last sentence of §6.2, the same
/// number of doublings of unequal Imin gives unequal maximum intervals too.
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

/// RFC 6206 §6.5: k = 0 means infinity: every node sends in every interval.
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
    // A packet of the first policy, to replay later.
    let first_sender = medium.sent.last().unwrap().1;
    let old = medium.last_message_of(first_sender).unwrap();
    let second = medium.set(4, policy("0.85")).unwrap();
    assert!(medium.run_until_converged(second, MAX_INTERVAL * 2).is_some());
    settle(&mut medium);
    let current_sender = medium.sent.last().unwrap().1;
    let current = medium.last_message_of(current_sender).unwrap();
    let forged = {
        let key = PolicyKey::new(b"the key of an attacker").unwrap();
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
        let node_state = |node: &PolicyNode| {
            (node.held().clone(), *node.trickle().config(), node.stats().resets, node.trickle().next_event())
        };
        medium.nodes.iter().map(node_state).collect()
    };
    let before = state(&medium);
    let heard: Vec<_> = medium.nodes.iter().map(|node| node.trickle().counter()).collect();
    medium.rejected.clear();
    let mut changed = current.clone();
    changed[40] ^= 0xff;
    let attacks: [(usize, &[u8]); 6] = [
        (1_000, &forged),                // another key
        (current_sender, &changed),      // a changed packet
        (9, &current),                   // a valid packet with the address of another host
        (first_sender, &old),            // a replayed packet that would be "older" and reset all nodes
        (current_sender, &current), // a replayed packet that would be "consistent" and suppress all nodes
        (9, b"\x01\x00\xff\xffnothing"), // a malformed packet
    ];
    for (source, bytes) in attacks {
        medium.inject(address(source), 1, bytes);
    }
    let until = medium.now + DELAY;
    medium.run_until(until);
    assert_eq!(state(&medium), before, "neither state nor timers change");
    assert!(medium.nodes.iter().map(|node| node.trickle().counter()).eq(heard), "no node is suppressed");
    let count = |expected| medium.rejected.iter().filter(|(_, reason)| *reason == expected).count();
    // A node takes any packet with its own address for an echo.
    assert_eq!(count(DropReason::PolicyForged), 24 + 23 + 23);
    assert_eq!(count(DropReason::PolicyReplayed), 23 + 23);
    assert_eq!(count(DropReason::PolicyMalformed), 23);
    assert_eq!(count(DropReason::PolicyLoopback), 5);
    assert_eq!(medium.rejected.len(), 24 * 6);
}

/// Hosts restart with and without their saved state.
#[test]
fn a_restart_keeps_the_policy_and_knows_replays() {
    let mut medium = nodes(8, 2, 0.0);
    let id = medium.set(0, policy("0.9")).unwrap();
    assert!(medium.run_until_converged(id, MAX_INTERVAL).is_some());
    settle(&mut medium);
    let now = medium.now;
    let saved = medium.nodes[3].export(now);
    let fresh = |epoch_ns| PolicyNode::new(&PolicyConfig { epoch_ns, ..config(2) }, address(3), usize::MAX);
    let mut node = fresh(0);
    node.restore(Time::ZERO, &saved, Time::ZERO).unwrap();
    assert_eq!(node.held().id, id);
    assert_eq!(node.held().digest, medium.nodes[0].held().digest);
    // Its clock restarts at zero, but its packets are still newer than those before the restart.
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
    // Without saved state, packets of a host whose clock was set back look like replays. With a wall clock they do not.
    let mut stateless = fresh(0);
    let bytes = packet(&mut stateless);
    assert_eq!(medium.nodes[0].on_packet(now, address(3), &bytes), Err(DropReason::PolicyReplayed));
    let mut stateless = fresh(now.as_ns() * 2);
    let bytes = packet(&mut stateless);
    assert!(medium.nodes[0].on_packet(now, address(3), &bytes).is_ok());
    // The state of another host and corrupted state are rejected.
    assert!(PolicyNode::new(&config(2), address(4), usize::MAX).restore(now, &saved, Time::ZERO).is_err());
    for at in [0, 20, saved.len() - 1] {
        let mut corrupted = saved.clone();
        corrupted[at] ^= 1;
        assert!(fresh(0).restore(now, &corrupted, Time::ZERO).is_err());
    }
    assert!(fresh(0).restore(now, &saved[..9], Time::ZERO).is_err());
}

/// Packets carry the age of the policy, so its lifetime ends at all nodes at about the same time, even at late ones.
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
        let expires = node.held().expires_at().unwrap();
        assert!(expires >= ends && expires - ends <= DELAY * 8, "{expires}");
    }
}
