//! Assignments to keys on the command line and in sweeps.

use std::fmt;

/// A value that replaces that of the file.
#[derive(Clone, Copy, Debug)]
pub struct Override<'a> {
    /// `key.path=value`.
    pub assignment: &'a str,
    /// What gave it, for messages: `--set`, or the option or key of a sweep.
    pub origin: &'a str,
}

impl<'a> From<&'a String> for Override<'a> {
    fn from(assignment: &'a String) -> Override<'a> {
        Override { assignment, origin: "--set" }
    }
}

/// Writes `--set key.path=value`.
impl fmt::Display for Override<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.origin, self.assignment)
    }
}
