//! PFC between the nodes of a fabric: pause frames arrive, expire and are refreshed.

use super::Process;
use crate::events::Event;
use crate::link::{LocalNode, Transmitter};
use crate::nodes::PFC_CLASSES;
use crate::observers::{Observer, PauseEvent};
use crate::thread_buffers::ThreadBuffers;
use weir_units::Time;

impl Process {
    pub(super) fn on_pfc_arrival<O: Observer>(
        &mut self,
        index: u32,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        let wire = &mut self.wires[index as usize];
        let reverse = wire.reverse_transmitter;
        let event = Event::PfcArrival(index);
        // PFC frames are few: their batches are not reused.
        let Some(frame) = wire.pfc.pop_arrived(self.now, event, &mut self.queue, &mut Vec::new()) else {
            return;
        };
        if let Some(impairments) = &mut wire.impairments
            && let Err(reason) = impairments.check_pfc(self.now, wire.delay, frame.is_refresh)
        {
            // A refresh is counted neither when it is sent nor when it is lost.
            if !frame.is_refresh {
                observer.on_loss(reason);
            }
            return;
        }
        let pause_end = || {
            let rate = self.transmitters[reverse as usize].rate;
            self.now.saturating_add(frame.quanta.duration(rate))
        };
        let until = frame.quanta.is_pause().then(pause_end);
        self.set_paused(reverse, frame.priority, until, observer, buffers);
    }

    /// Pauses a class of a transmitter until a time, or resumes it (`None`).
    fn set_paused<O: Observer>(
        &mut self,
        index: u32,
        class: u8,
        until: Option<Time>,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        let &Transmitter { direction, from, from_port, .. } = &self.transmitters[index as usize];
        observer.on_pause(&PauseEvent { time: self.now, direction, class, until });
        match from {
            LocalNode::Switch(switch) => {
                if self.switches[switch as usize].switch.set_paused(from_port, class, until) {
                    self.transmit(index, observer, buffers);
                }
            }
            LocalNode::Host(host) => {
                self.hosts[host as usize].set_paused(class, until);
                if until.is_none() {
                    self.kick(host, observer, buffers);
                }
            }
        }
        if until.is_some() {
            self.arm_pause_timer(index);
        }
    }

    /// Clears all PFC pauses of a transmitter, because the resume frames may have been lost: with its link, or in the
    /// restart of the neighbouring switch.
    pub(crate) fn unpause<O: Observer>(&mut self, index: u32, observer: &mut O, buffers: &mut ThreadBuffers) {
        let &Transmitter { from, from_port, direction, .. } = &self.transmitters[index as usize];
        for class in 0..PFC_CLASSES {
            observer.on_pause(&PauseEvent { time: self.now, direction, class, until: None });
            match from {
                LocalNode::Switch(switch) => {
                    self.switches[switch as usize].switch.set_paused(from_port, class, None);
                }
                LocalNode::Host(host) => self.hosts[host as usize].set_paused(class, None),
            }
        }
        match from {
            LocalNode::Switch(_) => {
                self.transmit(index, observer, buffers);
            }
            LocalNode::Host(host) => self.kick(host, observer, buffers),
        }
    }

    /// Schedules an event for the next pause of a transmitter that expires or must be refreshed, unless one is pending
    /// at that time or earlier.
    pub(super) fn arm_pause_timer(&mut self, index: u32) {
        let &Transmitter { from, from_port, .. } = &self.transmitters[index as usize];
        let deadline = match from {
            LocalNode::Switch(switch) => self.switches[switch as usize].switch.next_pause_deadline(from_port),
            LocalNode::Host(host) => self.hosts[host as usize].next_pause_deadline(),
        };
        let pending = &mut self.pause_timers[index as usize];
        if let Some(deadline) = deadline.filter(|deadline| deadline < pending) {
            *pending = deadline;
            self.queue.push(deadline, Event::PauseTimer(index), self.now);
        }
    }

    #[cold]
    pub(super) fn on_pause_timer<O: Observer>(
        &mut self,
        index: u32,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        let now = self.now;
        if self.pause_timers[index as usize] != now {
            return;
        }
        self.pause_timers[index as usize] = Time::MAX;
        let &Transmitter { from, from_port, .. } = &self.transmitters[index as usize];
        match from {
            LocalNode::Switch(switch) => {
                let outbox = &mut buffers.outbox;
                self.switches[switch as usize].switch.on_pause_deadline(now, from_port, outbox);
                while let Some((_, frame)) = buffers.outbox.pfc.pop() {
                    let transmitter = &mut self.transmitters[index as usize];
                    let was_flushed = transmitter.is_flushed();
                    transmitter.refresh_pause(now, frame);
                    self.on_sent(index, was_flushed);
                }
                self.flush_outbox(switch, observer, buffers);
            }
            LocalNode::Host(host) => {
                if self.hosts[host as usize].expire_pauses(now) {
                    self.kick(host, observer, buffers);
                }
            }
        }
        self.arm_pause_timer(index);
    }
}
