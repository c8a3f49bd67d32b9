//! What control, drivers and statistics read and set while a switch runs.

use super::{Clock, CloneSession, Queued, Replica, ReplicationError, Switch, SwitchCounters, SwitchOutput};
use crate::drops::Drops;
use crate::pipeline::Pipeline;
use crate::tm::{QueueLimits, Rate, TrafficManager};
use std::collections::BTreeMap;
use weir_units::Time;

/// The runtime API of the switch.
impl Switch {
    /// Returns the pipeline, for reading tables, registers, counters and meters.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
    pub fn pipeline_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }
    /// Returns the unit of the program's timestamps.
    pub fn clock(&self) -> Clock {
        self.clock
    }
    /// Sets the time for the runtime API: idle timeouts of entries that are written next start at `now`.
    pub fn set_now(&mut self, now: Time) {
        self.pipeline.set_now(self.clock.ticks(now));
    }
    /// Creates or replaces a multicast group.
    ///
    /// # Errors
    ///
    /// The group is 0, or a replica occurs twice. The old group stays.
    pub fn set_multicast_group(
        &mut self,
        group: u16,
        replicas: Vec<Replica>,
    ) -> Result<(), ReplicationError> {
        self.replication.set_group(group, replicas)
    }
    /// Removes a multicast group. Returns `false` if it did not exist.
    pub fn delete_multicast_group(&mut self, group: u16) -> bool {
        self.replication.delete_group(group)
    }
    /// Returns all multicast groups by id.
    pub fn multicast_groups(&self) -> &BTreeMap<u16, Vec<Replica>> {
        self.replication.groups()
    }
    /// Creates or replaces a clone session.
    ///
    /// # Errors
    ///
    /// The id exceeds 32,767, clones are truncated to 0 bytes, or a replica occurs twice. The old session
    /// stays.
    pub fn set_clone_session(&mut self, id: u16, session: CloneSession) -> Result<(), ReplicationError> {
        self.replication.set_session(id, session)
    }
    /// Removes a clone session. Returns `false` if it did not exist.
    pub fn delete_clone_session(&mut self, id: u16) -> bool {
        self.replication.delete_session(id)
    }
    /// Returns all clone sessions by id.
    pub fn clone_sessions(&self) -> &BTreeMap<u16, CloneSession> {
        self.replication.sessions()
    }
    /// Records a PFC frame from the neighbour on this port: a pause until a time, or a resume (`None`). Returns whether
    /// the port had no sendable packet before and has one now: then do the same as for [`SwitchOutput::ready`]. After a
    /// pause query [`Switch::next_pause_deadline`].
    pub fn set_paused(&mut self, port: u16, priority: u8, until: Option<Time>) -> bool {
        self.queues.tm.set_paused(port, priority, until)
    }
    /// Returns when [`Switch::on_pause_deadline`] must be called for this port; `None` while nothing is paused there.
    pub fn next_pause_deadline(&self, port: u16) -> Option<Time> {
        self.queues.tm.next_pause_deadline(port)
    }
    /// Ends pauses of this port that have expired, and refreshes pauses that would expire at its neighbour.
    pub fn on_pause_deadline(&mut self, now: Time, port: u16, out: &mut impl SwitchOutput) {
        let refreshes = self.queues.tm.take_refreshes(now, port);
        for priority in (0..self.queues.tm.priorities()).filter(|priority| refreshes & 1 << priority != 0) {
            out.pause(port, priority, self.queues.tm.pause_quanta());
        }
        if self.queues.tm.expire_pauses(now, port) {
            out.ready(port);
        }
    }
    /// Returns the earliest time at which [`Switch::transmit`] has a packet for this port, which may be in
    /// the past; `None` if no packet is queued or all queued packets are paused.
    pub fn next_ready(&self, port: u16) -> Option<Time> {
        self.queues.tm.next_ready(port)
    }
    /// Returns whether [`Switch::next_ready`] is `Some`.
    #[inline]
    pub fn can_transmit(&self, port: u16) -> bool {
        self.queues.tm.has_next(port)
    }
    /// Sets the rate of a port, or of one of its queues. Returns `false` if the port or queue does not exist.
    pub fn set_rate(&mut self, port: u16, priority: Option<u8>, rate: Rate) -> bool {
        match priority {
            None => self.queues.tm.set_rate(port, rate),
            Some(priority) => self.queues.tm.set_queue_rate(port, priority, rate),
        }
    }
    /// Sets the limits of all queues of a port, or of one. Returns `false` if the port or queue does not
    /// exist.
    pub fn set_limits(&mut self, port: u16, priority: Option<u8>, limits: QueueLimits) -> bool {
        match priority {
            None => self.queues.tm.set_limits(port, limits),
            Some(priority) => self.queues.tm.set_queue_limits(port, priority, limits),
        }
    }
}

/// Occupancy and counters.
impl Switch {
    /// Returns the number of packets queued at a port, over all priorities.
    pub fn queue_packets(&self, port: u16) -> u32 {
        self.queues.tm.port_occupancy(port).packets
    }
    /// Returns the number of bytes queued at a port, over all priorities.
    pub fn queue_bytes(&self, port: u16) -> u64 {
        self.queues.tm.port_occupancy(port).bytes
    }
    pub fn drops(&self) -> &Drops {
        &self.queues.drops
    }
    pub fn counters(&self) -> SwitchCounters {
        SwitchCounters {
            received: self.received,
            copied: self.queues.copied,
            sent: self.sent,
            dropped: self.queues.drops.clone(),
            queued: self.queues.tm.counters().queued.packets + self.reentries.waiting.len() as u64,
        }
    }
    /// Returns the traffic manager, for occupancy, peaks and counters of each port.
    pub fn queues(&self) -> &TrafficManager<Queued> {
        &self.queues.tm
    }
    /// Resets the peaks of all queues to the current occupancy.
    pub fn reset_peaks(&mut self) {
        self.queues.tm.reset_peaks();
    }
}
