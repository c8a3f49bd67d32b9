//! The threads of a run: they share the processes of a window.
//!
//! The run's own thread says which processes are due and up to what; all threads take processes until none is left. Each
//! begins with those that it had before, whose tables are in its cache, and then helps the others. Those that it begins with
//! are neighbours, and as much work as those of the others: both a frame and a process's state cost time when another core
//! has written them. A thread that waits spins for a moment and then sleeps, so that a core that is wanted by somebody else
//! is not kept busy by waiting.

use crate::events::EventKey;
use crate::forecast::{ScalingForecast, thread_cpu_time};
use crate::network::{Network, lock};
use crate::thread_buffers::ThreadBuffers;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread::{self, Scope, Thread};
use weir_experiment::backend::CorePool;

/// Looks at a flag before a thread sleeps: some tenths of a millisecond, as long as it takes to sample a large fabric.
const SPINS_BEFORE_PARK: u32 = 10_000;

/// Unit of the processes that a thread takes of another one's share.
const STOLEN_UNIT: u64 = 1 << 32;
/// Windows after which processes are divided anew among threads.
const MAX_REBALANCE_INTERVAL: u64 = 256;

/// The processes of a window.
struct WindowJob {
    end: EventKey,
    /// For each thread those that it begins with.
    partitions: Vec<Vec<u32>>,
}

/// The state that the threads of a run share.
pub(crate) struct WorkerPool<'n> {
    network: &'n Network,
    cores: &'n CorePool,
    /// Events of the last window below which the run's own thread does the next one alone.
    parallel_threshold: u64,
    window: RwLock<WindowJob>,
    /// For each thread how many of its share it has taken, and how many others have, times [`STOLEN_UNIT`].
    claimed: Vec<AtomicU64>,
    /// Number of the window.
    epoch: AtomicUsize,
    /// Threads that have not finished the window.
    working: AtomicUsize,
    events: AtomicU64,
    shutdown: AtomicBool,
    panicked: AtomicBool,
    leader: Thread,
}

/// The side of the run's own thread.
pub(crate) struct Coordinator<'c, 'n> {
    crew: &'c WorkerPool<'n>,
    others: Vec<Thread>,
    /// Events of the last window.
    last: u64,
    /// The thread of each process, for the present number of threads.
    partition_of: Vec<usize>,
    divided: Rebalance,
    /// Measures each process, on one thread, if somebody wants to know.
    forecast: Option<&'c Mutex<ScalingForecast>>,
}

/// The last time at which processes were divided among threads.
#[derive(Default)]
struct Rebalance {
    /// For how many.
    threads: usize,
    /// Windows since then.
    windows: u64,
    /// Windows after which it is time to do it again.
    until: u64,
}

impl<'n> WorkerPool<'n> {
    /// A crew for `network` that takes threads as `cores` has them, for windows that have `parallel_threshold` events.
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

    /// Takes processes until none is left: first of its own share, then of the others'.
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

    /// Takes a process of a share of this length: the thread that has the share from its beginning, the others from its end,
    /// so that they seldom run neighbours at the same time.
    fn claim(&self, of: usize, len: usize, own: bool) -> Option<usize> {
        let taken = self.claimed[of].fetch_add(if own { 1 } else { STOLEN_UNIT }, Ordering::Relaxed);
        let (own_taken, others) = ((taken % STOLEN_UNIT) as usize, (taken / STOLEN_UNIT) as usize);
        (own_taken + others < len).then(|| if own { own_taken } else { len - 1 - others })
    }

    /// Works until the run is over, from the window after number `seen` on.
    fn worker_loop(&self, me: usize, mut seen: usize) {
        let mut worker = ThreadBuffers::default();
        loop {
            let mut spins = 0;
            while self.epoch.load(Ordering::Acquire) == seen {
                spin_then_park(&mut spins);
            }
            if self.shutdown.load(Ordering::Acquire) {
                return;
            }
            seen = self.epoch.load(Ordering::Acquire);
            let _done = CompletionGuard(self);
            self.run_partition(me, &mut worker);
        }
    }
}

/// Returns the thread of each process: those of a thread follow each other, and all threads have as much work.
fn partition_by_work(work: &[u64], threads: usize) -> impl Iterator<Item = usize> {
    // Each counts, also those that did nothing yet.
    let own = |work: &u64| work + 1;
    let (all, mut before) = (work.iter().map(own).sum::<u64>(), 0);
    work.iter().map(move |work| {
        let middle = before + own(work) / 2;
        before += own(work);
        middle as usize * threads / all as usize
    })
}

/// Spins for a moment, then sleeps until somebody calls.
fn spin_then_park(spins: &mut u32) {
    if *spins < SPINS_BEFORE_PARK {
        *spins += 1;
        spin_loop();
    } else {
        thread::park();
    }
}

/// A thread has done its part of the window, or panicked.
struct CompletionGuard<'c, 'n>(&'c WorkerPool<'n>);

impl Drop for CompletionGuard<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.panicked.store(true, Ordering::Release);
        }
        if self.0.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.leader.unpark();
        }
    }
}

impl<'c, 'n> Coordinator<'c, 'n> {
    /// The leader of this crew, alone at first.
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

    /// Runs a window on this thread, and measures each process.
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

    /// Divides the processes among threads: as many events as there were lately for each.
    fn rebalance(&mut self, threads: usize) {
        let last = &mut self.divided;
        last.windows += 1;
        let anew = last.threads != threads;
        if !anew && (threads == 1 || last.windows < last.until) {
            return;
        }
        // Soon after a change it is known better what is to do.
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

    /// Takes one more thread if there is a core for it and work.
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

    /// Runs a window: these processes, which must be all that have events before `end`. `meanwhile` is what the run itself
    /// has to do at the same time. Returns the number of events.
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
        concurrently();
        crew.run_partition(0, &mut crew.network.worker());
        let mut spins = 0;
        while shared && crew.working.load(Ordering::Acquire) > 0 {
            spin_then_park(&mut spins);
        }
        assert!(!crew.panicked.load(Ordering::Acquire), "a thread of the run has failed");
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
