//! The clock of the data plane: monotonic, zero when it starts.

use std::time::Instant;
use weir_units::Time;

/// Counts from when it was made. [`Time`] holds 213 days of it.
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
