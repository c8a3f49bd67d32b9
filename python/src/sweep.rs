//! Many runs of one experiment.

use crate::errors::of_run;
use crate::table::{self, Table};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use weir_experiment::Backend;
use weir_experiment::backend::Error;
use weir_report::Kit;
use weir_report::sweep::pool::{Outcome, Pool, cores};
use weir_report::sweep::{Asked, Sweep};
use weir_sim::VirtualTime;

/// A sweep that has run.
#[pyclass(frozen, module = "weir", name = "Sweep")]
pub struct Done {
    /// The experiment's name.
    #[pyo3(get)]
    name: String,
    /// Where it is kept.
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
fn run_until_interrupted(sweep: &Sweep, jobs: usize, fresh: bool) -> (Vec<Outcome>, Option<PyErr>) {
    const INTERVAL: Duration = Duration::from_millis(50);
    CANCELLED.store(false, Ordering::SeqCst);
    let run = || {
        let backend = |jobs| -> Box<dyn Backend> { Box::new(VirtualTime::new(jobs)) };
        let is_cancelled = || CANCELLED.load(Ordering::SeqCst);
        let warn = |_: &str| ();
        sweep.run(&Pool { backend, is_cancelled, jobs, fresh, watched: false, verbose: false, warn })
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

/// Does the runs of a sweep that are not done. `weir.sweep` is the form for people.
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
) -> PyResult<Done> {
    let kit = Kit::default();
    let asked = Asked {
        kit: &kit,
        file: &file,
        set: &set,
        schemes: &schemes,
        over: &over,
        metrics: &metrics,
        dir: dir.as_deref(),
    };
    let sweep = Sweep::plan(asked).map_err(|error| of_run(py, error))?;
    let jobs = jobs.unwrap_or_else(cores);
    let (outcomes, raised) = py.detach(|| run_until_interrupted(&sweep, jobs, fresh));
    let failed = |error: Error| of_run(py, error);
    let findings = sweep.findings(&outcomes).map_err(failed)?;
    sweep.write(&findings, &format!("weir sweep {}", file.display())).map_err(failed)?;
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
