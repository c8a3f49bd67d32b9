//! A logical process of the parallel simulation: some nodes of the fabric, the ends of their links, and their pending
//! events. A *window* is a span of virtual time so short that no event of a process in it can affect another process in
//! the same window (see [`crate::network`]), so processes can run a window in parallel.
//!
//! A process drives the same [`Host`](weir_host::Host) and [`Switch`](weir_switch::Switch) objects as the raw-socket drivers. It computes when and where a
//! frame arrives; it does not interpret frames. What happens is reported to an [`Observer`].
//!
//! Two kinds of event carry a packet over a hop: [`Event::Arrival`] at the far end of a wire, and [`Event::TxDone`]
//! when a transmitter may send the next frame. A port with an empty queue and an idle transmitter has no pending
//! event.

mod impairments;
mod pauses;

use crate::events::{Event, EventKey, EventQueue};
use crate::link::{Batch, InFlight, LocalNode, PfcFrame, Transmitter, Wire};
use crate::messages::{HostCommand, HostReport, HostReportKind};
use crate::nodes::{FrameSource, HostNode, SwitchNode};
use crate::observers::{Arrival, Departure, Observer, PfcEvent};
use crate::thread_buffers::{SwitchEvents, ThreadBuffers};
use std::collections::VecDeque;
use weir_controller::topology::Node;
use weir_host::wire::MAX_HEADER_LEN;
use weir_host::{FlowId, Transmit};
use weir_switch::packet::Packet;
use weir_switch::prefetch::{prefetch, prefetch_all};
use weir_units::Time;

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
    /// By transmitter, the time of its pending [`Event::PauseTimer`]; [`Time::MAX`] if none is pending. Events at other
    /// times are stale and ignored.
    pause_timers: Vec<Time>,
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
            pause_timers: vec![Time::MAX; transmitters.len()],
            transmitters,
            wires,
            unflushed: Vec::new(),
            commands: VecDeque::new(),
            stoppable: Vec::new(),
            hosts_to_poll: Vec::new(),
            reports: Vec::new(),
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
    pub(crate) fn run<O: Observer>(
        &mut self,
        end: &EventKey,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) -> u64 {
        let mut events = 0;
        self.swap_scratch(buffers);
        while let Some(key) = self.queue.pop_before(end) {
            self.dispatch(key, observer, buffers);
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
    pub(crate) fn step<O: Observer>(
        &mut self,
        end: &EventKey,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) -> Option<EventKey> {
        let key = self.queue.pop_before(end)?;
        self.dispatch(key, observer, buffers);
        Some(key)
    }

    #[inline]
    fn dispatch<O: Observer>(&mut self, key: EventKey, observer: &mut O, buffers: &mut ThreadBuffers) {
        self.set_now(key.time);
        match key.event() {
            Event::Arrival(wire) => self.on_arrival(wire, observer, buffers),
            Event::TxDone(transmitter) => {
                self.transmitters[transmitter as usize].tx_done_scheduled = false;
                if let Some(idle_host) = self.transmit(transmitter, observer, buffers) {
                    self.schedule_host_timer(idle_host);
                }
            }
            Event::PfcArrival(wire) => self.on_pfc_arrival(wire, observer, buffers),
            Event::PauseTimer(transmitter) => self.on_pause_timer(transmitter, observer, buffers),
            Event::DelayedArrival(wire) => self.on_delayed_arrival(wire, observer, buffers),
            Event::HostTimer(host_index) => self.on_host_timer(host_index, observer, buffers),
            Event::Command => {
                if let Some((host_index, command)) = self.commands.pop_front() {
                    self.execute_command(host_index, command, observer, buffers);
                }
            }
            // Only the queue of the run contains these.
            Event::FlowSchedule | Event::Sample | Event::ScheduledChange => {}
        }
        if !self.hosts_to_poll.is_empty() {
            self.collect_reports(observer);
        }
    }

    /// Sets the process's clock. Called before every dispatch, and before calls from outside
    /// (`Network::with_process_at`).
    #[inline]
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    #[inline]
    fn node(&self, node: LocalNode) -> Node {
        match node {
            LocalNode::Switch(index) => Node::Switch(self.switches[index as usize].ix),
            LocalNode::Host(index) => Node::Host(self.hosts[index as usize].ix),
        }
    }

    #[inline(always)]
    fn on_arrival<O: Observer>(&mut self, index: u32, observer: &mut O, buffers: &mut ThreadBuffers) {
        let wire = &mut self.wires[index as usize];
        let event = Event::Arrival(index);
        let Some(packet) =
            wire.frames.pop_arrived(self.now, event, &mut self.queue, &mut buffers.spare_batches)
        else {
            return;
        };
        wire.frames.prefetch();
        match wire.impairments {
            None => self.receive_frame(index, packet, observer, buffers),
            Some(_) => self.on_impaired_arrival(index, packet, observer, buffers),
        }
    }

    /// Passes an arrived frame to its switch or host, and transmits what becomes ready.
    #[inline(always)]
    fn receive_frame<O: Observer>(
        &mut self,
        index: u32,
        packet: Box<Packet>,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        let now = self.now;
        let &Wire { to, to_port, .. } = &self.wires[index as usize];
        observer.on_arrival(&Arrival { time: now, wire: index, to: self.node(to), packet: &packet });
        match to {
            LocalNode::Switch(switch) => {
                self.switches[switch as usize].switch.receive(now, to_port, packet, &mut buffers.outbox);
                self.flush_outbox(switch, observer, buffers);
            }
            LocalNode::Host(host) => {
                self.hosts[host as usize].host.receive(now, packet.bytes(), packet.virtual_len());
                buffers.pool.put(packet);
                self.kick(host, observer, buffers);
            }
        }
    }

    /// Processes the outbox that the last call into the switch filled: recycles dropped packets, sends PFC frames,
    /// and starts transmission on each port that became ready. Recursive through `transmit`; ends when the outbox is
    /// empty.
    #[inline]
    fn flush_outbox<O: Observer>(&mut self, switch: u32, observer: &mut O, buffers: &mut ThreadBuffers) {
        let SwitchEvents { pfc, dropped, .. } = &buffers.outbox;
        if !pfc.is_empty() || !dropped.is_empty() {
            self.flush_pfc_and_drops(switch, observer, buffers);
        }
        while let Some(port) = buffers.outbox.ready.pop() {
            if let Some(index) = self.switches[switch as usize].transmitter(port) {
                self.transmit(index, observer, buffers);
            }
        }
    }

    /// Recycles the dropped packets in the outbox and sends its PFC frames.
    #[cold]
    fn flush_pfc_and_drops<O: Observer>(
        &mut self,
        switch: u32,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        while let Some(packet) = buffers.outbox.dropped.pop() {
            buffers.pool.put(packet);
        }
        while let Some((port, frame)) = buffers.outbox.pfc.pop() {
            let node = &self.switches[switch as usize];
            observer.on_pfc(&PfcEvent { time: self.now, switch: node.ix, port, frame });
            let Some(index) = node.transmitter(port) else { continue };
            let transmitter = &mut self.transmitters[index as usize];
            let was_flushed = transmitter.is_flushed();
            transmitter.send_pfc(self.now, frame);
            self.on_sent(index, was_flushed);
            if frame.quanta.is_pause() {
                self.arm_pause_timer(index);
            }
        }
    }

    /// If the transmitter is idle, starts the next frame of its switch port or host; if it is busy, makes sure that a
    /// `TxDone` event is pending. Returns the host's index if the host had nothing to send, so that the caller can
    /// arm its timer.
    pub(crate) fn transmit<O: Observer>(
        &mut self,
        index: u32,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) -> Option<u32> {
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
                    self.send(index, packet, FrameSource::Node, has_more, observer, buffers);
                }
                self.flush_outbox(switch, observer, buffers);
                None
            }
            LocalNode::Host(host) => {
                let mut packet = buffers.pool.get();
                let Some(source) = self.next_frame(host, &mut packet, &mut buffers.head) else {
                    buffers.pool.put(packet);
                    return Some(host);
                };
                // Whether the host has more to send is known only when it is asked again.
                let has_more = true;
                self.send(index, packet, source, has_more, observer, buffers);
                None
            }
        }
    }

    /// Writes the next frame that the NIC of a host may send to `packet`; `None` if there is none now. `head` is memory
    /// for headers.
    #[inline(always)]
    fn next_frame(
        &mut self,
        host: u32,
        packet: &mut Packet,
        head: &mut [u8; MAX_HEADER_LEN],
    ) -> Option<FrameSource> {
        let HostNode { host, paused, injected, .. } = &mut self.hosts[host as usize];
        if let Some(frame) = injected.pop_front() {
            packet.set_bytes(&frame);
            return Some(FrameSource::Attacker);
        }
        match host.transmit(self.now, *paused, head) {
            Transmit::Frame { head_len, payload, class, .. } => {
                packet.set_bytes(head.get(..head_len).unwrap_or_default());
                packet.set_virtual_len(payload);
                packet.class = Some(class);
            }
            Transmit::Policy { class } => {
                packet.set_bytes(host.policy_frame());
                packet.class = Some(class);
            }
            Transmit::Nothing => return None,
        }
        Some(FrameSource::Node)
    }

    /// Starts to serialise a frame. `has_more`: another frame may follow, so a `TxDone` event is needed.
    #[inline(always)]
    fn send<O: Observer>(
        &mut self,
        index: u32,
        packet: Box<Packet>,
        source: FrameSource,
        has_more: bool,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        let transmitter = &self.transmitters[index as usize];
        let (time, from) = (self.now, self.node(transmitter.from));
        observer.on_departure(&Departure { time, from, transmitter, packet: &packet, source });
        let transmitter = &mut self.transmitters[index as usize];
        let was_flushed = transmitter.is_flushed();
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
    pub(crate) fn kick<O: Observer>(
        &mut self,
        host_index: u32,
        observer: &mut O,
        buffers: &mut ThreadBuffers,
    ) {
        self.hosts_to_poll.push(host_index);
        let transmitter = self.hosts[host_index as usize].transmitter;
        self.transmit(transmitter, observer, buffers);
        self.schedule_host_timer(host_index);
    }

    /// Schedules a command at a host as an event with the time and the scheduling time of `key`. Commands run in the
    /// order of these calls, so their keys must not decrease.
    pub(crate) fn schedule_command(&mut self, key: &EventKey, host_index: u32, command: HostCommand) {
        self.commands.push_back((host_index, command));
        self.queue.push_unsequenced(key.time, Event::Command, key.scheduled_at);
    }

    /// Executes a command at a host now.
    pub(crate) fn execute_command<O: Observer>(
        &mut self,
        host_index: u32,
        command: HostCommand,
        observer: &mut O,
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
                let opened = HostReportKind::Opened { flow_index: start.flow_index, id };
                self.report(host_index, opened, observer);
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
        self.kick(host_index, observer, buffers);
    }

    fn report<O: Observer>(&mut self, host_index: u32, kind: HostReportKind, observer: &mut O) {
        let host = self.hosts[host_index as usize].ix;
        observer.on_host_event(host, &kind);
        self.reports.push(HostReport { at: self.now, host, kind });
    }

    /// Moves the events of all hosts called since the last time into `reports`.
    pub(crate) fn collect_reports<O: Observer>(&mut self, observer: &mut O) {
        while let Some(host_index) = self.hosts_to_poll.pop() {
            while let Some(event) = self.hosts[host_index as usize].host.poll_event() {
                self.report(host_index, HostReportKind::Host(event), observer);
            }
            let node = &self.hosts[host_index as usize];
            observer.on_host_call(self.now, node.ix, &node.host);
        }
    }

    /// Arms the host's timer for its next deadline, unless it is armed for that time or an earlier one.
    fn schedule_host_timer(&mut self, index: u32) {
        if let Some(due) = self.hosts[index as usize].arm_timer(self.now) {
            self.queue.push(due, Event::HostTimer(index), self.now);
        }
    }

    fn on_host_timer<O: Observer>(&mut self, index: u32, observer: &mut O, buffers: &mut ThreadBuffers) {
        if self.hosts[index as usize].on_timer(self.now) {
            self.kick(index, observer, buffers);
        }
    }
}
