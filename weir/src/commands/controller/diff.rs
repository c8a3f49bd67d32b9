//! `weir controller diff`: shows what `apply` would write.

use super::fabric::{FabricArgs, ProgramArgs};
use super::switches::{SwitchArgs, block_on, check_outcomes, errors_by_switch};
use super::tasks::tasks;
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use p4runtime::p4::v1::Entity;
use serde_json::{Map, json};
use std::io::Write;
use weir_client::ClientError;
use weir_client::fleet::{self, Outcomes, SwitchTask};
use weir_controller::pretty;
use weir_controller::reconcile::diff;

/// Show what `apply` would write: + insert, ~ modify, - delete
///
/// Read-only; need not be the primary controller. For a switch that runs a different program or none, the
/// output contains the push of the program and all entries.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit status: 0 no differences; 1 invalid input, or a switch cannot be read; 2 differences.")]
pub(super) struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    switches: SwitchArgs,
    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    // Exit status 2 is reserved for differences, so invalid input ends with status 1 here.
    compare(args, console).map_err(|failure| match failure {
        Failure::Input(reason) => Failure::Work(reason),
        other => other,
    })
}

fn compare(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let fabric = args.fabric.load(&console.extensions.catalogue.topologies)?;
    let tasks = tasks(&fabric, &args.program, &args.switches)?;
    let outcomes = block_on(fleet::read(tasks.clone(), args.switches.options()?))?;
    // `apply` would push the program to a switch that runs a different program or none, which clears its
    // tables.
    let outcomes: Outcomes<Option<Vec<Entity>>> = outcomes
        .into_iter()
        .map(|(name, held)| match held {
            Err(ClientError::OtherProgram | ClientError::NoProgram) => (name, Ok(None)),
            held => (name, held.map(Some)),
        })
        .collect();
    let (mut differing, mut steps) = (Map::new(), 0);
    for SwitchTask { target, program, desired } in &tasks {
        let Some(Ok(held)) = outcomes.get(&target.name) else { continue };
        let difference = diff(desired, held.as_deref().unwrap_or_default(), &program.index);
        if difference.steps.is_empty() && held.is_some() {
            continue;
        }
        steps += difference.steps.len();
        let push = held.is_none().then(|| "push the program".to_owned());
        let updates = difference.steps.iter().map(|step| pretty::update(&step.update, &program.index));
        let updates: Vec<String> = push.into_iter().chain(updates).collect();
        if !console.style.json {
            writeln!(console.out, "{}:", target.name)?;
            for update in &updates {
                writeln!(console.out, "  {update}")?;
            }
        }
        differing.insert(target.name.clone(), updates.into());
    }
    if console.style.json {
        let equal = differing.is_empty() && outcomes.values().all(Result::is_ok);
        console.print_json(
            &json!({"equal": equal, "differing": differing, "failed": errors_by_switch(&outcomes)}),
        )?;
    }
    check_outcomes(&outcomes)?;
    if differing.is_empty() {
        if !console.style.json {
            writeln!(console.out, "{} switches are as planned", outcomes.len())?;
        }
        return Ok(());
    }
    Err(Failure::Differs(format!(
        "{} of {} switches differ from the plan, {steps} updates; the plan is for a fabric whose links are all up, and \
         `weir controller watch` changes routes while a link is down",
        differing.len(),
        outcomes.len()
    )))
}
