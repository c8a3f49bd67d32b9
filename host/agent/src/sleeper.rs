use super::Clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use weir_units::Time;

/// The mean wake-up lateness is an EWMA with weight 1/8 for the newest value, as in TCP's RTT estimator (RFC 6298 §2).
const EWMA_DIVISOR: u64 = 8;

/// Waits for frames and for deadlines, the latter to within microseconds.
///
/// The kernel wakes a thread late: by a few microseconds on a busy core, by tens of microseconds on an idle one. The
/// sleeper therefore sleeps until twice the mean lateness before the deadline, and spins for the rest, at most
/// `max_spin`. On a busy machine, where spinning would take the core from other threads, the lateness is short and the
/// spin with it.
#[derive(Debug)]
pub(super) struct PreciseSleeper {
    max_spin: Time,
    /// EWMA of how late the kernel woke the thread.
    mean_lateness: Time,
    histogram: Lateness,
}

/// What to wait for, besides a received frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub deadline: Time,
    /// True to end within microseconds of the deadline: the last part of the wait spins and counts in the lateness.
    pub is_precise: bool,
    /// True to end also when the socket has room to send.
    pub ends_when_writable: bool,
}

/// How late precise waits ended, after their deadlines.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    pub count: u64,
    pub total: Time,
    pub max: Time,
    /// Number of waits by lateness; the upper bounds are [`LATENESS_BOUNDS`].
    pub within: [u64; 6],
}

/// Upper bounds of [`Lateness::within`]; the last bin has none.
pub(super) const LATENESS_BOUNDS: [Time; 5] =
    [Time::from_us(1), Time::from_us(10), Time::from_us(60), Time::from_us(200), Time::from_ms(1)];

impl Lateness {
    fn add(&mut self, late: Time) {
        self.count += 1;
        self.total += late;
        self.max = self.max.max(late);
        let bin = LATENESS_BOUNDS.iter().position(|&bound| late <= bound).unwrap_or(LATENESS_BOUNDS.len());
        self.within[bin] += 1;
    }
}

impl PreciseSleeper {
    /// Sets the calling thread's timer slack to 1 ns, since the default of 50 us delays every timed wait. If that
    /// fails, waits are only less precise.
    pub(crate) fn new(max_spin: Time) -> PreciseSleeper {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        PreciseSleeper { max_spin, mean_lateness: Time::ZERO, histogram: Lateness::default() }
    }

    pub(crate) fn lateness(&self) -> &Lateness {
        &self.histogram
    }

    /// Waits as `wait` says, or until `fd` has received a frame.
    pub(crate) fn wait(&mut self, clock: &Clock, fd: BorrowedFd<'_>, wait: Wait) {
        let Wait { deadline, is_precise, ends_when_writable } = wait;
        let margin = if is_precise { self.margin() } else { Time::ZERO };
        let wake_at = deadline.saturating_sub(margin);
        let flags = if ends_when_writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let sleep = wake_at.saturating_sub(clock.now());
        if sleep > Time::ZERO {
            if is_ready(fd, flags, sleep) {
                return;
            }
            let late = clock.now().saturating_sub(wake_at);
            let mean = self.mean_lateness.as_ps();
            self.mean_lateness = Time::from_ps(mean - mean / EWMA_DIVISOR + late.as_ps() / EWMA_DIVISOR);
        }
        if !is_precise {
            return;
        }
        let mut now = clock.now();
        // A zero margin (spinning is disabled, or no lateness measured yet) must not spin.
        while now < deadline && margin > Time::ZERO {
            if is_ready(fd, flags, Time::ZERO) {
                return;
            }
            std::hint::spin_loop();
            now = clock.now();
        }
        self.histogram.add(now.saturating_sub(deadline));
    }

    fn margin(&self) -> Time {
        // Twice the mean, so that most wake-ups are early enough.
        (self.mean_lateness + self.mean_lateness).min(self.max_spin)
    }
}

/// Waits up to `timeout` for `fd` and returns whether it is ready. An error or a signal counts as ready, since the
/// caller checks again.
fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags, timeout: Time) -> bool {
    let nanos = timeout.as_ns();
    let timeout =
        Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&timeout)) != Ok(0)
}
