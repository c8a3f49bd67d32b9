//! `weir controller tables`: shows the entries of switches.

use super::fabric::imported_topology;
use super::switches::{Protocol, SwitchArgs, block_on, check_outcomes, errors_by_switch};
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use serde_json::{Map, json};
use std::io::Write;
use std::path::PathBuf;
use weir_client::fleet;
use weir_controller::pretty;

/// Show the entries of switches with any program
///
/// Read-only; need not be the primary controller. The program is read from the switch.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir controller tables --topology fabric.yaml
  weir controller tables s1 s2 --topology fabric.yaml --json

Exit status: 0 success; 1 a switch did not respond or runs no program; 2 invalid input.")]
pub(super) struct Args {
    /// Switches to read [default: all]
    #[arg(value_name = "SWITCH")]
    only: Vec<String>,

    /// Topology file in any format that `weir controller plan --topology` accepts
    #[arg(long, short, value_name = "FILE")]
    topology: PathBuf,

    #[command(flatten)]
    switches: SwitchArgs,
    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let (topology, imported) = imported_topology(&args.topology, &console.extensions.catalogue.topologies)?;
    if let Some(unknown) = args.only.iter().find(|name| topology.switch_named(name).is_none()) {
        return Err(Failure::Input(format!("unknown switch {unknown}")));
    }
    let mut targets = args.switches.targets(&topology, imported.as_ref(), Protocol::P4Runtime)?;
    targets.retain(|target| args.only.is_empty() || args.only.contains(&target.name));
    let names: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
    let outcomes = block_on(fleet::read_switches(targets, args.switches.options()?))?;
    let mut entries_by_switch = Map::new();
    // In topology order: s2 before s10.
    for name in names {
        let Some(Ok(contents)) = outcomes.get(&name) else { continue };
        let lines = contents.entities.iter().map(|entity| pretty::entity(entity, &contents.program.index));
        let lines: Vec<String> = lines.collect();
        if !console.style.json {
            print_entries(console, &name, &lines)?;
        }
        entries_by_switch.insert(name, lines.into());
    }
    if console.style.json {
        console.print_json(&json!({"switches": entries_by_switch, "failed": errors_by_switch(&outcomes)}))?;
    }
    check_outcomes(&outcomes)
}

/// Prints the entries of one switch.
pub(super) fn print_entries(console: &mut Console, switch: &str, entries: &[String]) -> Result<(), Failure> {
    writeln!(console.out, "{switch}: {} entries", entries.len())?;
    entries.iter().try_for_each(|entry| Ok(writeln!(console.out, "  {entry}")?))
}
