//! Errors in an experiment, each with its key.

use crate::yaml::{KeyError, KeySegment, Position, Positions, path_prefix};
use weir_units::Bandwidth;

/// A problem of an experiment: file, place in it, problem and remedy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExperimentError {
    /// {file}: cannot be read: {why}
    #[error("{file}: cannot be read: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's words.
        reason: String,
    },
    /// A `--set` cannot be applied.
    #[error("--set {reason}")]
    Override {
        /// Place and problem.
        reason: String,
    },
    /// A `--schemes` names none of the experiment's.
    #[error("--schemes: {reason}")]
    Schemes {
        /// The problem and the labels that there are.
        reason: String,
    },
    /// A rate that the experiment cannot be run at.
    #[error("--rate {rate}: {reason}")]
    Rate {
        /// As given.
        rate: Bandwidth,
        /// Problem and remedy.
        reason: String,
    },
    /// The file is not YAML, or a key in it has a value that makes no sense.
    #[error("{file}{}: {}{reason}", position.map_or_else(String::new, |at| format!(":{at}")), path_prefix(place))]
    Key {
        /// The file.
        file: String,
        /// Line and column, unless the value is of the command line.
        position: Option<Position>,
        /// Path of the key; empty for the whole file.
        place: String,
        /// Problem and remedy.
        reason: String,
        /// The part of the key whose position is meant.
        part: KeySegment,
    },
}

impl ExperimentError {
    pub(super) fn key(file: &str, error: KeyError) -> ExperimentError {
        let KeyError { position, place, reason } = error;
        ExperimentError::Key { file: file.to_owned(), position, place, reason, part: KeySegment::Value }
    }

    /// Returns an error about the value at `place`, whose line and column are still to be [found](Self::located).
    pub(super) fn at_key(file: &str, place: &str, reason: String) -> ExperimentError {
        let (file, place) = (file.to_owned(), place.to_owned());
        ExperimentError::Key { file, position: None, place, reason, part: KeySegment::Value }
    }

    /// The same error about the key itself: there is none of that name.
    pub(super) fn about_key(mut self) -> ExperimentError {
        if let ExperimentError::Key { part, .. } = &mut self {
            *part = KeySegment::Key;
        }
        self
    }

    /// Leaves out line and column, for a text that its author never saw.
    #[must_use]
    pub fn without_position(mut self) -> ExperimentError {
        if let ExperimentError::Key { position, .. } = &mut self {
            *position = None;
        }
        self
    }

    /// Adds line and column, if the text has the key.
    pub(super) fn located(mut self, positions: &Positions) -> ExperimentError {
        if let ExperimentError::Key { position: position @ None, place, part, .. } = &mut self {
            *position = positions.part(place, *part);
        }
        self
    }
}
