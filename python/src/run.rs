//! One run: from an experiment to its results.

use crate::errors::{WorkError, input, of_experiment, of_run};
use crate::table::{self, Table};
use pyo3::prelude::*;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use weir_experiment::backend::Error;
use weir_experiment::results::Results;
use weir_experiment::{Backend, Catalogue, Experiment, ExperimentError, Observer, Progress};
use weir_report::load::load as read;
use weir_report::sweep::pool::cores;
use weir_report::{CheckpointWriter, CheckpointingObserver, RunDir, describe, page, tables};
use weir_sim::Simulation;

/// The results of an experiment.
#[pyclass(frozen, module = "weir")]
pub struct Run {
    results: Results,
    described: weir_report::RunDescription,
    /// Its directory, if it is kept.
    #[pyo3(get)]
    dir: Option<PathBuf>,
}

#[pymethods]
impl Run {
    /// The experiment's name.
    #[getter]
    fn name(&self) -> &str {
        &self.described.name
    }

    /// Labels of the schemes, in the experiment's order.
    #[getter]
    fn schemes(&self) -> Vec<String> {
        self.results.order.clone()
    }

    /// SHA-256 over every packet and number: equal digests are equal runs.
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
        &self.described.yaml
    }

    /// Returns every number of the run: the content of `summary.json`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.results.summary);
        let text = text.map_err(|reason| WorkError::new_err(reason.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    /// The report's metrics, a row for each scheme.
    #[getter]
    fn summary(&self) -> Table {
        table::summary(&self.results)
    }

    /// Every flow that started.
    #[getter]
    fn flows(&self) -> Table {
        table::of_run(&tables::FLOWS, &self.results)
    }

    /// Queue and utilisation of each observed port at each sample.
    #[getter]
    fn queues(&self) -> Table {
        table::of_run(&tables::QUEUES, &self.results)
    }

    /// Pacing rate and goodput of each observed flow at each sample.
    #[getter]
    fn rates(&self) -> Table {
        table::of_run(&tables::RATES, &self.results)
    }

    /// Every PFC frame.
    #[getter]
    fn pauses(&self) -> Table {
        table::of_run(&tables::PAUSES, &self.results)
    }

    /// The report as one HTML page.
    #[getter]
    fn report(&self) -> String {
        let sections = self.described.sections(&self.results);
        page::page(&self.described, &self.results, &sections)
    }

    /// Shows the report in a notebook.
    fn _repr_html_(&self) -> String {
        let page = self.report().replace('&', "&amp;").replace('"', "&quot;");
        format!("<iframe srcdoc=\"{page}\" style=\"width: 100%; height: 44rem; border: 0\"></iframe>")
    }

    fn __repr__(&self) -> String {
        format!("<weir.Run: {} with {}>", self.described.name, self.results.order.join(", "))
    }
}

/// Runs an experiment in virtual time. `weir.run` is the form for people.
#[pyfunction]
#[pyo3(signature = (source, overrides, seed, schemes, jobs, dir, progress))]
#[expect(clippy::too_many_arguments, reason = "one for each argument of weir.run")]
pub fn run(
    py: Python<'_>,
    source: (Option<PathBuf>, String),
    overrides: Vec<String>,
    seed: Option<u64>,
    schemes: Vec<String>,
    jobs: Option<usize>,
    dir: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let catalogue = Catalogue::builtin();
    let experiment = match &source {
        (Some(file), _) => Experiment::load_with(&catalogue, file, &overrides, seed),
        (None, text) => {
            Experiment::parse_with(&catalogue, text, "experiment", "experiment", &overrides, seed)
                .map_err(ExperimentError::without_position)
        }
    };
    let mut experiment = experiment.map_err(|error| of_experiment(py, error))?;
    if !schemes.is_empty() {
        experiment.retain_schemes(&schemes).map_err(|error| of_experiment(py, error))?;
    }
    let place = dir.as_deref().map(RunDir::at).transpose().map_err(|error| of_run(py, error.into()))?;
    let jobs = jobs.unwrap_or_else(cores);
    let watch = Watch { progress, raised: None, called: Instant::now() };
    py.detach(|| carry_out(&experiment, place, dir, jobs, watch))
}

/// Runs a checked experiment, without Python's lock.
fn carry_out(
    experiment: &Experiment,
    place: Option<RunDir>,
    dir: Option<PathBuf>,
    jobs: usize,
    mut watch: Watch,
) -> PyResult<Run> {
    let failed = |error: Error| Python::attach(|py| of_run(py, error));
    let described = describe(experiment, &[]);
    let Some(place) = place else {
        let outcome = Simulation::new(jobs).run(experiment, &mut watch).map_err(failed)?;
        return watch.raised.map_or(Ok(Run { results: outcome.results, described, dir }), Err);
    };
    let keeper =
        CheckpointWriter::new(place, &described, experiment).map_err(|error| failed(error.into()))?;
    let mut kept = CheckpointingObserver { watch, keeper };
    let outcome = Simulation::new(jobs).run(experiment, &mut kept);
    let CheckpointingObserver { watch, keeper } = kept;
    let results = match outcome {
        Ok(outcome) => outcome.results,
        Err(error) => {
            keeper.discard();
            return Err(failed(error));
        }
    };
    if let Some(raised) = watch.raised {
        // What an interrupted run has come to stays in `<dir>.partial`.
        keeper.leave(&results).map_err(|error| failed(error.into()))?;
        return Err(raised);
    }
    keeper.finish(&results, &described, |_| Ok(())).map_err(|error| failed(error.into()))?;
    Ok(Run { results, described, dir })
}

/// Reads the directory of a run.
#[pyfunction]
pub fn load(py: Python<'_>, dir: PathBuf) -> PyResult<Run> {
    let loaded = read(&dir, &Catalogue::builtin(), &[]).map_err(|error| input(py, error))?;
    Ok(Run { results: loaded.results, described: loaded.run, dir: Some(dir) })
}

/// Tells a Python function of a run's progress, and ends the run on Ctrl-C or an exception.
pub struct Watch {
    /// Called with the scheme's label and the share of the run that is done.
    progress: Option<Py<PyAny>>,
    /// The exception that ended the run.
    raised: Option<PyErr>,
    /// Time of the last call into Python.
    called: Instant,
}

impl Watch {
    /// Python runs at most this often.
    const INTERVAL: Duration = Duration::from_millis(100);
}

impl Observer for Watch {
    fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
        if self.raised.is_some() {
            return ControlFlow::Break(());
        }
        if self.called.elapsed() < Watch::INTERVAL {
            return ControlFlow::Continue(());
        }
        self.called = Instant::now();
        let done = p.now.as_secs_f64() / p.end.as_secs_f64().max(f64::MIN_POSITIVE);
        let told = Python::attach(|py| {
            py.check_signals()?;
            self.progress.as_ref().map_or(Ok(()), |tell| tell.call1(py, (p.scheme, done)).map(|_| ()))
        });
        match told {
            Ok(()) => ControlFlow::Continue(()),
            Err(raised) => {
                self.raised = Some(raised);
                ControlFlow::Break(())
            }
        }
    }
}
