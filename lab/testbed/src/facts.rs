//! `fabric.json`: what the real fabric was and did, beside the numbers that virtual time has too.

use super::plan::SwitchKind;
use serde::Serialize;
use std::collections::BTreeMap;
use weir_agent::results::{LatenessResult, PathResult, RttResult};
use weir_experiment::backend::FabricReport;
use weir_units::Time;

/// The fabric of a run.
#[derive(Debug, Serialize)]
pub struct FabricFacts {
    /// The kind of switch.
    pub switch: SwitchKind,
    /// Processes that ran the switches.
    pub switch_processes: usize,
    /// Factor by which everything ran slower than the file says.
    pub slowdown: f64,
    /// Rate of the slowest host.
    pub host_rate_bps: u64,
    /// Time between two samples of queues and rates.
    pub sample_us: f64,
    /// By scheme.
    pub schemes: BTreeMap<String, SchemeFacts>,
}

/// Facts about one scheme's run.
#[derive(Debug, Serialize)]
pub struct SchemeFacts {
    /// Pairs of hosts that pinged each other.
    pub pairs: usize,
    /// Longest of the pairs' least round-trip times, with full frames.
    pub ping_rtt_us: f64,
    /// Base round-trip time that the topology promises.
    pub model_rtt_us: f64,
    /// Base RTT that the schemes were given.
    pub base_rtt_us: f64,
    /// Every flow that sent something.
    pub flows: Vec<FlowFacts>,
    /// Lateness of the agents' loops.
    pub lateness: BTreeMap<String, LatenessResult>,
}

/// The path of one flow.
#[derive(Debug, Serialize)]
pub struct FlowFacts {
    /// `<from>-><to>`.
    pub flow: String,
    /// XOR of the ids of the switches that the routes say.
    pub planned_path: Option<u16>,
    /// Path ids that DATA had, as receivers echoed them.
    pub data_paths: Vec<PathResult>,
    /// Path ids that ACKs had.
    pub ack_paths: Vec<PathResult>,
    /// True if all DATA and all ACKs took the planned path.
    pub same_path: bool,
    /// Round-trip times.
    pub rtt: Option<RttResult>,
}

impl FabricFacts {
    /// Returns them for the report and for readers.
    pub fn fabric(&self) -> FabricReport {
        let rtt_ms = self.schemes.values().map(|scheme| scheme.base_rtt_us / 1e3).fold(0.0, f64::max);
        FabricReport {
            facts: serde_json::to_value(self).expect("plain data serialises"),
            heading: vec![
                ("switch".to_owned(), self.switch.name().to_owned()),
                ("base RTT".to_owned(), format!("{rtt_ms:.1} ms, measured")),
            ],
            lines: self.schemes.iter().map(|(label, scheme)| scheme.line(label)).collect(),
        }
    }
}

impl SchemeFacts {
    fn line(&self, label: &str) -> String {
        let (flows, as_planned) = (self.flows.len(), self.flows.iter().filter(|flow| flow.same_path).count());
        format!(
            "{label}: {} pairs answer a ping, in {:.1} ms at most; data and ACKs of {as_planned} of {flows} flows took the planned path.",
            self.pairs,
            self.ping_rtt_us / 1e3,
        )
    }
}

/// In microseconds.
pub fn us(time: Time) -> f64 {
    time.as_us_f64()
}
