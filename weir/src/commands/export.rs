//! `weir export`: writes an experiment for the HPCC simulator.

use super::files::{create_dir, write};
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use std::io::Write;
use std::path::PathBuf;
use weir_controller::export::hpcc_topology;
use weir_experiment::workload::{Arrival, write_flow_file};
use weir_experiment::{Experiment, Flow};
use weir_units::Bytes;

/// Export an experiment's topology and flows for the HPCC simulator
///
/// Writes topology.txt and flow.txt in that simulator's formats, with the same graph, and the same flows at
/// the same times. Experiments can read such files too: `topology: {kind: file, path: ..}` and `workload:
/// {kind: file, path: ..}`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Experiment file (YAML)
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Override a key, as in `weir run`
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Seed of all random streams, instead of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Output directory; created if it is missing
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,

    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let experiment = Experiment::load_with(&console.extensions.catalogue, &args.file, &args.set, args.seed)
        .map_err(Failure::input)?;
    let flows = experiment.all_flows().map_err(Failure::input)?;
    let topology = &experiment.topology;
    let unsized_flows = flows.iter().filter(|flow| flow.size.is_none()).count();
    let arrivals: Vec<Arrival> = flows.into_iter().filter_map(to_arrival).collect();
    let dir = create_dir(&args.out)?;
    let files =
        [("topology.txt", hpcc_topology(topology)), ("flow.txt", write_flow_file(topology, &arrivals))];
    let mut paths = Vec::new();
    for (name, text) in files {
        let path = dir.join(name);
        write(&path, text.as_bytes())?;
        paths.push(path);
    }
    if console.style.json {
        return console.print_json(&serde_json::json!({"files": paths, "flows_left_out": unsized_flows}));
    }
    for path in &paths {
        writeln!(console.out, "{}", path.display())?;
    }
    if unsized_flows > 0 {
        writeln!(
            console.out,
            "{unsized_flows} flows without a size are omitted: the format requires a size."
        )?;
    }
    Ok(())
}

/// Converts a flow; `None` if it has no size.
fn to_arrival(flow: Flow) -> Option<Arrival> {
    let Flow { from, to, start, size, announces, incast, .. } = flow;
    let size: Bytes = size?;
    Some(Arrival { from, to, start, size, announces, incast, tag: 0 })
}
