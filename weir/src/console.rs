//! Where a command prints, and how it ends.

use crate::report::DirError;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use weir_host::schemes::Registry;
use weir_sim::RunError;

/// Why a command did not do what it was asked for. The message is one line: place, problem, remedy.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The input is wrong; nothing was written. Exit status 2.
    Input(String),
    /// The input was right and the work failed. Exit status 1.
    Work(String),
    /// Broken off from outside; what was done until then was kept. Exit status 130, as of a process
    /// that Ctrl-C ended.
    Interrupted(String),
    /// Nobody reads the output any more: nothing to say, and no failure of ours.
    NobodyListens,
}

impl Failure {
    /// Bad input.
    pub fn input(why: impl std::fmt::Display) -> Failure {
        Failure::Input(why.to_string())
    }
    /// Failed work.
    pub fn work(why: impl std::fmt::Display) -> Failure {
        Failure::Work(why.to_string())
    }
}

impl Failure {
    /// Names the place of wrong input or failed work before the message.
    #[must_use]
    pub fn at(self, place: impl std::fmt::Display) -> Failure {
        match self {
            Failure::Input(why) => Failure::Input(format!("{place}: {why}")),
            Failure::Work(why) => Failure::Work(format!("{place}: {why}")),
            other => other,
        }
    }

    /// Of a checked experiment that cannot run: routes, tables and hosts follow from it; programs and switches
    /// are ours.
    pub fn of_run(error: RunError) -> Failure {
        match error {
            RunError::Artifact(_) | RunError::Switch { .. } => Failure::work(error),
            _ => Failure::input(error),
        }
    }
}

impl From<DirError> for Failure {
    fn from(error: DirError) -> Failure {
        match error {
            DirError::Io { .. } => Failure::work(error),
            DirError::Foreign { .. } | DirError::NotADirectory { .. } | DirError::InUse { .. } => {
                Failure::input(error)
            }
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::NobodyListens,
            _ => Failure::Work(format!("output: {error}")),
        }
    }
}

/// Standard output and error, and what may be done with them.
pub struct Console {
    /// Results go here.
    pub out: Box<dyn Write>,
    /// Whether bold letters are welcome in [`out`](Self::out).
    pub styled: bool,
    /// Whether somebody watches standard error, so that progress is worth showing.
    pub watched: bool,
    /// The schemes that this program knows.
    pub registry: Registry,
}

impl Console {
    /// The process's own, in a program that knows these schemes. Styles follow <https://no-color.org>.
    pub fn standard(registry: Registry) -> Console {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Console {
            out: Box::new(io::stdout().lock()),
            styled: io::stdout().is_terminal() && !plain,
            watched: io::stderr().is_terminal(),
            registry,
        }
    }

    /// Says something on standard error that is no failure.
    pub fn warn(&self, what: &str) {
        // If standard error is gone there is nobody to tell.
        let _ = writeln!(io::stderr(), "warning: {what}");
    }

    /// Says on standard error why a command failed, and turns its outcome into an exit status.
    pub fn close(mut self, outcome: Result<(), Failure>) -> ExitCode {
        let outcome = outcome.and_then(|()| Ok(self.out.flush()?));
        let (status, message) = match outcome {
            Ok(()) | Err(Failure::NobodyListens) => return ExitCode::SUCCESS,
            Err(Failure::Work(why)) => (1, format!("error: {why}")),
            Err(Failure::Input(why)) => (2, format!("error: {why}")),
            Err(Failure::Interrupted(why)) => (130, format!("interrupted: {why}")),
        };
        // If standard error is gone too, the exit status has to say it all.
        let _ = writeln!(io::stderr(), "{}", message.trim_end());
        ExitCode::from(status)
    }
}
