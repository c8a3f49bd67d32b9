//! `back-to-back`: every host always has an active flow.

use super::context::{self, InvalidKey, Pairs, WorkloadContext, one};
use super::kind::{Flows, Workload};
use super::sizes::{Sizes, SizesSpec};
use super::source::{Arrival, FlowEnd, FlowSource};
use crate::file::SchemeEntry;
use crate::rng::RandomStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use weir_controller::topology::{AsText, HostIx};
use weir_units::Time;

/// Every host always has an active flow to a random host: when a flow completes, the next one starts (AMP §5.3).
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BackToBackSpec {
    /// Payload of each flow.
    sizes: SizesSpec,
    /// Number of concurrent flows per host.
    #[serde(default = "one")]
    parallel: u32,
    /// Start of the first flows.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    start: Time,
    /// No flow starts at or after this time; absent: the end of the run.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    stop: Option<Time>,
    /// Maximum number of flows.
    #[serde(default)]
    count: Option<u64>,
    /// Sending hosts; absent: all hosts.
    #[serde(default)]
    from: Option<String>,
    /// Receiving hosts; absent: all hosts.
    #[serde(default)]
    to: Option<String>,
    /// Scheme of the senders, in place of the run's scheme.
    #[serde(default)]
    scheme: Option<SchemeEntry>,
}

impl Workload for BackToBackSpec {
    const KIND: &'static str = "back-to-back";
    const ABOUT: &'static str = "every host always has an active flow: when one completes, the next starts";

    fn title(&self) -> String {
        format!("back to back with {}", self.sizes)
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        [&mut self.start].into_iter().chain(&mut self.stop).collect()
    }
    fn resolve_paths(&mut self, base: &Path) {
        self.sizes.resolve_paths(base);
    }
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        self.scheme.as_mut()
    }
    fn senders(&self, context: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        context.hosts("from", self.from.as_deref())
    }
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let sizes = context::resolve_sizes("sizes", &self.sizes)?;
        let start_range = context.start_range(self.start, self.stop)?;
        let pairs = Pairs::from_host_sets(context, self.from.as_deref(), self.to.as_deref())?;
        let (remaining, parallel) = (self.count.unwrap_or(u64::MAX), self.parallel);
        if parallel == 0 {
            return Err(InvalidKey::new("parallel", "must be at least 1"));
        }
        let concurrent_flows = f64::from(parallel) * pairs.from.len() as f64;
        context::check_concurrent_flows("parallel", concurrent_flows)?;
        Ok(Flows::dynamic(move |streams| {
            let senders: Vec<_> = pairs.from.iter().map(|&host| (host, streams.for_host(host))).collect();
            let pending_starts = (0..parallel)
                .flat_map(|_| 0..senders.len())
                .map(|sender| PendingStart { time: start_range.start, sender })
                .collect();
            let (sizes, pairs) = (Arc::clone(&sizes), pairs.clone());
            BackToBackSource { sizes, stop: start_range.end, remaining, pairs, senders, pending_starts }
        }))
    }
}

/// The source of `back-to-back`: every sender always has the same number of active flows.
struct BackToBackSource {
    sizes: Arc<Sizes>,
    stop: Time,
    /// Number of flows that may still start.
    remaining: u64,
    pairs: Pairs,
    /// Senders, each with the stream from which sizes and receivers of its flows are drawn.
    senders: Vec<(HostIx, RandomStream)>,
    /// Flows to start, in order of time: one for each flow that has ended.
    pending_starts: VecDeque<PendingStart>,
}

/// The start of a sender's next flow.
struct PendingStart {
    time: Time,
    /// Index in [`BackToBackSource::senders`].
    sender: usize,
}

impl FlowSource for BackToBackSource {
    fn next_start(&self) -> Option<Time> {
        let PendingStart { time, .. } = self.pending_starts.front().filter(|_| self.remaining > 0)?;
        (*time < self.stop).then_some(*time)
    }

    fn pop(&mut self) -> Option<Arrival> {
        self.next_start()?;
        let PendingStart { time: start, sender } = self.pending_starts.pop_front()?;
        self.remaining -= 1;
        let (from, stream) = &mut self.senders[sender];
        let size = self.sizes.draw(stream);
        let to = self.pairs.draw_receiver(*from, stream);
        Some(Arrival { tag: sender as u32, ..Arrival::new(*from, to, start, size) })
    }

    fn on_flow_acked(&mut self, flow: FlowEnd, now: Time) {
        self.pending_starts.push_back(PendingStart { time: now, sender: flow.tag as usize });
    }

    fn is_closed_loop(&self) -> bool {
        true
    }
}
