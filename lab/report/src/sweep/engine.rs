//! Engines that execute the runs of a sweep: the cores of this machine ([`Pool`](super::pool::Pool)), or other
//! machines.

use super::pool::{RunResult, RunTask};
use crate::RunDescription;
use crate::manifest::IntegrityError;
use weir_experiment::backend::Error;
use weir_experiment::results::Summary;

/// A run that is to be done.
#[derive(Clone, Copy, Debug)]
pub struct PendingRun<'a> {
    /// Its number in the sweep, from 0.
    pub number: usize,
    /// The experiment and the directory.
    pub task: &'a RunTask,
    /// Description of it.
    pub run: &'a RunDescription,
}

impl PendingRun<'_> {
    /// Returns the results, if they are there, complete and of exactly this run.
    pub fn done(&self) -> Option<Summary> {
        self.task.done(self.run).ok().flatten()
    }

    /// Returns the outcome of a run that another machine did, or failed to do for this reason.
    ///
    /// # Errors
    ///
    /// The run has no results: `failure`, or the missing results if there is none.
    pub fn outcome(&self, failure: Option<String>) -> TaskResult {
        let dir = self.task.dir.file_name().unwrap_or_default().to_string_lossy();
        match (self.done(), failure) {
            (Some(summary), _) => Ok(Some(summary)),
            (None, Some(reason)) => Err(Error::Work(format!("{dir}: {reason}"))),
            (None, None) => Err(Error::Work(format!(
                "{dir}: it ended without the results of this experiment; does it run the same version of Weir there?"
            ))),
        }
    }
}

/// Outcome of a run: its numbers, or none if it was interrupted.
pub type TaskResult = Result<Option<Summary>, Error>;

/// Does runs.
pub trait Engine {
    /// Does these runs and returns the outcome of each, in their order.
    ///
    /// # Errors
    ///
    /// If none of them could begin.
    fn run(&self, open: &[PendingRun<'_>]) -> Result<Vec<TaskResult>, Error>;
}

/// Has `engine` do all tasks that are not done, or all of them if `fresh`, and returns the outcome of each, in their
/// order. `outcomes` are those of [`check`](super::pool::check), `warn` takes warnings.
///
/// # Errors
///
/// If no run could begin.
pub fn run(
    engine: &dyn Engine,
    tasks: &[RunTask],
    mut outcomes: Vec<RunResult>,
    fresh: bool,
    warn: fn(&str),
) -> Result<Vec<RunResult>, Error> {
    if !fresh {
        mark_completed(tasks, &mut outcomes, warn);
    }
    let open = open(tasks, &outcomes);
    let numbers: Vec<usize> = open.iter().map(|open| open.number).collect();
    let came = engine.run(&open)?;
    for (number, came) in numbers.into_iter().zip(came) {
        match came {
            Ok(summary) => outcomes[number].summary = summary,
            Err(failure) => outcomes[number].failure = Some(failure),
        }
    }
    Ok(outcomes)
}

/// Notes which tasks were done before.
pub fn mark_completed(tasks: &[RunTask], outcomes: &mut [RunResult], warn: fn(&str)) {
    for (task, outcome) in tasks.iter().zip(outcomes) {
        outcome.summary = task.done(&outcome.run).unwrap_or_else(|IntegrityError { file, reason: why }| {
            warn(&format!("{} {why}; this run is done again", file.display()));
            None
        });
        outcome.cached = outcome.summary.is_some();
    }
}

/// Returns the tasks that are not done.
pub fn open<'a>(tasks: &'a [RunTask], outcomes: &'a [RunResult]) -> Vec<PendingRun<'a>> {
    let all = tasks.iter().zip(outcomes).enumerate();
    let open = all.filter(|(_, (_, outcome))| outcome.summary.is_none());
    open.map(|(number, (task, outcome))| PendingRun { number, task, run: &outcome.run }).collect()
}
