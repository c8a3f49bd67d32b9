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

/// Many hosts send to one: once, from the first hosts of the topology, or repeatedly, from hosts drawn for each incast.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IncastSpec {
    /// Receiving host; absent: drawn for each incast.
    #[serde(default)]
    to: Option<String>,
    /// Number of senders of an incast.
    senders: u32,
    /// Number of flows of an incast, assigned to the senders in round-robin order; absent: one flow per sender.
    #[serde(default)]
    flows: Option<u32>,
    /// Payload of each flow.
    size: SizesSpec,
    /// Time of the first incast.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    start: Time,
    /// Time between the starts of two flows of an incast.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    interval: Time,
    /// Upper bound of a random delay of the start of each flow.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    jitter: Time,
    /// Interval between incasts.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    every: Option<Time>,
    /// In place of `every`: mean load of incasts at random times, as a share of the capacity of all hosts' links.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    load: Option<Ratio>,
    /// No incast starts at or after this time; absent: the end of the run.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    stop: Option<Time>,
    /// Largest number of incasts.
    #[serde(default)]
    count: Option<u64>,
    /// Hosts from which senders are drawn; absent: all hosts.
    #[serde(default)]
    from: Option<String>,
    /// If true, each flow of an incast announces all senders of the incast (Dart's look-ahead).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    announce: bool,
    /// Scheme of the senders, in place of the run's scheme.
    #[serde(default)]
    scheme: Option<SchemeEntry>,
}

impl Workload for IncastSpec {
    const KIND: &'static str = "incast";
    const ABOUT: &'static str = "many hosts send to one, once or repeatedly";

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
            let reason =
                format!("at least one flow per sender is required: {flows} flows, {} senders", self.senders);
            return Err(InvalidKey::new("flows", reason));
        }
        context::bounded_at_once("flows", flows.into())?;
        Ok(flows)
    }

    /// Returns the announcement of the flows of one incast; `None` without the key `announce`.
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

    /// Returns the flows of a single incast from the first hosts of the topology.
    fn once(&self, fabric: &WorkloadContext<'_>, to: &str) -> Result<Flows, InvalidKey> {
        let topology = fabric.topology;
        let receiver = topology.host_named(to).ok_or_else(|| {
            let meant = did_you_mean(to, topology.hosts.iter().map(|host| host.name.as_str()));
            InvalidKey::new("to", format!("host \"{to}\" is not declared{meant}"))
        })?;
        let others: Vec<HostIx> = topology.host_ixs().filter(|&ix| ix != receiver).collect();
        let chosen = others.get(..self.senders as usize).filter(|chosen| !chosen.is_empty());
        let Some(chosen) = chosen else {
            let reason = format!("must be 1 to {}, the number of hosts other than {to}", others.len());
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

    /// Returns a source of repeated incasts.
    fn repeated(&self, fabric: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let from = self.senders(fabric)?;
        let to = fabric.hosts("to", self.to.as_deref())?;
        let others = from.iter().filter(|&&host| to != [host]).count();
        // If there are several receivers, the one of an incast may be in `from`; it does not send.
        let room = if to.len() == 1 { others } else { others.saturating_sub(1) };
        if self.senders == 0 || self.senders as usize > room {
            return Err(InvalidKey::new("senders", format!("must be 1 to {room}")));
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
    /// Exponentially distributed with this mean in seconds.
    Mean(f64),
}

impl InterArrival {
    /// Returns the mean in seconds.
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

/// A sequence of incasts. With jitter, successive incasts may overlap.
struct IncastSource {
    rule: IncastParams,
    stream: RandomStream,
    /// Start of the next incast; `None` if there are no more.
    next: Option<Time>,
    /// Flows of the incasts so far, sorted by start.
    begun: VecDeque<Arrival>,
    /// Number of incasts that may still start.
    left: u64,
    /// Number of the last incast, for its announcements.
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

    /// Generates incasts until the start of the first queued flow is final.
    fn schedule(&mut self) {
        // Jitter may start flows of the next incast before those of this one, and flows must be popped in order of start.
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
        // Partial Fisher-Yates shuffle: the first `senders` elements of a random permutation, with one draw per sender, so
        // that later draws do not depend on the number of hosts.
        let mut others: Vec<HostIx> = from.iter().copied().filter(|&host| host != to).collect();
        for i in 0..*senders {
            let other = i + stream.below((others.len() - i) as u64) as usize;
            others.swap(i, other);
        }
        others.truncate(*senders);
        // 0 means "no number", see `SenderAnnouncement::incast`.
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
