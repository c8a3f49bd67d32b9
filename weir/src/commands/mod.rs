//! The subcommands of `weir`, one module each.

mod bench;
mod completions;
mod controller;
mod estimate;
mod export;
mod fabric;
mod host;
mod link;
mod man;
mod mininet;
mod new;
mod policy;
mod progress;
mod report;
mod results;
mod run;
mod schema;
mod schemes;
mod stf;
mod sweep;
mod switch;
mod top;
mod trace;
mod wireshark;

use crate::console::{Console, Failure};
use crate::interrupt::interrupted;
use crate::reference;
use clap::{CommandFactory, Parser, Subcommand};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use weir_experiment::Catalogue;
use weir_experiment::input::read_text;
use weir_experiment::yaml::with_file_position;
use weir_report::files::{MODE_PUBLIC, write_atomic};
use weir_report::output::OutputFile;
use weir_report::sweep::pool::{Pool, cores};
use weir_sim::Simulation;
use weir_switch::program::{self, Program};

/// Congestion control for data centre fabrics, switch and host, in virtual time.
///
/// Real P4 programs run packet by packet on an embedded switch, with real host transport and congestion
/// control at the ends, at any link rate. The same file and seed give the same bytes.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  weir run experiments/quickstart.yaml    FNCC against HPCC, with a report
  weir run --help                         everything about experiment files
  weir sweep x.yaml --over seed=1..5      means and confidence intervals
  weir report runs/a runs/b               runs side by side on one page
  weir schemes fncc                       FNCC's parameters and their sources
  weir new p4 mine                        a P4 program of your own, ready to run
  weir stf p4src/build/fncc.json p4src/tests/fncc/*.stf

Exit status: 0 success; 1 failure; 2 invalid input;
130 interrupted, partial results are kept.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Sweep(sweep::Args),
    Report(report::Args),
    Results(results::Args),
    Stf(stf::Args),
    Switch(switch::Args),
    Top(top::Args),
    Trace(trace::Args),
    Schemes(schemes::Args),
    Schema(schema::Args),
    New(new::Args),
    Bench(bench::Args),
    Completions(completions::Args),
    Man(man::Args),
    Export(export::Args),
    Wireshark(wireshark::Args),
    Host(host::Args),
    Controller(controller::Args),
    Fabric(fabric::Args),
    Link(link::Args),
    Mininet(mininet::Args),
    Policy(policy::Args),
}

impl CommandLine {
    /// Returns the command line for a catalogue. The help of `run` lists the keys of that catalogue's
    /// experiment files.
    pub fn describe(catalogue: &Catalogue) -> clap::Command {
        let keys = reference::terminal(&catalogue.schema());
        CommandLine::command().mut_subcommand("run", |run| run.after_long_help(run::help(&keys)))
    }

    /// Returns true if this process runs experiments in virtual time; `main` then enables huge pages.
    pub(crate) fn runs_in_virtual_time(&self) -> bool {
        match &self.command {
            Command::Run(args) => args.runs_in_virtual_time(),
            Command::Sweep(args) => args.runs_in_virtual_time(),
            Command::Results(_) => true,
            _ => false,
        }
    }

    /// Runs the subcommand.
    ///
    /// # Errors
    ///
    /// The failure of the subcommand, which determines the exit status.
    pub fn run(&self, console: &mut Console) -> Result<(), Failure> {
        match &self.command {
            Command::Run(args) => run::run(args, console),
            Command::Sweep(args) => sweep::run(args, console),
            Command::Report(args) => report::run(args, console),
            Command::Results(args) => results::run(args, console),
            Command::Stf(args) => stf::run(args, console),
            Command::Switch(args) => switch::run(args, console),
            Command::Top(args) => top::run(args, console),
            Command::Trace(args) => trace::run(args, console),
            Command::Schemes(args) => schemes::run(args, console),
            Command::Schema(args) => schema::run(args, console),
            Command::New(args) => new::run(args, console),
            Command::Bench(args) => bench::run(args, console),
            Command::Completions(args) => completions::run(args, console),
            Command::Man(args) => man::run(args, console),
            Command::Export(args) => export::run(args, console),
            Command::Wireshark(args) => wireshark::run(args, console),
            Command::Host(args) => host::run(args, console),
            Command::Controller(args) => controller::run(args, console),
            Command::Fabric(args) => fabric::run(args, console),
            Command::Link(args) => link::run(args, console),
            Command::Mininet(args) => mininet::run(args, console),
            Command::Policy(args) => policy::run(args, console),
        }
    }
}

/// Creates a directory if it is missing, and returns its absolute path.
fn dir(path: &Path) -> Result<std::path::PathBuf, Failure> {
    std::fs::create_dir_all(path)
        .and_then(|()| path.canonicalize())
        .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// Opens the output file that an option names, before there is anything to write. An error names option and file.
fn output(option: &str, path: &Path) -> Result<OutputFile, Failure> {
    OutputFile::open(path).map_err(|error| Failure::Input(format!("{option} {}: {error}", path.display())))
}

/// Writes a file atomically; an error names the file.
fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    write_atomic(path, content, MODE_PUBLIC)
        .map_err(|error| Failure::Work(format!("{}: {error}", path.display())))
}

/// Reads a text file; an error names the file.
fn read(path: &Path) -> Result<String, Failure> {
    read_text(path).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// Returns a memory counter of this process in bytes, from `/proc/self/status`: `VmHWM:` is the peak resident
/// set, `VmRSS:` the current one. `None` where there is no such file (not Linux).
fn memory_bytes(what: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(what))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Loads a compiled P4 program. An error names the file and, where known, the position in it.
fn load_program(path: &Path, engine: Engine) -> Result<Arc<Program>, Failure> {
    let text = read(path)?;
    if path.extension().is_some_and(|extension| extension == "p4") {
        let (source, program) = (path.display(), path.with_extension("json"));
        return Err(Failure::Input(format!(
            "{source}: P4 source is not accepted; compile it first with p4c-bm2-ss -o {} {source}",
            program.display()
        )));
    }
    let name = path.display().to_string();
    Program::load(&text, engine.into())
        .map_err(|error| Failure::Input(with_file_position(&name, &text, &error.to_string())))
}

/// How a switch executes its P4 program
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// Compile the program when it is loaded
    #[default]
    Compiled,
    /// Reference interpreter (slower)
    Interpreter,
}

impl From<Engine> for program::Engine {
    fn from(engine: Engine) -> program::Engine {
        match engine {
            Engine::Compiled => program::Engine::Compiled,
            Engine::Interpreter => program::Engine::Interpreter,
        }
    }
}

/// Returns the number of threads: `threads` if given, otherwise one per core, but at least `jobs`.
fn at_most(jobs: Option<usize>, threads: Option<NonZeroUsize>) -> usize {
    threads.map_or_else(|| cores().max(jobs.unwrap_or(1)), NonZeroUsize::get)
}

/// Returns the thread pool of a sweep: `jobs` concurrent runs (default: one per thread) on `threads` threads
/// (default: one per core, but at least `jobs`).
fn pool((jobs, threads): (Option<u32>, Option<NonZeroUsize>), console: &Console) -> Pool {
    let threads = at_most(jobs.map(|jobs| jobs as usize), threads);
    Pool {
        backend: |cores| Box::new(Simulation::with_cores(cores)),
        is_cancelled: interrupted,
        jobs: jobs.map_or(threads, |jobs| jobs as usize),
        threads,
        watched: console.show_progress,
        verbose: console.style.verbose,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        CommandLine::describe(&Catalogue::builtin()).debug_assert();
    }

    /// Only what simulates here starts the program anew.
    #[test]
    fn commands_that_simulate_are_known() {
        for (line, simulates) in [
            ("run x.yaml", true),
            ("run x.yaml --check", false),
            ("run x.yaml --backend mininet", false),
            ("sweep x.yaml", true),
            ("sweep x.yaml --engine slurm", false),
            ("sweep x.yaml --engine ray", false),
            ("results", true),
            ("schemes", false),
        ] {
            let words = ["weir"].into_iter().chain(line.split(' '));
            let parsed = CommandLine::try_parse_from(words).unwrap();
            assert_eq!(parsed.runs_in_virtual_time(), simulates, "{line}");
        }
    }

    #[test]
    fn help_reads_well() {
        let mut cli = CommandLine::describe(&Catalogue::builtin()).term_width(80);
        cli.build();
        insta::assert_snapshot!("help", cli.render_long_help());
        for command in cli.get_subcommands_mut().filter(|c| c.get_name() != "help") {
            let name = format!("help_{}", command.get_name());
            insta::assert_snapshot!(name, command.render_long_help());
        }
    }
}
