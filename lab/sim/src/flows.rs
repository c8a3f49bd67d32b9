//! The flows of a run: state of the active flows, and a record of every flow that has started.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weir_controller::topology::{HostIx, Topology};
use weir_experiment::Flow;
use weir_experiment::results::FlowRecord;
use weir_host::{FlowError, FlowId};
use weir_units::{Bytes, Time};

#[derive(Clone, Copy, Debug)]
pub(crate) struct ActiveFlow {
    /// The host's id of the flow; `None` until the host has opened it.
    pub id: Option<FlowId>,
    pub from: HostIx,
    pub to: HostIx,
    /// Index of the source that generated the flow, and the source's tag for it; `None` for flows of the experiment
    /// file.
    pub source: Option<(usize, u32)>,
    /// Bytes acknowledged when the fairness window began; `None` if the flow was not active then.
    pub acked_before_window: Option<Bytes>,
    has_size: bool,
}

/// All flows that have started. A `record` argument is an index into `records`.
pub(crate) struct FlowTable {
    /// In order of start.
    records: Vec<FlowRecord>,
    /// By record.
    active: BTreeMap<u32, ActiveFlow>,
    /// Number of active flows with a size.
    sized: usize,
    /// For each host, the record of each active flow by message id.
    messages: Vec<HashMap<u32, u32>>,
    /// For each host, the next message id. Ids are consecutive, from 0.
    next_message: Vec<u32>,
    /// By number of the flow in the experiment file, its record once it has started.
    predefined: Vec<Option<u32>>,
    names: Vec<Arc<str>>,
}

impl FlowTable {
    /// `predefined` is the number of flows of the experiment file.
    pub fn new(topology: &Topology, predefined: usize) -> FlowTable {
        let hosts = topology.hosts.len();
        FlowTable {
            records: Vec::new(),
            active: BTreeMap::new(),
            sized: 0,
            messages: vec![HashMap::new(); hosts],
            next_message: vec![0; hosts],
            predefined: vec![None; predefined],
            names: topology.hosts.iter().map(|host| Arc::from(host.name.as_str())).collect(),
        }
    }

    /// Allocates a message id for the next flow of a host.
    pub fn next_message_id(&mut self, host: HostIx) -> u32 {
        let next = &mut self.next_message[host.0 as usize];
        let message = *next;
        *next = next.wrapping_add(1);
        message
    }

    /// Returns the number of flows that have started.
    pub fn started_count(&self) -> usize {
        self.records.len()
    }

    /// Adds a flow that starts now, and returns its record.
    pub fn start(
        &mut self,
        flow: &Flow,
        message: u32,
        ideal: Option<Time>,
        source: Option<(usize, u32)>,
    ) -> u32 {
        let record = self.records.len() as u32;
        let name = |host: HostIx| Arc::clone(&self.names[host.0 as usize]);
        self.records.push(FlowRecord {
            from: name(flow.from),
            to: name(flow.to),
            ordinal: flow.ordinal,
            port: flow.entropy_port,
            incast: flow.incast,
            size: flow.size,
            start: flow.start,
            fct: None,
            error: None,
            ideal,
            acked: Bytes::ZERO,
            retransmits: 0,
        });
        let (from, to, has_size) = (flow.from, flow.to, flow.size.is_some());
        self.active
            .insert(record, ActiveFlow { id: None, from, to, source, acked_before_window: None, has_size });
        self.messages[from.0 as usize].insert(message, record);
        self.sized += usize::from(has_size);
        record
    }

    /// Sets the host's id of a flow, once the host has opened it.
    pub fn set_flow_id(&mut self, record: u32, id: FlowId) {
        if let Some(active) = self.active.get_mut(&record) {
            active.id = Some(id);
        }
    }

    /// Sets the record of flow number `index` of the experiment file.
    pub fn set_predefined(&mut self, index: usize, record: u32) {
        self.predefined[index] = Some(record);
    }

    /// Returns the record of flow number `index` of the experiment file, once the flow has started.
    pub fn predefined(&self, index: usize) -> Option<u32> {
        self.predefined[index]
    }

    /// Completes the record of a message whose last byte was acknowledged, and removes the flow from the active ones.
    pub fn finish(
        &mut self,
        host: HostIx,
        message: u32,
        (end, bytes, retransmits): (Time, Bytes, u64),
    ) -> Option<ActiveFlow> {
        let (active, record) = self.end(host, message)?;
        record.fct = Some(end.saturating_sub(record.start));
        (record.acked, record.retransmits) = (bytes, retransmits);
        Some(active)
    }

    /// Completes the record of a message that the host has given up, and removes the flow from the active ones.
    pub fn fail(&mut self, host: HostIx, message: u32, (acked, retransmits, error): (Bytes, u64, FlowError)) {
        let Some((_, record)) = self.end(host, message) else { return };
        (record.acked, record.retransmits) = (acked, retransmits);
        record.error = Some(error.to_string().into());
    }

    /// Removes a flow from the active ones, and returns it with its record.
    fn end(&mut self, host: HostIx, message: u32) -> Option<(ActiveFlow, &mut FlowRecord)> {
        let index = self.messages[host.0 as usize].remove(&message)?;
        let active = self.active.remove(&index)?;
        self.sized -= usize::from(active.has_size);
        Some((active, &mut self.records[index as usize]))
    }

    /// Returns the flow of a host's message, while it is active.
    pub fn by_message(&self, host: HostIx, message: u32) -> Option<&ActiveFlow> {
        self.active.get(self.messages[host.0 as usize].get(&message)?)
    }

    /// Returns the flow of a record, if it is active.
    pub fn active(&self, record: u32) -> Option<&ActiveFlow> {
        self.active.get(&record)
    }

    /// Returns the active flows with their records, in order of start.
    pub fn all_active(&self) -> impl Iterator<Item = (u32, &ActiveFlow)> {
        self.active.iter().map(|(&record, active)| (record, active))
    }

    pub fn all_active_mut(&mut self) -> impl Iterator<Item = &mut ActiveFlow> {
        self.active.values_mut()
    }

    /// Returns the active flows that have a size.
    pub fn all_sized(&self) -> impl Iterator<Item = &ActiveFlow> {
        self.active.values().filter(|active| active.has_size)
    }

    pub fn has_sized_flows(&self) -> bool {
        self.sized > 0
    }

    pub fn record(&self, record: u32) -> &FlowRecord {
        &self.records[record as usize]
    }

    /// Returns all records, those of active flows completed with the acknowledged bytes and retransmissions from
    /// `progress`.
    pub fn records(&self, progress: impl Fn(&ActiveFlow) -> Option<(Bytes, u64)>) -> Vec<FlowRecord> {
        let mut records = self.records.clone();
        for (index, active) in self.all_active() {
            let record = &mut records[index as usize];
            (record.acked, record.retransmits) = progress(active).unwrap_or_default();
        }
        records
    }
}
