//! The link emulated at a port. It is the only source of delay: the interface behind the port, or the memory between
//! two switches, is assumed to add none.
//!
//! The traffic manager shapes the port to the rate of the link, so that the queue is in the switch. A frame
//! that left the queue is serialised and propagates; it arrives with its last bit.

use super::stats::IoDrops;
use crate::link::{LinkChange, LinkChannel, LinkCounters, LinkParameters};
use crate::packet::{Packet, PacketPool};
use weir_units::{Bandwidth, Time};

/// The configuration of the link at a port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortLinkConfig {
    /// Rate, delay and impairments, the same in both directions.
    pub link: LinkParameters,
    /// Seeds of random events for frames that the switch sends, and for frames that an interface receives.
    pub seeds: [u64; 2],
}

impl PortLinkConfig {
    /// Maximum delay, because frames in flight take memory.
    pub const MAX_DELAY: Time = LinkParameters::MAX_DELAY;

    /// Creates a link without impairments: frames are lost only to a full queue.
    pub fn new(rate: Bandwidth, delay: Time) -> PortLinkConfig {
        let link = LinkParameters { rate: Some(rate), delay, ..LinkParameters::default() };
        PortLinkConfig { link, seeds: [1, 2] }
    }
}

/// The state of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectionStatus {
    pub counters: LinkCounters,
    /// Number of frames in flight.
    pub in_flight: usize,
    /// Frames lost at the interfaces: not received at the start of the direction, or not sent at its end.
    pub interfaces: IoDrops,
}

/// The state of the link at a port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortLink {
    pub port: u16,
    /// The current parameters.
    pub link: LinkParameters,
    /// The direction from the switch.
    pub sent: DirectionStatus,
    /// The direction from an interface to the switch. Empty for a link between two switches: see `sent` of
    /// the other one.
    pub received: DirectionStatus,
}

/// The state of the links at the ports of a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchLinks {
    /// Sorted by port number.
    pub ports: Vec<PortLink>,
    /// Lateness of recent frames that were sent to interfaces, unsorted.
    pub lateness: Vec<Time>,
}

/// One direction of the link at a port, with its frames in flight.
#[derive(Debug)]
pub(super) struct LinkDirection {
    link: LinkParameters,
    channel: LinkChannel,
    /// The time of the timer that is armed for the next arrival; `None` if no timer is armed.
    armed_for: Option<Time>,
}

impl LinkDirection {
    pub(super) fn new(link: LinkParameters, seed: u64) -> LinkDirection {
        LinkDirection { link, channel: LinkChannel::from_seed(seed), armed_for: None }
    }

    /// Puts a frame on the link.
    pub(super) fn push(&mut self, now: Time, packet: Box<Packet>, pool: &mut PacketPool) {
        self.channel.send(&self.link, now, packet, pool);
    }

    /// Removes and returns the next frame that has arrived, with its time of arrival.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Time, Box<Packet>)> {
        self.channel.pop_arrived(now).map(|in_flight| (in_flight.arrival, in_flight.frame))
    }

    /// Returns the time of the next arrival, but not one before `earliest`, if a timer must be armed for it, and
    /// records the timer. `None` if no frame is in flight, or a timer is armed for this time or an earlier one.
    pub(super) fn arm(&mut self, earliest: Time) -> Option<Time> {
        let arrival = self.channel.next_arrival()?.max(earliest);
        if self.armed_for.is_some_and(|armed| armed <= arrival) {
            return None;
        }
        self.armed_for = Some(arrival);
        Some(arrival)
    }

    /// Records that a timer fired. Returns `false` if the timer is outdated, because another was armed for an
    /// earlier time.
    pub(super) fn timer_fired(&mut self, timer: Time) -> bool {
        let is_current = self.armed_for == Some(timer);
        if is_current {
            self.armed_for = None;
        }
        is_current
    }

    /// Changes the link. Frames in flight keep their time of arrival, except that they are lost if the link
    /// goes down.
    pub(super) fn change(&mut self, change: LinkChange, pool: &mut PacketPool) {
        self.link = change.apply(self.link);
        if !self.link.up {
            self.channel.drop_in_flight(pool);
        }
    }

    /// Drops the frames in flight, because the port is removed. It may be added again.
    pub(super) fn drop_in_flight(&mut self, pool: &mut PacketPool) {
        self.channel.drop_in_flight(pool);
        self.armed_for = None;
    }

    pub(super) fn len(&self) -> usize {
        self.channel.in_flight()
    }

    fn status(&self, interfaces: IoDrops) -> DirectionStatus {
        DirectionStatus { counters: self.channel.counters().clone(), in_flight: self.len(), interfaces }
    }
}

/// Returns the state of a direction, which may be absent, with the frames lost at its interfaces.
pub(super) fn direction_status(link: Option<&LinkDirection>, interfaces: IoDrops) -> DirectionStatus {
    link.map_or_else(DirectionStatus::default, |link| link.status(interfaces))
}

/// The lateness of the last [`Self::MAX_SAMPLES`] frames: how long after its arrival time a frame was delivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    last: Vec<Time>,
    /// Number of frames added.
    frames: usize,
}

impl Lateness {
    /// Number of samples kept.
    const MAX_SAMPLES: usize = 4096;

    pub(super) fn add(&mut self, late: Time) {
        match self.last.get_mut(self.frames % Lateness::MAX_SAMPLES) {
            Some(oldest) => *oldest = late,
            None => self.last.push(late),
        }
        self.frames += 1;
    }

    pub(super) fn last(&self) -> &[Time] {
        &self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_after_serialisation_and_delay_and_in_order() {
        let link = PortLinkConfig::new(Bandwidth::from_mbps(10), Time::from_ms(15)).link;
        let (mut direction, mut pool) = (LinkDirection::new(link, 1), PacketPool::new());
        let frame = |len: usize| Packet::from_bytes(&vec![0; len]);
        direction.push(Time::from_ms(1), frame(1250), &mut pool); // 1 ms on the wire
        direction.push(Time::from_ms(1), frame(125), &mut pool); // waits for the first frame, then 0.1 ms
        assert_eq!(direction.len(), 2);
        assert!(direction.pop(Time::from_us(16_999)).is_none());
        assert_eq!(direction.arm(Time::ZERO), Some(Time::from_ms(17)));
        assert_eq!(direction.arm(Time::ZERO), None, "a timer is armed already");
        assert!(!direction.timer_fired(Time::from_ms(16)) && direction.timer_fired(Time::from_ms(17)));
        assert_eq!(direction.pop(Time::from_ms(18)).unwrap().1.len(), 1250);
        assert!(direction.pop(Time::from_ms(17)).is_none());
        let (arrival, frame) = direction.pop(Time::from_ms(20)).unwrap();
        assert_eq!((arrival, frame.len()), (Time::from_us(17_100), 125), "a late call gets the arrival time");
        assert_eq!((direction.len(), direction.arm(Time::ZERO)), (0, None));
    }

    #[test]
    fn an_overtaking_frame_replaces_the_timer() {
        let link = PortLinkConfig::new(Bandwidth::from_mbps(10), Time::from_ms(15)).link;
        let (mut direction, mut pool) = (LinkDirection::new(link, 1), PacketPool::new());
        direction.push(Time::ZERO, Packet::from_bytes(&[0; 125]), &mut pool);
        assert_eq!(direction.arm(Time::ZERO), Some(Time::from_us(15_100)));
        direction.change("delay=1ms,reorder=100%".parse().unwrap(), &mut pool);
        direction.push(Time::from_ms(1), Packet::from_bytes(&[0; 125]), &mut pool);
        assert_eq!(direction.arm(Time::ZERO), Some(Time::from_us(1_100)));
        assert!(direction.timer_fired(Time::from_us(1_100)) && direction.pop(Time::from_us(1_100)).is_some());
        assert_eq!(
            direction.arm(Time::ZERO),
            Some(Time::from_us(15_100)),
            "the timer of the overtaken frame is armed again"
        );
        assert!(direction.timer_fired(Time::from_us(15_100)));
        assert!(!direction.timer_fired(Time::from_us(15_100)), "the first timer is outdated");
    }
}
