//! A port that behaves like a cable of a rate and a length, where the interface itself takes no time.
//!
//! The traffic manager keeps the port to the rate, so that the queue is in the switch. A frame that left it
//! is serialised and travels: it reaches the interface when its last bit would reach the far end.

use crate::packet::Packet;
use std::collections::VecDeque;
use weir_units::{Bandwidth, Bytes, Time};

/// A cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Bits of a frame per second.
    pub rate: Bandwidth,
    /// From the switch to the far end.
    pub delay: Time,
}

impl Wire {
    /// The longest delay: frames in flight wait in memory.
    pub const LONGEST: Time = Time::from_secs(10);
}

/// The frames in flight, in order.
#[derive(Debug)]
pub(super) struct InFlight {
    wire: Wire,
    /// The time at which the last bit of the last frame has been sent.
    free_at: Time,
    frames: VecDeque<(Time, Box<Packet>)>,
    /// Somebody waits for the next arrival.
    awaited: bool,
}

impl InFlight {
    pub fn new(wire: Wire) -> InFlight {
        InFlight { wire, free_at: Time::ZERO, frames: VecDeque::new(), awaited: false }
    }

    /// A frame left the switch.
    pub fn push(&mut self, now: Time, packet: Box<Packet>) {
        let bytes = Bytes::new(u64::from(packet.len()));
        self.free_at = self.free_at.max(now) + self.wire.rate.tx_time(bytes);
        self.frames.push_back((self.free_at + self.wire.delay, packet));
    }

    /// Returns the next frame that has arrived, and when it did.
    pub fn pop(&mut self, now: Time) -> Option<(Time, Box<Packet>)> {
        self.next_arrival().filter(|&at| at <= now)?;
        self.frames.pop_front()
    }

    /// Returns the arrival time of the next frame and marks it as awaited. `None` if there is no frame, or if it is
    /// awaited already (until [`Self::arrived`]).
    pub fn await_arrival(&mut self) -> Option<Time> {
        let at = if self.awaited { None } else { self.next_arrival() };
        self.awaited |= at.is_some();
        at
    }

    /// The time of [`Self::await_arrival`] has come.
    pub fn arrived(&mut self) {
        self.awaited = false;
    }

    /// Returns the arrival time of the next frame.
    pub fn next_arrival(&self) -> Option<Time> {
        self.frames.front().map(|&(at, _)| at)
    }

    /// Returns the number of frames in flight.
    pub fn len(&self) -> usize {
        self.frames.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_after_serialisation_and_delay_and_in_order() {
        let wire = Wire { rate: Bandwidth::from_mbps(10), delay: Time::from_ms(15) };
        let mut cable = InFlight::new(wire);
        let frame = |len: usize| Packet::from_bytes(&vec![0; len]);
        cable.push(Time::from_ms(1), frame(1250)); // 1 ms on the wire
        cable.push(Time::from_ms(1), frame(125)); // waits for it, then 0.1 ms
        assert_eq!((cable.len(), cable.next_arrival()), (2, Some(Time::from_ms(17))));
        assert!(cable.pop(Time::from_us(16_999)).is_none());
        assert_eq!(cable.await_arrival(), Some(Time::from_ms(17)));
        assert_eq!(cable.await_arrival(), None, "one waits already");
        cable.arrived();
        assert_eq!(cable.pop(Time::from_ms(18)).unwrap().1.len(), 1250);
        assert!(cable.pop(Time::from_ms(17)).is_none());
        let (at, frame) = cable.pop(Time::from_ms(20)).unwrap();
        assert_eq!((at, frame.len()), (Time::from_us(17_100), 125), "however late it is asked for");
        assert_eq!((cable.len(), cable.next_arrival()), (0, None));
    }
}
