//! The numbers of threads and of concurrent runs.

use crate::console::Console;
use crate::interrupt::interrupted;
use std::num::NonZeroUsize;
use weir_report::sweep::pool::{Pool, cores};
use weir_sim::Simulation;

/// Threads of a run or sweep, and the number of schemes or runs that execute on them at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parallelism {
    pub threads: usize,
    pub jobs: usize,
}

/// Returns the number of threads: `threads` if given, otherwise one per core, but at least `jobs`.
pub(super) fn thread_count(jobs: Option<usize>, threads: Option<NonZeroUsize>) -> usize {
    threads.map_or_else(|| cores().max(jobs.unwrap_or(1)), NonZeroUsize::get)
}

/// Returns the thread pool of a sweep: `jobs` concurrent runs (default: one per thread) on `threads` threads
/// (default: one per core, but at least `jobs`).
pub(super) fn pool(jobs: Option<u32>, threads: Option<NonZeroUsize>, console: &Console) -> Pool {
    let threads = thread_count(jobs.map(|jobs| jobs as usize), threads);
    Pool {
        backend: |cores| Box::new(Simulation::with_cores(cores)),
        is_cancelled: interrupted,
        jobs: jobs.map_or(threads, |jobs| jobs as usize),
        threads,
        show_progress: console.show_progress,
        verbose: console.style.verbose,
    }
}
