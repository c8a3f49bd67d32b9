//! Totals of a traffic manager's counters, and an audit that compares them with the queues.

use super::TrafficManager;
use super::counters::{Imbalance, QueueCounters};
use crate::drops::PacketCount;

impl<T> TrafficManager<T> {
    /// Returns the counters of one port; zero for a port that does not exist.
    pub fn port_counters(&self, port: u16) -> QueueCounters {
        let Some(port_index) = self.port_index(port) else { return QueueCounters::default() };
        let port = &self.ports[port_index];
        let queued = PacketCount { packets: u64::from(port.occupancy.packets), bytes: port.occupancy.bytes };
        QueueCounters { offered: port.offered, sent: port.sent, dropped: port.extras.dropped.clone(), queued }
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
        let mut charged_bytes = vec![0u64; self.queues.len()];
        for (port_index, port) in self.ports.iter().enumerate() {
            let location = Some(port.number);
            let mut in_port = PacketCount::default();
            for priority in 0..self.priorities {
                let queue = &self.queues[port_index * self.priorities + priority];
                let mut in_queue = PacketCount::default();
                for queued in self.slab.iter(&queue.fifo) {
                    in_queue.count(queued.len);
                    if let Some(account) = queued.account {
                        charged_bytes[account as usize] += u64::from(queued.len);
                    }
                }
                check(in_queue.packets == u64::from(queue.fifo.packets), "packets of a queue", location)?;
                check(in_queue.bytes == queue.fifo.bytes, "bytes of a queue", location)?;
                let is_backlogged = port.backlog_mask & (1 << priority) != 0;
                check(is_backlogged == (in_queue.packets > 0), "mask of waiting priorities", location)?;
                in_port += in_queue;
            }
            let counters = self.port_counters(port.number);
            check(in_port == counters.queued, "queued", location)?;
            check(counters.is_balanced(), "offered = sent + dropped + queued", location)?;
            buffered += in_port.bytes;
        }
        check(buffered == self.buffered, "buffered bytes", None)?;
        check(self.counters().is_balanced(), "offered = sent + dropped + queued", None)?;
        let Some(pfc) = &self.pfc else { return Ok(()) };
        for (account, &bytes) in (0..).zip(&charged_bytes) {
            let (port_index, priority) = pfc.ingress_queue(account);
            let entry = pfc.usage(port_index, priority);
            let location = Some(self.ports[port_index].number);
            check(entry.pooled + entry.headroom == bytes, "ingress use", location)?;
        }
        check(pfc.pool_balances(), "shared pool", None)
    }
}
