//! Packets that enter the pipeline again: resubmitted, recirculated, or cloned in egress. Each such run of ingress or
//! egress is a pass. BMv2 sets no limit. Here passes are limited per packet and per switch, far above what programs
//! that terminate need. A driver may also run them in batches, to do other work in between.

use crate::drops::DropReason;
use crate::packet::Packet;
use crate::pipeline::ClonedPacket;
use std::collections::VecDeque;

/// Maximum number of passes of a packet after the first. A clone starts with the count of its original.
pub(super) const MAX_REENTRIES: u16 = u16::MAX;
/// Maximum of [`Reentries::allowance`]: the passes that a burst may take beyond [`ALLOWANCE_PER_PACKET`].
const MAX_ALLOWANCE: u64 = 1 << 20;
/// Number of passes that each received packet adds to the allowance. In the long run a program that never terminates
/// therefore costs at most this many passes per received packet.
const ALLOWANCE_PER_PACKET: u64 = 1024;
/// Maximum number of packets that wait for the next batch, as in BMv2's input buffer.
const MAX_WAITING: usize = 1024;

/// Where a packet came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The port at which the packet arrived.
    pub port: u16,
    /// The PFC class in which the neighbour sent the packet; `None`: unknown, the priority that the program sets is
    /// used.
    pub class: Option<u8>,
    /// Number of times that the packet entered the pipeline again, including those of the packet from which it was
    /// cloned.
    pub reentries: u16,
}

/// A packet that waits for its next pass.
pub(super) enum WaitingPacket {
    /// A resubmitted or recirculated packet, prepared for ingress.
    Ingress(Box<Packet>),
    /// A clone that egress made, which goes to the queues of its session.
    Clone(ClonedPacket),
}

/// Whether and when a packet enters the pipeline again.
pub(super) enum ReentryDecision {
    Now,
    /// The batch is used up: the packet must wait for the next one.
    Later,
    /// A limit is exceeded.
    Refused,
}

/// The limits of a switch for passes, and the packets that wait for their next pass.
pub(super) struct Reentries {
    /// Number of passes that all packets together may still take.
    allowance: u64,
    /// Number of packets received when `allowance` was last updated.
    last_received: u64,
    /// Maximum number of passes per batch; `None`: passes are not batched, no packet waits.
    batch_limit: Option<u32>,
    /// Number of passes left in the current batch.
    batch_remaining: u32,
    pub waiting: VecDeque<(WaitingPacket, Origin)>,
}

impl Default for Reentries {
    fn default() -> Reentries {
        Reentries {
            allowance: MAX_ALLOWANCE,
            last_received: 0,
            batch_limit: None,
            batch_remaining: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl Reentries {
    /// Sets the maximum number of passes per batch and starts a batch. 0 counts as 1, so that packets make progress.
    pub(super) fn set_batch(&mut self, passes: u32) {
        (self.batch_limit, self.batch_remaining) = (Some(passes.max(1)), passes.max(1));
    }

    pub(super) fn is_batched(&self) -> bool {
        self.batch_limit.is_some()
    }

    /// Starts the next batch.
    pub(super) fn start_batch(&mut self) {
        self.batch_remaining = self.batch_limit.unwrap_or_default();
    }

    /// Removes and returns the next packet that waits; `None` if there is none or the batch is used up.
    pub(super) fn next(&mut self) -> Option<(WaitingPacket, Origin)> {
        if self.batch_limit.is_some() {
            self.batch_remaining = self.batch_remaining.checked_sub(1)?;
        }
        self.waiting.pop_front()
    }

    /// Decides whether and when a packet takes another pass, and counts the pass unless it is refused. `received` is
    /// the number of packets that the switch has received.
    pub(super) fn admit(&mut self, origin: &mut Origin, received: u64) -> ReentryDecision {
        let earned = (received - self.last_received).saturating_mul(ALLOWANCE_PER_PACKET);
        self.allowance = self.allowance.saturating_add(earned).min(MAX_ALLOWANCE);
        self.last_received = received;
        let (Some(reentries), Some(allowance)) =
            (origin.reentries.checked_add(1), self.allowance.checked_sub(1))
        else {
            return ReentryDecision::Refused;
        };
        // While packets wait, others wait too, so that their order is kept.
        if self.batch_limit.is_some() && (self.batch_remaining == 0 || !self.waiting.is_empty()) {
            if self.waiting.len() == MAX_WAITING {
                return ReentryDecision::Refused;
            }
            (origin.reentries, self.allowance) = (reentries, allowance);
            return ReentryDecision::Later;
        }
        (origin.reentries, self.allowance) = (reentries, allowance);
        self.batch_remaining = self.batch_remaining.saturating_sub(1);
        ReentryDecision::Now
    }
}

/// Returns the warning for the first packet that exceeds a limit.
#[cold]
pub(super) fn warning(reason: DropReason) -> String {
    format!(
        "a packet is dropped ({}) because the program lets packets run again without end: more than {MAX_REENTRIES} \
         times a packet, or {ALLOWANCE_PER_PACKET} times per received packet on average; further ones are only counted",
        reason.name()
    )
}
