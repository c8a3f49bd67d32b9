//! Pauses in both directions: those that neighbours asked for, and those that this switch asks of its neighbours.
//!
//! As in IEEE 802.1Q a pause has a length, after which it ends by itself. [`TrafficManager::next_pause_deadline`] is the
//! time at which the caller must end pauses that have expired ([`TrafficManager::expire_pauses`]), and send pause frames
//! again that would expire at the neighbour ([`TrafficManager::take_refreshes`]).

use super::{PauseQuanta, TrafficManager};
use weir_units::Time;

impl<T> TrafficManager<T> {
    /// Records that the neighbour of `port` paused a priority until a time, or resumed it (`None`). Returns whether the
    /// port had no sendable packet before and has one now.
    pub fn set_paused(&mut self, port: u16, priority: u8, until: Option<Time>) -> bool {
        let Some(port_index) = self.port_index(port) else { return false };
        if self.queue_index(port_index, priority).is_none() {
            return false;
        }
        let port = &mut self.ports[port_index];
        let was_idle = port.sendable() == 0;
        let bit = 1 << priority;
        port.paused_mask = port.paused_mask & !bit | u8::from(until.is_some()) << priority;
        port.extras.paused_until[usize::from(priority)] = until.unwrap_or_default();
        was_idle && port.sendable() != 0
    }

    /// Ends the pauses of `port` that have expired. Returns whether the port had no sendable packet before and has one
    /// now.
    pub fn expire_pauses(&mut self, now: Time, port: u16) -> bool {
        let Some(port_index) = self.port_index(port) else { return false };
        let port = &mut self.ports[port_index];
        let was_idle = port.sendable() == 0;
        for (priority, &until) in port.extras.paused_until.iter().enumerate() {
            port.paused_mask &= !(u8::from(until <= now) << priority);
        }
        was_idle && port.sendable() != 0
    }

    /// Returns the priorities, one bit each, for which the pause frame to the neighbour of `port` must be sent again,
    /// because it expires there and this switch has not resumed the neighbour.
    pub fn take_refreshes(&mut self, now: Time, port: u16) -> u8 {
        let port_index = self.port_index(port);
        self.pfc.as_mut().zip(port_index).map_or(0, |(pfc, port_index)| pfc.take_refreshes(now, port_index))
    }

    /// Returns when [`Self::expire_pauses`] and [`Self::take_refreshes`] must be called for `port`. Ask again after each
    /// pause in either direction, and after these calls.
    pub fn next_pause_deadline(&self, port: u16) -> Option<Time> {
        let port_index = self.port_index(port)?;
        let port = &self.ports[port_index];
        let paused = (0..self.priorities).filter(|priority| port.paused_mask & 1 << priority != 0);
        let expiry = paused.map(|priority| port.extras.paused_until[priority]).min();
        let refresh = self.pfc.as_ref().and_then(|pfc| pfc.next_refresh(port_index));
        expiry.into_iter().chain(refresh).min()
    }

    /// Returns the length of the pauses that this switch asks of its neighbours.
    pub fn pause_quanta(&self) -> PauseQuanta {
        self.pfc.as_ref().map_or(PauseQuanta::RESUME, |pfc| pfc.quanta())
    }

    /// Returns whether packets are queued in a priority that the neighbour of `port` has paused.
    pub fn has_paused_backlog(&self, port: u16, priority: u8) -> bool {
        self.port_index(port).is_some_and(|port_index| {
            self.ports[port_index].backlog_mask & self.ports[port_index].paused_mask & 1 << priority != 0
        })
    }

    /// Returns whether the last PFC frame to the neighbour on `port` paused this priority.
    pub fn is_pausing(&self, port: u16, priority: u8) -> bool {
        let pfc = self.pfc.as_ref().filter(|_| usize::from(priority) < self.priorities);
        pfc.zip(self.port_index(port))
            .is_some_and(|(pfc, port_index)| pfc.usage(port_index, priority).is_paused)
    }

    /// Returns the ingress ports and priorities that stay paused if the queues (port and priority) for which
    /// `is_stuck` returns true never send again and all others drain.
    pub fn deadlocked_pauses(&self, is_stuck: impl Fn(u16, u8) -> bool) -> Vec<(u16, u8)> {
        let Some(pfc) = &self.pfc else { return Vec::new() };
        let mut stuck_bytes = vec![0; self.queues.len()];
        for (port, queues) in self.ports.iter().zip(self.queues.chunks(self.priorities)) {
            for (priority, queue) in
                (0..).zip(queues).filter(|(priority, _)| is_stuck(port.number, *priority))
            {
                debug_assert!(port.backlog_mask & 1 << priority != 0);
                for queued in self.slab.iter(&queue.fifo) {
                    if let Some(account) = queued.account {
                        stuck_bytes[account as usize] += u64::from(queued.len);
                    }
                }
            }
        }
        pfc.deadlocked_accounts(&stuck_bytes)
            .map(|account| pfc.ingress_queue(account))
            .map(|(port_index, priority)| (self.ports[port_index].number, priority))
            .collect()
    }
}
