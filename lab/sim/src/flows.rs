//! The flows of a run: state of the active flows, and a record of every flow that has started. A *flow index* numbers
//! the flows in the order in which they start.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weir_controller::topology::{HostIx, Topology};
use weir_experiment::Flow;
use weir_experiment::results::FlowRecord;
use weir_host::{FlowError, FlowId};
use weir_units::{Bytes, Time};

/// The source of the workload that generated a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowSource {
    /// Index of the source in the workload.
    pub index: usize,
    /// The source's own number for the flow.
    pub tag: u32,
}

/// Results of a finished message.
pub(crate) struct FinishedMessage {
    pub end: Time,
    pub acked: Bytes,
    pub retransmits: u64,
}

/// State of a flow from its start to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActiveFlow {
    /// The host's id of the flow; `None` until the host has opened it.
    pub id: Option<FlowId>,
    pub from: HostIx,
    pub to: HostIx,
    /// `None` for flows of the experiment file.
    pub source: Option<FlowSource>,
    /// Bytes acknowledged when the fairness window began ([`Experiment::fairness_window_start`]); `None` if the flow
    /// was not active then.
    ///
    /// [`Experiment::fairness_window_start`]: weir_experiment::Experiment::fairness_window_start
    pub acked_before_window: Option<Bytes>,
    has_size: bool,
}

/// All flows that have started.
pub(crate) struct FlowTable {
    /// By flow index.
    records: Vec<FlowRecord>,
    /// By flow index.
    active: BTreeMap<u32, ActiveFlow>,
    /// Number of active flows with a size.
    sized_count: usize,
    /// For each host, the flow index of each active flow by message id.
    flow_of_message: Vec<HashMap<u32, u32>>,
    /// For each host, the next message id. Ids are consecutive, from 0.
    next_message: Vec<u32>,
    /// By number of the flow in the experiment file, its flow index once it has started.
    predefined: Vec<Option<u32>>,
    /// Names of the hosts.
    names: Vec<Arc<str>>,
}

impl FlowTable {
    /// `predefined` is the number of flows of the experiment file.
    pub(crate) fn new(topology: &Topology, predefined: usize) -> FlowTable {
        let hosts = topology.hosts.len();
        FlowTable {
            records: Vec::new(),
            active: BTreeMap::new(),
            sized_count: 0,
            flow_of_message: vec![HashMap::new(); hosts],
            next_message: vec![0; hosts],
            predefined: vec![None; predefined],
            names: topology.hosts.iter().map(|host| Arc::from(host.name.as_str())).collect(),
        }
    }

    /// Allocates a message id for the next flow of a host.
    pub(crate) fn next_message_id(&mut self, host: HostIx) -> u32 {
        let next = &mut self.next_message[host.0 as usize];
        let message = *next;
        *next = next.wrapping_add(1);
        message
    }

    /// Returns the number of flows that have started.
    pub(crate) fn started_count(&self) -> usize {
        self.records.len()
    }

    /// Adds a flow that starts now, and returns its flow index. `ideal` is its completion time on an idle fabric.
    pub(crate) fn start(
        &mut self,
        flow: &Flow,
        message: u32,
        ideal: Option<Time>,
        source: Option<FlowSource>,
    ) -> u32 {
        let flow_index = self.records.len() as u32;
        let name = |host: HostIx| Arc::clone(&self.names[host.0 as usize]);
        self.records.push(FlowRecord {
            from: name(flow.from),
            to: name(flow.to),
            ordinal: flow.ordinal,
            port: flow.entropy_port,
            incast: flow.incast,
            workload: Arc::clone(&flow.workload),
            size: flow.size,
            start: flow.start,
            fct: None,
            error: None,
            ideal,
            acked: Bytes::ZERO,
            retransmits: 0,
        });
        let (from, to, has_size) = (flow.from, flow.to, flow.size.is_some());
        self.active.insert(
            flow_index,
            ActiveFlow { id: None, from, to, source, acked_before_window: None, has_size },
        );
        self.flow_of_message[from.0 as usize].insert(message, flow_index);
        self.sized_count += usize::from(has_size);
        flow_index
    }

    /// Sets the host's id of a flow, once the host has opened it.
    pub(crate) fn set_flow_id(&mut self, flow_index: u32, id: FlowId) {
        if let Some(active) = self.active.get_mut(&flow_index) {
            active.id = Some(id);
        }
    }

    /// Sets the flow index of flow number `predefined` of the experiment file.
    pub(crate) fn set_predefined(&mut self, predefined: usize, flow_index: u32) {
        self.predefined[predefined] = Some(flow_index);
    }

    /// Returns the flow index of flow number `predefined` of the experiment file, once the flow has started.
    pub(crate) fn predefined(&self, predefined: usize) -> Option<u32> {
        self.predefined[predefined]
    }

    /// Completes the record of a message whose last byte was acknowledged. Removes its flow from the active ones and
    /// returns it; `None` if it is not active.
    pub(crate) fn finish(
        &mut self,
        host: HostIx,
        message: u32,
        result: &FinishedMessage,
    ) -> Option<ActiveFlow> {
        let (active, record) = self.end(host, message)?;
        record.fct = Some(result.end.saturating_sub(record.start));
        (record.acked, record.retransmits) = (result.acked, result.retransmits);
        Some(active)
    }

    /// Completes the record of a message that the host has given up, and removes the flow from the active ones.
    pub(crate) fn fail(
        &mut self,
        host: HostIx,
        message: u32,
        (acked, retransmits, error): (Bytes, u64, FlowError),
    ) {
        let Some((_, record)) = self.end(host, message) else { return };
        (record.acked, record.retransmits) = (acked, retransmits);
        record.error = Some(error.to_string().into());
    }

    /// Removes a flow from the active ones, and returns it with its record.
    fn end(&mut self, host: HostIx, message: u32) -> Option<(ActiveFlow, &mut FlowRecord)> {
        let flow_index = self.flow_of_message[host.0 as usize].remove(&message)?;
        let active = self.active.remove(&flow_index)?;
        self.sized_count -= usize::from(active.has_size);
        Some((active, &mut self.records[flow_index as usize]))
    }

    /// Returns the flow of a host's message, while it is active.
    pub(crate) fn by_message(&self, host: HostIx, message: u32) -> Option<&ActiveFlow> {
        self.active.get(self.flow_of_message[host.0 as usize].get(&message)?)
    }

    /// Returns the flow with this index, if it is active.
    pub(crate) fn active(&self, flow_index: u32) -> Option<&ActiveFlow> {
        self.active.get(&flow_index)
    }

    /// Returns the active flows with their flow indices, in order of start.
    pub(crate) fn all_active(&self) -> impl Iterator<Item = (u32, &ActiveFlow)> {
        self.active.iter().map(|(&flow_index, active)| (flow_index, active))
    }

    pub(crate) fn all_active_mut(&mut self) -> impl Iterator<Item = &mut ActiveFlow> {
        self.active.values_mut()
    }

    /// Returns the active flows that have a size.
    pub(crate) fn all_sized(&self) -> impl Iterator<Item = &ActiveFlow> {
        self.active.values().filter(|active| active.has_size)
    }

    pub(crate) fn has_sized_flows(&self) -> bool {
        self.sized_count > 0
    }

    pub(crate) fn record(&self, flow_index: u32) -> &FlowRecord {
        &self.records[flow_index as usize]
    }

    /// Returns all records. Those of active flows are completed with the result of `progress`: acknowledged bytes and
    /// number of retransmissions, both 0 if it is `None`.
    pub(crate) fn records(&self, progress: impl Fn(&ActiveFlow) -> Option<(Bytes, u64)>) -> Vec<FlowRecord> {
        let mut records = self.records.clone();
        for (flow_index, active) in self.all_active() {
            let record = &mut records[flow_index as usize];
            (record.acked, record.retransmits) = progress(active).unwrap_or_default();
        }
        records
    }
}
