//! The worker pool of a run: several threads run the processes of a window.
//!
//! The coordinator, which is the thread of the run, publishes the processes that are due and the end key of the
//! window. Every thread, the coordinator included, first runs its own partition and then steals from the partitions
//! of the others. A partition stays the same for many windows, so its tables remain in the cache of one core; it
//! consists of neighbouring processes, so few frames cross cores; and all partitions have about the same number of
//! events. A waiting thread spins for a moment and then parks, which leaves its core to other programs.

use crate::events::EventKey;
use crate::forecast::{ScalingForecast, thread_cpu_time};
use crate::network::{Network, lock};
use crate::thread_buffers::ThreadBuffers;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread::{self, Scope, Thread};
use weir_experiment::backend::CorePool;

/// Spin iterations before a waiting thread parks: some tenths of a millisecond, about the time that sampling a large
/// fabric takes.
const SPINS_BEFORE_PARK: u32 = 10_000;

/// Increment of [`WorkerPool::claimed`] for a stolen process: steals are counted in the upper 32 bits.
const STOLEN_UNIT: u64 = 1 << 32;
/// Upper bound of the number of windows between two rebalancings.
const MAX_REBALANCE_INTERVAL: u64 = 256;

/// The work of one window.
struct WindowJob {
    end: EventKey,
    /// By thread index, the processes that the thread runs before it steals from others.
    partitions: Vec<Vec<u32>>,
}

/// The state that the threads of a run share.
pub(crate) struct WorkerPool<'n> {
    network: &'n Network,
    cores: &'n CorePool,
    /// If the last window had fewer events, the coordinator runs the next one alone.
    parallel_threshold: u64,
    window: RwLock<WindowJob>,
    /// By thread index, claims in its partition: the thread's own in the lower 32 bits, steals in the upper 32 bits.
    claimed: Vec<AtomicU64>,
    /// Incremented at the start of every shared window and at shutdown.
    epoch: AtomicUsize,
    /// Worker threads that have not finished the current window.
    working: AtomicUsize,
    events: AtomicU64,
    shutdown: AtomicBool,
    panicked: AtomicBool,
    leader: Thread,
}

/// The coordinating thread's handle of the pool. Dropping it ends the worker threads and releases their cores.
pub(crate) struct Coordinator<'c, 'n> {
    crew: &'c WorkerPool<'n>,
    others: Vec<Thread>,
    /// Events of the last window.
    last: u64,
    /// Thread index of each process, for the present number of threads.
    partition_of: Vec<usize>,
    divided: Rebalance,
    /// If set, every window runs on the coordinator alone and the CPU time of each process is recorded here.
    forecast: Option<&'c Mutex<ScalingForecast>>,
}

/// State of the load balancer since the last rebalancing.
#[derive(Default)]
struct Rebalance {
    threads: usize,
    windows: u64,
    /// Number of windows until the next rebalancing.
    until: u64,
}

impl<'n> WorkerPool<'n> {
    /// Creates a pool without workers; at most `cores.total()` threads, and never more than there are processes.
    pub fn new(network: &'n Network, cores: &'n CorePool, parallel_threshold: u64) -> WorkerPool<'n> {
        let max = cores.total().min(network.len());
        WorkerPool {
            network,
            cores,
            parallel_threshold,
            window: RwLock::new(WindowJob {
                end: EventKey::first_at(weir_units::Time::ZERO),
                partitions: vec![Vec::new(); max],
            }),
            claimed: (0..max).map(|_| AtomicU64::new(0)).collect(),
            epoch: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            events: AtomicU64::new(0),
            shutdown: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            leader: thread::current(),
        }
    }

    /// Runs all unclaimed processes of the window: those of partition `me` first, then those of the other partitions.
    fn run_partition(&self, me: usize, worker: &mut ThreadBuffers) {
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        let threads = window.partitions.len();
        let mut events = 0;
        for of in (me..threads).chain(0..me) {
            let share = &window.partitions[of];
            while let Some(place) = self.claim(of, share.len(), of == me) {
                let next = if of == me { Some(place + 1) } else { place.checked_sub(1) };
                if let Some(&next) = next.and_then(|next| share.get(next)) {
                    self.network.prefetch(next);
                }
                events += self.network.run_process(share[place], &window.end, worker);
            }
        }
        self.events.fetch_add(events, Ordering::Relaxed);
    }

    /// Claims a process of partition `of`, which has `len` processes, and returns its index there; `None` if all are
    /// claimed. The owner claims from the front, thieves from the back, so that neighbours seldom run at the same
    /// time.
    fn claim(&self, of: usize, len: usize, own: bool) -> Option<usize> {
        // One `fetch_add` updates and reads both counts. A failed claim overshoots by one per thread and visit, which
        // the reset before the next window undoes. Relaxed suffices: the `RwLock` publishes the partitions, and each
        // process has its mutex.
        let taken = self.claimed[of].fetch_add(if own { 1 } else { STOLEN_UNIT }, Ordering::Relaxed);
        let (own_taken, others) = ((taken % STOLEN_UNIT) as usize, (taken / STOLEN_UNIT) as usize);
        (own_taken + others < len).then(|| if own { own_taken } else { len - 1 - others })
    }

    /// The body of worker thread `me`: runs its part of every window after epoch `seen`, until shutdown.
    fn worker_loop(&self, me: usize, mut seen: usize) {
        let mut worker = ThreadBuffers::default();
        loop {
            let mut spins = 0;
            while self.epoch.load(Ordering::Acquire) == seen {
                spin_then_park(&mut spins);
            }
            // `Coordinator::drop` sets `shutdown` before it increments `epoch` with Release, so a thread that sees
            // the new epoch sees the flag too.
            if self.shutdown.load(Ordering::Acquire) {
                return;
            }
            seen = self.epoch.load(Ordering::Acquire);
            let _done = CompletionGuard(self);
            self.run_partition(me, &mut worker);
        }
    }
}

/// Returns the thread index of each process, given the event count of each: contiguous partitions with about equal
/// sums.
fn partition_by_work(work: &[u64], threads: usize) -> impl Iterator<Item = usize> {
    // Every process has a weight of at least 1, so that idle processes are spread over the threads too.
    let own = |work: &u64| work + 1;
    let (all, mut before) = (work.iter().map(own).sum::<u64>(), 0);
    work.iter().map(move |work| {
        let middle = before + own(work) / 2;
        before += own(work);
        middle as usize * threads / all as usize
    })
}

/// Spins for the first [`SPINS_BEFORE_PARK`] calls, then parks. Wake-ups may be spurious: the caller checks its
/// condition.
fn spin_then_park(spins: &mut u32) {
    if *spins < SPINS_BEFORE_PARK {
        *spins += 1;
        spin_loop();
    } else {
        thread::park();
    }
}

/// Reports on drop that a worker thread has finished its part of the window, normally or by a panic.
struct CompletionGuard<'c, 'n>(&'c WorkerPool<'n>);

impl Drop for CompletionGuard<'_, '_> {
    fn drop(&mut self) {
        // Before `working`: once it is 0, the coordinator checks `panicked`. Without this guard a panic in a worker
        // would leave the coordinator waiting for ever.
        if thread::panicking() {
            self.0.panicked.store(true, Ordering::Release);
        }
        if self.0.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.leader.unpark();
        }
    }
}

impl<'c, 'n> Coordinator<'c, 'n> {
    pub fn new(
        crew: &'c WorkerPool<'n>,
        forecast: Option<&'c Mutex<ScalingForecast>>,
    ) -> Coordinator<'c, 'n> {
        let partition_of = vec![0; crew.network.len()];
        Coordinator {
            crew,
            others: Vec::new(),
            last: 0,
            partition_of,
            divided: Rebalance::default(),
            forecast,
        }
    }

    /// Runs a window on the coordinator alone and adds the CPU time of each process to `forecast`.
    fn run_measured(
        &mut self,
        forecast: &Mutex<ScalingForecast>,
        end: &EventKey,
        due: impl Iterator<Item = u32>,
    ) -> u64 {
        let (network, mut events, mut work) = (self.crew.network, 0, Vec::new());
        let mut last = thread_cpu_time();
        for number in due {
            events += network.run_process(number, end, &mut network.worker());
            let now = thread_cpu_time();
            work.push((now - last).as_nanos() as u64);
            last = now;
        }
        let mut forecast = lock(forecast);
        forecast.add_window(&work);
        forecast.exclude(thread_cpu_time() - last);
        events
    }

    /// Repartitions the processes if the number of threads has changed or the interval has passed: each side is cut
    /// into contiguous partitions with about equal event counts since the last rebalancing. The interval doubles from
    /// 4 to
    /// [`MAX_REBALANCE_INTERVAL`] windows.
    fn rebalance(&mut self, threads: usize) {
        let last = &mut self.divided;
        last.windows += 1;
        let anew = last.threads != threads;
        if !anew && (threads == 1 || last.windows < last.until) {
            return;
        }
        // After a change of the number of threads few events have been counted, so rebalance again soon.
        let until = if anew { 4 } else { MAX_REBALANCE_INTERVAL.min(2 * last.until) };
        *last = Rebalance { threads, windows: 0, until };
        let network = self.crew.network;
        for side in network.sides() {
            let work: Vec<u64> = side.iter().map(|&number| network.take_event_count(number)).collect();
            for (&number, part) in side.iter().zip(partition_by_work(&work, threads)) {
                self.partition_of[number as usize] = part;
            }
        }
    }

    /// Spawns one worker thread if a core is free and the last window had enough events.
    pub fn spawn_worker_if_useful<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'c: 'scope,
        'n: 'scope,
    {
        let crew = self.crew;
        let me = self.others.len() + 1;
        if self.forecast.is_some()
            || self.last < crew.parallel_threshold
            || me >= crew.claimed.len()
            || !crew.cores.try_acquire()
        {
            return;
        }
        let seen = crew.epoch.load(Ordering::Relaxed);
        self.others.push(scope.spawn(move || crew.worker_loop(me, seen)).thread().clone());
    }

    /// Runs the processes `due` up to `end` and returns the number of events. `due` must contain every process with
    /// an event before `end` that `concurrently` does not run itself. `concurrently` runs on this thread while
    /// workers run processes.
    pub fn run(
        &mut self,
        end: &EventKey,
        due: impl Iterator<Item = u32>,
        concurrently: impl FnOnce(),
    ) -> u64 {
        if let Some(forecast) = self.forecast {
            concurrently();
            return self.run_measured(forecast, end, due);
        }
        let crew = self.crew;
        let shared = !self.others.is_empty() && self.last >= crew.parallel_threshold;
        let threads = if shared { self.others.len() + 1 } else { 1 };
        self.rebalance(threads);
        {
            let mut window = crew.window.write().unwrap_or_else(PoisonError::into_inner);
            window.end = *end;
            window.partitions.iter_mut().for_each(Vec::clear);
            for number in due {
                window.partitions[self.partition_of[number as usize]].push(number);
            }
        }
        crew.claimed.iter().for_each(|taken| taken.store(0, Ordering::Relaxed));
        crew.events.store(0, Ordering::Relaxed);
        if shared {
            crew.working.store(self.others.len(), Ordering::Release);
            crew.epoch.fetch_add(1, Ordering::Release);
            self.others.iter().for_each(Thread::unpark);
        }
        // Before `run_partition`, which holds the lock of `Network::worker` that `concurrently` takes too.
        concurrently();
        crew.run_partition(0, &mut crew.network.worker());
        let mut spins = 0;
        while shared && crew.working.load(Ordering::Acquire) > 0 {
            spin_then_park(&mut spins);
        }
        assert!(!crew.panicked.load(Ordering::Acquire), "a worker thread panicked");
        self.last = crew.events.load(Ordering::Relaxed);
        self.last
    }
}

impl Drop for Coordinator<'_, '_> {
    fn drop(&mut self) {
        self.crew.shutdown.store(true, Ordering::Release);
        self.crew.epoch.fetch_add(1, Ordering::Release);
        for thread in &self.others {
            thread.unpark();
            self.crew.cores.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::partition_by_work;

    #[test]
    fn each_thread_gets_as_much_work() {
        let of = |work: &[u64], threads| partition_by_work(work, threads).collect::<Vec<_>>();
        assert_eq!(of(&[0; 6], 3), [0, 0, 1, 1, 2, 2]);
        assert_eq!(of(&[90, 10, 10, 10, 10, 10, 10, 10, 10, 10], 2), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(of(&[10, 10, 10, 900, 10], 4), [0, 0, 0, 2, 3]);
        assert_eq!(of(&[7], 8), [4]);
    }
}
