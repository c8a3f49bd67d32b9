//! `weir trace`: shows the steps of a packet through a P4 program or a running fabric.

#[cfg(feature = "full")]
mod running;
#[cfg(not(feature = "full"))]
#[path = "trace/left_out.rs"]
mod running;
mod steps;

use super::files::read;
use super::program::{Engine, load_program};
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use steps::{steps, traversal, write_perfetto};
use weir_switch::stf;
use weir_switch::trace::PacketTrace;

/// Follow a packet through a compiled P4 program, or through a running fabric
///
/// Shows the states of the parser, the extracted headers, each table with its key, the matching entry and the
/// action, every field that changes, the queue, and the reason of a drop. Table entries come from an STF
/// file.
///
/// With --topology, the programs and table entries are read from running switches over P4Runtime. The packet
/// is run through copies; the fabric is not affected. Registers, counters and queues of the copies are empty.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir trace p4src/build/fncc.json --stf p4src/tests/fncc/forwarding-ttl.stf
  weir trace p4src/build/fncc.json --stf routes.stf --packet 2
  weir trace p4src/build/fncc.json --stf routes.stf --perfetto trace.json
  weir trace build/basic.json --stf entries.stf --port 1 --hex 'ffffffffffff 0800...'
  weir trace --topology fabric.yaml --from h1 --to h2
  weir trace --topology fabric.yaml --from h1 --hex 'ffffffffffff 0800...'")]
pub(super) struct Args {
    /// Program compiled by p4c-bm2-ss (BMv2 JSON)
    #[arg(value_name = "PROGRAM.json", required_unless_present = "topology", conflicts_with = "topology")]
    program: Option<PathBuf>,

    /// STF file with table entries and packets
    #[arg(long, value_name = "FILE", required_unless_present_any = ["hex", "topology"], requires = "program")]
    stf: Option<PathBuf>,

    /// Show only packet N of the STF file, from 1
    #[arg(long, value_name = "N", requires = "stf", conflicts_with = "hex")]
    packet: Option<usize>,

    /// Ingress port of the packet of --hex
    #[arg(long, value_name = "P", default_value_t = 0, requires = "hex", conflicts_with = "topology")]
    port: u16,

    /// Packet in hexadecimal, sent after those of the STF file; blanks and colons are ignored
    #[arg(long, value_name = "BYTES")]
    hex: Option<String>,

    /// Write the steps as slices to FILE for https://ui.perfetto.dev, and print nothing
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    perfetto: Option<PathBuf>,

    #[command(flatten)]
    running: running::RunningArgs,
    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let hex = args.hex.as_deref().map(hex_digits).transpose()?;
    let Some(program) = &args.program else {
        return running::run(&args.running, hex.as_deref(), args.perfetto.as_deref(), console);
    };
    let program = load_program(program, Engine::default())?;
    let (mut text, name) = match &args.stf {
        Some(file) => (read(file)?, file.display().to_string()),
        None => (String::new(), "--hex".to_owned()),
    };
    if let Some(hex) = &hex {
        text.push_str(&format!("\npacket {} {hex}\n", args.port));
    }
    let traces = stf::trace(program, &text, &name).map_err(Failure::input)?.traces;
    let shown = match (&args.hex, args.packet) {
        // The packet of --hex is the last one.
        (Some(_), _) => traces.len().saturating_sub(1)..traces.len(),
        (None, None) => 0..traces.len(),
        (None, Some(n)) if (1..=traces.len()).contains(&n) => n - 1..n,
        (None, Some(n)) => {
            let reason = format!("--packet {n}: {name} has {} packets, counted from 1", traces.len());
            return Err(Failure::Input(reason));
        }
    };
    let shown = traces.iter().enumerate().filter(|(i, _)| shown.contains(i));
    if let Some(file) = &args.perfetto {
        let traversal = |(index, (line, trace)): (usize, &(usize, PacketTrace))| {
            traversal("switch", format!("packet {} ({name}:{line})", index + 1), trace, None)
        };
        return write_perfetto(file, &shown.map(traversal).collect::<Vec<_>>());
    }
    if console.style.json {
        let packet = |(index, (line, trace)): (usize, &(usize, PacketTrace))| json!({"packet": index + 1, "file": name, "line": line, "steps": steps(trace)});
        return console.print_json(&shown.map(packet).collect::<Vec<_>>());
    }
    for (number, (line, trace)) in shown {
        if args.hex.is_none() {
            writeln!(console.out, "packet {} ({name}:{line})", number + 1)?;
        }
        writeln!(console.out, "{trace}")?;
    }
    Ok(())
}

/// Returns the hexadecimal digits of `text`, without blanks and colons, for a whole number of bytes.
fn hex_digits(text: &str) -> Result<String, Failure> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    if let Some(invalid) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(Failure::Input(format!("--hex: '{invalid}' is not a hexadecimal digit")));
    }
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return Err(Failure::Input(format!(
            "--hex: invalid number of digits ({}), expected two per byte",
            digits.len()
        )));
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_notations_of_hex_are_accepted() {
        for text in ["0x0A0b0c", "0a0b0c", "0a:0b:0c", "0a 0b\n0c"] {
            assert_eq!(hex_digits(text).unwrap().to_lowercase(), "0a0b0c");
        }
        for (text, reason_part) in
            [("0a0", "number of digits (3)"), ("", "number of digits (0)"), ("0g", "'g'")]
        {
            assert!(
                matches!(hex_digits(text), Err(Failure::Input(reason)) if reason.contains(reason_part)),
                "{text}"
            );
        }
    }
}
