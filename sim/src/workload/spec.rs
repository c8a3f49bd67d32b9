//! The keys of a workload, as they stand in the YAML, and what they mean on a topology.

use super::closed::{AllToAll, BackToBack, Jobs};
use super::flow_file::{self, FileFlow};
use super::open::{Incasts, Poisson, Replay};
use super::sizes::{Sizes, SizesSpec};
use super::{HPCC_START, Source};
use crate::experiment::SchemeEntry;
use crate::rng::Stream;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use weir_controller::topology::{AsText, HostIx, Topology};
use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// The key that is wrong, and why.
type Wrong = (&'static str, String);
/// Of `load`, where there is more than one way to say how often.
const TWICE: &str = "`every` says already how often";

/// Flows by a rule.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub enum WorkloadSpec {
    /// Every host sends to one other and receives from one other, drawn from the seed.
    Permutation {
        /// Payload per flow; absent: until the end.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        size: Option<Bytes>,
        /// When all of them start.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        start: Time,
        /// The hosts that take part.
        #[serde(default)]
        hosts: Option<String>,
        /// Of their senders, instead of the run's.
        #[serde(default)]
        scheme: Option<SchemeEntry>,
    },
    /// Every host sends messages of one size to hosts drawn anew for each, at random times (a Poisson process, of
    /// which the number of arrivals is given).
    Messages {
        /// Payload of each.
        #[serde_as(as = "AsText")]
        size: Bytes,
        /// Payload that a host sends, over what its link could carry.
        #[serde_as(as = "AsText")]
        load: Ratio,
        /// From when on.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        start: Time,
        /// Until when; absent: until the end.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        stop: Option<Time>,
    },
    /// Every host sends flows to hosts drawn anew for each, as the HPCC simulator's traffic_gen.py (`schemes.md` §16).
    Poisson {
        /// Payload of each.
        sizes: SizesSpec,
        /// Payload that a host sends, over what its link could carry.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        load: Option<Ratio>,
        /// Instead of `load`: from one flow of a host to its next, on average. It may be more than a link carries.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        every: Option<Time>,
        /// From when on.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        start: Time,
        /// Until when; absent: until the end.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        stop: Option<Time>,
        /// So many flows at most.
        #[serde(default)]
        count: Option<u64>,
        /// Hosts that send; absent: all.
        #[serde(default)]
        from: Option<String>,
        /// Hosts that receive; absent: all.
        #[serde(default)]
        to: Option<String>,
        /// Of the senders, instead of the run's.
        #[serde(default)]
        scheme: Option<SchemeEntry>,
    },
    /// Many send to one: once, the first hosts of the topology; or again and again, hosts drawn anew each time.
    Incast {
        /// Receiving host; absent: drawn anew each time.
        #[serde(default)]
        to: Option<String>,
        /// How many send.
        senders: u32,
        /// Payload of each flow.
        size: SizesSpec,
        /// When the first starts.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        start: Time,
        /// Distance of the starts within an incast.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        interval: Time,
        /// Each flow starts so much later at most, at random.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        jitter: Time,
        /// From one incast to the next.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        every: Option<Time>,
        /// Instead of `every`: incasts at random times, whose payload is this share of what all hosts' links carry.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        load: Option<Ratio>,
        /// Until when incasts begin; absent: until the end.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        stop: Option<Time>,
        /// So many incasts at most.
        #[serde(default)]
        count: Option<u64>,
        /// Hosts that may send; absent: all.
        #[serde(default)]
        from: Option<String>,
        /// The first flow of an incast announces the others' senders (Dart's look-ahead).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        announce: bool,
        /// Of the senders, instead of the run's.
        #[serde(default)]
        scheme: Option<SchemeEntry>,
    },
    /// Every host sends a flow to every other, the next when one is done.
    AllToAll {
        /// Payload of each.
        #[serde_as(as = "AsText")]
        size: Bytes,
        /// When the first start.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        start: Time,
        /// Flows of a host at a time.
        #[serde(default = "one")]
        parallel: u32,
        /// The hosts that take part.
        #[serde(default)]
        hosts: Option<String>,
        /// Of their senders, instead of the run's.
        #[serde(default)]
        scheme: Option<SchemeEntry>,
    },
    /// Every host always has a flow under way to a host drawn anew: when one is done the next starts (AMP §5.3).
    BackToBack {
        /// Payload of each.
        sizes: SizesSpec,
        /// Flows of a host at a time.
        #[serde(default = "one")]
        parallel: u32,
        /// When the first start.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        start: Time,
        /// None starts after this.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        stop: Option<Time>,
        /// So many flows at most.
        #[serde(default)]
        count: Option<u64>,
        /// Hosts that send; absent: all.
        #[serde(default)]
        from: Option<String>,
        /// Hosts that receive; absent: all.
        #[serde(default)]
        to: Option<String>,
        /// Of the senders, instead of the run's.
        #[serde(default)]
        scheme: Option<SchemeEntry>,
    },
    /// Barrier-synchronised reads (AMP §5.3): a client asks servers, all answer, and when the last byte is there the
    /// next job begins with others.
    Jobs {
        /// At a time.
        jobs: u32,
        /// Servers of a job.
        servers: u32,
        /// Payload of a request.
        #[serde_as(as = "AsText")]
        request: Bytes,
        /// Payload of an answer.
        #[serde_as(as = "AsText")]
        response: Bytes,
        /// When the first begin.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        start: Time,
        /// None begins after this.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default)]
        stop: Option<Time>,
        /// So many jobs at most.
        #[serde(default)]
        count: Option<u64>,
        /// Hosts that are clients and servers; absent: all.
        #[serde(default)]
        hosts: Option<String>,
        /// Of their senders, instead of the run's.
        #[serde(default)]
        scheme: Option<SchemeEntry>,
    },
    /// The flows of a file in the HPCC simulator's format.
    File {
        /// Where it is, from the directory of the file that says so.
        path: String,
        /// Its times are multiplied by this.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        stretch: u32,
    },
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // As serde calls it.
fn is_one(stretch: &u32) -> bool {
    *stretch == 1
}

impl WorkloadSpec {
    /// Every time that it holds, to be changed in place.
    pub(crate) fn times_mut(&mut self) -> Vec<&mut Time> {
        match self {
            WorkloadSpec::Permutation { start, .. } | WorkloadSpec::AllToAll { start, .. } => vec![start],
            WorkloadSpec::Messages { start, stop, .. }
            | WorkloadSpec::BackToBack { start, stop, .. }
            | WorkloadSpec::Jobs { start, stop, .. } => [start].into_iter().chain(stop).collect(),
            WorkloadSpec::Poisson { start, every, stop, .. } => {
                [start].into_iter().chain(every).chain(stop).collect()
            }
            WorkloadSpec::Incast { start, interval, jitter, every, stop, .. } => {
                [start, interval, jitter].into_iter().chain(every).chain(stop).collect()
            }
            WorkloadSpec::File { .. } => Vec::new(),
        }
    }

    /// The scheme of its senders, if it has one of its own.
    pub(crate) fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        match self {
            WorkloadSpec::Permutation { scheme, .. }
            | WorkloadSpec::Poisson { scheme, .. }
            | WorkloadSpec::Incast { scheme, .. }
            | WorkloadSpec::AllToAll { scheme, .. }
            | WorkloadSpec::BackToBack { scheme, .. }
            | WorkloadSpec::Jobs { scheme, .. } => scheme.as_mut(),
            WorkloadSpec::Messages { .. } | WorkloadSpec::File { .. } => None,
        }
    }

    /// Takes so many times longer, beside its times.
    pub(crate) fn stretch(&mut self, times: f64) {
        if let WorkloadSpec::File { stretch, .. } = self {
            *stretch = (f64::from(*stretch) * times).round() as u32;
        }
    }

    /// Names files from `base`.
    pub(crate) fn locate(&mut self, base: &Path) {
        match self {
            WorkloadSpec::Poisson { sizes, .. } | WorkloadSpec::BackToBack { sizes, .. } => {
                sizes.locate(base)
            }
            WorkloadSpec::Incast { size, .. } => size.locate(base),
            WorkloadSpec::File { path, .. } => *path = base.join(&*path).display().to_string(),
            _ => {}
        }
    }

    /// The scheme of its senders, and who they are; an error is about the key named.
    pub(crate) fn own_scheme(
        &self,
        topology: &Topology,
    ) -> Result<(Vec<HostIx>, Option<&SchemeEntry>), Wrong> {
        let set =
            |key, hosts: &Option<String>| host_set(topology, hosts.as_deref()).map_err(|why| (key, why));
        Ok(match self {
            WorkloadSpec::Permutation { hosts, scheme, .. }
            | WorkloadSpec::AllToAll { hosts, scheme, .. }
            | WorkloadSpec::Jobs { hosts, scheme, .. } => (set("hosts", hosts)?, scheme.as_ref()),
            WorkloadSpec::Poisson { from, scheme, .. }
            | WorkloadSpec::Incast { from, scheme, .. }
            | WorkloadSpec::BackToBack { from, scheme, .. } => (set("from", from)?, scheme.as_ref()),
            WorkloadSpec::Messages { .. } | WorkloadSpec::File { .. } => (Vec::new(), None),
        })
    }

    /// Whether its flows are made as time goes on; if not they are listed beforehand.
    pub fn is_lazy(&self) -> bool {
        match self {
            WorkloadSpec::Permutation { .. } | WorkloadSpec::Messages { .. } => false,
            WorkloadSpec::Incast { to, every, load, from, .. } => {
                to.is_none() || every.is_some() || load.is_some() || from.is_some()
            }
            _ => true,
        }
    }

    /// Reads and checks what [`is_lazy`](Self::is_lazy). An error is about the key named, `""` for the whole.
    pub(crate) fn resolve(
        &self,
        topology: &Topology,
        seed: u64,
        duration: Time,
    ) -> Result<Workload, (&'static str, String)> {
        let set =
            |key, hosts: &Option<String>| host_set(topology, hosts.as_deref()).map_err(|why| (key, why));
        let sizes = |key, sizes: &SizesSpec| sizes.resolve().map(Arc::new).map_err(|why| (key, why));
        let within = |start: Time, stop: &Option<Time>| {
            let stop = stop.unwrap_or(duration).min(duration);
            if start < stop {
                Ok(start..stop)
            } else {
                Err(("start", format!("{start} is not before {stop}")))
            }
        };
        let load = |load: Ratio| match load.get() {
            share if share > 0.0 && share <= 1.0 => Ok(share),
            _ => Err(("load", format!("{load} is more than a link carries, or nothing"))),
        };
        let not_zero = |every: Time| {
            if every == Time::ZERO { Err(("every", "cannot be zero".to_owned())) } else { Ok(every) }
        };
        let full = |key, size: Bytes| {
            if size == Bytes::ZERO { Err((key, "empty flows never start".into())) } else { Ok(size) }
        };
        let rule = match self {
            WorkloadSpec::Poisson { sizes: of, load: share, every, start, stop, count, from, to, .. } => {
                let pace = match (every, share) {
                    (Some(_), Some(_)) => return Err(("load", TWICE.to_owned())),
                    (Some(every), None) => Pace::Every(not_zero(*every)?),
                    (None, Some(share)) => Pace::Load(load(*share)?),
                    (None, None) => {
                        return Err(("load", "is missing; or say how often by `every`".to_owned()));
                    }
                };
                Rule::Poisson {
                    sizes: sizes("sizes", of)?,
                    pace,
                    within: within(*start, stop)?,
                    count: count.unwrap_or(u64::MAX),
                    pairs: Pairs::new(set("from", from)?, set("to", to)?)?,
                }
            }
            WorkloadSpec::Incast {
                to,
                senders,
                size,
                start,
                interval,
                jitter,
                every,
                load: share,
                stop,
                count,
                from,
                announce,
                ..
            } => {
                let (from, to) = (set("from", from)?, set("to", to)?);
                let others = from.iter().filter(|&&host| to != [host]).count();
                // Of several receivers one may be among the senders, and is left out.
                let room = if to.len() == 1 { others } else { others.saturating_sub(1) };
                if *senders == 0 || *senders as usize > room {
                    return Err(("senders", format!("there are 1 to {room} to choose from")));
                }
                let sizes = sizes("size", size)?;
                let gap = match (every, share) {
                    (Some(_), Some(_)) => return Err(("load", TWICE.to_owned())),
                    (Some(every), None) => Gap::Fixed(not_zero(*every)?),
                    (None, Some(share)) => {
                        let all: f64 = topology
                            .hosts
                            .iter()
                            .map(|h| topology.link(h.link).rate.as_bytes_per_sec_f64())
                            .sum();
                        Gap::Mean(sizes.mean() * f64::from(*senders) / (load(*share)? * all))
                    }
                    (None, None) => Gap::Fixed(Time::MAX),
                };
                let bytes = 2 + 2 * u64::from(*senders);
                if *announce
                    && (*senders as usize > weir_host::wire::MAX_ANNOUNCED || sizes.least().get() < bytes)
                {
                    return Err((
                        "announce",
                        format!("a list of {senders} does not fit into the first packet"),
                    ));
                }
                Rule::Incast(IncastRule {
                    from,
                    to,
                    senders: *senders as usize,
                    sizes,
                    gap,
                    interval: *interval,
                    jitter: *jitter,
                    within: within(*start, stop)?,
                    count: count.unwrap_or(u64::MAX),
                    announce: *announce,
                })
            }
            WorkloadSpec::AllToAll { size, start, parallel, hosts, .. } => {
                within(*start, &None)?;
                let hosts = set("hosts", hosts)?;
                if hosts.len() < 2 || *parallel == 0 {
                    return Err(("", "two hosts or more have one flow or more at a time".to_owned()));
                }
                Rule::AllToAll { size: full("size", *size)?, start: *start, parallel: *parallel, hosts }
            }
            WorkloadSpec::BackToBack { sizes: of, parallel, start, stop, count, from, to, .. } => {
                Rule::BackToBack {
                    sizes: sizes("sizes", of)?,
                    within: within(*start, stop)?,
                    count: count.unwrap_or(u64::MAX),
                    parallel: *parallel,
                    pairs: Pairs::new(set("from", from)?, set("to", to)?)?,
                }
            }
            WorkloadSpec::Jobs { jobs, servers, request, response, start, stop, count, hosts, .. } => {
                let hosts = set("hosts", hosts)?;
                if *jobs == 0 || *servers == 0 || *servers as usize >= hosts.len() {
                    return Err((
                        "servers",
                        format!("a client and its servers are among {} hosts", hosts.len()),
                    ));
                }
                Rule::Jobs(JobRule {
                    jobs: *jobs,
                    servers: *servers as usize,
                    request: full("request", *request)?,
                    response: full("response", *response)?,
                    within: within(*start, stop)?,
                    count: count.unwrap_or(u64::MAX),
                    hosts,
                })
            }
            WorkloadSpec::File { path, stretch } => {
                let text =
                    std::fs::read_to_string(path).map_err(|error| ("path", format!("{path}: {error}")))?;
                let flows =
                    flow_file::read(topology, &text).map_err(|why| ("path", format!("{path}: {why}")))?;
                Rule::Replay { flows: flows.into(), stretch: *stretch }
            }
            WorkloadSpec::Permutation { .. } | WorkloadSpec::Messages { .. } => {
                return Err(("", "its flows are listed".to_owned()));
            }
        };
        let rates = topology.hosts.iter().map(|host| topology.link(host.link).rate).collect();
        Ok(Workload { rule, rates, seed })
    }
}

/// `poisson websearch at 50 %`
impl fmt::Display for WorkloadSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkloadSpec::Permutation { .. } => write!(f, "permutation"),
            WorkloadSpec::Messages { size, load, .. } => write!(f, "messages of {size} at {load}"),
            WorkloadSpec::Poisson { sizes, load: Some(load), .. } => write!(f, "Poisson, {sizes}, at {load}"),
            WorkloadSpec::Poisson { sizes, every: Some(every), .. } => {
                write!(f, "Poisson, {sizes}, every {every} and host")
            }
            WorkloadSpec::Poisson { sizes, .. } => write!(f, "Poisson, {sizes}"),
            WorkloadSpec::Incast { senders, size, .. } => write!(f, "incasts of {senders} with {size}"),
            WorkloadSpec::AllToAll { size, .. } => write!(f, "all to all with {size}"),
            WorkloadSpec::BackToBack { sizes, .. } => write!(f, "back to back with {sizes}"),
            WorkloadSpec::Jobs { jobs, servers, response, .. } => {
                write!(f, "{jobs} jobs of {servers} servers with {response}")
            }
            WorkloadSpec::File { path, .. } => write!(f, "flows of {path}"),
        }
    }
}

/// A checked workload: makes its source anew for each scheme.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    rule: Rule,
    /// Of every host's link.
    rates: Vec<Bandwidth>,
    seed: u64,
}

#[derive(Clone, Debug)]
enum Rule {
    Poisson { sizes: Arc<Sizes>, pace: Pace, within: Range<Time>, count: u64, pairs: Pairs },
    Incast(IncastRule),
    AllToAll { size: Bytes, start: Time, parallel: u32, hosts: Vec<HostIx> },
    BackToBack { sizes: Arc<Sizes>, within: Range<Time>, count: u64, parallel: u32, pairs: Pairs },
    Jobs(JobRule),
    Replay { flows: Arc<[FileFlow]>, stretch: u32 },
}

#[derive(Clone, Debug)]
pub(super) struct IncastRule {
    pub from: Vec<HostIx>,
    pub to: Vec<HostIx>,
    pub senders: usize,
    pub sizes: Arc<Sizes>,
    pub gap: Gap,
    pub interval: Time,
    pub jitter: Time,
    pub within: Range<Time>,
    pub count: u64,
    pub announce: bool,
}

#[derive(Clone, Debug)]
pub(super) struct JobRule {
    pub jobs: u32,
    pub servers: usize,
    pub request: Bytes,
    pub response: Bytes,
    pub within: Range<Time>,
    pub count: u64,
    pub hosts: Vec<HostIx>,
}

/// How often a host begins a flow, on average.
#[derive(Clone, Copy, Debug)]
enum Pace {
    /// So that this share of its link is sent.
    Load(f64),
    Every(Time),
}

/// From one to the next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gap {
    Fixed(Time),
    /// Seconds on average, exponentially distributed.
    Mean(f64),
}

impl Gap {
    pub fn draw(self, stream: &mut Stream) -> Time {
        match self {
            Gap::Fixed(time) => time,
            Gap::Mean(seconds) => Time::from_secs_f64(seconds * stream.exponential()),
        }
    }
}

/// Who may send to whom: anybody of the one to anybody else of the other.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pub from: Vec<HostIx>,
    to: Vec<HostIx>,
}

impl Pairs {
    fn new(from: Vec<HostIx>, to: Vec<HostIx>) -> Result<Pairs, (&'static str, String)> {
        match from.iter().find(|&&host| to == [host]) {
            Some(_) => Err(("to", "the only receiver is among the senders".to_owned())),
            None => Ok(Pairs { from, to }),
        }
    }

    /// Somebody for `from` to send to.
    pub fn peer(&self, from: HostIx, stream: &mut Stream) -> HostIx {
        loop {
            let to = self.to[stream.below(self.to.len() as u64) as usize];
            if to != from {
                return to;
            }
        }
    }
}

impl Workload {
    /// Its flows from the beginning. `number` is its place among the workloads.
    pub fn source(&self, number: usize) -> Box<dyn Source> {
        let stream = |name: &str| Stream::new(self.seed, &format!("workload {number} {name}"));
        match &self.rule {
            Rule::Poisson { sizes, pace, within, count, pairs } => {
                let gap = |host: HostIx| match pace {
                    Pace::Load(load) => {
                        sizes.mean() / (load * self.rates[host.0 as usize].as_bytes_per_sec_f64())
                    }
                    Pace::Every(time) => time.as_secs_f64(),
                };
                let senders =
                    pairs.from.iter().map(|&host| (host, gap(host), stream(&format!("h{}", host.0))));
                Box::new(Poisson::new(senders, Arc::clone(sizes), within.clone(), *count, pairs.clone()))
            }
            Rule::Incast(rule) => Box::new(Incasts::new(rule.clone(), stream("incasts"))),
            Rule::AllToAll { size, start, parallel, hosts } => {
                Box::new(AllToAll::new(*size, *start, *parallel, hosts.clone()))
            }
            Rule::BackToBack { sizes, within, count, parallel, pairs } => {
                let streams = pairs.from.iter().map(|&host| (host, stream(&format!("h{}", host.0))));
                let sizes = Arc::clone(sizes);
                Box::new(BackToBack::new(streams, sizes, within.clone(), *count, *parallel, pairs.clone()))
            }
            Rule::Jobs(rule) => Box::new(Jobs::new(rule.clone(), stream("jobs"))),
            Rule::Replay { flows, stretch } => Box::new(Replay::new(Arc::clone(flows), *stretch)),
        }
    }
}

/// `h1-h64`, `h1-h128/2` (every second), `h1,h5,h9-h12`; `None`: all. In order, each once.
pub(crate) fn host_set(topology: &Topology, text: Option<&str>) -> Result<Vec<HostIx>, String> {
    let Some(text) = text else { return Ok(topology.host_ixs().collect()) };
    let host = |name: &str| {
        let name = name.trim();
        topology.host_named(name).ok_or_else(|| format!("host \"{name}\" is not declared"))
    };
    let mut chosen = std::collections::BTreeSet::new();
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                let step = step.trim().parse().ok().filter(|&step: &usize| step > 0);
                (range, step.ok_or_else(|| format!("\"{part}\" has no step like /2"))?)
            }
            None => (part, 1),
        };
        // A name may have a dash in it.
        let (first, last) = match host(range) {
            Ok(one) => (one, one),
            Err(unknown) => match range.split_once('-') {
                Some((first, last)) => (host(first)?, host(last)?),
                None => return Err(unknown),
            },
        };
        if first > last {
            return Err(format!("\"{part}\" is no range of hosts"));
        }
        chosen.extend((first.0..=last.0).step_by(step).map(HostIx));
    }
    Ok(chosen.into_iter().collect())
}

/// When a file's flows count from, see [`HPCC_START`].
pub(super) fn origin(first: Option<Time>) -> Time {
    if first.is_some_and(|first| first >= HPCC_START) { HPCC_START } else { Time::ZERO }
}
