//! One direction of a link: a [`Transmitter`] at the sending end, and a [`Wire`] with the frames in flight at the
//! receiving end. The two ends usually belong to different logical processes ([`crate::process`]), which may run at the
//! same time. A process then collects the frames that it sends during a window ([`crate::network`]) in a [`Batch`], and
//! hands the batch over at the end of the window.

use crate::events::{Event, EventQueue};
use crate::fault::Impairments;
use std::num::NonZeroU64;
use weir_host::ring::Ring;
use weir_switch::packet::Packet;
use weir_switch::prefetch::prefetch;
use weir_switch::tm::PauseQuanta;
use weir_units::{Bandwidth, Bytes, Time};

/// A PFC frame is a minimum-size Ethernet frame (IEEE 802.1Qbb).
const PFC_FRAME: Bytes = Bytes::new(64);

/// A frame in flight: `T` is a boxed packet, or a PFC frame.
#[derive(Debug)]
pub struct InFlight<T> {
    /// Time at which the last bit reaches the far end.
    pub arrival: Time,
    /// Time at which it was given to the transmitter.
    pub sent_at: Time,
    pub frame: T,
}

/// The sending end of a link direction.
#[repr(align(64))]
pub struct Transmitter {
    /// Number of the link direction (see [`Network::new`](crate::network::Network::new)).
    pub direction: u32,
    /// The sending node.
    pub from: LocalNode,
    pub from_port: u16,
    /// Number of the logical process at the receiving end; may be the transmitter's own.
    pub receiver_process: u32,
    /// Index of the [`Wire`] in that process.
    pub wire: u32,
    pub rate: Bandwidth,
    /// Propagation delay.
    delay: Time,
    /// End of the last serialisation; in the past if the transmitter is idle.
    free_at: Time,
    /// True if an [`Event::TxDone`] for this transmitter is pending.
    pub tx_done_scheduled: bool,
    /// Bytes of all data frames whose serialisation has started.
    pub sent: Bytes,
    /// Data frames sent and not yet handed over to the wire.
    pub outgoing: Batch<Box<Packet>>,
    /// PFC frames sent and not yet handed over to the wire.
    pub outgoing_pfc: Batch<PfcFrame>,
}

/// The receiving end of a link direction, with the frames in flight. Frames arrive in the order in which they were
/// sent, so only the first one of each kind needs an event.
#[repr(align(64))]
pub struct Wire {
    /// Number of the link direction (see [`Network::new`](crate::network::Network::new)).
    pub direction: u32,
    /// The receiving node.
    pub to: LocalNode,
    pub to_port: u16,
    /// Index of the transmitter of the opposite direction, which is in the same process.
    pub reverse_transmitter: u32,
    /// Propagation delay.
    pub(crate) delay: Time,
    /// Data frames in flight.
    pub frames: InFlightQueue<Box<Packet>>,
    /// PFC frames in flight. Boxed, since most wires never carry any.
    pub pfc: Box<InFlightQueue<PfcFrame>>,
    /// Set if a fault of the experiment may affect this wire, or the user has changed the link during the run
    /// ([`Observer::link_change`](weir_experiment::backend::Observer::link_change)).
    pub impairments: Option<Box<Impairments>>,
}

const _: () = assert!(size_of::<Transmitter>() <= 128 && size_of::<Wire>() <= 128, "exceeds two cache lines");

/// A node of a process: an index into `Process::switches` or `Process::hosts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalNode {
    Switch(u32),
    Host(u32),
}

/// Frames of one kind (data or PFC) that a transmitter sends during one window, in order.
pub type Batch<T> = Ring<InFlight<T>>;

/// The frames of one kind (data or PFC) in flight on a wire.
pub struct InFlightQueue<T> {
    /// The batch that arrives first; empty only if no frame is in flight.
    current: Batch<T>,
    /// The later batches, kept as they were handed over, which avoids copying frames.
    later: Ring<Batch<T>>,
    /// Reserved at the last arrival; `None` before the first. The arrival event of the next frame uses it if that frame
    /// had been sent by then.
    successor_seq: Option<ReservedSeq>,
}

/// A sequence number that was reserved at some time ([`EventQueue::reserve_seq`]).
#[derive(Clone, Copy)]
struct ReservedSeq {
    reserved_at: Time,
    seq: NonZeroU64,
}

impl<T> Default for InFlightQueue<T> {
    fn default() -> InFlightQueue<T> {
        InFlightQueue { current: Ring::new(), later: Ring::new(), successor_seq: None }
    }
}

impl<T> InFlightQueue<T> {
    /// Returns whether a frame for which `is_wanted` returns true is in flight.
    pub fn any(&self, is_wanted: impl Fn(&T) -> bool) -> bool {
        let later = (0..self.later.len()).filter_map(|index| self.later.slot_at(index)?.as_ref());
        let flights = |batch: &Batch<T>| {
            (0..batch.len())
                .any(|index| matches!(batch.slot_at(index), Some(Some(flight)) if is_wanted(&flight.frame)))
        };
        later.chain([&self.current]).any(flights)
    }

    /// Returns whether no frame is in flight.
    pub fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Adds a frame from a transmitter of the same process. `event` is the arrival event of this wire and kind.
    #[inline]
    pub fn push(&mut self, in_flight: InFlight<T>, event: Event, queue: &mut EventQueue) {
        // A frame added here would overtake the batches in `later`. A wire gets either single frames, from its own
        // process, or one batch per window, from another process.
        debug_assert!(self.later.is_empty(), "single frames and batches on one wire");
        self.current.push_back(in_flight);
        if self.current.len() == 1 {
            self.schedule(event, queue);
        }
    }

    /// Adds all frames that a transmitter of another process sent during a window. `spare` receives the memory of empty
    /// batches for reuse.
    pub fn push_batch(
        &mut self,
        batch: Batch<T>,
        event: Event,
        queue: &mut EventQueue,
        spare: &mut Vec<Batch<T>>,
    ) {
        if !self.current.is_empty() {
            return self.later.push_back(batch);
        }
        recycle(std::mem::replace(&mut self.current, batch), spare);
        self.schedule(event, queue);
    }

    /// Removes and returns the first frame, which arrives now, and schedules the arrival of the next one. `spare`
    /// receives the memory of empty batches for reuse.
    #[inline]
    pub fn pop_arrived(
        &mut self,
        now: Time,
        event: Event,
        queue: &mut EventQueue,
        spare: &mut Vec<Batch<T>>,
    ) -> Option<T> {
        let in_flight = self.current.pop_front()?;
        if self.current.is_empty()
            && let Some(next) = self.later.pop_front()
        {
            recycle(std::mem::replace(&mut self.current, next), spare);
        }
        // Reserved even if no frame follows: the successor may have been sent already, in a batch that its process
        // has not handed over yet. The key of its arrival must not depend on when that happens.
        self.successor_seq =
            NonZeroU64::new(queue.reserve_seq()).map(|seq| ReservedSeq { reserved_at: now, seq });
        self.schedule(event, queue);
        Some(in_flight.frame)
    }

    /// Schedules the arrival of the first frame in flight, with the key that a sequential simulation would give it:
    /// scheduled when its predecessor arrived if the frame had been sent by then, else when it was sent.
    #[inline]
    fn schedule(&self, event: Event, queue: &mut EventQueue) {
        let Some(first) = self.current.front() else { return };
        match self.successor_seq {
            Some(ReservedSeq { reserved_at, seq }) if first.sent_at <= reserved_at => {
                queue.push_reserved(first.arrival, event, reserved_at, seq.get());
            }
            // Without a sequence number even on a wire within one process, so that the key does not depend on how nodes
            // are assigned to processes.
            _ => queue.push_unsequenced(first.arrival, event, first.sent_at),
        }
    }
}

impl InFlightQueue<Box<Packet>> {
    /// Prefetches the packet that arrives next, and the slot of a later frame: they were written by another core, or
    /// have left the cache since.
    #[inline]
    pub fn prefetch(&self) {
        /// Index of the frame in `current` whose slot is prefetched.
        const AHEAD: usize = 2;
        if let Some(next) = self.current.front() {
            next.frame.prefetch();
        }
        let slot = if self.current.len() > AHEAD {
            self.current.slot_at(AHEAD)
        } else {
            self.later.front().and_then(|batch| batch.slot_at(0))
        };
        if let Some(slot) = slot {
            prefetch(slot);
        }
    }
}

/// Adds the memory of an empty batch to the free list, unless that is full.
fn recycle<T>(batch: Batch<T>, spare: &mut Vec<Batch<T>>) {
    /// Bound of the free list. Weir's choice: more than the processes of one thread usually need in a window.
    const MAX_SPARE_BATCHES: usize = 1 << 12;
    if batch.capacity() > 0 && spare.len() < MAX_SPARE_BATCHES {
        spare.push(batch);
    }
}

/// A pause or resume of one priority class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcFrame {
    pub priority: u8,
    /// Length of the pause; 0 for a resume.
    pub quanta: PauseQuanta,
    /// Whether it refreshes a pause that has begun.
    pub is_refresh: bool,
}

/// Properties of a link direction, from which its two ends are made.
pub struct DirectionSpec {
    pub number: u32,
    pub rate: Bandwidth,
    pub delay: Time,
}

impl DirectionSpec {
    /// Creates the sending end, at a port of node `from`. `wire` is the index of the receiving end in
    /// `receiver_process`.
    pub fn transmitter(
        &self,
        from: LocalNode,
        from_port: u16,
        receiver_process: u32,
        wire: u32,
    ) -> Transmitter {
        Transmitter {
            direction: self.number,
            from,
            from_port,
            receiver_process,
            wire,
            rate: self.rate,
            delay: self.delay,
            free_at: Time::ZERO,
            tx_done_scheduled: false,
            sent: Bytes::ZERO,
            outgoing: Batch::new(),
            outgoing_pfc: Batch::new(),
        }
    }

    /// Creates the receiving end, at a port of node `to`. `reverse_transmitter` is the index of the transmitter of the
    /// opposite direction.
    pub fn wire(&self, to: LocalNode, to_port: u16, reverse_transmitter: u32) -> Wire {
        Wire {
            direction: self.number,
            to,
            to_port,
            reverse_transmitter,
            delay: self.delay,
            frames: InFlightQueue::default(),
            pfc: Box::default(),
            impairments: None,
        }
    }
}

impl Transmitter {
    /// Returns when the transmitter becomes idle; `None` if it is idle at `now`.
    #[inline]
    pub fn busy_until(&self, now: Time) -> Option<Time> {
        (self.free_at > now).then_some(self.free_at)
    }

    /// Returns the end of serialisation of a frame of `length` bytes that starts at `now`.
    pub fn tx_end(&self, now: Time, length: u32) -> Time {
        now + self.rate.tx_time(Bytes::new(u64::from(length)))
    }

    /// Serialises a frame of `length` bytes, at `now` or after the frames before it. Returns when its last bit
    /// arrives.
    #[inline]
    fn serialize(&mut self, now: Time, length: Bytes) -> Time {
        self.free_at = self.rate.end_of_tx(self.free_at, now, length);
        self.free_at + self.delay
    }

    /// Starts to serialise `packet`. The transmitter must be idle.
    #[inline]
    pub fn send(&mut self, now: Time, packet: Box<Packet>) {
        let length = Bytes::new(u64::from(packet.len()));
        self.sent += length;
        let arrival = self.serialize(now, length);
        self.outgoing.push_back(InFlight { arrival, sent_at: now, frame: packet });
    }

    /// Sends a PFC frame ahead of all queued frames, after the frame that is being serialised.
    pub fn send_pfc(&mut self, now: Time, frame: PfcFrame) {
        let arrival = self.serialize(now, PFC_FRAME);
        self.outgoing_pfc.push_back(InFlight { arrival, sent_at: now, frame });
    }

    /// Sends a pause frame that refreshes a pause. It waits for the frame that is being serialised, but takes no time of its
    /// own, so that data arrives when it would without it: by default a refresh has 64 B in the time of 2 MB.
    pub fn refresh_pause(&mut self, now: Time, frame: PfcFrame) {
        let arrival = self.busy_until(now).unwrap_or(now) + self.delay;
        self.outgoing_pfc.push_back(InFlight {
            arrival,
            sent_at: now,
            frame: PfcFrame { is_refresh: true, ..frame },
        });
    }

    /// Returns whether all sent frames are handed over to the wire.
    #[inline]
    pub fn is_flushed(&self) -> bool {
        self.outgoing.is_empty() && self.outgoing_pfc.is_empty()
    }
}
