//! `weir controller apply`: writes the planned entries to the switches.

use super::fabric::{FabricArgs, ProgramArgs};
use super::switches::{SwitchArgs, block_on, check_outcomes, errors_by_switch};
use super::tasks::tasks;
use crate::console::{Console, Failure};
use crate::output::ActionOutput;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::time::Instant;
use weir_client::fleet::{self, ApplySummary, OnFailure, Outcomes};
use weir_controller::topology::Topology;
use weir_report::table::fit;

/// Write the planned entries that differ to the switches
///
/// Pushes the program to switches that run a different one, reads their tables, writes the differences in an order
/// that creates no loops and no references to missing objects, and reads back. Entries that are not in the plan are
/// deleted. If a switch cannot be reached, nothing is written to any switch; if one fails later, the others are
/// stopped before packets can loop. With a p4 tutorials topology.json and no --program, the entries are those of its
/// runtime_json files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 all switches hold the plan; 1 a switch failed; 2 invalid input.")]
pub(super) struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    switches: SwitchArgs,

    /// Write the other switches if some cannot be reached; packets may loop between new and old routes
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    output: ActionOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let fabric = args.fabric.load(&console.extensions.catalogue.topologies)?;
    let tasks = tasks(&fabric, &args.program, &args.switches)?;
    for task in &tasks {
        console.detail(format_args!(
            "{}: {}, device {}",
            task.target.name, task.target.address, task.target.device_id
        ));
    }
    let start = Instant::now();
    let on_failure = if args.partial { OnFailure::WriteOthers } else { OnFailure::WriteNone };
    let outcomes = block_on(fleet::apply(tasks, args.switches.options()?, on_failure))?;
    let elapsed = start.elapsed();
    if console.style.json {
        console.print_json(&json!({
            "switches": changes(&outcomes), "failed": errors_by_switch(&outcomes), "seconds": elapsed.as_secs_f64(),
        }))?;
        return check_complete(&outcomes);
    }
    if console.style.quiet {
        return check_complete(&outcomes);
    }
    let mut table = table(&fabric.topology, &outcomes);
    fit(&mut table, console.width);
    writeln!(console.out, "{table}")?;
    check_complete(&outcomes)?;
    writeln!(console.out, "{} switches as planned after {:.2} s", outcomes.len(), elapsed.as_secs_f64())?;
    Ok(())
}

/// Returns an error if a switch failed: the reason of each, the state of the other switches, and the remedy.
fn check_complete(outcomes: &Outcomes<ApplySummary>) -> Result<(), Failure> {
    let mut total = ApplySummary::default();
    outcomes.values().flatten().for_each(|summary| total += summary);
    let others = match total {
        ApplySummary { unwritten: 0, .. } => return check_outcomes(outcomes),
        ApplySummary { pushed: false, inserted: 0, modified: 0, deleted: 0, .. } => {
            "no other switch was written, as packets could loop between new and old routes: apply again when all switches \
             respond, or write the others with --partial"
                .to_owned()
        }
        ApplySummary { unwritten, .. } => format!(
            "the others were stopped before packets could loop, {unwritten} updates are left: apply again when all switches respond"
        ),
    };
    check_outcomes(outcomes).map_err(|failure| Failure::Work(format!("{failure}; {others}")))
}

/// Returns the changes made to each switch that has not failed.
fn changes(outcomes: &Outcomes<ApplySummary>) -> Map<String, Value> {
    let changes = outcomes.iter().filter_map(|(name, outcome)| {
        let summary = outcome.as_ref().ok()?;
        let counts = json!({
            "pushed": summary.pushed, "inserted": summary.inserted, "modified": summary.modified,
            "deleted": summary.deleted, "unchanged": summary.unchanged, "left": summary.unwritten,
        });
        Some((name.clone(), counts))
    });
    changes.collect()
}

fn table(topology: &Topology, outcomes: &Outcomes<ApplySummary>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // Updates are left if the command stopped before they were written.
    let has_unwritten = outcomes.values().flatten().any(|summary| summary.unwritten > 0);
    let header = ["switch", "program", "inserted", "modified", "deleted", "unchanged"];
    table.set_header(header.into_iter().chain(has_unwritten.then_some("left")));
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for switch in &topology.switches {
        match outcomes.get(&switch.name) {
            Some(Ok(summary)) => {
                let program = if summary.pushed { "pushed" } else { "present" };
                let counts = [summary.inserted, summary.modified, summary.deleted, summary.unchanged];
                let counts = counts
                    .into_iter()
                    .chain(has_unwritten.then_some(summary.unwritten))
                    .map(|n| n.to_string());
                table.add_row([switch.name.clone(), program.to_owned()].into_iter().chain(counts));
            }
            Some(Err(_)) => {
                table.add_row([switch.name.as_str(), "failed"]);
            }
            None => {}
        }
    }
    table
}
