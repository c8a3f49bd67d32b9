//! `poisson`: flows at random times, as in the HPCC simulator's traffic_gen.py.

use super::context::{self, InvalidKey, Pairs, WorkloadContext};
use super::kind::{Flows, Workload};
use super::sizes::{Sizes, SizesSpec};
use super::{Arrival, FlowSource};
use crate::rng::RandomStream;
use crate::scalar::SchemeEntry;
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
    /// Largest number of flows.
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
    fn locate(&mut self, base: &Path) {
        self.sizes.locate(base);
    }
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        self.scheme.as_mut()
    }
    fn senders(&self, fabric: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        fabric.hosts("from", self.from.as_deref())
    }
    fn flows(&self, fabric: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let share = match (self.every, self.load) {
            (Some(_), Some(_)) => return Err(context::load_and_every_conflict()),
            (Some(every), None) => Err(context::period(every)?.as_secs_f64()),
            (None, Some(load)) => Ok(context::load(load)?),
            (None, None) => {
                return Err(InvalidKey::new("load", "missing; specify `load` or `every`"));
            }
        };
        let sizes = context::sizes("sizes", &self.sizes)?;
        let within = fabric.within(self.start, self.stop)?;
        let pairs = Pairs::of(fabric, self.from.as_deref(), self.to.as_deref())?;
        let gap = |&host: &HostIx| match share {
            Ok(share) => sizes.mean() / (share * fabric.rate(host).as_bytes_per_sec_f64()),
            Err(seconds) => seconds,
        };
        let gaps: Vec<f64> = pairs.from.iter().map(gap).collect();
        let span = (within.end - within.start).as_secs_f64();
        let count = self.count.unwrap_or(u64::MAX);
        let expected: f64 = gaps.iter().map(|gap| span / gap).sum();
        context::bounded_in_run(
            if self.every.is_some() { "every" } else { "sizes" },
            expected.min(count as f64),
        )?;
        Ok(Flows::made(move |streams| {
            let sender = |(&host, &gap)| Sender { host, gap, stream: streams.of_host(host) };
            let mut senders: Vec<Sender> = pairs.from.iter().zip(&gaps).map(sender).collect();
            let first = senders.iter_mut().enumerate();
            let next = first.map(|(i, sender)| Reverse((within.start + sender.gap(), i))).collect();
            let (sizes, pairs) = (Arc::clone(&sizes), pairs.clone());
            Poisson { senders, next, sizes, stop: within.end, left: count, pairs }
        }))
    }
}

/// A sender of a Poisson process.
struct Sender {
    host: HostIx,
    /// Mean time between flows, in seconds.
    gap: f64,
    stream: RandomStream,
}

impl Sender {
    fn gap(&mut self) -> Time {
        Time::from_secs_f64(self.gap * self.stream.exponential())
    }
}

/// The source of `poisson`: an independent Poisson process for each sender.
struct Poisson {
    senders: Vec<Sender>,
    /// Start of the next flow and index of the sender, for each sender.
    next: BinaryHeap<Reverse<(Time, usize)>>,
    sizes: Arc<Sizes>,
    stop: Time,
    left: u64,
    pairs: Pairs,
}

impl FlowSource for Poisson {
    fn next_start(&self) -> Option<Time> {
        let Reverse((time, _)) = self.next.peek().filter(|_| self.left > 0)?;
        (*time < self.stop).then_some(*time)
    }

    fn pop(&mut self) -> Option<Arrival> {
        let start = self.next_start()?;
        let Reverse((_, i)) = self.next.pop()?;
        self.left -= 1;
        let sender = &mut self.senders[i];
        let size = self.sizes.draw(&mut sender.stream);
        let to = self.pairs.peer(sender.host, &mut sender.stream);
        let gap = sender.gap();
        self.next.push(Reverse((start + gap, i)));
        Some(Arrival::new(sender.host, to, start, size))
    }
}
