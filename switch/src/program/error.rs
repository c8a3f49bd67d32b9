//! The error of loading a program.

/// The error of loading a program. It displays as `path: message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct LoadError {
    /// Location in the JSON, such as `pipelines[0].tables[3].key[1]`, or `3:7` (line and column) if the text
    /// is not JSON.
    pub path: String,
    /// What is wrong and, where it helps, what would be right.
    pub message: String,
}
