//! Keeps what a run has come to while it goes, so that a run that is killed leaves its results until then.

use super::{DirError, RunDescription, RunDir, dir::OpenRun};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io, mem};
use weir_experiment::results::{Results, RunHeader, SchemeSnapshot};
use weir_experiment::{Experiment, LinkChange, Observer, Progress};

/// The first time; what is over before has nothing to lose.
const FIRST_CHECKPOINT: Duration = Duration::from_secs(1);
/// Not more often than this.
const MIN_CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);
/// At most 1/25 of the time may be spent on it.
const MAX_OVERHEAD_DIVISOR: u32 = 25;

/// A run directory that is brought up to date now and then.
pub struct CheckpointWriter<'a> {
    open: OpenRun,
    run: &'a RunDescription,
    heading: RunHeader,
    began: Instant,
    parts: BTreeMap<usize, SchemeSnapshot>,
    due: Instant,
    /// By scheme, as several may run at once.
    asked: BTreeMap<usize, Instant>,
    pause: Duration,
}

impl<'a> CheckpointWriter<'a> {
    /// Opens the directory and writes the description of the run there.
    ///
    /// # Errors
    ///
    /// As [`RunDir::open`] and [`OpenRun::checkpoint`].
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

    /// Returns the directory that holds what was kept until now.
    pub fn partial(&self) -> &Path {
        self.open.partial()
    }

    /// Returns whether it is time to look at scheme number `index` again.
    pub fn is_due(&self, index: usize) -> bool {
        let now = Instant::now();
        now >= self.due && self.asked.get(&index).is_none_or(|asked| now >= *asked + self.pause)
    }

    /// Takes what a scheme has come to.
    pub fn checkpoint(&mut self, part: SchemeSnapshot) {
        let now = Instant::now();
        self.asked.insert(part.index, now);
        self.parts.insert(part.index, part);
        // What cannot be written now cannot be at the end, where it is said.
        let _ = self.write();
        self.pause = MIN_CHECKPOINT_INTERVAL.max(now.elapsed() * MAX_OVERHEAD_DIVISOR);
    }

    fn write(&mut self) -> Result<(), DirError> {
        let heading = RunHeader { wall_s: self.began.elapsed().as_secs_f64(), ..self.heading.clone() };
        let results = Results::from_parts(heading, self.parts.values().cloned());
        self.open.keep(|dir| super::write(dir, self.run, &results))
    }

    /// Replaces the preliminary results by the final ones and the files of `more`.
    ///
    /// # Errors
    ///
    /// As [`OpenRun::finish`].
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

    /// Leaves the incomplete `results` in the partial directory, and returns its path.
    ///
    /// # Errors
    ///
    /// As [`OpenRun::checkpoint`].
    pub fn leave(mut self, results: &Results) -> Result<PathBuf, DirError> {
        self.open.keep(|dir| super::write(dir, self.run, results))?;
        Ok(self.open.leave())
    }

    /// There are no results: nothing stays.
    pub fn discard(self) {
        self.open.discard();
    }
}

/// Passes progress on to another observer, and gives the results so far to a keeper.
pub struct CheckpointingObserver<'a, O> {
    /// Gets the progress, and may interrupt the run; it may ask for results too.
    pub watch: O,
    /// Keeps the results.
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
