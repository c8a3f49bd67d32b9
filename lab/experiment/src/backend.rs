//! A world in which experiments run: [`Backend`], what it comes to, and who watches it.

use crate::Experiment;
use crate::results::{Results, SchemeSnapshot};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use weir_controller::topology::LinkIx;
use weir_units::Time;

/// Runs experiments: virtual time and Mininet are two of them.
pub trait Backend {
    /// Does what [`run`](Self::run) does before the first event of each scheme, as far as that needs nothing of the machine.
    ///
    /// # Errors
    ///
    /// If a run would be refused.
    fn check(&self, experiment: &Experiment) -> Result<(), Error>;

    /// Runs all schemes of `experiment`, each on a fabric of its own, with the same flows and the same seed.
    ///
    /// # Errors
    ///
    /// If there are no results. A failure after the first scheme is the outcome's [`failure`](Outcome::failure).
    fn run(&self, experiment: &Experiment, observer: &mut dyn Observer) -> Result<RunOutcome, Error>;
}

/// The outcome of a run.
#[derive(Debug)]
pub struct RunOutcome {
    /// The measurements; up to its end, if the run was interrupted or failed.
    pub results: Results,
    /// Facts that only a fabric of real interfaces has.
    pub fabric: Option<FabricReport>,
    /// The reason why it ended early, other than an interruption.
    pub failure: Option<Error>,
}

/// Facts about a fabric of real interfaces, besides the results.
#[derive(Clone, Debug, Default)]
pub struct FabricReport {
    /// The content of `fabric.json`.
    pub facts: serde_json::Value,
    /// Those for the report's heading, as pairs of a word and its value.
    pub heading: Vec<(String, String)>,
    /// Those to print, as sentences.
    pub lines: Vec<String>,
}

/// A reason why an experiment cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The experiment, or what it needs on this machine, is wrong.
    #[error("{0}")]
    Input(String),
    /// The experiment is right, and running it failed.
    #[error("{0}")]
    Work(String),
}

impl Error {
    /// Wrong input.
    pub fn input(reason: impl std::fmt::Display) -> Error {
        Error::Input(reason.to_string())
    }

    /// Failed work.
    pub fn work(reason: impl std::fmt::Display) -> Error {
        Error::Work(reason.to_string())
    }

    /// Names the place before the message.
    #[must_use]
    pub fn at(self, place: impl std::fmt::Display) -> Error {
        match self {
            Error::Input(reason) => Error::Input(format!("{place}: {reason}")),
            Error::Work(reason) => Error::Work(format!("{place}: {reason}")),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::work(error)
    }
}

/// Cores that threads share: as many threads work at a time as there are cores. One that has nothing more to do gives its
/// core to the others.
#[derive(Debug)]
pub struct CorePool {
    total: usize,
    free: AtomicUsize,
}

impl CorePool {
    /// This number of cores, at least one. The caller's thread has one of them.
    pub fn new(total: usize) -> CorePool {
        let total = total.max(1);
        CorePool { total, free: AtomicUsize::new(total - 1) }
    }

    /// Number of cores.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Takes a core for one more thread, if one is free.
    pub fn try_acquire(&self) -> bool {
        let less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }

    /// Gives a thread's core back.
    pub fn release(&self) {
        self.free.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes a core for one of several threads that do a caller's work while the caller waits, if one is free: the first has
    /// the caller's. `working` is the number of these threads.
    pub fn try_share<'a>(&'a self, working: &'a AtomicUsize) -> Option<CoreLease<'a>> {
        if working.fetch_add(1, Ordering::AcqRel) == 0 || self.try_acquire() {
            return Some(CoreLease { cores: self, working });
        }
        working.fetch_sub(1, Ordering::AcqRel);
        None
    }
}

/// The core of a thread, until it has nothing more to do. That of the last one is the caller's again.
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
    /// The scheme that runs.
    pub scheme: &'a str,
    /// Index of the scheme, from 0.
    pub index: usize,
    /// Number of schemes.
    pub scheme_count: usize,
    /// Time reached, of the experiment.
    pub now: Time,
    /// Time to reach.
    pub end: Time,
    /// Packet-hops of this scheme so far; 0 if the backend counts them only at the end.
    pub packet_hops: u64,
}

/// A link that an observer takes down or up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The link.
    pub link: LinkIx,
    /// Up, or down.
    pub is_up: bool,
}

/// Observes a run and may interrupt it; results up to that time are still reported.
pub trait Observer {
    /// Called every so often.
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()>;

    /// Returns whether [`snapshot`](Self::keep) is to be called with what scheme number `index` has come to by now; asked
    /// as often as progress is reported, and at the scheme's end.
    fn wants_snapshot(&mut self, _index: usize) -> bool {
        false
    }

    /// Keeps the results of one scheme so far.
    fn snapshot(&mut self, _part: SchemeSnapshot) {}

    /// Returns a link to take down or up now, in virtual time and if schemes run one after the other; asked until there is
    /// none, as often as progress is reported.
    fn link_change(&mut self) -> Option<LinkChange> {
        None
    }
}

/// Observes nothing.
impl Observer for () {
    fn progress(&mut self, _: &Progress<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shared_and_come_back() {
        let (cores, working) = (CorePool::new(3), AtomicUsize::new(0));
        let shares: Vec<CoreLease<'_>> = (0..4).map_while(|_| cores.try_share(&working)).collect();
        assert_eq!((shares.len(), cores.try_acquire()), (3, false));
        drop(shares);
        // The caller goes on with one, and may use the two others.
        assert_eq!([(); 3].map(|()| cores.try_acquire()), [true, true, false]);
        assert!(!CorePool::new(0).try_acquire());
    }
}
