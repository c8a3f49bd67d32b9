//! Converts Weir's errors to Python exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use weir_experiment::backend::Error;
use weir_experiment::{ExperimentError, yaml::Position};

create_exception!(
    weir,
    InputError,
    PyValueError,
    "The experiment, or another argument, is invalid. `file`, `line` and `column` are the location; each may be None."
);
create_exception!(weir, WorkError, PyRuntimeError, "The arguments are valid, but the work failed.");

/// Replaces the options of the command line in a message by the arguments of the Python functions.
fn with_arguments(message: &str) -> String {
    const ARGUMENTS: [(&str, &str); 5] = [
        ("use --over, for example --over seed=1..5", "pass `over`, for example {\"seed\": range(1, 6)}"),
        ("--set ", "set "),
        ("--over ", "over "),
        ("--metric:", "metrics:"),
        ("--schemes:", "schemes:"),
    ];
    ARGUMENTS.iter().fold(message.to_owned(), |text, (option, argument)| text.replace(option, argument))
}

/// Creates an `InputError` with this location.
fn input_error_at(
    py: Python<'_>,
    message: String,
    file: Option<String>,
    position: Option<Position>,
) -> PyErr {
    let error = InputError::new_err(with_arguments(&message));
    let value = error.value(py);
    let set = |name: &str, number: Option<usize>| value.setattr(name, number);
    let result = value
        .setattr("file", file)
        .and_then(|()| set("line", position.map(|position| position.line)))
        .and_then(|()| set("column", position.map(|position| position.column)));
    result.err().unwrap_or(error)
}

/// Creates the exception for an invalid or unreadable experiment.
pub(crate) fn experiment_error(py: Python<'_>, error: ExperimentError) -> PyErr {
    let message = error.to_string();
    match error {
        ExperimentError::Key { file, position, .. } => input_error_at(py, message, Some(file), position),
        ExperimentError::Unreadable { file, .. } => input_error_at(py, message, Some(file), None),
        _ => input_error_at(py, message, None, None),
    }
}

/// Creates an `InputError` without location.
pub(crate) fn input_error(py: Python<'_>, reason: impl std::fmt::Display) -> PyErr {
    input_error_at(py, reason.to_string(), None, None)
}

/// Creates the exception for an error of a run.
pub(crate) fn run_error(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::Input(reason) => input_error(py, reason),
        Error::Work(reason) => WorkError::new_err(reason),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn messages_name_arguments_of_python() {
        let message = |text: &str| super::with_arguments(text);
        assert_eq!(message("--schemes: unknown scheme \"x\""), "schemes: unknown scheme \"x\"");
        assert_eq!(
            message("x.yaml: nothing to vary; use --over, for example --over seed=1..5, or a `sweep` block"),
            "x.yaml: nothing to vary; pass `over`, for example {\"seed\": range(1, 6)}, or a `sweep` block"
        );
        assert_eq!(
            message("x.yaml: size: no unit (--set size=1, column 6)"),
            "x.yaml: size: no unit (set size=1, column 6)"
        );
    }
}
