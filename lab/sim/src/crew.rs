//! The threads of a run: they share the processes of a window.
//!
//! The run's own thread says which processes are due and up to what; all threads take processes until none is left. Each
//! begins with those that it had before, whose tables are in its cache, and then helps the others. Those that it begins with
//! are neighbours, and as much work as those of the others: both a frame and a process's state cost time when another core
//! has written them. A thread that waits spins for a moment and then sleeps, so that a core that is wanted by somebody else
//! is not kept busy by waiting.

use crate::events::Key;
use crate::forecast::{Forecast, processor_time};
use crate::network::{Network, lock};
use crate::worker::Worker;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread::{self, Scope, Thread};
use weir_experiment::backend::Cores;

/// Looks at a flag before a thread sleeps: some tenths of a millisecond, as long as it takes to sample a large fabric.
const SPINS: u32 = 10_000;

/// Unit of the processes that a thread takes of another one's share.
const BY_OTHERS: u64 = 1 << 32;
/// Windows after which processes are divided anew among threads.
const DIVIDED_FOR: u64 = 256;

/// The processes of a window.
struct Window {
    end: Key,
    /// For each thread those that it begins with.
    shares: Vec<Vec<u32>>,
}

/// The state that the threads of a run share.
pub(crate) struct Crew<'n> {
    network: &'n Network,
    cores: &'n Cores,
    /// Events of the last window below which the run's own thread does the next one alone.
    share_from: u64,
    window: RwLock<Window>,
    /// For each thread how many of its share it has taken, and how many others have, times [`BY_OTHERS`].
    taken: Vec<AtomicU64>,
    /// Number of the window.
    number: AtomicUsize,
    /// Threads that have not finished the window.
    working: AtomicUsize,
    events: AtomicU64,
    over: AtomicBool,
    failed: AtomicBool,
    leader: Thread,
}

/// The side of the run's own thread.
pub(crate) struct Leader<'c, 'n> {
    crew: &'c Crew<'n>,
    others: Vec<Thread>,
    /// Events of the last window.
    last: u64,
    /// The thread of each process, for the present number of threads.
    part: Vec<usize>,
    divided: Divided,
    /// Measures each process, on one thread, if somebody wants to know.
    forecast: Option<&'c Mutex<Forecast>>,
}

/// The last time at which processes were divided among threads.
#[derive(Default)]
struct Divided {
    /// For how many.
    threads: usize,
    /// Windows since then.
    windows: u64,
    /// Windows after which it is time to do it again.
    until: u64,
}

impl<'n> Crew<'n> {
    /// A crew for `network` that takes threads as `cores` has them, for windows that have `share_from` events.
    pub fn new(network: &'n Network, cores: &'n Cores, share_from: u64) -> Crew<'n> {
        let most = cores.total().min(network.len());
        Crew {
            network,
            cores,
            share_from,
            window: RwLock::new(Window {
                end: Key::start_of(weir_units::Time::ZERO),
                shares: vec![Vec::new(); most],
            }),
            taken: (0..most).map(|_| AtomicU64::new(0)).collect(),
            number: AtomicUsize::new(0),
            working: AtomicUsize::new(0),
            events: AtomicU64::new(0),
            over: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            leader: thread::current(),
        }
    }

    /// Takes processes until none is left: first of its own share, then of the others'.
    fn work(&self, me: usize, worker: &mut Worker) {
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        let threads = window.shares.len();
        let mut events = 0;
        for of in (me..threads).chain(0..me) {
            let share = &window.shares[of];
            while let Some(place) = self.take(of, share.len(), of == me) {
                let next = if of == me { Some(place + 1) } else { place.checked_sub(1) };
                if let Some(&next) = next.and_then(|next| share.get(next)) {
                    self.network.prefetch(next);
                }
                events += self.network.run(share[place], &window.end, worker);
            }
        }
        self.events.fetch_add(events, Ordering::Relaxed);
    }

    /// Takes a process of a share of this length: the thread that has the share from its beginning, the others from its end,
    /// so that they seldom run neighbours at the same time.
    fn take(&self, of: usize, len: usize, own: bool) -> Option<usize> {
        let taken = self.taken[of].fetch_add(if own { 1 } else { BY_OTHERS }, Ordering::Relaxed);
        let (own_taken, others) = ((taken % BY_OTHERS) as usize, (taken / BY_OTHERS) as usize);
        (own_taken + others < len).then(|| if own { own_taken } else { len - 1 - others })
    }

    /// Works until the run is over, from the window after number `seen` on.
    fn serve(&self, me: usize, mut seen: usize) {
        let mut worker = Worker::default();
        loop {
            let mut spins = 0;
            while self.number.load(Ordering::Acquire) == seen {
                wait(&mut spins);
            }
            if self.over.load(Ordering::Acquire) {
                return;
            }
            seen = self.number.load(Ordering::Acquire);
            let _done = Done(self);
            self.work(me, &mut worker);
        }
    }
}

/// Returns the thread of each process: those of a thread follow each other, and all threads have as much work.
fn parts(work: &[u64], threads: usize) -> impl Iterator<Item = usize> {
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
fn wait(spins: &mut u32) {
    if *spins < SPINS {
        *spins += 1;
        spin_loop();
    } else {
        thread::park();
    }
}

/// A thread has done its part of the window, or panicked.
struct Done<'c, 'n>(&'c Crew<'n>);

impl Drop for Done<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.failed.store(true, Ordering::Release);
        }
        if self.0.working.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.leader.unpark();
        }
    }
}

impl<'c, 'n> Leader<'c, 'n> {
    /// The leader of this crew, alone at first.
    pub fn new(crew: &'c Crew<'n>, forecast: Option<&'c Mutex<Forecast>>) -> Leader<'c, 'n> {
        let part = vec![0; crew.network.len()];
        Leader { crew, others: Vec::new(), last: 0, part, divided: Divided::default(), forecast }
    }

    /// Runs a window on this thread, and measures each process.
    fn measure(&mut self, forecast: &Mutex<Forecast>, end: &Key, due: impl Iterator<Item = u32>) -> u64 {
        let (network, mut events, mut work) = (self.crew.network, 0, Vec::new());
        let mut last = processor_time();
        for number in due {
            events += network.run(number, end, &mut network.worker());
            let now = processor_time();
            work.push((now - last).as_nanos() as u64);
            last = now;
        }
        let mut forecast = lock(forecast);
        forecast.window(&work);
        forecast.leave_out(processor_time() - last);
        events
    }

    /// Divides the processes among threads: as many events as there were lately for each.
    fn divide(&mut self, threads: usize) {
        let last = &mut self.divided;
        last.windows += 1;
        let anew = last.threads != threads;
        if !anew && (threads == 1 || last.windows < last.until) {
            return;
        }
        // Soon after a change it is known better what is to do.
        let until = if anew { 4 } else { DIVIDED_FOR.min(2 * last.until) };
        *last = Divided { threads, windows: 0, until };
        let network = self.crew.network;
        for side in network.sides() {
            let work: Vec<u64> = side.iter().map(|&number| network.take_work(number)).collect();
            for (&number, part) in side.iter().zip(parts(&work, threads)) {
                self.part[number as usize] = part;
            }
        }
    }

    /// Takes one more thread if there is a core for it and work.
    pub fn grow<'scope>(&mut self, scope: &'scope Scope<'scope, '_>)
    where
        'c: 'scope,
        'n: 'scope,
    {
        let crew = self.crew;
        let me = self.others.len() + 1;
        if self.forecast.is_some()
            || self.last < crew.share_from
            || me >= crew.taken.len()
            || !crew.cores.take()
        {
            return;
        }
        let seen = crew.number.load(Ordering::Relaxed);
        self.others.push(scope.spawn(move || crew.serve(me, seen)).thread().clone());
    }

    /// Runs a window: these processes, which must be all that have events before `end`. `meanwhile` is what the run itself
    /// has to do at the same time. Returns the number of events.
    pub fn run(&mut self, end: &Key, due: impl Iterator<Item = u32>, meanwhile: impl FnOnce()) -> u64 {
        if let Some(forecast) = self.forecast {
            meanwhile();
            return self.measure(forecast, end, due);
        }
        let crew = self.crew;
        let shared = !self.others.is_empty() && self.last >= crew.share_from;
        let threads = if shared { self.others.len() + 1 } else { 1 };
        self.divide(threads);
        {
            let mut window = crew.window.write().unwrap_or_else(PoisonError::into_inner);
            window.end = *end;
            window.shares.iter_mut().for_each(Vec::clear);
            for number in due {
                window.shares[self.part[number as usize]].push(number);
            }
        }
        crew.taken.iter().for_each(|taken| taken.store(0, Ordering::Relaxed));
        crew.events.store(0, Ordering::Relaxed);
        if shared {
            crew.working.store(self.others.len(), Ordering::Release);
            crew.number.fetch_add(1, Ordering::Release);
            self.others.iter().for_each(Thread::unpark);
        }
        meanwhile();
        crew.work(0, &mut crew.network.worker());
        let mut spins = 0;
        while shared && crew.working.load(Ordering::Acquire) > 0 {
            wait(&mut spins);
        }
        assert!(!crew.failed.load(Ordering::Acquire), "a thread of the run has failed");
        self.last = crew.events.load(Ordering::Relaxed);
        self.last
    }
}

impl Drop for Leader<'_, '_> {
    fn drop(&mut self) {
        self.crew.over.store(true, Ordering::Release);
        self.crew.number.fetch_add(1, Ordering::Release);
        for thread in &self.others {
            thread.unpark();
            self.crew.cores.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn each_thread_gets_as_much_work() {
        let of = |work: &[u64], threads| parts(work, threads).collect::<Vec<_>>();
        assert_eq!(of(&[0; 6], 3), [0, 0, 1, 1, 2, 2]);
        assert_eq!(of(&[90, 10, 10, 10, 10, 10, 10, 10, 10, 10], 2), [0, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(of(&[10, 10, 10, 900, 10], 4), [0, 0, 0, 2, 3]);
        assert_eq!(of(&[7], 8), [4]);
    }
}
