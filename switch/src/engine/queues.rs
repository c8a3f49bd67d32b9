//! The traffic manager with the engine's bookkeeping: reports ready ports and pauses to the driver, counts
//! dropped packets and reuses their boxes.

use super::output::SwitchOutput;
use super::replication::Replica;
use crate::drops::{DropReason, Drops};
use crate::packet::{Packet, PacketPool};
use crate::tm::{Departure, EnqueueRequest, PauseQuanta, TmConfig, TmConfigError, TrafficManager};
use crate::trace::{Step, SwitchTracer};
use weir_units::Time;

/// Maximum number of boxes of dropped packets that the switch keeps for copies; further boxes go to the driver.
const MAX_SPARE_PACKETS: usize = 64;

/// The context of one call by the driver.
pub(super) struct CallContext<'a, T> {
    pub now: Time,
    pub out: &'a mut dyn SwitchOutput,
    pub tracer: &'a mut T,
}

/// Where a packet came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// The port at which the packet arrived.
    pub port: u16,
    /// The PFC class in which the neighbour sent the packet; `None`: unknown, the priority that the program sets is
    /// used.
    pub class: Option<u8>,
    /// Number of times that the packet entered the pipeline again, including those of the packet from which it was
    /// cloned.
    pub reentries: u16,
}

/// A packet in a queue of the switch.
#[derive(Debug)]
pub struct Queued {
    pub(super) packet: Box<Packet>,
    pub(super) origin: Origin,
    /// `standard_metadata.egress_rid`, which distinguishes copies of one packet.
    pub(super) instance: u16,
}

impl Queued {
    /// Returns the packet. Its bytes are the frame before deparsing.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }
}

pub(super) struct SwitchQueues {
    pub tm: TrafficManager<Queued>,
    pub drops: Drops,
    /// Packets that the switch created: clones, and replicas beyond the first.
    pub copied: u64,
}

impl SwitchQueues {
    pub(super) fn new(config: &TmConfig) -> Result<SwitchQueues, TmConfigError> {
        Ok(SwitchQueues { tm: TrafficManager::new(config)?, drops: Drops::default(), copied: 0 })
    }

    /// Counts a packet as dropped and recycles its box.
    #[cold]
    pub(super) fn drop<T: SwitchTracer>(
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

    /// Queues a packet, or drops it if the traffic manager rejects it.
    #[inline(always)]
    pub(super) fn enqueue<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        pool: &mut PacketPool,
        to: Replica,
        priority: u8,
        packet: Box<Packet>,
        origin: Origin,
    ) {
        let ingress_priority = origin.class.unwrap_or(priority);
        let request = EnqueueRequest {
            ingress: origin.port,
            ingress_priority,
            egress: to.port,
            priority,
            len: packet.len(),
        };
        if T::ENABLED {
            let depth = self.tm.queue_occupancy(to.port, priority).packets;
            call.tracer.step(Step::Queued { port: to.port, priority, instance: to.instance, depth });
        }
        match self.tm.enqueue(call.now, request, Queued { packet, origin, instance: to.instance }) {
            // The neighbour is paused for the class in which it sent the packet, not for the egress priority.
            Ok(admission) => {
                if admission.ready {
                    call.out.ready(to.port);
                }
                if admission.pause {
                    call.out.pause(origin.port, ingress_priority, self.tm.pause_quanta());
                }
            }
            Err(rejected) => self.drop(call, pool, rejected.item.packet, rejected.reason),
        }
    }

    /// Queues a copy for every replica; the packet itself is the last copy.
    pub(super) fn replicate<T: SwitchTracer>(
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

    /// Dequeues the next packet of a port, and resumes the paused neighbour that sent it if PFC permits.
    #[inline(always)]
    pub(super) fn dequeue<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        port: u16,
    ) -> Option<Departure<Queued>> {
        // Prefetch the packet that is dequeued next: it has probably left the processor's cache since it was queued.
        let departure = self.tm.dequeue(call.now, port, |next| next.packet.prefetch())?;
        if let Some((neighbour, priority)) = departure.resume {
            call.out.pause(neighbour, priority, PauseQuanta::RESUME);
        }
        Some(departure)
    }
}
