//! The flows of an experiment, and their names.

use crate::workload::{Arrival, DynWorkload, SenderAnnouncement};
use std::collections::HashMap;
use std::sync::Arc;
use weir_controller::topology::{HostIx, Topology};
use weir_units::{Bytes, Time};

/// A flow of an experiment, with hosts resolved to indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// `<from>-><to>`, followed by `#n` from the second flow between these hosts on.
    pub name: String,
    /// The n of the name: position among the flows between these two hosts, from 1.
    pub ordinal: u32,
    pub from: HostIx,
    pub to: HostIx,
    pub start: Time,
    /// Time at which the flow stops sending new data; `None`: it sends all of `size`, or until the end of the run.
    pub stop: Option<Time>,
    /// Payload; `None`: the flow sends until `stop` or the end of the run.
    pub size: Option<Bytes>,
    /// UDP source port; selects the path among those of equal cost.
    pub entropy_port: u16,
    /// Senders that the first packets of the flow announce (Dart).
    pub announces: Option<SenderAnnouncement>,
    /// True if the flow is part of an incast.
    pub incast: bool,
    /// Name of the workload, see [`Experiment::workload_names`](crate::Experiment::workload_names).
    pub workload: Arc<str>,
}

/// Assigns names and entropy ports to flows, in the order of their creation.
pub struct FlowNamer<'t> {
    topology: &'t Topology,
    /// Number of flows so far, by sender and receiver.
    flow_counts: HashMap<(HostIx, HostIx), u32>,
}

impl<'t> FlowNamer<'t> {
    /// Returns a namer that continues the numbering of `flows`.
    pub fn new(topology: &'t Topology, flows: &[Flow]) -> FlowNamer<'t> {
        let mut flow_counts: HashMap<(HostIx, HostIx), u32> = HashMap::new();
        for flow in flows {
            let max = flow_counts.entry((flow.from, flow.to)).or_default();
            *max = flow.ordinal.max(*max);
        }
        FlowNamer { topology, flow_counts }
    }

    /// Returns the name of the next flow between two hosts, and its number among these.
    pub(super) fn next_name(&mut self, from: HostIx, to: HostIx) -> (String, u32) {
        let ordinal = self.flow_counts.entry((from, to)).or_default();
        *ordinal += 1;
        (flow_name(&self.topology.host(from).name, &self.topology.host(to).name, *ordinal), *ordinal)
    }

    /// Converts an arrival of the workload with this name to a flow. `random` determines the entropy port.
    pub fn flow(&mut self, workload: &Arc<str>, arrival: Arrival, random: u64) -> Flow {
        let Arrival { from, to, start, size, announces, incast, .. } = arrival;
        let (name, ordinal) = self.next_name(from, to);
        let (stop, size, entropy_port) = (None, Some(size), entropy_port(random));
        let workload = Arc::clone(workload);
        Flow { name, ordinal, from, to, start, stop, size, entropy_port, announces, incast, workload }
    }
}

/// Returns the name of flow number `ordinal` between two hosts: `h1->h2`, `h1->h2#2`.
pub fn flow_name(from: &str, to: &str, ordinal: u32) -> String {
    if ordinal <= 1 { format!("{from}->{to}") } else { format!("{from}->{to}#{ordinal}") }
}

/// Returns a UDP source port from the dynamic range (RFC 6335: 49152 to 65535).
pub(super) fn entropy_port(random: u64) -> u16 {
    49_152 + (random % (65_536 - 49_152)) as u16
}

/// The key path of a workload in the file, and the workload.
pub(super) type ParsedWorkload = (String, Box<dyn DynWorkload>);
