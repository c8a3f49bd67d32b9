//! `weir bench`: measures the speed of runs and the cost of packets.

mod baseline;
mod counted;
mod output;
mod programs;
mod quickstart;
mod scaling;

use super::files::{open_output, read};
use super::linux::memory_bytes;
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use baseline::Baseline;
use output::{markdown, print, print_json};
use quickstart::{every_scheme, measure, schemes};
use std::path::PathBuf;
use weir_report::files::MODE_PUBLIC;
use weir_report::papers::markdown::replace_section;

/// Measure speed: packet-hops per second, ns per packet, memory
///
/// Runs the quickstart experiment (a 100 Gbit/s dumbbell of three switches) several times with each scheme,
/// on one core with the P4 programs in the loop, and sends packets through each program alone. A packet-hop
/// is one packet through one switch, ingress and egress.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Number of runs of each scheme
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Measure fat-trees of arity K on one thread and predict multi-thread speedup
    ///
    /// Replaces the other measurements. The workload is WebSearch at 50 % load on 100 Gbit/s under HPCC, for
    /// 100 us. The prediction distributes the measured work of each switch and host in each synchronization
    /// window over the threads.
    #[arg(long, value_name = "K,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=64))]
    scaling: Vec<u32>,

    /// Execute a small, fixed amount of each kind of work so that callgrind can count its instructions
    /// (`weir/tests/instructions.rs`)
    #[arg(long, hide = true)]
    counted: bool,

    /// Also update the tables in this Markdown file
    #[arg(long, value_name = "FILE", conflicts_with = "scaling")]
    docs: Option<PathBuf>,

    /// Compare with a saved `weir bench --json` output
    #[arg(long, alias = "against", value_name = "FILE", conflicts_with = "scaling")]
    baseline: Option<PathBuf>,

    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    if !args.scaling.is_empty() {
        return scaling::run(&args.scaling, console);
    }
    if args.counted {
        return counted::run(console);
    }
    let docs = args.docs.as_deref().map(|page| open_output("--docs", page)).transpose()?;
    let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let speeds = schemes()?.iter().map(|scheme| measure(scheme, args.runs)).collect::<Result<Vec<_>, _>>()?;
    let costs = programs::costs(&every_scheme()?)?;
    let peak_memory = memory_bytes("VmHWM:");
    if let (Some(page), Some(docs)) = (&args.docs, docs) {
        let document = read(page)?;
        let tables = markdown(args.runs, &speeds, &costs, peak_memory);
        let document = replace_section(&document, "bench", "Measured", &tables).map_err(Failure::Input)?;
        docs.write(document.as_bytes(), MODE_PUBLIC)
            .map_err(|error| Failure::Work(format!("{}: {error}", page.display())))?;
    }
    if console.style.json {
        return print_json(&speeds, &costs, peak_memory, baseline.as_ref(), console);
    }
    print(args.runs, &speeds, &costs, peak_memory, baseline.as_ref(), console)
}
