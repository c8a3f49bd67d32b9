//! `all-to-all`: every host sends a flow to every other.

use super::context::{self, InvalidKey, WorkloadContext, nonzero_size, one};
use super::kind::{Flows, Workload};
use super::source::{Arrival, FlowEnd, FlowSource};
use crate::scalar::SchemeEntry;
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
    fn senders(&self, fabric: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        fabric.hosts("hosts", self.hosts.as_deref())
    }
    fn flows(&self, fabric: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        fabric.within(self.start, None)?;
        let hosts = self.senders(fabric)?;
        if hosts.len() < 2 || self.parallel == 0 {
            return Err(InvalidKey::new(
                "",
                "requires at least two hosts, and `parallel` must be at least 1",
            ));
        }
        let (size, start) = (nonzero_size("size", self.size)?, self.start);
        let per_host = (self.parallel as usize).min(hosts.len() - 1);
        context::check_concurrent_flows("parallel", per_host as f64 * hosts.len() as f64)?;
        Ok(Flows::dynamic(move |_| {
            let ready = (0..per_host).flat_map(|_| 0..hosts.len()).map(|host| (start, host)).collect();
            AllToAllSource { size, started: vec![0; hosts.len()], hosts: hosts.clone(), ready }
        }))
    }
}

/// The source of `all-to-all`. The n-th flow of a host goes to the n-th host after it, so that the hosts do not all send to the
/// same receiver at once.
struct AllToAllSource {
    size: Bytes,
    hosts: Vec<HostIx>,
    /// Number of flows that each host has started.
    started: Vec<usize>,
    /// Start of each next flow and index of its sender.
    ready: VecDeque<(Time, usize)>,
}

impl FlowSource for AllToAllSource {
    fn next_start(&self) -> Option<Time> {
        self.ready.front().map(|(time, _)| *time)
    }

    fn pop(&mut self) -> Option<Arrival> {
        let (start, host) = self.ready.pop_front()?;
        self.started[host] += 1;
        let to = self.hosts[(host + self.started[host]) % self.hosts.len()];
        Some(Arrival { tag: host as u32, ..Arrival::new(self.hosts[host], to, start, self.size) })
    }

    fn on_acked(&mut self, flow: FlowEnd, now: Time) {
        let host = flow.tag as usize;
        // Flows in `ready` are not yet counted in `started`.
        let queued = self.ready.iter().filter(|(_, other)| *other == host).count();
        if self.started[host] + queued < self.hosts.len() - 1 {
            self.ready.push_back((now, host));
        }
    }

    fn is_closed_loop(&self) -> bool {
        true
    }
}
