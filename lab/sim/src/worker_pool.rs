//! The worker pool of a run: several threads run the logical processes of a window ([`crate::network`]).
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
    job: RwLock<WindowJob>,
    /// By thread index, claims in its partition: the thread's own in the lower 32 bits, steals in the upper 32 bits.
    claimed: Vec<AtomicU64>,
    /// Incremented at the start of every shared window and at shutdown.
    epoch: AtomicUsize,
    /// Worker threads that have not finished the current window.
    working: AtomicUsize,
    events: AtomicU64,
    shutdown: AtomicBool,
    panicked: AtomicBool,
    coordinator_thread: Thread,
}

/// The coordinating thread's handle of the pool. Dropping it ends the worker threads and releases their cores.
pub(crate) struct Coordinator<'c, 'n> {
    pool: &'c WorkerPool<'n>,
    workers: Vec<Thread>,
    /// Events of the last window.
    last_events: u64,
    /// Thread index of each process, for the present number of threads.
    partition_of: Vec<usize>,
    load_balancer: LoadBalancer,
    /// If set, every window runs on the coordinator alone and the CPU time of each process is recorded here.
    forecast: Option<&'c Mutex<ScalingForecast>>,
}

/// The state that decides when the processes are divided among the threads again.
#[derive(Default)]
struct LoadBalancer {
    /// Number of threads at the last rebalancing.
    threads: usize,
    /// Number of windows since the last rebalancing.
    windows: u64,
    /// Number of windows between the last rebalancing and the next one.
    interval: u64,
}

impl<'n> WorkerPool<'n> {
    /// Creates a pool without workers; at most `cores.total()` threads, and never more than there are processes.
    pub(crate) fn new(network: &'n Network, cores: &'n CorePool, parallel_threshold: u64) -> WorkerPool<'n> {
        let max_threads = cores.total().min(network.len());
        WorkerPool {
            network,
            cores,
            parallel_threshold,
            job: RwLock::new(WindowJob {
                end: EventKey::first_at(weir_units::Time::ZERO),
                partitions: vec![Vec::new(); max_threads],
            }),
            claimed: (0..max_threads).map(|_| AtomicU64::new(0)).collect(),
            epoch: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            events: AtomicU64::new(0),
            shutdown: AtomicBool::new(false),
            panicked: AtomicBool::new(false),
            coordinator_thread: thread::current(),
        }
    }

    /// Runs all unclaimed processes of the window: those of partition `me` first, then those of the other partitions.
    fn run_partition(&self, me: usize, buffers: &mut ThreadBuffers) {
        let job = self.job.read().unwrap_or_else(PoisonError::into_inner);
        let threads = job.partitions.len();
        let mut events = 0;
        for owner in (me..threads).chain(0..me) {
            let partition = &job.partitions[owner];
            while let Some(position) = self.claim(owner, partition.len(), owner == me) {
                let next = if owner == me { Some(position + 1) } else { position.checked_sub(1) };
                if let Some(&next) = next.and_then(|next| partition.get(next)) {
                    self.network.prefetch(next);
                }
                events += self.network.run_process(partition[position], &job.end, buffers);
            }
        }
        self.events.fetch_add(events, Ordering::Relaxed);
    }

    /// Claims a process of partition `owner`, which has `len` processes, and returns its index there; `None` if all are
    /// claimed. The owner claims from the front, thieves from the back, so that neighbours seldom run at the same
    /// time.
    fn claim(&self, owner: usize, len: usize, is_owner: bool) -> Option<usize> {
        // One `fetch_add` updates and reads both counts. A failed claim overshoots by one per thread and visit, which
        // the reset before the next window undoes. Relaxed suffices: the `RwLock` publishes the partitions, and each
        // process has its mutex.
        let claims = self.claimed[owner].fetch_add(if is_owner { 1 } else { STOLEN_UNIT }, Ordering::Relaxed);
        let (own, stolen) = ((claims % STOLEN_UNIT) as usize, (claims / STOLEN_UNIT) as usize);
        (own + stolen < len).then(|| if is_owner { own } else { len - 1 - stolen })
    }

    /// The body of worker thread `me`: runs its part of every window after epoch `seen`, until shutdown.
    fn worker_loop(&self, me: usize, mut seen: usize) {
        let mut buffers = ThreadBuffers::default();
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
            let _guard = CompletionGuard(self);
            self.run_partition(me, &mut buffers);
        }
    }
}

/// Returns the thread index of each process, given the event count of each: contiguous partitions with about equal
/// sums.
fn partition_by_events(event_counts: &[u64], threads: usize) -> impl Iterator<Item = usize> {
    // Every process has a weight of at least 1, so that idle processes are spread over the threads too.
    let weight = |events: &u64| events + 1;
    let (total, mut before) = (event_counts.iter().map(weight).sum::<u64>(), 0);
    event_counts.iter().map(move |events| {
        let middle = before + weight(events) / 2;
        before += weight(events);
        middle as usize * threads / total as usize
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
            self.0.coordinator_thread.unpark();
        }
    }
}

impl<'c, 'n> Coordinator<'c, 'n> {
    pub(crate) fn new(
        pool: &'c WorkerPool<'n>,
        forecast: Option<&'c Mutex<ScalingForecast>>,
    ) -> Coordinator<'c, 'n> {
        let partition_of = vec![0; pool.network.len()];
        Coordinator {
            pool,
            workers: Vec::new(),
            last_events: 0,
            partition_of,
            load_balancer: LoadBalancer::default(),
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
        let (network, mut events, mut cpu_times_ns) = (self.pool.network, 0, Vec::new());
        let mut last = thread_cpu_time();
        for number in due {
            events += network.run_process(number, end, &mut network.buffers());
            let now = thread_cpu_time();
            cpu_times_ns.push((now - last).as_nanos() as u64);
            last = now;
        }
        let mut forecast = lock(forecast);
        forecast.add_window(&cpu_times_ns);
        // The time that the forecast itself takes is not part of the run.
        forecast.exclude(thread_cpu_time() - last);
        events
    }

    /// Repartitions the processes if the number of threads has changed or the interval has passed: each side of the
    /// network's [bipartition](crate::bipartition) is cut into contiguous partitions with about equal event counts
    /// since the last rebalancing. The interval doubles from 4 to [`MAX_REBALANCE_INTERVAL`] windows.
    fn rebalance(&mut self, threads: usize) {
        let state = &mut self.load_balancer;
        state.windows += 1;
        let has_new_thread_count = state.threads != threads;
        if !has_new_thread_count && (threads == 1 || state.windows < state.interval) {
            return;
        }
        // After a change of the number of threads few events have been counted, so rebalance again soon.
        let interval = if has_new_thread_count { 4 } else { MAX_REBALANCE_INTERVAL.min(2 * state.interval) };
        *state = LoadBalancer { threads, windows: 0, interval };
        let network = self.pool.network;
        // A window may run the processes of one side only, so each side is balanced by itself.
        for side in network.sides() {
            let event_counts: Vec<u64> =
                side.iter().map(|&number| network.take_event_count(number)).collect();
            for (&number, thread) in side.iter().zip(partition_by_events(&event_counts, threads)) {
                self.partition_of[number as usize] = thread;
            }
        }
    }

    /// Spawns one worker thread if a core is free and the last window had enough events.
    pub(crate) fn spawn_worker_if_useful<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'c: 'scope,
        'n: 'scope,
    {
        let pool = self.pool;
        let me = self.workers.len() + 1;
        if self.forecast.is_some()
            || self.last_events < pool.parallel_threshold
            || me >= pool.claimed.len()
            || !pool.cores.try_acquire()
        {
            return;
        }
        let seen = pool.epoch.load(Ordering::Relaxed);
        match thread::Builder::new().spawn_scoped(scope, move || pool.worker_loop(me, seen)) {
            Ok(worker) => self.workers.push(worker.thread().clone()),
            // The system starts no more threads. Those that run suffice; a later window tries again.
            Err(_) => pool.cores.release(),
        }
    }

    /// Runs the processes `due` up to `end` and returns the number of their events. `due` must contain every process
    /// with an event before `end` that `concurrently` does not run itself.
    ///
    /// `concurrently` is other work of the window. It is called once, on this thread, before the thread takes its share
    /// of `due`; worker threads may run processes of `due` meanwhile. It may run processes that are not in `due`, whose
    /// events it counts itself.
    pub(crate) fn run(
        &mut self,
        end: &EventKey,
        due: impl Iterator<Item = u32>,
        concurrently: impl FnOnce(),
    ) -> u64 {
        if let Some(forecast) = self.forecast {
            concurrently();
            return self.run_measured(forecast, end, due);
        }
        let pool = self.pool;
        let shared = !self.workers.is_empty() && self.last_events >= pool.parallel_threshold;
        let threads = if shared { self.workers.len() + 1 } else { 1 };
        self.rebalance(threads);
        {
            let mut job = pool.job.write().unwrap_or_else(PoisonError::into_inner);
            job.end = *end;
            job.partitions.iter_mut().for_each(Vec::clear);
            for number in due {
                job.partitions[self.partition_of[number as usize]].push(number);
            }
        }
        pool.claimed.iter().for_each(|claims| claims.store(0, Ordering::Relaxed));
        pool.events.store(0, Ordering::Relaxed);
        if shared {
            pool.working.store(self.workers.len(), Ordering::Release);
            pool.epoch.fetch_add(1, Ordering::Release);
            self.workers.iter().for_each(Thread::unpark);
        }
        // Before `run_partition`, which holds the lock of `Network::buffers` that `concurrently` takes too.
        concurrently();
        pool.run_partition(0, &mut pool.network.buffers());
        let mut spins = 0;
        while shared && pool.working.load(Ordering::Acquire) > 0 {
            spin_then_park(&mut spins);
        }
        assert!(!pool.panicked.load(Ordering::Acquire), "a worker thread panicked");
        self.last_events = pool.events.load(Ordering::Relaxed);
        self.last_events
    }
}

impl Drop for Coordinator<'_, '_> {
    fn drop(&mut self) {
        self.pool.shutdown.store(true, Ordering::Release);
        self.pool.epoch.fetch_add(1, Ordering::Release);
        for thread in &self.workers {
            thread.unpark();
            self.pool.cores.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::partition_by_events;

    #[test]
    fn each_thread_gets_as_much_work() {
        let partition = |counts: &[u64], threads| partition_by_events(counts, threads).collect::<Vec<_>>();
        assert_eq!(partition(&[0; 6], 3), [0, 0, 1, 1, 2, 2]);
        assert_eq!(partition(&[90, 10, 10, 10, 10, 10, 10, 10, 10, 10], 2), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(partition(&[10, 10, 10, 900, 10], 4), [0, 0, 0, 2, 3]);
        assert_eq!(partition(&[7], 8), [4]);
    }
}
