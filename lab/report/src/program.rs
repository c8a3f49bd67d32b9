//! The program that runs experiments, as results name it.

use std::fmt;

/// Weir's version, shown in every report.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A program with the commands of Weir. Displays as `weir 0.1.0 (3807f88a1b2c)`, or `my-lab with weir 0.1.0` for a program
/// that adds to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Name of the command that repeats a run: `weir`, or that of a program with schemes of its own.
    pub name: String,
    /// The commit of Weir, followed by `, modified` if tracked files differ from it; `None` if Weir was not built in a git
    /// checkout.
    pub commit: Option<String>,
}

impl Default for ProgramInfo {
    fn default() -> ProgramInfo {
        ProgramInfo { name: "weir".to_owned(), commit: None }
    }
}

impl fmt::Display for ProgramInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name != "weir" {
            write!(f, "{} with ", self.name)?;
        }
        write!(f, "weir {VERSION}")?;
        self.commit.as_ref().map_or(Ok(()), |commit| write!(f, " ({commit})"))
    }
}

/// Returns whether two first lines of `run.yaml` name the same program. A program that does not know its commit may be the
/// same as one that does.
pub fn is_same_program(a: &str, b: &str) -> bool {
    let parts = |line: &str| match line
        .split_once(" (")
        .and_then(|(before, rest)| Some((before, rest.split_once(')')?)))
    {
        Some((before, (commit, after))) => (format!("{before}{after}"), Some(commit.to_owned())),
        None => (line.to_owned(), None),
    };
    let ((a, a_commit), (b, b_commit)) = (parts(a), parts(b));
    a == b && a_commit.zip(b_commit).is_none_or(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_different_commits_differ() {
        let program = |name: &str, commit: Option<&str>| {
            ProgramInfo { name: name.into(), commit: commit.map(str::to_owned) }.to_string()
        };
        assert_eq!(
            program("weir", Some("3807f88a1b2c, modified")),
            format!("weir {VERSION} (3807f88a1b2c, modified)")
        );
        assert_eq!(program("my-lab", None), format!("my-lab with weir {VERSION}"));
        let weir = |commit| program("weir", commit);
        assert!(is_same_program(&weir(Some("3807f88a1b2c")), &weir(Some("3807f88a1b2c"))));
        assert!(is_same_program(&weir(Some("3807f88a1b2c")), &weir(None)));
        assert!(!is_same_program(&weir(Some("3807f88a1b2c")), &weir(Some("cba4117c0000"))));
        assert!(!is_same_program(&weir(None), &program("my-lab", None)));
    }
}
