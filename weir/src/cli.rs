//! The program `weir`, which other crates can build with schemes of their own.

use crate::commands::CommandLine;
use crate::console::Console;
use crate::{huge_pages, interrupt};
use clap::FromArgMatches as _;
use std::process::ExitCode;
use weir_experiment::topologies::TopologyKind;
use weir_experiment::workload::Workload;
use weir_host::scheme::Scheme;
use weir_report::Extensions;
use weir_report::SectionBuilder;

/// The command line of Weir with schemes, workloads, topologies and charts of a crate's own.
///
/// A crate with a scheme of its own builds a program that has all commands, and knows that scheme wherever a
/// scheme can be named: in experiment files, `weir schemes`, policies, agents on raw sockets and reports.
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
    kit: Extensions,
}

impl Cli {
    /// Returns the command line with what comes with Weir.
    #[must_use]
    pub fn new() -> Cli {
        Cli { kit: Extensions::default() }
    }

    /// Adds a scheme.
    ///
    /// # Panics
    ///
    /// If there is a scheme of that name already.
    #[must_use]
    #[track_caller]
    pub fn scheme<S: Scheme>(mut self) -> Cli {
        self.kit.catalogue.schemes = self.kit.catalogue.schemes.with::<S>();
        self
    }

    /// Adds a kind of workload.
    ///
    /// # Panics
    ///
    /// If there is a kind of that name already, be it one of Weir's.
    #[must_use]
    #[track_caller]
    pub fn workload<W: Workload>(mut self) -> Cli {
        self.kit.catalogue.workloads = self.kit.catalogue.workloads.with::<W>();
        self
    }

    /// Adds a kind of topology.
    ///
    /// # Panics
    ///
    /// If there is a kind of that name already, be it one of Weir's.
    #[must_use]
    #[track_caller]
    pub fn topology<T: TopologyKind>(mut self) -> Cli {
        self.kit.catalogue.topologies = self.kit.catalogue.topologies.with::<T>();
        self
    }

    /// Adds a section to every report.
    #[must_use]
    pub fn chart(mut self, chart: SectionBuilder) -> Cli {
        self.kit.charts.push(chart);
        self
    }

    /// Runs the command that the process was started with, and returns its exit status.
    ///
    /// For a command that runs experiments in virtual time, the process executes its program once more, with
    /// `GLIBC_TUNABLES` set for huge pages. Call this first in `main`: what comes before happens twice.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let parsed = CommandLine::describe(&self.kit.catalogue).try_get_matches();
        let line = match parsed.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
            Ok(line) => line,
            Err(error) => return report_parse_error(&error),
        };
        if line.runs_in_virtual_time() {
            huge_pages::reexec_with_huge_pages();
        }
        interrupt::catch_file_limit();
        let mut console = Console::standard(self.kit);
        let outcome = line.run(&mut console);
        console.close(outcome)
    }
}

/// Prints what is wrong with the command line, or the help that it asks for.
fn report_parse_error(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let is_diff = std::env::args().skip(1).take(2).eq(["controller", "diff"]);
    // Status 2 of that command says that something differs.
    let status = if is_diff && error.use_stderr() { 1 } else { error.exit_code() };
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}

impl Default for Cli {
    fn default() -> Cli {
        Cli::new()
    }
}
