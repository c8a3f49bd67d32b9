//! In place of `parquet.rs` in a build without the feature `parquet`.

use super::schema::{Kind, RowCallback, Table};
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

/// Writes nothing.
///
/// # Errors
///
/// Always.
pub fn write_rows<N: AsRef<str>, W: io::Write + Send>(
    _: W,
    _: &str,
    _: &[(N, Kind)],
    _: impl FnOnce(&mut RowCallback<'_>) -> io::Result<()>,
) -> io::Result<()> {
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
