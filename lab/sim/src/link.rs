//! One direction of a link: a transmitter at one end, and a wire at the other with what is on it. The two belong to two
//! processes, which may run at the same time.

use crate::events::{Event, EventQueue};
use crate::fault::{Impairments, LinkDrop};
use std::num::NonZeroU64;
use weir_host::ring::Ring;
use weir_switch::packet::Packet;
use weir_switch::prefetch::prefetch;
use weir_units::{Bandwidth, Bytes, Time};

/// A PFC frame is a minimum-size Ethernet frame (IEEE 802.1Qbb).
const PFC_FRAME: Bytes = Bytes::new(64);

/// A frame that has left its transmitter: a data frame with its packet, or a PFC frame.
#[derive(Debug)]
pub struct InFlight<T> {
    /// Time at which it reaches the far end.
    pub arrival: Time,
    /// Time at which it was sent.
    pub sent_at: Time,
    /// Its contents.
    pub frame: T,
}

/// The end of a link's direction from which frames leave. It is in two cache lines.
#[repr(align(64))]
pub struct Transmitter {
    /// Number of the direction.
    pub direction: u32,
    /// The node that sends.
    pub from: LocalNode,
    /// Its port there.
    pub from_port: u16,
    /// The process at the other end.
    pub remote_process: u32,
    /// The [`Wire`]'s index there.
    pub wire: u32,
    /// Line rate.
    pub rate: Bandwidth,
    /// Propagation delay.
    delay: Time,
    /// It serialises until then.
    busy_until: Time,
    /// A `TxDone` event is pending.
    pub tx_done_scheduled: bool,
    /// Bytes of frames whose serialisation has started.
    pub sent: Bytes,
    /// Frames that have left and are not handed over to the other end's process.
    pub outgoing: Batch<Box<Packet>>,
    /// PFC frames, likewise.
    pub outgoing_pfc: Batch<PfcFrame>,
}

/// The end of a link's direction at which frames arrive. They arrive in the order in which they left, so only the first
/// one needs an event. It is in two cache lines.
#[repr(align(64))]
pub struct Wire {
    /// Number of the direction.
    pub direction: u32,
    /// The node that receives.
    pub to: LocalNode,
    /// Its port there.
    pub to_port: u16,
    /// The transmitter of the same link at this end, by index.
    pub reverse_transmitter: u32,
    /// Propagation delay.
    delay: Time,
    /// Frames on it.
    pub frames: InFlightQueue<Box<Packet>>,
    /// PFC frames on it.
    pub pfc: Box<InFlightQueue<PfcFrame>>,
    /// Fault of the wire, if any.
    pub fault: Option<Box<Impairments>>,
    /// A running hash over every arrival: two runs with the same value saw the same packets at the same times.
    pub fingerprint: u64,
}

const _: () = assert!(size_of::<Transmitter>() <= 128 && size_of::<Wire>() <= 128, "an end is in two lines");

/// A node of a process, by its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalNode {
    /// A switch.
    Switch(u32),
    /// A host.
    Host(u32),
}

/// Frames of one kind that leave a transmitter in one window, in order.
pub type Batch<T> = Ring<InFlight<T>>;

/// Frames of one kind on a wire.
pub struct InFlightQueue<T> {
    /// The first of them; there are none only if there are none at all.
    flying: Batch<T>,
    /// The others, as they were handed over: frames are not copied from one memory to another.
    later: Ring<Batch<T>>,
    /// Time at which the last one arrived, and the place in the order of events that its successor has if it was on the wire
    /// by then.
    successor_seq: Option<(Time, NonZeroU64)>,
}

impl<T> Default for InFlightQueue<T> {
    fn default() -> InFlightQueue<T> {
        InFlightQueue { flying: Ring::new(), later: Ring::new(), successor_seq: None }
    }
}

impl<T> InFlightQueue<T> {
    /// Returns whether no frame is on the wire.
    pub fn is_empty(&self) -> bool {
        self.flying.is_empty()
    }

    /// Takes a frame from the transmitter. `event` is what its arrival is called.
    #[inline]
    pub fn push(&mut self, flight: InFlight<T>, event: Event, queue: &mut EventQueue) {
        debug_assert!(self.later.is_empty(), "a transmitter hands over frames or batches");
        self.flying.push_back(flight);
        if self.flying.len() == 1 {
            self.schedule(event, queue);
        }
    }

    /// Takes all frames of a window from the transmitter. Memory that is not needed any more is added to `empty`.
    pub fn push_batch(
        &mut self,
        batch: Batch<T>,
        event: Event,
        queue: &mut EventQueue,
        empty: &mut Vec<Batch<T>>,
    ) {
        if !self.flying.is_empty() {
            return self.later.push_back(batch);
        }
        recycle(std::mem::replace(&mut self.flying, batch), empty);
        self.schedule(event, queue);
    }

    /// Takes the first frame, which arrives now, and schedules the arrival of the next. Memory that is not needed any more
    /// is added to `empty`.
    #[inline]
    pub fn pop_arrived(
        &mut self,
        now: Time,
        event: Event,
        queue: &mut EventQueue,
        empty: &mut Vec<Batch<T>>,
    ) -> Option<T> {
        let flight = self.flying.pop_front()?;
        if self.flying.is_empty()
            && let Some(next) = self.later.pop_front()
        {
            recycle(std::mem::replace(&mut self.flying, next), empty);
        }
        self.successor_seq = NonZeroU64::new(queue.reserve_seq()).map(|place| (now, place));
        self.schedule(event, queue);
        Some(flight.frame)
    }

    /// An arrival is scheduled when the frame is the first on its wire: when the one before it arrives, or when it is sent.
    #[inline]
    fn schedule(&self, event: Event, queue: &mut EventQueue) {
        let Some(first) = self.flying.front() else { return };
        match self.successor_seq {
            Some((born, place)) if first.sent_at <= born => {
                queue.push_reserved(first.arrival, event, born, place.get());
            }
            _ => queue.push_remote(first.arrival, event, first.sent_at),
        }
    }
}

impl InFlightQueue<Box<Packet>> {
    /// Fetches the packet that arrives next, and what follows the next flights: since they were sent, other processes have
    /// had the caches, or another processor wrote them.
    #[inline]
    pub fn prefetch(&self) {
        /// Flights between the next one and the one that is fetched.
        const AHEAD: usize = 2;
        if let Some(next) = self.flying.front() {
            next.frame.prefetch();
        }
        let place = if self.flying.len() > AHEAD {
            self.flying.slot_at(AHEAD)
        } else {
            self.later.front().and_then(|batch| batch.slot_at(0))
        };
        if let Some(place) = place {
            prefetch(place);
        }
    }
}

/// Keeps the memory of a batch for the next.
fn recycle<T>(batch: Batch<T>, empty: &mut Vec<Batch<T>>) {
    /// More than the processes of a thread mostly need in a window.
    const MAX_SPARE_BATCHES: usize = 1 << 12;
    if batch.capacity() > 0 && empty.len() < MAX_SPARE_BATCHES {
        empty.push(batch);
    }
}

/// A pause or resume of one priority class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcFrame {
    /// Class.
    pub priority: u8,
    /// Pause, or resume.
    pub on: bool,
}

/// The two ends of one direction of a link.
pub struct DirectionSpec {
    /// Its number.
    pub number: u32,
    /// Line rate.
    pub rate: Bandwidth,
    /// Propagation delay.
    pub delay: Time,
}

impl DirectionSpec {
    /// Returns the end from which frames leave; the process at the other end and the wire's index there are `remote_process`.
    pub fn transmitter(&self, from: (LocalNode, u16), to: (u32, u32)) -> Transmitter {
        Transmitter {
            direction: self.number,
            from: from.0,
            from_port: from.1,
            remote_process: to.0,
            wire: to.1,
            rate: self.rate,
            delay: self.delay,
            busy_until: Time::ZERO,
            tx_done_scheduled: false,
            sent: Bytes::ZERO,
            outgoing: Batch::new(),
            outgoing_pfc: Batch::new(),
        }
    }

    /// Returns the end at which frames arrive; `reverse_transmitter` is the index of the transmitter there.
    pub fn wire(&self, to: (LocalNode, u16), back: u32) -> Wire {
        Wire {
            direction: self.number,
            to: to.0,
            to_port: to.1,
            reverse_transmitter: back,
            delay: self.delay,
            frames: InFlightQueue::default(),
            pfc: Box::default(),
            fault: None,
            fingerprint: 0,
        }
    }
}

impl Transmitter {
    /// `None` if it can take a frame at `now`, else when it can.
    #[inline]
    pub fn busy_until(&self, now: Time) -> Option<Time> {
        (self.busy_until > now).then_some(self.busy_until)
    }

    /// Returns when the last bit of a frame of this length has left if its first one does now.
    pub fn tx_end(&self, now: Time, length: u32) -> Time {
        now + self.rate.tx_time(Bytes::new(u64::from(length)))
    }

    /// Starts to serialise `packet`.
    #[inline]
    pub fn send(&mut self, now: Time, packet: Box<Packet>) {
        let length = Bytes::new(u64::from(packet.len()));
        self.sent += length;
        self.busy_until = now + self.rate.tx_time(length);
        self.outgoing.push_back(InFlight {
            arrival: self.busy_until + self.delay,
            sent_at: now,
            frame: packet,
        });
    }

    /// Sends a PFC frame: it passes every queue, but not the frame being serialised.
    pub fn send_pfc(&mut self, now: Time, frame: PfcFrame) {
        self.busy_until = self.busy_until.max(now) + self.rate.tx_time(PFC_FRAME);
        self.outgoing_pfc.push_back(InFlight { arrival: self.busy_until + self.delay, sent_at: now, frame });
    }

    /// Returns whether nothing waits to be handed over.
    #[inline]
    pub fn is_flushed(&self) -> bool {
        self.outgoing.is_empty() && self.outgoing_pfc.is_empty()
    }
}

impl Wire {
    /// Returns the reason for which a frame is lost that arrives now; `None` if it is not.
    pub fn drop_on_arrival(&mut self, now: Time) -> Option<LinkDrop> {
        let fault = self.fault.as_mut()?;
        fault.drop_if_down(now, self.delay).or_else(|| fault.random_drop())
    }

    /// Takes a frame that was held and arrives now, or the reason for which it is lost.
    pub fn arrive_late(&mut self) -> Option<(Box<Packet>, Option<LinkDrop>)> {
        let fault = self.fault.as_mut()?;
        let (reached, packet) = fault.release()?;
        Some((packet, fault.drop_if_down(reached, self.delay)))
    }

    /// Notes that a frame of this length has arrived.
    #[inline]
    pub fn record_arrival(&mut self, now: Time, length: u32) {
        self.fingerprint = hash_step(self.fingerprint, now.as_ps() ^ (u64::from(length) << 16));
    }
}

/// One step of a fingerprint (FxHash's multiply and rotate: cheap, order-sensitive).
#[inline]
pub fn hash_step(hash: u64, word: u64) -> u64 {
    const K: u64 = 0x517c_c1b7_2722_0a95;
    (hash.rotate_left(5) ^ word).wrapping_mul(K)
}
