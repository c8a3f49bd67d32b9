//! Packets that run again: resubmitted, recirculated, or cloned in egress. BMv2 lets a program repeat this without end.
//! Here it is limited per packet and per switch, far above what programs that end need, and a driver may have it done
//! in portions.

use super::queues::Origin;
use crate::drops::DropReason;
use crate::packet::Packet;
use crate::pipeline::ClonedPacket;
use std::collections::VecDeque;

/// The most passes of a packet after its first one, counting those of the packet from which it was cloned.
pub(super) const MAX_REENTRIES: u16 = u16::MAX;
/// The most passes of all packets together that the packets received so far have not paid for.
const MAX_ALLOWANCE: u64 = 1 << 20;
/// Passes that each received packet adds to the allowance. A program that never ends therefore costs no more than this
/// many passes per packet in the long run.
const ALLOWANCE_PER_PACKET: u64 = 1024;
/// The most packets that wait for the next portion, as in BMv2's input buffer.
const MAX_WAITING: usize = 1024;

/// A packet that waits for its next pass.
pub(super) enum WaitingPacket {
    /// A resubmitted or recirculated packet, prepared for ingress.
    Ingress(Box<Packet>),
    /// A clone that egress made, which goes to the queues of its session.
    Clone(ClonedPacket),
}

/// The decision on a packet that is to run again.
pub(super) enum Reentry {
    Now,
    /// The portion is used up: the packet must wait.
    Later,
    /// A limit is exceeded.
    Refused,
}

/// The limits of a switch, and the packets that wait.
pub(super) struct Reentries {
    /// The passes that are left of the allowance.
    allowance: u64,
    /// Packets received when `allowance` was last updated.
    paid_for: u64,
    /// The most passes per portion; `None`: all at once.
    portion: Option<u32>,
    /// The passes that are left of the portion.
    left: u32,
    pub waiting: VecDeque<(WaitingPacket, Origin)>,
}

impl Default for Reentries {
    fn default() -> Reentries {
        Reentries { allowance: MAX_ALLOWANCE, paid_for: 0, portion: None, left: 0, waiting: VecDeque::new() }
    }
}

impl Reentries {
    /// Sets the most passes per portion and starts one.
    pub fn set_portion(&mut self, passes: u32) {
        (self.portion, self.left) = (Some(passes.max(1)), passes.max(1));
    }

    pub fn has_portions(&self) -> bool {
        self.portion.is_some()
    }

    /// Starts the next portion.
    pub fn start_portion(&mut self) {
        self.left = self.portion.unwrap_or_default();
    }

    /// Returns the next packet that waits, unless the portion is used up.
    pub fn next(&mut self) -> Option<(WaitingPacket, Origin)> {
        if self.portion.is_some() {
            self.left = self.left.checked_sub(1)?;
        }
        self.waiting.pop_front()
    }

    /// Counts a pass of a packet and decides when it takes place. `received` is the number of packets that the switch
    /// has received.
    pub fn admit(&mut self, origin: &mut Origin, received: u64) -> Reentry {
        let earned = (received - self.paid_for).saturating_mul(ALLOWANCE_PER_PACKET);
        self.allowance = self.allowance.saturating_add(earned).min(MAX_ALLOWANCE);
        self.paid_for = received;
        let (Some(reentries), Some(allowance)) =
            (origin.reentries.checked_add(1), self.allowance.checked_sub(1))
        else {
            return Reentry::Refused;
        };
        if self.portion.is_some() && (self.left == 0 || !self.waiting.is_empty()) {
            if self.waiting.len() == MAX_WAITING {
                return Reentry::Refused;
            }
            (origin.reentries, self.allowance) = (reentries, allowance);
            return Reentry::Later;
        }
        (origin.reentries, self.allowance) = (reentries, allowance);
        self.left = self.left.saturating_sub(1);
        Reentry::Now
    }
}

/// Logs the first packet that a limit stops.
#[cold]
pub(super) fn log_first(reason: DropReason) {
    tracing::warn!(
        "a packet is dropped ({}) because the program lets packets run again without end: more than {MAX_REENTRIES} \
         times a packet, or {ALLOWANCE_PER_PACKET} times per received packet on average; further ones are only counted",
        reason.name()
    );
}
