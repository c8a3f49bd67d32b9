//! The extension module of the Python package `weir-fabric`: experiments in virtual time, and their results as Arrow
//! tables. `weir/__init__.py` is the public interface.

mod errors;
mod run;
mod scheme;
mod sweep;
mod table;

use pyo3::prelude::*;

#[pymodule]
mod _weir {
    #[pymodule_export]
    use super::errors::{InputError, WorkError};
    #[pymodule_export]
    use super::run::{Run, load, run};
    #[pymodule_export]
    use super::scheme::{Ack, Flow, Hop, Loss, RateNotice};
    #[pymodule_export]
    use super::sweep::{FinishedSweep, sweep, write_run_files};
    #[pymodule_export]
    use super::table::Table;
}
