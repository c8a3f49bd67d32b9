//! Resolves the keys of workloads on a fabric.

use super::sizes::{Sizes, SizesSpec};
use crate::rng::RandomStream;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use weir_controller::topology::{HostIx, Topology};
use weir_host::suggest::did_you_mean;
use weir_host::wire::min_max_announced;
use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// A key that is wrong, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidKey {
    /// The key; empty if it is the workload or the topology as a whole.
    pub key: &'static str,
    /// The problem and what to do.
    pub reason: String,
}

impl InvalidKey {
    /// Returns an error about a key.
    pub fn new(key: &'static str, reason: impl Into<String>) -> InvalidKey {
        InvalidKey { key, reason: reason.into() }
    }
}

/// The fabric that a workload runs on, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadContext<'a> {
    /// Hosts, switches and links.
    pub topology: &'a Topology,
    /// Seed of the run.
    pub seed: u64,
    /// Length of the run.
    pub duration: Time,
    /// Largest Ethernet frame.
    pub mtu: Bytes,
}

impl WorkloadContext<'_> {
    /// Returns the hosts of a set such as `h1-h64`, `h1-h128/2` (every second) or `h1,h5,h9-h12`, in order and each
    /// once; all hosts for `None`.
    ///
    /// # Errors
    ///
    /// If the set names hosts that do not exist, or is not well formed.
    pub fn hosts(&self, key: &'static str, set: Option<&str>) -> Result<Vec<HostIx>, InvalidKey> {
        host_set(self.topology, set).map_err(|reason| InvalidKey { key, reason })
    }

    /// Returns the rate of a host's link.
    pub fn rate(&self, host: HostIx) -> Bandwidth {
        self.topology.link(self.topology.host(host).link).rate
    }

    /// Returns the time from `start` to `stop`, or to the end of the run.
    ///
    /// # Errors
    ///
    /// If it is empty.
    pub fn within(&self, start: Time, stop: Option<Time>) -> Result<Range<Time>, InvalidKey> {
        let stop = stop.unwrap_or(self.duration).min(self.duration);
        if start < stop {
            Ok(start..stop)
        } else {
            Err(InvalidKey::new("start", format!("{start} is not before {stop}")))
        }
    }
}

/// The random streams of a workload. Each is independent of all others of the run.
#[derive(Clone, Copy, Debug)]
pub struct RandomStreams {
    /// Seed of the run.
    pub(super) seed: u64,
    /// Number of the workload among those that make flows as time goes on.
    pub(super) number: usize,
}

impl RandomStreams {
    /// Returns the stream of a name from its beginning.
    pub fn named(&self, name: &str) -> RandomStream {
        RandomStream::new(self.seed, &format!("workload {} {name}", self.number))
    }

    /// Returns the random number from which the workload counts its incasts. Those of another workload hardly meet them.
    pub(super) fn first_number(&self) -> u32 {
        self.named("numbers").next_u64() as u32
    }

    /// Returns the stream of a host from its beginning.
    pub fn of_host(&self, host: HostIx) -> RandomStream {
        self.named(&format!("h{}", host.0))
    }
}

/// Returns the load as a share between 0 and 1.
pub(super) fn load(load: Ratio) -> Result<f64, InvalidKey> {
    match load.get() {
        share if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(InvalidKey::new("load", format!("{load} is more than a link carries, or nothing"))),
    }
}

/// Returns the period `every` if it is not zero.
pub(super) fn period(every: Time) -> Result<Time, InvalidKey> {
    if every == Time::ZERO { Err(InvalidKey::new("every", "cannot be zero")) } else { Ok(every) }
}

/// Returns the error for a `load` beside an `every`.
pub(super) fn load_and_every_conflict() -> InvalidKey {
    InvalidKey::new("load", "`every` already gives the interval")
}

/// Returns the size if it is not zero.
pub(super) fn not_empty(key: &'static str, size: Bytes) -> Result<Bytes, InvalidKey> {
    if size == Bytes::ZERO { Err(InvalidKey::new(key, "empty flows never start")) } else { Ok(size) }
}

/// Returns an error unless messages of `size` bytes can list this number of senders.
pub(super) fn lists(mtu: Bytes, size: Bytes, senders: u64) -> Result<(), InvalidKey> {
    let max = min_max_announced(size.get(), mtu.get());
    if senders <= max {
        return Ok(());
    }
    let reason = format!("a message of {size} lists {max} senders at most, not {senders}; give larger ones");
    Err(InvalidKey::new("announce", reason))
}

/// The max flows that a workload makes in a run, whose results keep some 200 bytes of each.
pub(super) const MAX_FLOWS: f64 = 1e8;
/// The max that are known before the run, or active at a time: each takes some kilobytes.
pub(super) const MAX_AT_ONCE: f64 = 1e6;

/// Returns an error if a number of flows is above `max`. `what` follows the number, `remedy` says what to do.
pub(super) fn bounded(
    key: &'static str,
    (flows, max): (f64, f64),
    what: &str,
    remedy: &str,
) -> Result<(), InvalidKey> {
    if flows <= max {
        return Ok(());
    }
    let (flows, max) = (rounded(flows), rounded(max));
    Err(InvalidKey::new(key, format!("{flows} {what}, more than {max}; {remedy}")))
}

/// Returns an error if a workload is expected to make more flows in a run than it has room for.
pub(super) fn bounded_in_run(key: &'static str, flows: f64) -> Result<(), InvalidKey> {
    let remedy = "make them larger or rarer, or set `stop` or `count`";
    bounded(key, (flows, MAX_FLOWS), "flows would start", remedy)
}

/// Returns an error if more flows are active at a time than a run has room for.
pub(super) fn bounded_at_once(key: &'static str, flows: f64) -> Result<(), InvalidKey> {
    bounded(key, (flows, MAX_AT_ONCE), "flows at a time", "give fewer")
}

fn rounded(number: f64) -> String {
    match number {
        _ if number >= 1e9 => format!("{:.0} billion", number / 1e9),
        _ if number >= 1e6 => format!("{:.0} million", number / 1e6),
        _ => format!("{number:.0}"),
    }
}

/// Reads the distribution of sizes.
pub(super) fn sizes(key: &'static str, sizes: &SizesSpec) -> Result<Arc<Sizes>, InvalidKey> {
    sizes.resolve().map(Arc::new).map_err(|reason| InvalidKey { key, reason })
}

/// Returns the value of a count that is 1 by default.
pub(super) fn one() -> u32 {
    1
}

/// Senders and receivers: every sender sends to every receiver but itself.
#[derive(Clone, Debug)]
pub(super) struct Pairs {
    pub from: Vec<HostIx>,
    to: Vec<HostIx>,
}

impl Pairs {
    /// Reads the host sets of the keys `from` and `to`.
    pub fn of(
        fabric: &WorkloadContext<'_>,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Pairs, InvalidKey> {
        let (from, to) = (fabric.hosts("from", from)?, fabric.hosts("to", to)?);
        match from.iter().find(|&&host| to == [host]) {
            Some(_) => Err(InvalidKey::new("to", "the only receiver is among the senders")),
            None => Ok(Pairs { from, to }),
        }
    }

    /// Draws a receiver for `from`.
    pub fn peer(&self, from: HostIx, stream: &mut RandomStream) -> HostIx {
        loop {
            let to = self.to[stream.below(self.to.len() as u64) as usize];
            if to != from {
                return to;
            }
        }
    }
}

/// Reads a set of hosts, see [`WorkloadContext::hosts`].
pub(crate) fn host_set(topology: &Topology, text: Option<&str>) -> Result<Vec<HostIx>, String> {
    let Some(text) = text else { return Ok(topology.host_ixs().collect()) };
    let host = |name: &str| {
        let name = name.trim();
        topology.host_named(name).ok_or_else(|| {
            let meant = did_you_mean(name, topology.hosts.iter().map(|host| host.name.as_str()));
            format!("host \"{name}\" is not declared{meant}")
        })
    };
    let mut chosen = BTreeSet::new();
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
