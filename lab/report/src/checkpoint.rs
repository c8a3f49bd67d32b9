//! Writes checkpoints of a running experiment to `x.partial`, so that a killed run loses only the time since the last
//! one.

use super::describe::RunDescription;
use super::dir::{DirError, OpenRun, RunDir};
use super::run_files;
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
/// After a checkpoint that took t, the next is due after max(`MIN_CHECKPOINT_INTERVAL`, 25 t), so that checkpoints take
/// less than 1/25 (4 %) of the time.
const MAX_OVERHEAD_DIVISOR: u32 = 25;

/// A run directory with periodic checkpoints.
pub struct CheckpointWriter<'a> {
    open_run: OpenRun,
    description: &'a RunDescription,
    header: RunHeader,
    started_at: Instant,
    /// The latest snapshot of each scheme.
    snapshots: BTreeMap<usize, SchemeSnapshot>,
    first_due: Instant,
    /// Time of the last checkpoint of each scheme; several schemes may run concurrently.
    last_checkpoints: BTreeMap<usize, Instant>,
    /// Minimum time between checkpoints of a scheme.
    interval: Duration,
}

impl<'a> CheckpointWriter<'a> {
    /// Opens the directory and writes the description of the run there.
    ///
    /// # Errors
    ///
    /// Those of [`RunDir::open`] and [`OpenRun::checkpoint`].
    pub fn new(
        run_dir: RunDir,
        description: &'a RunDescription,
        experiment: &Experiment,
    ) -> Result<CheckpointWriter<'a>, DirError> {
        let (started_at, open_run) = (Instant::now(), run_dir.open()?);
        let (name, seed) = (experiment.spec.name.clone(), experiment.spec.seed);
        let header = RunHeader { experiment: name, seed, wall_s: 0.0, partial: true };
        let (snapshots, last_checkpoints) = (BTreeMap::new(), BTreeMap::new());
        let mut writer = CheckpointWriter {
            open_run,
            description,
            header,
            started_at,
            snapshots,
            first_due: started_at + FIRST_CHECKPOINT,
            last_checkpoints,
            interval: MIN_CHECKPOINT_INTERVAL,
        };
        writer.write()?;
        Ok(writer)
    }

    /// Returns the partial directory.
    pub fn partial(&self) -> &Path {
        self.open_run.partial()
    }

    /// Returns whether a checkpoint of scheme `index` is due.
    pub fn is_due(&self, index: usize) -> bool {
        let now = Instant::now();
        now >= self.first_due
            && self.last_checkpoints.get(&index).is_none_or(|last| now >= *last + self.interval)
    }

    /// Writes a checkpoint in which `snapshot` replaces the earlier results of its scheme.
    pub fn checkpoint(&mut self, snapshot: SchemeSnapshot) {
        let now = Instant::now();
        self.last_checkpoints.insert(snapshot.index, now);
        self.snapshots.insert(snapshot.index, snapshot);
        // An error here would also occur at the end of the run, where it is reported.
        let _ = self.write();
        self.interval = MIN_CHECKPOINT_INTERVAL.max(now.elapsed() * MAX_OVERHEAD_DIVISOR);
    }

    fn write(&mut self) -> Result<(), DirError> {
        let header = RunHeader { wall_s: self.started_at.elapsed().as_secs_f64(), ..self.header.clone() };
        let results = Results::from_parts(header, self.snapshots.values().cloned());
        self.open_run.checkpoint(|dir| run_files::write(dir, self.description, &results))
    }

    /// Replaces the checkpoint by the final results. `write_more` adds files to them.
    ///
    /// # Errors
    ///
    /// Those of [`OpenRun::finish`].
    pub fn finish(
        mut self,
        results: &Results,
        description: &RunDescription,
        write_more: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<PathBuf, DirError> {
        // Snapshots may be large, and the final results contain them.
        drop(mem::take(&mut self.snapshots));
        self.open_run.finish(|dir| {
            run_files::write(dir, description, results)?;
            write_more(dir)
        })
    }

    /// Writes the incomplete `results` to the partial directory, keeps it, and returns its path.
    ///
    /// # Errors
    ///
    /// Those of [`OpenRun::checkpoint`].
    pub fn keep_partial(mut self, results: &Results) -> Result<PathBuf, DirError> {
        self.open_run.checkpoint(|dir| run_files::write(dir, self.description, results))?;
        Ok(self.open_run.keep_partial())
    }

    /// Removes the partial directory, for runs without results.
    pub fn discard(self) {
        self.open_run.discard();
    }
}

/// Forwards progress to another observer, and results so far to a [`CheckpointWriter`].
pub struct CheckpointingObserver<'a, O> {
    /// The other observer. It may interrupt the run and request snapshots of its own.
    pub inner: O,
    pub checkpoints: CheckpointWriter<'a>,
}

impl<O: Observer> Observer for CheckpointingObserver<'_, O> {
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        self.inner.progress(progress)
    }
    fn wants_snapshot(&mut self, index: usize) -> bool {
        self.inner.wants_snapshot(index) || self.checkpoints.is_due(index)
    }
    fn snapshot(&mut self, snapshot: SchemeSnapshot) {
        if self.checkpoints.is_due(snapshot.index) {
            self.checkpoints.checkpoint(snapshot.clone());
        }
        self.inner.snapshot(snapshot);
    }
    fn link_change(&mut self) -> Option<LinkChange> {
        self.inner.link_change()
    }
    fn paused(&self) -> Duration {
        self.inner.paused()
    }
}
