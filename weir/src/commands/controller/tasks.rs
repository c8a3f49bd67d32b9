//! Determines the program and the desired entries of every switch: the plan for the topology, or the entries
//! of the runtime_json files of a p4 tutorials topology.

use super::fabric::{Fabric, ProgramArgs, load_program};
use super::switches::{Protocol, SwitchArgs};
use crate::commands::files::read;
use crate::console::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_client::fleet::SwitchTask;
use weir_client::{Program, Target};
use weir_controller::plan::{FORWARD, PlanOptions, desired_states};
use weir_controller::runtime_json::RuntimeJson;
use weir_experiment::yaml::with_file_position;

/// Returns the tasks in topology order.
pub(super) fn tasks(
    fabric: &Fabric,
    program: &ProgramArgs,
    switches: &SwitchArgs,
) -> Result<Vec<SwitchTask>, Failure> {
    match &fabric.imported {
        Some((directory, imported)) if !program.is_given() && !imported.runtime.is_empty() => {
            let targets = switches.targets(&fabric.topology, fabric.imported(), Protocol::P4Runtime)?;
            tasks_from_runtime_json(directory, &imported.runtime, targets)
        }
        _ => {
            let loaded = program.load()?;
            let targets =
                switches.targets(&fabric.topology, fabric.imported(), Protocol::for_program(&loaded))?;
            tasks_from_plan(fabric, program.options(fabric, &loaded)?, &loaded, targets)
        }
    }
}

fn tasks_from_plan(
    fabric: &Fabric,
    options: PlanOptions,
    program: &Arc<Program>,
    targets: Vec<Target>,
) -> Result<Vec<SwitchTask>, Failure> {
    // A program without the table `forward` gets its routes from the entries of the file.
    let file_has_routes = !fabric.entries.is_empty() && program.index.tables.named(FORWARD).is_err();
    let options = PlanOptions { skip_routes: file_has_routes, ..options };
    let mut desired =
        desired_states(&fabric.topology, &fabric.routes, &options, &program.index).map_err(Failure::input)?;
    for ix in fabric.topology.switch_ixs() {
        let state = desired.entry(fabric.topology.switch(ix).name.clone()).or_default();
        for entries in &fabric.entries {
            state.merge(&entries.desired_state(ix, &program.index).map_err(Failure::Input)?);
        }
    }
    let task = |target: Target| {
        let desired = desired.remove(&target.name).unwrap_or_default();
        SwitchTask { target, program: Arc::clone(program), desired }
    };
    Ok(targets.into_iter().map(task).collect())
}

/// Returns the tasks for the switches that have a `sX-runtime.json` file.
fn tasks_from_runtime_json(
    directory: &Path,
    runtime: &BTreeMap<String, String>,
    targets: Vec<Target>,
) -> Result<Vec<SwitchTask>, Failure> {
    // Switches often share a program, which is loaded once. By the paths of program and P4Info.
    let mut programs: BTreeMap<(PathBuf, PathBuf), Arc<Program>> = BTreeMap::new();
    let mut tasks = Vec::new();
    for target in targets {
        let Some(path) = runtime.get(&target.name) else { continue };
        let path = resolve_path(directory, path)?;
        let text = read(&path)?;
        let invalid =
            |reason: String| Failure::Input(with_file_position(&path.display().to_string(), &text, &reason));
        let file = RuntimeJson::parse(&text).map_err(|error| invalid(error.to_string()))?;
        if file.bmv2_json.is_empty() || file.p4info.is_empty() {
            return Err(invalid("missing bmv2_json or p4info; use --program".to_owned()));
        }
        let paths = (resolve_path(directory, &file.bmv2_json)?, resolve_path(directory, &file.p4info)?);
        let program = match programs.get(&paths) {
            Some(program) => Arc::clone(program),
            None => load_program(&paths.0, &paths.1)?,
        };
        let desired = file.desired_state(&program.index).map_err(|error| invalid(error.to_string()))?;
        programs.insert(paths, Arc::clone(&program));
        tasks.push(SwitchTask { target, program, desired });
    }
    Ok(tasks)
}

/// Resolves a path of the p4 tutorials. Such paths are relative to the directory in which `make` is run: the
/// current directory, that of the topology file, or its parent.
fn resolve_path(directory: &Path, path: &str) -> Result<PathBuf, Failure> {
    let dirs = [Path::new(""), directory, directory.parent().unwrap_or(directory)];
    let found = dirs.into_iter().map(|dir| dir.join(path)).find(|path| path.is_file());
    found.ok_or_else(|| {
        Failure::Input(format!(
            "{path} not found in the current directory, in {} or in its parent",
            directory.display()
        ))
    })
}
