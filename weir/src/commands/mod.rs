//! The subcommands of `weir`, one module each.

mod bench;
mod completions;
#[cfg(feature = "full")]
mod controller;
mod estimate;
mod export;
#[cfg(feature = "full")]
mod fabric;
mod files;
#[cfg(feature = "full")]
mod host;
#[cfg(not(feature = "full"))]
mod left_out;
#[cfg(feature = "full")]
mod link;
mod linux;
#[cfg(feature = "full")]
mod man;
#[cfg(feature = "full")]
mod mininet;
mod new;
#[cfg(feature = "full")]
mod policy;
mod program;
mod progress;
mod report;
mod results;
mod run;
mod runs;
mod schema;
mod schemes;
mod stf;
mod sweep;
#[cfg(feature = "full")]
mod switch;
mod threads;
#[cfg(feature = "full")]
mod top;
mod trace;
mod wireshark;

use crate::console::{Console, Failure};
use crate::reference;
use clap::{CommandFactory, Parser, Subcommand};
use weir_experiment::Catalogue;

/// Congestion control for data centre fabrics, switch and host, in virtual time.
///
/// Real P4 programs run packet by packet on an embedded switch, with real host transport and congestion
/// control at the ends, at any link rate. The same file and seed give the same bytes.
#[derive(Debug, Parser)]
#[command(name = "weir", version = env!("WEIR_VERSION"), max_term_width = 100, after_help = EXAMPLES)]
pub struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  weir run experiments/quickstart.yaml    FNCC against HPCC, with a report
  weir run --help                         everything about experiment files
  weir sweep x.yaml --over seed=1..5      means and confidence intervals
  weir runs                               the runs so far, and what differs
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
    Runs(runs::Args),
    Report(report::Args),
    Results(results::Args),
    Stf(stf::Args),
    #[cfg(feature = "full")]
    Switch(switch::Args),
    #[cfg(feature = "full")]
    Top(top::Args),
    Trace(trace::Args),
    Schemes(schemes::Args),
    Schema(schema::Args),
    New(new::Args),
    Bench(bench::Args),
    Completions(completions::Args),
    #[cfg(feature = "full")]
    Man(man::Args),
    Export(export::Args),
    Wireshark(wireshark::Args),
    #[cfg(feature = "full")]
    Host(host::Args),
    #[cfg(feature = "full")]
    Controller(controller::Args),
    #[cfg(feature = "full")]
    Fabric(fabric::Args),
    #[cfg(feature = "full")]
    Link(link::Args),
    #[cfg(feature = "full")]
    Mininet(mininet::Args),
    #[cfg(feature = "full")]
    Policy(policy::Args),
    #[cfg(not(feature = "full"))]
    #[command(flatten)]
    LeftOut(left_out::Command),
}

impl CommandLine {
    /// Returns the command line for a catalogue. The help of `run` lists the keys of that catalogue's
    /// experiment files.
    pub fn command_for(catalogue: &Catalogue) -> clap::Command {
        let keys = reference::terminal(&catalogue.schema());
        let command =
            CommandLine::command().mut_subcommand("run", |run| run.after_long_help(run::help(&keys)));
        with_negative_numbers(command)
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
            Command::Runs(args) => runs::run(args, console),
            Command::Report(args) => report::run(args, console),
            Command::Results(args) => results::run(args, console),
            Command::Stf(args) => stf::run(args, console),
            #[cfg(feature = "full")]
            Command::Switch(args) => switch::run(args, console),
            #[cfg(feature = "full")]
            Command::Top(args) => top::run(args, console),
            Command::Trace(args) => trace::run(args, console),
            Command::Schemes(args) => schemes::run(args, console),
            Command::Schema(args) => schema::run(args, console),
            Command::New(args) => new::run(args, console),
            Command::Bench(args) => bench::run(args, console),
            Command::Completions(args) => {
                completions::run(args, CommandLine::command_for(&console.extensions.catalogue), console)
            }
            #[cfg(feature = "full")]
            Command::Man(args) => {
                // The Markdown page omits the keys of experiment files, which have a page of their own.
                let command = match args.markdown {
                    true => CommandLine::command(),
                    false => CommandLine::command_for(&console.extensions.catalogue),
                };
                man::run(args, command, console)
            }
            Command::Export(args) => export::run(args, console),
            Command::Wireshark(args) => wireshark::run(args, console),
            #[cfg(feature = "full")]
            Command::Host(args) => host::run(args, console),
            #[cfg(feature = "full")]
            Command::Controller(args) => controller::run(args, console),
            #[cfg(feature = "full")]
            Command::Fabric(args) => fabric::run(args, console),
            #[cfg(feature = "full")]
            Command::Link(args) => link::run(args, console),
            #[cfg(feature = "full")]
            Command::Mininet(args) => mininet::run(args, console),
            #[cfg(feature = "full")]
            Command::Policy(args) => policy::run(args, console),
            #[cfg(not(feature = "full"))]
            Command::LeftOut(command) => Err(command.refusal()),
        }
    }
}

/// Lets every option have a negative number as its value. For those that take none, the message is then about the value
/// and not about an unknown option `-1`.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let is_option = |arg: &clap::Arg| arg.get_long().is_some() && arg.get_action().takes_values();
    let allow = |arg: clap::Arg| if is_option(&arg) { arg.allow_negative_numbers(true) } else { arg };
    command.mut_args(allow).mut_subcommands(with_negative_numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid() {
        CommandLine::command_for(&Catalogue::builtin()).debug_assert();
    }

    /// Only commands that simulate in this process re-execute the program for huge pages.
    #[test]
    fn commands_that_simulate_are_recognised() {
        for (line, expected) in [
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
            assert_eq!(parsed.runs_in_virtual_time(), expected, "{line}");
        }
    }
}
