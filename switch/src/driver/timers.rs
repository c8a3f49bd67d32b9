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
    /// The port's rate allows the next packet, or the pause of its switch ends.
    TransmitReady,
}

/// A timer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timer {
    pub due: Time,
    /// Index of the switch in the data plane.
    pub switch: u16,
    pub port: u16,
    pub kind: TimerKind,
}

/// All timers of a data plane. Timers are never removed early: a port ignores an outdated one.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<Timer>>);

impl Timers {
    #[inline]
    pub(super) fn push(&mut self, timer: Timer) {
        self.0.push(Reverse(timer));
    }

    /// Removes and returns the earliest timer if it is due.
    #[inline]
    pub(super) fn pop(&mut self, now: Time) -> Option<Timer> {
        self.next().filter(|&due| due <= now)?;
        self.0.pop().map(|Reverse(timer)| timer)
    }

    /// Returns the time of the earliest timer.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        self.0.peek().map(|Reverse(timer)| timer.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_not_early() {
        let mut timers = Timers::default();
        let timer = |us, port, kind| Timer { due: Time::from_us(us), switch: 0, port, kind };
        timers.push(timer(3, 1, TimerKind::TransmitReady));
        timers.push(timer(2, 9, TimerKind::TransmitReady));
        timers.push(timer(2, 9, TimerKind::LinkArrival));
        assert_eq!((timers.next(), timers.pop(Time::from_us(1))), (Some(Time::from_us(2)), None));
        let now = Time::from_us(2);
        assert_eq!(
            timers.pop(now),
            Some(timer(2, 9, TimerKind::LinkArrival)),
            "an arrival comes before a transmission"
        );
        assert_eq!(timers.pop(now), Some(timer(2, 9, TimerKind::TransmitReady)));
        assert_eq!((timers.pop(now), timers.next()), (None, Some(Time::from_us(3))));
    }
}
