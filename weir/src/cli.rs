//! The entry point of the program `weir`. Other crates use it to build a `weir` that includes their own schemes.

use crate::commands::CommandLine;
use crate::console::Console;
use crate::{huge_pages, interrupt};
use clap::FromArgMatches as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;
use weir_experiment::topologies::TopologyKind;
use weir_experiment::workload::Workload;
use weir_host::scheme::Scheme;
use weir_report::{Extensions, ProgramInfo, SectionBuilder};

/// The command line of Weir, extended with schemes, workloads, topologies and charts of another crate.
///
/// A crate with its own scheme builds a program with all commands of Weir that accepts this scheme wherever a
/// scheme is selected: in experiment files, `weir schemes`, policies, agents on raw sockets and reports.
///
/// ```no_run
/// use std::process::ExitCode;
/// use weir_host::scheme::{FlowParams, Needs, Scheme, Sender, SwitchProgram};
/// # weir_host::parameters! {
/// #     struct MyScheme {}
/// # }
/// # impl Scheme for MyScheme {
/// #     const NAME: &'static str = "mine";
/// #     const ABOUT: &'static str = "Mine: an example";
/// #     fn needs(&self) -> Needs {
/// #         Needs::of(SwitchProgram::Ecn)
/// #     }
/// #     fn sender(&self, _flow: &FlowParams) -> Box<dyn Sender> {
/// #         unreachable!("an example")
/// #     }
/// # }
///
/// fn main() -> ExitCode {
///     weir::Cli::new().scheme::<MyScheme>().run()
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Cli {
    extensions: Extensions,
    /// Whether this program knows schemes, workloads, topologies or charts that `weir` does not know.
    is_extended: bool,
}

/// Returns the name by which the user calls this program.
fn program_name() -> Option<String> {
    let path = std::env::args_os().next()?;
    Some(Path::new(&path).file_name()?.to_string_lossy().into_owned())
}

impl Cli {
    /// Returns the command line with the extensions that are part of Weir.
    #[must_use]
    pub fn new() -> Cli {
        let commit = Some(env!("WEIR_COMMIT").to_owned()).filter(|commit| !commit.is_empty());
        let program = ProgramInfo { commit, ..ProgramInfo::default() };
        Cli { extensions: Extensions { program, ..Extensions::default() }, is_extended: false }
    }

    /// Adds a scheme.
    ///
    /// # Panics
    ///
    /// If there is already a scheme with that name.
    #[must_use]
    #[track_caller]
    pub fn scheme<S: Scheme>(mut self) -> Cli {
        self.is_extended = true;
        self.extensions.catalogue.schemes = self.extensions.catalogue.schemes.with::<S>();
        self
    }

    /// Adds a kind of workload.
    ///
    /// # Panics
    ///
    /// If there is already a workload kind with that name, including those of Weir.
    #[must_use]
    #[track_caller]
    pub fn workload<W: Workload>(mut self) -> Cli {
        self.is_extended = true;
        self.extensions.catalogue.workloads = self.extensions.catalogue.workloads.with::<W>();
        self
    }

    /// Adds a kind of topology.
    ///
    /// # Panics
    ///
    /// If there is already a topology kind with that name, including those of Weir.
    #[must_use]
    #[track_caller]
    pub fn topology<T: TopologyKind>(mut self) -> Cli {
        self.is_extended = true;
        self.extensions.catalogue.topologies = self.extensions.catalogue.topologies.with::<T>();
        self
    }

    /// Adds a section to every report.
    #[must_use]
    pub fn chart(mut self, chart: SectionBuilder) -> Cli {
        self.is_extended = true;
        self.extensions.charts.push(chart);
        self
    }

    /// Parses the arguments of the process, runs the command and returns the exit status.
    ///
    /// For a command that runs experiments in virtual time, the process re-executes its program with
    /// `GLIBC_TUNABLES` set for huge pages. Call this function first in `main`, because code before the call
    /// is executed twice.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let mut command = CommandLine::command_for(&self.extensions.catalogue);
        let matches = command.try_get_matches_from_mut(std::env::args_os());
        let command_line = match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
            Ok(command_line) => command_line,
            Err(error) => return report_parse_error(&with_command_of_option(error, &command)),
        };
        let mut extensions = self.extensions;
        // Reports then name the program that can reproduce them.
        if self.is_extended
            && let Some(name) = program_name()
        {
            extensions.program.name = name;
        }
        if command_line.runs_in_virtual_time() {
            huge_pages::reexec_with_huge_pages();
        }
        interrupt::catch_file_limit();
        let mut console = Console::standard(extensions);
        let outcome = command_line.run(&mut console);
        console.close(outcome)
    }
}

/// Replaces the tip of a usage error about an option that another command has: `weir run --over` is no misspelt `--verbose`.
fn with_command_of_option(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = given.trim_start_matches('-').split('=').next().unwrap_or_default().to_owned();
    let has_option = |command: &&clap::Command| {
        command
            .get_arguments()
            .any(|option| option.get_long_and_visible_aliases().is_some_and(|names| names.contains(&&*name)))
    };
    let owners: Vec<String> = command
        .get_subcommands()
        .filter(has_option)
        .map(|owner| format!("`weir {}`", owner.get_name()))
        .collect();
    // An option of many commands, such as --json, says nothing about what was meant.
    if error.kind() != ErrorKind::UnknownArgument || owners.is_empty() || owners.len() > 3 {
        return error;
    }
    let tip = format!("--{name} is an option of {}", owners.join(", "));
    // The usage has the option that clap took it for.
    error.remove(ContextKind::SuggestedArg);
    error.remove(ContextKind::Usage);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

/// Prints a usage error, or the requested help, and returns the exit status.
fn report_parse_error(error: &clap::Error) -> ExitCode {
    // If the stream is closed, only the exit status reports the error.
    let _ = print_parse_error(error);
    let is_diff = std::env::args().skip(1).take(2).eq(["controller", "diff"]);
    // `controller diff` follows `terraform plan -detailed-exitcode`, in which 2 means differences. clap's
    // status of usage errors, 2, becomes 1, so that a script does not take a typo for a difference.
    let status = if is_diff && error.use_stderr() { 1 } else { error.exit_code() };
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Prints a usage error, with the words of Rust's parsers replaced by what a value should be.
fn print_parse_error(error: &clap::Error) -> io::Result<()> {
    /// Messages of `str::parse` for integers.
    const WORDS: [(&str, &str); 4] = [
        ("invalid digit found in string", "expected a whole number, 0 or more"),
        ("number would be zero for non-zero type", "must be at least 1"),
        ("number too large to fit in target type", "the number is too large"),
        ("cannot parse integer from empty string", "expected a whole number"),
    ];
    if error.kind() != ErrorKind::ValueValidation {
        return error.print();
    }
    let rendered = error.render();
    let text = if io::stderr().is_terminal() { rendered.ansi().to_string() } else { rendered.to_string() };
    let text = WORDS.iter().fold(text, |text, (word, meaning)| text.replace(word, meaning));
    write!(io::stderr(), "{text}")
}

impl Default for Cli {
    fn default() -> Cli {
        Cli::new()
    }
}
