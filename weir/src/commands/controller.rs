//! `weir controller`: computes, verifies and installs routes over P4Runtime.

mod apply;
mod diff;
mod fabric;
mod link;
mod metrics;
mod plan;
mod rates;
mod registers;
mod switches;
mod tables;
mod tasks;
mod thrift;
mod verify;
mod watch;

use crate::console::{Console, Failure};
use clap::Subcommand;
pub(super) use fabric::{imported_topology, model_topology, topology};
pub(super) use switches::{Protocol, SwitchArgs, block_on, check_outcomes, runtime};
pub(super) use thrift::ThriftArgs;

/// Compute, verify and install routes over P4Runtime
///
/// Computes symmetric routes for a topology, and from the routes the table entries of every switch. `plan`
/// prints these entries, `apply` writes the entries that differ, `diff` shows the differences, `verify`
/// proves the routes correct, and `watch` keeps the switches up to date. The switches may be `weir switch`,
/// BMv2's simple_switch_grpc, or any other switch with P4Runtime and a program of p4src; or Tofino switches,
/// whose driver offers BF Runtime, with a program of p4src/tna.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir controller verify --topology fabric.yaml
  weir controller plan --topology fabric.yaml --program fncc.json
  weir controller apply --topology fabric.yaml --program fncc.json
  weir controller apply --topology fabric.yaml --program fncc.json --switch s1=10.1.0.7:9559
  weir controller apply --topology fabric.yaml --program fncc.bfrt.json
  weir controller diff --topology fabric.yaml --program fncc.json
  weir controller watch --topology fabric.yaml --program fncc.json

fabric.yaml is, for instance, `{kind: leaf-spine, leaves: 4, spines: 2, hosts_per_leaf: 2, rate: 10Mbps}`,
or an experiment file.")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(plan::Args),
    Apply(apply::Args),
    Diff(diff::Args),
    Verify(verify::Args),
    Watch(watch::Args),
    Link(link::Args),
    Rates(rates::Args),
    Registers(registers::Args),
    Tables(tables::Args),
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match &args.command {
        Command::Plan(args) => plan::run(args, console),
        Command::Apply(args) => apply::run(args, console),
        Command::Diff(args) => diff::run(args, console),
        Command::Verify(args) => verify::run(args, console),
        Command::Watch(args) => watch::run(args, console),
        Command::Link(args) => link::run(args, console),
        Command::Rates(args) => rates::run(args, console),
        Command::Registers(args) => registers::run(args, console),
        Command::Tables(args) => tables::run(args, console),
    }
}
