//! Access to all nodes, links and observers of a fabric between two windows.

use crate::layout::{Locations, ObservedProcess, TableIndex};
use crate::link::{LocalNode, Transmitter, Wire};
use crate::nodes::{HostNode, SwitchNode};
use crate::observers::{Counters, Fingerprint, Observers, PfcLog, PolicyPackets};
use crate::process::Process;
use std::sync::MutexGuard;
use weir_controller::topology::{HostIx, Node, SwitchIx};

/// All processes of a fabric, locked between two windows.
pub struct View<'n> {
    locations: &'n Locations,
    processes: Vec<MutexGuard<'n, ObservedProcess>>,
}

impl<'n> View<'n> {
    /// `processes` are in the order of their numbers.
    pub(crate) fn new(locations: &'n Locations, processes: Vec<MutexGuard<'n, ObservedProcess>>) -> View<'n> {
        View { locations, processes }
    }
    pub fn switch(&self, ix: SwitchIx) -> &SwitchNode {
        let TableIndex { process, index } = self.locations.switch(ix);
        &self.processes[process as usize].process.switches[index as usize]
    }
    pub fn switch_mut(&mut self, ix: SwitchIx) -> &mut SwitchNode {
        let TableIndex { process, index } = self.locations.switch(ix);
        &mut self.processes[process as usize].process.switches[index as usize]
    }
    /// Returns all switches in topology order.
    pub fn switches(&self) -> impl Iterator<Item = &SwitchNode> {
        (0..self.locations.switch_count()).map(|ix| self.switch(SwitchIx(ix)))
    }
    pub fn host(&self, ix: HostIx) -> &HostNode {
        let TableIndex { process, index } = self.locations.host(ix);
        &self.processes[process as usize].process.hosts[index as usize]
    }
    pub fn host_mut(&mut self, ix: HostIx) -> &mut HostNode {
        let TableIndex { process, index } = self.locations.host(ix);
        &mut self.processes[process as usize].process.hosts[index as usize]
    }
    /// Returns the observers of the process that the switch belongs to.
    pub(crate) fn observers_of_switch(&mut self, ix: SwitchIx) -> &mut Observers {
        &mut self.processes[self.locations.switch(ix).process as usize].observers
    }
    /// Returns all hosts in topology order.
    pub fn hosts(&self) -> impl Iterator<Item = &HostNode> {
        (0..self.locations.host_count()).map(|ix| self.host(HostIx(ix)))
    }
    pub fn transmitter(&self, direction: u32) -> &Transmitter {
        let TableIndex { process, index } = self.locations.direction(direction).transmitter;
        &self.processes[process as usize].process.transmitters[index as usize]
    }
    pub fn wire(&self, direction: u32) -> &Wire {
        let TableIndex { process, index } = self.locations.direction(direction).wire;
        &self.processes[process as usize].process.wires[index as usize]
    }
    pub fn wire_mut(&mut self, direction: u32) -> &mut Wire {
        let TableIndex { process, index } = self.locations.direction(direction).wire;
        &mut self.processes[process as usize].process.wires[index as usize]
    }
    /// Returns the node at which the direction ends.
    pub fn far_end(&self, direction: u32) -> Node {
        let number = self.locations.direction(direction).wire.process;
        let process = &self.processes[number as usize].process;
        match self.wire(direction).to {
            LocalNode::Switch(index) => Node::Switch(process.switches[index as usize].ix),
            LocalNode::Host(index) => Node::Host(process.hosts[index as usize].ix),
        }
    }
    /// Returns the numbers of all link directions.
    pub fn directions(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.locations.direction_count()
    }
    pub(crate) fn processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.processes.iter_mut().map(|observed| &mut observed.process)
    }
    /// Returns the observers of all processes, in the order of process numbers.
    pub fn observers(&self) -> impl Iterator<Item = &Observers> {
        self.processes.iter().map(|observed| &observed.observers)
    }
    pub fn observers_mut(&mut self) -> impl Iterator<Item = &mut Observers> {
        self.processes.iter_mut().map(|observed| &mut observed.observers)
    }
    /// Returns the sums of the counters of all processes.
    pub fn counters(&self) -> Counters {
        Counters::merge(self.observers().map(|observers| &observers.basic.counters))
    }
    /// Returns the sums of all processes; `None` if the experiment has no `policy:`.
    pub fn policy_packets(&self) -> Option<PolicyPackets> {
        PolicyPackets::merge(self.observers().filter_map(|observers| observers.policy.as_deref()))
    }
    /// Returns PFC pause frames minus resume frames sent: greater than 0 while a switch pauses a neighbour.
    pub fn pauses_outstanding(&self) -> i64 {
        PfcLog::outstanding(self.observers().map(|observers| &observers.basic.pfc_log))
    }
    /// Checks that every packet of every switch is accounted for: sent, dropped or queued.
    ///
    /// # Errors
    ///
    /// The first switch whose counters do not balance, because of a bug.
    pub fn audit(&self) -> Result<(), String> {
        self.switches().try_for_each(|node| {
            let (number, counters) = (node.ix.0, node.switch.counters());
            if !counters.is_balanced() {
                return Err(format!("switch {number}: {counters:?} do not balance"));
            }
            node.switch.queues().audit().map_err(|imbalance| format!("switch {number}: {imbalance}"))
        })
    }
    /// Returns a hash of the time and length of every arrival on every wire, to compare two runs.
    pub fn fingerprint(&self) -> u64 {
        let wire = |direction: u32| {
            let TableIndex { process, index } = self.locations.direction(direction).wire;
            self.processes[process as usize].observers.basic.fingerprint.wire(index)
        };
        Fingerprint::merge(self.directions().map(wire))
    }
}
