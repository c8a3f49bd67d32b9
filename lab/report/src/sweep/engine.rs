//! Engines that execute the runs of a sweep: the cores of this machine ([`Pool`](super::pool::Pool)), or other
//! machines.

use super::pool::{Outcome, Task};
use crate::Run;
use crate::manifest::Damage;
use weir_experiment::backend::Error;
use weir_experiment::results::Summary;

/// A run that is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Open<'a> {
    /// Its number in the sweep, from 0.
    pub number: usize,
    /// The experiment and the directory.
    pub task: &'a Task,
    /// Description of it.
    pub run: &'a Run,
}

impl Open<'_> {
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
            (None, Some(why)) => Err(Error::Work(format!("{dir}: {why}"))),
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
    fn run(&self, open: &[Open<'_>]) -> Result<Vec<TaskResult>, Error>;
}

/// Has `engine` do all tasks that are not done, or all of them if `fresh`, and returns the outcome of each, in their
/// order. `outcomes` are those of [`check`](super::pool::check), `warn` takes warnings.
///
/// # Errors
///
/// If no run could begin.
pub fn run(
    engine: &dyn Engine,
    tasks: &[Task],
    mut outcomes: Vec<Outcome>,
    fresh: bool,
    warn: fn(&str),
) -> Result<Vec<Outcome>, Error> {
    if !fresh {
        look(tasks, &mut outcomes, warn);
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
pub fn look(tasks: &[Task], outcomes: &mut [Outcome], warn: fn(&str)) {
    for (task, outcome) in tasks.iter().zip(outcomes) {
        outcome.summary = task.done(&outcome.run).unwrap_or_else(|Damage { file, why }| {
            warn(&format!("{} {why}; this run is done again", file.display()));
            None
        });
        outcome.kept = outcome.summary.is_some();
    }
}

/// Returns the tasks that are not done.
pub fn open<'a>(tasks: &'a [Task], outcomes: &'a [Outcome]) -> Vec<Open<'a>> {
    let all = tasks.iter().zip(outcomes).enumerate();
    let open = all.filter(|(_, (_, outcome))| outcome.summary.is_none());
    open.map(|(number, (task, outcome))| Open { number, task, run: &outcome.run }).collect()
}
