//! `weir controller plan`: prints the planned entries.

use super::fabric::{FabricArgs, ProgramArgs};
use super::tables::print_entries;
use crate::commands::files::write;
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use clap::ValueEnum;
use p4runtime::p4::v1::{Entity, Update};
use std::io::Write;
use std::path::{Path, PathBuf};
use weir_controller::plan;
use weir_controller::pretty;
use weir_controller::runtime_json::RuntimeJson;

/// Print the planned table entries of every switch
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    program: ProgramArgs,
    /// Print only this switch
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    format: Format,
    /// Output directory of --format runtime-json
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    out: PathBuf,
    #[command(flatten)]
    output: QueryOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line per entry
    Text,
    /// One JSON object with an array per switch
    Json,
    /// One sX-runtime.json per switch, as in the p4 tutorials
    RuntimeJson,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let fabric = args.fabric.load(&console.extensions.catalogue.topologies)?;
    let program = args.program.load()?;
    let options = args.program.options(&fabric, &program)?;
    let mut plan =
        plan(&fabric.topology, &fabric.routes, &options, &program.index).map_err(Failure::input)?;
    if let Some(only) = &args.only {
        if !plan.contains_key(only) {
            return Err(Failure::Input(format!("--only {only}: unknown switch")));
        }
        plan.retain(|name, _| name == only);
    }
    let lines = |updates: &[Update]| -> Vec<String> {
        let entities = updates.iter().filter_map(|update| update.entity.as_ref());
        entities.map(|entity| pretty::entity(entity, &program.index)).collect()
    };
    // In topology order: s2 before s10.
    let ordered =
        fabric.topology.switches.iter().filter_map(|switch| Some((&switch.name, plan.get(&switch.name)?)));
    match if console.style.json { Format::Json } else { args.format } {
        Format::Text => {
            for (name, updates) in ordered {
                print_entries(console, name, &lines(updates))?;
            }
        }
        Format::Json => {
            let all: serde_json::Map<String, serde_json::Value> =
                ordered.map(|(name, updates)| (name.clone(), lines(updates).into())).collect();
            console.print_json(&all)?;
        }
        Format::RuntimeJson if program.is_for_tofino() => {
            return Err(Failure::input(
                "--format runtime-json requires a program for BMv2; with a program for Tofino use text or json",
            ));
        }
        Format::RuntimeJson => {
            let (p4info, json) = args.program.paths()?;
            let (p4info, json) = (p4info.display().to_string(), json.display().to_string());
            std::fs::create_dir_all(&args.out).map_err(|error| input_error(&args.out, &error))?;
            for (name, updates) in ordered {
                let entities: Vec<Entity> =
                    updates.iter().filter_map(|update| update.entity.clone()).collect();
                let file = RuntimeJson::from_entities(&entities, &program.index, &p4info, &json)
                    .map_err(Failure::input)?;
                let path = args.out.join(format!("{name}-runtime.json"));
                let text = serde_json::to_string_pretty(&file).map_err(Failure::work)?;
                write(&path, (text + "\n").as_bytes())?;
                writeln!(console.out, "{}: {} entries", path.display(), entities.len())?;
            }
        }
    }
    Ok(())
}

fn input_error(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Input(format!("{}: {error}", path.display()))
}
