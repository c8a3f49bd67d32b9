//! `file`: the flows of a file in the HPCC simulator's format.

use super::context::{InvalidKey, WorkloadContext};
use super::flow_file::{self, FileFlow};
use super::kind::{Flows, Workload};
use super::source::{Arrival, FlowSource};
use crate::input::read_file;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::path::Path;
use std::sync::Arc;
use weir_units::Time;

/// The flows of a file in the HPCC simulator's format.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSpec {
    /// Path, relative to the directory of the experiment file.
    path: String,
    /// Factor by which the start times in the file are multiplied.
    #[serde(
        default = "unchanged",
        skip_serializing_if = "is_unchanged",
        serialize_with = "serialize_factor"
    )]
    stretch: f64,
}

fn unchanged() -> f64 {
    1.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // Signature required by serde.
fn is_unchanged(stretch: &f64) -> bool {
    *stretch == unchanged()
}

/// Writes a whole factor without decimals, `2` in place of `2.0`.
#[allow(clippy::trivially_copy_pass_by_ref)] // Signature required by serde.
fn serialize_factor<S: Serializer>(factor: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = *factor as u64;
    if whole as f64 == *factor { serializer.serialize_u64(whole) } else { serializer.serialize_f64(*factor) }
}

/// Multiplies a start time in the file by a factor of 0 or more, and rounds it to the nearest picosecond.
fn stretched(start: Time, factor: f64) -> Time {
    Time::from_ps((start.as_ps() as f64 * factor).round() as u64)
}

impl Workload for FileSpec {
    const KIND: &'static str = "file";
    const ABOUT: &'static str = "the flows of a file in the HPCC simulator's format";

    fn title(&self) -> String {
        format!("flows of {}", self.path)
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        Vec::new()
    }
    fn stretch(&mut self, factor: f64) {
        self.stretch *= factor;
    }
    fn resolve_paths(&mut self, base: &Path) {
        self.path = base.join(&self.path).display().to_string();
    }
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let stretch = self.stretch;
        if !(stretch.is_finite() && stretch >= 0.0) {
            return Err(InvalidKey::new("stretch", format!("must be 0 or more, found {stretch}")));
        }
        let invalid = |reason: String| InvalidKey::new("path", format!("{}: {reason}", self.path));
        let text = read_file(Path::new(&self.path)).map_err(|error| invalid(error.to_string()))?;
        let flows: Arc<[FileFlow]> = flow_file::read(context.topology, &text).map_err(invalid)?.into();
        let first = flows.first().ok_or_else(|| invalid("has no flows".to_owned()))?.start;
        let (first, end) = (stretched(first, stretch), context.duration);
        if first >= end {
            return Err(invalid(format!(
                "its first flow starts at {first}, not before the end of the run, {end}"
            )));
        }
        Ok(Flows::dynamic(move |_| ReplaySource { flows: Arc::clone(&flows), stretch, next: 0 }))
    }
}

/// The source of `file`: the flows of the file in order of start.
struct ReplaySource {
    flows: Arc<[FileFlow]>,
    stretch: f64,
    next: usize,
}

impl FlowSource for ReplaySource {
    fn next_start(&self) -> Option<Time> {
        self.flows.get(self.next).map(|flow| stretched(flow.start, self.stretch))
    }

    fn pop(&mut self) -> Option<Arrival> {
        let start = self.next_start()?;
        let FileFlow { from, to, incast, size, .. } = self.flows[self.next];
        self.next += 1;
        Some(Arrival { incast, ..Arrival::new(from, to, start, size) })
    }
}

#[cfg(test)]
mod tests {
    use crate::Experiment;
    use std::path::Path;
    use weir_units::{Bandwidth, Time};

    /// An experiment in `dir` with the flows of a file that start at 0, 1 and 3 us. `keys` are further keys of the workload.
    fn experiment(dir: &Path, keys: &str) -> Result<Experiment, String> {
        let flows = "3\n0 1 3 100 1000 2\n1 2 3 100 1000 2.000001\n2 0 3 100 1000 2.000003\n";
        std::fs::write(dir.join("flow.txt"), flows).unwrap();
        let text = format!(
            "topology: {{kind: star, hosts: 3, rate: 100Gbps}}\nschemes: [hpcc]\nduration: 1ms\n\
             workload: {{kind: file, path: flow.txt{keys}}}\n"
        );
        let file = dir.join("x.yaml").display().to_string();
        Experiment::parse(&text, &file, "x", &[], None).map_err(|error| error.to_string())
    }

    fn starts_in_ns(experiment: &Experiment) -> Vec<u64> {
        experiment.all_flows().unwrap().iter().map(|flow| flow.start.as_ns()).collect()
    }

    #[test]
    fn starts_are_multiplied_by_whole_and_other_factors() {
        let dir = tempfile::tempdir().unwrap();
        for (keys, starts, written) in [
            ("", [0, 1_000, 3_000], None),
            (", stretch: 1", [0, 1_000, 3_000], None),
            (", stretch: 3", [0, 3_000, 9_000], Some("stretch: 3")),
            (", stretch: 0.5", [0, 500, 1_500], Some("stretch: 0.5")),
        ] {
            let experiment = experiment(dir.path(), keys).unwrap();
            assert_eq!(starts_in_ns(&experiment), starts, "{keys}");
            let yaml = experiment.resolved_yaml();
            let line = yaml.lines().map(str::trim_start).find(|line| line.starts_with("stretch"));
            assert_eq!(line, written, "{yaml}");
        }
        for keys in [", stretch: -1", ", stretch: .nan", ", stretch: .inf"] {
            let error = experiment(dir.path(), keys).err().unwrap();
            assert!(error.contains(":4:49: workload.stretch: must be 0 or more, found "), "{error}");
        }
    }

    /// 100 Gbit/s as 40 Gbit/s: all times are 2.5 times as long.
    #[test]
    fn a_scale_model_multiplies_starts_by_the_factor_of_all_other_times() {
        let dir = tempfile::tempdir().unwrap();
        for (keys, starts) in [("", [0, 2_500, 7_500]), (", stretch: 3", [0, 7_500, 22_500])] {
            let model = experiment(dir.path(), keys).unwrap().at_rate(Bandwidth::from_gbps(40)).unwrap();
            assert_eq!(model.spec.duration, Time::from_us(2_500));
            assert_eq!(starts_in_ns(&model), starts, "{keys}");
        }
    }
}
