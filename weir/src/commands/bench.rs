//! `weir bench`

mod counted;
mod programs;
mod recorded;
mod scaling;

use super::{memory_bytes, read};
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use comfy_table::{CellAlignment, Table, presets};
use programs::Cost;
use recorded::{Baseline, change};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use weir_experiment::Experiment;
use weir_host::schemes::Registry;
use weir_report::files::MODE_PUBLIC;
use weir_report::format;
use weir_report::papers::markdown::put;

/// Measure speed: packet-hops per second, ns per packet, memory
///
/// Runs the quickstart experiment (a 100 Gbit/s dumbbell of three switches) several times with each scheme,
/// on one core with the P4 programs in the loop, and sends packets through each program alone. A packet-hop
/// is one packet through one switch, ingress and egress.
#[derive(Debug, clap::Args)]
pub struct Args {
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

/// The experiment that is measured.
const QUICKSTART: &str = include_str!("../../assets/quickstart.yaml");

struct Speed {
    scheme: String,
    packet_hops: u64,
    /// Packet-hops per second of each run, ascending.
    per_second: Vec<f64>,
}

impl Speed {
    fn median(&self) -> f64 {
        self.per_second[self.per_second.len() / 2]
    }
    fn best(&self) -> f64 {
        self.per_second[self.per_second.len() - 1]
    }
}

pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    if !args.scaling.is_empty() {
        return scaling::run(&args.scaling, console);
    }
    if args.counted {
        return counted::run(console);
    }
    let docs = args.docs.as_deref().map(|page| super::output("--docs", page)).transpose()?;
    let before = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let speeds = schemes()?.iter().map(|scheme| measure(scheme, args.runs)).collect::<Result<Vec<_>, _>>()?;
    let costs = programs::costs(&every_scheme()?)?;
    let memory = memory_bytes("VmHWM:");
    if let (Some(page), Some(docs)) = (&args.docs, docs) {
        let document = read(page)?;
        let tables = markdown(args.runs, &speeds, &costs, memory);
        let document = put(&document, "bench", "Measured", &tables).map_err(Failure::Input)?;
        docs.write(document.as_bytes(), MODE_PUBLIC)
            .map_err(|error| Failure::Work(format!("{}: {error}", page.display())))?;
    }
    if console.style.json {
        return print_json(&speeds, &costs, memory, before.as_ref(), console);
    }
    print(args.runs, &speeds, &costs, memory, before.as_ref(), console)
}

fn quickstart() -> Result<Experiment, Failure> {
    Experiment::parse(QUICKSTART, "quickstart.yaml", "quickstart", &[], None).map_err(Failure::work)
}

/// Returns the quickstart experiment with every registered scheme, so that every P4 program is measured in
/// the same fabric.
fn every_scheme() -> Result<Experiment, Failure> {
    let names: Vec<_> = Registry::builtin().names().collect();
    let schemes = format!("schemes=[{}]", names.join(", "));
    Experiment::parse(QUICKSTART, "quickstart.yaml", "quickstart", &[schemes], None).map_err(Failure::work)
}

fn schemes() -> Result<Vec<String>, Failure> {
    Ok(quickstart()?.schemes.iter().map(|scheme| scheme.label.clone()).collect())
}

fn measure(scheme: &str, runs: u32) -> Result<Speed, Failure> {
    let mut experiment = quickstart()?;
    experiment.retain_schemes(&[scheme.to_owned()]).map_err(Failure::work)?;
    let mut speed = Speed { scheme: scheme.to_owned(), packet_hops: 0, per_second: Vec::new() };
    for _ in 0..runs {
        let summary = weir_sim::run(&experiment, &mut ()).map_err(Failure::work)?.summary;
        speed.packet_hops = summary.packet_hops;
        speed.per_second.push(summary.packet_hops as f64 / summary.wall_s.max(1e-9));
    }
    speed.per_second.sort_by(f64::total_cmp);
    Ok(speed)
}

fn print(
    runs: u32,
    speeds: &[Speed],
    costs: &[Cost],
    memory: Option<u64>,
    before: Option<&Baseline>,
    console: &mut Console,
) -> Result<(), Failure> {
    let out = &mut console.out;
    let head = |head: &[&'static str]| [head, before.map_or(&[][..], |_| &["change"])].concat();
    writeln!(out, "Packet-hops per second on the 100 Gbit/s dumbbell, {runs} runs, one core")?;
    let rows = speeds.iter().map(|it| {
        let (median, best) = (format::count(it.median() as u64), format::count(it.best() as u64));
        let row = [it.scheme.clone(), median, best, format::count(it.packet_hops)];
        row.into_iter().chain(before.map(|before| change(before.speed(it)))).collect()
    });
    writeln!(out, "{}\n", columns(&head(&["scheme", "median", "best", "packet-hops"]), rows))?;
    writeln!(out, "Nanoseconds per packet through one switch: ingress, queue, egress")?;
    let rows = costs.iter().map(|it| {
        let row = [it.program.to_string(), it.packet.to_owned(), format::decimal(it.ns, 0)];
        row.into_iter().chain(before.map(|before| change(before.cost(it)))).collect()
    });
    writeln!(out, "{}\n", columns(&head(&["program", "packet", "ns"]), rows))?;
    if let Some(bytes) = memory {
        writeln!(out, "Peak memory {}", format::bytes(bytes as f64))?;
    }
    Ok(())
}

/// Returns the results as Markdown tables, preceded by the name of the processor.
fn markdown(runs: u32, speeds: &[Speed], costs: &[Cost], memory: Option<u64>) -> String {
    let mega = |per_second: f64| format!("{} million", format::decimal(per_second / 1e6, 2));
    let mut page = format!(
        "Quickstart, {runs} runs, one core; {}:\n\n\
         | scheme | median, packet-hops/s | best | packet-hops |\n|---|---|---|---|\n",
        processor().unwrap_or_else(|| "unknown processor".into())
    );
    for it in speeds {
        let (median, best, hops) = (mega(it.median()), mega(it.best()), format::count(it.packet_hops));
        page += &format!("| {} | {median} | {best} | {hops} |\n", it.scheme);
    }
    page += "\nOne packet through one switch: ingress, queue, egress:\n\n| program | DATA | ACK |\n|---|---|---|\n";
    for pair in costs.chunks(2) {
        let ns: Vec<String> = pair.iter().map(|it| format!("{} ns", format::decimal(it.ns, 0))).collect();
        page += &format!("| {} | {} |\n", pair[0].program, ns.join(" | "));
    }
    if let Some(bytes) = memory {
        page += &format!("\nPeak memory with all programs: {}.\n", format::bytes(bytes as f64));
    }
    page
}

/// Returns the model name of the first processor; `None` where `/proc/cpuinfo` does not list one.
fn processor() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let (_, name) = info.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(name.trim().to_owned())
}

fn columns(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((2, 0));
        let numbers = !matches!(head[column.index], "scheme" | "program" | "packet");
        column.set_cell_alignment(if numbers { CellAlignment::Right } else { CellAlignment::Left });
    }
    table.trim_fmt()
}

fn print_json(
    speeds: &[Speed],
    costs: &[Cost],
    memory: Option<u64>,
    before: Option<&Baseline>,
    console: &mut Console,
) -> Result<(), Failure> {
    let speeds = speeds.iter().map(|it| {
        let mut json = json!({
            "scheme": it.scheme, "packet_hops": it.packet_hops,
            "median_packet_hops_per_s": it.median().round(), "best_packet_hops_per_s": it.best().round(),
        });
        put_ratio(&mut json, before.and_then(|before| before.speed(it)));
        json
    });
    let costs = costs.iter().map(|it| {
        let mut json = json!({ "program": it.program, "packet": it.packet, "ns": it.ns.round() });
        put_ratio(&mut json, before.and_then(|before| before.cost(it)));
        json
    });
    let all = json!({
        "sim": speeds.collect::<Vec<_>>(),
        "programs": costs.collect::<Vec<_>>(),
        "peak_memory_bytes": memory,
    });
    console.print_json(&all)
}

/// Adds the ratio to the baseline, if there is one.
fn put_ratio(json: &mut Value, ratio: Option<f64>) {
    if let Some(ratio) = ratio {
        json["ratio"] = ratio.into();
    }
}
