//! Output streams of a command, its failures and exit statuses.

use crate::output::OutputStyle;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use weir_experiment::backend::Error;
use weir_report::DirError;
use weir_report::Extensions;

/// The failure of a command. The message is one line: location, problem, remedy.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Invalid input; nothing was written. Exit status 2.
    Input(String),
    /// Valid input, but the work failed. Exit status 1.
    Work(String),
    /// The command was interrupted; the results so far are kept. Exit status 130, as of a process stopped by
    /// Ctrl-C.
    Interrupted(String),
    /// The compared objects differ. Exit status 2, as in `terraform plan -detailed-exitcode`.
    Differs(String),
    /// Standard output was closed (EPIPE), for example by `| head`. Nothing is printed; exit status 0.
    BrokenPipe,
}

impl Failure {
    pub fn input(reason: impl std::fmt::Display) -> Failure {
        Failure::Input(reason.to_string())
    }
    pub fn work(reason: impl std::fmt::Display) -> Failure {
        Failure::Work(reason.to_string())
    }

    /// The failure of an option or command that a build without the feature `full` lacks.
    #[cfg(not(feature = "full"))]
    pub(crate) fn left_out(part: impl std::fmt::Display) -> Failure {
        Failure::Input(format!(
            "{part} is not part of this build, which is for virtual time only; `make build` or `cargo build --release` \
             builds all of Weir"
        ))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Input(reason)
            | Failure::Work(reason)
            | Failure::Differs(reason)
            | Failure::Interrupted(reason) => f.write_str(reason),
            Failure::BrokenPipe => f.write_str("output closed"),
        }
    }
}

impl Failure {
    /// Prefixes the message of an input or work failure with a location.
    #[must_use]
    pub fn at(self, location: impl std::fmt::Display) -> Failure {
        match self {
            Failure::Input(reason) => Failure::Input(format!("{location}: {reason}")),
            Failure::Work(reason) => Failure::Work(format!("{location}: {reason}")),
            other => other,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Input(reason) => Failure::Input(reason),
            Error::Work(reason) => Failure::Work(reason),
        }
    }
}

impl From<DirError> for Failure {
    fn from(error: DirError) -> Failure {
        Error::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::Work(format!("output: {error}")),
        }
    }
}

/// Standard output, and how to use it and standard error.
pub struct Console {
    /// Standard output, for results.
    pub out: Box<dyn Write>,
    /// True if text in [`out`](Self::out) may be bold.
    pub styled: bool,
    /// True if standard error is a terminal: show progress bars.
    pub show_progress: bool,
    /// Width for tables: that of the variable COLUMNS or of the terminal; `None` for files and pipes.
    pub width: Option<usize>,
    /// Output format and verbosity, from the command's options.
    pub style: OutputStyle,
    /// The schemes, workloads, topologies and charts of this program.
    pub extensions: Extensions,
}

impl Console {
    /// Returns the console of the process, with the given extensions. Bold text is off if NO_COLOR is set
    /// (<https://no-color.org>).
    pub fn standard(extensions: Extensions) -> Console {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Console {
            out: Box::new(io::stdout().lock()),
            styled: io::stdout().is_terminal() && !no_color,
            show_progress: io::stderr().is_terminal(),
            width: width(),
            style: OutputStyle::default(),
            extensions,
        }
    }

    /// Sets the output style from a command's options. `--quiet` also hides progress bars.
    pub fn style(&mut self, style: impl Into<OutputStyle>) {
        self.style = style.into();
        self.show_progress &= !self.style.quiet;
    }

    /// Prints a result as JSON. The order of keys is deterministic.
    ///
    /// # Errors
    ///
    /// The result cannot be written.
    pub fn print_json(&mut self, result: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(result).map_err(Failure::work)?;
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Prints a message on standard error if `--verbose` is set.
    pub fn detail(&self, message: impl std::fmt::Display) {
        if self.style.verbose {
            // A detail that cannot be printed is no failure.
            let _ = writeln!(io::stderr(), "{message}");
        }
    }

    /// Flushes standard output, prints the failure on standard error, and returns the exit status.
    pub fn close(mut self, outcome: Result<(), Failure>) -> ExitCode {
        let outcome = outcome.and_then(|()| Ok(self.out.flush()?));
        let (status, message) = match outcome {
            Ok(()) | Err(Failure::BrokenPipe) => return ExitCode::SUCCESS,
            Err(Failure::Work(reason)) => (1, format!("error: {reason}")),
            Err(Failure::Input(reason)) => (2, format!("error: {reason}")),
            Err(Failure::Differs(reason)) => (2, reason),
            Err(Failure::Interrupted(reason)) => (130, format!("interrupted: {reason}")),
        };
        // The source line, if the message names a position.
        let reason = message.strip_prefix("error: ");
        let excerpt =
            reason.and_then(|reason| assignment(reason).or_else(|| excerpt(reason))).unwrap_or_default();
        // If standard error is closed, only the exit status reports the failure.
        let _ = writeln!(io::stderr(), "{}{excerpt}", message.trim_end());
        ExitCode::from(status)
    }
}

/// Prints a warning on standard error.
pub fn warn(message: &str) {
    // Without standard error there is no way to report the warning.
    let _ = writeln!(io::stderr(), "warning: {message}");
}

/// Returns the width for tables: that of the variable COLUMNS, otherwise that of the terminal.
fn width() -> Option<usize> {
    let variable = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    variable.or_else(terminal)
}

/// Returns the source line to which a message `file:line:column: ...` refers, with a caret below the column;
/// `None` for other messages.
fn excerpt(message: &str) -> Option<String> {
    /// Maximum width of the excerpt in characters.
    const MAX_WIDTH: usize = 100;
    let (location, _) = message.split_once(": ")?;
    let mut parts = location.rsplitn(3, ':');
    let (column, line, file) =
        (parts.next()?.parse::<usize>().ok()?, parts.next()?.parse::<usize>().ok()?, parts.next()?);
    let text = std::fs::read_to_string(file).ok()?;
    let content: Vec<char> = text.lines().nth(line.checked_sub(1)?)?.chars().collect();
    let column = column.checked_sub(1).filter(|&column| column <= content.len())?;
    // Only the part around the column of a long line is shown: a program's JSON may be one line.
    let start = if content.len() > MAX_WIDTH { column.saturating_sub(MAX_WIDTH / 2) } else { 0 };
    let shown = content.iter().skip(start).take(MAX_WIDTH).map(|&c| if c.is_control() { ' ' } else { c });
    let (line_number, shown) = (line.to_string(), shown.collect::<String>());
    let (margin, mark) = (" ".repeat(line_number.len()), " ".repeat(column - start));
    Some(format!("\n  {line_number} | {}\n  {margin} | {mark}^", shown.trim_end()))
}

/// Returns the assignment to which a message `... (--set KEY=VALUE, column N)` refers, with a caret below the column; `None`
/// for other messages.
fn assignment(message: &str) -> Option<String> {
    /// What gives assignments.
    const ORIGINS: [&str; 3] = ["--set", "--over", "sweep.over"];
    let message = message.trim_end().strip_suffix(')')?;
    let (origin, assignment) = ORIGINS
        .into_iter()
        .find_map(|origin| Some((origin, message.rsplit_once(&format!(" ({origin} "))?.1)))?;
    let (assignment, column) = assignment.rsplit_once(", column ")?;
    let column = column.parse::<usize>().ok()?.checked_sub(1)?;
    let shown: String = assignment.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    Some(format!("\n  {origin} {shown}\n  {}{}^", " ".repeat(origin.len() + 1), " ".repeat(column)))
}

#[cfg(test)]
mod tests {
    use super::{assignment, excerpt};

    #[test]
    fn a_message_about_an_assignment_shows_it() {
        assert_eq!(
            assignment("x.yaml: schemes[1]: unknown (--set schemes=[fncc, FNCC], column 16)").unwrap(),
            "\n  --set schemes=[fncc, FNCC]\n                       ^"
        );
        assert_eq!(
            assignment("x.yaml: workload.load: too high (sweep.over workload.load=140%, column 15)").unwrap(),
            "\n  sweep.over workload.load=140%\n                           ^"
        );
        assert_eq!(assignment("x.yaml: seed: invalid (--set seed=x)"), None);
    }

    #[test]
    fn a_message_with_a_position_shows_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.yaml");
        std::fs::write(&file, format!("a: 1\n  size: 256\n{}x\n", "-".repeat(500))).unwrap();
        let excerpt_of = |rest: &str| excerpt(&format!("{}{rest}", file.display()));
        assert_eq!(excerpt_of(":2:9: size: no unit").unwrap(), "\n  2 |   size: 256\n    |         ^");
        let long = excerpt_of(":3:501: unexpected").unwrap();
        assert!(long.len() < 200 && long.contains("-x\n") && long.ends_with('^'), "{long}");
        for other in [": no location", ":9:1: no such line", ":2:99: no such column", ":0:0: from zero"] {
            assert_eq!(excerpt_of(other), None, "{other}");
        }
        assert_eq!(excerpt("error of a kind without a file"), None);
    }
}
