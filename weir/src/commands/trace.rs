//! `weir trace`

mod running;

use super::{Engine, load_program, read};
use crate::console::{Console, Failure};
use crate::output::QueryOutput;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use weir_report::files::MODE_PUBLIC;
use weir_report::perfetto::{self, SwitchTraversal};
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
pub struct Args {
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

pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let hex = args.hex.as_deref().map(digits).transpose()?;
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
        let passage = |(index, (line, trace)): (usize, &(usize, PacketTrace))| {
            passage("switch", format!("packet {} ({name}:{line})", index + 1), trace, None)
        };
        return write_perfetto(file, &shown.map(passage).collect::<Vec<_>>());
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

/// Returns the steps of a trace, one line each.
fn steps(trace: &PacketTrace) -> Vec<String> {
    trace.to_string().lines().map(str::to_owned).collect()
}

fn passage(switch: &str, name: String, trace: &PacketTrace, from: Option<usize>) -> SwitchTraversal {
    let steps = steps(trace).iter().map(|line| line.trim().to_owned()).collect();
    SwitchTraversal { switch: switch.to_owned(), name, steps, from }
}

fn write_perfetto(file: &Path, passages: &[SwitchTraversal]) -> Result<(), Failure> {
    let out = super::output("--perfetto", file)?;
    let mut bytes = Vec::new();
    perfetto::write_passages(passages, &mut bytes)?;
    out.write(&bytes, MODE_PUBLIC).map_err(|error| Failure::Work(format!("{}: {error}", file.display())))
}

/// Returns the hexadecimal digits of `text`, without blanks and colons, for a whole number of bytes.
fn digits(text: &str) -> Result<String, Failure> {
    let text = text.strip_prefix("0x").unwrap_or(text);
    let digits: String = text.chars().filter(|c| !c.is_whitespace() && *c != ':').collect();
    if let Some(bad) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
        return Err(Failure::Input(format!("--hex: '{bad}' is not a hexadecimal digit")));
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
    fn hex_as_people_paste_it() {
        for text in ["0x0A0b0c", "0a0b0c", "0a:0b:0c", "0a 0b\n0c"] {
            assert_eq!(digits(text).unwrap().to_lowercase(), "0a0b0c");
        }
        for (text, told) in [("0a0", "number of digits (3)"), ("", "number of digits (0)"), ("0g", "'g'")] {
            assert!(matches!(digits(text), Err(Failure::Input(reason)) if reason.contains(told)), "{text}");
        }
    }
}
