//! `weir bench --scaling`: measures fat-trees of several sizes on one thread and predicts their speed on more
//! threads.

use super::output::columns;
use crate::commands::linux::memory_bytes;
use crate::console::{Console, Failure};
use serde_json::json;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use weir_experiment::Experiment;
use weir_report::format;
use weir_sim::Simulation;
use weir_sim::forecast::ScalingForecast;

const FAT_TREE: &str = include_str!("../../../assets/fat-tree-k16.yaml");
/// Numbers of threads for which the speed is predicted.
const THREADS: [usize; 6] = [1, 2, 8, 16, 32, 64];

/// The result for one fat-tree.
struct Fabric {
    k: u32,
    hosts: usize,
    packet_hops: u64,
    /// Synchronisation windows of the run.
    windows: u64,
    /// Packet-hops per second for each number of threads in [`THREADS`].
    per_second: Vec<f64>,
}

/// Runs the fat-tree of arity `k` on one thread.
fn measure(k: u32) -> Result<Fabric, Failure> {
    let overrides = [format!("topology.k={k}"), "duration=100us".to_owned(), "schemes=[hpcc]".to_owned()];
    let experiment = Experiment::parse(FAT_TREE, "fat-tree-k16.yaml", "fat-tree", &overrides, None)
        .map_err(Failure::input)?;
    let forecast = Arc::new(Mutex::new(ScalingForecast::new(&THREADS)));
    let virtual_time = Simulation { forecast: Some(Arc::clone(&forecast)), ..Simulation::new(1) };
    let results = weir_sim::run_on(&experiment, &virtual_time, &mut ()).map_err(Failure::work)?;
    let packet_hops = results.summary.packet_hops;
    let forecast = forecast.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Fabric {
        k,
        hosts: experiment.topology.hosts.len(),
        packet_hops,
        windows: forecast.windows(),
        per_second: forecast
            .predicted_times()
            .map(|(_, time)| packet_hops as f64 / time.as_secs_f64().max(1e-9))
            .collect(),
    })
}

pub(super) fn run(arities: &[u32], console: &mut Console) -> Result<(), Failure> {
    let fabrics = arities.iter().map(|&k| measure(k)).collect::<Result<Vec<_>, _>>()?;
    if console.style.json {
        let rows = fabrics.iter().map(|fabric| {
            let forecast = THREADS.iter().zip(&fabric.per_second).map(
                |(threads, per_second)| json!({"threads": threads, "packet_hops_per_s": per_second.round()}),
            );
            json!({
                "k": fabric.k, "hosts": fabric.hosts, "packet_hops": fabric.packet_hops, "windows": fabric.windows,
                "forecast": forecast.collect::<Vec<_>>(),
            })
        });
        return console.print_json(&json!({
            "scaling": rows.collect::<Vec<_>>(), "peak_memory_bytes": memory_bytes("VmHWM:"),
        }));
    }
    let out = &mut console.out;
    writeln!(out, "Million packet-hops per second on one thread (measured) and on more threads (predicted)")?;
    let rows = fabrics.iter().map(|fabric| {
        let fabric_cells = [
            fabric.k.to_string(),
            fabric.hosts.to_string(),
            format::count(fabric.packet_hops / fabric.windows.max(1)),
        ];
        let rates = fabric.per_second.iter().map(|rate| format::decimal(rate / 1e6, 2));
        fabric_cells.into_iter().chain(rates).collect()
    });
    let header = ["k", "hosts", "hops per window", "1", "2", "8", "16", "32", "64"];
    writeln!(out, "{}", columns(&header, rows))?;
    if let Some(bytes) = memory_bytes("VmHWM:") {
        writeln!(out, "Peak memory {}", format::bytes(bytes as f64))?;
    }
    Ok(())
}
