//! In place of `parquet.rs` in a build without the feature `parquet`.

use super::schema::Table;
use serde::de::DeserializeOwned;
use std::io;
use std::path::Path;
use weir_experiment::results::Results;

const LEFT_OUT: &str =
    "this build of Weir cannot use Parquet files; `make build` or `cargo build --release` builds all of Weir";

/// Writes nothing.
///
/// # Errors
///
/// Always.
pub fn write(_: &Path, _: &Table, _: &Results) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, LEFT_OUT))
}

/// Reads nothing.
///
/// # Errors
///
/// Always.
pub fn read<R: DeserializeOwned>(
    _: &Path,
    _: &Table,
    _: &mut dyn FnMut(R) -> Result<(), String>,
) -> Result<(), String> {
    Err(LEFT_OUT.to_owned())
}
