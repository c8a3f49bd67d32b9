//! The timers of a data plane's ports, ordered by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_units::Time;

/// The action of a timer. Of equal times, an arrival comes before a transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimerKind {
    /// A frame arrives at the far end of the port's link.
    LinkArrival,
    /// A frame arrives at the switch on the link from an interface.
    IngressLinkArrival,
    /// The port's rate allows the next packet.
    TransmitReady,
}

/// A timer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub at: Time,
    /// Index of the switch in the data plane.
    pub switch: u16,
    pub port: u16,
    pub act: TimerKind,
}

/// All timers of a data plane. Timers are never removed early: a port ignores an outdated one.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<Timer>>);

impl Timers {
    #[inline]
    pub fn push(&mut self, timer: Timer) {
        self.0.push(Reverse(timer));
    }

    /// Removes and returns the earliest timer if it is due.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<Timer> {
        self.next().filter(|&at| at <= now)?;
        self.0.pop().map(|Reverse(timer)| timer)
    }

    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.0.peek().map(|Reverse(timer)| timer.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_in_the_order_of_their_times_and_not_early() {
        let mut timers = Timers::default();
        let timer = |us, port, act| Timer { at: Time::from_us(us), switch: 0, port, act };
        timers.push(timer(3, 1, TimerKind::TransmitReady));
        timers.push(timer(2, 9, TimerKind::TransmitReady));
        timers.push(timer(2, 9, TimerKind::LinkArrival));
        assert_eq!((timers.next(), timers.pop(Time::from_us(1))), (Some(Time::from_us(2)), None));
        let now = Time::from_us(2);
        assert_eq!(
            timers.pop(now),
            Some(timer(2, 9, TimerKind::LinkArrival)),
            "what arrives comes before what leaves"
        );
        assert_eq!(timers.pop(now), Some(timer(2, 9, TimerKind::TransmitReady)));
        assert_eq!((timers.pop(now), timers.next()), (None, Some(Time::from_us(3))));
    }
}
