//! One direction of a link: a transmitter, a wire, and what is on it.

use std::collections::VecDeque;
use weir_controller::topology::Node;
use weir_experiment::rng::mix;
use weir_switch::packet::Packet;
use weir_units::{Bandwidth, Bytes, Time};

/// A PFC frame is a minimum-size Ethernet frame (IEEE 802.1Qbb).
const PFC_FRAME: Bytes = Bytes::new(64);

/// The frame that is first on a wire. It is kept apart from its [`Direction`]: those of all wires together fit in
/// a cache, so the driver can look ahead at what arrives next.
pub type First = Option<Box<Packet>>;

/// A direction of a link. Frames leave it in the order in which they entered, so only the first
/// one needs an event.
pub struct Direction {
    /// Owner of the transmitter.
    pub from: Node,
    /// Its port there.
    pub from_port: u16,
    /// The other end of the wire.
    pub to: Node,
    /// The port there.
    pub to_port: u16,
    /// Index of the other direction of the same link.
    pub reverse: u32,
    /// Line rate.
    pub rate: Bandwidth,
    /// Propagation delay.
    delay: Time,
    /// The transmitter serialises until then.
    busy_until: Time,
    /// A `Free` event is pending.
    pub free_scheduled: bool,
    /// Frames on the wire behind the first.
    wire: VecDeque<(Time, Box<Packet>)>,
    /// PFC frames on the wire.
    pfc: VecDeque<(Time, PfcFrame)>,
    /// Bytes of frames whose serialisation has started.
    pub sent: Bytes,
    /// Fault of the wire, if any.
    pub fault: Option<Box<Fault>>,
}

/// A fault that loses frames on a wire.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Number of reasons why it is down.
    pub down: u32,
    /// Time at which it last came up: what had left before is lost.
    up_since: Time,
    /// Probability that a frame is lost, in 2^-53.
    loss: u64,
    /// The wire's own random numbers.
    stream: u64,
    drawn: u64,
}

/// A reason why a frame was lost on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The link was down.
    LinkDown,
    /// By chance.
    Chance,
}

impl Lost {
    /// As it stands in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Lost::LinkDown => "link_down",
            Lost::Chance => "link_loss",
        }
    }
}

impl Fault {
    const ONE: f64 = (1u64 << 53) as f64;

    /// None, of a wire with these random numbers.
    pub fn none(stream: u64) -> Fault {
        Fault { down: 0, up_since: Time::ZERO, loss: 0, stream, drawn: 0 }
    }
    /// From now on frames are lost with this probability.
    pub fn lose(&mut self, probability: f64) {
        self.loss = (probability * Fault::ONE) as u64;
    }
    /// One thing less keeps it down.
    pub fn mend(&mut self, now: Time) {
        self.down = self.down.saturating_sub(1);
        if self.down == 0 {
            self.up_since = now;
        }
    }
    /// Returns what becomes of a frame that arrives now and was `delay` on the wire.
    fn befalls(&mut self, now: Time, delay: Time) -> Option<Lost> {
        if self.down > 0 || now < self.up_since + delay {
            return Some(Lost::LinkDown);
        }
        if self.loss == 0 {
            return None;
        }
        self.drawn += 1;
        (mix(self.stream ^ self.drawn) >> 11 < self.loss).then_some(Lost::Chance)
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

impl Direction {
    /// Returns an idle link direction.
    pub fn new(from: (Node, u16), to: (Node, u16), reverse: u32, rate: Bandwidth, delay: Time) -> Direction {
        Direction {
            from: from.0,
            from_port: from.1,
            to: to.0,
            to_port: to.1,
            reverse,
            rate,
            delay,
            busy_until: Time::ZERO,
            free_scheduled: false,
            wire: VecDeque::new(),
            pfc: VecDeque::new(),
            sent: Bytes::ZERO,
            fault: None,
        }
    }

    /// `None` if the transmitter can take a frame at `now`, else when it can.
    #[inline]
    pub fn busy(&self, now: Time) -> Option<Time> {
        (self.busy_until > now).then_some(self.busy_until)
    }

    /// Returns when the last bit of a frame of this length has left if its first one does now.
    pub fn end(&self, now: Time, length: u32) -> Time {
        now + self.rate.tx_time(Bytes::new(u64::from(length)))
    }

    /// Starts to serialise `packet`. Returns its arrival if it is now the `first` on the wire.
    #[inline]
    pub fn send(&mut self, now: Time, packet: Box<Packet>, first: &mut First) -> Option<Time> {
        let length = Bytes::new(u64::from(packet.len()));
        self.sent += length;
        self.busy_until = now + self.rate.tx_time(length);
        let arrival = self.busy_until + self.delay;
        if first.is_some() {
            self.wire.push_back((arrival, packet));
            return None;
        }
        *first = Some(packet);
        Some(arrival)
    }

    /// Takes the `first` frame, which arrives now, and says when the next one does.
    #[inline]
    pub fn arrive(&mut self, first: &mut First) -> Option<(Box<Packet>, Option<Time>)> {
        let packet = first.take()?;
        let next = self.wire.pop_front().map(|(time, packet)| {
            *first = Some(packet);
            time
        });
        Some((packet, next))
    }

    /// Returns what becomes of a frame that arrives now.
    #[inline]
    pub fn befalls(&mut self, now: Time) -> Option<Lost> {
        self.fault.as_mut().and_then(|fault| fault.befalls(now, self.delay))
    }

    /// Sends a PFC frame: it passes every queue, but not the frame being serialised. Returns its
    /// arrival if it is now the first PFC frame on the wire.
    pub fn send_pfc(&mut self, now: Time, frame: PfcFrame) -> Option<Time> {
        self.busy_until = self.busy_until.max(now) + self.rate.tx_time(PFC_FRAME);
        let arrival = self.busy_until + self.delay;
        self.pfc.push_back((arrival, frame));
        (self.pfc.len() == 1).then_some(arrival)
    }

    /// Returns whether a PFC frame is on the wire.
    pub fn has_pfc(&self) -> bool {
        !self.pfc.is_empty()
    }

    /// Takes the PFC frame that arrives now, and says when the next one does.
    pub fn arrive_pfc(&mut self) -> Option<(PfcFrame, Option<Time>)> {
        let (_, frame) = self.pfc.pop_front()?;
        Some((frame, self.pfc.front().map(|(time, _)| *time)))
    }
}
