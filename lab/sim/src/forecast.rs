//! Predicts how long a run would take on more cores, from the CPU time of each logical process in each window
//! ([`crate::network`]) of a run on one thread.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Cost in ns of waking the threads, claiming processes and waiting, per window; [`THREAD_NS`] is added for each
/// thread. Weir's estimate: a few cache lines move between cores for each thread.
const WINDOW_NS: u64 = 2_000;
/// Additional cost in ns per window and thread.
const THREAD_NS: u64 = 100;

/// Returns the CPU time of the calling thread. Unlike the wall clock it excludes other load of the machine.
pub(crate) fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Accumulates the predicted time for several numbers of threads. Each window is scheduled as the worker pool would:
/// the next process goes to the thread that is free first. Serial work of the coordinator is added unchanged.
#[derive(Clone, Debug)]
pub struct ScalingForecast {
    /// (Number of threads, predicted duration of all windows in ns.)
    predicted: Vec<(usize, u64)>,
    /// Measured CPU time in logical processes, in ns.
    process_ns: u64,
    /// Measured CPU time of the whole run, in ns.
    total_ns: u64,
    /// CPU time spent in this forecast, in ns; part of `total_ns`.
    overhead_ns: u64,
    /// Number of windows in which a process ran.
    windows: u64,
}

impl ScalingForecast {
    /// Creates a forecast for each of these numbers of threads.
    pub fn new(threads: &[usize]) -> ScalingForecast {
        ScalingForecast {
            predicted: threads.iter().map(|&threads| (threads.max(1), 0)).collect(),
            process_ns: 0,
            total_ns: 0,
            overhead_ns: 0,
            windows: 0,
        }
    }

    /// Adds a window, given the CPU time in ns of each process that ran, in order.
    pub fn add_window(&mut self, cpu_times_ns: &[u64]) {
        self.process_ns += cpu_times_ns.iter().sum::<u64>();
        self.windows += u64::from(!cpu_times_ns.is_empty());
        for (threads, sum) in &mut self.predicted {
            let mut busy = vec![0; *threads];
            for &cpu_time in cpu_times_ns {
                if let Some(first) = busy.iter_mut().min() {
                    *first += cpu_time;
                }
            }
            let cost = if *threads > 1 && !cpu_times_ns.is_empty() {
                WINDOW_NS + THREAD_NS * *threads as u64
            } else {
                0
            };
            *sum += busy.into_iter().max().unwrap_or(0) + cost;
        }
    }

    /// Adds CPU time that the forecast itself took, which does not count as time of the run.
    pub fn exclude(&mut self, overhead: Duration) {
        self.overhead_ns += overhead.as_nanos() as u64;
    }

    /// Adds the CPU time of a whole run on one thread, including the work between windows.
    pub fn add_run_time(&mut self, total: Duration) {
        self.total_ns += total.as_nanos() as u64;
    }

    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Returns the predicted duration of all runs for each number of threads.
    pub fn predicted_times(&self) -> impl Iterator<Item = (usize, Duration)> {
        let serial = self.total_ns.saturating_sub(self.process_ns + self.overhead_ns);
        self.predicted
            .iter()
            .map(move |&(threads, parallel)| (threads, Duration::from_nanos(serial + parallel)))
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
        // 65 us in processes, and 35 us of serial work.
        let cost = |threads| 2 * (WINDOW_NS + THREAD_NS * threads);
        assert_eq!(times, [(1, 100_000), (2, 70_000 + cost(2)), (64, 70_000 + cost(64))]);
        assert_eq!(forecast.windows(), 2);
    }
}
