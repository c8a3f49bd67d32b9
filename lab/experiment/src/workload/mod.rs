//! Workloads: sources that create flows during a run.
//!
//! A run holds the active flows, and a record of each completed one; a source holds the state from which it makes
//! the next one. The same experiment and seed give the same flows, whatever a scheme does with them; only the
//! closed loops start a flow because another has ended.
//!
//! A kind of workload is one file, which has its keys and its source, and one line in [`Workloads::builtin`].

mod all_to_all;
mod back_to_back;
mod context;
mod file;
mod flow_file;
mod incast;
mod jobs;
mod kind;
mod messages;
mod permutation;
mod poisson;
mod sizes;

pub(crate) use context::host_set;
pub use context::{InvalidKey, RandomStreams, WorkloadContext};
pub use flow_file::{HPCC_START, write as write_flow_file};
pub(crate) use kind::{DynWorkload, of_kind};
pub use kind::{Flows, SourceFactory, StaticFlow, Workload, WorkloadSpec, Workloads};
pub use sizes::{SizeRule, SizesSpec};

use crate::rng::{mix, stream_seed};
use std::sync::Arc;
use weir_controller::topology::HostIx;
use weir_units::{Bytes, Time};

impl Workloads {
    /// Returns the kinds that come with Weir.
    #[must_use]
    pub fn builtin() -> Workloads {
        Workloads::default()
            .with::<all_to_all::AllToAllSpec>()
            .with::<back_to_back::BackToBackSpec>()
            .with::<file::FlowFile>()
            .with::<incast::IncastSpec>()
            .with::<jobs::JobsSpec>()
            .with::<messages::MessagesSpec>()
            .with::<permutation::PermutationSpec>()
            .with::<poisson::PoissonSpec>()
    }
}

/// A flow that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Sender.
    pub from: HostIx,
    /// Receiver.
    pub to: HostIx,
    /// Time at which it starts.
    pub start: Time,
    /// Payload.
    pub size: Bytes,
    /// Senders that its first packets announce.
    pub announces: Option<SenderAnnouncement>,
    /// True if it is part of an incast.
    pub incast: bool,
    /// A number by which the source knows it again when it ends.
    pub tag: u32,
}

/// The senders of an incast, which its flows announce to their receiver (Dart's look-ahead).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderAnnouncement {
    /// Number of the incast; 0: it has none, and each list counts by itself.
    pub incast: u32,
    /// All senders.
    pub senders: Arc<[HostIx]>,
}

/// Makes flows as time goes on.
pub trait FlowSource {
    /// Returns when its next flow starts, as far as is known now.
    fn next_start(&self) -> Option<Time>;
    /// Returns the flow that is due.
    fn pop(&mut self) -> Option<Arrival>;
    /// Takes note that the last byte of one of its flows was acknowledged.
    fn on_acked(&mut self, _flow: FlowEnd, _now: Time) {}
    /// Takes note that the last byte of one of its flows has arrived.
    fn on_received(&mut self, _flow: FlowEnd, _now: Time) {}
    /// Returns whether flows start because others have ended.
    fn is_closed_loop(&self) -> bool {
        false
    }
    /// Returns how long each of its jobs took, if it has jobs.
    fn job_times(&self) -> &[Time] {
        &[]
    }
}

/// A flow that has ended, at one of its ends.
#[derive(Clone, Copy, Debug)]
pub struct FlowEnd {
    /// Its receiver.
    pub to: HostIx,
    /// The tag that its source gave it.
    pub tag: u32,
}

/// All sources of an experiment, merged in order of time; ties go to the source that was listed first.
pub struct FlowFeed {
    sources: Vec<(Box<dyn FlowSource>, EntropyPorts)>,
}

/// The entropy of a source's flows: the n-th flow has the same port under every scheme.
struct EntropyPorts {
    stream: u64,
    given: u64,
}

impl FlowFeed {
    /// Makes the sources of these workloads, under the experiment's seed.
    pub fn new<'a>(workloads: impl Iterator<Item = &'a SourceFactory>, seed: u64) -> FlowFeed {
        let source = |(number, make): (usize, &SourceFactory)| {
            let stream = stream_seed(seed, &format!("entropy ports of workload {number}"));
            (make(&RandomStreams { seed, number }), EntropyPorts { stream, given: 0 })
        };
        FlowFeed { sources: workloads.enumerate().map(source).collect() }
    }

    /// Returns the time at which the next flow starts, as far as is known now.
    pub fn due(&self) -> Option<Time> {
        self.sources.iter().filter_map(|(source, _)| source.next_start()).min()
    }

    /// Returns the flow that is due at `next_start` at the latest, the number of its source and its random bits.
    pub fn take(&mut self, due: Time) -> Option<(usize, Arrival, u64)> {
        let ready = |(_, (source, _)): &(usize, &mut (Box<dyn FlowSource>, EntropyPorts))| {
            source.next_start().is_some_and(|at| at <= due)
        };
        let first = self.sources.iter_mut().enumerate().filter(ready);
        let (index, (source, ports)) = first.min_by_key(|(_, (source, _))| source.next_start())?;
        let arrival = source.pop()?;
        ports.given += 1;
        Some((index, arrival, mix(ports.stream ^ ports.given)))
    }

    /// Tells a source that the sender of one of its flows has every byte acknowledged.
    pub fn finished(&mut self, source: usize, flow: FlowEnd, now: Time) {
        self.sources[source].0.on_acked(flow, now);
    }

    /// Tells a source that the receiver of one of its flows has every byte.
    pub fn received(&mut self, source: usize, flow: FlowEnd, now: Time) {
        self.sources[source].0.on_received(flow, now);
    }

    /// Returns whether flows start because others have ended.
    pub fn is_closed(&self) -> bool {
        self.sources.iter().any(|(source, _)| source.is_closed_loop())
    }

    /// Returns whether flows of the source of this number start because others have ended.
    pub fn is_source_closed(&self, source: usize) -> bool {
        self.sources[source].0.is_closed_loop()
    }

    /// Returns how long jobs took.
    pub fn job_times(&self) -> impl Iterator<Item = Time> {
        self.sources.iter().flat_map(|(source, _)| source.job_times().iter().copied())
    }
}
