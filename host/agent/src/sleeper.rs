use super::Clock;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use weir_units::Time;

/// Weight of the newest wake-up in the running mean of how late the kernel wakes us: 1 in 8, as TCP
/// smooths its round-trip time (RFC 6298 §2).
const EWMA_DIVISOR: u64 = 8;

/// Waits for frames and for points in time, the latter to within microseconds.
///
/// The kernel wakes a sleeper late: by a few microseconds on a busy core, by tens on an idle one. So
/// the waiter asks to be woken earlier by twice what it has lately seen, and spins through
/// the rest. On a busy machine, where spinning would take the core from others, there is little to
/// spin; and never more than `spin`.
#[derive(Debug)]
pub(super) struct PreciseSleeper {
    spin: Time,
    lateness: Time,
    histogram: Lateness,
}

/// Lateness of the loop at the times for which it waited.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    pub count: u64,
    pub total: Time,
    pub max: Time,
    /// Waits that ended within 1, 10, 60, 200, 1,000 us, and later.
    pub within: [u64; 6],
}

/// Bounds of [`Lateness::within`], the last one open.
pub(super) const LATENESS_BOUNDS: [Time; 5] =
    [Time::from_us(1), Time::from_us(10), Time::from_us(60), Time::from_us(200), Time::from_ms(1)];

impl Lateness {
    fn add(&mut self, late: Time) {
        self.count += 1;
        self.total += late;
        self.max = self.max.max(late);
        let class = LATENESS_BOUNDS.iter().position(|&bound| late <= bound).unwrap_or(LATENESS_BOUNDS.len());
        self.within[class] += 1;
    }
}

impl PreciseSleeper {
    /// Takes the thread's timer slack away, which would make every wait 50 us longer.
    pub fn new(spin: Time) -> PreciseSleeper {
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        PreciseSleeper { spin, lateness: Time::ZERO, histogram: Lateness::default() }
    }

    pub fn lateness(&self) -> &Lateness {
        &self.histogram
    }

    /// Waits until `due` or until a frame came in (or, with `room`, until one may be sent). A
    /// `precise` wait is worth spinning for.
    pub fn wait(&mut self, clock: &Clock, fd: BorrowedFd<'_>, due: Time, precise: bool, wait_writable: bool) {
        let margin = if precise { self.margin() } else { Time::ZERO };
        let wake = due.saturating_sub(margin);
        let flags = if wait_writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let sleep = wake.saturating_sub(clock.now());
        if sleep > Time::ZERO {
            if ready(fd, flags, sleep) {
                return;
            }
            let late = clock.now().saturating_sub(wake);
            let mean = self.lateness.as_ps();
            self.lateness = Time::from_ps(mean - mean / EWMA_DIVISOR + late.as_ps() / EWMA_DIVISOR);
        }
        if !precise {
            return;
        }
        let mut now = clock.now();
        while now < due && margin > Time::ZERO {
            if ready(fd, flags, Time::ZERO) {
                return;
            }
            std::hint::spin_loop();
            now = clock.now();
        }
        self.histogram.add(now.saturating_sub(due));
    }

    fn margin(&self) -> Time {
        (self.lateness + self.lateness).min(self.spin)
    }
}

/// Returns whether `fd` is ready, after at most `timeout`. An error or a signal counts as ready: the caller
/// looks for itself.
fn ready(fd: BorrowedFd<'_>, flags: PollFlags, timeout: Time) -> bool {
    let nanos = timeout.as_ns();
    let timeout =
        Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
    poll(&mut [PollFd::from_borrowed_fd(fd, flags)], Some(&timeout)) != Ok(0)
}
