//! Shapes a port or a queue to a rate as BMv2's rate-limited queues do: a packet may leave one packet time
//! after the previous one was due, not after it left, so that a late poll costs no rate.

use super::Rate;
use weir_units::Time;

/// Maximum lateness for which a shaper compensates: about as long as a busy machine delays a thread, or 16 full
/// frames at 10 Mbit/s. BMv2 has no bound, so there a queue that was paused for long sends its backlog in one burst.
pub(crate) const MAX_CATCH_UP: Time = Time::from_ms(20);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shaper {
    rate: Rate,
    /// The time from which the rate allows the next packet.
    free_at: Time,
    /// The time at which the last packet was due, and its length in bytes; `None` before the first packet.
    last: Option<(Time, u32)>,
}

impl Shaper {
    pub(super) fn new(rate: Rate) -> Shaper {
        Shaper { rate, free_at: Time::ZERO, last: None }
    }

    /// Sets the rate. It also applies to the last packet, so that no packet leaves early because the rate
    /// changed.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.free_at = self.last.map_or(Time::ZERO, |(due, len)| due.saturating_add(rate.tx_time(len)));
    }

    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.rate.is_limited()
    }

    /// Returns the time from which the rate allows the next packet.
    #[inline]
    pub(super) fn free_at(&self) -> Time {
        self.free_at
    }

    /// Records a packet of `len` bytes that was queued at `enqueued` and is sent at `now`.
    #[inline(always)]
    pub(super) fn record(&mut self, now: Time, enqueued: Time, len: u32) {
        let mut due = now;
        if self.is_limited() {
            // The rate counts from when the packet could have been sent, so a late poll costs no rate.
            // MAX_CATCH_UP bounds the burst after a long pause.
            due = self.free_at.max(enqueued).max(now.saturating_sub(MAX_CATCH_UP));
            self.free_at = due.saturating_add(self.rate.tx_time(len));
        }
        self.last = Some((due, len));
    }
}
