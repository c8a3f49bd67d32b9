//! Executes many runs on the cores of this machine, each with its own directory. Runs that are done are not repeated.

use super::engine::{Engine, PendingRun, TaskResult};
use crate::describe;
use crate::extensions::Extensions;
use crate::manifest::{self, Integrity, IntegrityError};
use crate::names::{MANIFEST, SUMMARY};
use crate::{CheckpointWriter, CheckpointingObserver, RunDescription, RunDir};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_yaml::Mapping;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use weir_experiment::Experiment;
use weir_experiment::backend::{Backend, CorePool, Error, Observer, Progress};
use weir_experiment::results::Summary;

/// Steps of the progress bar per run.
const STEPS: u64 = 1000;
/// Stack of worker threads, equal to the main thread's 8 MiB: route computation recurses over the fabric.
const STACK_BYTES: usize = 8 << 20;

/// A run of an experiment.
#[derive(Clone, Debug)]
pub struct RunTask {
    /// Schemes, workloads and topologies that the file can use.
    pub kit: Extensions,
    pub file: PathBuf,
    /// Overrides, in the syntax of `--set`.
    pub set: Vec<String>,
    /// Seed; `None`: that of the file.
    pub seed: Option<u64>,
    /// Labels of the schemes to run; empty: all.
    pub schemes: Vec<String>,
    /// Directory of the results.
    pub dir: PathBuf,
}

impl RunTask {
    /// Returns all overrides of the file.
    pub fn overrides(&self) -> Vec<String> {
        // A run of a sweep must not have the key `sweep` itself.
        self.set.iter().cloned().chain(["sweep=null".to_owned()]).collect()
    }

    /// Reads and checks the experiment.
    ///
    /// # Errors
    ///
    /// If the experiment is invalid, or a scheme is unknown.
    pub fn load(&self) -> Result<Experiment, Error> {
        let experiment = Experiment::load_with(&self.kit.catalogue, &self.file, &self.overrides(), self.seed);
        let mut experiment = experiment.map_err(Error::input)?;
        if !self.schemes.is_empty() {
            experiment.retain_schemes(&self.schemes).map_err(Error::input)?;
        }
        Ok(experiment)
    }

    /// Returns the results of exactly this run, if they are complete and unchanged.
    ///
    /// # Errors
    ///
    /// If the files do not match the manifest, or the manifest is missing.
    pub fn done(&self, run: &RunDescription) -> Result<Option<Summary>, IntegrityError> {
        let integrity = manifest::verify(&self.dir)?;
        let summary = self.load_completed(run);
        match integrity {
            Integrity::Unknown if summary.is_some() => {
                Err(IntegrityError { file: self.dir.join(MANIFEST), reason: "is missing".to_owned() })
            }
            Integrity::Unknown | Integrity::Verified => Ok(summary),
        }
    }

    /// Returns the results of exactly this run, if the directory has them and they are complete.
    fn load_completed(&self, run: &RunDescription) -> Option<Summary> {
        let there = fs::read_to_string(self.dir.join("run.yaml")).ok()?;
        let same = run_identity(&there)? == run_identity(&run.file())?;
        let summary: Summary =
            serde_json::from_str(&fs::read_to_string(self.dir.join(SUMMARY)).ok()?).ok()?;
        (same && !summary.partial).then_some(summary)
    }
}

/// Returns the part of `run.yaml` that determines the results: the version, and all keys except the paper's values.
fn run_identity(file: &str) -> Option<(&str, Mapping)> {
    let (version, yaml) = file.split_once('\n')?;
    let mut keys: Mapping = serde_yaml::from_str(yaml).ok()?;
    keys.remove("paper");
    Some((version, keys))
}

/// Outcome of a task.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// Scheme labels, in the order of the experiment.
    pub order: Vec<String>,
    /// Results; `None` if the run was not started or was interrupted, or failed.
    pub summary: Option<Summary>,
    /// The error, if the run failed.
    pub failure: Option<Error>,
    /// True if the run was done before.
    pub cached: bool,
    /// Description for the report.
    pub run: RunDescription,
}

/// Returns the number of available cores.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Reads and checks all tasks before the first run. Returns an empty outcome for each.
///
/// # Errors
///
/// If an experiment is invalid, or the directory of a run contains other files.
pub fn check(tasks: &[RunTask]) -> Result<Vec<RunResult>, Error> {
    let outcome = |task: &RunTask| {
        let experiment = task.load()?;
        RunDir::at(&task.dir).map_err(Error::input)?;
        let order = experiment.schemes.iter().map(|scheme| scheme.label.clone()).collect();
        let run = describe(&experiment, &task.kit.charts);
        Ok(RunResult { order, summary: None, failure: None, cached: false, run })
    };
    tasks.iter().map(outcome).collect()
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
    pub watched: bool,
    /// True: print the outcome of each run to standard error.
    pub verbose: bool,
}

impl Engine for Pool {
    fn run(&self, open: &[PendingRun<'_>]) -> Result<Vec<TaskResult>, Error> {
        let bar = Bar::new(open.len(), self.watched);
        let (cores, working) = (Arc::new(CorePool::new(self.threads)), AtomicUsize::new(0));
        let &Pool { is_cancelled, verbose, .. } = self;
        let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        thread::scope(|scope| {
            for _ in 0..self.jobs.min(open.len()) {
                let Some(share) = cores.try_share(&working) else { break };
                let (next, done, cores, bar) = (&next, &done, &cores, &bar);
                let worker = move || {
                    let _share = share;
                    loop {
                        let index = next.fetch_add(1, Ordering::SeqCst);
                        let (false, Some(PendingRun { task, .. })) = (is_cancelled(), open.get(index)) else {
                            break;
                        };
                        let came = self.one(task, cores, bar, index);
                        if verbose {
                            bar.bar.suspend(|| log_outcome(task, &came));
                        }
                        done.lock().expect("no worker panics while it holds this lock").insert(index, came);
                    }
                };
                thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, worker).expect("a thread");
            }
        });
        bar.bar.finish_and_clear();
        let mut done = done.into_inner().expect("no worker panics while it holds this lock");
        Ok((0..open.len()).map(|index| done.remove(&index).unwrap_or(Ok(None))).collect())
    }
}

impl Pool {
    /// Executes one run; returns `None` if it was interrupted.
    fn one(&self, task: &RunTask, cores: &Arc<CorePool>, bar: &Bar, index: usize) -> TaskResult {
        let experiment = task.load()?;
        let run = describe(&experiment, &task.kit.charts);
        let place = RunDir::at(&task.dir).map_err(Error::input)?;
        let keeper = CheckpointWriter::new(place, &run, &experiment)?;
        let watch = ProgressObserver { bar, index, is_cancelled: self.is_cancelled, shares: Vec::new() };
        let mut kept = CheckpointingObserver { watch, keeper };
        let outcome = (self.backend)(Arc::clone(cores)).run(&experiment, &mut kept);
        let CheckpointingObserver { keeper, .. } = kept;
        let results = match outcome {
            Ok(outcome) => outcome.results,
            Err(error) => {
                keeper.discard();
                let dir = task.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                return Err(error.at(dir));
            }
        };
        if results.summary.partial {
            keeper.leave(&results).map_err(Error::work)?;
            return Ok(None);
        }
        keeper.finish(&results, &run, |_: &Path| Ok(())).map_err(Error::work)?;
        bar.update(index, STEPS);
        Ok(Some(results.summary))
    }
}

/// Prints the outcome of a run to standard error.
fn log_outcome(task: &RunTask, came: &TaskResult) {
    let came = match came {
        Ok(Some(summary)) => format!("done in {:.2} s, digest {}", summary.wall_s, summary.digest),
        Ok(None) => "interrupted".to_owned(),
        Err(failure) => format!("failed: {failure}"),
    };
    // If standard error is closed, the error cannot be reported.
    let _ = writeln!(io::stderr(), "{}: {came}", task.dir.display());
}

/// The progress bar of all runs.
struct Bar {
    bar: ProgressBar,
    /// Steps done so far, by task.
    steps: Mutex<BTreeMap<usize, u64>>,
    of: usize,
}

impl Bar {
    fn new(of: usize, shown: bool) -> Bar {
        let target =
            if shown && of > 0 { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template("{wide_msg} {bar:20} {percent:>3} %  {eta} left")
            .expect("the template is valid")
            .progress_chars("━━─");
        let bar = ProgressBar::with_draw_target(Some(of as u64 * STEPS), target).with_style(style);
        Bar { bar, steps: Mutex::new(BTreeMap::new()), of }
    }

    fn update(&self, task: usize, steps: u64) {
        let mut all = self.steps.lock().expect("no worker panics while it holds this lock");
        all.insert(task, steps);
        self.bar.set_position(all.values().sum());
        let done = all.values().filter(|&&steps| steps == STEPS).count();
        self.bar.set_message(format!("{done} of {} runs done, {} running", self.of, all.len() - done));
    }
}

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
        // Capped one below STEPS: the pool sets the last step when the results are on disk.
        self.bar.update(self.index, ((done * STEPS as f64) as u64).min(STEPS - 1));
        if (self.is_cancelled)() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
