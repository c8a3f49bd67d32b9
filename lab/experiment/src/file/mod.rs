//! Experiment files: one YAML file holds all inputs of a run, so that the run can be reproduced from it bit for bit.
//!
//! [`Experiment::load`] reads, checks and resolves a file. All errors are found before anything runs or is written, and
//! are reported with file, line, column and key path.

mod alias;
mod assignment;
mod changes;
mod error;
mod experiment;
mod faults;
mod flow;
mod flows;
mod lookup;
mod nic;
mod overrides;
mod pfc;
mod policy;
mod program;
mod resolve;
mod scale;
mod scheme;
mod schemes;
mod spec;
mod transport;
mod warnings;
mod workload_names;

pub use crate::scalar::{OffOr, Scalar};
pub use crate::workload::{SizeRule, SizesSpec, WorkloadSpec};
pub use assignment::Override;
pub use changes::{AvoidedLinks, Change, ScheduledChange};
pub use error::ExperimentError;
pub use experiment::Experiment;
pub use faults::{Attack, FaultSpec};
pub use flow::{Flow, FlowNamer, flow_name};
pub use nic::NicSpec;
pub use policy::{PolicySpec, SetSpec, TuneSpec};
pub use program::{Entries, EntriesSpec, ProgramFiles, ProgramSpec};
pub use scale::Scale;
pub use scheme::{Scheme, SchemeEntry};
pub use spec::{CsvFile, ExperimentSpec, FlowSpec, ObserveSpec, PaperNote, PfcSpec, SweepSpec, TableFormat};
pub use transport::{RecoverySpec, TransportSpec};
pub use workload_names::ALL_WORKLOADS;

use crate::catalogue::Catalogue;
use crate::input::read_text;
use crate::yaml::Positions;
use resolve::{read, resolve, resolve_paths};
use std::path::Path;
use weir_units::Bandwidth;

impl Experiment {
    /// Calls [`load_with`](Self::load_with) with the built-in schemes, workloads and topologies.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is invalid.
    pub fn load(path: &Path, overrides: &[String], seed: Option<u64>) -> Result<Experiment, ExperimentError> {
        Experiment::load_with(&Catalogue::builtin(), path, overrides, seed)
    }

    /// Reads `path` and applies `overrides` (`a.b=c`) and `seed`. Names of schemes, workloads and topologies are looked up
    /// in `catalogue`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is invalid.
    pub fn load_with(
        catalogue: &Catalogue,
        path: &Path,
        overrides: &[String],
        seed: Option<u64>,
    ) -> Result<Experiment, ExperimentError> {
        Experiment::load_overridden(catalogue, path, &given(overrides), seed)
    }

    /// Like [`load_with`](Self::load_with), for overrides that are not all those of `--set`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is invalid, or an override has no effect because another one replaces its value.
    pub fn load_overridden(
        catalogue: &Catalogue,
        path: &Path,
        overrides: &[Override<'_>],
        seed: Option<u64>,
    ) -> Result<Experiment, ExperimentError> {
        let file = path.display().to_string();
        let text = read_text(path)
            .map_err(|e| ExperimentError::Unreadable { file: file.clone(), reason: e.to_string() })?;
        let stem =
            path.file_stem().map_or_else(|| "experiment".to_owned(), |s| s.to_string_lossy().into_owned());
        parse(catalogue, &text, &file, &stem, overrides, seed)
    }

    /// Calls [`parse_with`](Self::parse_with) with the built-in schemes, workloads and topologies.
    ///
    /// # Errors
    ///
    /// If the text is not a valid experiment.
    pub fn parse(
        text: &str,
        file: &str,
        default_name: &str,
        overrides: &[String],
        seed: Option<u64>,
    ) -> Result<Experiment, ExperimentError> {
        Experiment::parse_with(&Catalogue::builtin(), text, file, default_name, overrides, seed)
    }

    /// Like [`load_with`](Self::load_with), for a text. `file` appears in messages, and paths in the text are relative to
    /// its directory. `default_name` is used if the text has no `name`.
    ///
    /// # Errors
    ///
    /// If the text is not a valid experiment.
    pub fn parse_with(
        catalogue: &Catalogue,
        text: &str,
        file: &str,
        default_name: &str,
        overrides: &[String],
        seed: Option<u64>,
    ) -> Result<Experiment, ExperimentError> {
        parse(catalogue, text, file, default_name, &given(overrides), seed)
    }

    /// Returns a scale model of the experiment: its slowest hosts have `rate`, all other rates are divided by the same
    /// factor, and times are multiplied by it. Sizes in bytes are unchanged.
    ///
    /// # Errors
    ///
    /// If `rate` is 0 or above the rate of the slowest hosts in the file, or a scaled value is out of its range.
    pub fn at_rate(&self, rate: Bandwidth) -> Result<Experiment, ExperimentError> {
        let scale = Scale { from: self.scale.from, to: rate };
        let rate_error = |reason: String| ExperimentError::Rate { rate, reason };
        if rate == Bandwidth::ZERO || rate > scale.from {
            return Err(rate_error(format!("must be above 0 and at most the file's {}", scale.from)));
        }
        let mut original_spec = self.original_spec.clone();
        let mut spec = ExperimentSpec { model_rate: None, ..original_spec.clone() };
        if !scale.is_identity() {
            scale
                .apply(&mut spec, &self.catalogue)
                .map_err(|(key_path, reason)| rate_error(format!("{key_path}: {reason}")))?;
            original_spec.model_rate = Some(rate);
        }
        let model =
            resolve(spec, "the model", &self.catalogue).map_err(|error| rate_error(error.to_string()))?;
        Ok(Experiment { scale, original_spec, ..model })
    }
}

/// Puts file, line and column before a message about an experiment file, such as a [warning](Experiment::warnings). The
/// message begins with the path of a key, which it then has as the file has it.
pub fn with_position(file: &Path, message: &str) -> String {
    let name = file.display();
    let positions = read_text(file).ok().and_then(|text| Positions::from_text(&text).ok());
    let Some((positions, (key_path, reason))) = positions.zip(message.split_once(": ")) else {
        return format!("{name}: {message}");
    };
    let key_path = alias::as_written(key_path, &positions);
    let position = positions.get(&key_path).map_or_else(String::new, |position| format!(":{position}"));
    format!("{name}{position}: {key_path}: {reason}")
}

fn given(assignments: &[String]) -> Vec<Override<'_>> {
    assignments.iter().map(Override::from).collect()
}

/// See [`Experiment::parse_with`].
fn parse(
    catalogue: &Catalogue,
    text: &str,
    file: &str,
    default_name: &str,
    overrides: &[Override<'_>],
    seed: Option<u64>,
) -> Result<Experiment, ExperimentError> {
    let mut positions = Positions::from_text(text).map_err(|error| ExperimentError::key(file, error))?;
    let mut spec = read(catalogue, text, file, overrides, &mut positions)?;
    let seed_override = overrides.iter().find(|given| given.assignment.trim_start().starts_with("seed="));
    if let (Some(given), Some(seed)) = (seed_override, seed) {
        let reason =
            format!("{given} has no effect: another option gives the seed {seed}; remove one of them");
        return Err(ExperimentError::Override { reason });
    }
    let locate = |error: ExperimentError| error.located(&positions);
    resolve_paths(catalogue, &mut spec, file).map_err(locate)?;
    if spec.name.is_empty() {
        spec.name = default_name.to_owned();
    }
    if let Some(seed) = seed {
        spec.seed = seed;
    }
    let model_rate = spec.model_rate.take();
    let experiment = resolve(spec, file, catalogue).map_err(locate)?;
    match model_rate {
        Some(rate) => experiment.at_rate(rate).map_err(|error| match error {
            ExperimentError::Rate { reason, .. } => {
                locate(ExperimentError::at_key(file, "model_rate", format!("{rate}: {reason}")))
            }
            error => error,
        }),
        None => Ok(experiment),
    }
}

#[cfg(test)]
mod tests;
