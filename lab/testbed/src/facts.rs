//! `fabric.json`: facts that only runs on real interfaces have, such as ping RTTs, paths taken and scheduling delays.

use super::plan::SwitchKind;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_agent::results::{LatenessResult, PathResult, RttResult};
use weir_experiment::backend::FabricReport;
use weir_units::Time;

/// The content of `fabric.json`.
#[derive(Debug, Serialize)]
pub(crate) struct FabricFacts {
    pub switch: SwitchKind,
    /// Number of processes that ran the switches.
    pub switch_processes: usize,
    /// Factor by which times are longer than in the file.
    pub slowdown: f64,
    /// Rate of the slowest host.
    pub host_rate_bps: u64,
    /// Sampling interval of queues and rates.
    pub sample_us: f64,
    pub schemes: BTreeMap<String, SchemeFacts>,
}

/// Facts about one scheme's run.
#[derive(Debug, Serialize)]
pub(crate) struct SchemeFacts {
    /// Number of pairs of hosts that pinged each other.
    pub pairs: usize,
    /// Maximum over the pairs of the minimum ping RTT with full frames.
    pub ping_rtt_us: f64,
    /// Base RTT computed from the topology.
    pub model_rtt_us: f64,
    /// Base RTT that the schemes used.
    pub base_rtt_us: f64,
    /// All flows that started.
    pub flows: Vec<FlowFacts>,
    /// Number of samples of all queues, and of those that repeat the one before because a reading took too long.
    pub samples: usize,
    pub repeated_samples: usize,
    /// Whether the switches kept the peaks of queues; otherwise these are of samples.
    pub exact_peaks: bool,
    /// Longest time between two readings of the queues.
    pub max_sample_gap_us: f64,
    /// Scheduling delays of the agents' event loops, by host.
    pub lateness: BTreeMap<String, LatenessResult>,
}

/// The path of one flow.
#[derive(Debug, Serialize)]
pub(crate) struct FlowFacts {
    /// `<from>-><to>`.
    pub flow: String,
    /// XOR of the ids of the switches on the path given by the routes.
    pub planned_path: Option<u16>,
    /// Path ids of DATA packets, as echoed by the receiver.
    pub data_paths: Vec<PathResult>,
    /// Path ids of ACKs.
    pub ack_paths: Vec<PathResult>,
    /// True if all DATA and all ACKs took the planned path.
    pub same_path: bool,
    pub rtt: Option<RttResult>,
}

impl FabricFacts {
    /// Converts the facts for the report and the terminal.
    pub(crate) fn fabric(&self) -> FabricReport {
        let rtt_ms = self.schemes.values().map(|scheme| scheme.base_rtt_us / 1e3).fold(0.0, f64::max);
        FabricReport {
            json: serde_json::to_value(self).expect("plain data serialises"),
            heading: vec![
                ("switch".to_owned(), self.switch.name().to_owned()),
                ("base RTT".to_owned(), format!("{rtt_ms:.1} ms, measured")),
            ],
            lines: self.schemes.iter().map(|(label, scheme)| scheme.line(label)).collect(),
            warnings: self.schemes.iter().filter_map(|(label, scheme)| scheme.warning(label)).collect(),
        }
    }
}

impl SchemeFacts {
    fn line(&self, label: &str) -> String {
        let (flows, as_planned) = (self.flows.len(), self.flows.iter().filter(|flow| flow.same_path).count());
        format!(
            "{label}: {} pairs replied to pings within {:.1} ms; data and ACKs of {as_planned} of {flows} flows took the planned path.",
            self.pairs,
            self.ping_rtt_us / 1e3,
        )
    }

    /// Returns a warning if queues were not read in time for every sample.
    fn warning(&self, label: &str) -> Option<String> {
        let SchemeFacts { samples, repeated_samples, max_sample_gap_us, exact_peaks, .. } = self;
        let doubtful = match exact_peaks {
            true => "means and percentiles are of the others",
            false => "peaks may be higher than reported",
        };
        (*repeated_samples > 0).then(|| {
            format!(
                "{label}: {repeated_samples} of {samples} samples of queues repeat an earlier one, as no queue was read for \
                 up to {:.1} ms: {doubtful}; use a slower --rate or an idle machine",
                max_sample_gap_us / 1e3,
            )
        })
    }
}

pub(crate) fn us(time: Time) -> f64 {
    time.as_us_f64()
}
