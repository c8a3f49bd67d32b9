//! The counters of the traffic manager.

use crate::drops::{Drops, PacketCount};
use thiserror::Error;

/// Counters of a port or of all ports, in packets and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets passed to [`TrafficManager::enqueue`](super::TrafficManager::enqueue).
    pub offered: PacketCount,
    /// Packets that were dequeued.
    pub sent: PacketCount,
    /// Packets that were rejected and not queued, by reason.
    pub dropped: Drops,
    /// Packets in queues.
    pub queued: PacketCount,
}

impl QueueCounters {
    /// Returns whether `offered = sent + dropped + queued`.
    pub fn is_balanced(&self) -> bool {
        self.offered == self.sent + self.dropped.total() + self.queued
    }
}

/// Counters that contradict each other, because of a bug in this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the traffic manager's counters do not balance: {what} at port {port:?}")]
pub struct Imbalance {
    /// The counter or equation that does not hold.
    pub what: &'static str,
    /// The port; `None` for the whole switch.
    pub port: Option<u16>,
}
