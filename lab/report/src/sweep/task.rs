//! The runs of a sweep ([`RunTask`]), each with its own directory, and their outcomes.

use crate::describe::RunDescription;
use crate::dir::RunDir;
use crate::extensions::Extensions;
use crate::manifest::{self, Integrity, IntegrityError};
use crate::names::{MANIFEST, SUMMARY};
use crate::program::is_same_program;
use serde_yaml::Mapping;
use std::fs;
use std::path::PathBuf;
use weir_experiment::Experiment;
use weir_experiment::backend::Error;
use weir_experiment::file::Override;
use weir_experiment::results::Summary;

/// A run of an experiment.
#[derive(Clone, Debug)]
pub struct RunTask {
    /// Schemes, workloads and topologies that the file can use.
    pub extensions: Extensions,
    pub file: PathBuf,
    /// Overrides that all runs have, in the syntax of `--set`.
    pub set: Vec<String>,
    /// Overrides of this run, in the same syntax.
    pub over: Vec<String>,
    /// What gave them, for messages: `--over` or `sweep.over`.
    pub over_origin: &'static str,
    /// Seed; `None`: that of the file.
    pub seed: Option<u64>,
    /// Labels of the schemes to run; empty: all.
    pub schemes: Vec<String>,
    /// Directory of the results.
    pub dir: PathBuf,
}

/// A run of a sweep must not have the key `sweep` itself.
const NO_SWEEP: &str = "sweep=null";

impl RunTask {
    /// Returns all overrides of the file.
    pub fn overrides(&self) -> Vec<String> {
        self.set.iter().chain(&self.over).cloned().chain([NO_SWEEP.to_owned()]).collect()
    }

    /// Reads and checks the experiment.
    ///
    /// # Errors
    ///
    /// If the experiment is invalid, or a scheme is unknown.
    pub fn load(&self) -> Result<Experiment, Error> {
        let over = self.over.iter().map(|assignment| Override { assignment, origin: self.over_origin });
        let no_sweep = Override { assignment: NO_SWEEP, origin: self.over_origin };
        let overrides: Vec<Override<'_>> =
            self.set.iter().map(Override::from).chain(over).chain([no_sweep]).collect();
        let catalogue = &self.extensions.catalogue;
        let experiment = Experiment::load_overridden(catalogue, &self.file, &overrides, self.seed);
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
    pub fn completed(&self, run: &RunDescription) -> Result<Option<Summary>, IntegrityError> {
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
        let existing = fs::read_to_string(self.dir.join("run.yaml")).ok()?;
        let file = run.to_yaml();
        let ((program, keys), (own_program, own_keys)) = (run_identity(&existing)?, run_identity(&file)?);
        let is_same = is_same_program(program, own_program) && keys == own_keys;
        let summary: Summary =
            serde_json::from_str(&fs::read_to_string(self.dir.join(SUMMARY)).ok()?).ok()?;
        (is_same && !summary.partial).then_some(summary)
    }
}

/// Returns the parts of `run.yaml` that determine the results: the line with the program, and all keys except the paper's values.
fn run_identity(file: &str) -> Option<(&str, Mapping)> {
    let (program, yaml) = file.split_once('\n')?;
    let mut keys: Mapping = serde_yaml::from_str(yaml).ok()?;
    keys.remove("paper");
    Some((program, keys))
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
    /// True if the results are those of an earlier command.
    pub is_cached: bool,
    /// Description for the report.
    pub description: RunDescription,
}

/// Reads and checks all tasks before the first run. Returns an empty outcome for each, and the warnings of all of them.
///
/// # Errors
///
/// If an experiment is invalid, or the directory of a run contains other files.
pub fn check(tasks: &[RunTask]) -> Result<(Vec<RunResult>, Vec<String>), Error> {
    let mut warnings = Vec::new();
    let outcome = |task: &RunTask| {
        let experiment = task.load()?;
        warnings.extend(experiment.warnings());
        RunDir::at(&task.dir).map_err(Error::input)?;
        let order = experiment.schemes.iter().map(|scheme| scheme.label.clone()).collect();
        let description = task.extensions.describe(&experiment);
        Ok(RunResult { order, summary: None, failure: None, is_cached: false, description })
    };
    let outcomes = tasks.iter().map(outcome).collect::<Result<Vec<_>, Error>>()?;
    Ok((outcomes, warnings))
}
