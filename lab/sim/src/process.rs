//! A logical process of the parallel simulation: some nodes of the fabric, the ends of their links, and their pending
//! events. A *window* is a span of virtual time so short that no event of a process in it can affect another process in
//! the same window (see [`crate::network`]), so processes can run a window in parallel.
//!
//! A process drives the same [`Host`] and [`Switch`] objects as the raw-socket drivers. It computes when and where a
//! frame arrives; it does not interpret frames.
//!
//! Two kinds of event carry a packet over a hop: [`Event::Arrival`] at the far end of a wire, and [`Event::TxDone`]
//! when a transmitter may send the next frame. A port with an empty queue and an idle transmitter has no pending
//! event.

use crate::doubling_histogram::DoublingHistogram;
use crate::events::{Event, EventKey, EventQueue};
use crate::fault::LinkDrop;
use crate::link::{Batch, InFlight, LocalNode, PfcFrame, Transmitter, Wire};
use crate::messages::{HostCommand, HostReport, HostReportKind};
use crate::path_trace::{PathTrace, Serialisation};
use crate::rx_stats::RxStats;
use crate::thread_buffers::{SwitchEvents, ThreadBuffers};
use std::collections::{BTreeMap, VecDeque};
use weir_controller::topology::{HostIx, SwitchIx};
use weir_experiment::slowdown::FirstSlowdown;
use weir_host::ring::Ring;
use weir_host::wire::{ETHERNET_LEN, POLICY_GROUP};
use weir_host::{FlowId, Host, Transmit};
use weir_switch::engine::Switch;
use weir_switch::packet::Packet;
use weir_switch::prefetch::{prefetch, prefetch_all};
use weir_units::Time;

/// Number of priority classes that PFC distinguishes.
const PFC_CLASSES: u8 = 8;
/// Stands for a direction or transmitter index at a port without a link.
pub const UNCONNECTED: u32 = u32::MAX;

/// A host and the state of its NIC.
pub struct HostNode {
    pub ix: HostIx,
    /// Transport and congestion control.
    pub host: Host,
    /// Index into [`Process::transmitters`].
    transmitter: u32,
    /// Priority classes that the switch has paused, one bit each.
    paused: u8,
    /// Time of the pending [`Event::HostTimer`]. Events at other times are stale and ignored.
    timer_at: Option<Time>,
    /// Frames of an attacker at this host. They are sent before the host's own frames.
    injected: Ring<Vec<u8>>,
    /// The last `MAX_OVERHEARD` POLICY frames received, newest first; `None` if the experiment has no attacker here.
    pub overheard: Option<VecDeque<Vec<u8>>>,
}

impl HostNode {
    /// `transmitter` is the host's index into [`Process::transmitters`].
    pub fn new(ix: HostIx, host: Host, transmitter: u32) -> HostNode {
        HostNode { ix, host, transmitter, paused: 0, timer_at: None, injected: Ring::new(), overheard: None }
    }
}

/// Number of POLICY frames that an attacker keeps for replay.
const MAX_OVERHEARD: usize = 64;

/// A switch and the wiring of its ports.
pub struct SwitchNode {
    pub ix: SwitchIx,
    /// Pipeline and traffic manager.
    pub switch: Switch,
    /// By port number, the number of the outgoing link direction, or [`UNCONNECTED`].
    pub directions: Vec<u32>,
    /// By port number, the index into [`Process::transmitters`], or [`UNCONNECTED`].
    pub(crate) transmitters: Vec<u32>,
}

/// Watches the sending rate of the experiment's first flow.
pub struct SlowdownProbe {
    /// The flow's sender: an index into [`Process::hosts`].
    pub host_index: u32,
    flow: Option<FlowId>,
    /// Detects when the flow reduces its rate.
    pub slowdown: FirstSlowdown,
}

/// A PFC frame that a switch sent.
pub struct PfcLogEntry {
    pub time: Time,
    pub switch: SwitchIx,
    pub port: u16,
    pub frame: PfcFrame,
}

/// Counters of a process.
pub struct ProcessCounters {
    /// Packets that arrived at a switch, including those that the switch dropped.
    pub packet_hops: u64,
    /// Every PFC frame that a switch sent, by time.
    pub pfc_log: Vec<PfcLogEntry>,
    /// PFC pause frames sent minus resume frames sent.
    pub pauses_outstanding: i64,
    /// Frames dropped on wires and in restarted switches, by reason.
    pub link_drops: BTreeMap<&'static str, u64>,
    /// POLICY packets sent by hosts since the last policy was set.
    pub policy_sent: DoublingHistogram,
    /// POLICY packets that arrived at a switch; `None` if the experiment has no `policy:`.
    pub policy_hops: Option<u64>,
    /// Statistics of received data packets; `None` without `observe.packets`.
    pub rx_stats: Option<Box<RxStats>>,
    /// Trace of sampled packets; `None` if not requested.
    pub path_trace: Option<Box<PathTrace>>,
}

/// A logical process; see the [module](self). The alignment keeps two processes, which two threads may run at the same
/// time, from sharing a cache line or a pair of lines that the CPU prefetches together.
#[repr(align(128))]
pub struct Process {
    number: u32,
    /// Events since the last rebalancing, the load metric of the worker pool; reset by `Network::take_event_count`.
    pub(crate) events_since_rebalance: u64,
    queue: EventQueue,
    /// The time of the current event.
    now: Time,
    /// In topology order.
    pub switches: Vec<SwitchNode>,
    /// In topology order.
    pub hosts: Vec<HostNode>,
    /// In ascending order of [`Transmitter::direction`].
    pub transmitters: Vec<Transmitter>,
    /// In ascending order of [`Wire::direction`].
    pub wires: Vec<Wire>,
    /// Transmitters with frames that are not yet handed over to another process.
    pub(crate) unflushed: Vec<u32>,
    /// Host index and command of each pending [`Event::Command`], in order.
    commands: VecDeque<(u32, HostCommand)>,
    /// Open flows that will be stopped: index in the run's flow records, and the host's id of the flow.
    stoppable: Vec<(u32, FlowId)>,
    /// Hosts called since the last [`Process::collect_reports`]; may contain duplicates.
    hosts_to_poll: Vec<u32>,
    /// Reports of hosts since the last `Network::take_reports`, by time.
    pub reports: Vec<HostReport>,
    /// Set if the sender of the experiment's first flow is in this process.
    pub slowdown_probe: Option<SlowdownProbe>,
    pub counters: ProcessCounters,
}

impl Process {
    pub fn new(
        number: u32,
        switches: Vec<SwitchNode>,
        hosts: Vec<HostNode>,
        transmitters: Vec<Transmitter>,
        wires: Vec<Wire>,
    ) -> Process {
        Process {
            number,
            events_since_rebalance: 0,
            queue: EventQueue::default(),
            now: Time::ZERO,
            switches,
            hosts,
            transmitters,
            wires,
            unflushed: Vec::new(),
            commands: VecDeque::new(),
            stoppable: Vec::new(),
            hosts_to_poll: Vec::new(),
            reports: Vec::new(),
            slowdown_probe: None,
            counters: ProcessCounters {
                packet_hops: 0,
                pfc_log: Vec::new(),
                pauses_outstanding: 0,
                link_drops: BTreeMap::new(),
                policy_sent: DoublingHistogram::new(Time::ZERO, Time::from_us(1)),
                policy_hops: None,
                rx_stats: None,
                path_trace: None,
            },
        }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    #[inline]
    pub fn next_event(&self) -> Option<&EventKey> {
        self.queue.peek()
    }

    /// Dispatches all events ordered before `end`, including those scheduled in the meantime, and returns their number.
    pub fn run(&mut self, end: &EventKey, buffers: &mut ThreadBuffers) -> u64 {
        let mut events = 0;
        self.swap_scratch(buffers);
        while let Some(key) = self.queue.pop_before(end) {
            self.dispatch(key, buffers);
            events += 1;
        }
        self.swap_scratch(buffers);
        events
    }

    /// Lends the thread's pipeline scratch memory to the switch of this process, or takes it back. In a process of
    /// several switches each one keeps its own.
    #[inline]
    fn swap_scratch(&mut self, buffers: &mut ThreadBuffers) {
        if let [node] = self.switches.as_mut_slice() {
            node.switch.swap_scratch(&mut buffers.scratch);
        }
    }

    /// Dispatches the next event if it is ordered before `end`, and returns its key.
    pub fn step(&mut self, end: &EventKey, buffers: &mut ThreadBuffers) -> Option<EventKey> {
        let key = self.queue.pop_before(end)?;
        self.dispatch(key, buffers);
        Some(key)
    }

    #[inline]
    fn dispatch(&mut self, key: EventKey, buffers: &mut ThreadBuffers) {
        self.set_now(key.time);
        match key.event() {
            Event::Arrival(wire) => self.on_arrival(wire, buffers),
            Event::TxDone(transmitter) => {
                self.transmitters[transmitter as usize].tx_done_scheduled = false;
                if let Some(idle_host) = self.transmit(transmitter, buffers) {
                    self.schedule_host_timer(idle_host);
                }
            }
            Event::PfcArrival(wire) => self.on_pfc_arrival(wire, buffers),
            Event::DelayedArrival(wire) => self.on_delayed_arrival(wire, buffers),
            Event::HostTimer(host_index) => self.on_host_timer(host_index, buffers),
            Event::Command => {
                if let Some((host_index, command)) = self.commands.pop_front() {
                    self.execute_command(host_index, command, buffers);
                }
            }
            // Only the queue of the run contains these.
            Event::FlowSchedule | Event::Sample | Event::ScheduledChange => {}
        }
        if !self.hosts_to_poll.is_empty() {
            self.collect_reports();
        }
    }

    /// Sets the process's clock. Called before every dispatch, and before calls from outside
    /// (`Network::with_process_at`).
    #[inline]
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    #[inline(always)]
    fn on_arrival(&mut self, index: u32, buffers: &mut ThreadBuffers) {
        let wire = &mut self.wires[index as usize];
        let event = Event::Arrival(index);
        let Some(packet) =
            wire.frames.pop_arrived(self.now, event, &mut self.queue, &mut buffers.spare_batches)
        else {
            return;
        };
        wire.frames.prefetch();
        match wire.impairments {
            None => self.receive_frame(index, packet, buffers),
            Some(_) => self.on_impaired_arrival(index, packet, buffers),
        }
    }

    #[cold]
    fn on_impaired_arrival(&mut self, index: u32, mut packet: Box<Packet>, buffers: &mut ThreadBuffers) {
        let now = self.now;
        let wire = &mut self.wires[index as usize];
        if let Some(reason) = wire.drop_on_arrival(now) {
            return self.drop_frame(reason, packet, buffers);
        }
        let Some(impairments) = &mut wire.impairments else { return };
        impairments.corrupt(&mut packet);
        let copy = impairments.duplicate(&packet, &mut buffers.pool);
        let arrival = impairments.arrival_time(now);
        for packet in [Some(packet), copy].into_iter().flatten() {
            match &mut self.wires[index as usize].impairments {
                Some(impairments) if arrival > now => {
                    impairments.delay_until(arrival, now, packet);
                    self.queue.push(arrival, Event::DelayedArrival(index), now);
                }
                _ => self.receive_frame_outlined(index, packet, buffers),
            }
        }
    }

    fn on_delayed_arrival(&mut self, index: u32, buffers: &mut ThreadBuffers) {
        match self.wires[index as usize].pop_delayed() {
            Some((packet, None)) => self.receive_frame_outlined(index, packet, buffers),
            Some((packet, Some(reason))) => self.drop_frame(reason, packet, buffers),
            None => {}
        }
    }

    fn drop_frame(&mut self, reason: LinkDrop, packet: Box<Packet>, buffers: &mut ThreadBuffers) {
        *self.counters.link_drops.entry(reason.name()).or_default() += 1;
        buffers.pool.put(packet);
    }

    /// Calls [`Process::receive_frame`] out of line: that one is inlined into the path without faults, and a second
    /// inlined copy would only make this code larger.
    #[inline(never)]
    fn receive_frame_outlined(&mut self, index: u32, packet: Box<Packet>, buffers: &mut ThreadBuffers) {
        self.receive_frame(index, packet, buffers);
    }

    /// Passes an arrived frame to its switch or host, and transmits what becomes ready.
    #[inline(always)]
    fn receive_frame(&mut self, index: u32, packet: Box<Packet>, buffers: &mut ThreadBuffers) {
        let now = self.now;
        let wire = &mut self.wires[index as usize];
        wire.record_arrival(now, packet.len());
        let port = wire.to_port;
        match wire.to {
            LocalNode::Switch(switch) => {
                self.counters.packet_hops += 1;
                if let Some(hops) = &mut self.counters.policy_hops {
                    *hops += u64::from(is_policy(packet.bytes()));
                }
                let node = &mut self.switches[switch as usize];
                if let Some(trace) = &mut self.counters.path_trace {
                    trace.on_switch_rx(now, node.ix, packet.bytes(), packet.virtual_len());
                }
                node.switch.receive(now, port, packet, &mut buffers.outbox);
                self.flush_outbox(switch, buffers);
            }
            LocalNode::Host(host) => {
                let node = &mut self.hosts[host as usize];
                if let Some(frames) = &mut node.overheard
                    && is_policy(packet.bytes())
                {
                    frames.truncate(MAX_OVERHEARD - 1);
                    frames.push_front(packet.bytes().to_vec());
                }
                if let Some(rx_stats) = &mut self.counters.rx_stats {
                    rx_stats.on_frame(packet.bytes(), packet.virtual_len());
                }
                if let Some(trace) = &mut self.counters.path_trace {
                    trace.on_host_rx(now, packet.bytes(), packet.virtual_len());
                }
                node.host.receive(now, packet.bytes(), packet.virtual_len());
                buffers.pool.put(packet);
                self.kick(host, buffers);
            }
        }
    }

    /// Processes the outbox that the last call into the switch filled: recycles dropped packets, sends PFC frames,
    /// and starts transmission on each port that became ready. Recursive through `transmit`; ends when the outbox is
    /// empty.
    #[inline]
    fn flush_outbox(&mut self, switch: u32, buffers: &mut ThreadBuffers) {
        let SwitchEvents { pfc, dropped, .. } = &buffers.outbox;
        if !pfc.is_empty() || !dropped.is_empty() {
            self.flush_pfc_and_drops(switch, buffers);
        }
        while let Some(port) = buffers.outbox.ready.pop() {
            if let Some(index) = self.transmitter_of(switch, port) {
                self.transmit(index, buffers);
            }
        }
    }

    /// Recycles the dropped packets in the outbox and sends its PFC frames.
    #[cold]
    fn flush_pfc_and_drops(&mut self, switch: u32, buffers: &mut ThreadBuffers) {
        while let Some(packet) = buffers.outbox.dropped.pop() {
            buffers.pool.put(packet);
        }
        while let Some((port, frame)) = buffers.outbox.pfc.pop() {
            let ix = self.switches[switch as usize].ix;
            self.counters.pfc_log.push(PfcLogEntry { time: self.now, switch: ix, port, frame });
            self.counters.pauses_outstanding += if frame.is_pause { 1 } else { -1 };
            let Some(index) = self.transmitter_of(switch, port) else { continue };
            let transmitter = &mut self.transmitters[index as usize];
            let was_flushed = transmitter.is_flushed();
            transmitter.send_pfc(self.now, frame);
            self.on_sent(index, was_flushed);
        }
    }

    fn transmitter_of(&self, switch: u32, port: u16) -> Option<u32> {
        let transmitters = &self.switches[switch as usize].transmitters;
        transmitters.get(usize::from(port)).copied().filter(|&transmitter| transmitter != UNCONNECTED)
    }

    /// If the transmitter is idle, starts the next frame of its switch port or host; if it is busy, makes sure that a
    /// `TxDone` event is pending. Returns the host's index if the host had nothing to send, so that the caller can
    /// arm its timer.
    pub(crate) fn transmit(&mut self, index: u32, buffers: &mut ThreadBuffers) -> Option<u32> {
        let now = self.now;
        let transmitter = &mut self.transmitters[index as usize];
        if let Some(idle_at) = transmitter.busy_until(now) {
            if !transmitter.tx_done_scheduled {
                transmitter.tx_done_scheduled = true;
                self.queue.push(idle_at, Event::TxDone(index), self.now);
            }
            return None;
        }
        match transmitter.from {
            LocalNode::Switch(switch) => {
                let port = transmitter.from_port;
                let node = &mut self.switches[switch as usize];
                let packet = node.switch.transmit(now, port, &mut buffers.outbox);
                let has_more = node.switch.can_transmit(port);
                if let Some(packet) = packet {
                    self.send(index, packet, has_more, buffers);
                }
                self.flush_outbox(switch, buffers);
                None
            }
            LocalNode::Host(host) => {
                let node = &mut self.hosts[host as usize];
                let mut packet = buffers.pool.get();
                if let Some(frame) = node.injected.pop_front() {
                    packet.set_bytes(&frame);
                } else {
                    match node.host.transmit(now, node.paused, &mut buffers.head) {
                        Transmit::Frame { head_len, payload, class, .. } => {
                            packet.set_bytes(buffers.head.get(..head_len).unwrap_or_default());
                            packet.set_virtual_len(payload);
                            packet.class = Some(class);
                        }
                        Transmit::Policy { class } => {
                            self.counters.policy_sent.count(now);
                            packet.set_bytes(node.host.policy_frame());
                            packet.class = Some(class);
                        }
                        Transmit::Nothing => {
                            buffers.pool.put(packet);
                            return Some(host);
                        }
                    }
                }
                // Whether the host has more to send is known only when it is asked again.
                let has_more = true;
                self.send(index, packet, has_more, buffers);
                None
            }
        }
    }

    /// Starts to serialise a frame. `has_more`: another frame may follow, so a `TxDone` event is needed.
    #[inline(always)]
    fn send(&mut self, index: u32, packet: Box<Packet>, has_more: bool, buffers: &mut ThreadBuffers) {
        let transmitter = &mut self.transmitters[index as usize];
        let was_flushed = transmitter.is_flushed();
        if let Some(trace) = &mut self.counters.path_trace {
            let (frame, virtual_len) = (packet.bytes(), packet.virtual_len());
            let time = Serialisation { start: self.now, end: transmitter.tx_end(self.now, packet.len()) };
            match transmitter.from {
                LocalNode::Host(host) => {
                    trace.on_host_tx(self.hosts[host as usize].ix, frame, virtual_len, time)
                }
                LocalNode::Switch(switch) => {
                    let (ix, port) = (self.switches[switch as usize].ix, transmitter.from_port);
                    trace.on_switch_tx(ix, port, frame, virtual_len, time);
                }
            }
        }
        // Reuse the memory of a batch whose frames have all arrived.
        if was_flushed
            && transmitter.receiver_process != self.number
            && let Some(batch) = buffers.spare_batches.pop()
        {
            transmitter.outgoing = batch;
        }
        transmitter.send(self.now, packet);
        if has_more
            && !transmitter.tx_done_scheduled
            && let Some(idle_at) = transmitter.busy_until(self.now)
        {
            transmitter.tx_done_scheduled = true;
            self.queue.push(idle_at, Event::TxDone(index), self.now);
        }
        self.on_sent(index, was_flushed);
    }

    /// Called after frames were added to a transmitter. Moves them to their wire if that is in this process;
    /// otherwise lists the transmitter for the hand-over at the end of the window, unless it is listed already
    /// (`was_flushed` is false).
    #[inline(always)]
    fn on_sent(&mut self, index: u32, was_flushed: bool) {
        if self.transmitters[index as usize].receiver_process == self.number {
            self.deliver_locally(index);
        } else if was_flushed {
            self.unflushed.push(index);
        }
    }

    /// Moves the frames of a transmitter to their wire, which is in this process.
    #[inline(never)]
    fn deliver_locally(&mut self, index: u32) {
        let transmitter = &mut self.transmitters[index as usize];
        let (number, wire) = (transmitter.wire, &mut self.wires[transmitter.wire as usize]);
        while let Some(flight) = transmitter.outgoing.pop_front() {
            wire.frames.push(flight, Event::Arrival(number), &mut self.queue);
        }
        while let Some(flight) = transmitter.outgoing_pfc.pop_front() {
            wire.pfc.push(flight, Event::PfcArrival(number), &mut self.queue);
        }
    }

    /// Prefetches the memory that [`Process::deliver`] reads. Other processes have run since this one did, so it may
    /// not be in the cache.
    pub(crate) fn prefetch(&self, wire: u32, batch: &Batch<Box<Packet>>) {
        if let Some(first) = batch.slot_at(0) {
            prefetch(first);
        }
        prefetch_all(&self.wires[wire as usize]);
    }

    /// Puts frames from another process on `wire`, and prefetches the memory that the arrival of the first one reads.
    pub(crate) fn deliver(&mut self, wire: u32, batch: Batch<Box<Packet>>, buffers: &mut ThreadBuffers) {
        let event = Event::Arrival(wire);
        let wire = &mut self.wires[wire as usize];
        wire.frames.push_batch(batch, event, &mut self.queue, &mut buffers.spare_batches);
        wire.frames.prefetch();
        prefetch_all(&self.transmitters[wire.reverse_transmitter as usize]);
        if let LocalNode::Switch(switch) = wire.to {
            self.switches[switch as usize].switch.prefetch(wire.to_port);
        }
    }

    /// Puts a PFC frame from another process on `wire`.
    pub(crate) fn deliver_pfc(&mut self, wire: u32, frame: InFlight<PfcFrame>) {
        self.wires[wire as usize].pfc.push(frame, Event::PfcArrival(wire), &mut self.queue);
    }

    /// Called after any call into a host that may have changed its state: sends a frame if possible, arms the host's
    /// timer and lists the host for [`Process::collect_reports`].
    pub(crate) fn kick(&mut self, host_index: u32, buffers: &mut ThreadBuffers) {
        self.hosts_to_poll.push(host_index);
        let transmitter = self.hosts[host_index as usize].transmitter;
        self.transmit(transmitter, buffers);
        self.schedule_host_timer(host_index);
    }

    /// Sends a frame of an attacker from the host's NIC, before the host's own frames.
    pub(crate) fn inject(&mut self, host_index: u32, frame: Vec<u8>, buffers: &mut ThreadBuffers) {
        self.hosts[host_index as usize].injected.push_back(frame);
        self.kick(host_index, buffers);
    }

    /// Clears all PFC pauses of a transmitter, because the resume frames may have been lost: with its link, or in the
    /// restart of the neighbouring switch.
    pub(crate) fn unpause(&mut self, index: u32, buffers: &mut ThreadBuffers) {
        let transmitter = &self.transmitters[index as usize];
        match (transmitter.from, transmitter.from_port) {
            (LocalNode::Switch(switch), port) => {
                let node = &mut self.switches[switch as usize];
                let is_paused = false;
                for class in 0..PFC_CLASSES {
                    node.switch.set_paused(port, class, is_paused);
                }
                self.transmit(index, buffers);
            }
            (LocalNode::Host(host), _) => {
                self.hosts[host as usize].paused = 0;
                self.kick(host, buffers);
            }
        }
    }

    /// Schedules a command at a host as an event with the time and the scheduling time of `key`. Commands run in the
    /// order of these calls, so their keys must not decrease.
    pub(crate) fn schedule_command(&mut self, key: &EventKey, host_index: u32, command: HostCommand) {
        self.commands.push_back((host_index, command));
        self.queue.push_unsequenced(key.time, Event::Command, key.scheduled_at);
    }

    /// Executes a command at a host now.
    pub(crate) fn execute_command(
        &mut self,
        host_index: u32,
        command: HostCommand,
        buffers: &mut ThreadBuffers,
    ) {
        let now = self.now;
        let host = &mut self.hosts[host_index as usize].host;
        match command {
            HostCommand::Start(start) => {
                let id = host.open(now, start.spec).expect("message id is unused and size is not zero");
                if let Some(announcement) = &start.announcement {
                    host.announce(id, announcement).expect("announcement fits into the message's packets");
                }
                if start.will_stop {
                    self.stoppable.push((start.flow_index, id));
                }
                if let Some(probe) = self.slowdown_probe.as_mut().filter(|_| start.is_first) {
                    probe.flow = Some(id);
                }
                self.report(host_index, HostReportKind::Opened { flow_index: start.flow_index, id });
            }
            HostCommand::Stop { flow_index } => {
                let Some(index) = self.stoppable.iter().position(|(flow, _)| *flow == flow_index) else {
                    return;
                };
                let (_, id) = self.stoppable.swap_remove(index);
                // The flow may have finished.
                if host.flow(id).is_none() {
                    return;
                }
                host.stop(now, id);
            }
        }
        self.kick(host_index, buffers);
    }

    /// Feeds the rate of the experiment's first flow, which host `host_index` will open, to `slowdown`.
    pub(crate) fn watch_slowdown(&mut self, host_index: u32, slowdown: FirstSlowdown) {
        self.slowdown_probe = Some(SlowdownProbe { host_index, flow: None, slowdown });
    }

    fn report(&mut self, host_index: u32, kind: HostReportKind) {
        let host = self.hosts[host_index as usize].ix;
        self.reports.push(HostReport { at: self.now, host, kind });
    }

    /// Moves the events of all hosts called since the last time into `reports`, and feeds the watched flow's rate to
    /// its probe.
    pub(crate) fn collect_reports(&mut self) {
        while let Some(host_index) = self.hosts_to_poll.pop() {
            while let Some(event) = self.hosts[host_index as usize].host.poll_event() {
                self.report(host_index, HostReportKind::Host(event));
            }
            if let Some(probe) = self.slowdown_probe.as_mut().filter(|probe| probe.host_index == host_index)
                && let Some(view) =
                    probe.flow.and_then(|flow| self.hosts[host_index as usize].host.flow(flow))
            {
                probe.slowdown.observe(self.now, view.sending_rate);
            }
        }
    }

    /// Arms the host's timer for its next deadline, unless it is armed for that time or an earlier one.
    fn schedule_host_timer(&mut self, index: u32) {
        let node = &mut self.hosts[index as usize];
        let Some(due) = node.host.next_wakeup() else { return };
        // A deadline that has passed is waiting for the transmitter or for a PFC resume, and either one polls the
        // host again.
        if due <= self.now || node.timer_at.is_some_and(|pending| pending <= due) {
            return;
        }
        node.timer_at = Some(due);
        self.queue.push(due, Event::HostTimer(index), self.now);
    }

    fn on_host_timer(&mut self, index: u32, buffers: &mut ThreadBuffers) {
        let node = &mut self.hosts[index as usize];
        if node.timer_at != Some(self.now) {
            return; // stale: another deadline has replaced this one
        }
        node.timer_at = None;
        node.host.wakeup(self.now);
        self.kick(index, buffers);
    }

    fn on_pfc_arrival(&mut self, index: u32, buffers: &mut ThreadBuffers) {
        let wire = &mut self.wires[index as usize];
        let (to, port, reverse) = (wire.to, wire.to_port, wire.reverse_transmitter);
        let event = Event::PfcArrival(index);
        // PFC frames are few: their batches are not reused.
        let Some(frame) = wire.pfc.pop_arrived(self.now, event, &mut self.queue, &mut Vec::new()) else {
            return;
        };
        if let Some(reason) = wire.drop_on_arrival(self.now) {
            *self.counters.link_drops.entry(reason.name()).or_default() += 1;
            return;
        }
        match to {
            LocalNode::Switch(switch) => {
                if self.switches[switch as usize].switch.set_paused(port, frame.priority, frame.is_pause) {
                    self.transmit(reverse, buffers);
                }
            }
            LocalNode::Host(host) => {
                let bit = 1u8.checked_shl(u32::from(frame.priority)).unwrap_or(0);
                let node = &mut self.hosts[host as usize];
                if frame.is_pause {
                    node.paused |= bit;
                } else {
                    node.paused &= !bit;
                    self.kick(host, buffers);
                }
            }
        }
    }
}

/// Returns whether the frame's IPv4 destination is the policy group.
fn is_policy(frame: &[u8]) -> bool {
    /// Offset of the destination in the IPv4 header: 16.
    const DESTINATION_OFFSET: usize = ETHERNET_LEN + 16;
    frame.get(DESTINATION_OFFSET..DESTINATION_OFFSET + 4) == Some(&POLICY_GROUP.octets())
}
