//! The flows of an experiment, and their names.

use super::resolve::entropy_port;
use crate::workload::{Arrival, SenderAnnouncement};
use std::collections::HashMap;
use weir_controller::topology::{HostIx, Topology};
use weir_units::{Bytes, Time};

/// A flow of an experiment, its names resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// `<from>-><to>`, with `#n` behind it if there are several.
    pub name: String,
    /// That `n`.
    pub ordinal: u32,
    /// Sender.
    pub from: HostIx,
    /// Receiver.
    pub to: HostIx,
    /// Time at which it opens.
    pub start: Time,
    /// Time at which it stops sending new data, if before its end.
    pub stop: Option<Time>,
    /// Payload; `None` sends until it is stopped.
    pub size: Option<Bytes>,
    /// The UDP port that is the flow's entropy.
    pub entropy_port: u16,
    /// Senders that its first packets announce.
    pub announces: Option<SenderAnnouncement>,
    /// One of an incast.
    pub incast: bool,
}

/// Gives names and ports to flows in the order in which they are made.
pub struct FlowNamer<'t> {
    topology: &'t Topology,
    /// Flows so far, by pair.
    seen: HashMap<(HostIx, HostIx), u32>,
}

impl<'t> FlowNamer<'t> {
    /// Continues behind the flows that the experiment lists.
    pub fn new(topology: &'t Topology, flows: &[Flow]) -> FlowNamer<'t> {
        let mut seen: HashMap<(HostIx, HostIx), u32> = HashMap::new();
        for flow in flows {
            let max = seen.entry((flow.from, flow.to)).or_default();
            *max = flow.ordinal.max(*max);
        }
        FlowNamer { topology, seen }
    }

    /// Returns the flow that an arrival is.
    pub fn flow(&mut self, arrival: Arrival, random: u64) -> Flow {
        let Arrival { from, to, start, size, announces, incast, .. } = arrival;
        let nth = self.seen.entry((from, to)).or_default();
        *nth += 1;
        let name = flow_name(&self.topology.host(from).name, &self.topology.host(to).name, *nth);
        let (stop, size, entropy_port) = (None, Some(size), entropy_port(random));
        Flow { name, ordinal: *nth, from, to, start, stop, size, entropy_port, announces, incast }
    }
}

/// Returns the name of a flow: `h1->h2`, of the next between the same hosts `h1->h2#2`.
pub fn flow_name(from: &str, to: &str, nth: u32) -> String {
    if nth <= 1 { format!("{from}->{to}") } else { format!("{from}->{to}#{nth}") }
}
