//! `poisson`: flows at random times, as in the HPCC simulator's traffic_gen.py.

use super::context::{self, InvalidKey, Pairs, WorkloadContext};
use super::kind::{Flows, Workload};
use super::sizes::{Sizes, SizesSpec};
use super::source::{Arrival, FlowSource};
use crate::file::SchemeEntry;
use crate::rng::RandomStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;
use weir_controller::topology::{AsText, HostIx};
use weir_units::{Ratio, Time};

/// Every host sends flows at random times, each to a random host, as in the HPCC simulator's traffic_gen.py
/// (docs/algorithms/methods.md#workloads).
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PoissonSpec {
    /// Payload of each flow.
    sizes: SizesSpec,
    /// Mean payload that a host sends, as a share of the capacity of its link.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    #[schemars(extend("maximum" = 1))]
    load: Option<Ratio>,
    /// In place of `load`: mean time between flows of a host. The resulting load may exceed the capacity of the link.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    every: Option<Time>,
    /// No flow starts before this time.
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

impl Workload for PoissonSpec {
    const KIND: &'static str = "poisson";
    const ABOUT: &'static str = "flows at random times and to random hosts";

    fn title(&self) -> String {
        let PoissonSpec { sizes, load, every, .. } = self;
        match (load, every) {
            (Some(load), _) => format!("Poisson, {sizes}, at {load}"),
            (None, Some(every)) => format!("Poisson, {sizes}, every {every} and host"),
            (None, None) => format!("Poisson, {sizes}"),
        }
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        [&mut self.start].into_iter().chain(&mut self.every).chain(&mut self.stop).collect()
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
        let intensity = match (self.every, self.load) {
            (Some(_), Some(_)) => return Err(context::load_and_every_conflict()),
            (Some(every), None) => Intensity::Every(context::check_period(every)?.as_secs_f64()),
            (None, Some(load)) => Intensity::Load(context::check_load(load)?),
            (None, None) => {
                return Err(InvalidKey::new("load", "missing; specify `load` or `every`"));
            }
        };
        let sizes = context::resolve_sizes("sizes", &self.sizes)?;
        let start_range = context.start_range(self.start, self.stop)?;
        let pairs = Pairs::from_host_sets(context, self.from.as_deref(), self.to.as_deref())?;
        let mean_gap = |&host: &HostIx| match intensity {
            Intensity::Load(load) => sizes.mean() / (load * context.rate(host).as_bytes_per_sec_f64()),
            Intensity::Every(seconds) => seconds,
        };
        let mean_gaps: Vec<f64> = pairs.from.iter().map(mean_gap).collect();
        let span = (start_range.end - start_range.start).as_secs_f64();
        let count = self.count.unwrap_or(u64::MAX);
        let expected: f64 = mean_gaps.iter().map(|gap| span / gap).sum();
        context::check_total_flows(
            if self.every.is_some() { "every" } else { "sizes" },
            expected.min(count as f64),
        )?;
        Ok(Flows::dynamic(move |streams| {
            let sender = |(&host, &mean_gap)| Sender { host, mean_gap, stream: streams.for_host(host) };
            let mut senders: Vec<Sender> = pairs.from.iter().zip(&mean_gaps).map(sender).collect();
            let indexed = senders.iter_mut().enumerate();
            let next_starts =
                indexed.map(|(i, sender)| Reverse((start_range.start + sender.draw_gap(), i))).collect();
            let (sizes, pairs) = (Arc::clone(&sizes), pairs.clone());
            PoissonSource { senders, next_starts, sizes, stop: start_range.end, remaining: count, pairs }
        }))
    }
}

/// How often a sender starts a flow.
#[derive(Clone, Copy)]
enum Intensity {
    /// Mean payload as a share of the capacity of the sender's link.
    Load(f64),
    /// Mean time between flows, in seconds.
    Every(f64),
}

/// A sender of a Poisson process.
struct Sender {
    host: HostIx,
    /// Mean time between flows, in seconds.
    mean_gap: f64,
    stream: RandomStream,
}

impl Sender {
    fn draw_gap(&mut self) -> Time {
        Time::from_secs_f64(self.mean_gap * self.stream.exponential())
    }
}

/// The source of `poisson`: an independent Poisson process for each sender.
struct PoissonSource {
    senders: Vec<Sender>,
    /// For each sender: start of its next flow and its index in `senders`; the earliest start is at the top.
    next_starts: BinaryHeap<Reverse<(Time, usize)>>,
    sizes: Arc<Sizes>,
    stop: Time,
    /// Number of flows that may still start.
    remaining: u64,
    pairs: Pairs,
}

impl FlowSource for PoissonSource {
    fn next_start(&self) -> Option<Time> {
        let Reverse((time, _)) = self.next_starts.peek().filter(|_| self.remaining > 0)?;
        (*time < self.stop).then_some(*time)
    }

    fn pop(&mut self) -> Option<Arrival> {
        let start = self.next_start()?;
        let Reverse((_, i)) = self.next_starts.pop()?;
        self.remaining -= 1;
        let sender = &mut self.senders[i];
        let size = self.sizes.draw(&mut sender.stream);
        let to = self.pairs.draw_receiver(sender.host, &mut sender.stream);
        let gap = sender.draw_gap();
        self.next_starts.push(Reverse((start + gap, i)));
        Some(Arrival::new(sender.host, to, start, size))
    }
}
