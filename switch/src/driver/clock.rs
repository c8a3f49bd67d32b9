//! The clocks of the data plane: a monotonic one that starts at 0, and the time of day for files.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_units::Time;

/// Counts from its creation. [`Time`] overflows after 213 days.
#[derive(Clone, Copy, Debug)]
pub(super) struct MonotonicClock(Instant);

impl MonotonicClock {
    pub(super) fn start() -> MonotonicClock {
        MonotonicClock(Instant::now())
    }

    #[inline]
    pub(super) fn now(&self) -> Time {
        Time::from_ns(self.0.elapsed().as_nanos() as u64)
    }
}

/// Returns the time since 1970, for timestamps in files.
pub(super) fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
