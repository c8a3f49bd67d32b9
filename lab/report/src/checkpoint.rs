//! Writes checkpoints of a running experiment to `x.partial`, so that a killed run loses only the time since the last one.

use super::{DirError, RunDescription, RunDir, dir::OpenRun};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, mem};
use weir_experiment::results::{Results, RunHeader, SchemeSnapshot};
use weir_experiment::{Experiment, LinkChange, Observer, Progress};

/// Time of the first checkpoint; shorter runs write none.
const FIRST_CHECKPOINT: Duration = Duration::from_secs(1);
/// Minimum interval between checkpoints of a scheme.
const MIN_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);
/// After a checkpoint that took t, the next is due after max(`MIN_CHECKPOINT_INTERVAL`, 25 t), so the overhead is below 4 %.
const MAX_OVERHEAD_DIVISOR: u32 = 25;

/// A run directory with periodic checkpoints.
pub struct CheckpointWriter<'a> {
    open: OpenRun,
    run: &'a RunDescription,
    heading: RunHeader,
    began: Instant,
    parts: BTreeMap<usize, SchemeSnapshot>,
    due: Instant,
    /// Time of the next checkpoint by scheme; several schemes may run concurrently.
    asked: BTreeMap<usize, Instant>,
    pause: Duration,
}

impl<'a> CheckpointWriter<'a> {
    /// Opens the directory and writes the description of the run there.
    ///
    /// # Errors
    ///
    /// Those of [`RunDir::open`] and [`OpenRun::keep`].
    pub fn new(
        place: RunDir,
        run: &'a RunDescription,
        experiment: &Experiment,
    ) -> Result<CheckpointWriter<'a>, DirError> {
        let (began, open) = (Instant::now(), place.open()?);
        let (name, seed) = (experiment.spec.name.clone(), experiment.spec.seed);
        let heading = RunHeader { experiment: name, seed, wall_s: 0.0, partial: true };
        let (parts, asked) = (BTreeMap::new(), BTreeMap::new());
        let mut keeper = CheckpointWriter {
            open,
            run,
            heading,
            began,
            parts,
            due: began + FIRST_CHECKPOINT,
            asked,
            pause: MIN_CHECKPOINT_INTERVAL,
        };
        keeper.write()?;
        Ok(keeper)
    }

    /// Returns the partial directory.
    pub fn partial(&self) -> &Path {
        self.open.partial()
    }

    /// Returns whether a checkpoint of scheme `index` is due.
    pub fn is_due(&self, index: usize) -> bool {
        let now = Instant::now();
        now >= self.due && self.asked.get(&index).is_none_or(|asked| now >= *asked + self.pause)
    }

    /// Writes a checkpoint with the results so far of a scheme.
    pub fn checkpoint(&mut self, part: SchemeSnapshot) {
        let now = Instant::now();
        self.asked.insert(part.index, now);
        self.parts.insert(part.index, part);
        // An error here would also occur at the end of the run, where it is reported.
        let _ = self.write();
        self.pause = MIN_CHECKPOINT_INTERVAL.max(now.elapsed() * MAX_OVERHEAD_DIVISOR);
    }

    fn write(&mut self) -> Result<(), DirError> {
        let heading = RunHeader { wall_s: self.began.elapsed().as_secs_f64(), ..self.heading.clone() };
        let results = Results::from_parts(heading, self.parts.values().cloned());
        self.open.keep(|dir| super::write(dir, self.run, &results))
    }

    /// Replaces the checkpoint by the final results and the files of `more`.
    ///
    /// # Errors
    ///
    /// Those of [`OpenRun::finish`].
    pub fn finish(
        mut self,
        results: &Results,
        run: &RunDescription,
        more: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<PathBuf, DirError> {
        drop(mem::take(&mut self.parts));
        self.open.finish(|dir| {
            super::write(dir, run, results)?;
            more(dir)
        })
    }

    /// Writes the incomplete `results` to the partial directory, keeps it, and returns its path.
    ///
    /// # Errors
    ///
    /// Those of [`OpenRun::keep`].
    pub fn leave(mut self, results: &Results) -> Result<PathBuf, DirError> {
        self.open.keep(|dir| super::write(dir, self.run, results))?;
        Ok(self.open.leave())
    }

    /// Removes the partial directory, for runs without results.
    pub fn discard(self) {
        self.open.discard();
    }
}

/// Forwards progress to another observer, and results so far to a [`CheckpointWriter`].
pub struct CheckpointingObserver<'a, O> {
    /// The other observer. It may interrupt the run and request snapshots of its own.
    pub watch: O,
    pub keeper: CheckpointWriter<'a>,
}

impl<O: Observer> Observer for CheckpointingObserver<'_, O> {
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        self.watch.progress(progress)
    }
    fn wants_snapshot(&mut self, index: usize) -> bool {
        self.watch.wants_snapshot(index) || self.keeper.is_due(index)
    }
    fn snapshot(&mut self, part: SchemeSnapshot) {
        if self.keeper.is_due(part.index) {
            self.keeper.checkpoint(part.clone());
        }
        self.watch.snapshot(part);
    }
    fn link_change(&mut self) -> Option<LinkChange> {
        self.watch.link_change()
    }
}
