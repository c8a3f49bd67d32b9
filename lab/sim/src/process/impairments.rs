//! Frames on a wire that loses, delays, duplicates or corrupts them.

use super::Process;
use crate::events::Event;
use crate::link::Wire;
use crate::observers::Observer;
use crate::thread_buffers::ThreadBuffers;
use weir_switch::packet::Packet;

impl Process {
    #[cold]
    pub(super) fn on_impaired_arrival<O: Observer>(
        &mut self,
        index: u32,
        mut packet: Box<Packet>,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        let now = self.now;
        let Wire { impairments: Some(impairments), delay, .. } = &mut self.wires[index as usize] else {
            return;
        };
        let delivery = match impairments.on_arrival(now, *delay, &mut packet, &mut buffers.pool) {
            Ok(delivery) => delivery,
            Err(reason) => {
                observer.on_loss(reason);
                return buffers.pool.put(packet);
            }
        };
        for packet in [Some(packet), delivery.copy].into_iter().flatten() {
            match &mut self.wires[index as usize].impairments {
                Some(impairments) if delivery.arrival > now => {
                    impairments.delay(delivery.arrival, now, packet);
                    self.queue.push(delivery.arrival, Event::DelayedArrival(index), now);
                }
                _ => self.receive_frame_outlined(index, packet, observer, buffers),
            }
        }
    }

    pub(super) fn on_delayed_arrival<O: Observer>(
        &mut self,
        index: u32,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        let Wire { impairments: Some(impairments), delay, .. } = &mut self.wires[index as usize] else {
            return;
        };
        match impairments.pop_delayed(self.now, *delay) {
            Some((packet, Ok(()))) => self.receive_frame_outlined(index, packet, observer, buffers),
            Some((packet, Err(reason))) => {
                observer.on_loss(reason);
                buffers.pool.put(packet);
            }
            None => {}
        }
    }

    /// Calls [`Process::receive_frame`] out of line: that one is inlined into the path without faults, and a second
    /// inlined copy would only make this code larger.
    #[inline(never)]
    fn receive_frame_outlined<O: Observer>(
        &mut self,
        index: u32,
        packet: Box<Packet>,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        self.receive_frame(index, packet, observer, buffers);
    }
}
