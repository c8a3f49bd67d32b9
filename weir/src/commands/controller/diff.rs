//! `weir controller diff`

use super::block_on;
use super::fabric::{FabricArgs, ProgramArgs};
use super::switches::{SwitchArgs, failure};
use super::tasks::tasks;
use crate::console::{Console, Failure};
use std::io::Write;
use weir_client::fleet::{self, Task};
use weir_controller::reconcile::difference;
use weir_controller::words;

/// Show what `apply` would write: + insert, ~ modify, - delete
///
/// Only reads, and needs not be the primary controller.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 nothing differs; 1 something does, or a switch cannot be read; 2 the input is wrong.")]
pub struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    switches: SwitchArgs,
}

/// Does it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let fabric = args.fabric.load(&console.kit.catalogue.topologies)?;
    let tasks = tasks(&fabric, &args.program, &args.switches)?;
    let outcomes = block_on(fleet::read(tasks.clone(), args.switches.options()))?;
    let (mut differing, mut steps) = (0, 0);
    for Task { target, program, goal } in &tasks {
        let Some(Ok(actual)) = outcomes.get(&target.name) else { continue };
        let difference = difference(goal, actual, &program.index);
        if difference.steps.is_empty() {
            continue;
        }
        (differing, steps) = (differing + 1, steps + difference.steps.len());
        writeln!(console.out, "{}:", target.name)?;
        for step in &difference.steps {
            writeln!(console.out, "  {}", words::update(&step.update, &program.index))?;
        }
    }
    failure(&outcomes)?;
    if differing == 0 {
        writeln!(console.out, "{} switches are as planned", outcomes.len())?;
        return Ok(());
    }
    Err(Failure::Work(format!(
        "{differing} of {} switches differ from the plan, {steps} updates",
        outcomes.len()
    )))
}
