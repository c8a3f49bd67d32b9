//! Executes many runs on the cores of this machine, each with its own directory. Runs that are done are not repeated.

pub use super::task::{RunResult, RunTask, check};

use super::engine::{Engine, PendingRun, TaskResult};
use crate::checkpoint::{CheckpointWriter, CheckpointingObserver};
use crate::dir::RunDir;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use weir_experiment::backend::{Backend, CorePool, Error, Observer, Progress};

/// Steps of the progress bar per run.
const STEPS_PER_RUN: u64 = 1000;
/// Stack of worker threads, equal to the main thread's 8 MiB: route computation recurses over the fabric.
const STACK_BYTES: usize = 8 << 20;

/// Returns the number of available cores.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Executes tasks on the cores of this machine.
pub struct Pool {
    /// Creates the backend of a run, which shares these cores with other runs.
    pub backend: fn(Arc<CorePool>) -> Box<dyn Backend>,
    /// Returns true if no more runs should be started, and those in progress should be stopped.
    pub is_cancelled: fn() -> bool,
    /// Maximum number of concurrent runs; also limited by the number of cores.
    pub jobs: usize,
    /// Number of cores for all runs. Runs use several cores if there are fewer runs than cores.
    pub threads: usize,
    /// True if standard error is a terminal: show a progress bar.
    pub show_progress: bool,
    /// True: print the outcome of each run to standard error.
    pub verbose: bool,
}

impl Engine for Pool {
    fn run(&self, pending: &[PendingRun<'_>]) -> Result<Vec<TaskResult>, Error> {
        let bar = Bar::new(pending.len(), self.show_progress);
        let (cores, working) = (Arc::new(CorePool::new(self.threads)), AtomicUsize::new(0));
        let &Pool { is_cancelled, verbose, .. } = self;
        let (next_index, outcomes) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        thread::scope(|scope| {
            for started in 0..self.jobs.min(pending.len()) {
                let Some(lease) = cores.try_share(&working) else { break };
                let (next_index, outcomes, cores, bar) = (&next_index, &outcomes, &cores, &bar);
                let worker = move || {
                    // Held until the worker ends.
                    let _lease = lease;
                    loop {
                        let index = next_index.fetch_add(1, Ordering::SeqCst);
                        let (false, Some(PendingRun { task, .. })) = (is_cancelled(), pending.get(index))
                        else {
                            break;
                        };
                        let result = self.run_one(task, cores, bar, index);
                        if verbose {
                            bar.bar.suspend(|| log_outcome(task, &result));
                        }
                        let mut outcomes =
                            outcomes.lock().expect("no worker panics while it holds this lock");
                        outcomes.insert(index, result);
                    }
                };
                // If the system starts only some of the threads, these execute all runs.
                match thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, worker) {
                    Ok(_) => {}
                    Err(error) if started == 0 => return Err(Error::thread(&error)),
                    Err(_) => break,
                }
            }
            Ok(())
        })?;
        bar.bar.finish_and_clear();
        let mut outcomes = outcomes.into_inner().expect("no worker panics while it holds this lock");
        // A run without an outcome was not started, because the sweep was cancelled.
        Ok((0..pending.len()).map(|index| outcomes.remove(&index).unwrap_or(Ok(None))).collect())
    }
}

impl Pool {
    /// Executes one run; returns `None` if it was interrupted.
    fn run_one(&self, task: &RunTask, cores: &Arc<CorePool>, bar: &Bar, index: usize) -> TaskResult {
        let experiment = task.load()?;
        let description = task.extensions.describe(&experiment);
        let run_dir = RunDir::at(&task.dir).map_err(Error::input)?;
        let checkpoints = CheckpointWriter::new(run_dir, &description, &experiment)?;
        let inner = ProgressObserver { bar, index, is_cancelled: self.is_cancelled, shares: Vec::new() };
        let mut observer = CheckpointingObserver { inner, checkpoints };
        let outcome = (self.backend)(Arc::clone(cores)).run(&experiment, &mut observer);
        let CheckpointingObserver { checkpoints, .. } = observer;
        let results = match outcome {
            Ok(outcome) => outcome.results,
            Err(error) => {
                checkpoints.discard();
                let dir = task.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Err(error.at(dir));
            }
        };
        if results.summary.partial {
            checkpoints.keep_partial(&results).map_err(Error::work)?;
            return Ok(None);
        }
        checkpoints.finish(&results, &description, |_: &Path| Ok(())).map_err(Error::work)?;
        bar.update(index, STEPS_PER_RUN);
        Ok(Some(results.summary))
    }
}

/// Prints the outcome of a run to standard error.
fn log_outcome(task: &RunTask, result: &TaskResult) {
    let result = match result {
        Ok(Some(summary)) => format!("done in {:.2} s, digest {}", summary.wall_s, summary.digest),
        Ok(None) => "interrupted".to_owned(),
        Err(failure) => format!("failed: {failure}"),
    };
    // If standard error is closed, the error cannot be reported.
    let _ = writeln!(io::stderr(), "{}: {result}", task.dir.display());
}

/// The common progress bar of all runs.
struct Bar {
    bar: ProgressBar,
    /// Steps done so far, by task.
    steps: Mutex<BTreeMap<usize, u64>>,
    total: usize,
}

impl Bar {
    fn new(total: usize, is_shown: bool) -> Bar {
        let target =
            if is_shown && total > 0 { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{wide_msg} {bar:20} {percent:>3} %  {eta} left")
            .expect("the template is valid")
            .progress_chars("━━─");
        let bar = ProgressBar::with_draw_target(Some(total as u64 * STEPS_PER_RUN), target).with_style(style);
        Bar { bar, steps: Mutex::new(BTreeMap::new()), total }
    }

    fn update(&self, task: usize, steps: u64) {
        let mut all = self.steps.lock().expect("no worker panics while it holds this lock");
        all.insert(task, steps);
        self.bar.set_position(all.values().sum());
        let done = all.values().filter(|&&steps| steps == STEPS_PER_RUN).count();
        self.bar.set_message(format!("{done} of {} runs done, {} running", self.total, all.len() - done));
    }
}

/// Forwards the progress of a run to the bar, as the mean over its schemes, and stops the run on cancellation.
struct ProgressObserver<'a> {
    bar: &'a Bar,
    index: usize,
    is_cancelled: fn() -> bool,
    /// Progress of each scheme, 0 to 1; several may run concurrently.
    shares: Vec<f64>,
}

impl Observer for ProgressObserver<'_> {
    fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
        self.shares.resize(p.scheme_count, 0.0);
        self.shares[p.index] = p.now.as_secs_f64() / p.end.as_secs_f64().max(f64::MIN_POSITIVE);
        let done = self.shares.iter().sum::<f64>() / p.scheme_count as f64;
        // Capped one below STEPS_PER_RUN: the pool sets the last step when the results are on disk.
        self.bar.update(self.index, ((done * STEPS_PER_RUN as f64) as u64).min(STEPS_PER_RUN - 1));
        if (self.is_cancelled)() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
