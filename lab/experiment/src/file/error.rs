//! Errors of experiment files, with file, line, column and key path.

use super::alias;
use crate::yaml::{EntryPart, KeyError, Position, Positions, path_prefix};
use weir_units::Bandwidth;

/// An error in an experiment file or in the options that change it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExperimentError {
    #[error("{file}: cannot be read: {reason}")]
    Unreadable { file: String, reason: String },
    /// An override cannot be applied; `reason` begins with its origin, such as `--set`, and the path of the key.
    #[error("{reason}")]
    Override { reason: String },
    /// `--schemes` has a label that the experiment does not have.
    #[error("--schemes: {reason}")]
    Schemes { reason: String },
    /// The experiment cannot be scaled to this rate.
    #[error("--rate {rate}: {reason}")]
    Rate { rate: Bandwidth, reason: String },
    /// The flows of the experiment cannot be listed before the run.
    #[error("closed-loop workload: its flows start when others end and are not known before the run")]
    ClosedLoop,
    /// The file is not YAML, or a key is unknown or has an invalid value.
    #[error("{file}{}: {}{reason}", position.map_or_else(String::new, |position| format!(":{position}")), path_prefix(key_path))]
    Key {
        file: String,
        /// `None` if the value is from the command line, or the position is not yet determined.
        position: Option<Position>,
        /// Key path; empty for the whole file.
        key_path: String,
        reason: String,
        /// Whether `position` is that of the key or of its value.
        part: EntryPart,
    },
}

impl ExperimentError {
    pub(super) fn key(file: &str, error: KeyError) -> ExperimentError {
        let KeyError { position, key_path, reason } = error;
        ExperimentError::Key { file: file.to_owned(), position, key_path, reason, part: EntryPart::Value }
    }

    /// Returns an error about the value at `key_path`, or about the key itself if it is unknown. [`located`](Self::located) adds
    /// line and column.
    pub(super) fn at_key(file: &str, key_path: &str, reason: String) -> ExperimentError {
        let (file, key_path) = (file.to_owned(), key_path.to_owned());
        let part = if reason.starts_with("unknown field") { EntryPart::Key } else { EntryPart::Value };
        ExperimentError::Key { file, position: None, key_path, reason, part }
    }

    /// Moves the error from the value to the key itself, for unknown keys.
    pub(super) fn about_key(mut self) -> ExperimentError {
        if let ExperimentError::Key { part, .. } = &mut self {
            *part = EntryPart::Key;
        }
        self
    }

    /// Removes line and column, for generated texts that the user does not see.
    #[must_use]
    pub fn without_position(mut self) -> ExperimentError {
        if let ExperimentError::Key { position, .. } = &mut self {
            *position = None;
        }
        self
    }

    /// Adds line and column if the text contains the key, or the assignment if the value is from the command line.
    pub(super) fn located(mut self, positions: &Positions) -> ExperimentError {
        if let ExperimentError::Key { position: position @ None, key_path, part, reason, .. } = &mut self {
            *key_path = alias::as_written(key_path, positions);
            *position = positions.part(key_path, *part);
            *reason = positions.with_assignment(key_path, *part, std::mem::take(reason));
        }
        self
    }
}
