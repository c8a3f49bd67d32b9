//! Errors of a test that cannot be run.

use std::fmt;

/// The error of a test that cannot be run. Displays as `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StfError {
    /// The file name passed to [`super::run`].
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// What is wrong and, where it helps, what would be right.
    pub message: String,
}

impl fmt::Display for StfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for StfError {}

/// A position in the file. Lines and columns are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub line: usize,
    pub column: usize,
}

/// An error without its file name.
pub(super) type PositionedError = (Position, String);

impl StfError {
    pub(super) fn new(file: &str, (position, message): PositionedError) -> StfError {
        StfError { file: file.to_owned(), line: position.line, column: position.column, message }
    }
}
