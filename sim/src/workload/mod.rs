//! Where flows come from that nobody lists: sources that make them as time goes on.
//!
//! A run holds the flows that are under way and, of those that are over, a record each; a source holds what it needs
//! to make the next one. The same experiment and seed give the same flows, whatever a scheme does with them; only the
//! closed loops (`closed.rs`) start a flow because another has ended.

mod closed;
mod flow_file;
mod open;
mod sizes;
mod spec;

pub use flow_file::{HPCC_START, write as write_flow_file};
pub use sizes::{SizeRule, SizesSpec};
pub use spec::WorkloadSpec;
pub(crate) use spec::{Workload, host_set};

use crate::rng::{mix, stream_seed};
use weir_controller::topology::HostIx;
use weir_units::{Bytes, Time};

/// A flow that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Sender.
    pub from: HostIx,
    /// Receiver.
    pub to: HostIx,
    /// When.
    pub start: Time,
    /// Payload.
    pub size: Bytes,
    /// Whom its first packet announces.
    pub announces: Vec<HostIx>,
    /// One of an incast.
    pub incast: bool,
    /// What the source calls it.
    pub tag: u32,
}

/// Makes flows.
pub(crate) trait Source {
    /// When its next flow starts, as far as is known now.
    fn due(&self) -> Option<Time>;
    /// The flow that is due.
    fn take(&mut self) -> Option<Arrival>;
    /// The last byte of one of its flows was acknowledged.
    fn finished(&mut self, _flow: Ended, _now: Time) {}
    /// The last byte of one of its flows has arrived.
    fn received(&mut self, _flow: Ended, _now: Time) {}
    /// Whether flows start because others have ended.
    fn is_closed(&self) -> bool {
        false
    }
    /// How long each of its jobs took, if it has jobs.
    fn job_times(&self) -> &[Time] {
        &[]
    }
}

/// A flow that has ended, at one of its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Where it went.
    pub to: HostIx,
    /// What its source calls it.
    pub tag: u32,
}

/// All sources of an experiment as one, in order of time; ties go to the source that was listed first.
pub(crate) struct Feed {
    sources: Vec<(Box<dyn Source>, Ports)>,
}

/// The entropy of a source's flows: the n-th flow has the same port under every scheme.
struct Ports {
    stream: u64,
    given: u64,
}

impl Feed {
    pub fn new(sources: impl IntoIterator<Item = Box<dyn Source>>, seed: u64) -> Feed {
        let stream = |i: usize| stream_seed(seed, &format!("entropy ports of workload {i}"));
        let sources = sources.into_iter().enumerate();
        Feed { sources: sources.map(|(i, source)| (source, Ports { stream: stream(i), given: 0 })).collect() }
    }

    /// When the next flow starts, as far as is known now.
    pub fn due(&self) -> Option<Time> {
        self.sources.iter().filter_map(|(source, _)| source.due()).min()
    }

    /// The flow that is due at `due` at the latest, the number of its source and its random bits.
    pub fn take(&mut self, due: Time) -> Option<(usize, Arrival, u64)> {
        let ready = |(_, (source, _)): &(usize, &mut (Box<dyn Source>, Ports))| {
            source.due().is_some_and(|at| at <= due)
        };
        let first = self.sources.iter_mut().enumerate().filter(ready);
        let (index, (source, ports)) = first.min_by_key(|(_, (source, _))| source.due())?;
        let arrival = source.take()?;
        ports.given += 1;
        Some((index, arrival, mix(ports.stream ^ ports.given)))
    }

    pub fn finished(&mut self, source: usize, flow: Ended, now: Time) {
        self.sources[source].0.finished(flow, now);
    }

    pub fn received(&mut self, source: usize, flow: Ended, now: Time) {
        self.sources[source].0.received(flow, now);
    }

    /// Whether flows start because others have ended.
    pub fn is_closed(&self) -> bool {
        self.sources.iter().any(|(source, _)| source.is_closed())
    }

    /// How long jobs took.
    pub fn job_times(&self) -> impl Iterator<Item = Time> {
        self.sources.iter().flat_map(|(source, _)| source.job_times().iter().copied())
    }
}
