//! The fabric in virtual time: hosts and switches joined by link directions, driven by events.
//!
//! This is a thin driver of the same [`Host`] and [`Switch`] objects that the raw-socket drivers
//! run. It knows how long a frame takes and where it goes, nothing of what it means.
//!
//! Two kinds of event carry a packet over a hop: it *arrives* at the far end of a wire, and a
//! transmitter becomes *free* for the next one. A port with an empty queue and an idle
//! transmitter has no event at all.

use crate::arrivals::Arrivals;
use crate::doubling::Doubling;
use crate::events::{Event, EventQueue};
use crate::link::{Direction, First, PfcFrame};
use crate::packets::Packets;
use std::collections::{BTreeMap, VecDeque};
use weir_controller::topology::{HostIx, Node, SwitchIx};
use weir_host::wire::{ETHERNET_LEN, POLICY_GROUP};
use weir_host::{Host, Transmit};
use weir_switch::engine::{Switch, SwitchOutput};
use weir_switch::packet::{Packet, PacketPool};
use weir_switch::pipeline::Digest;
use weir_switch::prefetch::prefetch;
use weir_units::Time;

/// No direction: the port has no link.
pub const NO_DIRECTION: u32 = u32::MAX;

/// A host and what its NIC needs to know.
pub struct Nic {
    /// Protocol and congestion control.
    pub host: Host,
    /// The direction of its link that leaves it.
    pub direction: u32,
    /// Classes its switch has paused, one bit each.
    paused: u8,
    /// Time of the pending `Wake`. An earlier one replaces it; a later one is stale.
    wake: Option<Time>,
    /// Frames of an attacker at this host, which leave before the host's.
    injected: VecDeque<Vec<u8>>,
    /// The last POLICY frames that came by, if an attacker listens.
    pub heard: Option<VecDeque<Vec<u8>>>,
}

/// Frames that an attacker remembers.
const HEARD: usize = 64;

/// A switch and where its ports lead.
pub struct Chassis {
    /// Pipeline and traffic manager.
    pub switch: Switch,
    /// Port number to the direction that leaves it, or [`NO_DIRECTION`].
    pub directions: Vec<u32>,
}

/// The fabric.
pub struct Network {
    /// All directions of all links: of link `i`, `2i` leads from its end `a` to `b`, `2i + 1` back.
    pub directions: Vec<Direction>,
    /// Next arrival on each of them.
    firsts: Vec<First>,
    /// By [`SwitchIx`].
    pub switches: Vec<Chassis>,
    /// By host index.
    pub nics: Vec<Nic>,
    /// Events to come.
    pub events: EventQueue,
    /// One packet through one switch, ingress and egress, is one hop.
    pub packet_hops: u64,
    /// Every PFC frame sent, if somebody keeps them: (time, switch, port, frame).
    pub pfc_log: Vec<(Time, SwitchIx, u16, PfcFrame)>,
    /// Pause frames sent, less resume frames: above 0 while a switch holds back a neighbour.
    pub pauses_held: i64,
    /// A running hash over every arrival: two runs with the same value saw the same packets at the same times.
    pub fingerprint: u64,
    /// Frames lost on wires and in switches that restarted, by reason.
    pub lost: BTreeMap<&'static str, u64>,
    /// POLICY packets that hosts have sent since the last policy was set.
    pub policy_sent: Doubling,
    /// Hops of POLICY packets, if somebody counts them.
    pub policy_hops: Option<u64>,
    /// Statistics of arriving data packets, if requested.
    pub arrivals: Option<Box<Arrivals>>,
    /// Paths of packets, if requested.
    pub packets: Option<Box<Packets>>,
    /// Hosts that may have something to report, to be drained by the caller.
    pub touched: Vec<u32>,
    outbox: Outbox,
    pool: PacketPool,
}

/// Messages of a switch during one call.
#[derive(Default)]
struct Outbox {
    ready: Vec<u16>,
    pfc: Vec<(u16, PfcFrame)>,
    #[expect(clippy::vec_box, reason = "the boxes go back to the pool as they are")]
    dropped: Vec<Box<Packet>>,
}

impl SwitchOutput for Outbox {
    #[inline]
    fn ready(&mut self, port: u16) {
        self.ready.push(port);
    }
    fn pause(&mut self, port: u16, priority: u8, on: bool) {
        self.pfc.push((port, PfcFrame { priority, on }));
    }
    fn recycle(&mut self, packet: Box<Packet>) {
        self.dropped.push(packet);
    }
    /// No controller listens in virtual time.
    fn digest(&mut self, _: Digest) {}
}

impl Network {
    /// Returns a fabric at rest.
    pub fn new(directions: Vec<Direction>, switches: Vec<Chassis>, hosts: Vec<(Host, u32)>) -> Network {
        let nics = hosts.into_iter().map(|(host, direction)| Nic {
            host,
            direction,
            paused: 0,
            wake: None,
            injected: VecDeque::new(),
            heard: None,
        });
        Network {
            firsts: directions.iter().map(|_| None).collect(),
            directions,
            switches,
            nics: nics.collect(),
            events: EventQueue::default(),
            packet_hops: 0,
            pfc_log: Vec::new(),
            pauses_held: 0,
            fingerprint: 0,
            lost: BTreeMap::new(),
            policy_sent: Doubling::new(Time::ZERO, Time::from_us(1)),
            policy_hops: None,
            arrivals: None,
            packets: None,
            touched: Vec::new(),
            outbox: Outbox::default(),
            pool: PacketPool::default(),
        }
    }

    /// Lets `event` happen. [`Event::Flow`], [`Event::Sample`] and [`Event::Happening`] are the caller's.
    #[inline]
    pub fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Arrive(direction) => self.arrive(now, direction),
            Event::Free(direction) => {
                self.directions[direction as usize].free_scheduled = false;
                self.transmit(now, direction);
            }
            Event::Pfc(direction) => self.arrive_pfc(now, direction),
            Event::Wake(nic) => self.wake(now, nic),
            Event::Flow | Event::Sample | Event::Happening => {}
        }
    }

    /// Fetches what the next events will look at: at 128 hosts a packet has long left the caches when it arrives.
    /// A step ahead the frame, two steps ahead the packet that knows where its frame is.
    #[inline]
    pub fn look_ahead(&self) {
        let mut upcoming = self.events.upcoming();
        let first = |event| match event {
            Event::Arrive(direction) => self.firsts[direction as usize].as_deref(),
            _ => None,
        };
        if let Some(Event::Arrive(direction)) = upcoming.next() {
            prefetch(&self.directions[direction as usize]);
            if let Some(packet) = &self.firsts[direction as usize] {
                packet.prefetch_frame();
            }
        }
        upcoming.filter_map(first).for_each(Packet::prefetch);
    }

    fn arrive(&mut self, now: Time, index: u32) {
        let direction = &mut self.directions[index as usize];
        let (to, port) = (direction.to, direction.to_port);
        let Some((packet, next)) = direction.arrive(&mut self.firsts[index as usize]) else { return };
        if let Some(time) = next {
            self.events.push(time, Event::Arrive(index));
        }
        if let Some(lost) = self.directions[index as usize].befalls(now) {
            *self.lost.entry(lost.name()).or_default() += 1;
            self.pool.put(packet);
            return;
        }
        self.fingerprint = fold(self.fingerprint, now, index, packet.len());
        match to {
            Node::Switch(switch) => {
                self.packet_hops += 1;
                if let Some(hops) = &mut self.policy_hops {
                    *hops += u64::from(is_policy(packet.bytes()));
                }
                if let Some(packets) = &mut self.packets {
                    packets.arrive(now, switch, packet.bytes(), packet.virtual_len());
                }
                let chassis = &mut self.switches[switch.0 as usize];
                chassis.switch.receive(now, port, packet, &mut self.outbox);
                self.flush_outbox(now, switch);
            }
            Node::Host(host) => {
                let nic = &mut self.nics[host.0 as usize];
                if let Some(heard) = &mut nic.heard
                    && is_policy(packet.bytes())
                {
                    heard.truncate(HEARD - 1);
                    heard.push_front(packet.bytes().to_vec());
                }
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.take(packet.bytes(), packet.virtual_len());
                }
                if let Some(packets) = &mut self.packets {
                    packets.deliver(now, packet.bytes(), packet.virtual_len());
                }
                nic.host.receive(now, packet.bytes(), packet.virtual_len());
                self.pool.put(packet);
                self.kick(now, host.0);
            }
        }
    }

    /// Passes on what a switch said: ports that can send, and PFC frames.
    fn flush_outbox(&mut self, now: Time, switch: SwitchIx) {
        while let Some(packet) = self.outbox.dropped.pop() {
            self.pool.put(packet);
        }
        while let Some((port, frame)) = self.outbox.pfc.pop() {
            self.pfc_log.push((now, switch, port, frame));
            self.pauses_held += if frame.on { 1 } else { -1 };
            let Some(index) = self.direction_of(switch, port) else { continue };
            if let Some(arrival) = self.directions[index as usize].send_pfc(now, frame) {
                self.events.push(arrival, Event::Pfc(index));
            }
        }
        while let Some(port) = self.outbox.ready.pop() {
            if let Some(index) = self.direction_of(switch, port) {
                self.transmit(now, index);
            }
        }
    }

    fn direction_of(&self, switch: SwitchIx, port: u16) -> Option<u32> {
        let directions = &self.switches[switch.0 as usize].directions;
        directions.get(usize::from(port)).copied().filter(|&d| d != NO_DIRECTION)
    }

    /// Starts the next frame on a direction if its transmitter is idle and its source has one.
    fn transmit(&mut self, now: Time, index: u32) {
        let direction = &mut self.directions[index as usize];
        if let Some(free) = direction.busy(now) {
            if !direction.free_scheduled {
                direction.free_scheduled = true;
                self.events.push(free, Event::Free(index));
            }
            return;
        }
        match direction.from {
            Node::Switch(switch) => {
                let port = direction.from_port;
                let chassis = &mut self.switches[switch.0 as usize];
                let packet = chassis.switch.transmit(now, port, &mut self.outbox);
                let more = chassis.switch.next_ready(port).is_some();
                if let Some(packet) = packet {
                    self.send(now, index, packet, more);
                }
                self.flush_outbox(now, switch);
            }
            Node::Host(host) => {
                let nic = &mut self.nics[host.0 as usize];
                let mut packet = self.pool.get();
                if let Some(frame) = nic.injected.pop_front() {
                    packet.set_bytes(&frame);
                    return self.send(now, index, packet, true);
                }
                let mut sent = Transmit::Nothing;
                packet.write_head(0, |head| {
                    sent = nic.host.transmit(now, nic.paused, head);
                    match sent {
                        Transmit::Frame { head_len, .. } => head_len,
                        Transmit::Policy { .. } | Transmit::Nothing => 0,
                    }
                });
                match sent {
                    Transmit::Frame { payload, class, .. } => {
                        packet.set_virtual_len(payload);
                        packet.class = Some(class);
                        self.send(now, index, packet, true);
                    }
                    Transmit::Policy { class } => {
                        self.policy_sent.count(now);
                        packet.set_bytes(nic.host.policy_frame());
                        packet.class = Some(class);
                        self.send(now, index, packet, true);
                    }
                    Transmit::Nothing => {
                        self.pool.put(packet);
                        self.schedule_wake(now, host.0);
                    }
                }
            }
        }
    }

    #[inline]
    fn send(&mut self, now: Time, index: u32, packet: Box<Packet>, more: bool) {
        let direction = &mut self.directions[index as usize];
        if let Some(packets) = &mut self.packets {
            let (frame, virtual_len, end) =
                (packet.bytes(), packet.virtual_len(), direction.end(now, packet.len()));
            match direction.from {
                Node::Host(host) => packets.leave_host(HostIx(host.0), frame, virtual_len, (now, end)),
                Node::Switch(switch) => packets.leave(end, switch, direction.from_port, frame, virtual_len),
            }
        }
        if let Some(arrival) = direction.send(now, packet, &mut self.firsts[index as usize]) {
            self.events.push(arrival, Event::Arrive(index));
        }
        if more
            && !direction.free_scheduled
            && let Some(free) = direction.busy(now)
        {
            direction.free_scheduled = true;
            self.events.push(free, Event::Free(index));
        }
    }

    /// Something changed at a host: send if possible, and remember when it next wants to be woken.
    pub fn kick(&mut self, now: Time, nic: u32) {
        self.touched.push(nic);
        let direction = self.nics[nic as usize].direction;
        self.transmit(now, direction);
        self.schedule_wake(now, nic);
    }

    /// A frame leaves a host that is not the host's own.
    pub fn inject(&mut self, now: Time, nic: u32, frame: Vec<u8>) {
        self.nics[nic as usize].injected.push_back(frame);
        self.kick(now, nic);
    }

    /// A link comes up: nobody is paused by it any more.
    pub fn unpause(&mut self, now: Time, index: u32) {
        let direction = &self.directions[index as usize];
        let (from, port) = (direction.from, direction.from_port);
        match from {
            Node::Switch(switch) => {
                let chassis = &mut self.switches[switch.0 as usize];
                for class in 0..8 {
                    chassis.switch.set_paused(port, class, false);
                }
                self.transmit(now, index);
            }
            Node::Host(host) => {
                self.nics[host.0 as usize].paused = 0;
                self.kick(now, host.0);
            }
        }
    }

    fn schedule_wake(&mut self, now: Time, index: u32) {
        let nic = &mut self.nics[index as usize];
        let Some(due) = nic.host.next_wakeup() else { return };
        // What is due already waits for the transmitter or for a resume, and either will look again.
        if due <= now || nic.wake.is_some_and(|pending| pending <= due) {
            return;
        }
        nic.wake = Some(due);
        self.events.push(due, Event::Wake(index));
    }

    fn wake(&mut self, now: Time, index: u32) {
        let nic = &mut self.nics[index as usize];
        if nic.wake != Some(now) {
            return; // an earlier one has replaced it
        }
        nic.wake = None;
        nic.host.wakeup(now);
        self.kick(now, index);
    }

    fn arrive_pfc(&mut self, now: Time, index: u32) {
        let direction = &mut self.directions[index as usize];
        let (to, port, reverse) = (direction.to, direction.to_port, direction.reverse);
        let Some((frame, next)) = direction.arrive_pfc() else { return };
        let lost = direction.befalls(now);
        if let Some(time) = next {
            self.events.push(time, Event::Pfc(index));
        }
        if let Some(lost) = lost {
            *self.lost.entry(lost.name()).or_default() += 1;
            return;
        }
        match to {
            Node::Switch(switch) => {
                let chassis = &mut self.switches[switch.0 as usize];
                if chassis.switch.set_paused(port, frame.priority, frame.on) {
                    self.transmit(now, reverse);
                }
            }
            Node::Host(host) => {
                let bit = 1u8.checked_shl(u32::from(frame.priority)).unwrap_or(0);
                let nic = &mut self.nics[host.0 as usize];
                if frame.on {
                    nic.paused |= bit;
                } else {
                    nic.paused &= !bit;
                    self.kick(now, host.0);
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

/// One step of the fingerprint (FxHash's multiply and rotate: cheap, order-sensitive).
#[inline]
fn fold(hash: u64, now: Time, direction: u32, length: u32) -> u64 {
    const K: u64 = 0x517c_c1b7_2722_0a95;
    let word = now.as_ps() ^ (u64::from(direction) << 40) ^ (u64::from(length) << 16);
    (hash.rotate_left(5) ^ word).wrapping_mul(K)
}
