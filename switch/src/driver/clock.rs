//! The clock of the data plane: monotonic, 0 when it starts.

use std::time::Instant;
use weir_units::Time;

/// Counts from its creation. [`Time`] holds 213 days.
#[derive(Clone, Copy, Debug)]
pub(super) struct MonotonicClock(Instant);

impl MonotonicClock {
    pub fn start() -> MonotonicClock {
        MonotonicClock(Instant::now())
    }

    #[inline]
    pub fn now(&self) -> Time {
        Time::from_ns(self.0.elapsed().as_nanos() as u64)
    }
}
