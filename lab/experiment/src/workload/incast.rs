//! `incast`: many hosts send to one.

use super::context::{self, InvalidKey, WorkloadContext, undeclared_host};
use super::kind::{Flows, StaticFlow, Workload};
use super::sizes::{Sizes, SizesSpec};
use super::source::{Arrival, FlowSource, SenderAnnouncement};
use crate::file::SchemeEntry;
use crate::rng::RandomStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use weir_controller::topology::{AsText, HostIx};
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
    #[schemars(extend("maximum" = 1))]
    load: Option<Ratio>,
    /// No incast starts at or after this time; absent: the end of the run.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    stop: Option<Time>,
    /// Maximum number of incasts.
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
        let required = [&mut self.start, &mut self.interval, &mut self.jitter];
        required.into_iter().chain(&mut self.every).chain(&mut self.stop).collect()
    }
    fn resolve_paths(&mut self, base: &Path) {
        self.size.resolve_paths(base);
    }
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        self.scheme.as_mut()
    }
    fn senders(&self, context: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        context.hosts("from", self.from.as_deref())
    }
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        match &self.to {
            Some(receiver) if self.every.is_none() && self.load.is_none() && self.from.is_none() => {
                self.single_incast(context, receiver)
            }
            _ => self.repeated_incasts(context),
        }
    }
}

impl IncastSpec {
    /// Returns the number of flows of one incast.
    fn flows_per_incast(&self) -> Result<u32, InvalidKey> {
        let flows = self.flows.unwrap_or(self.senders);
        if flows < self.senders {
            let reason =
                format!("at least one flow per sender is required: {flows} flows, {} senders", self.senders);
            return Err(InvalidKey::new("flows", reason));
        }
        context::check_concurrent_flows("flows", flows.into())?;
        Ok(flows)
    }

    /// Returns the announcement of the flows of one incast; `None` without the key `announce`.
    fn announcement(
        &self,
        context: &WorkloadContext<'_>,
        sizes: &Sizes,
        senders: &[HostIx],
        incast_number: u32,
    ) -> Result<Option<SenderAnnouncement>, InvalidKey> {
        if !self.announce {
            return Ok(None);
        }
        context::check_announcement(context.mtu, sizes.min_size(), senders.len() as u64)?;
        // 0 means "no number", see `SenderAnnouncement::incast_number`.
        Ok(Some(SenderAnnouncement { incast_number: incast_number.max(1), senders: senders.into() }))
    }

    /// Returns the flows of a single incast from the first hosts of the topology to the host `receiver_name`.
    fn single_incast(&self, context: &WorkloadContext<'_>, receiver_name: &str) -> Result<Flows, InvalidKey> {
        let topology = context.topology;
        let unknown = || InvalidKey::new("to", undeclared_host(topology, receiver_name));
        let receiver = topology.host_named(receiver_name).ok_or_else(unknown)?;
        let candidates: Vec<HostIx> = topology.host_ixs().filter(|&ix| ix != receiver).collect();
        let senders = candidates.get(..self.senders as usize).filter(|senders| !senders.is_empty());
        let Some(senders) = senders else {
            let reason =
                format!("must be 1 to {}, the number of hosts other than {receiver_name}", candidates.len());
            return Err(InvalidKey::new("senders", reason));
        };
        let sizes = context::resolve_sizes("size", &self.size)?;
        // Checks that `start` is before the end of the run; a single incast needs no range.
        context.start_range(self.start, self.stop)?;
        let flows = self.flows_per_incast()? as usize;
        let mut stream = RandomStream::new(context.seed, "incast");
        let incast_number = RandomStream::new(context.seed, "incast number").next_u64() as u32;
        let announcement = self.announcement(context, &sizes, senders, incast_number)?;
        let flow = |(&from, i)| {
            // `below(1)` is 0: no delay without jitter.
            let delay = Time::from_ps(stream.below(self.jitter.as_ps().max(1)));
            let size = Some(sizes.draw(&mut stream));
            StaticFlow {
                from,
                to: receiver,
                start: self.start.saturating_add(self.interval.saturating_mul(i)).saturating_add(delay),
                size,
                announces: announcement.clone(),
                incast: true,
            }
        };
        Ok(Flows::Static(senders.iter().cycle().take(flows).zip(0..).map(flow).collect()))
    }

    /// Returns a source of repeated incasts.
    fn repeated_incasts(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let sender_candidates = self.senders(context)?;
        let receivers = context.hosts("to", self.to.as_deref())?;
        let candidate_count = sender_candidates.iter().filter(|&&host| receivers != [host]).count();
        // With several receivers, the one that is drawn may be a candidate; it does not send to itself.
        let max_senders =
            if receivers.len() == 1 { candidate_count } else { candidate_count.saturating_sub(1) };
        if self.senders == 0 || self.senders as usize > max_senders {
            return Err(InvalidKey::new("senders", format!("must be 1 to {max_senders}")));
        }
        let sizes = context::resolve_sizes("size", &self.size)?;
        let flows = self.flows_per_incast()?;
        let incast_gap = match (self.every, self.load) {
            (Some(_), Some(_)) => return Err(context::load_and_every_conflict()),
            (Some(every), None) => InterArrival::Fixed(context::check_period(every)?),
            (None, Some(load)) => {
                let hosts = context.topology.host_ixs();
                let capacity: f64 = hosts.map(|host| context.rate(host).as_bytes_per_sec_f64()).sum();
                let bytes_per_incast = sizes.mean() * f64::from(flows);
                InterArrival::Exponential {
                    mean_s: bytes_per_incast / (context::check_load(load)? * capacity),
                }
            }
            // The second incast would start after the end of any run, so there is a single one.
            (None, None) => InterArrival::Fixed(Time::MAX),
        };
        if self.announce {
            context::check_announcement(context.mtu, sizes.min_size(), self.senders.into())?;
        }
        let start_range = context.start_range(self.start, self.stop)?;
        let count = self.count.unwrap_or(u64::MAX);
        let incasts = (start_range.end - start_range.start).as_secs_f64() / incast_gap.mean_s();
        // The key to change if there are too many flows: under a load, smaller flows start more often.
        let key = if self.every.is_some() { "every" } else { "size" };
        context::check_total_flows(key, incasts.min(count as f64) * f64::from(flows))?;
        let params = IncastParams {
            sender_candidates,
            receivers,
            senders: self.senders as usize,
            flows: flows as usize,
            sizes,
            incast_gap,
            flow_interval: self.interval,
            jitter: self.jitter,
            start_range,
            announce: self.announce,
        };
        Ok(Flows::dynamic(move |streams| {
            IncastSource::new(params.clone(), count, streams.named("incasts"), streams.first_incast_number())
        }))
    }
}

/// The parameters of repeated incasts: the keys of [`IncastSpec`] after all checks.
#[derive(Clone, Debug)]
struct IncastParams {
    /// Hosts from which the senders of an incast are drawn.
    sender_candidates: Vec<HostIx>,
    /// Hosts from which the receiver of an incast is drawn.
    receivers: Vec<HostIx>,
    /// Number of senders of an incast.
    senders: usize,
    /// Number of flows of an incast.
    flows: usize,
    sizes: Arc<Sizes>,
    incast_gap: InterArrival,
    /// Time between the starts of two flows of an incast.
    flow_interval: Time,
    jitter: Time,
    /// Time range in which incasts start.
    start_range: Range<Time>,
    announce: bool,
}

/// Time from the start of one incast to the start of the next.
#[derive(Clone, Copy, Debug)]
enum InterArrival {
    Fixed(Time),
    /// Exponentially distributed.
    Exponential {
        /// Mean in seconds.
        mean_s: f64,
    },
}

impl InterArrival {
    /// Returns the mean in seconds.
    fn mean_s(self) -> f64 {
        match self {
            InterArrival::Fixed(time) => time.as_secs_f64(),
            InterArrival::Exponential { mean_s } => mean_s,
        }
    }

    fn draw(self, stream: &mut RandomStream) -> Time {
        match self {
            InterArrival::Fixed(time) => time,
            InterArrival::Exponential { mean_s } => Time::from_secs_f64(mean_s * stream.exponential()),
        }
    }
}

/// A sequence of incasts. Successive ones may overlap, through jitter or the interval between flows.
struct IncastSource {
    params: IncastParams,
    stream: RandomStream,
    /// Start of the next incast; `None` if there are no more.
    next_incast: Option<Time>,
    /// Flows of the incasts so far that have not been popped, sorted by start.
    queue: VecDeque<Arrival>,
    /// Number of incasts that may still start.
    remaining: u64,
    /// Number of the latest incast, see [`SenderAnnouncement::incast_number`].
    incast_number: u32,
}

impl IncastSource {
    fn new(
        params: IncastParams,
        remaining: u64,
        mut stream: RandomStream,
        incast_number: u32,
    ) -> IncastSource {
        let first = match params.incast_gap {
            InterArrival::Fixed(_) => params.start_range.start,
            gap @ InterArrival::Exponential { .. } => params.start_range.start + gap.draw(&mut stream),
        };
        let next_incast = (remaining > 0 && first < params.start_range.end).then_some(first);
        let mut source =
            IncastSource { params, stream, next_incast, queue: VecDeque::new(), remaining, incast_number };
        source.schedule();
        source
    }

    /// Generates incasts until the start of the first queued flow is final.
    fn schedule(&mut self) {
        // Flows of the next incast may start before the last ones of this one, and flows are popped in order of start.
        while let Some(incast_start) = self.next_incast {
            if self.queue.front().is_some_and(|flow| flow.start < incast_start) {
                break;
            }
            self.remaining -= 1;
            self.push_incast(incast_start);
            let next = incast_start.saturating_add(self.params.incast_gap.draw(&mut self.stream));
            self.next_incast = (self.remaining > 0 && next < self.params.start_range.end).then_some(next);
        }
    }

    /// Adds the flows of one incast to the queue. `incast_start` is the earliest start of its flows.
    fn push_incast(&mut self, incast_start: Time) {
        let IncastParams {
            sender_candidates,
            receivers,
            senders,
            flows,
            flow_interval,
            jitter,
            announce,
            ..
        } = &self.params;
        let stream = &mut self.stream;
        let receiver = receivers[stream.below(receivers.len() as u64) as usize];
        // Partial Fisher-Yates shuffle: the first `senders` elements of a random permutation, with one draw per sender, so
        // that later draws do not depend on the number of hosts.
        let mut drawn: Vec<HostIx> =
            sender_candidates.iter().copied().filter(|&host| host != receiver).collect();
        for i in 0..*senders {
            let j = i + stream.below((drawn.len() - i) as u64) as usize;
            drawn.swap(i, j);
        }
        drawn.truncate(*senders);
        // 0 means "no number", see `SenderAnnouncement::incast_number`.
        self.incast_number = self.incast_number.wrapping_add(1).max(1);
        let announcement = announce.then(|| SenderAnnouncement {
            incast_number: self.incast_number,
            senders: drawn.as_slice().into(),
        });
        for (i, &sender) in (0..).zip(drawn.iter().cycle().take(*flows)) {
            // Without jitter, nothing is drawn from the stream.
            let delay =
                if *jitter == Time::ZERO { Time::ZERO } else { Time::from_ps(stream.below(jitter.as_ps())) };
            let size = self.params.sizes.draw(stream);
            let start = incast_start.saturating_add(flow_interval.saturating_mul(i)).saturating_add(delay);
            let announces = announcement.clone();
            let flow = Arrival::new(sender, receiver, start, size);
            self.queue.push_back(Arrival { announces, incast: true, ..flow });
        }
        self.queue.make_contiguous().sort_by_key(|flow| flow.start); // stable
    }
}

impl FlowSource for IncastSource {
    fn next_start(&self) -> Option<Time> {
        self.queue.front().map(|flow| flow.start)
    }

    fn pop(&mut self) -> Option<Arrival> {
        let flow = self.queue.pop_front();
        self.schedule();
        flow
    }
}
