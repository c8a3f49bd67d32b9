//! The counters of the traffic manager, and their audit.

use super::TrafficManager;
use crate::drops::{Drops, PacketCount};
use thiserror::Error;

/// Counters of a port or of all ports, in packets and bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets passed to [`TrafficManager::enqueue`].
    pub offered: PacketCount,
    /// Packets that were dequeued.
    pub sent: PacketCount,
    /// Packets that were not queued, by reason.
    pub dropped: Drops,
    /// Packets in queues.
    pub queued: PacketCount,
}

impl QueueCounters {
    /// Returns whether `offered = sent + dropped + queued`.
    pub fn balance(&self) -> bool {
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

impl<T> TrafficManager<T> {
    /// Returns the counters of one port; zero for a port that does not exist.
    pub fn port_counters(&self, port: u16) -> QueueCounters {
        let Some(slot) = self.slot(port) else { return QueueCounters::default() };
        let port = &self.ports[slot];
        let queued = PacketCount { packets: u64::from(port.level.packets), bytes: port.level.bytes };
        QueueCounters { offered: port.offered, sent: port.sent, dropped: port.rest.dropped.clone(), queued }
    }

    /// Returns the counters of the whole switch, including packets for ports that do not exist.
    pub fn counters(&self) -> QueueCounters {
        let mut total = QueueCounters {
            offered: self.unroutable.total(),
            dropped: self.unroutable.clone(),
            ..QueueCounters::default()
        };
        for port in &self.ports {
            let counters = self.port_counters(port.number);
            total.offered += counters.offered;
            total.sent += counters.sent;
            total.dropped += &counters.dropped;
            total.queued += counters.queued;
        }
        total
    }

    /// Recounts every queue packet by packet and compares the results with the counters.
    ///
    /// # Errors
    ///
    /// The first counter that differs, because of a bug in this crate.
    pub fn audit(&self) -> Result<(), Imbalance> {
        let check = |holds: bool, what, port| if holds { Ok(()) } else { Err(Imbalance { what, port }) };
        let mut buffered = 0;
        let mut charged = vec![0u64; self.queues.len()];
        for (slot, port) in self.ports.iter().enumerate() {
            let at = Some(port.number);
            let mut in_port = PacketCount::default();
            for priority in 0..self.priorities {
                let queue = &self.queues[slot * self.priorities + priority];
                let mut in_queue = PacketCount::default();
                for waiting in self.slab.iter(&queue.fifo) {
                    in_queue.count(waiting.len);
                    if let Some(charge) = waiting.charged {
                        charged[charge as usize] += u64::from(waiting.len);
                    }
                }
                check(in_queue.packets == u64::from(queue.fifo.packets), "packets of a queue", at)?;
                check(in_queue.bytes == queue.fifo.bytes, "bytes of a queue", at)?;
                let waits = port.waiting & (1 << priority) != 0;
                check(waits == (in_queue.packets > 0), "mask of waiting priorities", at)?;
                in_port += in_queue;
            }
            let counters = self.port_counters(port.number);
            check(in_port == counters.queued, "queued", at)?;
            check(counters.balance(), "offered = sent + dropped + queued", at)?;
            buffered += in_port.bytes;
        }
        check(buffered == self.buffered, "buffered bytes", None)?;
        check(self.counters().balance(), "offered = sent + dropped + queued", None)?;
        let Some(pfc) = &self.pfc else { return Ok(()) };
        for (index, &bytes) in charged.iter().enumerate() {
            let (slot, priority) = (index / self.priorities, index % self.priorities);
            let entry = pfc.of(slot, priority as u8);
            let at = Some(self.ports[slot].number);
            check(entry.pooled + entry.headroom == bytes, "ingress use", at)?;
        }
        check(pfc.pool_balances(), "shared pool", None)
    }
}
