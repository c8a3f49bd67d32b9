//! The data-plane thread: frames in, through the switch, frames out.
//!
//! A round asks each port for a batch of frames and sends all that follows from it before it asks the
//! next, so that a port that is flooded takes one batch of a round and no more, and no queue of the
//! switch sees more than a batch at once. When all rings are empty the thread sleeps in epoll. Under
//! load it does not come to that: batches grow by themselves, a frame costs no system call but its share
//! of a `sendmmsg`, and what is too much is dropped by the kernel where it finds the ring full, on the
//! time of its sender.

use super::clock::MonotonicClock;
use super::config::{DataplaneConfig, Frames};
use super::handle::Command;
use super::notice::{Notice, Subscribers};
use super::poll::Poll;
use super::port::Port;
use super::replay::Replay;
use super::stats::{IoDrop, IoDrops};
use super::watch;
use crate::engine::{Switch, SwitchOutput};
use crate::packet::{Packet, PacketPool};
use crate::pipeline::Digest;
use crate::tm::{MAX_PORT, QueueLimits, Rate};
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use weir_units::Time;

/// Frames taken from a port at once: below BMv2's 64 packets of queue, so that a burst that comes in at
/// full speed finds room.
const RX_BATCH: usize = 32;
/// Commands run between two rounds.
const COMMAND_BATCH: usize = 16;
/// Rounds under load between two looks at what else may have happened (links, writable sockets).
const ROUNDS_BETWEEN_POLLS: u32 = 64;
/// A deadline nearer than this is waited for awake: sleep and wake-up take as long.
const SPIN: Time = Time::from_us(20);
/// How late a departure may be without showing; as much as a shaper makes good.
const LATE: Time = Time::from_ms(1);
/// How often an interface that is gone is looked for, should news of its return get lost.
const RETRY: Time = Time::from_secs(1);
pub(super) const PORTS: usize = MAX_PORT as usize + 1;
pub(super) const NO_PORT: u16 = u16::MAX;

/// What the switch says while it works.
pub(super) struct Output {
    /// Ports with something to send, each once.
    active: Vec<u16>,
    is_active: Box<[bool; PORTS]>,
    pub pool: PacketPool,
    pub subscribers: Subscribers,
    pub digests_lost: u64,
}

impl SwitchOutput for Output {
    #[inline]
    fn ready(&mut self, port: u16) {
        if let Some(listed) = self.is_active.get_mut(usize::from(port))
            && !std::mem::replace(listed, true)
        {
            self.active.push(port);
        }
    }
    /// No port of this driver has a neighbour that heeds pause frames: PFC is not configured.
    fn pause(&mut self, _: u16, _: u8, _: bool) {}
    #[inline]
    fn recycle(&mut self, packet: Box<Packet>) {
        self.pool.put(packet);
    }
    fn digest(&mut self, digest: Digest) {
        self.digests_lost += u64::from(!self.subscribers.tell(Notice::Digest(&digest)));
    }
}

/// Why a port sends no more.
enum Pause {
    /// Nothing waits.
    Idle,
    /// Its rate allows the next packet then; [`Time::MAX`]: when its socket becomes writable.
    Until(Time),
}

/// The state of the thread. What commands do with it is in [`super::control`].
pub(super) struct Runtime {
    pub clock: MonotonicClock,
    pub config: DataplaneConfig,
    pub switch: Option<Box<Switch>>,
    pub ports: Vec<Port>,
    /// Index into `ports`, by port number.
    pub index: Box<[u16; PORTS]>,
    /// When an active port may go on.
    pub due: Box<[Time; PORTS]>,
    pub out: Output,
    pub poll: Poll,
    commands: Receiver<Command>,
    pub replay: Replay,
    /// Where the next round begins.
    first: usize,
    /// Rates and limits that were set, for the programs to come.
    pub rates: BTreeMap<(u16, Option<u8>), Rate>,
    pub limits: BTreeMap<(u16, u8), QueueLimits>,
    pub elsewhere: IoDrops,
    pub packet_in: u64,
    pub packet_out: u64,
    pub running: bool,
}

impl Runtime {
    pub fn new(config: DataplaneConfig, poll: Poll, commands: Receiver<Command>) -> Runtime {
        let rates = config.wires.iter().map(|(&port, wire)| ((port, None), Rate::Bits(wire.rate))).collect();
        Runtime {
            clock: MonotonicClock::start(),
            config,
            switch: None,
            ports: Vec::new(),
            index: Box::new([NO_PORT; PORTS]),
            due: Box::new([Time::ZERO; PORTS]),
            out: Output {
                active: Vec::with_capacity(PORTS),
                is_active: Box::new([false; PORTS]),
                pool: PacketPool::new(),
                subscribers: Subscribers::default(),
                digests_lost: 0,
            },
            poll,
            commands,
            replay: Replay::default(),
            first: 0,
            rates,
            limits: BTreeMap::new(),
            elsewhere: IoDrops::default(),
            packet_in: 0,
            packet_out: 0,
            running: true,
        }
    }

    /// Forwards until told to stop.
    pub fn run(&mut self) {
        let mut rounds = 0;
        while self.running {
            let mut worked = self.run_commands();
            worked |= self.receive_round();
            worked |= self.transmit_ready();
            worked |= self.land_frames();
            rounds += 1;
            if !worked && self.rest() {
                rounds = 0;
            } else if rounds >= ROUNDS_BETWEEN_POLLS {
                self.poll(Some(Time::ZERO));
                rounds = 0;
            }
        }
        self.ports.iter_mut().for_each(Port::settle);
    }

    fn run_commands(&mut self) -> bool {
        for ran in 0..COMMAND_BATCH {
            match self.commands.try_recv() {
                Ok(command) => command(self),
                Err(_) => return ran > 0,
            }
        }
        true
    }

    /// A batch from each port. `true` if there was any.
    fn receive_round(&mut self) -> bool {
        let ports = self.ports.len();
        let mut worked = self.replay_one();
        for turn in 0..ports {
            let at = (self.first + turn) % ports;
            if self.receive_batch(at) {
                worked = true;
                self.transmit_ready();
            }
        }
        if ports > 0 {
            self.first = (self.first + 1) % ports;
        }
        worked
    }

    fn receive_batch(&mut self, at: usize) -> bool {
        let Runtime { ports, switch, out, clock, config, .. } = self;
        let port = &mut ports[at];
        let mut without_program = 0;
        let frames = port.receive(RX_BATCH, |number, frame| match switch {
            Some(switch) => receive(switch, config, clock.now(), number, frame, out),
            None => without_program += 1,
        });
        port.counters.dropped.add(IoDrop::NoProgram, without_program);
        frames > 0
    }

    /// The next frame of the files, if its time has come. One at a time: none is lost to a full queue.
    fn replay_one(&mut self) -> bool {
        let Frames::Files { wait, .. } = self.config.frames else { return false };
        let now = self.clock.now();
        if now < wait || self.replay.is_done() {
            return false;
        }
        let Runtime { ports, index, switch, out, config, replay, .. } = self;
        let taken = replay.next(|number, frame| {
            let port = &mut ports[usize::from(index[usize::from(number)])];
            port.count_received(frame);
            match switch {
                Some(switch) => receive(switch, config, now, number, frame, out),
                None => port.counters.dropped.add(IoDrop::NoProgram, 1),
            }
        });
        if let Err(error) = taken {
            tracing::error!(%error, "the rest of this file is left out");
        }
        if self.replay.is_done() {
            tracing::info!("end of all input files");
        }
        true
    }

    /// Sends what the switch has ready. `true` if there was any.
    fn transmit_ready(&mut self) -> bool {
        let mut worked = false;
        let mut at = 0;
        while let Some(&port) = self.out.active.get(at) {
            let slot = usize::from(port);
            if self.due[slot] > Time::ZERO && self.due[slot] > self.clock.now() {
                at += 1;
                continue;
            }
            let (sent, pause) = self.transmit(port);
            worked |= sent;
            match pause {
                Pause::Until(due) => {
                    self.due[slot] = due;
                    at += 1;
                }
                Pause::Idle => {
                    self.due[slot] = Time::ZERO;
                    self.out.is_active[slot] = false;
                    self.out.active.swap_remove(at);
                }
            }
        }
        worked
    }

    /// Sends what a port may send now. Whether it sent anything, and why it sends no more.
    fn transmit(&mut self, number: u16) -> (bool, Pause) {
        let Some(switch) = &mut self.switch else { return (false, Pause::Idle) };
        let out = &mut self.out;
        let mut worked = false;
        let port = match self.index[usize::from(number)] {
            NO_PORT => None,
            at => Some(&mut self.ports[usize::from(at)]),
        };
        let Some(port) = port else {
            while let Some(packet) = transmit(switch, &self.config, self.clock.now(), number, out) {
                worked = true;
                if self.config.cpu_port == Some(number) {
                    let taken = out.subscribers.tell(Notice::PacketIn { frame: packet.bytes() });
                    self.packet_in += u64::from(taken);
                    self.elsewhere.add(IoDrop::PacketInLost, u64::from(!taken));
                } else {
                    self.elsewhere.add(IoDrop::NoInterface, 1);
                }
                out.pool.put(packet);
            }
            return (worked, Pause::after(switch, number));
        };
        loop {
            let mut more = true;
            while more && port.has_room() {
                let now = departure(self.clock.now(), self.due[usize::from(number)], port);
                match transmit(switch, &self.config, now, number, out) {
                    Some(packet) => port.push(now, packet),
                    None => more = false,
                }
                worked |= more;
            }
            if !port.flush(&mut out.pool) {
                self.poll.add_sender(port);
                return (worked, Pause::Until(Time::MAX));
            }
            if !more || port.under_way.is_some() {
                return (worked, Pause::after(switch, number));
            }
        }
    }

    /// Brings frames from the cables to the interfaces. `true` if there were any.
    fn land_frames(&mut self) -> bool {
        let Runtime { ports, config, clock, out, poll, .. } = self;
        if config.wires.is_empty() {
            return false;
        }
        let now = clock.now();
        let mut worked = false;
        for port in ports.iter_mut() {
            while port.land(now) {
                worked = true;
                if !port.flush(&mut out.pool) {
                    poll.add_sender(port);
                }
            }
        }
        worked
    }

    /// Nothing to do: sleeps until there is, or stays awake for a deadline that is near. Whether it slept.
    fn rest(&mut self) -> bool {
        let sends = self.out.active.iter().map(|&port| self.due[usize::from(port)]);
        let landings = self.ports.iter().filter_map(Port::next_landing);
        let due = sends.chain(landings).min().unwrap_or(Time::MAX);
        let now = self.clock.now();
        if due.saturating_sub(now) < SPIN {
            std::hint::spin_loop();
            return false;
        }
        self.ports.iter_mut().for_each(Port::flush_files);
        let mut wait = due.saturating_sub(now);
        if let Frames::Files { wait: start, .. } = self.config.frames
            && !self.replay.is_done()
        {
            wait = wait.min(start.saturating_sub(now));
        }
        if self.ports.iter().any(Port::is_absent) {
            wait = wait.min(RETRY);
            self.poll.woken.links = true;
        }
        self.poll((wait < Time::MAX.saturating_sub(now)).then_some(wait));
        true
    }

    /// Waits, and deals with what is neither frame nor command.
    fn poll(&mut self, timeout: Option<Time>) {
        self.poll.wait(timeout);
        while let Some(number) = self.poll.woken.writable.pop() {
            self.due[usize::from(number)] = Time::ZERO;
            let Some(&at) = self.index.get(usize::from(number)) else { continue };
            if let Some(port) = self.ports.get_mut(usize::from(at)) {
                port.is_stalled = false;
                self.poll.remove_sender(port);
            }
        }
        if std::mem::take(&mut self.poll.woken.links) {
            self.refresh_ports();
        }
    }

    fn refresh_ports(&mut self) {
        for port in &mut self.ports {
            let was_up = port.up;
            port.is_stalled = false;
            if port.refresh() {
                // A sender that was waited for is gone with its port's old sockets.
                self.due[usize::from(port.number)] = Time::ZERO;
                self.poll.watch(port);
            }
            if port.up != was_up {
                tracing::info!(port = port.number, interface = %port.name, up = port.up, "port changed");
                self.due[usize::from(port.number)] = Time::ZERO;
                self.out.subscribers.tell(Notice::Port { port: port.number, up: port.up });
            }
        }
    }
}

/// The time of a departure: now, but on a cable the moment that its rate made possible, if that is just over.
/// Telemetry then reports the rate of the cable, not that of this thread's awakenings.
fn departure(now: Time, due: Time, port: &Port) -> Time {
    if port.under_way.is_some() && due > Time::ZERO && due < now {
        due.max(now.saturating_sub(LATE))
    } else {
        now
    }
}

impl Pause {
    fn after(switch: &Switch, port: u16) -> Pause {
        switch.next_ready(port).map_or(Pause::Idle, Pause::Until)
    }
}

/// Gives a frame to the switch.
#[inline]
pub(super) fn receive(
    switch: &mut Switch,
    config: &DataplaneConfig,
    now: Time,
    port: u16,
    frame: &[u8],
    out: &mut Output,
) {
    let mut packet = out.pool.get();
    packet.set_bytes(frame);
    if config.is_watched() {
        watch::receive(switch, config, now, port, packet, out);
    } else {
        switch.receive(now, port, packet, out);
    }
}

/// Takes a frame from the switch.
#[inline]
fn transmit(
    switch: &mut Switch,
    config: &DataplaneConfig,
    now: Time,
    port: u16,
    out: &mut Output,
) -> Option<Box<Packet>> {
    if config.is_watched() {
        watch::transmit(switch, config, now, port, out)
    } else {
        switch.transmit(now, port, out)
    }
}
