//! Counters of a host. Every dropped frame is counted under its reason.

pub use crate::drops::DropReason;
use crate::telemetry::TelemetryCounters;
use std::fmt;

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Numbers of dropped frames by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Drops([0; DropReason::ALL.len()])
    }
}

impl Drops {
    pub(crate) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }
    /// Returns the number of frames dropped for `reason`.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }
    /// Returns the number of dropped frames.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
    /// Returns the reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.get(reason))).filter(|&(_, n)| n > 0)
    }
}

/// Counters of a host since its creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Dropped frames.
    pub drops: Drops,
    /// Implausible telemetry.
    pub telemetry: TelemetryCounters,
    /// DATA packets sent, including retransmissions.
    pub data_sent: u64,
    /// Payload bytes sent, including retransmissions.
    pub payload_sent: u64,
    /// DATA packets sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Losses detected by duplicate ACKs.
    pub fast_retransmits: u64,
    /// Number of times that a scheme suppressed subflows of a message (AMP).
    pub suppressions: u64,
    /// DATA packets received in order.
    pub data_received: u64,
    /// Payload bytes received for the first time. With selective retransmission this includes bytes behind gaps; with
    /// go-back-N these are discarded.
    pub payload_received: u64,
    /// DATA packets whose bytes had all been received before.
    pub duplicates: u64,
    /// DATA packets received behind a gap.
    pub out_of_order: u64,
    /// DATA packets received with an ECN mark (CE).
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
    /// ACKs accepted.
    pub acks_received: u64,
    /// NACKs accepted.
    pub nacks_received: u64,
    /// Congestion notification packets accepted.
    pub cnps_received: u64,
    /// RATE packets accepted from switches.
    pub rates_received: u64,
    /// Replies to probes accepted, or credits stored.
    pub probe_replies_received: u64,
    /// Feedback that is older than feedback already accepted, or duplicates it; unusable credits; credits of finished
    /// messages.
    pub stale_feedback: u64,
    /// Inbound messages evicted to make room for newer ones.
    pub inbound_evicted: u64,
}
