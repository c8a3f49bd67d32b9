//! `workload: {kind: shift, by: 2, size: 50KB}`

use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use std::collections::VecDeque;
use weir_controller::topology::{AsText, HostIx};
use weir_experiment::workload::{Arrival, FlowEnd, WorkloadContext, Flows, FlowSource, Workload, InvalidKey};
use weir_experiment::schemars::{self, JsonSchema};
use weir_units::{Bytes, Time};

/// Every host sends flows to the host `by` places further on, the next one when the last is done. The fields are the
/// keys in an experiment file.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shift {
    by: usize,
    #[serde_as(as = "AsText")]
    size: Bytes,
    #[serde_as(as = "AsText")]
    #[serde(default)]
    start: Time,
}

impl Workload for Shift {
    const KIND: &'static str = "shift";
    const ABOUT: &'static str = "every host sends to the host some places further on";

    fn title(&self) -> String {
        format!("{} to the host {} places further on", self.size, self.by)
    }

    /// A scale model multiplies these.
    fn times_mut(&mut self) -> Vec<&mut Time> {
        vec![&mut self.start]
    }

    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let hosts = context.hosts("hosts", None)?;
        if self.by % hosts.len() == 0 {
            return Err(InvalidKey::new(
                "by",
                format!("{} of {} hosts leads back to the sender", self.by, hosts.len()),
            ));
        }
        let Shift { by, size, start } = *self;
        // Each scheme of a run gets a source of its own. A workload whose flows are known beforehand returns
        // `Flows::Static` instead.
        Ok(Flows::dynamic(move |_| Shifts {
            ready: (0..hosts.len()).map(|sender| (start, sender)).collect(),
            hosts: hosts.clone(),
            by,
            size,
        }))
    }
}

/// The flows that may start.
struct Shifts {
    hosts: Vec<HostIx>,
    by: usize,
    size: Bytes,
    /// Time of the next flow of each idle host.
    ready: VecDeque<(Time, usize)>,
}

impl FlowSource for Shifts {
    fn next_start(&self) -> Option<Time> {
        self.ready.front().map(|(time, _)| *time)
    }

    fn pop(&mut self) -> Option<Arrival> {
        let (start, sender) = self.ready.pop_front()?;
        let to = self.hosts[(sender + self.by) % self.hosts.len()];
        // The tag comes back when the flow ends.
        Some(Arrival { tag: sender as u32, ..Arrival::new(self.hosts[sender], to, start, self.size) })
    }

    fn on_flow_acked(&mut self, flow: FlowEnd, now: Time) {
        self.ready.push_back((now, flow.tag as usize));
    }

    fn is_closed_loop(&self) -> bool {
        true
    }
}
