//! The results as text, as JSON and as Markdown.

use super::baseline::{Baseline, change};
use super::programs::Cost;
use super::quickstart::Speed;
use crate::commands::linux::cpu_model;
use crate::console::{Console, Failure};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use std::io::Write;
use weir_report::format;

pub(super) fn print(
    runs: u32,
    speeds: &[Speed],
    costs: &[Cost],
    memory: Option<u64>,
    baseline: Option<&Baseline>,
    console: &mut Console,
) -> Result<(), Failure> {
    let out = &mut console.out;
    let header = |columns: &[&'static str]| [columns, baseline.map_or(&[][..], |_| &["change"])].concat();
    writeln!(out, "Packet-hops per second on the 100 Gbit/s dumbbell, {runs} runs, one core")?;
    let rows = speeds.iter().map(|speed| {
        let (median, best) = (format::count(speed.median() as u64), format::count(speed.best() as u64));
        let row = [speed.scheme.clone(), median, best, format::count(speed.packet_hops)];
        row.into_iter().chain(baseline.map(|baseline| change(baseline.speed(speed)))).collect()
    });
    writeln!(out, "{}\n", columns(&header(&["scheme", "median", "best", "packet-hops"]), rows))?;
    writeln!(out, "Nanoseconds per packet through one switch: ingress, queue, egress")?;
    let rows = costs.iter().map(|cost| {
        let row = [cost.program.to_string(), cost.packet.to_owned(), format::decimal(cost.ns, 0)];
        row.into_iter().chain(baseline.map(|baseline| change(baseline.cost(cost)))).collect()
    });
    writeln!(out, "{}\n", columns(&header(&["program", "packet", "ns"]), rows))?;
    if let Some(bytes) = memory {
        writeln!(out, "Peak memory {}", format::bytes(bytes as f64))?;
    }
    Ok(())
}

/// Returns the results as Markdown tables, preceded by the name of the processor.
pub(super) fn markdown(runs: u32, speeds: &[Speed], costs: &[Cost], memory: Option<u64>) -> String {
    let in_millions = |per_second: f64| format!("{} million", format::decimal(per_second / 1e6, 2));
    let mut page = format!(
        "Quickstart, {runs} runs, one core; {}:\n\n\
         | scheme | median, packet-hops/s | best | packet-hops |\n|---|---|---|---|\n",
        cpu_model().unwrap_or_else(|| "unknown processor".into())
    );
    for speed in speeds {
        let (median, best, hops) =
            (in_millions(speed.median()), in_millions(speed.best()), format::count(speed.packet_hops));
        page += &format!("| {} | {median} | {best} | {hops} |\n", speed.scheme);
    }
    page += "\nOne packet through one switch: ingress, queue, egress:\n\n| program | DATA | ACK |\n|---|---|---|\n";
    // DATA and ACK of one program.
    for pair in costs.chunks(2) {
        let ns: Vec<String> = pair.iter().map(|cost| format!("{} ns", format::decimal(cost.ns, 0))).collect();
        page += &format!("| {} | {} |\n", pair[0].program, ns.join(" | "));
    }
    if let Some(bytes) = memory {
        page += &format!("\nPeak memory with all programs: {}.\n", format::bytes(bytes as f64));
    }
    page
}

/// Formats a table in which all columns except names are right-aligned.
pub(super) fn columns(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((2, 0));
        let is_number = !matches!(header[column.index], "scheme" | "program" | "packet");
        column.set_cell_alignment(if is_number { CellAlignment::Right } else { CellAlignment::Left });
    }
    table.trim_fmt()
}

pub(super) fn print_json(
    speeds: &[Speed],
    costs: &[Cost],
    memory: Option<u64>,
    baseline: Option<&Baseline>,
    console: &mut Console,
) -> Result<(), Failure> {
    let speeds = speeds.iter().map(|speed| {
        let mut json = json!({
            "scheme": speed.scheme, "packet_hops": speed.packet_hops,
            "median_packet_hops_per_s": speed.median().round(), "best_packet_hops_per_s": speed.best().round(),
        });
        put_ratio(&mut json, baseline.and_then(|baseline| baseline.speed(speed)));
        json
    });
    let costs = costs.iter().map(|cost| {
        let mut json = json!({ "program": cost.program, "packet": cost.packet, "ns": cost.ns.round() });
        put_ratio(&mut json, baseline.and_then(|baseline| baseline.cost(cost)));
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
