//! Runs parameter sweeps.

use crate::errors::run_error;
use crate::run::warn;
use crate::table::{self, Table};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;
use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_experiment::Backend;
use weir_experiment::backend::Error;
use weir_report::files::create;
use weir_report::names::is_run_file;
use weir_report::sweep::engine::{Engine, PendingRun, TaskResult};
use weir_report::sweep::pool::{Pool, RunResult, cores};
use weir_report::sweep::{Sweep, SweepRequest};
use weir_report::{DirError, Extensions, RunDir};
use weir_sim::Simulation;

/// A finished sweep.
#[pyclass(frozen, module = "weir", name = "Sweep")]
pub struct FinishedSweep {
    /// The experiment's name.
    #[pyo3(get)]
    name: String,
    /// Directory of the results.
    #[pyo3(get)]
    dir: PathBuf,
    /// Directory of each run.
    #[pyo3(get)]
    runs: Vec<PathBuf>,
    /// Error message of each failed run.
    #[pyo3(get)]
    failures: Vec<String>,
    /// Mean and confidence interval of each metric.
    #[pyo3(get)]
    table: Py<Table>,
    /// Statistics of completion times of every run, after the values of the swept keys and the seed: `fct.csv`.
    #[pyo3(get)]
    fct: Py<Table>,
}

#[pymethods]
impl FinishedSweep {
    fn __repr__(&self) -> String {
        format!("<weir.Sweep: {} runs of {}>", self.runs.len(), self.name)
    }
}

/// Set by Ctrl-C while a sweep runs.
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Executes the runs on other threads, while this one polls for signals: CPython runs signal handlers on the main
/// thread only, in `check_signals`. Returns the outcomes, and the exception that interrupted the sweep, if any.
fn run_until_interrupted(
    sweep: &Sweep,
    jobs: usize,
    fresh: bool,
) -> (Result<Vec<RunResult>, Error>, Option<PyErr>) {
    const INTERVAL: Duration = Duration::from_millis(50);
    CANCELLED.store(false, Ordering::SeqCst);
    let run = || {
        let backend = |cores| -> Box<dyn Backend> { Box::new(Simulation::with_cores(cores)) };
        let is_cancelled = || CANCELLED.load(Ordering::SeqCst);
        let pool = Pool { backend, is_cancelled, jobs, threads: jobs, show_progress: false, verbose: false };
        sweep.run(&pool, fresh, |_| ())
    };
    let mut raised = None;
    let outcomes = thread::scope(|scope| {
        let runs = match thread::Builder::new().spawn_scoped(scope, run) {
            Ok(runs) => runs,
            Err(error) => return Err(Error::thread(&error)),
        };
        while !runs.is_finished() {
            thread::sleep(INTERVAL);
            if raised.is_none()
                && let Err(error) = Python::attach(|py| py.check_signals())
            {
                CANCELLED.store(true, Ordering::SeqCst);
                raised = Some(error);
            }
        }
        runs.join().expect("a sweep returns the errors of its runs")
    });
    (outcomes, raised)
}

/// Calls a Python function with all pending runs. It executes them, for example on a cluster, and returns for each an
/// error message or None.
struct CallbackEngine<'py> {
    function: Bound<'py, PyAny>,
    /// The exception that the function raised.
    raised: RefCell<Option<PyErr>>,
}

impl CallbackEngine<'_> {
    fn call(&self, pending: &[PendingRun<'_>]) -> PyResult<Vec<Option<String>>> {
        let py = self.function.py();
        let tasks = pending.iter().map(|PendingRun { index, task, .. }| {
            let arguments = PyDict::new(py);
            arguments.set_item("number", index)?;
            arguments.set_item("file", &task.file)?;
            arguments.set_item("set", task.overrides())?;
            arguments.set_item("seed", task.seed)?;
            arguments.set_item("schemes", &task.schemes)?;
            arguments.set_item("dir", &task.dir)?;
            Ok(arguments)
        });
        self.function.call1((tasks.collect::<PyResult<Vec<_>>>()?,))?.extract()
    }
}

impl Engine for CallbackEngine<'_> {
    fn run(&self, pending: &[PendingRun<'_>]) -> Result<Vec<TaskResult>, Error> {
        let failures = self.call(pending).unwrap_or_else(|raised| {
            self.raised.replace(Some(raised));
            Vec::new()
        });
        let interrupted = self.raised.borrow().is_some();
        let outcome = |(index, run): (usize, &PendingRun<'_>)| match failures.get(index) {
            None if interrupted => Ok(run.completed()),
            failure => run.outcome(failure.cloned().flatten()),
        };
        Ok(pending.iter().enumerate().map(outcome).collect())
    }
}

/// Writes the files of a run that was executed on another machine into its directory.
#[pyfunction]
pub(crate) fn write_run_files(
    py: Python<'_>,
    dir: PathBuf,
    files: Vec<(String, PyBackedBytes)>,
) -> PyResult<()> {
    let failed = |error: DirError| run_error(py, error.into());
    let write = |draft: &Path| {
        files
            .iter()
            .filter(|(name, _)| is_run_file(name))
            .try_for_each(|(name, content)| create(&draft.join(name))?.write_all(content))
    };
    RunDir::at(&dir).and_then(RunDir::open).and_then(|run| run.finish(write)).map_err(failed)?;
    Ok(())
}

/// Executes the pending runs of a sweep, on this machine or with `run_tasks`; called by `weir.sweep`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one for each argument of weir.sweep")]
pub(crate) fn sweep(
    py: Python<'_>,
    file: PathBuf,
    set: Vec<String>,
    schemes: Vec<String>,
    over: Vec<String>,
    metrics: Vec<String>,
    dir: Option<PathBuf>,
    jobs: Option<usize>,
    fresh: bool,
    run_tasks: Option<Bound<'_, PyAny>>,
) -> PyResult<FinishedSweep> {
    let extensions = Extensions::default();
    let request = SweepRequest {
        extensions: &extensions,
        file: &file,
        set: &set,
        schemes: &schemes,
        over: &over,
        metrics: &metrics,
        dir: dir.as_deref(),
    };
    let sweep = Sweep::plan(request).map_err(|error| run_error(py, error))?;
    warn(py, &sweep.warnings)?;
    let (outcomes, raised) = match run_tasks {
        None => {
            let jobs = jobs.unwrap_or_else(cores);
            py.detach(|| run_until_interrupted(&sweep, jobs, fresh))
        }
        Some(function) => {
            let engine = CallbackEngine { function, raised: RefCell::default() };
            (sweep.run(&engine, fresh, |_| ()), engine.raised.into_inner())
        }
    };
    let failed = |error: Error| run_error(py, error);
    let outcomes = outcomes.map_err(failed)?;
    let results = sweep.results(&outcomes);
    sweep.write(&results).map_err(failed)?;
    if let Some(raised) = raised {
        return Err(raised);
    }
    Ok(FinishedSweep {
        table: Py::new(py, table::sweep(&results))?,
        fct: Py::new(
            py,
            table::sweep_fct(&sweep.fct(&results)).map_err(|error| failed(Error::work(error)))?,
        )?,
        name: sweep.name.clone(),
        runs: sweep.dirs.iter().map(|run| sweep.dir.join(run)).collect(),
        failures: outcomes
            .iter()
            .filter_map(|outcome| outcome.failure.as_ref())
            .map(Error::to_string)
            .collect(),
        dir: sweep.dir.clone(),
    })
}
