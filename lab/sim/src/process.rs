//! A logical process: some nodes of the fabric, the ends of their links, and the events to come there. Its events up
//! to the end of a window of time depend on nothing that happens elsewhere in that window (see [`crate::network`]).
//!
//! It is a thin driver of the same [`Host`] and [`Switch`] objects that the raw-socket drivers run. It knows how long a frame
//! takes and where it goes, nothing of what it means.
//!
//! Two kinds of event carry a packet over a hop: it *arrives* at the far end of a wire, and a transmitter becomes *free* for
//! the next one. A port with an empty queue and an idle transmitter has no event at all.

use crate::arrivals::Arrivals;
use crate::doubling::Doubling;
use crate::events::{Event, EventQueue, Key};
use crate::fault::Lost;
use crate::link::{Batch, Flight, PfcFrame, Place, Transmitter, Wire};
use crate::news::{Command, News, Report};
use crate::packets::Packets;
use crate::worker::{Outbox, Worker};
use std::collections::{BTreeMap, VecDeque};
use weir_controller::topology::{HostIx, SwitchIx};
use weir_experiment::slowdown::FirstSlowdown;
use weir_host::ring::Ring;
use weir_host::wire::{ETHERNET_LEN, POLICY_GROUP};
use weir_host::{FlowId, Host, Transmit};
use weir_switch::engine::Switch;
use weir_switch::packet::Packet;
use weir_switch::prefetch::{prefetch, prefetch_whole};
use weir_units::Time;

/// No direction: the port has no link.
pub const NO_DIRECTION: u32 = u32::MAX;

/// A host and what its NIC needs to know.
pub struct Nic {
    /// Its number in the topology.
    pub ix: HostIx,
    /// Protocol and congestion control.
    pub host: Host,
    /// Its transmitter, by index.
    out: u32,
    /// Classes its switch has paused, one bit each.
    paused: u8,
    /// Time of the pending `Wake`. An earlier one replaces it; a later one is stale.
    wake: Option<Time>,
    /// Frames of an attacker at this host, which leave before the host's.
    injected: Ring<Vec<u8>>,
    /// The last POLICY frames that came by, if an attacker listens.
    pub heard: Option<VecDeque<Vec<u8>>>,
}

impl Nic {
    /// A host that sends by the transmitter of this index.
    pub fn new(ix: HostIx, host: Host, out: u32) -> Nic {
        Nic { ix, host, out, paused: 0, wake: None, injected: Ring::new(), heard: None }
    }
}

/// Frames that an attacker remembers.
const HEARD: usize = 64;

/// A switch and where its ports lead.
pub struct Chassis {
    /// Its number in the topology.
    pub ix: SwitchIx,
    /// Pipeline and traffic manager.
    pub switch: Switch,
    /// Port number to the number of the direction that leaves it, or [`NO_DIRECTION`].
    pub directions: Vec<u32>,
    /// Port number to its transmitter, by index, or [`NO_DIRECTION`].
    pub(crate) outs: Vec<u32>,
}

/// The experiment's first flow, whose rate somebody watches.
pub struct Watch {
    /// Its sender, by index.
    pub nic: u32,
    flow: Option<FlowId>,
    /// Detects the time at which it slows down.
    pub slowdown: FirstSlowdown,
}

/// Counters of a process.
pub struct Tally {
    /// One packet through one switch, ingress and egress, is one hop.
    pub packet_hops: u64,
    /// Every PFC frame sent: (time, switch, port, frame).
    pub pfc_log: Vec<(Time, SwitchIx, u16, PfcFrame)>,
    /// Pause frames sent, less resume frames.
    pub pauses_held: i64,
    /// Frames lost on wires and in switches that restarted, by reason.
    pub lost: BTreeMap<&'static str, u64>,
    /// POLICY packets that hosts have sent since the last policy was set.
    pub policy_sent: Doubling,
    /// Hops of POLICY packets, if somebody counts them.
    pub policy_hops: Option<u64>,
    /// Statistics of arriving data packets, if requested.
    pub arrivals: Option<Box<Arrivals>>,
    /// Notes about packets of the sample, if requested.
    pub packets: Option<Box<Packets>>,
}

/// A logical process. See the [module](self). No two share a cache line, as two threads may run them.
#[repr(align(128))]
pub struct Process {
    number: u32,
    /// Events since somebody took this number.
    pub(crate) work: u64,
    queue: EventQueue,
    /// The time of the event that happens now.
    now: Time,
    /// In the order of the topology.
    pub switches: Vec<Chassis>,
    /// In the order of the topology.
    pub nics: Vec<Nic>,
    /// In the order of their directions' numbers.
    pub outs: Vec<Transmitter>,
    /// In the order of their directions' numbers.
    pub ins: Vec<Wire>,
    /// Transmitters with frames for other processes.
    pub(crate) unsettled: Vec<u32>,
    commands: VecDeque<(u32, Command)>,
    /// Flows that will be stopped.
    stoppable: Vec<(u32, FlowId)>,
    /// Hosts that may have something to report.
    touched: Vec<u32>,
    /// Reports of hosts, in order.
    pub reports: Vec<Report>,
    /// The first flow, if it is here and somebody watches it.
    pub watch: Option<Watch>,
    /// Counts.
    pub tally: Tally,
}

impl Process {
    /// A process at rest.
    pub fn new(
        number: u32,
        switches: Vec<Chassis>,
        nics: Vec<Nic>,
        outs: Vec<Transmitter>,
        ins: Vec<Wire>,
    ) -> Process {
        Process {
            number,
            work: 0,
            queue: EventQueue::default(),
            now: Time::ZERO,
            switches,
            nics,
            outs,
            ins,
            unsettled: Vec::new(),
            commands: VecDeque::new(),
            stoppable: Vec::new(),
            touched: Vec::new(),
            reports: Vec::new(),
            watch: None,
            tally: Tally {
                packet_hops: 0,
                pfc_log: Vec::new(),
                pauses_held: 0,
                lost: BTreeMap::new(),
                policy_sent: Doubling::new(Time::ZERO, Time::from_us(1)),
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
    pub fn next(&self) -> Option<&Key> {
        self.queue.first()
    }

    /// Lets all events before `end` happen. Returns how many there were.
    pub fn run(&mut self, end: &Key, worker: &mut Worker) -> u64 {
        let mut events = 0;
        self.swap_scratch(worker);
        while let Some(key) = self.queue.pop_before(end) {
            self.happen(key, worker);
            events += 1;
        }
        self.swap_scratch(worker);
        events
    }

    /// Swaps the memory of the switch for that of the thread. Switches that are one process have memory of their own.
    #[inline]
    fn swap_scratch(&mut self, worker: &mut Worker) {
        if let [chassis] = self.switches.as_mut_slice() {
            chassis.switch.swap_scratch(&mut worker.scratch);
        }
    }

    /// Lets the next event happen if it is before `end`.
    pub fn step(&mut self, end: &Key, worker: &mut Worker) -> Option<Key> {
        let key = self.queue.pop_before(end)?;
        self.happen(key, worker);
        Some(key)
    }

    #[inline]
    fn happen(&mut self, key: Key, worker: &mut Worker) {
        self.enter(key.time);
        match key.event() {
            Event::Arrive(wire) => self.arrive(wire, worker),
            Event::Free(out) => {
                self.outs[out as usize].free_scheduled = false;
                if let Some(idle) = self.transmit(out, worker) {
                    self.schedule_wake(idle);
                }
            }
            Event::Pfc(wire) => self.arrive_pfc(wire, worker),
            Event::Late(wire) => self.arrive_late(wire, worker),
            Event::Wake(nic) => self.wake(nic, worker),
            Event::Command => {
                if let Some((nic, command)) = self.commands.pop_front() {
                    self.command(nic, command, worker);
                }
            }
            // These are the run's.
            Event::Flow | Event::Sample | Event::Change => {}
        }
        if !self.touched.is_empty() {
            self.drain();
        }
    }

    /// Says what happens from now on.
    #[inline]
    pub fn enter(&mut self, now: Time) {
        self.now = now;
    }

    #[inline(always)]
    fn arrive(&mut self, index: u32, worker: &mut Worker) {
        let wire = &mut self.ins[index as usize];
        let event = Event::Arrive(index);
        let Some(packet) = wire.frames.arrive(self.now, event, &mut self.queue, &mut worker.empty) else {
            return;
        };
        wire.frames.prefetch();
        match wire.fault {
            None => self.take(index, packet, worker),
            Some(_) => self.arrive_with_faults(index, packet, worker),
        }
    }

    #[cold]
    fn arrive_with_faults(&mut self, index: u32, mut packet: Box<Packet>, worker: &mut Worker) {
        let now = self.now;
        let wire = &mut self.ins[index as usize];
        if let Some(lost) = wire.loss_of_arrival(now) {
            return self.lose(lost, packet, worker);
        }
        let Some(fault) = &mut wire.fault else { return };
        fault.corrupt(&mut packet);
        let copy = fault.duplicate(&packet, &mut worker.pool);
        let at = fault.arrival(now);
        for packet in [Some(packet), copy].into_iter().flatten() {
            match &mut self.ins[index as usize].fault {
                Some(fault) if at > now => {
                    fault.hold(at, now, packet);
                    self.queue.push(at, Event::Late(index), now);
                }
                _ => self.take_after_faults(index, packet, worker),
            }
        }
    }

    fn arrive_late(&mut self, index: u32, worker: &mut Worker) {
        match self.ins[index as usize].arrive_late() {
            Some((packet, None)) => self.take_after_faults(index, packet, worker),
            Some((packet, Some(lost))) => self.lose(lost, packet, worker),
            None => {}
        }
    }

    fn lose(&mut self, lost: Lost, packet: Box<Packet>, worker: &mut Worker) {
        *self.tally.lost.entry(lost.name()).or_default() += 1;
        worker.pool.put(packet);
    }

    /// Takes a frame that has arrived late, or with a copy.
    #[inline(never)]
    fn take_after_faults(&mut self, index: u32, packet: Box<Packet>, worker: &mut Worker) {
        self.take(index, packet, worker);
    }

    /// Takes a frame that has arrived.
    #[inline(always)]
    fn take(&mut self, index: u32, packet: Box<Packet>, worker: &mut Worker) {
        let now = self.now;
        let wire = &mut self.ins[index as usize];
        wire.note(now, packet.len());
        let port = wire.to_port;
        match wire.to {
            Place::Switch(switch) => {
                self.tally.packet_hops += 1;
                if let Some(hops) = &mut self.tally.policy_hops {
                    *hops += u64::from(is_policy(packet.bytes()));
                }
                let chassis = &mut self.switches[switch as usize];
                if let Some(packets) = &mut self.tally.packets {
                    packets.arrive(now, chassis.ix, packet.bytes(), packet.virtual_len());
                }
                chassis.switch.receive(now, port, packet, &mut worker.outbox);
                self.flush_outbox(switch, worker);
            }
            Place::Host(host) => {
                let nic = &mut self.nics[host as usize];
                if let Some(heard) = &mut nic.heard
                    && is_policy(packet.bytes())
                {
                    heard.truncate(HEARD - 1);
                    heard.push_front(packet.bytes().to_vec());
                }
                if let Some(arrivals) = &mut self.tally.arrivals {
                    arrivals.take(packet.bytes(), packet.virtual_len());
                }
                if let Some(packets) = &mut self.tally.packets {
                    packets.deliver(now, packet.bytes(), packet.virtual_len());
                }
                nic.host.receive(now, packet.bytes(), packet.virtual_len());
                worker.pool.put(packet);
                self.kick(host, worker);
            }
        }
    }

    /// Passes on what a switch said, if it said something.
    #[inline]
    fn flush_outbox(&mut self, switch: u32, worker: &mut Worker) {
        let Outbox { pfc, dropped, .. } = &worker.outbox;
        if !pfc.is_empty() || !dropped.is_empty() {
            self.pass_on_rest(switch, worker);
        }
        while let Some(port) = worker.outbox.ready.pop() {
            if let Some(index) = self.out_of(switch, port) {
                self.transmit(index, worker);
            }
        }
    }

    /// Passes on what a switch said beside ports that can send: dropped packets, and PFC frames.
    #[cold]
    fn pass_on_rest(&mut self, switch: u32, worker: &mut Worker) {
        while let Some(packet) = worker.outbox.dropped.pop() {
            worker.pool.put(packet);
        }
        while let Some((port, frame)) = worker.outbox.pfc.pop() {
            let ix = self.switches[switch as usize].ix;
            self.tally.pfc_log.push((self.now, ix, port, frame));
            self.tally.pauses_held += if frame.on { 1 } else { -1 };
            let Some(index) = self.out_of(switch, port) else { continue };
            let out = &mut self.outs[index as usize];
            let settled = out.is_settled();
            out.send_pfc(self.now, frame);
            self.left(index, settled);
        }
    }

    fn out_of(&self, switch: u32, port: u16) -> Option<u32> {
        let outs = &self.switches[switch as usize].outs;
        outs.get(usize::from(port)).copied().filter(|&out| out != NO_DIRECTION)
    }

    /// Starts the next frame if a transmitter is idle and its source has one. Returns a host that has none.
    pub(crate) fn transmit(&mut self, index: u32, worker: &mut Worker) -> Option<u32> {
        let now = self.now;
        let out = &mut self.outs[index as usize];
        if let Some(free) = out.busy(now) {
            if !out.free_scheduled {
                out.free_scheduled = true;
                self.queue.push(free, Event::Free(index), self.now);
            }
            return None;
        }
        match out.from {
            Place::Switch(switch) => {
                let port = out.from_port;
                let chassis = &mut self.switches[switch as usize];
                let packet = chassis.switch.transmit(now, port, &mut worker.outbox);
                let more = chassis.switch.has_next(port);
                if let Some(packet) = packet {
                    self.send(index, packet, more, worker);
                }
                self.flush_outbox(switch, worker);
                None
            }
            Place::Host(host) => {
                let nic = &mut self.nics[host as usize];
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
                            self.tally.policy_sent.count(now);
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
    fn send(&mut self, index: u32, packet: Box<Packet>, more: bool, worker: &mut Worker) {
        let out = &mut self.outs[index as usize];
        let settled = out.is_settled();
        if let Some(packets) = &mut self.tally.packets {
            let (frame, virtual_len) = (packet.bytes(), packet.virtual_len());
            let sent = (self.now, out.end(self.now, packet.len()));
            match out.from {
                Place::Host(host) => {
                    packets.leave_host(self.nics[host as usize].ix, frame, virtual_len, sent)
                }
                Place::Switch(switch) => {
                    packets.leave(
                        sent,
                        (self.switches[switch as usize].ix, out.from_port),
                        frame,
                        virtual_len,
                    );
                }
            }
        }
        if settled
            && out.to != self.number
            && let Some(empty) = worker.empty.pop()
        {
            out.left = empty;
        }
        out.send(self.now, packet);
        if more
            && !out.free_scheduled
            && let Some(free) = out.busy(self.now)
        {
            out.free_scheduled = true;
            self.queue.push(free, Event::Free(index), self.now);
        }
        self.left(index, settled);
    }

    /// A frame has left a transmitter: it is on its wire, or waits for the end of the window if that is another process's.
    #[inline(always)]
    fn left(&mut self, index: u32, was_settled: bool) {
        if self.outs[index as usize].to == self.number {
            self.deliver_here(index);
        } else if was_settled {
            self.unsettled.push(index);
        }
    }

    #[inline(never)]
    fn deliver_here(&mut self, index: u32) {
        let out = &mut self.outs[index as usize];
        let (number, wire) = (out.wire, &mut self.ins[out.wire as usize]);
        while let Some(flight) = out.left.pop_front() {
            wire.frames.deliver(flight, Event::Arrive(number), &mut self.queue);
        }
        while let Some(flight) = out.left_pfc.pop_front() {
            wire.pfc.deliver(flight, Event::Pfc(number), &mut self.queue);
        }
    }

    /// Fetches what [`Process::deliver`] will need: other processes have had the caches since it was needed last.
    pub(crate) fn prefetch(&self, wire: u32, batch: &Batch<Box<Packet>>) {
        if let Some(first) = batch.place(0) {
            prefetch(first);
        }
        prefetch_whole(&self.ins[wire as usize]);
    }

    /// Takes frames that another process has sent, and fetches what the first of them needs here.
    pub(crate) fn deliver(&mut self, wire: u32, batch: Batch<Box<Packet>>, worker: &mut Worker) {
        let event = Event::Arrive(wire);
        let wire = &mut self.ins[wire as usize];
        wire.frames.deliver_all(batch, event, &mut self.queue, &mut worker.empty);
        wire.frames.prefetch();
        prefetch_whole(&self.outs[wire.back as usize]);
        if let Place::Switch(switch) = wire.to {
            self.switches[switch as usize].switch.prefetch(wire.to_port);
        }
    }

    /// Takes a frame of PFC that another process has sent.
    pub(crate) fn deliver_pfc(&mut self, wire: u32, frame: Flight<PfcFrame>) {
        self.ins[wire as usize].pfc.deliver(frame, Event::Pfc(wire), &mut self.queue);
    }

    /// Something changed at a host: send if possible, and remember when it next wants to be woken.
    pub(crate) fn kick(&mut self, nic: u32, worker: &mut Worker) {
        self.touched.push(nic);
        let out = self.nics[nic as usize].out;
        self.transmit(out, worker);
        self.schedule_wake(nic);
    }

    /// A frame leaves a host that is not the host's own.
    pub(crate) fn inject(&mut self, nic: u32, frame: Vec<u8>, worker: &mut Worker) {
        self.nics[nic as usize].injected.push_back(frame);
        self.kick(nic, worker);
    }

    /// A link comes up: its transmitter is paused by nobody any more.
    pub(crate) fn unpause(&mut self, index: u32, worker: &mut Worker) {
        let out = &self.outs[index as usize];
        match (out.from, out.from_port) {
            (Place::Switch(switch), port) => {
                let chassis = &mut self.switches[switch as usize];
                for class in 0..8 {
                    chassis.switch.set_paused(port, class, false);
                }
                self.transmit(index, worker);
            }
            (Place::Host(host), _) => {
                self.nics[host as usize].paused = 0;
                self.kick(host, worker);
            }
        }
    }

    /// Has a host do something at the event of this key.
    pub(crate) fn plan(&mut self, at: &Key, nic: u32, command: Command) {
        self.commands.push_back((nic, command));
        self.queue.push_remote(at.time, Event::Command, at.born);
    }

    /// Has a host do something now.
    pub(crate) fn command(&mut self, nic: u32, command: Command, worker: &mut Worker) {
        let now = self.now;
        let host = &mut self.nics[nic as usize].host;
        match command {
            Command::Start(start) => {
                let id = host.open(now, start.spec).expect("message ids are fresh and sizes are checked");
                if let Some(announcement) = &start.announces {
                    host.announce(id, announcement).expect("the list was checked");
                }
                if start.stops {
                    self.stoppable.push((start.record, id));
                }
                if let Some(watch) = self.watch.as_mut().filter(|_| start.first) {
                    watch.flow = Some(id);
                }
                self.report(nic, News::Opened(start.record, id));
            }
            Command::Stop(record) => {
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
        self.watch = Some(Watch { nic, flow: None, slowdown });
    }

    fn report(&mut self, nic: u32, news: News) {
        let host = self.nics[nic as usize].ix;
        self.reports.push(Report { at: self.now, host, news });
    }

    /// Takes what hosts have to report, and looks after the first flow's rate.
    pub(crate) fn drain(&mut self) {
        while let Some(nic) = self.touched.pop() {
            while let Some(event) = self.nics[nic as usize].host.poll_event() {
                self.report(nic, News::Host(event));
            }
            if let Some(watch) = self.watch.as_mut().filter(|watch| watch.nic == nic)
                && let Some(view) = watch.flow.and_then(|flow| self.nics[nic as usize].host.flow(flow))
            {
                watch.slowdown.observe(self.now, view.rate);
            }
        }
    }

    fn schedule_wake(&mut self, index: u32) {
        let nic = &mut self.nics[index as usize];
        let Some(due) = nic.host.next_wakeup() else { return };
        // What is due already waits for the transmitter or for a resume, and either will look again.
        if due <= self.now || nic.wake.is_some_and(|pending| pending <= due) {
            return;
        }
        nic.wake = Some(due);
        self.queue.push(due, Event::Wake(index), self.now);
    }

    fn wake(&mut self, index: u32, worker: &mut Worker) {
        let nic = &mut self.nics[index as usize];
        if nic.wake != Some(self.now) {
            return; // an earlier one has replaced it
        }
        nic.wake = None;
        nic.host.wakeup(self.now);
        self.kick(index, worker);
    }

    fn arrive_pfc(&mut self, index: u32, worker: &mut Worker) {
        let wire = &mut self.ins[index as usize];
        let (to, port, back) = (wire.to, wire.to_port, wire.back);
        let event = Event::Pfc(index);
        let Some(frame) = wire.pfc.arrive(self.now, event, &mut self.queue, &mut Vec::new()) else { return };
        if let Some(lost) = wire.loss_of_arrival(self.now) {
            *self.tally.lost.entry(lost.name()).or_default() += 1;
            return;
        }
        match to {
            Place::Switch(switch) => {
                if self.switches[switch as usize].switch.set_paused(port, frame.priority, frame.on) {
                    self.transmit(back, worker);
                }
            }
            Place::Host(host) => {
                let bit = 1u8.checked_shl(u32::from(frame.priority)).unwrap_or(0);
                let nic = &mut self.nics[host as usize];
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
