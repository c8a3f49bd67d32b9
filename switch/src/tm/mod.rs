//! The traffic manager: queues packets between ingress and egress.
//!
//! Each port has up to eight queues, one per priority. A queue is a FIFO with limits; all queues share one buffer.
//! Priorities are strict, but adjacent queues may share the port by weight instead. Priority flow control (PFC) makes
//! classes lossless: it charges queued packets to the port and class in which they arrived (an account), and reports
//! when the neighbour there must pause. The traffic manager does not depend on P4, packets or a clock: it queues any
//! item, with a length, ports and priorities.
//!
//! Its counters balance at every moment, per port and in total:
//! `offered = sent + dropped (by reason) + queued`, in packets and in bytes.
//!
//! After the first burst nothing is allocated.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod audit;
mod config;
mod counters;
mod drr;
mod fifo;
mod pauses;
mod pfc;
mod shaper;
#[cfg(test)]
mod tests;

pub use config::{
    MAX_PORT, MAX_PRIORITIES, PauseQuanta, PfcConfig, PfcMode, PfcPort, PortConfig, QueueLimits, Rate,
    TmConfig, TmConfigError,
};
pub use counters::{Imbalance, QueueCounters};

use crate::drops::{DropReason, Drops, PacketCount};
use crate::prefetch::prefetch_all;
use drr::{DrrState, DrrWeights};
use fifo::{Fifo, QueuedItem, Slab};
use pfc::Pfc;
pub(crate) use shaper::MAX_CATCH_UP;
use shaper::Shaper;
use weir_units::{Bytes, Time};

/// Marks a missing port in `index_by_port`.
const NO_PORT_INDEX: u16 = u16::MAX;

/// The ports, classes and length of a packet to queue.
#[derive(Clone, Copy, Debug)]
pub struct EnqueueRequest {
    /// The port at which the packet arrived.
    pub ingress: u16,
    /// The class in which the neighbour on that port sent the packet; PFC charges and pauses it.
    pub ingress_priority: u8,
    /// The port by which the packet leaves.
    pub egress: u16,
    /// The priority of the queue at the egress port.
    pub priority: u8,
    /// The packet's length in bytes, including its virtual tail.
    pub len: u32,
}

/// The actions that [`TrafficManager::enqueue`] requests from its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The egress port may be able to send earlier than before: it had no sendable packet, or it waited for
    /// the rate of another queue. Query [`TrafficManager::next_ready`].
    pub ready: bool,
    /// A pause frame must be sent on the ingress port, for the ingress priority.
    pub pause: bool,
}

/// A packet that was not queued, and the reason.
#[derive(Debug)]
pub struct RejectedPacket<T> {
    pub item: T,
    pub reason: DropReason,
}

/// A packet that was dequeued.
#[derive(Debug)]
pub struct Departure<T> {
    pub item: T,
    /// The length with which the packet was queued.
    pub len: u32,
    /// The priority of its queue.
    pub priority: u8,
    /// Time at which the packet was queued.
    pub enqueued: Time,
    /// Packets in the queue before this one was queued (BMv2's `enq_qdepth`).
    pub enqueue_depth: u32,
    /// Packets in the queue after this one was dequeued (BMv2's `deq_qdepth`).
    pub dequeue_depth: u32,
    /// A resume frame must be sent on this port, for this priority.
    pub resume: Option<(u16, u8)>,
}

/// The occupancy of a port or a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    pub packets: u32,
    pub bytes: u64,
    /// The maximum of `bytes` since the last [`TrafficManager::reset_peaks`].
    pub peak_bytes: u64,
}

#[derive(Debug)]
struct Queue {
    fifo: Fifo,
    limits: QueueLimits,
    peak: u64,
    shaper: Shaper,
}

impl Queue {
    fn new(limits: QueueLimits) -> Queue {
        Queue { fifo: Fifo::default(), limits, peak: 0, shaper: Shaper::default() }
    }
}

/// A port: the fields that every packet needs, in two cache lines.
#[derive(Debug)]
#[repr(align(64))]
struct Port {
    number: u16,
    /// Priorities that have packets, one bit each.
    backlog_mask: u8,
    /// Priorities that the neighbour paused, one bit each.
    paused_mask: u8,
    /// Priorities that have a rate of their own, one bit each.
    shaped_mask: u8,
    shaper: Shaper,
    occupancy: Occupancy,
    offered: PacketCount,
    sent: PacketCount,
    extras: Box<PortExtras>,
}

/// The fields of a port that few packets need.
#[derive(Debug, Default)]
struct PortExtras {
    drr: DrrState,
    dropped: Drops,
    /// End of the pause of each priority in `Port::paused_mask`.
    paused_until: [Time; MAX_PRIORITIES as usize],
}

// Every packet reads and writes these fields; one more cache line would cost each of them.
const _: () = assert!(size_of::<Port>() == 128, "a port takes two cache lines");

impl Port {
    /// Returns the priorities that have packets and are not paused, one bit each.
    #[inline]
    fn sendable(&self) -> u8 {
        self.backlog_mask & !self.paused_mask
    }
}

/// Checks the limits of the queue, of the buffer and of PFC, and charges the packet to its PFC account. Returns the
/// account; `None` if the class is lossy. `exceeds_buffer`: the packet does not fit the shared buffer. `ingress` is
/// the index of the ingress port, `None` if the port does not exist.
#[inline(always)]
fn admit(
    Queue { limits, fifo, .. }: &Queue,
    exceeds_buffer: bool,
    pfc: &mut Option<Pfc>,
    ingress: Option<usize>,
    request: &EnqueueRequest,
) -> Result<Option<u32>, DropReason> {
    if fifo.packets >= limits.packets || fifo.bytes + u64::from(request.len) > limits.bytes.get() {
        return Err(DropReason::TailDrop);
    }
    let account = match (&pfc, ingress) {
        (Some(pfc), Some(ingress)) => pfc.account(ingress, request.ingress_priority),
        _ => None,
    };
    match (pfc, account) {
        // The dynamic pool is set aside within the buffer, so a full buffer does not affect it.
        (Some(pfc), Some(account)) if pfc.is_dynamic() || !exceeds_buffer => {
            if pfc.admit(account, request.len) { Ok(Some(account)) } else { Err(DropReason::PfcHeadroom) }
        }
        _ if exceeds_buffer => Err(DropReason::BufferFull),
        _ => Ok(None),
    }
}

/// The queues of a switch.
#[derive(Debug)]
pub struct TrafficManager<T> {
    /// Index into `ports` by port number; [`NO_PORT_INDEX`] if the port is not configured.
    index_by_port: Box<[u16]>,
    ports: Vec<Port>,
    /// Indexed by `port_index * priorities + priority`.
    queues: Vec<Queue>,
    priorities: usize,
    weights: DrrWeights,
    slab: Slab<T>,
    pfc: Option<Pfc>,
    /// Size of the shared buffer in bytes.
    buffer: u64,
    /// Bytes of the shared buffer in use.
    buffered: u64,
    /// Packets for ports or priorities that do not exist.
    unroutable: Drops,
}

impl<T> TrafficManager<T> {
    /// Creates empty queues.
    ///
    /// # Errors
    ///
    /// The configuration is invalid: the error names the value and what to use instead.
    pub fn new(config: &TmConfig) -> Result<TrafficManager<T>, TmConfigError> {
        config.check()?;
        let mut indices = vec![NO_PORT_INDEX; usize::from(MAX_PORT) + 1].into_boxed_slice();
        for (port_index, port) in config.ports.iter().enumerate() {
            indices[usize::from(port.port)] = port_index as u16;
        }
        let ports = config.ports.iter().map(|port| Port {
            number: port.port,
            backlog_mask: 0,
            paused_mask: 0,
            shaped_mask: 0,
            shaper: Shaper::new(port.rate),
            occupancy: Occupancy::default(),
            offered: PacketCount::default(),
            sent: PacketCount::default(),
            extras: Box::default(),
        });
        let priorities = usize::from(config.priorities);
        let port_queues = |port: &PortConfig| {
            let limits = port.limits;
            std::iter::repeat_with(move || Queue::new(limits)).take(priorities)
        };
        Ok(TrafficManager {
            index_by_port: indices,
            ports: ports.collect(),
            queues: config.ports.iter().flat_map(port_queues).collect(),
            priorities,
            weights: DrrWeights::new(&config.weights),
            slab: Slab::new(),
            pfc: Pfc::new(config),
            buffer: config.buffer.get(),
            buffered: 0,
            unroutable: Drops::default(),
        })
    }

    #[inline]
    fn port_index(&self, port: u16) -> Option<usize> {
        match self.index_by_port.get(usize::from(port)) {
            None | Some(&NO_PORT_INDEX) => None,
            Some(&port_index) => Some(usize::from(port_index)),
        }
    }

    #[inline]
    fn queue_index(&self, port_index: usize, priority: u8) -> Option<usize> {
        let priority = usize::from(priority);
        (priority < self.priorities).then_some(port_index * self.priorities + priority)
    }

    /// Prefetches the state of a port to which a packet will be queued soon.
    #[inline]
    pub fn prefetch(&self, port: u16) {
        if let Some(port) = self.port_index(port).and_then(|port_index| self.ports.get(port_index)) {
            prefetch_all(port);
        }
    }

    /// Queues a packet.
    ///
    /// # Errors
    ///
    /// Returns the packet with the reason: its port or priority does not exist, or its queue, the buffer or
    /// its ingress port's share is full. The packet is counted as dropped.
    #[inline(always)]
    pub fn enqueue(
        &mut self,
        now: Time,
        request: EnqueueRequest,
        item: T,
    ) -> Result<Admission, RejectedPacket<T>> {
        let Some(port_index) = self.port_index(request.egress) else {
            self.unroutable.count(DropReason::NoSuchPort, request.len);
            return Err(RejectedPacket { item, reason: DropReason::NoSuchPort });
        };
        let Some(index) = self.queue_index(port_index, request.priority) else {
            self.unroutable.count(DropReason::NoSuchPriority, request.len);
            return Err(RejectedPacket { item, reason: DropReason::NoSuchPriority });
        };
        let ingress = self.port_index(request.ingress);
        let (port, queue) = (&mut self.ports[port_index], &mut self.queues[index]);
        port.offered.count(request.len);
        let exceeds_buffer = self.buffered + u64::from(request.len) > self.buffer;
        let account = match admit(queue, exceeds_buffer, &mut self.pfc, ingress, &request) {
            Ok(account) => account,
            Err(reason) => {
                port.extras.dropped.count(reason, request.len);
                return Err(RejectedPacket { item, reason });
            }
        };
        let queued = QueuedItem { item, len: request.len, enqueued: now, depth: queue.fifo.packets, account };
        // If queues have rates, the driver may be waiting for the release time of another queue. A packet in this one
        // can be due earlier, so the driver must ask again.
        let maybe_earlier = port.shaped_mask != 0 && queue.fifo.packets == 0;
        self.slab.push(&mut queue.fifo, queued);
        queue.peak = queue.peak.max(queue.fifo.bytes);
        let was_idle = port.sendable() == 0;
        port.backlog_mask |= 1 << request.priority;
        port.occupancy.packets += 1;
        port.occupancy.bytes += u64::from(request.len);
        port.occupancy.peak_bytes = port.occupancy.peak_bytes.max(port.occupancy.bytes);
        self.buffered += u64::from(request.len);
        let ready = (was_idle || maybe_earlier) && port.sendable() != 0;
        let pause = match (&mut self.pfc, account) {
            (Some(pfc), Some(account)) => pfc.check_xoff(now, account),
            _ => false,
        };
        Ok(Admission { ready, pause })
    }

    /// Dequeues the oldest packet of the highest priority that may send now, or of the queue that deficit
    /// round robin selects. `on_next` is called with the packet that follows in the same queue, so that the
    /// caller can prefetch it.
    #[inline(always)]
    pub fn dequeue(&mut self, now: Time, port: u16, on_next: impl FnOnce(&T)) -> Option<Departure<T>> {
        let port_index = self.port_index(port)?;
        let (mut priority, due) = self.next_queue(port_index, now)?;
        if due > now {
            return None;
        }
        // Weighted queues are adjacent priorities. If the highest sendable queue is one of them, DRR chooses
        // among all of them; otherwise strict priority holds.
        if self.weights.mask & 1 << priority != 0 {
            priority = self.select_weighted(port_index, now);
        }
        let index = self.queue_index(port_index, priority)?;
        let (port, queue) = (&mut self.ports[port_index], &mut self.queues[index]);
        let queued = self.slab.pop(&mut queue.fifo)?;
        match self.slab.first(&queue.fifo) {
            Some(next) => on_next(&next.item),
            None => port.backlog_mask &= !(1 << priority),
        }
        port.shaper.record(now, queued.enqueued, queued.len);
        queue.shaper.record(now, queued.enqueued, queued.len);
        port.occupancy.packets -= 1;
        port.occupancy.bytes -= u64::from(queued.len);
        port.sent.count(queued.len);
        self.buffered -= u64::from(queued.len);
        let dequeue_depth = queue.fifo.packets;
        let resume = match (&mut self.pfc, queued.account) {
            (Some(pfc), Some(account)) => {
                pfc.release(account, queued.len);
                pfc.check_xon(account).then(|| pfc.ingress_queue(account))
            }
            _ => None,
        };
        Some(Departure {
            item: queued.item,
            len: queued.len,
            priority,
            enqueued: queued.enqueued,
            enqueue_depth: queued.depth,
            dequeue_depth,
            resume: resume.map(|(port_index, priority)| (self.ports[port_index].number, priority)),
        })
    }

    /// Returns the queue that deficit round robin serves next among the weighted queues that may send now. Called
    /// only if the highest queue that may send is weighted, so there is at least one.
    fn select_weighted(&mut self, port_index: usize, now: Time) -> u8 {
        let (port, queues) =
            (&self.ports[port_index], &self.queues[port_index * self.priorities..][..self.priorities]);
        let mut candidates = port.sendable() & self.weights.mask;
        for (priority, queue) in queues.iter().enumerate() {
            if port.shaped_mask & 1 << priority != 0 && queue.shaper.free_at() > now {
                candidates &= !(1 << priority);
            }
        }
        let head_len = |priority: u8| {
            let first = self.slab.first(&queues[usize::from(priority)].fifo);
            first.map_or(0, |queued| u64::from(queued.len))
        };
        let (priority, drr) = port.extras.drr.select(&self.weights, candidates, head_len);
        self.ports[port_index].extras.drr = drr;
        priority
    }

    /// Returns the priority to serve next and the time from which the rates allow it: the highest priority that is
    /// due at `now`, otherwise the one that is due first. `None` if no packet is sendable (see [`Port::sendable`]).
    #[inline(always)]
    fn next_queue(&self, port_index: usize, now: Time) -> Option<(u8, Time)> {
        let port = &self.ports[port_index];
        let sendable = port.sendable();
        if sendable == 0 {
            return None;
        }
        let highest = |mask: u8| (u8::BITS - 1 - mask.leading_zeros()) as u8;
        let port_free_at = port.shaper.free_at();
        if sendable & port.shaped_mask == 0 {
            return Some((highest(sendable), port_free_at));
        }
        let mut best: Option<(u8, Time)> = None;
        let mut remaining = sendable;
        while remaining != 0 {
            let priority = highest(remaining);
            remaining &= !(1 << priority);
            let free_at = self.queues[port_index * self.priorities + usize::from(priority)].shaper.free_at();
            let due = free_at.max(port_free_at);
            if due <= now {
                return Some((priority, due));
            }
            if best.is_none_or(|(_, earliest)| due < earliest) {
                best = Some((priority, due));
            }
        }
        best
    }

    /// Returns the earliest time at which [`Self::dequeue`] has a packet for this port, which may be in the
    /// past; `None` if no packet is queued or all queued packets are paused.
    pub fn next_ready(&self, port: u16) -> Option<Time> {
        self.next_queue(self.port_index(port)?, Time::ZERO).map(|(_, due)| due)
    }

    /// Returns whether [`Self::next_ready`] is `Some`.
    #[inline]
    pub fn has_next(&self, port: u16) -> bool {
        self.port_index(port).is_some_and(|port_index| self.ports[port_index].sendable() != 0)
    }

    /// Returns the packets of a queue, oldest first, each with the ingress port and priority to which it is
    /// charged.
    pub fn queued_packets(&self, port: u16, priority: u8) -> impl Iterator<Item = (&T, Option<(u16, u8)>)> {
        let index = self.port_index(port).and_then(|port_index| self.queue_index(port_index, priority));
        let ingress = |account| {
            let (port_index, priority) = self.pfc.as_ref()?.ingress_queue(account);
            Some((self.ports[port_index].number, priority))
        };
        let queue = index.map(|index| self.slab.iter(&self.queues[index].fifo));
        queue.into_iter().flatten().map(move |queued| (&queued.item, queued.account.and_then(ingress)))
    }

    /// Sets the rate of a port. Returns `false` if the port does not exist.
    pub fn set_rate(&mut self, port: u16, rate: Rate) -> bool {
        let port_index = self.port_index(port);
        port_index.is_some_and(|port_index| {
            self.ports[port_index].shaper.set_rate(rate);
            true
        })
    }

    /// Sets the rate of one queue, in addition to the port's (BMv2's `set_queue_rate` with a priority).
    /// Returns `false` if the queue does not exist.
    pub fn set_queue_rate(&mut self, port: u16, priority: u8, rate: Rate) -> bool {
        let Some(port_index) = self.port_index(port) else { return false };
        let Some(index) = self.queue_index(port_index, priority) else { return false };
        self.queues[index].shaper.set_rate(rate);
        let port = &mut self.ports[port_index];
        port.shaped_mask = port.shaped_mask & !(1 << priority) | u8::from(rate.is_limited()) << priority;
        true
    }

    /// Sets the limits of every queue of a port; queued packets stay. Returns `false` if the port does not
    /// exist.
    pub fn set_limits(&mut self, port: u16, limits: QueueLimits) -> bool {
        let port_index = self.port_index(port);
        port_index.is_some_and(|port_index| {
            let queues = &mut self.queues[port_index * self.priorities..][..self.priorities];
            queues.iter_mut().for_each(|queue| queue.limits = limits);
            true
        })
    }

    /// Sets the limits of one queue. Returns `false` if the queue does not exist.
    pub fn set_queue_limits(&mut self, port: u16, priority: u8, limits: QueueLimits) -> bool {
        let index = self.port_index(port).and_then(|port_index| self.queue_index(port_index, priority));
        index.is_some_and(|index| {
            self.queues[index].limits = limits;
            true
        })
    }

    /// Returns the numbers of the configured ports, in the order of the configuration.
    pub fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.ports.iter().map(|port| port.number)
    }

    pub fn priorities(&self) -> u8 {
        self.priorities as u8
    }

    /// Returns the occupancy of a port over all priorities; zero for a port that does not exist.
    pub fn port_occupancy(&self, port: u16) -> Occupancy {
        self.port_index(port).map_or(Occupancy::default(), |port_index| self.ports[port_index].occupancy)
    }

    /// Returns the occupancy of one queue; zero for a queue that does not exist.
    pub fn queue_occupancy(&self, port: u16, priority: u8) -> Occupancy {
        let index = self.port_index(port).and_then(|port_index| self.queue_index(port_index, priority));
        index.map_or(Occupancy::default(), |index| {
            let queue = &self.queues[index];
            Occupancy { packets: queue.fifo.packets, bytes: queue.fifo.bytes, peak_bytes: queue.peak }
        })
    }

    /// Resets the peaks to the current occupancy.
    pub fn reset_peaks(&mut self) {
        for port in &mut self.ports {
            port.occupancy.peak_bytes = port.occupancy.bytes;
        }
        for queue in &mut self.queues {
            queue.peak = queue.fifo.bytes;
        }
    }

    /// Returns the bytes in all queues.
    pub fn buffered(&self) -> Bytes {
        Bytes::new(self.buffered)
    }

    /// Returns the bytes that the packets of one ingress port and priority occupy in the lossless buffer,
    /// headroom included.
    pub fn ingress_use(&self, port: u16, priority: u8) -> Bytes {
        match (&self.pfc, self.port_index(port)) {
            (Some(pfc), Some(port_index)) if usize::from(priority) < self.priorities => {
                let entry = pfc.usage(port_index, priority);
                Bytes::new(entry.pooled + entry.headroom)
            }
            _ => Bytes::ZERO,
        }
    }
}
