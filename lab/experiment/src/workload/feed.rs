//! The sources of all workloads of an experiment, merged in order of time.

use super::context::RandomStreams;
use super::kind::SourceFactory;
use super::source::{Arrival, FlowEnd, FlowSource};
use crate::rng::{mix, stream_seed};
use weir_units::Time;

/// All sources of an experiment, merged in order of time. Flows that start at the same time are in the order of their
/// workloads in the file.
pub struct FlowFeed {
    sources: Vec<(Box<dyn FlowSource>, EntropyPorts)>,
}

/// The random bits for the entropy ports of a source's flows. They depend only on the number of the flow, so that the n-th
/// flow has the same port under every scheme.
struct EntropyPorts {
    seed: u64,
    /// Number of flows so far.
    flows: u64,
}

impl FlowFeed {
    /// Creates the sources of these workloads. `seed` is that of the experiment.
    pub fn new<'a>(workloads: impl Iterator<Item = &'a SourceFactory>, seed: u64) -> FlowFeed {
        let source = |(number, make): (usize, &SourceFactory)| {
            let port_seed = stream_seed(seed, &format!("entropy ports of workload {number}"));
            (make(&RandomStreams { seed, number }), EntropyPorts { seed: port_seed, flows: 0 })
        };
        FlowFeed { sources: workloads.enumerate().map(source).collect() }
    }

    /// Returns the start of the next flow of any source; `None` if there is none at present.
    pub fn next_start(&self) -> Option<Time> {
        self.sources.iter().filter_map(|(source, _)| source.next_start()).min()
    }

    /// Returns the start of the next flow of the source with this index; `None` if there is none at present.
    pub(crate) fn next_start_of(&self, source: usize) -> Option<Time> {
        self.sources[source].0.next_start()
    }

    /// Removes the earliest flow that starts at `now` or before. Returns the index of its source, the flow, and random bits
    /// for its entropy port.
    pub fn pop_due(&mut self, now: Time) -> Option<(usize, Arrival, u64)> {
        let is_due = |(_, (source, _)): &(usize, &mut (Box<dyn FlowSource>, EntropyPorts))| {
            source.next_start().is_some_and(|start| start <= now)
        };
        let due = self.sources.iter_mut().enumerate().filter(is_due);
        let (index, (source, ports)) = due.min_by_key(|(_, (source, _))| source.next_start())?;
        let arrival = source.pop()?;
        ports.flows += 1;
        Some((index, arrival, mix(ports.seed ^ ports.flows)))
    }

    /// Reports to a source that the sender of a flow has received the ACK of the last byte.
    pub fn on_flow_acked(&mut self, source: usize, flow: FlowEnd, now: Time) {
        self.sources[source].0.on_flow_acked(flow, now);
    }

    /// Reports to a source that the receiver of a flow has received the last byte.
    pub fn on_flow_received(&mut self, source: usize, flow: FlowEnd, now: Time) {
        self.sources[source].0.on_flow_received(flow, now);
    }

    /// Returns whether any source is a closed loop.
    pub fn is_closed_loop(&self) -> bool {
        self.sources.iter().any(|(source, _)| source.is_closed_loop())
    }

    /// Returns whether the source with this index is a closed loop.
    pub fn is_source_closed_loop(&self, source: usize) -> bool {
        self.sources[source].0.is_closed_loop()
    }

    /// Returns the completion times of the finished jobs of all sources.
    pub fn job_times(&self) -> impl Iterator<Item = Time> {
        self.sources.iter().flat_map(|(source, _)| source.job_times().iter().copied())
    }
}
