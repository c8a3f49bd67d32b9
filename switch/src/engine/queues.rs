//! The traffic manager as the engine uses it: decisions are told to the driver, packets that do not fit are counted and
//! their boxes used again.

use super::output::SwitchOutput;
use super::replication::Replica;
use crate::drops::{DropReason, Drops};
use crate::packet::{Packet, PacketPool};
use crate::tm::{Departure, EnqueueRequest, TmConfig, TmConfigError, TrafficManager};
use crate::trace::{Step, SwitchTracer};
use weir_units::Time;

/// Boxes of dropped packets that the switch keeps for copies before it gives them to the driver.
const MAX_SPARE_PACKETS: usize = 64;

/// One call of the driver: when, whom to tell, and who watches.
pub(super) struct CallContext<'a, T> {
    pub now: Time,
    pub out: &'a mut dyn SwitchOutput,
    pub tracer: &'a mut T,
}

/// The origin of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The port it arrived at.
    pub port: u16,
    /// The class in which it was sent to there; `None`: the class that the program gives it.
    pub class: Option<u8>,
    /// Times that it, or the packet it was cloned from, passed egress and returned.
    pub recirculations: u8,
}

/// A packet in a queue of the switch.
#[derive(Debug)]
pub struct Queued {
    pub(super) packet: Box<Packet>,
    pub(super) origin: Origin,
    /// Distinguishes copies of one packet: `standard_metadata.egress_rid`.
    pub(super) instance: u16,
}

impl Queued {
    /// Returns the packet, whose bytes are the frame as it arrived.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }
}

pub(super) struct SwitchQueues {
    pub tm: TrafficManager<Queued>,
    pub drops: Drops,
    /// Packets made by the switch: clones, and replicas beyond the first.
    pub copied: u64,
}

impl SwitchQueues {
    pub fn new(config: &TmConfig) -> Result<SwitchQueues, TmConfigError> {
        Ok(SwitchQueues { tm: TrafficManager::new(config)?, drops: Drops::default(), copied: 0 })
    }

    /// Counts a packet as dropped and its box as free.
    #[cold]
    pub fn drop<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        pool: &mut PacketPool,
        packet: Box<Packet>,
        reason: DropReason,
    ) {
        call.tracer.step(Step::Dropped(reason));
        self.drops.count(reason, packet.len());
        if pool.len() < MAX_SPARE_PACKETS {
            pool.put(packet);
        } else {
            call.out.recycle(packet);
        }
    }

    /// Queues a packet as one copy, or drops it.
    #[inline(always)]
    pub fn enqueue<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        pool: &mut PacketPool,
        to: Replica,
        priority: u8,
        packet: Box<Packet>,
        origin: Origin,
    ) {
        let ingress_priority = origin.class.unwrap_or(priority);
        let at = EnqueueRequest {
            ingress: origin.port,
            ingress_priority,
            egress: to.port,
            priority,
            len: packet.len(),
        };
        if T::ENABLED {
            let depth = self.tm.queue_level(to.port, priority).packets;
            call.tracer.step(Step::Queued { port: to.port, priority, instance: to.instance, depth });
        }
        match self.tm.enqueue(call.now, at, Queued { packet, origin, instance: to.instance }) {
            Ok(admitted) => {
                if admitted.ready {
                    call.out.ready(to.port);
                }
                if admitted.pause {
                    call.out.pause(origin.port, ingress_priority, true);
                }
            }
            Err(refused) => self.drop(call, pool, refused.item.packet, refused.reason),
        }
    }

    /// Queues a copy for every replica; the last one is the packet itself.
    pub fn replicate<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        pool: &mut PacketPool,
        replicas: &[Replica],
        priority: u8,
        packet: Box<Packet>,
        origin: Origin,
    ) {
        let Some((&last, copies)) = replicas.split_last() else {
            return self.drop(call, pool, packet, DropReason::NoReplicas);
        };
        for &to in copies {
            let copy = pool.copy(&packet);
            self.copied += 1;
            self.enqueue(call, pool, to, priority, copy, origin);
        }
        self.enqueue(call, pool, last, priority, packet, origin);
    }

    /// Takes the next packet of a port, and tells a neighbour that may go on.
    #[inline(always)]
    pub fn dequeue<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        port: u16,
    ) -> Option<Departure<Queued>> {
        // Since it was queued, the next packet has left the caches.
        let departure = self.tm.dequeue(call.now, port, |next| next.packet.prefetch())?;
        if let Some((neighbour, priority)) = departure.resume {
            call.out.pause(neighbour, priority, false);
        }
        Some(departure)
    }
}
