//! Frames on the emulated links of the ports: into them, out of them, and the timers of their arrivals.

use super::{RX_BATCH, Runtime, TransmitStatus, transmit};
use crate::driver::clock::wall_clock;
use crate::driver::timers::{Timer, TimerKind, Timers};
use crate::packet::Packet;
use std::time::Duration;
use weir_units::Time;

impl Runtime {
    /// Reads a batch of frames from an interface into the link to the switch. Returns whether there were any.
    pub(super) fn receive_into_link(&mut self, index: usize, timers: &mut Timers) -> bool {
        let Runtime { ports, out, clock, .. } = self;
        let mut read_times = None;
        let arrived_at = |received: Duration| {
            let &mut (now, wall) = read_times.get_or_insert_with(|| (clock.now(), wall_clock()));
            // The frame arrived before this thread read it, by the difference of the two wall-clock times.
            now.saturating_sub(Time::from_ns(wall.saturating_sub(received).as_nanos() as u64))
        };
        let frames = ports[index].receive_into_link(RX_BATCH, arrived_at, &mut out.pool);
        if frames > 0 {
            self.arm_ingress_timer(index, timers);
        }
        frames > 0
    }

    /// Arms a timer for the next arrival on the link from an interface.
    fn arm_ingress_timer(&mut self, index: usize, timers: &mut Timers) {
        let port = &mut self.ports[index];
        let link = port.ingress_link.as_mut();
        if let Some(due) = link.and_then(|link| link.arm(self.paused_until)) {
            timers.push(Timer {
                due,
                switch: self.index,
                port: port.number,
                kind: TimerKind::IngressLinkArrival,
            });
        }
    }

    /// Passes frames that have arrived on the link from an interface to the switch.
    pub(in crate::driver) fn deliver_from_link(&mut self, timer: Timer, now: Time, timers: &mut Timers) {
        let index = usize::from(self.port_index[usize::from(timer.port)]);
        let pop_arrived = |runtime: &mut Runtime| -> Option<(Time, Box<Packet>)> {
            runtime.ports.get_mut(index)?.ingress_link.as_mut()?.pop(now)
        };
        let Some(link) = self.ports.get_mut(index).and_then(|port| port.ingress_link.as_mut()) else {
            return;
        };
        if !link.timer_fired(timer.due) {
            return;
        }
        for _ in 0..RX_BATCH {
            if self.is_paused() {
                break;
            }
            let Some((arrival, packet)) = pop_arrived(self) else { break };
            self.deliver(arrival, now, timer.port, packet);
            self.transmit_ready(timers);
        }
        self.arm_ingress_timer(index, timers);
    }

    /// Moves packets from the switch to the port's link. They get the time at which the rate released them,
    /// not the time of this call, so that telemetry reports the rate of the link.
    pub(super) fn transmit_to_link(
        &mut self,
        number: u16,
        index: usize,
        timers: &mut Timers,
    ) -> TransmitStatus {
        let Some(switch) = &mut self.switch else { return TransmitStatus::Idle };
        let port = &mut self.ports[index];
        while port.has_room()
            && let Some(packet) = transmit(switch, &self.config, self.virtual_now, number, &mut self.out)
        {
            port.push(self.virtual_now, packet, &mut self.out.pool);
        }
        let status = if port.has_room() {
            TransmitStatus::from_queues(switch, number)
        } else {
            TransmitStatus::Until(Time::MAX)
        };
        self.arm_link_timer(number, timers);
        status
    }

    /// Arms a timer for the next arrival on a port's link. While the socket is full no timer is needed:
    /// sending continues when it is writable.
    #[inline]
    pub(in crate::driver) fn arm_link_timer(&mut self, number: u16, timers: &mut Timers) {
        self.arm_link_timer_after(number, Time::ZERO, timers);
    }

    /// Same as [`Self::arm_link_timer`], but for a time not before `earliest`.
    #[inline]
    pub(in crate::driver) fn arm_link_timer_after(
        &mut self,
        number: u16,
        earliest: Time,
        timers: &mut Timers,
    ) {
        let switch = self.index;
        let Some(port) = self.port(number).filter(|port| !port.tx_blocked) else { return };
        if let Some(due) = port.egress_link.as_mut().and_then(|link| link.arm(earliest)) {
            timers.push(Timer { due, switch, port: number, kind: TimerKind::LinkArrival });
        }
    }

    /// Sends frames that have arrived on a port's link to its interface.
    pub(in crate::driver) fn flush_link(&mut self, number: u16, now: Time) {
        let index = usize::from(self.port_index[usize::from(number)]);
        let port = &mut self.ports[index];
        while port.flush_link(now, &mut self.lateness) {
            if !port.flush(&mut self.out.pool) {
                self.epoll_set.watch_writable(self.index, port);
            }
        }
    }
}
