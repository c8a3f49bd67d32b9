//! `incast`: many hosts send to one.

use super::context::{self, InvalidKey, WorkloadContext};
use super::kind::{Flows, StaticFlow, Workload};
use super::sizes::{Sizes, SizesSpec};
use super::{Arrival, FlowSource, SenderAnnouncement};
use crate::rng::RandomStream;
use crate::scalar::SchemeEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use weir_controller::topology::{AsText, HostIx};
use weir_host::suggest::did_you_mean;
use weir_units::{Ratio, Time};

/// Many hosts send to one: once, the first hosts of the topology; or again and again, hosts drawn anew each time.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IncastSpec {
    /// Receiving host; absent: drawn anew each time.
    #[serde(default)]
    to: Option<String>,
    /// Number of senders.
    senders: u32,
    /// Number of flows, which the senders start in turn; absent: one for each.
    #[serde(default)]
    flows: Option<u32>,
    /// Payload of each flow.
    size: SizesSpec,
    /// Time at which the first starts.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    start: Time,
    /// Time between two starts of an incast.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    interval: Time,
    /// Each flow starts later by a random time below this.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    jitter: Time,
    /// Time from one incast to the next.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    every: Option<Time>,
    /// Instead of `every`: incasts at random times, whose payload is this share of what all hosts' links carry.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    load: Option<Ratio>,
    /// No incast begins later; absent: until the end of the run.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    stop: Option<Time>,
    /// Largest number of incasts.
    #[serde(default)]
    count: Option<u64>,
    /// Hosts that may send; absent: all.
    #[serde(default)]
    from: Option<String>,
    /// Each flow of an incast announces all its senders (Dart's look-ahead).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    announce: bool,
    /// Scheme of the senders, instead of the run's.
    #[serde(default)]
    scheme: Option<SchemeEntry>,
}

impl Workload for IncastSpec {
    const KIND: &'static str = "incast";
    const ABOUT: &'static str = "many hosts send to one, once or again and again";

    fn title(&self) -> String {
        match self.flows {
            Some(flows) => format!("incasts of {flows} flows from {} with {}", self.senders, self.size),
            None => format!("incasts of {} with {}", self.senders, self.size),
        }
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        let own = [&mut self.start, &mut self.interval, &mut self.jitter];
        own.into_iter().chain(&mut self.every).chain(&mut self.stop).collect()
    }
    fn locate(&mut self, base: &Path) {
        self.size.locate(base);
    }
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        self.scheme.as_mut()
    }
    fn senders(&self, fabric: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        fabric.hosts("from", self.from.as_deref())
    }
    fn flows(&self, fabric: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        match &self.to {
            Some(to) if self.every.is_none() && self.load.is_none() && self.from.is_none() => {
                self.once(fabric, to)
            }
            _ => self.repeated(fabric),
        }
    }
}

impl IncastSpec {
    /// Returns the number of flows of one incast.
    fn flows_of_one(&self) -> Result<u32, InvalidKey> {
        let flows = self.flows.unwrap_or(self.senders);
        if flows < self.senders {
            let reason = format!("{flows} flows are less than one for each of {} senders", self.senders);
            return Err(InvalidKey::new("flows", reason));
        }
        context::bounded_at_once("flows", flows.into())?;
        Ok(flows)
    }

    /// Returns what the flows of one incast announce.
    fn announced(
        &self,
        fabric: &WorkloadContext<'_>,
        sizes: &Sizes,
        senders: &[HostIx],
        number: u32,
    ) -> Result<Option<SenderAnnouncement>, InvalidKey> {
        if !self.announce {
            return Ok(None);
        }
        context::lists(fabric.mtu, sizes.least(), senders.len() as u64)?;
        Ok(Some(SenderAnnouncement { incast: number.max(1), senders: senders.into() }))
    }

    /// Returns the flows of one incast from the first hosts of the topology.
    fn once(&self, fabric: &WorkloadContext<'_>, to: &str) -> Result<Flows, InvalidKey> {
        let topology = fabric.topology;
        let receiver = topology.host_named(to).ok_or_else(|| {
            let meant = did_you_mean(to, topology.hosts.iter().map(|host| host.name.as_str()));
            InvalidKey::new("to", format!("host \"{to}\" is not declared{meant}"))
        })?;
        let others: Vec<HostIx> = topology.host_ixs().filter(|&ix| ix != receiver).collect();
        let chosen = others.get(..self.senders as usize).filter(|chosen| !chosen.is_empty());
        let Some(chosen) = chosen else {
            let reason = format!("the topology has {} hosts beside {to}", others.len());
            return Err(InvalidKey::new("senders", reason));
        };
        let sizes = context::sizes("size", &self.size)?;
        fabric.within(self.start, self.stop)?;
        let flows = self.flows_of_one()? as usize;
        let mut stream = RandomStream::new(fabric.seed, "incast");
        let announces = self.announced(
            fabric,
            &sizes,
            chosen,
            RandomStream::new(fabric.seed, "incast number").next_u64() as u32,
        )?;
        let flow = |(&from, i)| {
            let late = Time::from_ps(stream.below(self.jitter.as_ps().max(1)));
            let size = Some(sizes.draw(&mut stream));
            StaticFlow {
                from,
                to: receiver,
                start: self.start.saturating_add(self.interval.saturating_mul(i)).saturating_add(late),
                size,
                announces: announces.clone(),
                incast: true,
            }
        };
        Ok(Flows::Static(chosen.iter().cycle().take(flows).zip(0..).map(flow).collect()))
    }

    /// Returns incasts that begin again and again.
    fn repeated(&self, fabric: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let from = self.senders(fabric)?;
        let to = fabric.hosts("to", self.to.as_deref())?;
        let others = from.iter().filter(|&&host| to != [host]).count();
        // Of several receivers one may be among the senders, and is left out.
        let room = if to.len() == 1 { others } else { others.saturating_sub(1) };
        if self.senders == 0 || self.senders as usize > room {
            return Err(InvalidKey::new("senders", format!("there are 1 to {room} to choose from")));
        }
        let sizes = context::sizes("size", &self.size)?;
        let flows = self.flows_of_one()?;
        let gap = match (self.every, self.load) {
            (Some(_), Some(_)) => return Err(context::load_and_every_conflict()),
            (Some(every), None) => InterArrival::Fixed(context::period(every)?),
            (None, Some(share)) => {
                let hosts = fabric.topology.host_ixs();
                let all: f64 = hosts.map(|host| fabric.rate(host).as_bytes_per_sec_f64()).sum();
                InterArrival::Mean(sizes.mean() * f64::from(flows) / (context::load(share)? * all))
            }
            (None, None) => InterArrival::Fixed(Time::MAX),
        };
        if self.announce {
            context::lists(fabric.mtu, sizes.least(), self.senders.into())?;
        }
        let within = fabric.within(self.start, self.stop)?;
        let count = self.count.unwrap_or(u64::MAX);
        let incasts = (within.end - within.start).as_secs_f64() / gap.mean();
        let key = if self.every.is_some() { "every" } else { "size" };
        context::bounded_in_run(key, incasts.min(count as f64) * f64::from(flows))?;
        let rule = IncastParams {
            from,
            to,
            senders: self.senders as usize,
            flows: flows as usize,
            sizes,
            gap,
            interval: self.interval,
            jitter: self.jitter,
            within,
            announce: self.announce,
        };
        Ok(Flows::made(move |streams| {
            IncastSource::new(rule.clone(), count, streams.named("incasts"), streams.first_number())
        }))
    }
}

#[derive(Clone, Debug)]
struct IncastParams {
    from: Vec<HostIx>,
    to: Vec<HostIx>,
    senders: usize,
    flows: usize,
    sizes: Arc<Sizes>,
    gap: InterArrival,
    interval: Time,
    jitter: Time,
    within: Range<Time>,
    announce: bool,
}

/// Time from one incast to the next.
#[derive(Clone, Copy, Debug)]
enum InterArrival {
    Fixed(Time),
    /// Seconds on average, exponentially distributed.
    Mean(f64),
}

impl InterArrival {
    /// Returns its mean in seconds.
    fn mean(self) -> f64 {
        match self {
            InterArrival::Fixed(time) => time.as_secs_f64(),
            InterArrival::Mean(seconds) => seconds,
        }
    }

    fn draw(self, stream: &mut RandomStream) -> Time {
        match self {
            InterArrival::Fixed(time) => time,
            InterArrival::Mean(seconds) => Time::from_secs_f64(seconds * stream.exponential()),
        }
    }
}

/// Incasts, one after the other; those of long jitter may overlap.
struct IncastSource {
    rule: IncastParams,
    stream: RandomStream,
    /// Time at which the next incast begins.
    next: Option<Time>,
    /// Flows of those that have begun, by start.
    begun: VecDeque<Arrival>,
    left: u64,
    /// Number of the next incast, for its lists.
    number: u32,
}

impl IncastSource {
    fn new(rule: IncastParams, left: u64, mut stream: RandomStream, number: u32) -> IncastSource {
        let first = match rule.gap {
            InterArrival::Fixed(_) => rule.within.start,
            gap @ InterArrival::Mean(_) => rule.within.start + gap.draw(&mut stream),
        };
        let next = (left > 0 && first < rule.within.end).then_some(first);
        let mut incasts = IncastSource { rule, stream, next, begun: VecDeque::new(), left, number };
        incasts.schedule();
        incasts
    }

    /// Begins incasts as long as one may have a flow before the first that is there.
    fn schedule(&mut self) {
        while let Some(at) = self.next.filter(|&at| self.begun.front().is_none_or(|flow| at <= flow.start)) {
            self.left -= 1;
            self.push_incast(at);
            let next = at.saturating_add(self.rule.gap.draw(&mut self.stream));
            self.next = (self.left > 0 && next < self.rule.within.end).then_some(next);
        }
    }

    /// Adds the flows of one incast.
    fn push_incast(&mut self, at: Time) {
        let IncastParams { from, to, senders, flows, interval, jitter, announce, .. } = &self.rule;
        let stream = &mut self.stream;
        let to = to[stream.below(to.len() as u64) as usize];
        // The beginning of a random order of the possible senders.
        let mut others: Vec<HostIx> = from.iter().copied().filter(|&host| host != to).collect();
        for i in 0..*senders {
            let other = i + stream.below((others.len() - i) as u64) as usize;
            others.swap(i, other);
        }
        others.truncate(*senders);
        // 0 is no number.
        self.number = self.number.wrapping_add(1).max(1);
        let announces =
            announce.then(|| SenderAnnouncement { incast: self.number, senders: others.as_slice().into() });
        for (i, &from) in (0..).zip(others.iter().cycle().take(*flows)) {
            let late =
                if *jitter == Time::ZERO { Time::ZERO } else { Time::from_ps(stream.below(jitter.as_ps())) };
            let size = self.rule.sizes.draw(stream);
            let start = at.saturating_add(interval.saturating_mul(i)).saturating_add(late);
            let announces = announces.clone();
            self.begun.push_back(Arrival { announces, incast: true, ..Arrival::new(from, to, start, size) });
        }
        self.begun.make_contiguous().sort_by_key(|flow| flow.start); // stable
    }
}

impl FlowSource for IncastSource {
    fn next_start(&self) -> Option<Time> {
        self.begun.front().map(|flow| flow.start)
    }

    fn pop(&mut self) -> Option<Arrival> {
        let flow = self.begun.pop_front();
        self.schedule();
        flow
    }
}
