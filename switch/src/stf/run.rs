//! Runs a test on a switch whose clock only the test advances.

mod externs;

use super::ast::{Command, EntryAction, Pattern, Statement};
use super::error::{Position, PositionedError};
use super::lexer::Name;
use super::names;
use super::outcome::{Failure, FailureKind, ReceivedFrame, TestOutcome};
use super::profiles;
use crate::drops::DropReason;
use crate::engine::{CloneSession, ReadyPorts, Replica, Switch, SwitchConfig};
use crate::packet::Packet;
use crate::pipeline::{EntryHandle, MeterRates, NoTrace, Pipeline, TableError};
use crate::program::{Program, TableId};
use crate::tm::QueueLimits;
use crate::trace::{Event, PacketTrace, SwitchTracer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_units::{Bytes, Time};

/// The expectations of one port, and the frames that it sent.
#[derive(Default)]
struct Port {
    /// Line number and frame of each expectation; `None`: any frame.
    expected: Vec<(usize, Option<Pattern>)>,
    frames: Vec<ReceivedFrame>,
    /// True if a command names the port: then every frame there must be expected.
    is_checked: bool,
}

/// A multicast node: copies with one replication id.
struct Node {
    instance: u16,
    ports: Vec<u16>,
}

/// The state of a test that is running.
pub(super) struct Runner<T> {
    program: Arc<Program>,
    switch: Switch,
    now: Time,
    ready: ReadyPorts,
    ports: BTreeMap<u16, Port>,
    /// True after `no_packet` without a port: every frame at any port must be expected.
    checks_all_ports: bool,
    /// Entries that the test added, for `remove all`.
    added_entries: Vec<(TableId, EntryHandle)>,
    /// Entries by the names that the test gave them.
    aliases: BTreeMap<String, (TableId, EntryHandle)>,
    nodes: Vec<Node>,
    /// Indices of the nodes of each multicast group.
    groups: BTreeMap<u16, Vec<usize>>,
    /// Number of packets sent to the switch.
    packets: usize,
    /// Line number of the last packet command.
    last_packet_line: usize,
    notes: Vec<String>,
    failures: Vec<Failure>,
    /// For each assertion of the program, how often it had failed when it was last checked.
    failed_assertions: Vec<u64>,
    tracer: T,
    traces: Vec<(usize, PacketTrace)>,
}

/// A tracer for tests, which may record nothing.
pub(super) trait TestTracer: SwitchTracer + Default {
    /// Returns the headers of the last frame with their lengths; empty without a trace.
    fn headers(&self) -> Vec<(String, usize)>;
    /// Returns the trace; empty if there is none.
    fn into_trace(self) -> PacketTrace;
}

impl TestTracer for NoTrace {
    fn headers(&self) -> Vec<(String, usize)> {
        Vec::new()
    }
    fn into_trace(self) -> PacketTrace {
        PacketTrace::new()
    }
}

impl TestTracer for PacketTrace {
    fn headers(&self) -> Vec<(String, usize)> {
        let last = self.events().iter().rev().take_while(|event| !matches!(event, Event::Dequeued { .. }));
        let mut headers: Vec<_> = last
            .filter_map(|event| match event {
                Event::Emitted { header, len } => Some((header.clone(), *len)),
                _ => None,
            })
            .collect();
        headers.reverse();
        headers
    }
    fn into_trace(self) -> PacketTrace {
        self
    }
}

/// The seed of the switch, fixed so that a test is deterministic.
const SEED: u64 = 1;

/// Returns the position of the member or group to which an error refers; for an action, that of the table.
fn position_of(action: &EntryAction, table: Position) -> Position {
    match action {
        EntryAction::Action(_) => table,
        EntryAction::Member(handle) | EntryAction::Group(handle) => handle.position,
    }
}

fn to_error(position: Position) -> impl Fn(TableError) -> PositionedError {
    move |error| (position, error.to_string())
}

/// Sets the rates of a direct meter: of the entry with handle `index`, or of all entries.
fn set_direct_meter_rates(
    pipeline: &mut Pipeline,
    table: TableId,
    meter: &Name,
    index: Option<usize>,
    rates: MeterRates,
) -> Result<(), PositionedError> {
    let entries = match index {
        Some(index) => vec![EntryHandle(index as u32)],
        None => pipeline.table_entries(table).into_iter().map(|entry| entry.handle).collect(),
    };
    for entry in entries {
        pipeline.direct_meter_set_rates(table, entry, Some(rates)).map_err(to_error(meter.position))?;
    }
    Ok(())
}

impl<T: TestTracer> Runner<T> {
    /// Creates a switch with all v1model ports except the drop port, without queue limits.
    pub(super) fn new(program: Arc<Program>) -> Result<Runner<T>, PositionedError> {
        let config = SwitchConfig::new(0..SwitchConfig::DROP_PORT);
        let switch = Switch::new(program.clone(), config, SEED)
            .map_err(|error| (Position { line: 1, column: 1 }, error.to_string()))?;
        Ok(Runner {
            program,
            switch,
            now: Time::ZERO,
            ready: ReadyPorts::default(),
            ports: BTreeMap::new(),
            checks_all_ports: false,
            added_entries: Vec::new(),
            aliases: BTreeMap::new(),
            nodes: Vec::new(),
            groups: BTreeMap::new(),
            packets: 0,
            last_packet_line: 0,
            notes: Vec::new(),
            failures: Vec::new(),
            failed_assertions: Vec::new(),
            tracer: T::default(),
            traces: Vec::new(),
        })
    }

    pub(super) fn execute(&mut self, statement: Statement) -> Result<(), PositionedError> {
        let position = statement.position;
        match statement.command {
            Command::Packet { port, bytes } => self.send(position, port, &bytes),
            Command::Expect { port, frame } => {
                let port = self.ports.entry(port).or_default();
                port.is_checked = true;
                port.expected.push((position.line, frame));
            }
            Command::NoPacket { port: Some(port) } => self.ports.entry(port).or_default().is_checked = true,
            Command::NoPacket { port: None } => self.checks_all_ports = true,
            Command::Wait => {}
            Command::Advance(span) => self.run_until(self.now.saturating_add(span)),
            command => return self.execute_control(position, command),
        }
        Ok(())
    }

    fn send(&mut self, position: Position, port: u16, bytes: &[u8]) {
        self.ports.entry(port).or_default().is_checked = true;
        self.store_trace();
        self.packets += 1;
        self.last_packet_line = position.line;
        let packet = Packet::from_bytes(bytes);
        self.switch.receive_traced(self.now, port, packet, &mut self.ready, &mut self.tracer);
        self.run_until(self.now);
    }

    /// Adds a failure for each assertion that has failed since the last call.
    fn check_assertions(&mut self) {
        let assertions = self.switch.pipeline().assertions();
        for (index, (text, failures)) in assertions.enumerate() {
            match self.failed_assertions.get_mut(index) {
                Some(seen) if *seen == failures => continue,
                Some(seen) => *seen = failures,
                None => self.failed_assertions.push(failures),
            }
            if failures > 0 {
                let kind = FailureKind::Assertion(text.to_owned());
                self.failures.push(Failure { line: self.last_packet_line, kind });
            }
        }
    }

    /// Stores the trace of the last packet.
    fn store_trace(&mut self) {
        let trace = std::mem::take(&mut self.tracer).into_trace();
        if !trace.events().is_empty() {
            self.traces.push((self.last_packet_line, trace));
        }
    }

    /// Transmits the packets that are due until `end`, each at its time, and advances the clock to `end`; with
    /// [`Time::MAX`] only to the last frame.
    fn run_until(&mut self, end: Time) {
        loop {
            self.transmit_due();
            let next = self.ready.0.iter().filter_map(|&port| self.switch.next_ready(port)).min();
            match next {
                Some(next) if next <= end && next < Time::MAX => self.now = self.now.max(next),
                _ => break,
            }
        }
        if end < Time::MAX {
            self.now = end;
        }
        self.check_assertions();
    }

    /// Transmits the packets that are due now, port by port in ascending order.
    fn transmit_due(&mut self) {
        let mut rate_limited = BTreeSet::new();
        while let Some(port) = self.ready.0.pop_first() {
            match self.switch.transmit_traced(self.now, port, &mut self.ready, &mut self.tracer) {
                Some(packet) => {
                    let (bytes, headers) = (packet.to_vec(), self.tracer.headers());
                    let frame = ReceivedFrame { bytes, packet_line: self.last_packet_line, headers };
                    self.ports.entry(port).or_default().frames.push(frame);
                    self.ready.0.insert(port);
                }
                // The port waits for its rate.
                None if self.switch.next_ready(port).is_some_and(|next| next > self.now) => {
                    rate_limited.insert(port);
                }
                None => {}
            }
        }
        self.ready.0.append(&mut rate_limited);
    }

    /// Sends all queued packets, then compares the frames of all ports with the expected ones.
    pub(super) fn finish(mut self) -> TestOutcome {
        self.run_until(Time::MAX);
        self.store_trace();
        let mut frames = 0;
        for (&number, port) in &mut self.ports {
            frames += port.frames.len();
            let is_checked = port.is_checked || self.checks_all_ports;
            let mut received = std::mem::take(&mut port.frames).into_iter();
            let expected = std::mem::take(&mut port.expected).into_iter();
            self.failures.extend(
                expected.filter_map(|(line, pattern)| compare(number, line, pattern, received.next())),
            );
            if is_checked {
                self.failures.extend(received.map(|received| Failure {
                    line: received.packet_line,
                    kind: FailureKind::Unexpected { port: number, received },
                }));
            }
        }
        let counters = self.switch.counters();
        for (reason, count) in counters.dropped.iter().filter(|(reason, _)| reason.is_stopped_program()) {
            if reason != DropReason::AssertionFailed {
                let what = format!("{} packets were dropped as {}", count.packets, reason.name());
                self.notes.push(format!("{what}: the program did not end"));
            }
        }
        TestOutcome {
            packets: self.packets,
            frames,
            notes: self.notes,
            failures: self.failures,
            traces: self.traces,
            counters,
        }
    }

    fn execute_control(&mut self, position: Position, command: Command) -> Result<(), PositionedError> {
        match command {
            Command::Add(entry) => {
                let (table, info) = names::table(&self.program, &entry.table)?;
                let key = names::key(info, &entry)?;
                let action = names::entry_action(&self.program, info, &entry.action)?;
                let priority = match entry.priority {
                    None if info.has_priorities() => {
                        let message =
                            format!("table {} needs a priority, a number after its name", info.name);
                        return Err((entry.table.position, message));
                    }
                    priority => priority.unwrap_or(0),
                };
                let handle = self.switch.pipeline_mut().table_add(table, &key, priority, &action);
                let handle = handle.map_err(to_error(position_of(&entry.action, entry.table.position)))?;
                self.added_entries.push((table, handle));
                if let Some(alias) = entry.alias {
                    self.aliases.insert(alias, (table, handle));
                }
                Ok(())
            }
            Command::SetDefault { table: name, action } => {
                let (table, info) = names::table(&self.program, &name)?;
                let call = names::entry_action(&self.program, info, &action)?;
                let position = position_of(&action, name.position);
                self.switch.pipeline_mut().table_set_default(table, &call).map_err(to_error(position))
            }
            Command::RemoveAll => {
                self.aliases.clear();
                for (table, entry) in std::mem::take(&mut self.added_entries) {
                    self.switch.pipeline_mut().table_delete(table, entry).map_err(to_error(position))?;
                }
                Ok(())
            }
            Command::QueueRate { rate, port, priority } => {
                for port in self.selected_ports(port) {
                    if !self.switch.set_rate(port, priority, rate) {
                        return Err((position, format!("port {port} has no such queue")));
                    }
                }
                Ok(())
            }
            Command::QueueDepth { packets, port } => {
                for port in self.selected_ports(port) {
                    let limits = QueueLimits { packets, bytes: Bytes::MAX };
                    if !self.switch.set_limits(port, None, limits) {
                        return Err((position, format!("there is no port {port}")));
                    }
                }
                Ok(())
            }
            command => {
                let Some(command) = self.execute_replication(position, command)? else { return Ok(()) };
                let pipeline = self.switch.pipeline_mut();
                let Some(command) = profiles::execute(&self.program, pipeline, command)? else {
                    return Ok(());
                };
                self.execute_extern(position, command)
            }
        }
    }

    fn selected_ports(&self, port: Option<u16>) -> Vec<u16> {
        match port {
            Some(port) => vec![port],
            None => self.switch.queues().ports().collect(),
        }
    }

    /// Runs commands for multicast groups and clone sessions. Returns the command if it is not one of these.
    fn execute_replication(
        &mut self,
        position: Position,
        command: Command,
    ) -> Result<Option<Command>, PositionedError> {
        let to_error = |error: crate::engine::ReplicationError| (position, error.to_string());
        match command {
            Command::MirrorAdd { session, port } => {
                let replicas = vec![Replica { port, instance: 0 }];
                let clones = CloneSession { replicas, ..CloneSession::default() };
                self.switch.set_clone_session(session, clones).map_err(to_error)?;
            }
            Command::MirrorAddGroup { session, group } => {
                let clones = CloneSession { group: Some(group), ..CloneSession::default() };
                self.switch.set_clone_session(session, clones).map_err(to_error)?;
            }
            Command::MirrorDelete { session } => {
                if !self.switch.delete_clone_session(session) {
                    return Err((position, format!("there is no clone session {session} to delete")));
                }
            }
            Command::MirrorRead { session } => {
                let found = self.switch.clone_sessions().get(&session);
                let text = found.map_or("none".to_owned(), |session| format!("{session:?}"));
                self.notes.push(format!("line {}: clone session {session} = {text}", position.line));
            }
            Command::GroupCreate { group } => {
                self.groups.insert(group, Vec::new());
                self.switch.set_multicast_group(group, Vec::new()).map_err(to_error)?;
            }
            Command::NodeCreate { instance, ports } => self.nodes.push(Node { instance, ports }),
            Command::NodeUpdate { node, ports } => {
                let Some(known) = self.nodes.get_mut(node) else { return Err(no_node(position, node)) };
                known.ports = ports;
                self.set_groups().map_err(to_error)?;
            }
            Command::NodeAssociate { group, node } => {
                if node >= self.nodes.len() {
                    return Err(no_node(position, node));
                }
                let Some(members) = self.groups.get_mut(&group) else {
                    let message =
                        format!("there is no multicast group {group}; create it with mc_mgrp_create {group}");
                    return Err((position, message));
                };
                members.push(node);
                self.set_groups().map_err(to_error)?;
            }
            command => return Ok(Some(command)),
        }
        Ok(None)
    }

    /// Sets the replicas of all groups from their nodes, the ports of each node in ascending order.
    fn set_groups(&mut self) -> Result<(), crate::engine::ReplicationError> {
        for (&group, members) in &self.groups {
            let replicas = members.iter().flat_map(|&node| {
                let Node { instance, ports } = &self.nodes[node];
                let ports: BTreeSet<u16> = ports.iter().copied().collect();
                ports.into_iter().map(|port| Replica { port, instance: *instance })
            });
            self.switch.set_multicast_group(group, replicas.collect())?;
        }
        Ok(())
    }
}

fn no_node(position: Position, node: usize) -> PositionedError {
    (position, format!("there is no node {node}; mc_node_create creates nodes, counted from 0"))
}

fn hex(value: &[u8]) -> String {
    let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// Compares the next frame of a port with the expectation; `None` if they match.
fn compare(
    port: u16,
    line: usize,
    pattern: Option<Pattern>,
    received: Option<ReceivedFrame>,
) -> Option<Failure> {
    let kind = match (pattern, received) {
        (expected, None) => FailureKind::Missing { port, expected },
        (Some(expected), Some(received)) if expected.first_difference(&received.bytes).is_some() => {
            FailureKind::Differs { port, expected, received }
        }
        _ => return None,
    };
    Some(Failure { line, kind })
}
