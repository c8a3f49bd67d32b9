//! The time that a run would take on more cores, from the work of each process in each window of this one.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Cost of waking, claiming and waiting in a window: ours, a few cache lines between cores for each thread.
const WINDOW_NS: u64 = 2_000;
const THREAD_NS: u64 = 100;

/// Processor time of this thread. Unlike the all clock it does not count what others do on the machine.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Adds up what each number of threads would take. Processes are taken in order by the thread that is free first, as the
/// threads of a run take them; what only the run's own thread can do comes on top.
#[derive(Clone, Debug)]
pub struct ScalingForecast {
    /// Number of threads, and the nanoseconds that its windows take.
    shared: Vec<(usize, u64)>,
    /// Nanoseconds of all work in processes, and of the whole run.
    work: u64,
    all: u64,
    /// Nanoseconds of the forecast itself.
    own: u64,
    /// Windows with work.
    windows: u64,
}

impl ScalingForecast {
    /// For these numbers of threads.
    pub fn new(threads: &[usize]) -> ScalingForecast {
        ScalingForecast {
            shared: threads.iter().map(|&it| (it.max(1), 0)).collect(),
            work: 0,
            all: 0,
            own: 0,
            windows: 0,
        }
    }

    /// Takes the nanoseconds that each process that was due in a window took.
    pub fn add_window(&mut self, work: &[u64]) {
        self.work += work.iter().sum::<u64>();
        self.windows += u64::from(!work.is_empty());
        for (threads, total) in &mut self.shared {
            let mut busy = vec![0; *threads];
            for &work in work {
                if let Some(first) = busy.iter_mut().min() {
                    *first += work;
                }
            }
            let cost =
                if *threads > 1 && !work.is_empty() { WINDOW_NS + THREAD_NS * *threads as u64 } else { 0 };
            *total += busy.into_iter().max().unwrap_or(0) + cost;
        }
    }

    /// Leaves this time out of that of the run: it is the forecast's own.
    pub fn exclude(&mut self, own: Duration) {
        self.own += own.as_nanos() as u64;
    }

    /// Takes the processor time of a run's events on one thread, its own between windows included.
    pub fn add_run_time(&mut self, all: Duration) {
        self.all += all.as_nanos() as u64;
    }

    /// Windows with work.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// The time that the runs take on each number of threads.
    pub fn predicted_times(&self) -> impl Iterator<Item = (usize, Duration)> {
        let alone = self.all.saturating_sub(self.work + self.own);
        self.shared.iter().map(move |&(threads, shared)| (threads, Duration::from_nanos(alone + shared)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_takes_as_long_as_its_busiest_thread() {
        let mut forecast = ScalingForecast::new(&[1, 2, 64]);
        forecast.add_window(&[30_000, 10_000, 10_000, 10_000]);
        forecast.add_window(&[5_000]);
        forecast.add_window(&[]);
        forecast.add_run_time(Duration::from_micros(130));
        forecast.exclude(Duration::from_micros(30));
        let times: Vec<(usize, u64)> =
            forecast.predicted_times().map(|(threads, time)| (threads, time.as_nanos() as u64)).collect();
        // 65 us in processes, 35 us of the run's own.
        let cost = |threads| 2 * (WINDOW_NS + THREAD_NS * threads);
        assert_eq!(times, [(1, 100_000), (2, 70_000 + cost(2)), (64, 70_000 + cost(64))]);
        assert_eq!(forecast.windows(), 2);
    }
}
