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

/// Number of senders whose last stamp a host remembers. Only hosts with the key enter this list. Ours: 16 times the
/// largest fabric that we simulate.
pub const MAX_SENDERS: usize = 16_384;
/// The most by which a stamp may be ahead of the host's own clock, in nanoseconds. Anyone with the key can silence
/// another host for this time by a packet in its name. Ours: an hour, more than maintained clocks differ by.
pub const MAX_STAMP_AHEAD_NS: u64 = 3_600_000_000_000;

/// The policy that a host holds, whether it runs it or not.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldPolicy {
    /// The policy's id.
    pub id: PolicyId,
    /// Digest of the policy from which it was edited.
    pub parent: Digest,
    /// Its digest.
    pub digest: Digest,
    /// The content; `Open`: the host knows of no policy that was set.
    pub policy: Option<Policy>,
    /// The body of its packets.
    pub(super) body: Box<[u8]>,
    /// Age of the policy at the time that follows.
    pub(super) age: Time,
    pub(super) age_as_of: Time,
}

impl HeldPolicy {
    pub(super) fn new(body: Body, bytes: &[u8], age: Time, now: Time) -> HeldPolicy {
        let digest = packet::digest(bytes);
        let Body { id, parent, policy } = body;
        HeldPolicy { id, parent, digest, policy, body: bytes.into(), age, age_as_of: now }
    }

    /// Returns the rank of a policy: version, then writer, then digest. Two policies that agree in version and writer
    /// come from a writer that had forgotten the first; the digest then decides, so that all hosts agree.
    fn rank(&self) -> (PolicyId, Digest) {
        (self.id, self.digest)
    }

    /// Returns the time since the policy was set, as far as this host knows.
    pub fn age(&self, now: Time) -> Time {
        self.age.saturating_add(now.saturating_sub(self.age_as_of))
    }

    /// Returns the time at which its lifetime ends, if it has one.
    pub fn expires(&self) -> Option<Time> {
        let lifetime = self.policy.as_ref()?.lifetime?;
        Some(self.age_as_of.saturating_add(lifetime.saturating_sub(self.age)))
    }
}

/// The classification of an accepted packet. A packet that is not accepted has a [`DropReason`] instead, and changes
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The sender holds what we hold.
    Consistent,
    /// The sender holds less.
    Older,
    /// The sender held more, and now so do we.
    Newer {
        /// A policy that was set here and that the new one has beaten without knowing of it.
        lost: Option<PolicyId>,
    },
}

/// Counters of a node; packets that are not accepted are counted as drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyStats {
    /// Packets sent.
    pub sent: u64,
    /// Times when others had said enough.
    pub suppressed: u64,
    /// Intervals begun by doubling.
    pub intervals: u64,
    /// Intervals begun by a reset.
    pub resets: u64,
    /// Packets of hosts that held the same.
    pub consistent: u64,
    /// Packets of hosts that held more.
    pub newer: u64,
    /// Packets of hosts that held less.
    pub older: u64,
}

/// The protocol at one host. Time never goes back from one call to the next.
#[derive(Debug)]
pub struct PolicyNode {
    pub(super) addr: Ipv4Addr,
    pub(super) key: PolicyKey,
    epoch_ns: u64,
    /// The timer's parameters where the policy does not say them.
    base_trickle: TrickleConfig,
    trickle: Trickle,
    rng: Pcg64Mcg,
    pub(super) held: HeldPolicy,
    /// A packet is to leave, before this time.
    transmit_before: Option<Time>,
    /// The last stamp of this host, and of each other.
    pub(super) stamp: u64,
    pub(super) last_stamps: BTreeMap<Ipv4Addr, u64>,
    pub(super) history: VecDeque<PolicyRecord>,
    history_limit: usize,
    max_packet_len: usize,
    stats: PolicyStats,
}

impl PolicyNode {
    /// Returns a node that knows of no policy, and whose packets may have `max_packet_len` bytes. Its first interval is the
    /// shortest: if others know a policy, it wants it soon.
    pub fn new(config: &PolicyConfig, addr: Ipv4Addr, max: usize) -> PolicyNode {
        let now = config.start;
        let mut rng = Pcg64Mcg::seed_from_u64(config.seed);
        let none = Body::none();
        let bytes = none.encode().unwrap_or_default();
        PolicyNode {
            addr,
            key: config.key.clone(),
            epoch_ns: config.epoch_ns,
            base_trickle: config.trickle,
            trickle: Trickle::start(config.trickle, config.trickle.imin, now, &mut rng),
            rng,
            held: HeldPolicy::new(none, &bytes, Time::ZERO, now),
            transmit_before: None,
            stamp: 0,
            last_stamps: BTreeMap::new(),
            history: VecDeque::new(),
            history_limit: config.history,
            max_packet_len: max.min(MAX_POLICY_PACKET),
            stats: PolicyStats::default(),
        }
    }

    /// Handles a multicast packet from `source`. Unicast packets must not arrive here: a host that gets one alone could
    /// be silenced without the others noticing (RFC 6206 section 9).
    ///
    /// # Errors
    ///
    /// The reason for which the packet was dropped: it is our own, malformed, not signed with the key, from
    /// the future, replayed, or of one sender too many.
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
            packet::unseal(payload, source, &self.key).map_err(|unsealed| match unsealed {
                UnsealError::Malformed => DropReason::PolicyMalformed,
                UnsealError::Forged => DropReason::PolicyForged,
            })?;
        // A body that was seen before need not be read again.
        let same = bytes == &*self.held.body;
        let body = if same { None } else { Some(Body::decode(bytes).ok_or(DropReason::PolicyMalformed)?) };
        if stamp > self.max_accepted_stamp(now) {
            return Err(DropReason::PolicyFromFuture);
        }
        let full = self.last_stamps.len() >= MAX_SENDERS;
        match self.last_stamps.get_mut(&source) {
            Some(last) if stamp <= *last => return Err(DropReason::PolicyReplayed),
            Some(last) => *last = stamp,
            None if full => return Err(DropReason::PolicySenderTableFull),
            None => {
                self.last_stamps.insert(source, stamp);
            }
        }
        let Some(body) = body else {
            self.stats.consistent += 1;
            self.trickle.on_consistent();
            // What could not leave yet, others have said meanwhile.
            let redundant = self.trickle.is_redundant() && self.transmit_before.take().is_some();
            self.stats.suppressed += u64::from(redundant);
            // The host that has known it longest is right: the others have slept, or did not know.
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
        let lost = self.superseded_by(&theirs);
        if lost.is_some()
            && let Some(record) = self.history.back_mut()
        {
            record.lost = true;
        }
        self.install(theirs, Origin::Received(source));
        self.reset(now);
        Ok(Comparison::Newer { lost })
    }

    /// Returns the policy that was set here and is still held, if `theirs` is certainly a concurrent one. Of a policy
    /// that is further ahead it is unknown whether it derives from ours, and nothing is claimed.
    fn superseded_by(&self, theirs: &HeldPolicy) -> Option<PolicyId> {
        let ours = &self.held;
        if ours.id.version == 0 || ours.id.writer() != self.addr {
            return None;
        }
        let beside = theirs.id.version == ours.id.version;
        let next = theirs.id.version == ours.id.version.wrapping_add(1) && theirs.parent != ours.digest;
        (beside || next).then_some(ours.id)
    }

    /// This host's clock, as packets are stamped by it.
    fn stamp_at(&self, now: Time) -> u64 {
        self.epoch_ns.saturating_add(now.as_ns())
    }

    /// Returns the last stamp that another host's clock may have.
    pub(super) fn max_accepted_stamp(&self, now: Time) -> u64 {
        self.stamp_at(now).saturating_add(MAX_STAMP_AHEAD_NS)
    }

    fn install(&mut self, held: HeldPolicy, origin: Origin) {
        while self.history.len() >= self.history_limit.max(1) {
            self.history.pop_front();
        }
        let HeldPolicy { id, digest, ref policy, age_as_of: at, .. } = held;
        self.history.push_back(PolicyRecord { at, id, digest, policy: policy.clone(), origin, lost: false });
        let timer = held.policy.as_ref().map(|policy| policy.timer).unwrap_or_default();
        self.trickle.configure(timer.apply_to(self.base_trickle), at, &mut self.rng);
        self.held = held;
    }

    pub(super) fn install_restored(&mut self, held: HeldPolicy) {
        self.install(held, Origin::Restored);
    }

    fn reset(&mut self, now: Time) {
        if self.trickle.reset(now, &mut self.rng) {
            self.stats.resets += 1;
            self.transmit_before = None;
        }
    }

    /// Sets the next version of the policy, written by this host. It leaves with the next packet.
    ///
    /// # Errors
    ///
    /// The policy does not fit a packet, or the version is the last one.
    pub fn set(&mut self, now: Time, policy: Policy) -> Result<PolicyId, PolicyError> {
        let version = self.held.id.version.checked_add(1).ok_or(PolicyError::LastVersion)?;
        let id = PolicyId { version, writer: self.addr.into() };
        let body = Body { id, parent: self.held.digest, policy: Some(policy) };
        let encoded = body.encode()?;
        let bytes = packet::sealed_len(&encoded);
        if bytes > self.max_packet_len {
            return Err(PolicyError::TooLong { bytes, max: self.max_packet_len });
        }
        self.install(HeldPolicy::new(body, &encoded, Time::ZERO, now), Origin::Local);
        self.reset(now);
        Ok(id)
    }

    /// Returns the time at which to call [`wakeup`](Self::wakeup).
    pub fn next_wakeup(&self) -> Time {
        self.trickle.next()
    }

    /// Does what is due; then [`is_due`](Self::is_due) says whether a packet is to leave. One that cannot leave before its
    /// interval is over does not leave at all (RFC 6206 §4.2, rule 2).
    pub fn wakeup(&mut self, now: Time) {
        while let Some(tick) = self.trickle.poll(now, &mut self.rng) {
            match tick {
                TrickleEvent::Transmit => self.transmit_before = Some(self.trickle.ends()),
                TrickleEvent::Suppressed => self.stats.suppressed += 1,
                TrickleEvent::Interval(_) => {
                    self.stats.intervals += 1;
                    self.transmit_before = None;
                }
            }
        }
    }

    /// Returns whether a packet should leave at `now`.
    pub fn is_due(&self, now: Time) -> bool {
        self.transmit_before.is_some_and(|until| now < until)
    }

    /// Appends the packet that is to leave to `out`; nothing if none is. It says what the node holds now.
    pub fn transmit(&mut self, now: Time, out: &mut Vec<u8>) {
        if self.transmit_before.take().is_none_or(|until| now >= until) {
            return;
        }
        self.stats.sent += 1;
        self.stamp = self.stamp.saturating_add(1).max(self.stamp_at(now));
        let envelope = Envelope { stamp: self.stamp, age: self.held.age(now) };
        packet::seal(envelope, &self.held.body, self.addr, &self.key, out);
    }

    /// Returns the policy that the node holds.
    pub fn held(&self) -> &HeldPolicy {
        &self.held
    }

    /// Returns the policies that it held and holds, the oldest first.
    pub fn history(&self) -> impl DoubleEndedIterator<Item = &PolicyRecord> {
        self.history.iter()
    }

    /// Returns the node's counters.
    pub fn stats(&self) -> &PolicyStats {
        &self.stats
    }

    /// Returns its timer.
    pub fn trickle(&self) -> &Trickle {
        &self.trickle
    }
}
