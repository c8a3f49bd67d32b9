//! A logical process: some nodes of the fabric, the ends of their links, and the events to come there. Its events up
//! to the end of a window of time depend on nothing that happens elsewhere in that window (see [`crate::network`]).
//!
//! It is a thin driver of the same [`Host`] and [`Switch`] objects that the raw-socket drivers run. It knows how long a frame
//! takes and where it goes, nothing of what it means.
//!
//! Two kinds of event carry a packet over a hop: it *arrives* at the far end of a wire, and a transmitter becomes *free* for
//! the next one. A port with an empty queue and an idle transmitter has no event at all.

use crate::doubling_histogram::DoublingHistogram;
use crate::events::{Event, EventKey, EventQueue};
use crate::fault::LinkDrop;
use crate::link::{Batch, InFlight, LocalNode, PfcFrame, Transmitter, Wire};
use crate::messages::{HostCommand, HostReport, HostReportKind};
use crate::path_trace::PathTrace;
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

/// No direction: the port has no link.
pub const UNCONNECTED: u32 = u32::MAX;

/// A host and what its NIC needs to know.
pub struct HostNode {
    /// Its number in the topology.
    pub ix: HostIx,
    /// Protocol and congestion control.
    pub host: Host,
    /// Its transmitter, by index.
    out: u32,
    /// Classes its switch has paused, one bit each.
    paused: u8,
    /// Time of the pending `HostTimer`. An earlier one replaces it; a later one is stale.
    timer_at: Option<Time>,
    /// Frames of an attacker at this host, which leave before the host's.
    injected: Ring<Vec<u8>>,
    /// The last POLICY frames that came by, if an attacker listens.
    pub overheard: Option<VecDeque<Vec<u8>>>,
}

impl HostNode {
    /// A host that sends by the transmitter of this index.
    pub fn new(ix: HostIx, host: Host, out: u32) -> HostNode {
        HostNode { ix, host, out, paused: 0, timer_at: None, injected: Ring::new(), overheard: None }
    }
}

/// Frames that an attacker remembers.
const MAX_OVERHEARD: usize = 64;

/// A switch and where its ports lead.
pub struct SwitchNode {
    /// Its number in the topology.
    pub ix: SwitchIx,
    /// Pipeline and traffic manager.
    pub switch: Switch,
    /// Port number to the number of the direction that leaves it, or [`UNCONNECTED`].
    pub directions: Vec<u32>,
    /// Port number to its transmitter, by index, or [`UNCONNECTED`].
    pub(crate) outs: Vec<u32>,
}

/// The experiment's first flow, whose rate somebody watches.
pub struct SlowdownProbe {
    /// Its sender, by index.
    pub nic: u32,
    flow: Option<FlowId>,
    /// Detects the time at which it slows down.
    pub slowdown: FirstSlowdown,
}

/// Counters of a process.
pub struct ProcessCounters {
    /// One packet through one switch, ingress and egress, is one hop.
    pub packet_hops: u64,
    /// Every PFC frame sent: (time, switch, port, frame).
    pub pfc_log: Vec<(Time, SwitchIx, u16, PfcFrame)>,
    /// Pause frames sent, less resume frames.
    pub pauses_outstanding: i64,
    /// Frames lost on wires and in switches that restarted, by reason.
    pub link_drops: BTreeMap<&'static str, u64>,
    /// POLICY packets that hosts have sent since the last policy was set.
    pub policy_sent: DoublingHistogram,
    /// Hops of POLICY packets, if somebody counts them.
    pub policy_hops: Option<u64>,
    /// Statistics of arriving data packets, if requested.
    pub arrivals: Option<Box<RxStats>>,
    /// Notes about packets of the sample, if requested.
    pub packets: Option<Box<PathTrace>>,
}

/// A logical process. See the [module](self). No two share a cache line, as two threads may run them.
#[repr(align(128))]
pub struct Process {
    number: u32,
    /// Events since somebody took this number.
    pub(crate) events_since_rebalance: u64,
    queue: EventQueue,
    /// The time of the event that happens now.
    now: Time,
    /// In the order of the topology.
    pub switches: Vec<SwitchNode>,
    /// In the order of the topology.
    pub hosts: Vec<HostNode>,
    /// In the order of their directions' numbers.
    pub transmitters: Vec<Transmitter>,
    /// In the order of their directions' numbers.
    pub wires: Vec<Wire>,
    /// Transmitters with frames for other processes.
    pub(crate) unflushed: Vec<u32>,
    commands: VecDeque<(u32, HostCommand)>,
    /// Flows that will be stopped.
    stoppable: Vec<(u32, FlowId)>,
    /// Hosts that may have something to report.
    hosts_to_poll: Vec<u32>,
    /// Reports of hosts, in order.
    pub reports: Vec<HostReport>,
    /// The first flow, if it is here and somebody watches it.
    pub watch: Option<SlowdownProbe>,
    /// Counts.
    pub counters: ProcessCounters,
}

impl Process {
    /// A process at rest.
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
            watch: None,
            counters: ProcessCounters {
                packet_hops: 0,
                pfc_log: Vec::new(),
                pauses_outstanding: 0,
                link_drops: BTreeMap::new(),
                policy_sent: DoublingHistogram::new(Time::ZERO, Time::from_us(1)),
                policy_hops: None,
                arrivals: None,
                packets: None,
            },
        }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its next event.
    #[inline]
    pub fn next(&self) -> Option<&EventKey> {
        self.queue.peek()
    }

    /// Lets all events before `end` happen. Returns how many there were.
    pub fn run(&mut self, end: &EventKey, worker: &mut ThreadBuffers) -> u64 {
        let mut events = 0;
        self.swap_scratch(worker);
        while let Some(key) = self.queue.pop_before(end) {
            self.dispatch(key, worker);
            events += 1;
        }
        self.swap_scratch(worker);
        events
    }

    /// Swaps the memory of the switch for that of the thread. Switches that are one process have memory of their own.
    #[inline]
    fn swap_scratch(&mut self, worker: &mut ThreadBuffers) {
        if let [chassis] = self.switches.as_mut_slice() {
            chassis.switch.swap_scratch(&mut worker.scratch);
        }
    }

    /// Lets the next event happen if it is before `end`.
    pub fn step(&mut self, end: &EventKey, worker: &mut ThreadBuffers) -> Option<EventKey> {
        let key = self.queue.pop_before(end)?;
        self.dispatch(key, worker);
        Some(key)
    }

    #[inline]
    fn dispatch(&mut self, key: EventKey, worker: &mut ThreadBuffers) {
        self.set_now(key.time);
        match key.event() {
            Event::Arrival(wire) => self.on_arrival(wire, worker),
            Event::TxDone(out) => {
                self.transmitters[out as usize].tx_done_scheduled = false;
                if let Some(idle) = self.transmit(out, worker) {
                    self.schedule_host_timer(idle);
                }
            }
            Event::PfcArrival(wire) => self.on_pfc_arrival(wire, worker),
            Event::DelayedArrival(wire) => self.on_delayed_arrival(wire, worker),
            Event::HostTimer(nic) => self.on_host_timer(nic, worker),
            Event::Command => {
                if let Some((nic, command)) = self.commands.pop_front() {
                    self.execute_command(nic, command, worker);
                }
            }
            // These are the run's.
            Event::FlowSchedule | Event::Sample | Event::ScheduledChange => {}
        }
        if !self.hosts_to_poll.is_empty() {
            self.collect_reports();
        }
    }

    /// Says what happens from now on.
    #[inline]
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    #[inline(always)]
    fn on_arrival(&mut self, index: u32, worker: &mut ThreadBuffers) {
        let wire = &mut self.wires[index as usize];
        let event = Event::Arrival(index);
        let Some(packet) =
            wire.frames.pop_arrived(self.now, event, &mut self.queue, &mut worker.spare_batches)
        else {
            return;
        };
        wire.frames.prefetch();
        match wire.fault {
            None => self.receive_frame(index, packet, worker),
            Some(_) => self.arrive_with_faults(index, packet, worker),
        }
    }

    #[cold]
    fn arrive_with_faults(&mut self, index: u32, mut packet: Box<Packet>, worker: &mut ThreadBuffers) {
        let now = self.now;
        let wire = &mut self.wires[index as usize];
        if let Some(lost) = wire.drop_on_arrival(now) {
            return self.drop_frame(lost, packet, worker);
        }
        let Some(fault) = &mut wire.fault else { return };
        fault.corrupt(&mut packet);
        let copy = fault.duplicate(&packet, &mut worker.pool);
        let at = fault.arrival_time(now);
        for packet in [Some(packet), copy].into_iter().flatten() {
            match &mut self.wires[index as usize].fault {
                Some(fault) if at > now => {
                    fault.delay_until(at, now, packet);
                    self.queue.push(at, Event::DelayedArrival(index), now);
                }
                _ => self.receive_frame_outlined(index, packet, worker),
            }
        }
    }

    fn on_delayed_arrival(&mut self, index: u32, worker: &mut ThreadBuffers) {
        match self.wires[index as usize].arrive_late() {
            Some((packet, None)) => self.receive_frame_outlined(index, packet, worker),
            Some((packet, Some(lost))) => self.drop_frame(lost, packet, worker),
            None => {}
        }
    }

    fn drop_frame(&mut self, lost: LinkDrop, packet: Box<Packet>, worker: &mut ThreadBuffers) {
        *self.counters.link_drops.entry(lost.name()).or_default() += 1;
        worker.pool.put(packet);
    }

    /// Takes a frame that has arrived late, or with a copy.
    #[inline(never)]
    fn receive_frame_outlined(&mut self, index: u32, packet: Box<Packet>, worker: &mut ThreadBuffers) {
        self.receive_frame(index, packet, worker);
    }

    /// Takes a frame that has arrived.
    #[inline(always)]
    fn receive_frame(&mut self, index: u32, packet: Box<Packet>, worker: &mut ThreadBuffers) {
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
                let chassis = &mut self.switches[switch as usize];
                if let Some(packets) = &mut self.counters.packets {
                    packets.on_switch_rx(now, chassis.ix, packet.bytes(), packet.virtual_len());
                }
                chassis.switch.receive(now, port, packet, &mut worker.outbox);
                self.flush_outbox(switch, worker);
            }
            LocalNode::Host(host) => {
                let nic = &mut self.hosts[host as usize];
                if let Some(heard) = &mut nic.overheard
                    && is_policy(packet.bytes())
                {
                    heard.truncate(MAX_OVERHEARD - 1);
                    heard.push_front(packet.bytes().to_vec());
                }
                if let Some(arrivals) = &mut self.counters.arrivals {
                    arrivals.on_frame(packet.bytes(), packet.virtual_len());
                }
                if let Some(packets) = &mut self.counters.packets {
                    packets.on_host_rx(now, packet.bytes(), packet.virtual_len());
                }
                nic.host.receive(now, packet.bytes(), packet.virtual_len());
                worker.pool.put(packet);
                self.kick(host, worker);
            }
        }
    }

    /// Passes on what a switch said, if it said something.
    #[inline]
    fn flush_outbox(&mut self, switch: u32, worker: &mut ThreadBuffers) {
        let SwitchEvents { pfc, dropped, .. } = &worker.outbox;
        if !pfc.is_empty() || !dropped.is_empty() {
            self.flush_pfc_and_drops(switch, worker);
        }
        while let Some(port) = worker.outbox.ready.pop() {
            if let Some(index) = self.transmitter_of(switch, port) {
                self.transmit(index, worker);
            }
        }
    }

    /// Passes on what a switch said beside ports that can send: dropped packets, and PFC frames.
    #[cold]
    fn flush_pfc_and_drops(&mut self, switch: u32, worker: &mut ThreadBuffers) {
        while let Some(packet) = worker.outbox.dropped.pop() {
            worker.pool.put(packet);
        }
        while let Some((port, frame)) = worker.outbox.pfc.pop() {
            let ix = self.switches[switch as usize].ix;
            self.counters.pfc_log.push((self.now, ix, port, frame));
            self.counters.pauses_outstanding += if frame.on { 1 } else { -1 };
            let Some(index) = self.transmitter_of(switch, port) else { continue };
            let out = &mut self.transmitters[index as usize];
            let settled = out.is_flushed();
            out.send_pfc(self.now, frame);
            self.on_sent(index, settled);
        }
    }

    fn transmitter_of(&self, switch: u32, port: u16) -> Option<u32> {
        let outs = &self.switches[switch as usize].outs;
        outs.get(usize::from(port)).copied().filter(|&out| out != UNCONNECTED)
    }

    /// Starts the next frame if a transmitter is idle and its source has one. Returns a host that has none.
    pub(crate) fn transmit(&mut self, index: u32, worker: &mut ThreadBuffers) -> Option<u32> {
        let now = self.now;
        let out = &mut self.transmitters[index as usize];
        if let Some(free) = out.busy_until(now) {
            if !out.tx_done_scheduled {
                out.tx_done_scheduled = true;
                self.queue.push(free, Event::TxDone(index), self.now);
            }
            return None;
        }
        match out.from {
            LocalNode::Switch(switch) => {
                let port = out.from_port;
                let chassis = &mut self.switches[switch as usize];
                let packet = chassis.switch.transmit(now, port, &mut worker.outbox);
                let more = chassis.switch.can_transmit(port);
                if let Some(packet) = packet {
                    self.send(index, packet, more, worker);
                }
                self.flush_outbox(switch, worker);
                None
            }
            LocalNode::Host(host) => {
                let nic = &mut self.hosts[host as usize];
                let mut packet = worker.pool.get();
                if let Some(frame) = nic.injected.pop_front() {
                    packet.set_bytes(&frame);
                } else {
                    match nic.host.transmit(now, nic.paused, &mut worker.head) {
                        Transmit::Frame { head_len, payload, class, .. } => {
                            packet.set_bytes(worker.head.get(..head_len).unwrap_or_default());
                            packet.set_virtual_len(payload);
                            packet.class = Some(class);
                        }
                        Transmit::Policy { class } => {
                            self.counters.policy_sent.count(now);
                            packet.set_bytes(nic.host.policy_frame());
                            packet.class = Some(class);
                        }
                        Transmit::Nothing => {
                            worker.pool.put(packet);
                            return Some(host);
                        }
                    }
                }
                self.send(index, packet, true, worker);
                None
            }
        }
    }

    #[inline(always)]
    fn send(&mut self, index: u32, packet: Box<Packet>, more: bool, worker: &mut ThreadBuffers) {
        let out = &mut self.transmitters[index as usize];
        let settled = out.is_flushed();
        if let Some(packets) = &mut self.counters.packets {
            let (frame, virtual_len) = (packet.bytes(), packet.virtual_len());
            let sent = (self.now, out.tx_end(self.now, packet.len()));
            match out.from {
                LocalNode::Host(host) => {
                    packets.on_host_tx(self.hosts[host as usize].ix, frame, virtual_len, sent)
                }
                LocalNode::Switch(switch) => {
                    packets.on_switch_tx(
                        sent,
                        (self.switches[switch as usize].ix, out.from_port),
                        frame,
                        virtual_len,
                    );
                }
            }
        }
        if settled
            && out.remote_process != self.number
            && let Some(empty) = worker.spare_batches.pop()
        {
            out.outgoing = empty;
        }
        out.send(self.now, packet);
        if more
            && !out.tx_done_scheduled
            && let Some(free) = out.busy_until(self.now)
        {
            out.tx_done_scheduled = true;
            self.queue.push(free, Event::TxDone(index), self.now);
        }
        self.on_sent(index, settled);
    }

    /// A frame has left a transmitter: it is on its wire, or waits for the end of the window if that is another process's.
    #[inline(always)]
    fn on_sent(&mut self, index: u32, was_settled: bool) {
        if self.transmitters[index as usize].remote_process == self.number {
            self.deliver_here(index);
        } else if was_settled {
            self.unflushed.push(index);
        }
    }

    #[inline(never)]
    fn deliver_here(&mut self, index: u32) {
        let out = &mut self.transmitters[index as usize];
        let (number, wire) = (out.wire, &mut self.wires[out.wire as usize]);
        while let Some(flight) = out.outgoing.pop_front() {
            wire.frames.push(flight, Event::Arrival(number), &mut self.queue);
        }
        while let Some(flight) = out.outgoing_pfc.pop_front() {
            wire.pfc.push(flight, Event::PfcArrival(number), &mut self.queue);
        }
    }

    /// Fetches what [`Process::deliver`] will need: other processes have had the caches since it was needed last.
    pub(crate) fn prefetch(&self, wire: u32, batch: &Batch<Box<Packet>>) {
        if let Some(first) = batch.slot_at(0) {
            prefetch(first);
        }
        prefetch_all(&self.wires[wire as usize]);
    }

    /// Takes frames that another process has sent, and fetches what the first of them needs here.
    pub(crate) fn deliver(&mut self, wire: u32, batch: Batch<Box<Packet>>, worker: &mut ThreadBuffers) {
        let event = Event::Arrival(wire);
        let wire = &mut self.wires[wire as usize];
        wire.frames.push_batch(batch, event, &mut self.queue, &mut worker.spare_batches);
        wire.frames.prefetch();
        prefetch_all(&self.transmitters[wire.reverse_transmitter as usize]);
        if let LocalNode::Switch(switch) = wire.to {
            self.switches[switch as usize].switch.prefetch(wire.to_port);
        }
    }

    /// Takes a frame of PFC that another process has sent.
    pub(crate) fn deliver_pfc(&mut self, wire: u32, frame: InFlight<PfcFrame>) {
        self.wires[wire as usize].pfc.push(frame, Event::PfcArrival(wire), &mut self.queue);
    }

    /// Something changed at a host: send if possible, and remember when it next wants to be woken.
    pub(crate) fn kick(&mut self, nic: u32, worker: &mut ThreadBuffers) {
        self.hosts_to_poll.push(nic);
        let out = self.hosts[nic as usize].out;
        self.transmit(out, worker);
        self.schedule_host_timer(nic);
    }

    /// A frame leaves a host that is not the host's own.
    pub(crate) fn inject(&mut self, nic: u32, frame: Vec<u8>, worker: &mut ThreadBuffers) {
        self.hosts[nic as usize].injected.push_back(frame);
        self.kick(nic, worker);
    }

    /// A link comes up: its transmitter is paused by nobody any more.
    pub(crate) fn unpause(&mut self, index: u32, worker: &mut ThreadBuffers) {
        let out = &self.transmitters[index as usize];
        match (out.from, out.from_port) {
            (LocalNode::Switch(switch), port) => {
                let chassis = &mut self.switches[switch as usize];
                for class in 0..8 {
                    chassis.switch.set_paused(port, class, false);
                }
                self.transmit(index, worker);
            }
            (LocalNode::Host(host), _) => {
                self.hosts[host as usize].paused = 0;
                self.kick(host, worker);
            }
        }
    }

    /// Has a host do something at the event of this key.
    pub(crate) fn schedule_command(&mut self, at: &EventKey, nic: u32, command: HostCommand) {
        self.commands.push_back((nic, command));
        self.queue.push_remote(at.time, Event::Command, at.scheduled_at);
    }

    /// Has a host do something now.
    pub(crate) fn execute_command(&mut self, nic: u32, command: HostCommand, worker: &mut ThreadBuffers) {
        let now = self.now;
        let host = &mut self.hosts[nic as usize].host;
        match command {
            HostCommand::Start(start) => {
                let id = host.open(now, start.spec).expect("message ids are fresh and sizes are checked");
                if let Some(announcement) = &start.announces {
                    host.announce(id, announcement).expect("the list was checked");
                }
                if start.stops {
                    self.stoppable.push((start.flow_index, id));
                }
                if let Some(watch) = self.watch.as_mut().filter(|_| start.first) {
                    watch.flow = Some(id);
                }
                self.report(nic, HostReportKind::Opened(start.flow_index, id));
            }
            HostCommand::Stop(record) => {
                let Some(place) = self.stoppable.iter().position(|(it, _)| *it == record) else { return };
                let (_, id) = self.stoppable.swap_remove(place);
                if host.flow(id).is_none() {
                    return;
                }
                host.stop(now, id);
            }
        }
        self.kick(nic, worker);
    }

    /// Watches the first flow of a host.
    pub(crate) fn watch(&mut self, nic: u32, slowdown: FirstSlowdown) {
        self.watch = Some(SlowdownProbe { nic, flow: None, slowdown });
    }

    fn report(&mut self, nic: u32, news: HostReportKind) {
        let host = self.hosts[nic as usize].ix;
        self.reports.push(HostReport { at: self.now, host, news });
    }

    /// Takes what hosts have to report, and looks after the first flow's rate.
    pub(crate) fn collect_reports(&mut self) {
        while let Some(nic) = self.hosts_to_poll.pop() {
            while let Some(event) = self.hosts[nic as usize].host.poll_event() {
                self.report(nic, HostReportKind::Host(event));
            }
            if let Some(watch) = self.watch.as_mut().filter(|watch| watch.nic == nic)
                && let Some(view) = watch.flow.and_then(|flow| self.hosts[nic as usize].host.flow(flow))
            {
                watch.slowdown.observe(self.now, view.rate);
            }
        }
    }

    fn schedule_host_timer(&mut self, index: u32) {
        let nic = &mut self.hosts[index as usize];
        let Some(due) = nic.host.next_wakeup() else { return };
        // What is due already waits for the transmitter or for a resume, and either will look again.
        if due <= self.now || nic.timer_at.is_some_and(|pending| pending <= due) {
            return;
        }
        nic.timer_at = Some(due);
        self.queue.push(due, Event::HostTimer(index), self.now);
    }

    fn on_host_timer(&mut self, index: u32, worker: &mut ThreadBuffers) {
        let nic = &mut self.hosts[index as usize];
        if nic.timer_at != Some(self.now) {
            return; // an earlier one has replaced it
        }
        nic.timer_at = None;
        nic.host.wakeup(self.now);
        self.kick(index, worker);
    }

    fn on_pfc_arrival(&mut self, index: u32, worker: &mut ThreadBuffers) {
        let wire = &mut self.wires[index as usize];
        let (to, port, back) = (wire.to, wire.to_port, wire.reverse_transmitter);
        let event = Event::PfcArrival(index);
        let Some(frame) = wire.pfc.pop_arrived(self.now, event, &mut self.queue, &mut Vec::new()) else {
            return;
        };
        if let Some(lost) = wire.drop_on_arrival(self.now) {
            *self.counters.link_drops.entry(lost.name()).or_default() += 1;
            return;
        }
        match to {
            LocalNode::Switch(switch) => {
                if self.switches[switch as usize].switch.set_paused(port, frame.priority, frame.on) {
                    self.transmit(back, worker);
                }
            }
            LocalNode::Host(host) => {
                let bit = 1u8.checked_shl(u32::from(frame.priority)).unwrap_or(0);
                let nic = &mut self.hosts[host as usize];
                if frame.on {
                    nic.paused |= bit;
                } else {
                    nic.paused &= !bit;
                    self.kick(host, worker);
                }
            }
        }
    }
}

/// Returns whether a frame goes to the policy group.
fn is_policy(frame: &[u8]) -> bool {
    const DESTINATION_AT: usize = ETHERNET_LEN + 16;
    frame.get(DESTINATION_AT..DESTINATION_AT + 4) == Some(&POLICY_GROUP.octets())
}
