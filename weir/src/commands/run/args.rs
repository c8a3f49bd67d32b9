//! The arguments of `weir run`.

use crate::commands::program::{Engine, Switch};
use crate::output::{ActionOutput, ServeOptions};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use weir_units::Bandwidth;

/// Run an experiment and write a report
///
/// Runs every scheme of the experiment separately on the same fabric, with the same flows and the same seed,
/// in virtual time or in Mininet. Prints a table and writes a directory with the report.
#[derive(Debug, clap::Args)]
#[command(after_help = "`weir run --help` explains experiment files.")]
pub(crate) struct Args {
    /// Experiment files (YAML), run one after the other
    #[arg(required = true, value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,

    /// Override a key, for example flows.1.start=200us (list indices from 0)
    ///
    /// The value is parsed as YAML: `--set schemes=[fncc]` sets a list.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,

    /// Seed of all random streams, instead of the file's
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,

    /// Run only the schemes with these labels
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) schemes: Vec<String>,

    /// Backend that runs the experiment: virtual time, or real time on Mininet's hosts and links (needs root)
    #[arg(long, visible_alias = "on", value_enum, default_value = "sim", value_name = "BACKEND")]
    pub(super) backend: BackendKind,

    /// Run a scale model: host links at RATE, all times scaled accordingly
    ///
    /// Bytes are not scaled: queues, windows and bytes in flight are those of the file. The default for
    /// Mininet is 10Mbps if the file's rate exceeds 100Mbps.
    #[arg(long, value_name = "RATE")]
    pub(super) rate: Option<Bandwidth>,

    /// Switch implementation in Mininet [default: bmv2 if simple_switch_grpc is installed, otherwise weir]
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub(super) switch: Option<Switch>,

    /// Run each Mininet switch in its own process, connected by interfaces (always the case with BMv2)
    /// [default: one process for all switches]
    #[arg(long)]
    pub(super) process_per_switch: bool,

    /// Open Mininet's command line before the traffic starts
    #[arg(long)]
    pub(super) cli: bool,

    /// Capture the frames at the ports of Mininet's switches, in one directory per scheme in DIR or pcaps/
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "pcaps")]
    pub(super) pcap: Option<PathBuf>,

    /// Enable policies on Mininet's hosts with the key in FILE; `weir policy` addresses the hosts by name
    #[arg(long, value_name = "FILE")]
    pub(super) policy_key: Option<PathBuf>,

    /// Also write perfetto.json for https://ui.perfetto.dev: queues, loads, pauses, flows, rates and packet
    /// paths
    #[arg(long)]
    pub(super) perfetto: bool,

    /// Output directory, instead of runs/<name>-<seed>; a previous run in it is replaced
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,

    /// Schemes to run in parallel [default: number of threads]; does not affect results
    #[arg(long, short, value_name = "N")]
    pub(super) jobs: Option<NonZeroUsize>,

    /// Number of threads for all schemes together [default: one per core]; does not affect results
    ///
    /// If there are more threads than running schemes, a scheme uses several.
    #[arg(long, value_name = "N")]
    pub(super) threads: Option<NonZeroUsize>,

    /// Execution engine of the switches' P4 programs; does not affect results
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    pub(super) engine: Engine,

    /// Show the fabric on the terminal during the run: loads, queues and flows; schemes run one at a time
    #[arg(long, conflicts_with_all = ["check", "quiet", "verbose"])]
    pub(super) live: bool,

    #[command(flatten)]
    pub(super) serve: ServeOptions,

    /// With --serve: start at once, instead of when the user of the page continues the run
    #[arg(long, requires = "serve")]
    pub(super) serve_now: bool,

    /// Check the files and estimate packet-hops, time and memory, without running anything
    #[arg(long)]
    pub(super) check: bool,

    #[command(flatten)]
    pub(super) output: ActionOutput,
}

impl Args {
    /// Returns true if this process runs experiments in virtual time.
    pub(crate) fn runs_in_virtual_time(&self) -> bool {
        self.backend == BackendKind::Sim && !self.check
    }

    /// Returns true if a run starts only when the user of a page continues it, because it could otherwise end before
    /// the page is loaded. Runs in Mininet start at once: real time cannot be paused.
    pub(crate) fn waits_for_browser(&self) -> bool {
        self.serve.serve.is_some() && !self.serve_now && self.backend == BackendKind::Sim
    }

    /// Returns true if a live view is shown, on the terminal or in browsers.
    pub(crate) fn has_live_view(&self) -> bool {
        self.live || self.serve.serve.is_some()
    }
}

/// The backend of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum BackendKind {
    /// Virtual time (discrete-event simulation)
    Sim,
    /// Real time, in Mininet
    Mininet,
}
