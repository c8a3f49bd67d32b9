//! `all-to-all`: every host sends a flow to every other.

use super::context::{self, InvalidKey, WorkloadContext, nonzero_size, one};
use super::kind::{Flows, Workload};
use super::source::{Arrival, FlowEnd, FlowSource};
use crate::file::SchemeEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use std::collections::VecDeque;
use weir_controller::topology::{AsText, HostIx};
use weir_units::{Bytes, Time};

/// Every host sends a flow to every other host; the next flow starts when one completes.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AllToAllSpec {
    /// Payload of each flow.
    #[serde_as(as = "AsText")]
    size: Bytes,
    /// Start of the first flows.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    start: Time,
    /// Number of concurrent flows per host.
    #[serde(default = "one")]
    parallel: u32,
    /// Participating hosts; absent: all hosts.
    #[serde(default)]
    hosts: Option<String>,
    /// Scheme of these hosts, in place of the run's scheme.
    #[serde(default)]
    scheme: Option<SchemeEntry>,
}

impl Workload for AllToAllSpec {
    const KIND: &'static str = "all-to-all";
    const ABOUT: &'static str = "every host sends a flow to every other host, the next when one completes";

    fn title(&self) -> String {
        format!("all to all with {}", self.size)
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        vec![&mut self.start]
    }
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        self.scheme.as_mut()
    }
    fn senders(&self, context: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        context.hosts("hosts", self.hosts.as_deref())
    }
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        // Checks that `start` is before the end of the run.
        context.start_range(self.start, None)?;
        let hosts = self.senders(context)?;
        if hosts.len() < 2 {
            return Err(InvalidKey::new("hosts", "requires at least two hosts"));
        }
        if self.parallel == 0 {
            return Err(InvalidKey::new("parallel", "must be at least 1"));
        }
        let (size, start) = (nonzero_size("size", self.size)?, self.start);
        let flows_per_host = (self.parallel as usize).min(hosts.len() - 1);
        context::check_concurrent_flows("parallel", flows_per_host as f64 * hosts.len() as f64)?;
        Ok(Flows::dynamic(move |_| {
            let pending_starts = (0..flows_per_host)
                .flat_map(|_| 0..hosts.len())
                .map(|sender| PendingStart { time: start, sender })
                .collect();
            AllToAllSource { size, started_flows: vec![0; hosts.len()], hosts: hosts.clone(), pending_starts }
        }))
    }
}

/// The source of `all-to-all`. The n-th flow of a host goes to the n-th host after it, so that the hosts do not all send to the
/// same receiver at once.
struct AllToAllSource {
    size: Bytes,
    hosts: Vec<HostIx>,
    /// Number of flows that each host has started.
    started_flows: Vec<usize>,
    /// Flows to start, in order of time.
    pending_starts: VecDeque<PendingStart>,
}

/// The start of a sender's next flow.
struct PendingStart {
    time: Time,
    /// Index in [`AllToAllSource::hosts`].
    sender: usize,
}

impl FlowSource for AllToAllSource {
    fn next_start(&self) -> Option<Time> {
        self.pending_starts.front().map(|pending| pending.time)
    }

    fn pop(&mut self) -> Option<Arrival> {
        let PendingStart { time, sender } = self.pending_starts.pop_front()?;
        self.started_flows[sender] += 1;
        let receiver = self.hosts[(sender + self.started_flows[sender]) % self.hosts.len()];
        Some(Arrival { tag: sender as u32, ..Arrival::new(self.hosts[sender], receiver, time, self.size) })
    }

    fn on_flow_acked(&mut self, flow: FlowEnd, now: Time) {
        let sender = flow.tag as usize;
        // Pending flows are not yet counted in `started_flows`.
        let pending = self.pending_starts.iter().filter(|pending| pending.sender == sender).count();
        if self.started_flows[sender] + pending < self.hosts.len() - 1 {
            self.pending_starts.push_back(PendingStart { time: now, sender });
        }
    }

    fn is_closed_loop(&self) -> bool {
        true
    }
}
