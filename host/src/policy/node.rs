use super::packet::{self, Body, Envelope, UnsealError};
use super::{
    Digest, MAX_POLICY_PACKET, Origin, Policy, PolicyConfig, PolicyError, PolicyId, PolicyKey, PolicyRecord,
};
use crate::stats::DropReason;
use crate::trickle::{Trickle, TrickleConfig, TrickleEvent};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use weir_units::Time;

/// Maximum number of senders in the replay table. Only holders of the key can add entries. Weir's choice: 16 times
/// the largest simulated fabric.
pub const MAX_SENDERS: usize = 16_384;
/// How far a timestamp may be ahead of the host's own clock, in nanoseconds. By a packet in another host's name, a
/// holder of the key can make receivers ignore that host for this long. Weir's choice: an hour, more than maintained
/// clocks differ by.
pub const MAX_STAMP_AHEAD_NS: u64 = 3_600_000_000_000;

/// The policy that a host holds, whether or not it is active.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldPolicy {
    /// The policy's id.
    pub id: PolicyId,
    /// Digest of the policy from which it was edited.
    pub parent: Digest,
    /// Digest of the policy.
    pub digest: Digest,
    /// The content; `None` if no policy has been set, as far as this host knows.
    pub policy: Option<Policy>,
    /// The policy as encoded in the body of packets.
    pub(super) body: Box<[u8]>,
    /// Age of the policy at host time `age_as_of`.
    pub(super) age: Time,
    /// Host time to which `age` refers.
    pub(super) age_as_of: Time,
}

impl HeldPolicy {
    pub(super) fn new(body: Body, bytes: &[u8], age: Time, now: Time) -> HeldPolicy {
        let digest = packet::digest(bytes);
        let Body { id, parent, policy } = body;
        HeldPolicy { id, parent, digest, policy, body: bytes.into(), age, age_as_of: now }
    }

    /// Returns the rank of the policy: version, then writer, then digest. Two policies that agree in version and
    /// writer come from a writer that lost its state in between; the digest then decides, so that all hosts agree.
    fn rank(&self) -> (PolicyId, Digest) {
        (self.id, self.digest)
    }

    /// Returns the time at `now` since the policy was set, as known to this host.
    pub fn age(&self, now: Time) -> Time {
        self.age.saturating_add(now.saturating_sub(self.age_as_of))
    }

    /// Returns the host time at which the lifetime ends; `None` if it is unlimited.
    pub fn expires_at(&self) -> Option<Time> {
        let lifetime = self.policy.as_ref()?.lifetime?;
        Some(self.age_as_of.saturating_add(lifetime.saturating_sub(self.age)))
    }
}

/// How the policy in an accepted packet compares with the held one. A packet that is not accepted yields a
/// [`DropReason`] instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The sender holds the same policy.
    Consistent,
    /// The sender holds an older policy.
    Older,
    /// The sender holds a newer policy, which this host holds now as well.
    Newer {
        /// A policy set at this host that was superseded by one that does not derive from it.
        superseded: Option<PolicyId>,
    },
}

/// Counters of a node. Packets that are not accepted are counted as drops instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyStats {
    /// Packets sent.
    pub sent: u64,
    /// Transmissions suppressed because k consistent packets were received in the interval.
    pub suppressed: u64,
    /// Intervals started at the end of the previous one.
    pub intervals: u64,
    /// Intervals started by a reset.
    pub resets: u64,
    /// Packets received with the held policy.
    pub consistent: u64,
    /// Packets received with a newer policy.
    pub newer: u64,
    /// Packets received with an older policy.
    pub older: u64,
}

/// The policy protocol at one host. Times never decrease from one call to the next.
#[derive(Debug)]
pub struct PolicyNode {
    pub(super) addr: Ipv4Addr,
    pub(super) key: PolicyKey,
    epoch_ns: u64,
    /// The host's own Trickle parameters, used where the policy sets none.
    base_trickle: TrickleConfig,
    trickle: Trickle,
    rng: Pcg64Mcg,
    pub(super) held: HeldPolicy,
    /// The end of the interval in which the due packet must be sent; `None` if no packet is due.
    transmit_before: Option<Time>,
    /// The last timestamp (`stamp` for short) sent by this host, in ns.
    pub(super) stamp: u64,
    /// The last timestamp accepted from each sender: the replay table, which detects packets that are sent again.
    pub(super) last_stamps: BTreeMap<Ipv4Addr, u64>,
    pub(super) history: VecDeque<PolicyRecord>,
    history_limit: usize,
    max_packet_len: usize,
    stats: PolicyStats,
}

impl PolicyNode {
    /// Creates a node without a policy, whose packets have at most `max_packet_len` bytes. Its first interval is Imin
    /// long, so that it learns of an existing policy soon.
    pub fn new(config: &PolicyConfig, addr: Ipv4Addr, max_packet_len: usize) -> PolicyNode {
        let now = config.start;
        let mut rng = Pcg64Mcg::seed_from_u64(config.seed);
        let no_policy = Body::none();
        // Cannot fail: a body without a policy is far below the limits of the format.
        let bytes = no_policy.encode().unwrap_or_default();
        PolicyNode {
            addr,
            key: config.key.clone(),
            epoch_ns: config.epoch_ns,
            base_trickle: config.trickle,
            trickle: Trickle::start(config.trickle, config.trickle.imin, now, &mut rng),
            rng,
            held: HeldPolicy::new(no_policy, &bytes, Time::ZERO, now),
            transmit_before: None,
            stamp: 0,
            last_stamps: BTreeMap::new(),
            history: VecDeque::new(),
            history_limit: config.history,
            max_packet_len: max_packet_len.min(MAX_POLICY_PACKET),
            stats: PolicyStats::default(),
        }
    }

    /// Handles a multicast packet from `source`. The caller must not pass unicast packets: a packet to one host alone
    /// could suppress its transmissions without the others noticing (RFC 6206 section 9).
    ///
    /// # Errors
    ///
    /// The reason for which the packet was dropped: from this host itself, malformed, not signed with the key, from
    /// the future, replayed, or from a new sender while the replay table is full. The packet then changes nothing.
    pub fn on_packet(
        &mut self,
        now: Time,
        source: Ipv4Addr,
        payload: &[u8],
    ) -> Result<Comparison, DropReason> {
        if source == self.addr {
            return Err(DropReason::PolicyLoopback);
        }
        let (Envelope { stamp, age }, bytes) =
            packet::unseal(payload, source, &self.key).map_err(|error| match error {
                UnsealError::Malformed => DropReason::PolicyMalformed,
                UnsealError::Forged => DropReason::PolicyForged,
            })?;
        // Fast path: the body is the held one, which is valid.
        let is_held = bytes == &*self.held.body;
        let body = if is_held { None } else { Some(Body::decode(bytes).ok_or(DropReason::PolicyMalformed)?) };
        if stamp > self.max_accepted_stamp(now) {
            return Err(DropReason::PolicyFromFuture);
        }
        // The timestamp is recorded before the policies are compared: an authentic packet with an older policy must
        // not be accepted twice either.
        let is_full = self.last_stamps.len() >= MAX_SENDERS;
        match self.last_stamps.get_mut(&source) {
            Some(last) if stamp <= *last => return Err(DropReason::PolicyReplayed),
            Some(last) => *last = stamp,
            None if is_full => return Err(DropReason::PolicySenderTableFull),
            None => {
                self.last_stamps.insert(source, stamp);
            }
        }
        let Some(body) = body else {
            self.stats.consistent += 1;
            self.trickle.on_consistent();
            // A packet of this host that is due but not yet sent, for example because its class is paused, is
            // redundant now.
            let is_suppressed = self.trickle.is_redundant() && self.transmit_before.take().is_some();
            self.stats.suppressed += u64::from(is_suppressed);
            // Adopt the largest age: a host that was suspended, or restarted without state, underestimates it.
            if age > self.held.age(now) {
                (self.held.age, self.held.age_as_of) = (age, now);
            }
            return Ok(Comparison::Consistent);
        };
        let theirs = HeldPolicy::new(body, bytes, age, now);
        if theirs.rank() < self.held.rank() {
            self.stats.older += 1;
            self.reset(now);
            return Ok(Comparison::Older);
        }
        self.stats.newer += 1;
        let superseded = self.superseded_by(&theirs);
        if superseded.is_some()
            && let Some(record) = self.history.back_mut()
        {
            record.superseded = true;
        }
        self.install(theirs, Origin::Received(source));
        self.reset(now);
        Ok(Comparison::Newer { superseded })
    }

    /// Returns the id of the held policy if it was set at this host and `theirs` certainly does not derive from it:
    /// `theirs` has the same version, or the next one with another parent. A policy with a later version may derive
    /// from it, so the result is `None` then.
    fn superseded_by(&self, theirs: &HeldPolicy) -> Option<PolicyId> {
        let ours = &self.held;
        if ours.id.version == 0 || ours.id.writer() != self.addr {
            return None;
        }
        let is_concurrent = theirs.id.version == ours.id.version;
        // At the highest version the sum wraps to 0, and no policy with version 0 is newer.
        let is_successor_of_other =
            theirs.id.version == ours.id.version.wrapping_add(1) && theirs.parent != ours.digest;
        (is_concurrent || is_successor_of_other).then_some(ours.id)
    }

    /// Returns the value of this host's clock for timestamps, in nanoseconds.
    fn stamp_at(&self, now: Time) -> u64 {
        self.epoch_ns.saturating_add(now.as_ns())
    }

    /// Returns the largest timestamp that is accepted at `now`.
    pub(super) fn max_accepted_stamp(&self, now: Time) -> u64 {
        self.stamp_at(now).saturating_add(MAX_STAMP_AHEAD_NS)
    }

    /// Holds a policy from now on: records it in the history and applies its Trickle parameters. If they differ from those
    /// in force, a new interval begins, which cancels a packet that is due.
    fn install(&mut self, held: HeldPolicy, origin: Origin) {
        // The history always contains at least the policy that is held from now on.
        while self.history.len() >= self.history_limit.max(1) {
            self.history.pop_front();
        }
        let HeldPolicy { id, digest, ref policy, age_as_of: at, .. } = held;
        self.history.push_back(PolicyRecord {
            at,
            id,
            digest,
            policy: policy.clone(),
            origin,
            superseded: false,
        });
        let timer = held.policy.as_ref().map(|policy| policy.timer).unwrap_or_default();
        if self.trickle.configure(timer.apply_to(self.base_trickle), at, &mut self.rng) {
            // A packet of the previous interval must not be sent in the new one (RFC 6206 §4.2, rule 2), and the `reset`
            // that follows has no effect, since the new interval is Imin long.
            self.transmit_before = None;
        }
        self.held = held;
    }

    pub(super) fn install_restored(&mut self, held: HeldPolicy) {
        self.install(held, Origin::Restored);
    }

    /// Resets the Trickle timer, which cancels a packet that is due.
    fn reset(&mut self, now: Time) {
        if self.trickle.reset(now, &mut self.rng) {
            self.stats.resets += 1;
            self.transmit_before = None;
        }
    }

    /// Sets the next version of the policy, written by this host. It is sent when the Trickle timer next transmits.
    ///
    /// # Errors
    ///
    /// The policy does not fit a packet, or the held policy has the highest version.
    pub fn set(&mut self, now: Time, policy: Policy) -> Result<PolicyId, PolicyError> {
        let version = self.held.id.version.checked_add(1).ok_or(PolicyError::LastVersion)?;
        let id = PolicyId { version, writer: self.addr.into() };
        let body = Body { id, parent: self.held.digest, policy: Some(policy) };
        let encoded = body.encode()?;
        let size = packet::sealed_len(&encoded);
        if size > self.max_packet_len {
            return Err(PolicyError::TooLong { size, max: self.max_packet_len });
        }
        self.install(HeldPolicy::new(body, &encoded, Time::ZERO, now), Origin::Local);
        self.reset(now);
        Ok(id)
    }

    /// Returns the time at which to call [`wakeup`](Self::wakeup).
    pub fn next_wakeup(&self) -> Time {
        self.trickle.next_event()
    }

    /// Handles the timer events that are due at `now`. Afterwards [`is_due`](Self::is_due) returns whether to send a
    /// packet. A packet that cannot be sent within its interval is not sent at all (RFC 6206 §4.2, rule 2).
    pub fn wakeup(&mut self, now: Time) {
        while let Some(event) = self.trickle.poll(now, &mut self.rng) {
            match event {
                TrickleEvent::Transmit => self.transmit_before = Some(self.trickle.interval_end()),
                TrickleEvent::Suppressed => self.stats.suppressed += 1,
                TrickleEvent::Interval(_) => {
                    self.stats.intervals += 1;
                    self.transmit_before = None;
                }
            }
        }
    }

    /// Returns whether a packet should be sent at `now`.
    pub fn is_due(&self, now: Time) -> bool {
        self.transmit_before.is_some_and(|until| now < until)
    }

    /// Appends the packet that is due to `out`, with the policy held now; appends nothing if no packet is due.
    pub fn transmit(&mut self, now: Time, out: &mut Vec<u8>) {
        if self.transmit_before.take().is_none_or(|until| now >= until) {
            return;
        }
        self.stats.sent += 1;
        // Receivers drop a timestamp that is not later than the last one. The clock may stand still within a
        // nanosecond or be set back by a restart; counting keeps timestamps increasing.
        self.stamp = self.stamp.saturating_add(1).max(self.stamp_at(now));
        let envelope = Envelope { stamp: self.stamp, age: self.held.age(now) };
        packet::seal(envelope, &self.held.body, self.addr, &self.key, out);
    }

    /// Returns the policy that the node holds.
    pub fn held(&self) -> &HeldPolicy {
        &self.held
    }

    /// Returns the policies held so far, including the present one, oldest first. Limited to the configured length.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = &PolicyRecord> {
        self.history.iter()
    }

    /// Returns the node's counters.
    pub fn stats(&self) -> &PolicyStats {
        &self.stats
    }

    /// Returns the Trickle timer.
    pub fn trickle(&self) -> &Trickle {
        &self.trickle
    }
}
