//! The exception that ends a run.

use pyo3::prelude::*;
use std::sync::{Arc, OnceLock};

/// The exception that a method of a scheme raised first. It ends the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure(Arc<OnceLock<PyErr>>);

impl Failure {
    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Keeps the exception, unless there is one already.
    pub(super) fn set(&self, error: PyErr) {
        let _ = self.0.set(error);
    }

    pub(crate) fn error(&self) -> Option<PyErr> {
        self.0.get().map(|error| Python::attach(|py| error.clone_ref(py)))
    }
}
