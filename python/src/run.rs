//! Runs an experiment, and provides its results.

use crate::errors::{WorkError, experiment_error, input_error, run_error};
use crate::scheme::{self, Failure};
use crate::table::{self, Table};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::CString;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_experiment::backend::Error;
use weir_experiment::results::Results;
use weir_experiment::{Backend, Catalogue, Experiment, ExperimentError, Observer, Progress, Scheme};
use weir_host::schemes::Registry;
use weir_report::load::load as read;
use weir_report::sweep::pool::cores;
use weir_report::{CheckpointWriter, CheckpointingObserver, RunDir, describe, page, tables};
use weir_sim::Simulation;

/// The results of an experiment.
#[pyclass(frozen, module = "weir")]
pub struct Run {
    results: Results,
    description: weir_report::RunDescription,
    /// Directory of the results; `None` if they were not written.
    #[pyo3(get)]
    dir: Option<PathBuf>,
}

#[pymethods]
impl Run {
    /// The experiment's name.
    #[getter]
    fn name(&self) -> &str {
        &self.description.name
    }

    /// Labels of the schemes, in the experiment's order.
    #[getter]
    fn schemes(&self) -> Vec<String> {
        self.results.order.clone()
    }

    /// SHA-256 over all packets and results: equal digests mean equal runs.
    #[getter]
    fn digest(&self) -> &str {
        &self.results.summary.digest
    }

    /// True if the run was interrupted.
    #[getter]
    fn partial(&self) -> bool {
        self.results.summary.partial
    }

    /// The experiment with every default filled in, as YAML.
    #[getter]
    fn experiment(&self) -> &str {
        &self.description.yaml
    }

    /// Returns the content of `summary.json`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.results.summary);
        let text = text.map_err(|reason| WorkError::new_err(reason.to_string()))?;
        let summary = py.import("json")?.call_method1("loads", (text,))?;
        // JSON has the schemes in alphabetical order.
        let (schemes, ordered) = (summary.get_item("schemes")?, PyDict::new(py));
        self.results.order.iter().try_for_each(|label| ordered.set_item(label, schemes.get_item(label)?))?;
        summary.set_item("schemes", ordered)?;
        Ok(summary)
    }

    /// The metrics of the report, one row per scheme.
    #[getter]
    fn summary(&self) -> Table {
        table::summary(&self.results)
    }

    /// One row for each flow that started.
    #[getter]
    fn flows(&self) -> Table {
        table::run_table(&tables::FLOWS, &self.results)
    }

    /// Statistics of completion times, by workload and size class.
    #[getter]
    fn fct(&self) -> Table {
        table::run_table(&tables::FCT, &self.results)
    }

    /// Queue and utilisation of each observed port at each sample.
    #[getter]
    fn queues(&self) -> Table {
        table::run_table(&tables::QUEUES, &self.results)
    }

    /// Sending rate and goodput of each observed flow at each sample.
    #[getter]
    fn rates(&self) -> Table {
        table::run_table(&tables::RATES, &self.results)
    }

    /// Quantities of each observed flow's sender at each sample, with `observe.sender`.
    #[getter]
    fn senders(&self) -> Table {
        table::run_table(&tables::SENDERS, &self.results)
    }

    /// One row for each PFC frame.
    #[getter]
    fn pauses(&self) -> Table {
        table::run_table(&tables::PAUSES, &self.results)
    }

    /// The report as one HTML page.
    #[getter]
    fn report(&self) -> String {
        let sections = self.description.sections(&self.results);
        page::page(&self.description, &self.results, &sections)
    }

    /// Shows the report in a notebook.
    fn _repr_html_(&self) -> String {
        let page = self.report().replace('&', "&amp;").replace('"', "&quot;");
        format!("<iframe srcdoc=\"{page}\" style=\"width: 100%; height: 44rem; border: 0\"></iframe>")
    }

    fn __repr__(&self) -> String {
        format!("<weir.Run: {} with {}>", self.description.name, self.results.order.join(", "))
    }
}

/// Runs an experiment in virtual time; called by `weir.run`. `source` is a path, or `None` and the text of an
/// experiment, and `classes` are the schemes in Python that are in the run and those that the experiment may name.
#[pyfunction]
#[pyo3(signature = (source, classes, overrides, seed, schemes, jobs, dir, progress))]
#[expect(clippy::too_many_arguments, reason = "one for each argument of weir.run")]
pub(crate) fn run(
    py: Python<'_>,
    source: (Option<PathBuf>, String),
    classes: (Vec<Bound<'_, PyAny>>, Vec<Bound<'_, PyAny>>),
    overrides: Vec<String>,
    seed: Option<u64>,
    schemes: Vec<Choice>,
    jobs: Option<usize>,
    dir: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let (registry, failure) = scheme::registry(py, &classes.0, &classes.1)?;
    let catalogue = Catalogue { schemes: registry, ..Catalogue::builtin() };
    let read = |overrides: &[String]| {
        let experiment = match &source {
            (Some(file), _) => Experiment::load_with(&catalogue, file, overrides, seed),
            (None, text) => {
                Experiment::parse_with(&catalogue, text, "experiment", "experiment", overrides, seed)
                    .map_err(ExperimentError::without_position)
            }
        };
        experiment.map_err(|error| experiment_error(py, error))
    };
    let labels: Vec<String> = schemes.iter().filter_map(Choice::label).collect();
    let experiment = if labels.len() == schemes.len() {
        let mut experiment = read(&overrides)?;
        if !labels.is_empty() {
            experiment.retain_schemes(&labels).map_err(|error| experiment_error(py, error))?;
        }
        experiment
    } else {
        // Other keys may name quantities of schemes that are not in the file.
        let (of_schemes, mut others): (Vec<_>, Vec<_>) = overrides
            .into_iter()
            .partition(|text| text.starts_with("schemes=") || text.starts_with("schemes."));
        let list = scheme_list(py, &schemes, &labels, || read(&of_schemes))?;
        others.push(format!("schemes={list}"));
        read(&others)?
    };
    let run_dir = dir.as_deref().map(RunDir::at).transpose().map_err(|error| run_error(py, error.into()))?;
    warn(py, &experiment.warnings())?;
    let builtin = Registry::builtin();
    let is_python = |scheme: &Scheme| builtin.names().all(|name| name != scheme.config.name());
    let uses_python = experiment.schemes.iter().any(is_python);
    let jobs = if uses_python { 1 } else { jobs.unwrap_or_else(cores) };
    let callback = ProgressCallback { progress, failure, raised: None, last_call: Instant::now() };
    let run = || run_experiment(&experiment, run_dir, dir, jobs, callback);
    // A run on one thread is this thread's. It keeps the interpreter, which its schemes would ask for with each ACK.
    if uses_python { run() } else { py.detach(run) }
}

/// A choice of the argument `schemes`.
#[derive(FromPyObject)]
pub(crate) enum Choice {
    /// A scheme of the experiment, by label.
    Label(String),
    /// Another scheme: an entry of the key `schemes`, as JSON.
    Entry((String,)),
}

impl Choice {
    fn label(&self) -> Option<String> {
        match self {
            Choice::Label(label) => Some(label.clone()),
            Choice::Entry(_) => None,
        }
    }
}

/// Returns the value of the key `schemes` for these choices. `labels` are those among them, of schemes of the experiment that
/// `read` returns.
fn scheme_list(
    py: Python<'_>,
    choices: &[Choice],
    labels: &[String],
    read: impl Fn() -> PyResult<Experiment>,
) -> PyResult<String> {
    let mut known = Vec::new();
    if !labels.is_empty() {
        let mut experiment = read()?;
        experiment.retain_schemes(labels).map_err(|error| experiment_error(py, error))?;
        known = experiment.spec.schemes;
    }
    let entries = choices.iter().map(|choice| match choice {
        Choice::Entry((entry,)) => entry.clone(),
        Choice::Label(label) => {
            let entry = known.iter().find(|entry| entry.label == *label);
            serde_json::to_string(&entry).expect("plain data serialises")
        }
    });
    Ok(format!("[{}]", entries.collect::<Vec<_>>().join(", ")))
}

/// Issues Python warnings, which programs can turn off or into errors.
pub(crate) fn warn(py: Python<'_>, warnings: &[String]) -> PyResult<()> {
    /// The frame of the caller of `weir.run`.
    const STACK_LEVEL: i32 = 2;
    let category = py.get_type::<PyUserWarning>();
    warnings.iter().try_for_each(|warning| {
        // A text from the experiment has no NUL, which YAML does not allow.
        let text = CString::new(warning.as_str()).unwrap_or_default();
        PyErr::warn(py, &category, &text, STACK_LEVEL)
    })
}

/// Runs a checked experiment.
fn run_experiment(
    experiment: &Experiment,
    run_dir: Option<RunDir>,
    dir: Option<PathBuf>,
    jobs: usize,
    mut callback: ProgressCallback,
) -> PyResult<Run> {
    let to_py_err = |error: Error| Python::attach(|py| run_error(py, error));
    let description = describe(experiment, &[]);
    let Some(run_dir) = run_dir else {
        let outcome = Simulation::new(jobs).run(experiment, &mut callback).map_err(to_py_err)?;
        return callback.raised().map_or(Ok(Run { results: outcome.results, description, dir }), Err);
    };
    let checkpoints =
        CheckpointWriter::new(run_dir, &description, experiment).map_err(|error| to_py_err(error.into()))?;
    let mut observer = CheckpointingObserver { inner: callback, checkpoints };
    let outcome = Simulation::new(jobs).run(experiment, &mut observer);
    let CheckpointingObserver { inner: mut callback, checkpoints } = observer;
    let results = match outcome {
        Ok(outcome) => outcome.results,
        Err(error) => {
            checkpoints.discard();
            return Err(to_py_err(error));
        }
    };
    if let Some(raised) = callback.raised() {
        // The results so far are kept in `<dir>.partial`.
        checkpoints.keep_partial(&results).map_err(|error| to_py_err(error.into()))?;
        return Err(raised);
    }
    checkpoints.finish(&results, &description, |_| Ok(())).map_err(|error| to_py_err(error.into()))?;
    Ok(Run { results, description, dir })
}

/// Reads the directory of a run.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, dir: PathBuf, classes: Vec<Bound<'_, PyAny>>) -> PyResult<Run> {
    let (schemes, _) = scheme::registry(py, &[], &classes)?;
    let catalogue = Catalogue { schemes, ..Catalogue::builtin() };
    let loaded = read(&dir, &catalogue, &[]).map_err(|error| input_error(py, error))?;
    Ok(Run { results: loaded.results, description: loaded.description, dir: Some(dir) })
}

/// Calls a Python function with the progress of a run, and interrupts the run on Ctrl-C or an exception.
pub(crate) struct ProgressCallback {
    /// The function; called with the scheme's label and the completed share of its run.
    progress: Option<Py<PyAny>>,
    /// The exception of a scheme.
    failure: Failure,
    /// The exception that ended the run.
    raised: Option<PyErr>,
    /// Time of the last call into Python.
    last_call: Instant,
}

impl ProgressCallback {
    /// Minimum interval between calls into Python.
    const INTERVAL: Duration = Duration::from_millis(100);

    /// Returns the exception that ended the run.
    fn raised(&mut self) -> Option<PyErr> {
        self.raised.take().or_else(|| self.failure.error())
    }
}

impl Observer for ProgressCallback {
    fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
        if self.raised.is_some() || self.failure.is_set() {
            return ControlFlow::Break(());
        }
        if self.last_call.elapsed() < ProgressCallback::INTERVAL {
            return ControlFlow::Continue(());
        }
        self.last_call = Instant::now();
        let done = p.now.as_secs_f64() / p.end.as_secs_f64().max(f64::MIN_POSITIVE);
        let result = Python::attach(|py| {
            py.check_signals()?;
            self.progress.as_ref().map_or(Ok(()), |function| function.call1(py, (p.scheme, done)).map(|_| ()))
        });
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(raised) => {
                self.raised = Some(raised);
                ControlFlow::Break(())
            }
        }
    }
}
