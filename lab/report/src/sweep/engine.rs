//! Engines that execute the runs of a sweep, on this machine ([`Pool`](super::pool::Pool)) or on others.

use super::task::{RunResult, RunTask};
use crate::describe::RunDescription;
use crate::manifest::IntegrityError;
use weir_experiment::backend::Error;
use weir_experiment::results::Summary;

/// A run without complete results.
#[derive(Clone, Copy, Debug)]
pub struct PendingRun<'a> {
    /// Index of the run in the sweep, from 0.
    pub index: usize,
    pub task: &'a RunTask,
    pub description: &'a RunDescription,
}

impl PendingRun<'_> {
    /// Returns the results, if the directory has complete results of exactly this run.
    pub fn completed(&self) -> Option<Summary> {
        self.task.completed(self.description).ok().flatten()
    }

    /// Returns the outcome of a run on another machine, which may have failed with the reason `failure`.
    ///
    /// # Errors
    ///
    /// If the run has no results. The reason is `failure`, if there is one.
    pub fn outcome(&self, failure: Option<String>) -> TaskResult {
        let dir = self.task.dir.file_name().unwrap_or_default().to_string_lossy();
        match (self.completed(), failure) {
            (Some(summary), _) => Ok(Some(summary)),
            (None, Some(reason)) => Err(Error::Work(format!("{dir}: {reason}"))),
            (None, None) => Err(Error::Work(format!(
                "{dir}: finished without results of this experiment; check that the remote Weir has the same version"
            ))),
        }
    }
}

/// Outcome of a run; `None` if it was interrupted.
pub type TaskResult = Result<Option<Summary>, Error>;

/// Executes the runs of a sweep.
pub trait Engine {
    /// Executes these runs and returns the outcome of each, in the same order.
    ///
    /// # Errors
    ///
    /// If no run could be started.
    fn run(&self, pending: &[PendingRun<'_>]) -> Result<Vec<TaskResult>, Error>;
}

/// Executes with `engine` all tasks that are not done, or all tasks if `fresh`, and returns the outcome of each task
/// in order. `outcomes` are those that [`check`](super::pool::check) returned; `warn` is called with warnings.
///
/// # Errors
///
/// If no run could be started.
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
    let pending = pending_runs(tasks, &outcomes);
    let indices: Vec<usize> = pending.iter().map(|pending| pending.index).collect();
    let results = engine.run(&pending)?;
    for (index, result) in indices.into_iter().zip(results) {
        match result {
            Ok(summary) => outcomes[index].summary = summary,
            Err(failure) => outcomes[index].failure = Some(failure),
        }
    }
    Ok(outcomes)
}

/// Stores the results of tasks that were done before.
pub fn mark_completed(tasks: &[RunTask], outcomes: &mut [RunResult], warn: fn(&str)) {
    for (task, outcome) in tasks.iter().zip(outcomes) {
        outcome.summary =
            task.completed(&outcome.description).unwrap_or_else(|IntegrityError { file, reason }| {
                warn(&format!("{} {reason}; repeating this run", file.display()));
                None
            });
        outcome.is_cached = outcome.summary.is_some();
    }
}

/// Returns the runs without results.
pub fn pending_runs<'a>(tasks: &'a [RunTask], outcomes: &'a [RunResult]) -> Vec<PendingRun<'a>> {
    let all = tasks.iter().zip(outcomes).enumerate();
    let pending = all.filter(|(_, (_, outcome))| outcome.summary.is_none());
    pending
        .map(|(index, (task, outcome))| PendingRun { index, task, description: &outcome.description })
        .collect()
}
