//! A command's output streams, and how it ends.

use crate::output::OutputStyle;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use weir_experiment::backend::Error;
use weir_report::DirError;
use weir_report::Extensions;

/// A reason why a command did not do what it was asked for. The message is one line: place, problem, remedy.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The input is wrong; nothing was written. Exit status 2.
    Input(String),
    /// The input was right and the work failed. Exit status 1.
    Work(String),
    /// Broken off from outside; what was done until then was kept. Exit status 130, as of a process
    /// that Ctrl-C ended.
    Interrupted(String),
    /// Two things that were compared differ. Exit status 2, as of `terraform plan -detailed-exitcode`.
    Differs(String),
    /// Nobody reads the output any more: nothing to say, and no failure of ours.
    BrokenPipe,
}

impl Failure {
    /// Bad input.
    pub fn input(reason: impl std::fmt::Display) -> Failure {
        Failure::Input(reason.to_string())
    }
    /// Failed work.
    pub fn work(reason: impl std::fmt::Display) -> Failure {
        Failure::Work(reason.to_string())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Input(reason)
            | Failure::Work(reason)
            | Failure::Differs(reason)
            | Failure::Interrupted(reason) => f.write_str(reason),
            Failure::BrokenPipe => f.write_str("nobody reads the output"),
        }
    }
}

impl Failure {
    /// Names the place of wrong input or failed work before the message.
    #[must_use]
    pub fn at(self, place: impl std::fmt::Display) -> Failure {
        match self {
            Failure::Input(reason) => Failure::Input(format!("{place}: {reason}")),
            Failure::Work(reason) => Failure::Work(format!("{place}: {reason}")),
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

/// Standard output and error, and what may be done with them.
pub struct Console {
    /// Results go here.
    pub out: Box<dyn Write>,
    /// True if bold letters are welcome in [`out`](Self::out).
    pub styled: bool,
    /// True if somebody watches standard error, so that progress is worth showing.
    pub show_progress: bool,
    /// Columns of the terminal, or of the variable COLUMNS; `None` for files and pipes.
    pub width: Option<usize>,
    /// The style in which the result is printed.
    pub style: OutputStyle,
    /// The schemes that this program knows.
    pub kit: Extensions,
}

impl Console {
    /// Returns the process's own, in a program that knows these schemes. Styles follow <https://no-color.org>.
    pub fn standard(kit: Extensions) -> Console {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Console {
            out: Box::new(io::stdout().lock()),
            styled: io::stdout().is_terminal() && !plain,
            show_progress: io::stderr().is_terminal(),
            width: width(),
            style: OutputStyle::default(),
            kit,
        }
    }

    /// Takes the options that say how to print the result.
    pub fn style(&mut self, style: impl Into<OutputStyle>) {
        self.style = style.into();
        self.show_progress &= !self.style.quiet;
    }

    /// Prints a result as JSON. The same result has the same keys in the same order.
    ///
    /// # Errors
    ///
    /// The result cannot be written.
    pub fn print_json(&mut self, result: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(result).map_err(Failure::work)?;
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Says on standard error what is done, for readers who asked for it.
    pub fn detail(&self, what: impl std::fmt::Display) {
        if self.style.verbose {
            let _ = writeln!(io::stderr(), "{what}");
        }
    }

    /// Says on standard error why a command failed, and turns its outcome into an exit status.
    pub fn close(mut self, outcome: Result<(), Failure>) -> ExitCode {
        let outcome = outcome.and_then(|()| Ok(self.out.flush()?));
        let (status, message) = match outcome {
            Ok(()) | Err(Failure::BrokenPipe) => return ExitCode::SUCCESS,
            Err(Failure::Work(reason)) => (1, format!("error: {reason}")),
            Err(Failure::Input(reason)) => (2, format!("error: {reason}")),
            Err(Failure::Differs(reason)) => (2, reason),
            Err(Failure::Interrupted(reason)) => (130, format!("interrupted: {reason}")),
        };
        let excerpt = message.strip_prefix("error: ").and_then(excerpt).unwrap_or_default();
        // If standard error is gone too, the exit status has to say it all.
        let _ = writeln!(io::stderr(), "{}{excerpt}", message.trim_end());
        ExitCode::from(status)
    }
}

/// Says something on standard error that is no failure.
pub fn warn(what: &str) {
    // If standard error is gone there is nobody to tell.
    let _ = writeln!(io::stderr(), "warning: {what}");
}

/// Returns the columns to fit tables into: what COLUMNS says, else what the terminal has.
fn width() -> Option<usize> {
    let named = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    named.or_else(terminal)
}

/// Returns the source line to which a message `file:line:column: ...` refers, with a mark below the column; nothing for other
/// messages.
fn excerpt(message: &str) -> Option<String> {
    /// Columns to show.
    const WIDTH: usize = 100;
    let (place, _) = message.split_once(": ")?;
    let mut parts = place.rsplitn(3, ':');
    let (column, line, file) =
        (parts.next()?.parse::<usize>().ok()?, parts.next()?.parse::<usize>().ok()?, parts.next()?);
    let text = std::fs::read_to_string(file).ok()?;
    let content: Vec<char> = text.lines().nth(line.checked_sub(1)?)?.chars().collect();
    let column = column.checked_sub(1).filter(|&column| column <= content.len())?;
    // Of a long line, such as a program's in JSON, the part around the column.
    let from = if content.len() > WIDTH { column.saturating_sub(WIDTH / 2) } else { 0 };
    let shown = content.iter().skip(from).take(WIDTH).map(|&c| if c.is_control() { ' ' } else { c });
    let (number, shown) = (line.to_string(), shown.collect::<String>());
    let (margin, mark) = (" ".repeat(number.len()), " ".repeat(column - from));
    Some(format!("\n  {number} | {}\n  {margin} | {mark}^", shown.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn a_message_with_a_place_shows_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.yaml");
        std::fs::write(&file, format!("a: 1\n  size: 256\n{}x\n", "-".repeat(500))).unwrap();
        let of = |rest: &str| excerpt(&format!("{}{rest}", file.display()));
        assert_eq!(of(":2:9: size: no unit").unwrap(), "\n  2 |   size: 256\n    |         ^");
        let long = of(":3:501: unexpected").unwrap();
        assert!(long.len() < 200 && long.contains("-x\n") && long.ends_with('^'), "{long}");
        for other in [": no place", ":9:1: no such line", ":2:99: no such column", ":0:0: from zero"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(excerpt("error of a kind without a file"), None);
    }
}
