//! The fabric in virtual time: logical processes, and the mailboxes through which they exchange frames.
//!
//! A *logical process* simulates a switch or a host; nodes joined by a link with a very small delay share one process.
//! The *lookahead* is the least delay of all links between processes. A frame sent at time t reaches another process at
//! t + lookahead or later, so during a *window* of that length every process can run without the others: one after the
//! other, which keeps the tables of each in the cache, or on several threads (`worker_pool.rs`). A window has the
//! length of the lookahead, or twice that if neighbouring processes run alternately (`bipartition.rs`). At the end of
//! its window a process hands over the frames for other processes.
//!
//! The results depend neither on the order in which processes run nor on the number of threads: within a process,
//! events run in the order of their [`EventKey`]s, which depend on virtual time alone.

use crate::bipartition::bipartition;
use crate::events::EventKey;
use crate::link::{Batch, DirectionSpec, InFlight, LocalNode, PfcFrame, Transmitter, Wire};
use crate::locality_order::{depth_first_order, neighbours};
use crate::messages::{HostCommand, HostReport};
use crate::nodes::{HostNode, SwitchNode, UNCONNECTED};
use crate::observers::{Counters, Fingerprint, Observers, PathTrace, PfcLog, PolicyPackets};
use crate::process::Process;
use crate::thread_buffers::ThreadBuffers;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_controller::topology::{Endpoint, HostIx, Link, Node, SwitchIx, Topology};
use weir_host::Host;
use weir_switch::Switch;
use weir_switch::packet::Packet;
use weir_switch::prefetch::{prefetch, prefetch_all};
use weir_units::Time;

/// The nodes at both ends of a link with a smaller delay share a process. Weir's choice: about the transmission time
/// of one packet at 100 Gbit/s, because shorter windows contain too little work.
const MIN_LOOKAHEAD: Time = Time::from_ns(100);
/// Value of [`Network::next_due`] if no event is pending.
const NEVER: u64 = u64::MAX;

/// Location of a node, transmitter or wire: the number of its process, and the index in the table of that process.
#[derive(Clone, Copy)]
struct TableIndex {
    process: u32,
    index: u32,
}

/// Locations of the two ends of a link direction.
struct DirectionEnds {
    transmitter: TableIndex,
    wire: TableIndex,
}

/// A port of a node.
#[derive(Clone, Copy)]
struct NodePort {
    node: Node,
    port: u16,
}

/// When a process is due to run, in ps; [`NEVER`] if it is not.
struct NextDue {
    /// Time of its next event.
    event: AtomicU64,
    /// Earliest arrival in its mailbox.
    mail: AtomicU64,
}

impl NextDue {
    fn never() -> NextDue {
        NextDue { event: AtomicU64::new(NEVER), mail: AtomicU64::new(NEVER) }
    }
}

/// The contents of a process before it is created.
#[derive(Default)]
struct ProcessParts {
    switches: Vec<SwitchNode>,
    hosts: Vec<HostNode>,
    transmitters: Vec<Transmitter>,
    wires: Vec<Wire>,
}

/// A process with its observers.
struct ObservedProcess {
    process: Process,
    observers: Observers,
}

/// A fabric in virtual time.
pub struct Network {
    processes: Vec<Mutex<ObservedProcess>>,
    /// Frames for each process that are not yet on its wires.
    mailboxes: Vec<PaddedMailbox>,
    /// By process number.
    next_due: Vec<NextDue>,
    /// Processes with reports for [`Network::take_reports`]; may contain duplicates.
    reporting: Mutex<Vec<u32>>,
    /// Buffers of the coordinating thread, which runs processes in windows and single calls between them.
    buffers: Mutex<ThreadBuffers>,
    switches: Vec<TableIndex>,
    hosts: Vec<TableIndex>,
    /// By number of the link direction.
    directions: Vec<DirectionEnds>,
    /// Processes that have hosts, in ascending order.
    with_hosts: Vec<u32>,
    /// All processes by side of the [bipartition](crate::bipartition), neighbours near each other.
    sides: Vec<Vec<u32>>,
    /// `sides` with the processes that have hosts moved to the end.
    run_order: Vec<Vec<u32>>,
    lookahead: Time,
    /// Processes trace the paths of sampled packets.
    is_tracing_paths: bool,
}

/// A mailbox in its own cache line: several threads write to different mailboxes at the same time.
#[derive(Default)]
#[repr(align(64))]
struct PaddedMailbox(Mutex<Mailbox>);

/// Frames for a process, each with the index of its wire in [`Process::wires`].
#[derive(Default)]
struct Mailbox {
    frames: Vec<(u32, Batch<Box<Packet>>)>,
    pfc: Vec<(u32, InFlight<PfcFrame>)>,
}

/// Locks a mutex and ignores poisoning: a panic under a lock ends the whole run, so the state is not used again.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    /// Creates a fabric without pending events. Direction `2i` is link `i` from its end `a` to `b`, direction `2i +
    /// 1` from `b` to `a`.
    pub fn new(topology: &Topology, switches: Vec<Switch>, hosts: Vec<Host>) -> Network {
        let (groups, count) = assign_processes(topology);
        let process_of = |node: Node| groups[node_index(topology, node)];
        let mut allocators = vec![IndexAllocator::default(); count as usize];
        let switch_indices: Vec<TableIndex> = topology
            .switch_ixs()
            .map(|ix| allocators[process_of(Node::Switch(ix)) as usize].switch(process_of(Node::Switch(ix))))
            .collect();
        let host_indices: Vec<TableIndex> = topology
            .host_ixs()
            .map(|ix| allocators[process_of(Node::Host(ix)) as usize].host(process_of(Node::Host(ix))))
            .collect();
        let local_node = |node: Node| match node {
            Node::Switch(ix) => LocalNode::Switch(switch_indices[ix.0 as usize].index),
            Node::Host(ix) => LocalNode::Host(host_indices[ix.0 as usize].index),
        };
        let all_directions = all_directions(topology);
        let directions: Vec<DirectionEnds> = all_directions
            .iter()
            .map(|(_, from, to)| {
                let (from, to) = (process_of(from.node), process_of(to.node));
                let transmitter = allocators[from as usize].transmitter(from);
                DirectionEnds { transmitter, wire: allocators[to as usize].wire(to) }
            })
            .collect();

        let mut parts: Vec<ProcessParts> = (0..count).map(|_| ProcessParts::default()).collect();
        for (ix, (switch, index)) in topology.switch_ixs().zip(switches.into_iter().zip(&switch_indices)) {
            let (mut port_directions, mut transmitters) = (Vec::new(), Vec::new());
            for (port, link) in topology.switch(ix).ports() {
                let port = usize::from(port);
                port_directions.resize(port_directions.len().max(port + 1), UNCONNECTED);
                transmitters.resize(port_directions.len(), UNCONNECTED);
                port_directions[port] = outgoing_direction(topology, Node::Switch(ix), link.0 as usize);
                transmitters[port] = directions[port_directions[port] as usize].transmitter.index;
            }
            parts[index.process as usize].switches.push(SwitchNode {
                ix,
                switch,
                directions: port_directions,
                transmitters,
            });
        }
        for (ix, (host, index)) in topology.host_ixs().zip(hosts.into_iter().zip(&host_indices)) {
            let direction = outgoing_direction(topology, Node::Host(ix), topology.host(ix).link.0 as usize);
            let transmitter = directions[direction as usize].transmitter.index;
            parts[index.process as usize].hosts.push(HostNode::new(ix, host, transmitter));
        }
        for (direction, from, to) in &all_directions {
            let DirectionEnds { transmitter, wire } = directions[direction.number as usize];
            // The two directions of a link have adjacent numbers.
            let reverse = directions[direction.number as usize ^ 1].transmitter;
            let (from_node, to_node) = (local_node(from.node), local_node(to.node));
            parts[transmitter.process as usize].transmitters.push(direction.transmitter(
                from_node,
                from.port,
                wire.process,
                wire.index,
            ));
            parts[wire.process as usize].wires.push(direction.wire(to_node, to.port, reverse.index));
        }
        let lookahead =
            |link: &Link| (process_of(link.a.node) != process_of(link.b.node)).then_some(link.delay);
        let processes: Vec<Process> = (0..)
            .zip(parts)
            .map(|(number, ProcessParts { switches, hosts, transmitters, wires })| {
                Process::new(number, switches, hosts, transmitters, wires)
            })
            .collect();
        let with_hosts: Vec<u32> =
            processes.iter().filter(|process| !process.hosts.is_empty()).map(Process::number).collect();
        let links = topology.links.iter().map(|link| (process_of(link.a.node), process_of(link.b.node)));
        let neighbours = neighbours(processes.len(), links);
        let sides = bipartition(&depth_first_order(neighbours.clone(), &with_hosts), &neighbours);
        let mut run_order = sides.clone();
        run_order
            .iter_mut()
            .for_each(|side| side.sort_by_key(|number| with_hosts.binary_search(number).is_ok()));
        Network {
            sides,
            run_order,
            mailboxes: processes.iter().map(|_| PaddedMailbox::default()).collect(),
            next_due: processes.iter().map(|_| NextDue::never()).collect(),
            processes: processes
                .into_iter()
                .map(|process| {
                    let observers = Observers::new(process.wires.len());
                    Mutex::new(ObservedProcess { process, observers })
                })
                .collect(),
            reporting: Mutex::default(),
            buffers: Mutex::default(),
            switches: switch_indices,
            hosts: host_indices,
            directions,
            with_hosts,
            lookahead: topology.links.iter().filter_map(lookahead).min().unwrap_or(Time::MAX),
            is_tracing_paths: false,
        }
    }

    /// Creates a fabric without nodes, as a placeholder.
    pub(crate) fn empty() -> Network {
        Network {
            processes: Vec::new(),
            mailboxes: Vec::new(),
            next_due: Vec::new(),
            reporting: Mutex::default(),
            buffers: Mutex::default(),
            switches: Vec::new(),
            hosts: Vec::new(),
            directions: Vec::new(),
            with_hosts: Vec::new(),
            sides: Vec::new(),
            run_order: Vec::new(),
            lookahead: Time::MAX,
            is_tracing_paths: false,
        }
    }

    /// Returns the number of processes.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Returns the least delay of all links between processes; [`Time::MAX`] if there is only one process.
    pub fn lookahead(&self) -> Time {
        self.lookahead
    }

    /// Returns the processes that have hosts, in ascending order.
    pub(crate) fn with_hosts(&self) -> &[u32] {
        &self.with_hosts
    }

    /// Returns the processes without hosts, in ascending order.
    pub(crate) fn without_hosts(&self) -> impl Iterator<Item = u32> {
        (0..self.len() as u32).filter(|number| self.with_hosts.binary_search(number).is_err())
    }

    /// Returns all processes by side of the [bipartition](crate::bipartition), neighbours near each other.
    pub(crate) fn sides(&self) -> &[Vec<u32>] {
        &self.sides
    }

    /// Returns the processes of each side in the order in which a thread runs them: first switches, then hosts, so
    /// that the code of each kind stays in the instruction cache.
    pub(crate) fn run_order(&self) -> &[Vec<u32>] {
        &self.run_order
    }

    /// Returns the number of a process's events since the previous call.
    pub(crate) fn take_event_count(&self, number: u32) -> u64 {
        std::mem::take(&mut lock(&self.processes[number as usize]).process.events_since_rebalance)
    }

    /// Returns the number of the host's process.
    pub(crate) fn process_of(&self, host: HostIx) -> u32 {
        self.hosts[host.0 as usize].process
    }

    /// Returns the time of the process's next event, frames in its mailbox included; [`Time::MAX`] if none is pending.
    #[inline]
    pub(crate) fn due(&self, number: u32) -> Time {
        let NextDue { event, mail } = &self.next_due[number as usize];
        Time::from_ps(event.load(Ordering::Relaxed).min(mail.load(Ordering::Relaxed)))
    }

    /// Returns the least [`due`](Self::due) of all processes.
    pub(crate) fn earliest(&self) -> Time {
        (0..self.len() as u32).map(|number| self.due(number)).min().unwrap_or(Time::MAX)
    }

    /// Prefetches a process that will run soon: since its last run, other processes have replaced its data in the
    /// cache.
    #[inline]
    pub(crate) fn prefetch(&self, number: u32) {
        prefetch_all(&self.processes[number as usize]);
        prefetch(&self.mailboxes[number as usize]);
    }

    /// Runs all events of a process before `end`, hands over the frames that it sent, and returns the number of events.
    pub(crate) fn run_process(&self, number: u32, end: &EventKey, buffers: &mut ThreadBuffers) -> u64 {
        let ObservedProcess { process, observers } = &mut *lock(&self.processes[number as usize]);
        self.drain_mailbox(process, buffers);
        // Two instances of the event loop: in most runs and processes nothing but the basic observers is requested.
        let events = if observers.is_basic() {
            process.run(end, &mut observers.basic, buffers)
        } else {
            process.run(end, observers, buffers)
        };
        process.events_since_rebalance += events;
        self.flush_process(process);
        events
    }

    /// Runs the next event of a process if it is before `end`, and returns its key.
    pub(crate) fn step_process(&self, number: u32, end: &EventKey) -> Option<EventKey> {
        let ObservedProcess { process, observers } = &mut *lock(&self.processes[number as usize]);
        let buffers = &mut self.buffers();
        self.drain_mailbox(process, buffers);
        let key = process.step(end, observers, buffers);
        self.flush_process(process);
        key
    }

    /// Returns the key of a process's next event, frames in its mailbox included.
    pub(crate) fn next_event_of(&self, number: u32) -> Option<EventKey> {
        let process = &mut lock(&self.processes[number as usize]).process;
        self.drain_mailbox(process, &mut self.buffers());
        self.update_next_due(process);
        process.next_event().copied()
    }

    /// Locks the buffers of the coordinating thread.
    pub(crate) fn buffers(&self) -> MutexGuard<'_, ThreadBuffers> {
        lock(&self.buffers)
    }

    /// Puts the frames in the mailbox of a process on its wires.
    fn drain_mailbox(&self, process: &mut Process, buffers: &mut ThreadBuffers) {
        let number = process.number() as usize;
        // A relaxed load suffices. Frames of earlier windows are visible through the barrier between windows. A frame
        // sent in this window may be missed, but it does not arrive before the end of the window, so the next call is
        // early enough.
        if self.next_due[number].mail.load(Ordering::Relaxed) == NEVER {
            return;
        }
        let Mailbox { frames, pfc } = &mut *lock(&self.mailboxes[number].0);
        frames.iter().for_each(|(wire, frames)| process.prefetch(*wire, frames));
        frames.drain(..).for_each(|(wire, frames)| process.deliver(wire, frames, buffers));
        pfc.drain(..).for_each(|(wire, frame)| process.deliver_pfc(wire, frame));
        // Still under the mailbox lock, under which `flush_process` lowers the value: neither update can be lost.
        self.next_due[number].mail.store(NEVER, Ordering::Relaxed);
    }

    /// Puts the frames that a process has sent into the mailboxes of their receivers, and updates `next_due` and
    /// `reporting`.
    fn flush_process(&self, process: &mut Process) {
        while let Some(index) = process.unflushed.pop() {
            let transmitter = &mut process.transmitters[index as usize];
            let due = &self.next_due[transmitter.receiver_process as usize].mail;
            let mut mail = lock(&self.mailboxes[transmitter.receiver_process as usize].0);
            if let Some(first) = transmitter.outgoing.front() {
                // Several processes fill a mailbox, in any order; the minimum does not depend on it.
                due.fetch_min(first.arrival.as_ps(), Ordering::Relaxed);
                mail.frames.push((transmitter.wire, std::mem::take(&mut transmitter.outgoing)));
            }
            if let Some(first) = transmitter.outgoing_pfc.front() {
                due.fetch_min(first.arrival.as_ps(), Ordering::Relaxed);
                let flights = std::iter::from_fn(|| transmitter.outgoing_pfc.pop_front());
                mail.pfc.extend(flights.map(|flight| (transmitter.wire, flight)));
            }
        }
        self.update_next_due(process);
        if !process.reports.is_empty() {
            lock(&self.reporting).push(process.number());
        }
    }

    /// Publishes the time of the process's next event; must follow every change of its queue.
    fn update_next_due(&self, process: &Process) {
        let next = process.next_event().map_or(NEVER, |key| key.time.as_ps());
        self.next_due[process.number() as usize].event.store(next, Ordering::Relaxed);
    }

    /// Removes and returns the reports of all hosts, by time; at the same time by process number.
    pub fn take_reports(&self) -> Vec<HostReport> {
        let mut numbers = std::mem::take(&mut *lock(&self.reporting));
        if numbers.is_empty() {
            return Vec::new();
        }
        numbers.sort_unstable();
        let mut reports = Vec::new();
        for number in numbers {
            reports.append(&mut lock(&self.processes[number as usize]).process.reports);
        }
        // Stable: the reports of one process keep their order.
        reports.sort_by_key(|report| report.at);
        reports
    }

    /// Calls `f` on process `number` with its clock at `now`, then collects reports and hands over the frames that the
    /// process sent. No thread may run this process in the current window.
    fn with_process_at<R>(
        &self,
        number: u32,
        now: Time,
        f: impl FnOnce(&mut Process, &mut Observers, &mut ThreadBuffers) -> R,
    ) -> R {
        let ObservedProcess { process, observers } = &mut *lock(&self.processes[number as usize]);
        process.set_now(now);
        let result = f(process, observers, &mut lock(&self.buffers));
        process.collect_reports(observers);
        self.flush_process(process);
        result
    }

    /// Polls a host for frames and its next deadline, after a change from outside.
    pub fn kick(&self, now: Time, host: HostIx) {
        let TableIndex { process: number, index } = self.hosts[host.0 as usize];
        self.with_process_at(number, now, |process, observers, buffers| {
            process.kick(index, observers, buffers)
        });
    }

    /// Sends a frame of an attacker from the host's NIC.
    pub fn inject(&self, now: Time, host: HostIx, frame: Vec<u8>) {
        let TableIndex { process: number, index } = self.hosts[host.0 as usize];
        self.with_process_at(number, now, |process, observers, buffers| {
            process.hosts[index as usize].inject(frame);
            process.kick(index, observers, buffers);
        });
    }

    /// Clears all PFC pauses of the direction's transmitter, after its link came up or the switch at the other end
    /// restarted.
    pub fn unpause(&self, now: Time, direction: u32) {
        let TableIndex { process: number, index } = self.directions[direction as usize].transmitter;
        self.with_process_at(number, now, |process, observers, buffers| {
            process.unpause(index, observers, buffers)
        });
    }

    /// Executes a command at a host now.
    pub fn execute_command(&self, now: Time, host: HostIx, command: HostCommand) {
        let TableIndex { process: number, index } = self.hosts[host.0 as usize];
        self.with_process_at(number, now, |process, observers, buffers| {
            process.execute_command(index, command, observers, buffers)
        });
    }

    /// Schedules a command at a host for the event `at`, which must be later than every event that the host's process
    /// has run.
    pub fn schedule_command(&self, at: &EventKey, host: HostIx, command: HostCommand) {
        let TableIndex { process: number, index } = self.hosts[host.0 as usize];
        let process = &mut lock(&self.processes[number as usize]).process;
        process.schedule_command(at, index, command);
        self.flush_process(process);
    }

    /// Calls `f` on a host, with its process locked.
    pub fn with_host<R>(&self, host: HostIx, f: impl FnOnce(&mut HostNode) -> R) -> R {
        let TableIndex { process: number, index } = self.hosts[host.0 as usize];
        f(&mut lock(&self.processes[number as usize]).process.hosts[index as usize])
    }

    /// Calls `f` on a switch, with its process locked.
    pub fn with_switch<R>(&self, ix: SwitchIx, f: impl FnOnce(&Switch) -> R) -> R {
        let TableIndex { process: number, index } = self.switches[ix.0 as usize];
        f(&lock(&self.processes[number as usize]).process.switches[index as usize].switch)
    }

    /// Calls `f` on the observers of a host's process, with the process locked.
    pub(crate) fn with_observers_of<R>(&self, host: HostIx, f: impl FnOnce(&mut Observers) -> R) -> R {
        f(&mut lock(&self.processes[self.process_of(host) as usize]).observers)
    }

    /// Starts to trace the paths of sampled packets.
    pub fn enable_path_trace(&mut self) {
        self.is_tracing_paths = true;
        self.view().observers_mut().for_each(|observers| observers.path_trace = Some(Box::default()));
    }

    /// Halves the sample of traced packets until it is within its bound. No effect if tracing is off.
    pub(crate) fn bound_path_trace(&self) {
        if self.is_tracing_paths {
            PathTrace::bound(
                self.view().observers_mut().filter_map(|observers| observers.path_trace.as_deref_mut()),
            );
        }
    }

    /// Locks all processes and delivers the frames in their mailboxes, so that wires are complete. Only between
    /// windows.
    pub fn view(&self) -> View<'_> {
        let mut view = self.view_without_mail();
        view.processes_mut().for_each(|process| self.drain_mailbox(process, &mut self.buffers()));
        view.processes_mut().for_each(|process| self.flush_process(process));
        view
    }

    /// Locks all processes, but leaves frames in mailboxes, so wires may lack the frames sent in the last window.
    /// Queues and counters are complete. Used for samples, which are frequent: delivering the mail would be serial
    /// work of this thread.
    pub fn view_without_mail(&self) -> View<'_> {
        View { network: self, processes: self.processes.iter().map(lock).collect() }
    }

    /// Runs the earliest event of the whole fabric if it is before `end`. The outer `None` means that there was none;
    /// the inner value is the first switch of the process, `None` in a process of hosts. For tests that inspect the
    /// fabric after every event.
    pub fn step(&self, end: Time) -> Option<Option<SwitchIx>> {
        let end = EventKey::first_at(end);
        let next = |number| Some((self.next_event_of(number)?, number));
        let earliest = self.earliest();
        let due = (0..self.len() as u32).filter(|&number| self.due(number) == earliest);
        let (_, number) = due.filter_map(next).min()?;
        self.step_process(number, &end)?;
        Some(lock(&self.processes[number as usize]).process.switches.first().map(|node| node.ix))
    }
}

/// All processes of a fabric, locked between two windows.
pub struct View<'n> {
    network: &'n Network,
    processes: Vec<MutexGuard<'n, ObservedProcess>>,
}

impl View<'_> {
    pub fn switch(&self, ix: SwitchIx) -> &SwitchNode {
        let TableIndex { process, index } = self.network.switches[ix.0 as usize];
        &self.processes[process as usize].process.switches[index as usize]
    }
    pub fn switch_mut(&mut self, ix: SwitchIx) -> &mut SwitchNode {
        let TableIndex { process, index } = self.network.switches[ix.0 as usize];
        &mut self.processes[process as usize].process.switches[index as usize]
    }
    /// Returns all switches in topology order.
    pub fn switches(&self) -> impl Iterator<Item = &SwitchNode> {
        (0..self.network.switches.len() as u32).map(|ix| self.switch(SwitchIx(ix)))
    }
    pub fn host(&self, ix: HostIx) -> &HostNode {
        let TableIndex { process, index } = self.network.hosts[ix.0 as usize];
        &self.processes[process as usize].process.hosts[index as usize]
    }
    pub fn host_mut(&mut self, ix: HostIx) -> &mut HostNode {
        let TableIndex { process, index } = self.network.hosts[ix.0 as usize];
        &mut self.processes[process as usize].process.hosts[index as usize]
    }
    /// Returns the observers of the process that the switch belongs to.
    pub(crate) fn observers_of_switch(&mut self, ix: SwitchIx) -> &mut Observers {
        &mut self.processes[self.network.switches[ix.0 as usize].process as usize].observers
    }
    /// Returns all hosts in topology order.
    pub fn hosts(&self) -> impl Iterator<Item = &HostNode> {
        (0..self.network.hosts.len() as u32).map(|ix| self.host(HostIx(ix)))
    }
    pub fn transmitter(&self, direction: u32) -> &Transmitter {
        let TableIndex { process, index } = self.network.directions[direction as usize].transmitter;
        &self.processes[process as usize].process.transmitters[index as usize]
    }
    pub fn wire(&self, direction: u32) -> &Wire {
        let TableIndex { process, index } = self.network.directions[direction as usize].wire;
        &self.processes[process as usize].process.wires[index as usize]
    }
    pub fn wire_mut(&mut self, direction: u32) -> &mut Wire {
        let TableIndex { process, index } = self.network.directions[direction as usize].wire;
        &mut self.processes[process as usize].process.wires[index as usize]
    }
    /// Returns the node at which the direction ends.
    pub fn far_end(&self, direction: u32) -> Node {
        let number = self.network.directions[direction as usize].wire.process;
        let process = &self.processes[number as usize].process;
        match self.wire(direction).to {
            LocalNode::Switch(index) => Node::Switch(process.switches[index as usize].ix),
            LocalNode::Host(index) => Node::Host(process.hosts[index as usize].ix),
        }
    }
    /// Returns the numbers of all link directions.
    pub fn directions(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.network.directions.len() as u32
    }
    fn processes_mut(&mut self) -> impl Iterator<Item = &mut Process> {
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
            let TableIndex { process, index } = self.network.directions[direction as usize].wire;
            self.processes[process as usize].observers.basic.fingerprint.wire(index)
        };
        Fingerprint::merge(self.directions().map(wire))
    }
}

/// Allocates the indices of nodes, transmitters and wires within one process.
#[derive(Clone, Default)]
struct IndexAllocator {
    switches: u32,
    hosts: u32,
    transmitters: u32,
    wires: u32,
}

impl IndexAllocator {
    fn next(process: u32, count: &mut u32) -> TableIndex {
        *count += 1;
        TableIndex { process, index: *count - 1 }
    }
    fn switch(&mut self, process: u32) -> TableIndex {
        IndexAllocator::next(process, &mut self.switches)
    }
    fn host(&mut self, process: u32) -> TableIndex {
        IndexAllocator::next(process, &mut self.hosts)
    }
    fn transmitter(&mut self, process: u32) -> TableIndex {
        IndexAllocator::next(process, &mut self.transmitters)
    }
    fn wire(&mut self, process: u32) -> TableIndex {
        IndexAllocator::next(process, &mut self.wires)
    }
}

/// Returns the index of a node among all nodes, switches first.
fn node_index(topology: &Topology, node: Node) -> usize {
    match node {
        Node::Switch(ix) => ix.0 as usize,
        Node::Host(ix) => topology.switches.len() + ix.0 as usize,
    }
}

/// Returns the process of each node, by `node_index`, and the number of processes. Both ends of a link with a delay
/// below [`MIN_LOOKAHEAD`] are in the same process, since such a link would make every window as short as its delay.
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
        // Union-find with the least index as root, which numbers the processes in topology order.
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

/// Returns both directions of every link, each with its sending and its receiving port, in the order of their numbers.
fn all_directions(topology: &Topology) -> Vec<(DirectionSpec, NodePort, NodePort)> {
    let mut all = Vec::with_capacity(topology.links.len() * 2);
    for (i, link) in topology.links.iter().enumerate() {
        let node_port = |end: Endpoint| NodePort { node: end.node, port: end.port };
        let (a, b) = (node_port(link.a), node_port(link.b));
        for (number, from, to) in [(2 * i as u32, a, b), (2 * i as u32 + 1, b, a)] {
            all.push((DirectionSpec { number, rate: link.rate, delay: link.delay }, from, to));
        }
    }
    all
}

/// Returns the number of the direction in which `node` sends on `link`.
fn outgoing_direction(topology: &Topology, node: Node, link: usize) -> u32 {
    let from_a = topology.links[link].a.node == node;
    2 * link as u32 + u32::from(!from_a)
}
