//! Prints the results of a run: a few lines for people, JSON or CSV for programs.

use super::options::{Format, RunOptions};
use crate::console::{Console, Failure};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use weir_agent::results::{AgentResults, FlowResult, FlowState};
use weir_report::files::{MODE_PUBLIC, write_atomic};
use weir_units::{Bandwidth, Bytes, Time};

/// Flows listed one by one for people.
const LISTED: usize = 20;

/// Refuses an output that cannot be written, before there is anything to lose.
pub fn check(run: &RunOptions) -> Result<(), Failure> {
    let Some(path) = run.out.as_deref().filter(|path| !is_stdout(path)) else { return Ok(()) };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match dir.is_dir() && !path.is_dir() {
        true => Ok(()),
        false => Err(Failure::Input(format!("--out {}: cannot create a file there", path.display()))),
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes all of it.
pub fn write(results: &AgentResults, run: &RunOptions, console: &mut Console) -> Result<(), Failure> {
    match run.out.as_deref() {
        Some(path) if is_stdout(path) => match run.format {
            Format::Json => json(results, &mut console.out),
            Format::Csv => flow_table(results, &mut console.out),
        }?,
        Some(path) => {
            let written = match run.format {
                Format::Json => file(path, |out| json(results, out)),
                Format::Csv => {
                    file(path, |out| flow_table(results, out)).and_then(|()| match results.sample_ns {
                        Some(_) => file(&beside(path), |out| series_table(results, out)),
                        None => Ok(()),
                    })
                }
            };
            // If the disk is full, at least the terminal has them.
            people(results, &mut console.out)?;
            written?;
            writeln!(console.out, "{}", path.display())?;
        }
        None => people(results, &mut console.out)?,
    }
    Ok(())
}

/// `x.csv` has its series in `x-series.csv`.
fn beside(path: &Path) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-series.csv"))
}

/// Whole or not at all: readers never see half a file.
fn file(path: &Path, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<(), Failure> {
    let mut content = Vec::new();
    write(&mut content)
        .and_then(|()| write_atomic(path, &content, MODE_PUBLIC))
        .map_err(|error| Failure::Work(format!("{}: {error}", path.display())))
}

fn json(results: &AgentResults, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, results)?;
    writeln!(out)
}

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
            state(flow.state).to_owned(),
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

fn series_table(results: &AgentResults, out: &mut dyn Write) -> io::Result<()> {
    let mut table = csv::Writer::from_writer(out);
    table.write_record(["time_ns", "flow", "goodput_bps", "rate_bps", "window_bytes", "rtt_ns", "n"])?;
    let interval = results.sample_ns.unwrap_or_default();
    for (index, flow) in results.flows.iter().enumerate() {
        let Some(series) = &flow.series else { continue };
        let rows = series.goodput_bps.iter().zip(&series.rate_bps).zip(&series.window_bytes);
        let rows = rows.zip(&series.rtt_ns).zip(&series.concurrency).enumerate();
        for (i, ((((goodput, rate), window), rtt), n)) in rows {
            let time = (series.first + i as u64 + 1) * interval;
            let row = [time, index as u64, *goodput, *rate, *window, *rtt, u64::from(*n)];
            table.write_record(row.map(|value| value.to_string()))?;
        }
    }
    table.flush()
}

fn state(state: FlowState) -> &'static str {
    match state {
        FlowState::NotStarted => "not_started",
        FlowState::Unfinished => "unfinished",
        FlowState::Finished => "finished",
    }
}

fn people(results: &AgentResults, out: &mut dyn Write) -> io::Result<()> {
    for flow in results.flows.iter().take(LISTED) {
        flow_line(flow, out)?;
    }
    if let Some(more) = results.flows.len().checked_sub(LISTED).filter(|&more| more > 0) {
        writeln!(out, "... and {more} more flows")?;
    }
    if !results.received.is_empty() {
        let complete = results.received.iter().filter(|message| message.complete).count();
        let bytes: u64 = results.received.iter().map(|message| message.bytes).sum();
        let messages = results.received.len();
        writeln!(out, "received {messages} messages, {complete} complete, {}", Bytes::new(bytes))?;
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
        let drops: Vec<_> = results.drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        writeln!(out, "dropped: {}", drops.join(", "))?;
    }
    Ok(())
}

fn flow_line(flow: &FlowResult, out: &mut dyn Write) -> io::Result<()> {
    let goodput = Bandwidth::from_bps(flow.goodput_bps.unwrap_or(0));
    write!(out, "{}:{} {}, {}", flow.peer, flow.port, state(flow.state), Bytes::new(flow.acked_bytes))?;
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
        write!(out, ", {} sent again", flow.retransmits)?;
    }
    writeln!(out)
}
