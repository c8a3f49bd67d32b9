//! `weir mininet`: starts p4 tutorials networks, and cleans up after killed runs.

use super::files::create_dir;
use super::program::Switch;
use crate::console::{Console, Failure};
use crate::interrupt::SIGNALS;
use crate::output::QueryOutput;
use crate::privilege;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_testbed::{SwitchKind, Tutorial, TutorialSwitches};

/// Start a p4 tutorials network, or clean up after killed runs
///
/// Starts the hosts, switches and links of a p4 tutorials topology.json or of a p4-utils file, with Mininet's command
/// line. Switches with a runtime_json get its entries, and their program, over P4Runtime. With --json there is no
/// command line: all hosts ping each other, then the network is removed. Needs root and Debian's package mininet.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Topology of the p4 tutorials, or p4-utils' p4app.json or topology.json
    #[arg(value_name = "TOPOLOGY.json", required_unless_present = "clean")]
    topology: Option<PathBuf>,

    /// Compiled program (BMv2 JSON) for switches without one in the topology
    #[arg(long, value_name = "PROGRAM.json")]
    program: Option<PathBuf>,

    /// Switch implementation [default: bmv2 if simple_switch_grpc is installed, otherwise weir]
    #[arg(long, value_enum, value_name = "SWITCH")]
    switch: Option<Switch>,

    /// Run each switch in its own process, connected by interfaces (always the case with BMv2) [default: one
    /// process for all switches]
    #[arg(long)]
    process_per_switch: bool,

    /// Capture the frames at the switches' ports, in DIR or pcaps/
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "pcaps")]
    pcap: Option<PathBuf>,

    /// Write logs of the switches to DIR or logs/, each limited to 20 MB; implies --process-per-switch
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "logs")]
    logs: Option<PathBuf>,

    /// Remove processes, interfaces and files of killed runs of Weir, and only those (unlike `mn -c`)
    #[arg(long, conflicts_with_all = ["topology", "program", "switch", "process_per_switch", "pcap", "logs"])]
    clean: bool,

    #[command(flatten)]
    output: QueryOutput,
}

impl Switch {
    pub(super) fn kind(self) -> SwitchKind {
        match self {
            Switch::Bmv2 => SwitchKind::Bmv2,
            Switch::Weir => SwitchKind::Weir,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  sudo weir mininet pod-topo/topology.json --switch weir
  sudo weir mininet topology.json --program build/basic.json --pcap
  sudo weir mininet --clean";

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    match &args.topology {
        None => {
            let removed = weir_testbed::clean()?;
            if console.style.json {
                return console.print_json(&json!({"removed": removed}));
            }
            match removed {
                0 => writeln!(console.out, "nothing to remove")?,
                _ => writeln!(console.out, "removed {removed} processes and interfaces")?,
            }
            Ok(())
        }
        Some(topology) => start_tutorial(topology, args, console),
    }
}

/// Starts a network, installs the switches' entries, pings all pairs of hosts and opens the command line.
fn start_tutorial(topology: &Path, args: &Args, console: &mut Console) -> Result<(), Failure> {
    crate::interrupt::catch_ctrl_c()?;
    let pcaps = args.pcap.as_deref().map(create_dir).transpose()?;
    let logs = args.logs.as_deref().map(create_dir).transpose()?;
    privilege::retain_capabilities(privilege::MININET_CAPABILITIES)?;
    let switches = TutorialSwitches {
        kind: args.switch.map(Switch::kind),
        process_per_switch: args.process_per_switch,
        program: args.program.clone(),
        pcaps,
        logs,
    };
    let mut network = Tutorial::start(topology, switches, SIGNALS)?;
    for warning in network.warnings() {
        writeln!(std::io::stderr(), "warning: {}: {warning}", topology.display())?;
    }
    if network.has_runtime() {
        let mut apply = Command::new(std::env::current_exe()?);
        let output = apply.args(["controller", "apply", "--topology"]).arg(topology).output()?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::Work(format!(
                "cannot install the switches' entries: {}",
                reason.trim().trim_start_matches("error: ")
            )));
        }
    }
    let (answered, pairs) = network.ping()?;
    if console.style.json {
        return console.print_json(&json!({"pairs": pairs, "answered": answered}));
    }
    writeln!(console.out, "ping: {answered} of {pairs} host pairs ok")?;
    console.out.flush()?;
    Ok(network.cli()?)
}
