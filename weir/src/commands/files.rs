//! Reading, writing and creating the files that options name. Every error names the file.

use crate::console::Failure;
use std::path::{Path, PathBuf};
use weir_experiment::input::read_text;
use weir_report::files::{MODE_PUBLIC, write_atomic};
use weir_report::output::OutputFile;

/// Creates a directory if it is missing, and returns its absolute path.
pub(super) fn create_dir(path: &Path) -> Result<PathBuf, Failure> {
    std::fs::create_dir_all(path)
        .and_then(|()| path.canonicalize())
        .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// Opens the output file of an option before the work begins, so that an invalid path is reported early. An error names
/// option and file.
pub(super) fn open_output(option: &str, path: &Path) -> Result<OutputFile, Failure> {
    OutputFile::open(path).map_err(|error| Failure::Input(format!("{option} {}: {error}", path.display())))
}

/// Writes a file atomically; an error names the file.
pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    write_atomic(path, content, MODE_PUBLIC)
        .map_err(|error| Failure::Work(format!("{}: {error}", path.display())))
}

/// Reads a text file; an error names the file.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    read_text(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}
