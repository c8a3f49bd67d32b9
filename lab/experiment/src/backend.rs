//! The interface between experiments and the engines that run them: a [`Backend`] runs an experiment and returns a
//! [`RunOutcome`]; an [`Observer`] follows its progress and may stop it.

#![warn(missing_docs)]

use crate::Experiment;
use crate::results::{Results, SchemeSnapshot};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weir_controller::topology::LinkIx;
use weir_units::Time;

/// An engine that runs experiments, such as the simulator or Mininet.
pub trait Backend {
    /// Performs the checks that [`run`](Self::run) performs before the first event of each scheme, as far as they do not depend on
    /// the machine.
    ///
    /// # Errors
    ///
    /// If [`run`](Self::run) would reject the experiment.
    fn check(&self, experiment: &Experiment) -> Result<(), Error>;

    /// Runs all schemes of `experiment`, each on its own copy of the fabric, with the same flows and the same seed.
    ///
    /// # Errors
    ///
    /// If no scheme produced results. If a later scheme fails, the results so far are returned, with the error in
    /// [`RunOutcome::failure`].
    fn run(&self, experiment: &Experiment, observer: &mut dyn Observer) -> Result<RunOutcome, Error>;
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// Measurements; incomplete if the run was interrupted or failed.
    pub results: Results,
    /// Measurements that only a network of real interfaces has, such as ping RTTs; `None` for a simulation.
    pub fabric: Option<FabricReport>,
    /// The error that ended the run early; `None` if the run completed or was interrupted.
    pub failure: Option<Error>,
}

/// Measurements that only a network of real interfaces has, such as ping RTTs, in addition to the results.
#[derive(Clone, Debug, Default)]
pub struct FabricReport {
    /// The content of `fabric.json`.
    pub json: serde_json::Value,
    /// Names and values for the heading of the report.
    pub heading: Vec<(String, String)>,
    /// Sentences to print at the end of the run.
    pub lines: Vec<String>,
    /// What makes measurements doubtful.
    pub warnings: Vec<String>,
}

/// The reason why an experiment was not run, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The experiment is invalid, or this machine lacks something that it requires.
    #[error("{0}")]
    Input(String),
    /// The experiment is valid, but the run failed.
    #[error("{0}")]
    Work(String),
}

impl Error {
    /// Returns an error about the input; the command exits with status 2.
    pub fn input(reason: impl std::fmt::Display) -> Error {
        Error::Input(reason.to_string())
    }

    /// Returns the error of a failed run; the command exits with status 1.
    pub fn work(reason: impl std::fmt::Display) -> Error {
        Error::Work(reason.to_string())
    }

    /// Returns the error of a thread that the system does not start, for lack of memory or because of a limit.
    pub fn thread(error: &std::io::Error) -> Error {
        Error::Work(format!(
            "cannot start a thread: {error}; raise the limits of processes and memory (ulimit -u, ulimit -v, the cgroup)"
        ))
    }

    /// Prefixes the message with `location` and a colon.
    #[must_use]
    pub fn at(self, location: impl std::fmt::Display) -> Error {
        match self {
            Error::Input(reason) => Error::Input(format!("{location}: {reason}")),
            Error::Work(reason) => Error::Work(format!("{location}: {reason}")),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::work(error)
    }
}

/// A counting semaphore of CPU cores, shared by nested thread pools: runs of a sweep, schemes of a run, threads of a scheme.
/// The thread that creates the pool holds one core.
#[derive(Debug)]
pub struct CorePool {
    total: usize,
    free: AtomicUsize,
}

impl CorePool {
    /// Creates a pool of `total` cores, at least one. The calling thread holds one of them.
    pub fn new(total: usize) -> CorePool {
        let total = total.max(1);
        CorePool { total, free: AtomicUsize::new(total - 1) }
    }

    /// Returns the number of cores, including the acquired ones.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Acquires a core for one more thread; returns false if none is free. Never blocks.
    pub fn try_acquire(&self) -> bool {
        let decrement = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, decrement).is_ok()
    }

    /// Releases a core acquired by [`try_acquire`](Self::try_acquire).
    pub fn release(&self) {
        self.free.fetch_add(1, Ordering::AcqRel);
    }

    /// Called by each of several workers whose caller blocks until all are done. The first worker uses the caller's core;
    /// each further one needs a free core and gets `None` if there is none. `working` counts the workers that hold a core.
    pub fn try_share<'a>(&'a self, working: &'a AtomicUsize) -> Option<CoreLease<'a>> {
        // The first worker needs no free core, because the blocked caller does not use its own. Without this rule a pool
        // of one core would deadlock.
        if working.fetch_add(1, Ordering::AcqRel) == 0 || self.try_acquire() {
            return Some(CoreLease { cores: self, working });
        }
        working.fetch_sub(1, Ordering::AcqRel);
        None
    }
}

/// RAII guard of [`CorePool::try_share`]. Dropping it releases the core, except for the last worker, whose core passes back
/// to the blocked caller.
#[derive(Debug)]
pub struct CoreLease<'a> {
    cores: &'a CorePool,
    working: &'a AtomicUsize,
}

impl Drop for CoreLease<'_> {
    fn drop(&mut self) {
        if self.working.fetch_sub(1, Ordering::AcqRel) > 1 {
            self.cores.release();
        }
    }
}

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Label of the running scheme.
    pub scheme: &'a str,
    /// Index of the scheme in the experiment, from 0.
    pub index: usize,
    /// Number of schemes in the experiment.
    pub scheme_count: usize,
    /// Time reached, in the time of the experiment.
    pub now: Time,
    /// Duration of the experiment.
    pub end: Time,
    /// Packet-hops of this scheme so far; 0 if the backend counts them only at the end.
    pub packet_hops: u64,
}

/// A link that an observer sets up or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The link.
    pub link: LinkIx,
    /// The new state of the link.
    pub is_up: bool,
}

/// Observes a run and may interrupt it; results up to that time are still reported.
pub trait Observer {
    /// Called periodically while a scheme runs, and at its end. Return `Break` to interrupt the run.
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()>;

    /// Returns whether the backend should pass a snapshot of scheme `index` to [`snapshot`](Self::snapshot) now. Called
    /// whenever progress is reported, and at the end of each scheme. Building a snapshot is expensive, so the default is
    /// false.
    fn wants_snapshot(&mut self, _index: usize) -> bool {
        false
    }

    /// Called with the results so far of one scheme, after [`wants_snapshot`](Self::wants_snapshot) returned true.
    fn snapshot(&mut self, _snapshot: SchemeSnapshot) {}

    /// Returns a link to set up or down now. Called repeatedly until it returns `None`, whenever progress is reported; only
    /// in virtual time, and only if schemes run one after the other.
    fn link_change(&mut self) -> Option<LinkChange> {
        None
    }

    /// Returns for how long the observer has blocked the run so far because a user paused it. Not counted as wall time of
    /// the run.
    fn paused(&self) -> Duration {
        Duration::ZERO
    }
}

/// Ignores progress and never stops the run.
impl Observer for () {
    fn progress(&mut self, _: &Progress<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_and_released() {
        let (cores, working) = (CorePool::new(3), AtomicUsize::new(0));
        let leases: Vec<CoreLease<'_>> = (0..4).map_while(|_| cores.try_share(&working)).collect();
        assert_eq!((leases.len(), cores.try_acquire()), (3, false));
        drop(leases);
        // The caller continues on its own core, and the two others are free.
        assert_eq!([(); 3].map(|()| cores.try_acquire()), [true, true, false]);
        assert!(!CorePool::new(0).try_acquire());
    }
}
