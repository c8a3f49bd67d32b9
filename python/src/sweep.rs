//! Many runs of one experiment.

use crate::errors::of_run;
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

/// A sweep that has run.
#[pyclass(frozen, module = "weir", name = "Sweep")]
pub struct Done {
    /// The experiment's name.
    #[pyo3(get)]
    name: String,
    /// Its directory.
    #[pyo3(get)]
    dir: PathBuf,
    /// The directory of each run.
    #[pyo3(get)]
    runs: Vec<PathBuf>,
    /// The message of each run that failed.
    #[pyo3(get)]
    failures: Vec<String>,
    /// Mean and confidence interval of each metric.
    #[pyo3(get)]
    table: Py<Table>,
}

#[pymethods]
impl Done {
    fn __repr__(&self) -> String {
        format!("<weir.Sweep: {} runs of {}>", self.runs.len(), self.name)
    }
}

/// Set by Ctrl-C while a sweep runs.
static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Does the runs on other threads, while this one asks Python for signals: Python's handlers run on its main thread only.
/// Returns the outcomes, and the exception that ended the sweep early.
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
        let pool = Pool { backend, is_cancelled, jobs, threads: jobs, watched: false, verbose: false };
        sweep.run(&pool, fresh, |_| ())
    };
    let mut raised = None;
    let outcomes = thread::scope(|scope| {
        let runs = scope.spawn(run);
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

/// A Python function that gets all runs that are not done, does them elsewhere, and returns a message for each that
/// failed.
struct CallbackEngine<'py> {
    function: Bound<'py, PyAny>,
    raised: RefCell<Option<PyErr>>,
}

impl CallbackEngine<'_> {
    fn call(&self, open: &[PendingRun<'_>]) -> PyResult<Vec<Option<String>>> {
        let py = self.function.py();
        let tasks = open.iter().map(|PendingRun { number, task, .. }| {
            let told = PyDict::new(py);
            told.set_item("number", number)?;
            told.set_item("file", &task.file)?;
            told.set_item("set", task.overrides())?;
            told.set_item("seed", task.seed)?;
            told.set_item("schemes", &task.schemes)?;
            told.set_item("dir", &task.dir)?;
            Ok(told)
        });
        self.function.call1((tasks.collect::<PyResult<Vec<_>>>()?,))?.extract()
    }
}

impl Engine for CallbackEngine<'_> {
    fn run(&self, open: &[PendingRun<'_>]) -> Result<Vec<TaskResult>, Error> {
        let failures = self.call(open).unwrap_or_else(|raised| {
            self.raised.replace(Some(raised));
            Vec::new()
        });
        let interrupted = self.raised.borrow().is_some();
        let outcome = |(index, open): (usize, &PendingRun<'_>)| match failures.get(index) {
            None if interrupted => Ok(open.done()),
            failure => open.outcome(failure.cloned().flatten()),
        };
        Ok(open.iter().enumerate().map(outcome).collect())
    }
}

/// Puts the files of a run that was done elsewhere into its directory.
#[pyfunction]
pub fn keep(py: Python<'_>, dir: PathBuf, files: Vec<(String, PyBackedBytes)>) -> PyResult<()> {
    let failed = |error: DirError| of_run(py, error.into());
    let write = |draft: &Path| {
        files
            .iter()
            .filter(|(name, _)| is_run_file(name))
            .try_for_each(|(name, content)| create(&draft.join(name))?.write_all(content))
    };
    RunDir::at(&dir).and_then(RunDir::open).and_then(|run| run.finish(write)).map_err(failed)?;
    Ok(())
}

/// Does the runs of a sweep that are not done, here or by `elsewhere`. `weir.sweep` is the form for people.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "one for each argument of weir.sweep")]
pub fn sweep(
    py: Python<'_>,
    file: PathBuf,
    set: Vec<String>,
    schemes: Vec<String>,
    over: Vec<String>,
    metrics: Vec<String>,
    dir: Option<PathBuf>,
    jobs: Option<usize>,
    fresh: bool,
    elsewhere: Option<Bound<'_, PyAny>>,
) -> PyResult<Done> {
    let kit = Extensions::default();
    let request = SweepRequest {
        kit: &kit,
        file: &file,
        set: &set,
        schemes: &schemes,
        over: &over,
        metrics: &metrics,
        dir: dir.as_deref(),
    };
    let sweep = Sweep::plan(request).map_err(|error| of_run(py, error))?;
    let (outcomes, raised) = match elsewhere {
        None => {
            let jobs = jobs.unwrap_or_else(cores);
            py.detach(|| run_until_interrupted(&sweep, jobs, fresh))
        }
        Some(function) => {
            let engine = CallbackEngine { function, raised: RefCell::default() };
            (sweep.run(&engine, fresh, |_| ()), engine.raised.into_inner())
        }
    };
    let failed = |error: Error| of_run(py, error);
    let outcomes = outcomes.map_err(failed)?;
    let findings = sweep.findings(&outcomes).map_err(failed)?;
    sweep.write(&findings).map_err(failed)?;
    if let Some(raised) = raised {
        return Err(raised);
    }
    Ok(Done {
        table: Py::new(py, table::sweep(&findings))?,
        name: sweep.name.clone(),
        runs: sweep.dirs.iter().map(|run| sweep.dir.join(run)).collect(),
        failures: outcomes.iter().filter_map(|it| it.failure.as_ref()).map(Error::to_string).collect(),
        dir: sweep.dir.clone(),
    })
}
