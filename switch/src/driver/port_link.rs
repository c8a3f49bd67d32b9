//! The link at a port, where what is behind the port takes no time: an interface, or memory between two switches.
//!
//! The traffic manager keeps the port to the rate, so that the queue is in the switch. A frame that left it
//! is serialised and travels: it reaches the far end when its last bit would.

use super::stats::IoDrops;
use crate::link::{LinkChange, LinkChannel, LinkCounters, LinkParameters};
use crate::packet::{Packet, PacketPool};
use weir_units::{Bandwidth, Time};

/// A link at a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortLinkConfig {
    /// Its rate, its delay, and what happens to its frames, in both directions.
    pub link: LinkParameters,
    /// Seeds of what happens at random to frames that the switch sends, and to those that come from an interface.
    pub seeds: [u64; 2],
}

impl PortLinkConfig {
    /// The longest delay: frames in flight wait in memory.
    pub const MAX_DELAY: Time = LinkParameters::MAX_DELAY;

    /// Returns a link on which nothing is lost, except what its queue cannot hold.
    pub fn new(rate: Bandwidth, delay: Time) -> PortLinkConfig {
        let link = LinkParameters { rate: Some(rate), delay, ..LinkParameters::default() };
        PortLinkConfig { link, seeds: [1, 2] }
    }
}

/// The state of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionStatus {
    /// Its own counters.
    pub counters: LinkCounters,
    /// Frames that are in flight.
    pub in_flight: usize,
    /// Frames lost at its ends: those that could not be received at one end, or sent at the other.
    pub interfaces: IoDrops,
}

/// The link at a port of a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct PortLink {
    /// The port's number.
    pub port: u16,
    /// The present parameters.
    pub link: LinkParameters,
    /// The direction away from the switch.
    pub sent: DirectionStatus,
    /// The direction towards the switch, if it comes from an interface. That of a link between two switches is `sent` of
    /// the other one.
    pub received: DirectionStatus,
}

/// The links at the ports of a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchLinks {
    /// By number.
    pub ports: Vec<PortLink>,
    /// Lateness of the last frames that were sent to interfaces.
    pub lateness: Vec<Time>,
}

/// The frames in flight in one direction.
#[derive(Debug)]
pub(super) struct InFlight {
    link: LinkParameters,
    direction: LinkChannel,
    /// The time of the timer that is set for the next arrival.
    awaited: Option<Time>,
}

impl InFlight {
    pub fn new(link: LinkParameters, seed: u64) -> InFlight {
        InFlight { link, direction: LinkChannel::new(seed), awaited: None }
    }

    /// A frame enters the link.
    pub fn push(&mut self, now: Time, packet: Box<Packet>, pool: &mut PacketPool) {
        self.direction.send(&self.link, now, packet, pool);
    }

    /// Returns the next frame that has arrived, and when it did.
    pub fn pop(&mut self, now: Time) -> Option<(Time, Box<Packet>)> {
        self.direction.pop_arrived(now)
    }

    /// Returns the arrival time of the next frame and marks it as awaited. `None` if there is no frame, or if something is
    /// awaited that comes no later (until [`Self::timer_fired`]).
    pub fn arm(&mut self) -> Option<Time> {
        let at = self.direction.next_arrival()?;
        if self.awaited.is_some_and(|awaited| awaited <= at) {
            return None;
        }
        self.awaited = Some(at);
        Some(at)
    }

    /// The time of a timer has come. `false`: another one is set, for an earlier time.
    pub fn timer_fired(&mut self, timer: Time) -> bool {
        let is_awaited = self.awaited == Some(timer);
        if is_awaited {
            self.awaited = None;
        }
        is_awaited
    }

    /// Changes the link. Frames in flight keep their time of arrival, unless it goes down.
    pub fn change(&mut self, change: LinkChange, pool: &mut PacketPool) {
        self.link = change.apply(self.link);
        if !self.link.up {
            self.direction.drop_in_flight(pool);
        }
    }

    /// Loses what is in flight: the port is removed, and may come back.
    pub fn drop_in_flight(&mut self, pool: &mut PacketPool) {
        self.direction.drop_in_flight(pool);
        self.awaited = None;
    }

    /// Returns the number of frames in flight.
    pub fn len(&self) -> usize {
        self.direction.in_flight()
    }

    /// Returns the state of the direction, with what was lost at its ends.
    fn status(&self, interfaces: IoDrops) -> DirectionStatus {
        DirectionStatus { counters: self.direction.counters().clone(), in_flight: self.len(), interfaces }
    }
}

/// Returns the state of a direction, if there is one, with what was lost at its ends.
pub(super) fn direction(link: Option<&InFlight>, interfaces: IoDrops) -> DirectionStatus {
    link.map_or_else(DirectionStatus::default, |link| link.status(interfaces))
}

/// The lateness of frames, of the last of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    last: Vec<Time>,
    frames: usize,
}

impl Lateness {
    /// Frames whose lateness is kept.
    const WINDOW: usize = 4096;

    pub fn add(&mut self, late: Time) {
        match self.last.get_mut(self.frames % Lateness::WINDOW) {
            Some(slot) => *slot = late,
            None => self.last.push(late),
        }
        self.frames += 1;
    }

    pub fn last(&self) -> &[Time] {
        &self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_after_serialisation_and_delay_and_in_order() {
        let link = PortLinkConfig::new(Bandwidth::from_mbps(10), Time::from_ms(15)).link;
        let (mut cable, mut pool) = (InFlight::new(link, 1), PacketPool::new());
        let frame = |len: usize| Packet::from_bytes(&vec![0; len]);
        cable.push(Time::from_ms(1), frame(1250), &mut pool); // 1 ms on the wire
        cable.push(Time::from_ms(1), frame(125), &mut pool); // waits for it, then 0.1 ms
        assert_eq!(cable.len(), 2);
        assert!(cable.pop(Time::from_us(16_999)).is_none());
        assert_eq!(cable.arm(), Some(Time::from_ms(17)));
        assert_eq!(cable.arm(), None, "one waits already");
        assert!(!cable.timer_fired(Time::from_ms(16)) && cable.timer_fired(Time::from_ms(17)));
        assert_eq!(cable.pop(Time::from_ms(18)).unwrap().1.len(), 1250);
        assert!(cable.pop(Time::from_ms(17)).is_none());
        let (at, frame) = cable.pop(Time::from_ms(20)).unwrap();
        assert_eq!((at, frame.len()), (Time::from_us(17_100), 125), "however late it is asked for");
        assert_eq!((cable.len(), cable.arm()), (0, None));
    }

    #[test]
    fn a_frame_that_overtakes_is_awaited_instead() {
        let link = PortLinkConfig::new(Bandwidth::from_mbps(10), Time::from_ms(15)).link;
        let (mut cable, mut pool) = (InFlight::new(link, 1), PacketPool::new());
        cable.push(Time::ZERO, Packet::from_bytes(&[0; 125]), &mut pool);
        assert_eq!(cable.arm(), Some(Time::from_us(15_100)));
        cable.change("delay=1ms,reorder=100%".parse().unwrap(), &mut pool);
        cable.push(Time::from_ms(1), Packet::from_bytes(&[0; 125]), &mut pool);
        assert_eq!(cable.arm(), Some(Time::from_us(1_100)));
        assert!(cable.timer_fired(Time::from_us(1_100)) && cable.pop(Time::from_us(1_100)).is_some());
        assert_eq!(cable.arm(), Some(Time::from_us(15_100)), "its first timer has been replaced");
        assert!(cable.timer_fired(Time::from_us(15_100)));
        assert!(!cable.timer_fired(Time::from_us(15_100)), "the first timer is outdated");
    }
}
