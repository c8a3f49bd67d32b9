//! The fabric in virtual time: logical processes, and the frames from one to another.
//!
//! A process is a switch or a host; nodes whose link is too short to be worth a window are one process together. A frame that
//! is sent at a time arrives no earlier than its link's delay after it. So all that happens within the least delay of all
//! links between processes, the *lookahead*, happens in each process by itself: a window is run one process after the other,
//! which keeps its tables in the cache, or several at a time (`lab/sim/src/crew.rs`). Its length is the lookahead, or twice
//! that if neighbours run in turns (`lab/sim/src/sides.rs`). Frames for other processes are handed over when a process is done
//! with the window.
//!
//! Nothing of what happens depends on which of the two it is, nor on the number of threads: within a process events run in
//! the order of their [`Key`]s, which do not change with it.

use crate::bipartition::bipartition;
use crate::events::EventKey;
use crate::link::{Batch, DirectionSpec, InFlight, LocalNode, PfcFrame, hash_step};
use crate::locality_order::{depth_first_order, neighbours};
use crate::messages::{HostCommand, HostReport};
use crate::path_trace::{self, PathTrace};
use crate::process::{HostNode, Process, ProcessCounters, SwitchNode, UNCONNECTED};
use crate::thread_buffers::ThreadBuffers;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_controller::topology::{HostIx, Link, Node, SwitchIx, Topology};
use weir_host::Host;
use weir_switch::Switch;
use weir_switch::packet::Packet;
use weir_switch::prefetch::{prefetch, prefetch_all};
use weir_units::Time;

/// Links with less delay are inside a process: ours, about a packet at 100 Gbit/s, for shorter windows have no work in them.
const MIN_LOOKAHEAD: Time = Time::from_ns(100);
/// No event is due.
const NEVER: u64 = u64::MAX;

/// A process and an index there.
type NodeIndex = (u32, u32);
/// A node and the number of its port.
type NodePort = (Node, u16);

/// The fabric.
pub struct Network {
    processes: Vec<Mutex<Process>>,
    /// Frames for each process that it has not looked at.
    mailboxes: Vec<PaddedMailbox>,
    /// Times of the next event of each process and of the first of its frames, in picoseconds.
    next_due: Vec<(AtomicU64, AtomicU64)>,
    /// Processes with reports.
    reporting: Mutex<Vec<u32>>,
    /// For what the run does between windows.
    worker: Mutex<ThreadBuffers>,
    switches: Vec<NodeIndex>,
    hosts: Vec<NodeIndex>,
    /// Both ends of every direction: the transmitter's and the wire's.
    directions: Vec<(NodeIndex, NodeIndex)>,
    /// Processes with hosts.
    with_hosts: Vec<u32>,
    /// All processes, neighbours near each other, by [side](crate::sides).
    sides: Vec<Vec<u32>>,
    /// The same, those with hosts last.
    run_order: Vec<Vec<u32>>,
    lookahead: Time,
    /// True if processes keep paths of packets.
    keeps_packets: bool,
}

/// A mailbox in a cache line of its own: several threads put frames in their neighbours' at the same time.
#[derive(Default)]
#[repr(align(64))]
struct PaddedMailbox(Mutex<Mailbox>);

/// Frames for a process, with the indices of their wires there.
#[derive(Default)]
struct Mailbox {
    frames: Vec<(u32, Batch<Box<Packet>>)>,
    pfc: Vec<(u32, InFlight<PfcFrame>)>,
}

/// Nobody panics with a lock in hand but where the whole run does.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    /// Returns a fabric at rest. Of link `i` the direction `2i` leads from its end `a` to `b`, `2i + 1` back.
    pub fn new(topology: &Topology, switches: Vec<Switch>, hosts: Vec<Host>) -> Network {
        let (groups, count) = assign_processes(topology);
        let of = |node: Node| groups[node_index(topology, node)];
        let mut places = vec![IndexAllocator::default(); count as usize];
        let switch_at: Vec<NodeIndex> = topology
            .switch_ixs()
            .map(|ix| places[of(Node::Switch(ix)) as usize].switch(of(Node::Switch(ix))))
            .collect();
        let host_at: Vec<NodeIndex> = topology
            .host_ixs()
            .map(|ix| places[of(Node::Host(ix)) as usize].host(of(Node::Host(ix))))
            .collect();
        let place = |node: Node| match node {
            Node::Switch(ix) => LocalNode::Switch(switch_at[ix.0 as usize].1),
            Node::Host(ix) => LocalNode::Host(host_at[ix.0 as usize].1),
        };
        let ends = all_directions(topology);
        let directions: Vec<(NodeIndex, NodeIndex)> = ends
            .iter()
            .map(|(_, from, to)| {
                let (from, to) = (of(from.0), of(to.0));
                (places[from as usize].out(from), places[to as usize].wire(to))
            })
            .collect();

        let mut parts: Vec<_> =
            (0..count).map(|_| (Vec::new(), Vec::new(), Vec::new(), Vec::new())).collect();
        for (ix, (switch, at)) in topology.switch_ixs().zip(switches.into_iter().zip(&switch_at)) {
            let (mut leaving, mut outs) = (Vec::new(), Vec::new());
            for (port, link) in topology.switch(ix).ports() {
                let port = usize::from(port);
                leaving.resize(leaving.len().max(port + 1), UNCONNECTED);
                outs.resize(leaving.len(), UNCONNECTED);
                leaving[port] = outgoing_direction(topology, Node::Switch(ix), link.0 as usize);
                outs[port] = directions[leaving[port] as usize].0.1;
            }
            parts[at.0 as usize].0.push(SwitchNode { ix, switch, directions: leaving, outs });
        }
        for (ix, (host, at)) in topology.host_ixs().zip(hosts.into_iter().zip(&host_at)) {
            let leaving = outgoing_direction(topology, Node::Host(ix), topology.host(ix).link.0 as usize);
            parts[at.0 as usize].1.push(HostNode::new(ix, host, directions[leaving as usize].0.1));
        }
        for (direction, from, to) in &ends {
            let (out, wire) = directions[direction.number as usize];
            let back = directions[direction.number as usize ^ 1].0;
            parts[out.0 as usize].2.push(direction.transmitter((place(from.0), from.1), wire));
            parts[wire.0 as usize].3.push(direction.wire((place(to.0), to.1), back.1));
        }
        let lookahead = |link: &Link| (of(link.a.node) != of(link.b.node)).then_some(link.delay);
        let processes: Vec<Process> = (0..)
            .zip(parts)
            .map(|(number, (switches, nics, outs, ins))| Process::new(number, switches, nics, outs, ins))
            .collect();
        let with_hosts: Vec<u32> =
            processes.iter().filter(|it| !it.hosts.is_empty()).map(Process::number).collect();
        let links = topology.links.iter().map(|link| (of(link.a.node), of(link.b.node)));
        let neighbours = neighbours(processes.len(), links);
        let sides = bipartition(&depth_first_order(neighbours.clone(), &with_hosts), &neighbours);
        let mut run_order = sides.clone();
        run_order
            .iter_mut()
            .for_each(|turn| turn.sort_by_key(|number| with_hosts.binary_search(number).is_ok()));
        Network {
            sides,
            run_order,
            mailboxes: processes.iter().map(|_| PaddedMailbox::default()).collect(),
            next_due: processes.iter().map(|_| (AtomicU64::new(NEVER), AtomicU64::new(NEVER))).collect(),
            processes: processes.into_iter().map(Mutex::new).collect(),
            reporting: Mutex::default(),
            worker: Mutex::default(),
            switches: switch_at,
            hosts: host_at,
            directions,
            with_hosts,
            lookahead: topology.links.iter().filter_map(lookahead).min().unwrap_or(Time::MAX),
            keeps_packets: false,
        }
    }

    /// A fabric without nodes.
    pub(crate) fn empty() -> Network {
        Network {
            processes: Vec::new(),
            mailboxes: Vec::new(),
            next_due: Vec::new(),
            reporting: Mutex::default(),
            worker: Mutex::default(),
            switches: Vec::new(),
            hosts: Vec::new(),
            directions: Vec::new(),
            with_hosts: Vec::new(),
            sides: Vec::new(),
            run_order: Vec::new(),
            lookahead: Time::MAX,
            keeps_packets: false,
        }
    }

    /// Number of processes.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Returns whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// The least delay of links between processes.
    pub fn lookahead(&self) -> Time {
        self.lookahead
    }

    /// Processes with hosts, in ascending order.
    pub(crate) fn with_hosts(&self) -> &[u32] {
        &self.with_hosts
    }

    /// Processes without hosts, in ascending order.
    pub(crate) fn without_hosts(&self) -> impl Iterator<Item = u32> {
        (0..self.len() as u32).filter(|number| self.with_hosts.binary_search(number).is_err())
    }

    /// All processes, neighbours near each other, by [side](crate::sides).
    pub(crate) fn sides(&self) -> &[Vec<u32>] {
        &self.sides
    }

    /// The processes of each side in the order in which a thread runs them: first switches, then hosts, so that the code
    /// of each stays in the cache.
    pub(crate) fn turns(&self) -> &[Vec<u32>] {
        &self.run_order
    }

    /// Takes the number of a process's events since it was taken last.
    pub(crate) fn take_event_count(&self, number: u32) -> u64 {
        std::mem::take(&mut lock(&self.processes[number as usize]).events_since_rebalance)
    }

    /// The process of a host.
    pub(crate) fn process_of(&self, host: HostIx) -> u32 {
        self.hosts[host.0 as usize].0
    }

    /// The time of the next event of this process.
    #[inline]
    pub(crate) fn due(&self, number: u32) -> Time {
        let (next, mail) = &self.next_due[number as usize];
        Time::from_ps(next.load(Ordering::Relaxed).min(mail.load(Ordering::Relaxed)))
    }

    /// The time of the next event of all.
    pub(crate) fn earliest(&self) -> Time {
        (0..self.len() as u32).map(|number| self.due(number)).min().unwrap_or(Time::MAX)
    }

    /// Says that a process will run soon: others have had the caches since it ran last.
    #[inline]
    pub(crate) fn prefetch(&self, number: u32) {
        prefetch_all(&self.processes[number as usize]);
        prefetch(&self.mailboxes[number as usize]);
    }

    /// Runs a process up to `end`. Returns its number of events.
    pub(crate) fn run_process(&self, number: u32, end: &EventKey, worker: &mut ThreadBuffers) -> u64 {
        let mut process = lock(&self.processes[number as usize]);
        self.drain_mailbox(&mut process, worker);
        let events = process.run(end, worker);
        process.events_since_rebalance += events;
        self.flush_process(&mut process);
        events
    }

    /// Lets the next event of a process happen if it is before `end`.
    pub(crate) fn step_process(&self, number: u32, end: &EventKey) -> Option<EventKey> {
        let mut process = lock(&self.processes[number as usize]);
        let worker = &mut self.worker();
        self.drain_mailbox(&mut process, worker);
        let key = process.step(end, worker);
        self.flush_process(&mut process);
        key
    }

    /// The next event of a process.
    pub(crate) fn next_event_of(&self, number: u32) -> Option<EventKey> {
        let mut process = lock(&self.processes[number as usize]);
        self.drain_mailbox(&mut process, &mut self.worker());
        self.update_next_due(&process);
        process.next().copied()
    }

    /// The thread of the run works as well.
    pub(crate) fn worker(&self) -> MutexGuard<'_, ThreadBuffers> {
        lock(&self.worker)
    }

    fn drain_mailbox(&self, process: &mut Process, worker: &mut ThreadBuffers) {
        let number = process.number() as usize;
        if self.next_due[number].1.load(Ordering::Relaxed) == NEVER {
            return;
        }
        let Mailbox { frames, pfc } = &mut *lock(&self.mailboxes[number].0);
        frames.iter().for_each(|(wire, frames)| process.prefetch(*wire, frames));
        frames.drain(..).for_each(|(wire, frames)| process.deliver(wire, frames, worker));
        pfc.drain(..).for_each(|(wire, frame)| process.deliver_pfc(wire, frame));
        self.next_due[number].1.store(NEVER, Ordering::Relaxed);
    }

    /// Hands over what a process has sent, and notes when it has its next event.
    fn flush_process(&self, process: &mut Process) {
        while let Some(out) = process.unflushed.pop() {
            let out = &mut process.transmitters[out as usize];
            let due = &self.next_due[out.remote_process as usize].1;
            let mut mail = lock(&self.mailboxes[out.remote_process as usize].0);
            if let Some(first) = out.outgoing.front() {
                due.fetch_min(first.arrival.as_ps(), Ordering::Relaxed);
                mail.frames.push((out.wire, std::mem::take(&mut out.outgoing)));
            }
            if let Some(first) = out.outgoing_pfc.front() {
                due.fetch_min(first.arrival.as_ps(), Ordering::Relaxed);
                let flights = std::iter::from_fn(|| out.outgoing_pfc.pop_front());
                mail.pfc.extend(flights.map(|flight| (out.wire, flight)));
            }
        }
        self.update_next_due(process);
        if !process.reports.is_empty() {
            lock(&self.reporting).push(process.number());
        }
    }

    /// Notes when a process has its next event, after all that changes it.
    fn update_next_due(&self, process: &Process) {
        let next = process.next().map_or(NEVER, |key| key.time.as_ps());
        self.next_due[process.number() as usize].0.store(next, Ordering::Relaxed);
    }

    /// Takes what hosts have reported, in the order in which it happened.
    pub fn take_reports(&self) -> Vec<HostReport> {
        let mut numbers = std::mem::take(&mut *lock(&self.reporting));
        if numbers.is_empty() {
            return Vec::new();
        }
        numbers.sort_unstable();
        let mut reports = Vec::new();
        for number in numbers {
            reports.append(&mut lock(&self.processes[number as usize]).reports);
        }
        // Stable: those of one process keep their order.
        reports.sort_by_key(|report| report.at);
        reports
    }

    /// Does something in a process now.
    fn with_process_at<R>(
        &self,
        number: u32,
        now: Time,
        act: impl FnOnce(&mut Process, &mut ThreadBuffers) -> R,
    ) -> R {
        let mut process = lock(&self.processes[number as usize]);
        process.set_now(now);
        let result = act(&mut process, &mut lock(&self.worker));
        process.collect_reports();
        self.flush_process(&mut process);
        result
    }

    /// Something changed at a host: it is asked for a frame.
    pub fn kick(&self, now: Time, host: HostIx) {
        let (number, nic) = self.hosts[host.0 as usize];
        self.with_process_at(number, now, |process, worker| process.kick(nic, worker));
    }

    /// A frame leaves a host that is not the host's own.
    pub fn inject(&self, now: Time, host: HostIx, frame: Vec<u8>) {
        let (number, nic) = self.hosts[host.0 as usize];
        self.with_process_at(number, now, |process, worker| process.inject(nic, frame, worker));
    }

    /// A link comes up: the transmitter of this direction is paused by nobody any more.
    pub fn unpause(&self, now: Time, direction: u32) {
        let ((number, out), _) = self.directions[direction as usize];
        self.with_process_at(number, now, |process, worker| process.unpause(out, worker));
    }

    /// Has a host do something now.
    pub fn command(&self, now: Time, host: HostIx, command: HostCommand) {
        let (number, nic) = self.hosts[host.0 as usize];
        self.with_process_at(number, now, |process, worker| process.execute_command(nic, command, worker));
    }

    /// Has a host do something at the event of this key, which is after all that has happened there.
    pub fn plan(&self, at: &EventKey, host: HostIx, command: HostCommand) {
        let (number, nic) = self.hosts[host.0 as usize];
        let mut process = lock(&self.processes[number as usize]);
        process.schedule_command(at, nic, command);
        self.flush_process(&mut process);
    }

    /// Looks at a host, or changes it.
    pub fn with_host<R>(&self, host: HostIx, with: impl FnOnce(&mut HostNode) -> R) -> R {
        let (number, nic) = self.hosts[host.0 as usize];
        with(&mut lock(&self.processes[number as usize]).hosts[nic as usize])
    }

    /// Looks at a switch.
    pub fn with_switch<R>(&self, ix: SwitchIx, with: impl FnOnce(&Switch) -> R) -> R {
        let (number, index) = self.switches[ix.0 as usize];
        with(&lock(&self.processes[number as usize]).switches[index as usize].switch)
    }

    /// Looks at the process of a host, and the host's index there.
    pub(crate) fn with_process_of<R>(&self, host: HostIx, with: impl FnOnce(&mut Process, u32) -> R) -> R {
        let (number, nic) = self.hosts[host.0 as usize];
        with(&mut lock(&self.processes[number as usize]), nic)
    }

    /// Keeps the paths of a sample of packets from now on.
    pub fn enable_path_trace(&mut self) {
        self.keeps_packets = true;
        self.view().processes_mut().for_each(|process| process.counters.packets = Some(Box::default()));
    }

    /// Keeps the sample of packets within its bound, if there is one.
    pub(crate) fn bound_path_trace(&self) {
        if self.keeps_packets {
            path_trace::downsample(
                self.view().processes_mut().filter_map(|process| process.counters.packets.as_deref_mut()),
            );
        }
    }

    /// Looks at everything. Nothing may happen meanwhile.
    pub fn view(&self) -> View<'_> {
        let mut view = self.view_without_mail();
        view.processes_mut().for_each(|process| self.drain_mailbox(process, &mut self.worker()));
        view.processes_mut().for_each(|process| self.flush_process(process));
        view
    }

    /// Looks at everything, but frames between processes are on their wires only once these run: samples are taken often,
    /// and handing the frames over would be this thread's work.
    pub fn view_without_mail(&self) -> View<'_> {
        View { network: self, processes: self.processes.iter().map(lock).collect() }
    }

    /// Lets the next event of all happen, if it is before `end`, and returns the switch where it was, if it was at one. For
    /// looking at the fabric after every event.
    pub fn step(&self, end: Time) -> Option<Option<SwitchIx>> {
        let end = EventKey::first_at(end);
        let next = |number| Some((self.next_event_of(number)?, number));
        let earliest = self.earliest();
        let due = (0..self.len() as u32).filter(|&number| self.due(number) == earliest);
        let (_, number) = due.filter_map(next).min()?;
        self.step_process(number, &end)?;
        Some(lock(&self.processes[number as usize]).switches.first().map(|chassis| chassis.ix))
    }
}

/// The whole fabric, at rest.
pub struct View<'n> {
    network: &'n Network,
    processes: Vec<MutexGuard<'n, Process>>,
}

impl View<'_> {
    /// A switch.
    pub fn switch(&self, ix: SwitchIx) -> &SwitchNode {
        let (number, index) = self.network.switches[ix.0 as usize];
        &self.processes[number as usize].switches[index as usize]
    }
    /// A switch, to be changed.
    pub fn switch_mut(&mut self, ix: SwitchIx) -> &mut SwitchNode {
        let (number, index) = self.network.switches[ix.0 as usize];
        &mut self.processes[number as usize].switches[index as usize]
    }
    /// All switches, in the order of the topology.
    pub fn switches(&self) -> impl Iterator<Item = &SwitchNode> {
        (0..self.network.switches.len() as u32).map(|ix| self.switch(SwitchIx(ix)))
    }
    /// A host.
    pub fn host(&self, ix: HostIx) -> &HostNode {
        let (number, index) = self.network.hosts[ix.0 as usize];
        &self.processes[number as usize].hosts[index as usize]
    }
    /// A host, to be changed.
    pub fn host_mut(&mut self, ix: HostIx) -> &mut HostNode {
        let (number, index) = self.network.hosts[ix.0 as usize];
        &mut self.processes[number as usize].hosts[index as usize]
    }
    /// The counts of a switch's process.
    pub fn tally_mut(&mut self, ix: SwitchIx) -> &mut ProcessCounters {
        &mut self.processes[self.network.switches[ix.0 as usize].0 as usize].counters
    }
    /// All hosts, in the order of the topology.
    pub fn hosts(&self) -> impl Iterator<Item = &HostNode> {
        (0..self.network.hosts.len() as u32).map(|ix| self.host(HostIx(ix)))
    }
    /// The end of a direction from which frames leave.
    pub fn transmitter(&self, direction: u32) -> &crate::link::Transmitter {
        let ((number, out), _) = self.network.directions[direction as usize];
        &self.processes[number as usize].transmitters[out as usize]
    }
    /// The end of a direction at which frames arrive.
    pub fn wire(&self, direction: u32) -> &crate::link::Wire {
        let (_, (number, wire)) = self.network.directions[direction as usize];
        &self.processes[number as usize].wires[wire as usize]
    }
    /// The same, to be changed.
    pub fn wire_mut(&mut self, direction: u32) -> &mut crate::link::Wire {
        let (_, (number, wire)) = self.network.directions[direction as usize];
        &mut self.processes[number as usize].wires[wire as usize]
    }
    /// The node to which a direction leads.
    pub fn far_end(&self, direction: u32) -> Node {
        let (_, (number, _)) = self.network.directions[direction as usize];
        let process = &self.processes[number as usize];
        match self.wire(direction).to {
            LocalNode::Switch(index) => Node::Switch(process.switches[index as usize].ix),
            LocalNode::Host(index) => Node::Host(process.hosts[index as usize].ix),
        }
    }
    /// Numbers of all directions.
    pub fn directions(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.network.directions.len() as u32
    }
    /// All processes.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().map(|process| &**process)
    }
    /// All processes, to be changed.
    pub fn processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
        self.processes.iter_mut().map(|process| &mut **process)
    }
    /// One packet through one switch is one hop.
    pub fn packet_hops(&self) -> u64 {
        self.processes().map(|process| process.counters.packet_hops).sum()
    }
    /// Hops of POLICY packets, if somebody counts them.
    pub fn policy_hops(&self) -> Option<u64> {
        self.processes().map(|process| process.counters.policy_hops).sum()
    }
    /// Pause frames sent, less resume frames: above 0 while a switch holds back a neighbour.
    pub fn pauses_held(&self) -> i64 {
        self.processes().map(|process| process.counters.pauses_outstanding).sum()
    }
    /// Returns the notes about packets of the sample, if they are kept.
    pub fn packets(&self) -> impl Iterator<Item = &PathTrace> {
        self.processes().filter_map(|process| process.counters.packets.as_deref())
    }
    /// Frames lost on wires and in switches that restarted, by reason.
    pub fn lost(&self) -> BTreeMap<&'static str, u64> {
        let mut lost = BTreeMap::new();
        for (reason, count) in self.processes().flat_map(|process| &process.counters.link_drops) {
            *lost.entry(*reason).or_default() += count;
        }
        lost
    }
    /// A hash over every arrival on every wire: two runs with the same value saw the same packets at the same times.
    pub fn fingerprint(&self) -> u64 {
        self.directions().fold(0, |hash, direction| hash_step(hash, self.wire(direction).fingerprint))
    }
}

/// Numbers the parts of a process.
#[derive(Clone, Default)]
struct IndexAllocator {
    switches: u32,
    hosts: u32,
    outs: u32,
    wires: u32,
}

impl IndexAllocator {
    fn next(of: u32, count: &mut u32) -> NodeIndex {
        *count += 1;
        (of, *count - 1)
    }
    fn switch(&mut self, of: u32) -> NodeIndex {
        IndexAllocator::next(of, &mut self.switches)
    }
    fn host(&mut self, of: u32) -> NodeIndex {
        IndexAllocator::next(of, &mut self.hosts)
    }
    fn out(&mut self, of: u32) -> NodeIndex {
        IndexAllocator::next(of, &mut self.outs)
    }
    fn wire(&mut self, of: u32) -> NodeIndex {
        IndexAllocator::next(of, &mut self.wires)
    }
}

/// Place of a node among all: switches first.
fn node_index(topology: &Topology, node: Node) -> usize {
    match node {
        Node::Switch(ix) => ix.0 as usize,
        Node::Host(ix) => topology.switches.len() + ix.0 as usize,
    }
}

/// The process of each node, and the number of processes: nodes on both ends of a short link share one.
fn assign_processes(topology: &Topology) -> (Vec<u32>, u32) {
    let count = topology.switches.len() + topology.hosts.len();
    let mut first: Vec<usize> = (0..count).collect();
    let root = |first: &[usize], mut node: usize| {
        while first[node] != node {
            node = first[node];
        }
        node
    };
    for link in topology.links.iter().filter(|link| link.delay < MIN_LOOKAHEAD) {
        let ends = [link.a.node, link.b.node].map(|node| root(&first, node_index(topology, node)));
        let min = ends[0].min(ends[1]);
        ends.into_iter().for_each(|end| first[end] = min);
    }
    let (mut groups, mut next) = (vec![0; count], 0);
    for node in 0..count {
        let root = root(&first, node);
        groups[node] = if root == node {
            next += 1;
            next - 1
        } else {
            groups[root]
        };
    }
    (groups, next)
}

/// Both directions of every link, with the ends that send and receive.
fn all_directions(topology: &Topology) -> Vec<(DirectionSpec, NodePort, NodePort)> {
    let mut all = Vec::with_capacity(topology.links.len() * 2);
    for (i, link) in topology.links.iter().enumerate() {
        let (a, b) = ((link.a.node, link.a.port), (link.b.node, link.b.port));
        for (number, from, to) in [(2 * i as u32, a, b), (2 * i as u32 + 1, b, a)] {
            all.push((DirectionSpec { number, rate: link.rate, delay: link.delay }, from, to));
        }
    }
    all
}

/// The direction that leaves `node` on its link `link`.
fn outgoing_direction(topology: &Topology, node: Node, link: usize) -> u32 {
    let from_a = topology.links[link].a.node == node;
    2 * link as u32 + u32::from(!from_a)
}
