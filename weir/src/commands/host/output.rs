//! Writes the results of a run: a short text for the terminal, JSON or CSV for programs.

use super::options::{Format, RunOptions};
use crate::commands::files::{open_output, write as write_file};
use crate::console::{Console, Failure};
use std::io::{self, Write};
use std::path::Path;
use weir_agent::results::{AgentResults, FlowResult, FlowState};
use weir_report::files::MODE_PUBLIC;
use weir_report::output::OutputFile;
use weir_units::{Bandwidth, Bytes, Time};

/// Maximum number of flows listed on the terminal.
const MAX_LISTED_FLOWS: usize = 20;

/// Opens the output file of `--out` before the run, so that no results are lost to an invalid path. `None` without
/// `--out` and for standard output.
pub(super) fn open(run: &RunOptions) -> Result<Option<OutputFile>, Failure> {
    let path = run.out.as_deref().filter(|path| !is_stdout(path));
    let file = path.map(|path| open_output("--out", path)).transpose()?;
    Ok(file.filter(|file| !file.is_stdout()))
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes the results to `--out` in the chosen format, and a summary to the terminal. `opened` is the result of
/// [`open`].
pub(super) fn write(
    results: &AgentResults,
    run: &RunOptions,
    opened: Option<OutputFile>,
    console: &mut Console,
) -> Result<(), Failure> {
    match (run.out.as_deref(), opened) {
        (None, _) => print_summary(results, &mut console.out)?,
        // Standard output: the results replace the summary.
        (Some(_), None) => match run.format {
            Format::Json => json(results, &mut console.out),
            Format::Csv => flow_table(results, &mut console.out),
        }?,
        (Some(path), Some(opened)) => {
            let result = write_files(results, run.format, path, &opened);
            // The write error is returned after the summary, so that the summary is not lost.
            print_summary(results, &mut console.out)?;
            result?;
            writeln!(console.out, "{}", path.display())?;
        }
    }
    Ok(())
}

/// Writes the results, and for CSV the series, to files that readers never see half-written.
fn write_files(
    results: &AgentResults,
    format: Format,
    path: &Path,
    opened: &OutputFile,
) -> Result<(), Failure> {
    let render = |write_results: WriteFn| -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        write_results(results, &mut content)?;
        Ok(content)
    };
    let write_results: WriteFn = if format == Format::Json { json } else { flow_table };
    render(write_results)
        .and_then(|content| opened.write(&content, MODE_PUBLIC))
        .map_err(|error| Failure::Work(format!("{}: {error}", path.display())))?;
    // A device or a pipe has no directory for the file of the series.
    let series_dir = opened.dir().filter(|_| format == Format::Csv && results.sample_ns.is_some());
    series_dir.map_or(Ok(()), |dir| write_file(&dir.join(series_file_name(path)), &render(series_table)?))
}

/// Returns the name of the file with the series of `x.csv`: `x-series.csv`.
fn series_file_name(path: &Path) -> String {
    format!("{}-series.csv", path.file_stem().unwrap_or_default().to_string_lossy())
}

type WriteFn = fn(&AgentResults, &mut dyn Write) -> io::Result<()>;

/// Writes all results as one line of JSON.
fn json(results: &AgentResults, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, results)?;
    writeln!(out)
}

/// Writes one CSV line per flow.
fn flow_table(results: &AgentResults, out: &mut dyn Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record([
        "flow",
        "peer",
        "port",
        "message",
        "size_bytes",
        "state",
        "start_ns",
        "fct_ns",
        "acked_bytes",
        "goodput_bps",
        "retransmits",
        "rtt_min_ns",
        "rtt_mean_ns",
        "rtt_p99_ns",
        "data_path",
        "ack_path",
        "n_max",
    ])?;
    for (index, flow) in results.flows.iter().enumerate() {
        let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let paths = |paths: &[weir_agent::results::PathResult]| {
            let ids: Vec<_> = paths.iter().map(|path| path.path_id.to_string()).collect();
            ids.join(" ")
        };
        table.write_record([
            index.to_string(),
            flow.peer.to_string(),
            flow.port.to_string(),
            flow.message.to_string(),
            number(flow.size_bytes),
            state_name(flow.state).to_owned(),
            number(flow.start_ns),
            number(flow.fct_ns),
            flow.acked_bytes.to_string(),
            number(flow.goodput_bps),
            flow.retransmits.to_string(),
            number(flow.rtt.map(|rtt| rtt.min_ns)),
            number(flow.rtt.map(|rtt| rtt.mean_ns)),
            number(flow.rtt.map(|rtt| rtt.p99_ns)),
            paths(&flow.data_paths),
            paths(&flow.ack_paths),
            number(flow.concurrency.map(|n| n.max.into())),
        ])?;
    }
    table.flush()
}

/// Writes one CSV line per sample and flow.
fn series_table(results: &AgentResults, out: &mut dyn Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(["time_ns", "flow", "goodput_bps", "rate_bps", "window_bytes", "rtt_ns", "n"])?;
    let interval = results.sample_ns.unwrap_or_default();
    for (index, flow) in results.flows.iter().enumerate() {
        let Some(series) = &flow.series else { continue };
        let rows = series.goodput_bps.iter().zip(&series.rate_bps).zip(&series.window_bytes);
        let rows = rows.zip(&series.rtt_ns).zip(&series.concurrency).enumerate();
        for (i, ((((goodput, rate), window), rtt), n)) in rows {
            // A sample has the time at which its interval ends.
            let time = (series.first + i as u64 + 1) * interval;
            let row = [time, index as u64, *goodput, *rate, *window, *rtt, u64::from(*n)];
            table.write_record(row.map(|value| value.to_string()))?;
        }
    }
    table.flush()
}

fn state_name(state: FlowState) -> &'static str {
    match state {
        FlowState::NotStarted => "not_started",
        FlowState::Unfinished => "unfinished",
        FlowState::Finished => "finished",
        FlowState::Failed => "failed",
    }
}

fn print_summary(results: &AgentResults, out: &mut dyn Write) -> io::Result<()> {
    for flow in results.flows.iter().take(MAX_LISTED_FLOWS) {
        print_flow(flow, out)?;
    }
    if let Some(unlisted) = results.flows.len().checked_sub(MAX_LISTED_FLOWS).filter(|&count| count > 0) {
        writeln!(out, "... and {unlisted} more flows")?;
    }
    if !results.received.is_empty() {
        let messages = &results.received;
        // Messages that the results count but do not list are complete.
        let complete = messages.iter().filter(|message| message.complete).count() as u64;
        let bytes: u64 = messages.iter().map(|message| message.bytes).sum();
        writeln!(
            out,
            "received {} messages, {} complete, {}",
            messages.len() as u64 + results.received_unlisted,
            complete + results.received_unlisted,
            Bytes::new(bytes + results.received_unlisted_bytes)
        )?;
    }
    let nic = &results.nic;
    writeln!(
        out,
        "{} frames out, {} in, {} ms",
        nic.frames_sent,
        nic.frames_received,
        Time::from_ns(results.ran_ns).as_us() / 1_000
    )?;
    if !results.drops.is_empty() {
        let drops: Vec<_> = results.drops.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        writeln!(out, "dropped: {}", drops.join(", "))?;
    }
    Ok(())
}

/// Prints one line about a flow.
fn print_flow(flow: &FlowResult, out: &mut dyn Write) -> io::Result<()> {
    let goodput = Bandwidth::from_bps(flow.goodput_bps.unwrap_or(0));
    write!(out, "{}:{} {}, {}", flow.peer, flow.port, state_name(flow.state), Bytes::new(flow.acked_bytes))?;
    if let Some(fct) = flow.fct_ns {
        write!(out, " in {:.3} ms", fct as f64 / 1e6)?;
    }
    write!(out, ", {:.2} Mbit/s", goodput.as_bps_f64() / 1e6)?;
    if let Some(rtt) = flow.rtt {
        write!(
            out,
            ", RTT {:.3} ms ({:.3} to {:.3})",
            rtt.p50_ns as f64 / 1e6,
            rtt.min_ns as f64 / 1e6,
            rtt.max_ns as f64 / 1e6
        )?;
    }
    if flow.retransmits > 0 {
        write!(out, ", {} retransmitted", flow.retransmits)?;
    }
    if let Some(error) = &flow.error {
        write!(out, ": {error}")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_summary_counts_messages_that_are_not_listed() {
        let message = |complete: bool| {
            json!({
                "peer": "10.0.1.1", "message": 1, "port": 1, "bytes": 1000, "complete": complete,
                "first_ns": 0, "last_ns": 0, "paths": [],
            })
        };
        let results = json!({
            "iface": "eth0", "addr": "10.0.2.1", "scheme": "fncc", "parameters": {}, "rate_bps": 1, "mtu_bytes": 1514,
            "base_rtt_ns": 1, "start": {"monotonic_ns": 0, "wall_ns": 0}, "ran_ns": 5_000_000, "ended": "deadline",
            "flows": [], "received": [message(true), message(false)], "received_unlisted": 70_000,
            "received_unlisted_bytes": 70_000_000, "transport": {}, "drops": {},
            "nic": weir_agent::results::NicCounters::default(), "lateness": {
                "count": 0, "mean_ns": 0, "max_ns": 0, "within_1us": 0, "within_10us": 0, "within_60us": 0,
                "within_200us": 0, "within_1ms": 0, "later": 0,
            },
            "sample_ns": null, "series_cut": false,
        });
        let mut text = Vec::new();
        print_summary(&serde_json::from_value(results).unwrap(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("received 70002 messages, 70001 complete, 70.002MB\n"), "{text}");
    }
}
