//! Counters, every drop under its reason.

pub use crate::drops::DropReason;
use crate::telemetry::TelemetryCounters;
use std::fmt;

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Drops by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    pub(crate) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }
    /// Returns the number of drops for this reason.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }
    /// Returns the number of all drops.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
    /// Reasons that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.get(reason))).filter(|&(_, n)| n > 0)
    }
}

/// Counters of a host since its creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Frames thrown away.
    pub drops: Drops,
    /// Telemetry records left out.
    pub telemetry: TelemetryCounters,
    /// DATA packets sent, repeated ones included.
    pub data_sent: u64,
    /// Payload bytes sent, repeated ones included.
    pub payload_sent: u64,
    /// DATA packets sent more than once.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Losses that duplicate ACKs told of.
    pub fast_retransmits: u64,
    /// Number of times that a message fell back from several subflows to fewer (AMP).
    pub suppressions: u64,
    /// DATA packets taken in order.
    pub data_received: u64,
    /// Payload bytes taken in order.
    pub payload_received: u64,
    /// DATA packets that had been received before.
    pub duplicates: u64,
    /// DATA packets behind a gap.
    pub out_of_order: u64,
    /// DATA packets that arrived marked.
    pub marked: u64,
    /// ACKs sent.
    pub acks_sent: u64,
    /// NACKs sent.
    pub nacks_sent: u64,
    /// Congestion notification packets sent.
    pub cnps_sent: u64,
    /// Probes sent.
    pub probes_sent: u64,
    /// Replies to probes sent.
    pub probe_replies_sent: u64,
    /// ACKs that were taken.
    pub acks_received: u64,
    /// NACKs that were taken.
    pub nacks_received: u64,
    /// Congestion notification packets that were taken.
    pub cnps_received: u64,
    /// Rates from switches that were taken.
    pub rates_received: u64,
    /// Replies to probes that were taken.
    pub probe_replies_received: u64,
    /// ACKs, NACKs and replies older than one already taken.
    pub stale_feedback: u64,
    /// Inbound flows forgotten to make room for newer ones.
    pub inbound_evicted: u64,
}
