//! Runs an experiment from Rust and reads its results, without a file or the command line:
//!
//! ```text
//! cargo run -p weir-sim --example run_experiment
//! ```

#![allow(clippy::print_stdout)] // An example program.

use std::error::Error;
use weir_experiment::Experiment;

/// Four hosts send to one at the same time. The keys are those of an experiment file (docs/keys.md).
const INCAST: &str = "
topology: {kind: star, hosts: 5, rate: 100Gbps, delay: 1us}
schemes: [fncc, dcqcn]
workload: {kind: incast, to: h5, senders: 4, size: 64KB}
duration: 1ms
until_idle: true
";

fn main() -> Result<(), Box<dyn Error>> {
    // The two names appear in errors and results. `overrides` and `seed` correspond to `--set` and `--seed`.
    let overrides = ["topology.rate=50Gbps".to_owned()];
    let seed = Some(7);
    let experiment = Experiment::parse(INCAST, "incast.yaml", "incast", &overrides, seed)?;

    // `()` observes nothing; your own `Observer` sees progress and can end the run.
    let results = weir_sim::run(&experiment, &mut ())?;

    println!("scheme  peak queue  slowdown (median)");
    for label in &results.order {
        let scheme = &results.summary.schemes[label];
        let peak = scheme.queues.values().map(|queue| queue.peak_bytes).max().unwrap_or(0);
        let slowdown = scheme.fct.slowdown.as_ref().map_or(f64::NAN, |slowdown| slowdown.p50);
        println!("{label:6}  {peak:>8} B  {slowdown:.2}");
    }

    // What was recorded over time, such as every flow.
    let first = &results.traces[&results.order[0]];
    for flow in &first.flows {
        let fct = flow.fct.map_or_else(|| "unfinished".to_owned(), |fct| fct.to_string());
        println!("{} finished after {fct}", flow.name());
    }
    println!("digest {}", results.summary.digest);
    Ok(())
}
