//! The results of an earlier `weir bench --json`, used as the baseline.

use super::programs::Cost;
use super::quickstart::Speed;
use crate::commands::files::read;
use crate::console::Failure;
use serde::Deserialize;
use std::path::Path;
use weir_controller::runtime_json::split_json_error;

/// The compared part of a saved `weir bench --json`.
#[derive(Debug, Deserialize)]
pub(super) struct Baseline {
    sim: Vec<SavedSpeed>,
    programs: Vec<SavedCost>,
}

/// An entry of `sim`.
#[derive(Debug, Deserialize)]
struct SavedSpeed {
    scheme: String,
    median_packet_hops_per_s: f64,
}

/// An entry of `programs`.
#[derive(Debug, Deserialize)]
struct SavedCost {
    program: String,
    packet: String,
    ns: f64,
}

impl Baseline {
    pub(super) fn read(path: &Path) -> Result<Baseline, Failure> {
        Baseline::parse(&read(path)?).map_err(|reason| Failure::Input(format!("{}:{reason}", path.display())))
    }

    fn parse(text: &str) -> Result<Baseline, String> {
        serde_json::from_str(text).map_err(|error| {
            let (position, reason) = split_json_error(&error);
            format!("{position}: not the output of `weir bench --json`: {reason}")
        })
    }

    /// Returns the speed of a scheme relative to the baseline; `None` if the baseline lacks the scheme.
    pub(super) fn speed(&self, current: &Speed) -> Option<f64> {
        let saved = self.sim.iter().find(|saved| saved.scheme == current.scheme)?;
        ratio(current.median(), saved.median_packet_hops_per_s)
    }

    /// Returns the cost of a packet relative to the baseline; `None` if the baseline lacks that packet.
    pub(super) fn cost(&self, current: &Cost) -> Option<f64> {
        let is_same =
            |saved: &&SavedCost| (&*saved.program, &*saved.packet) == (&*current.program, current.packet);
        ratio(current.ns, self.programs.iter().find(is_same)?.ns)
    }
}

/// Returns `None` if the saved value is 0.
fn ratio(current: f64, saved: f64) -> Option<f64> {
    (saved > 0.0).then_some(current / saved)
}

/// Formats a ratio as a change in percent; `new` if the baseline has no such value.
pub(super) fn change(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "new".to_owned(), |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_with_saved_values_of_the_same_name() {
        let text = r#"{"sim": [{"scheme": "hpcc", "packet_hops": 9, "median_packet_hops_per_s": 2e6}],
            "programs": [{"program": "ecn", "packet": "ACK", "ns": 100}], "peak_memory_bytes": null}"#;
        let baseline = Baseline::parse(text).unwrap();
        let speed = |scheme: &str| Speed {
            scheme: scheme.to_owned(),
            packet_hops: 9,
            per_second: vec![1e6, 3e6, 9e6],
        };
        let cost = |packet| Cost { program: "ecn".into(), packet, ns: 90.0 };
        assert_eq!(change(baseline.speed(&speed("hpcc"))), "+50.0 %");
        assert_eq!(change(baseline.cost(&cost("ACK"))), "-10.0 %");
        assert_eq!(
            (change(baseline.speed(&speed("fncc"))), change(baseline.cost(&cost("DATA")))),
            ("new".into(), "new".into())
        );
    }

    #[test]
    fn other_files_are_rejected_with_the_position() {
        let reason = Baseline::parse("{\"sim\": []}").unwrap_err();
        assert!(
            reason.starts_with("1:11: not the output of `weir bench --json`: missing field `programs`"),
            "{reason}"
        );
    }
}
