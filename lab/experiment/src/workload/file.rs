//! `file`: the flows of a file in the HPCC simulator's format.

use super::context::{InvalidKey, WorkloadContext, one};
use super::flow_file::{self, FileFlow};
use super::kind::{Flows, Workload};
use super::{Arrival, FlowSource};
use crate::input::read_file;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use weir_units::Time;

/// The flows of a file in the HPCC simulator's format.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowFile {
    /// Path, relative to the directory of the experiment file.
    path: String,
    /// Factor by which the start times in the file are multiplied.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    stretch: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // Signature required by serde.
fn is_one(stretch: &u32) -> bool {
    *stretch == 1
}

impl Workload for FlowFile {
    const KIND: &'static str = "file";
    const ABOUT: &'static str = "the flows of a file in the HPCC simulator's format";

    fn title(&self) -> String {
        format!("flows of {}", self.path)
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        Vec::new()
    }
    fn stretch(&mut self, times: f64) {
        self.stretch = (f64::from(self.stretch) * times).round() as u32;
    }
    fn locate(&mut self, base: &Path) {
        self.path = base.join(&self.path).display().to_string();
    }
    fn flows(&self, fabric: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let wrong = |reason: String| InvalidKey::new("path", format!("{}: {reason}", self.path));
        let text = read_file(Path::new(&self.path)).map_err(|error| wrong(error.to_string()))?;
        let flows: Arc<[FileFlow]> = flow_file::read(fabric.topology, &text).map_err(wrong)?.into();
        let stretch = self.stretch;
        let first = flows.first().ok_or_else(|| wrong("has no flows".to_owned()))?.start;
        let (first, end) = (first.saturating_mul(stretch.into()), fabric.duration);
        if first >= end {
            return Err(wrong(format!(
                "its first flow starts at {first}, not before the end of the run, {end}"
            )));
        }
        Ok(Flows::made(move |_| Replay { flows: Arc::clone(&flows), stretch, next: 0 }))
    }
}

/// The source of `file`: the flows of the file in order of start.
struct Replay {
    flows: Arc<[FileFlow]>,
    stretch: u32,
    next: usize,
}

impl FlowSource for Replay {
    fn next_start(&self) -> Option<Time> {
        self.flows.get(self.next).map(|flow| flow.start.saturating_mul(self.stretch.into()))
    }

    fn pop(&mut self) -> Option<Arrival> {
        let start = self.next_start()?;
        let FileFlow { from, to, incast, size, .. } = self.flows[self.next];
        self.next += 1;
        Some(Arrival { incast, ..Arrival::new(from, to, start, size) })
    }
}
