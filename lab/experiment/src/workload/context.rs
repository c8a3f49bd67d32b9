//! What a workload gets to generate its flows ([`WorkloadContext`], [`RandomStreams`]), and checks of keys that several
//! workloads have.

use super::sizes::{Sizes, SizesSpec};
use crate::rng::RandomStream;
use crate::yaml::join_path;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use weir_controller::topology::{HostIx, Topology};
use weir_host::suggest::did_you_mean;
use weir_host::wire::max_announced_under_any_scheme;
use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// An error in the keys of a workload or topology; reported with the key's line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidKey {
    /// Path of the key; empty for the workload or topology as a whole.
    pub key: Cow<'static, str>,
    /// What is wrong, and what would be valid.
    pub reason: String,
}

impl InvalidKey {
    /// Creates an error about `key`.
    pub fn new(key: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> InvalidKey {
        InvalidKey { key: key.into(), reason: reason.into() }
    }
}

/// The run for which a workload generates flows: its topology, seed, length and MTU.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadContext<'a> {
    /// Hosts, switches and links.
    pub topology: &'a Topology,
    /// Seed of the run.
    pub seed: u64,
    /// Length of the run.
    pub duration: Time,
    /// Largest Ethernet frame, including the Ethernet header.
    pub mtu: Bytes,
}

impl WorkloadContext<'_> {
    /// Returns the hosts of a set such as `h1-h64`, `h1-h128/2` (every second) or `h1,h5,h9-h12`, in the order of the
    /// topology and without duplicates; all hosts for `None`.
    ///
    /// # Errors
    ///
    /// If the set has an undeclared host or is malformed. `key` is the key of the error.
    pub fn hosts(&self, key: &'static str, set: Option<&str>) -> Result<Vec<HostIx>, InvalidKey> {
        host_set(self.topology, set).map_err(|reason| InvalidKey::new(key, reason))
    }

    /// Returns the rate of a host's link.
    pub fn rate(&self, host: HostIx) -> Bandwidth {
        self.topology.link(self.topology.host(host).link).rate
    }

    /// Returns the time range in which flows may start: from `start` to `stop`, limited by the end of the run.
    ///
    /// # Errors
    ///
    /// If the range is empty.
    pub fn start_range(&self, start: Time, stop: Option<Time>) -> Result<Range<Time>, InvalidKey> {
        if let Some(stop) = stop.filter(|&stop| stop <= start) {
            return Err(InvalidKey::new("stop", format!("{stop} is not after `start`, {start}")));
        }
        if start >= self.duration {
            let reason = format!("{start} is not before the end of the run ({})", self.duration);
            return Err(InvalidKey::new("start", reason));
        }
        Ok(start..stop.unwrap_or(self.duration).min(self.duration))
    }
}

/// The random streams of a workload. Each stream is independent of all other streams of the run.
#[derive(Clone, Copy, Debug)]
pub struct RandomStreams {
    /// Seed of the run.
    pub(super) seed: u64,
    /// Index of the workload among those that generate flows during the run. The names of its streams contain it, so
    /// that two workloads of the same kind draw different numbers.
    pub(super) number: usize,
}

impl RandomStreams {
    /// Returns the stream with this name, from its beginning.
    pub fn named(&self, name: &str) -> RandomStream {
        RandomStream::new(self.seed, &format!("workload {} {name}", self.number))
    }

    /// Returns the number of the workload's first incast. It is random, so that the incasts of two workloads are unlikely to
    /// have equal numbers.
    pub(super) fn first_incast_number(&self) -> u32 {
        self.named("numbers").next_u64() as u32
    }

    /// Returns the stream of a host, from its beginning.
    pub fn for_host(&self, host: HostIx) -> RandomStream {
        self.named(&format!("h{}", host.0))
    }
}

/// Checks that the load is above 0 and at most 1.
pub(super) fn check_load(load: Ratio) -> Result<f64, InvalidKey> {
    match load.get() {
        share if share > 0.0 && share <= 1.0 => Ok(share),
        0.0 => Err(InvalidKey::new("load", "must be above 0, for example 40%")),
        _ => Err(InvalidKey::new("load", load.exceeds_one())),
    }
}

/// Checks that the period `every` is not 0.
pub(super) fn check_period(every: Time) -> Result<Time, InvalidKey> {
    if every == Time::ZERO { Err(InvalidKey::new("every", "must be positive")) } else { Ok(every) }
}

/// The error for a workload with both `load` and `every`.
pub(super) fn load_and_every_conflict() -> InvalidKey {
    InvalidKey::new("load", "`load` and `every` are mutually exclusive")
}

/// Checks that the size is not 0.
pub(super) fn nonzero_size(key: &'static str, size: Bytes) -> Result<Bytes, InvalidKey> {
    if size == Bytes::ZERO { Err(InvalidKey::new(key, "must be at least 1B")) } else { Ok(size) }
}

/// Checks that flows of this size have enough packets to announce this number of senders.
pub(super) fn check_announcement(mtu: Bytes, size: Bytes, senders: u64) -> Result<(), InvalidKey> {
    let max = max_announced_under_any_scheme(size.get(), mtu.get());
    if senders <= max {
        return Ok(());
    }
    let reason =
        format!("messages of {size} can announce at most {max} senders, found {senders}; increase the size");
    Err(InvalidKey::new("announce", reason))
}

/// Maximum number of flows of a workload per run. The results store about 200 bytes per flow.
pub(super) const MAX_FLOWS: f64 = 1e8;
/// Maximum number of flows that are known before the run, or active concurrently. Each uses some kilobytes of memory.
pub(super) const MAX_CONCURRENT_FLOWS: f64 = 1e6;

/// Checks that a number of flows is at most `max`. In the message, `noun` follows the number, and `remedy` is at the end.
pub(super) fn check_count(
    key: &'static str,
    flows: f64,
    max: f64,
    noun: &str,
    remedy: &str,
) -> Result<(), InvalidKey> {
    if flows <= max {
        return Ok(());
    }
    let (flows, max) = (round_for_message(flows), round_for_message(max));
    Err(InvalidKey::new(key, format!("{flows} {noun}, more than {max}; {remedy}")))
}

/// Checks that the expected number of flows of a workload is at most [`MAX_FLOWS`].
pub(super) fn check_total_flows(key: &'static str, flows: f64) -> Result<(), InvalidKey> {
    let remedy = "make them larger or rarer, or set `stop` or `count`";
    check_count(key, flows, MAX_FLOWS, "flows would start", remedy)
}

/// Checks that the number of concurrent flows is at most [`MAX_CONCURRENT_FLOWS`].
pub(super) fn check_concurrent_flows(key: &'static str, flows: f64) -> Result<(), InvalidKey> {
    check_count(key, flows, MAX_CONCURRENT_FLOWS, "flows at a time", "reduce the number")
}

fn round_for_message(number: f64) -> String {
    match number {
        _ if number >= 1e9 => format!("{:.0} billion", number / 1e9),
        _ if number >= 1e6 => format!("{:.0} million", number / 1e6),
        _ => format!("{number:.0}"),
    }
}

/// Reads and checks a distribution of sizes.
pub(super) fn resolve_sizes(key: &'static str, sizes: &SizesSpec) -> Result<Arc<Sizes>, InvalidKey> {
    let at_key = |(below, reason): (String, String)| InvalidKey::new(join_path(key, &below), reason);
    sizes.resolve().map(Arc::new).map_err(at_key)
}

/// Default value of keys that are 1 if absent.
pub(super) fn one() -> u32 {
    1
}

/// Senders and receivers. A host that is both does not send to itself.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pub from: Vec<HostIx>,
    to: Vec<HostIx>,
}

impl Pairs {
    /// Reads the host sets of the keys `from` and `to`.
    pub(super) fn from_host_sets(
        context: &WorkloadContext<'_>,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Pairs, InvalidKey> {
        let (from, to) = (context.hosts("from", from)?, context.hosts("to", to)?);
        // Otherwise `draw_receiver` would never find a receiver for this sender.
        match from.iter().find(|&&host| to == [host]) {
            Some(_) => Err(InvalidKey::new("to", "the only receiver is also a sender")),
            None => Ok(Pairs { from, to }),
        }
    }

    /// Draws a receiver for `from`.
    pub(super) fn draw_receiver(&self, from: HostIx, stream: &mut RandomStream) -> HostIx {
        loop {
            let to = self.to[stream.below(self.to.len() as u64) as usize];
            if to != from {
                return to;
            }
        }
    }
}

/// Says that the topology has no host with this name, and which it has.
pub(crate) fn undeclared_host(topology: &Topology, name: &str) -> String {
    let meant = did_you_mean(name, topology.hosts.iter().map(|host| host.name.as_str()));
    let known = match (topology.hosts.first(), topology.hosts.last()) {
        (Some(first), Some(last)) => format!("the topology has {} to {}", first.name, last.name),
        _ => "the topology has no hosts".to_owned(),
    };
    format!("host \"{name}\" is not declared; {known}{meant}")
}

/// Resolves a set of hosts, see [`WorkloadContext::hosts`].
pub(crate) fn host_set(topology: &Topology, text: Option<&str>) -> Result<Vec<HostIx>, String> {
    let Some(text) = text else { return Ok(topology.host_ixs().collect()) };
    let host = |name: &str| {
        let name = name.trim();
        topology.host_named(name).ok_or_else(|| undeclared_host(topology, name))
    };
    let mut selected = BTreeSet::new();
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                let step = step.trim().parse().ok().filter(|&step: &usize| step > 0);
                (range, step.ok_or_else(|| format!("invalid step in \"{part}\", expected for example /2"))?)
            }
            None => (part, 1),
        };
        // Host names may contain dashes, so the whole range is first looked up as a name, and then split at each dash.
        let (first, last) = match host(range) {
            Ok(host) => (host, host),
            Err(unknown) => {
                let mut splits = range.match_indices('-').map(|(at, _)| (&range[..at], &range[at + 1..]));
                let ends = splits.find_map(|(first, last)| Some((host(first).ok()?, host(last).ok()?)));
                match (ends, range.split_once('-')) {
                    (Some(ends), _) => ends,
                    (None, Some((first, last))) => (host(first)?, host(last)?),
                    (None, None) => return Err(unknown),
                }
            }
        };
        if first > last {
            let [first, last] = [first, last].map(|host| topology.host(host).name.as_str());
            return Err(format!("{first} comes after {last}; write {last}-{first}"));
        }
        selected.extend((first.0..=last.0).step_by(step).map(HostIx));
    }
    Ok(selected.into_iter().collect())
}
