//! Progress reports of a run, and the reasons why it may fail.

use crate::events::MAX_INDEX;
use crate::results::Part;
use std::ops::ControlFlow;
use weir_units::Time;

/// A reason why a checked experiment cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A program does not load.
    #[error("{0}")]
    Artifact(String),
    /// There are no routes.
    #[error("topology: {0}")]
    Routes(String),
    /// The routes do not fit the program.
    #[error("plan: {0}")]
    Plan(String),
    /// A switch refuses its configuration.
    #[error("switch {name}: {why}")]
    Switch {
        /// The scheme.
        name: String,
        /// The reason.
        why: String,
    },
    /// A host refuses its configuration.
    #[error("host {name}: {why}")]
    Host {
        /// The scheme.
        name: String,
        /// The reason.
        why: String,
    },
    /// The fabric is larger than an event can name.
    #[error("topology: {0} links and hosts are more than this simulator can name, {MAX_INDEX}")]
    TooLarge(usize),
}

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// The scheme that runs.
    pub scheme: &'a str,
    /// Index of the scheme, from 0.
    pub index: usize,
    /// Of how many.
    pub of: usize,
    /// Virtual time reached.
    pub now: Time,
    /// Virtual time to reach.
    pub end: Time,
    /// Packet-hops of this scheme so far.
    pub packet_hops: u64,
}

/// Observes a run and may interrupt it; results up to that time are still reported.
pub trait Observer {
    /// Called every so often.
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()>;

    /// Returns whether it wants to keep what scheme number `index` has come to by now; asked as often, and at the
    /// scheme's end.
    fn keeps(&mut self, _index: usize) -> bool {
        false
    }

    /// Keeps it.
    fn keep(&mut self, _part: Part) {}
}

/// Watches nothing.
impl Observer for () {
    fn progress(&mut self, _: &Progress<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
