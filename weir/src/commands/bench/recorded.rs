//! The results of an earlier `weir bench --json`, used as the baseline.

use super::programs::Cost;
use super::{Speed, read};
use crate::console::Failure;
use serde::Deserialize;
use std::path::Path;
use weir_controller::runtime_json::place_and_problem;

/// The compared part of a saved `weir bench --json`.
#[derive(Debug, Deserialize)]
pub struct Baseline {
    sim: Vec<RecordedSpeed>,
    programs: Vec<RecordedCost>,
}

#[derive(Debug, Deserialize)]
struct RecordedSpeed {
    scheme: String,
    median_packet_hops_per_s: f64,
}

#[derive(Debug, Deserialize)]
struct RecordedCost {
    program: String,
    packet: String,
    ns: f64,
}

impl Baseline {
    pub fn read(path: &Path) -> Result<Baseline, Failure> {
        Baseline::parse(&read(path)?).map_err(|reason| Failure::Input(format!("{}:{reason}", path.display())))
    }

    fn parse(text: &str) -> Result<Baseline, String> {
        serde_json::from_str(text).map_err(|error| {
            let (place, reason) = place_and_problem(&error);
            format!("{place}: not the output of `weir bench --json`: {reason}")
        })
    }

    /// Returns the speed of a scheme relative to the baseline; `None` if the baseline lacks the scheme.
    pub fn speed(&self, now: &Speed) -> Option<f64> {
        let then = self.sim.iter().find(|then| then.scheme == now.scheme)?;
        ratio(now.median(), then.median_packet_hops_per_s)
    }

    /// Returns the cost of a packet relative to the baseline; `None` if the baseline lacks that packet.
    pub fn cost(&self, now: &Cost) -> Option<f64> {
        let same = |then: &&RecordedCost| (&*then.program, &*then.packet) == (&*now.program, now.packet);
        ratio(now.ns, self.programs.iter().find(same)?.ns)
    }
}

fn ratio(now: f64, then: f64) -> Option<f64> {
    (then > 0.0).then_some(now / then)
}

/// Formats a ratio as a change in percent; `new` if the baseline has no such value.
pub fn change(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "new".to_owned(), |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_compared_with_those_of_the_same_name() {
        let text = r#"{"sim": [{"scheme": "hpcc", "packet_hops": 9, "median_packet_hops_per_s": 2e6}],
            "programs": [{"program": "ecn", "packet": "ACK", "ns": 100}], "peak_memory_bytes": null}"#;
        let recorded = Baseline::parse(text).unwrap();
        let speed = |scheme: &str| Speed {
            scheme: scheme.to_owned(),
            packet_hops: 9,
            per_second: vec![1e6, 3e6, 9e6],
        };
        let cost = |packet| Cost { program: "ecn".into(), packet, ns: 90.0 };
        assert_eq!(change(recorded.speed(&speed("hpcc"))), "+50.0 %");
        assert_eq!(change(recorded.cost(&cost("ACK"))), "-10.0 %");
        assert_eq!(
            (change(recorded.speed(&speed("fncc"))), change(recorded.cost(&cost("DATA")))),
            ("new".into(), "new".into())
        );
    }

    #[test]
    fn another_file_is_refused_with_the_place() {
        let reason = Baseline::parse("{\"sim\": []}").unwrap_err();
        assert!(
            reason.starts_with("1:11: not the output of `weir bench --json`: missing field `programs`"),
            "{reason}"
        );
    }
}
