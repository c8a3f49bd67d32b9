//! From Weir's errors to Python's exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use weir_experiment::backend::Error;
use weir_experiment::{ExperimentError, yaml::Position};

create_exception!(
    weir,
    InputError,
    PyValueError,
    "The experiment, or another argument, is invalid. `file`, `line` and `column` give the place; each may be None."
);
create_exception!(weir, WorkError, PyRuntimeError, "The arguments are valid, but the work failed.");

/// Makes an `InputError` that knows its place.
fn located(py: Python<'_>, message: String, file: Option<String>, at: Option<Position>) -> PyErr {
    let error = InputError::new_err(message);
    let value = error.value(py);
    let set = |name: &str, number: Option<usize>| value.setattr(name, number);
    let placed = value
        .setattr("file", file)
        .and_then(|()| set("line", at.map(|at| at.line)))
        .and_then(|()| set("column", at.map(|at| at.column)));
    placed.err().unwrap_or(error)
}

/// Makes the exception of an experiment that cannot be read.
pub fn of_experiment(py: Python<'_>, error: ExperimentError) -> PyErr {
    let message = error.to_string();
    match error {
        ExperimentError::Key { file, position, .. } => located(py, message, Some(file), position),
        ExperimentError::Unreadable { file, .. } => located(py, message, Some(file), None),
        _ => located(py, message, None, None),
    }
}

/// Makes the exception of wrong input without a place.
pub fn input(py: Python<'_>, reason: impl std::fmt::Display) -> PyErr {
    located(py, reason.to_string(), None, None)
}

/// Makes the exception of a run that failed.
pub fn of_run(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Input(reason) => input(py, reason),
        Error::Work(reason) => WorkError::new_err(reason),
    }
}
