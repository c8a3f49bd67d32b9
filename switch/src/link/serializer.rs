//! The transmitter of a link.

use weir_units::{Bandwidth, Bytes, Time};

/// Serialises the frames of one direction, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serializer {
    /// End of the last serialisation; in the past if the transmitter is idle.
    free_at: Time,
}

impl Serializer {
    /// Returns when the transmitter becomes idle; `None` if it is idle at `now`.
    #[inline]
    pub fn busy_until(&self, now: Time) -> Option<Time> {
        (self.free_at > now).then_some(self.free_at)
    }

    /// Returns for how long the frames sent before `now` still keep the transmitter busy.
    pub fn backlog(&self, now: Time) -> Time {
        self.free_at.saturating_sub(now)
    }

    /// Serialises a frame of `length` bytes, at `now` or after the frames before it. Returns when its last bit is sent.
    #[inline]
    pub fn send(&mut self, now: Time, length: Bytes, rate: Bandwidth) -> Time {
        self.free_at = self.free_at.max(now) + rate.tx_time(length);
        self.free_at
    }
}
