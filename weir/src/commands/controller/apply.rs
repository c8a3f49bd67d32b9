//! `weir controller apply`

use super::block_on;
use super::fabric::{FabricArgs, ProgramArgs};
use super::switches::{SwitchArgs, failed, failure};
use super::tasks::tasks;
use crate::console::{Console, Failure};
use crate::output::ActionOutput;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::time::Instant;
use weir_client::fleet::{self, ApplySummary, Outcomes};
use weir_controller::topology::Topology;
use weir_report::table::fit;

/// Write the planned entries that differ to the switches
///
/// Pushes the program to switches that run another, reads their tables, writes the difference in an order in which no
/// packet loops or refers to what is not there, and reads back. Entries that are not in the plan are deleted. If a switch
/// cannot be reached, nothing is written to any; if one fails later, the others are stopped while no packet loops. With a
/// p4 tutorials topology.json and no --program, the switches get what their runtime_json files list.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 all switches hold the plan; 1 a switch failed; 2 invalid input.")]
pub struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    switches: SwitchArgs,

    /// Write the other switches if some cannot be reached: packets may loop between new routes and what those hold
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    output: ActionOutput,
}

pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let fabric = args.fabric.load(&console.kit.catalogue.topologies)?;
    let tasks = tasks(&fabric, &args.program, &args.switches)?;
    for task in &tasks {
        console.detail(format_args!(
            "{}: {}, device {}",
            task.target.name, task.target.address, task.target.device_id
        ));
    }
    let start = Instant::now();
    let outcomes = block_on(fleet::apply(tasks, args.switches.options()?, args.partial))?;
    let took = start.elapsed();
    if console.style.json {
        console.print_json(&json!({
            "switches": done(&outcomes), "failed": failed(&outcomes), "seconds": took.as_secs_f64(),
        }))?;
        return incomplete(&outcomes);
    }
    if console.style.quiet {
        return incomplete(&outcomes);
    }
    let mut table = table(&fabric.topology, &outcomes);
    fit(&mut table, console.width);
    writeln!(console.out, "{table}")?;
    incomplete(&outcomes)?;
    writeln!(console.out, "{} switches as planned after {:.2} s", outcomes.len(), took.as_secs_f64())?;
    Ok(())
}

/// One failure that gives the reason of each switch that failed, what became of the others, and how to go on.
fn incomplete(outcomes: &Outcomes<ApplySummary>) -> Result<(), Failure> {
    let mut all = ApplySummary::default();
    outcomes.values().flatten().for_each(|applied| all += applied);
    let others = match all {
        ApplySummary { left: 0, .. } => return failure(outcomes),
        ApplySummary { pushed: false, inserted: 0, modified: 0, deleted: 0, .. } => {
            "no other switch was written, as packets could loop between new and old routes: apply again when all print_json, \
             or write the others with --partial"
                .to_owned()
        }
        ApplySummary { left, .. } => format!(
            "the others were stopped before packets could loop, {left} updates are left: apply again when all print_json"
        ),
    };
    failure(outcomes).map_err(|failure| Failure::Work(format!("{failure}; {others}")))
}

/// Returns the changes made to each switch that has not failed.
fn done(outcomes: &Outcomes<ApplySummary>) -> Map<String, Value> {
    let done = outcomes.iter().filter_map(|(name, outcome)| {
        let it = outcome.as_ref().ok()?;
        let counts = json!({
            "pushed": it.pushed, "inserted": it.inserted, "modified": it.modified,
            "deleted": it.deleted, "unchanged": it.unchanged, "left": it.left,
        });
        Some((name.clone(), counts))
    });
    done.collect()
}

fn table(topology: &Topology, outcomes: &Outcomes<ApplySummary>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let is_stopped = outcomes.values().flatten().any(|it| it.left > 0);
    let header = ["switch", "program", "inserted", "modified", "deleted", "unchanged"];
    table.set_header(header.into_iter().chain(is_stopped.then_some("left")));
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for switch in &topology.switches {
        match outcomes.get(&switch.name) {
            Some(Ok(it)) => {
                let program = if it.pushed { "pushed" } else { "present" };
                let counts = [it.inserted, it.modified, it.deleted, it.unchanged];
                let counts = counts.into_iter().chain(is_stopped.then_some(it.left)).map(|n| n.to_string());
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
