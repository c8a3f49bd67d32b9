//! One switch of a data plane with its ports: receives and sends its frames.

mod links;

use super::clock::MonotonicClock;
use super::config::{DataplaneConfig, FrameSource};
use super::event::{DataplaneEvent, Subscribers};
use super::packet_log;
use super::poll::EpollSet;
use super::port::{LinkEnd, PlugState, Port};
use super::port_link::{Lateness, LinkDirection};
use super::replay::Replay;
use super::stats::{IoDrop, IoDrops};
use super::timers::{Timer, TimerKind, Timers};
use crate::engine::{Switch, SwitchOutput};
use crate::packet::{Packet, PacketPool};
use crate::pipeline::Digest;
use crate::tm::{MAX_CATCH_UP, MAX_PORT, PauseQuanta, QueueLimits, Rate};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_units::Time;

/// Maximum number of frames read from a port per batch. It is below BMv2's queue of 64 packets, so that a burst at
/// full speed fits into an empty queue.
pub(super) const RX_BATCH: usize = 32;
/// Maximum number of packets per switch and round that enter the pipeline again (by resubmission, recirculation or a
/// clone).
const REENTRY_BATCH: u32 = 256;
/// The time for which a switch processes no packets after a loop of its program did not terminate, so that other
/// switches run and commands are handled.
const OVERRUN_PAUSE: Time = Time::from_ms(5);
/// Number of port numbers.
pub(super) const PORTS: usize = MAX_PORT as usize + 1;
/// Marks a port number without a port in [`Runtime::port_index`].
pub(super) const NO_PORT: u16 = u16::MAX;

/// A command, run on the data-plane thread between two batches of frames.
pub(super) type Command = Box<dyn FnOnce(&mut Runtime) + Send>;

/// Capacity of the command queue of a switch. While it is full, calls block and packet-outs fail.
pub(super) const MAX_COMMANDS: usize = 1024;

/// Receives the switch's output: ready ports, digests and free packets.
pub(super) struct Output {
    /// Ports that may send now, each at most once.
    ready_ports: Vec<u16>,
    /// By port number: whether the port is in `ready_ports` or waits for `due`.
    is_active: Box<[bool; PORTS]>,
    /// By port number: [`Time::ZERO`] if the port is in `ready_ports` or idle, [`Time::MAX`] if it waits for
    /// a writable socket, otherwise the time at which its rate allows the next packet.
    due: Box<[Time; PORTS]>,
    pub pool: PacketPool,
    pub subscribers: Subscribers,
    pub digests_lost: u64,
    /// True if packets wait to enter the pipeline again.
    pub has_reentries: bool,
    /// True after a loop of the program did not terminate, until [`Runtime::is_paused`] has set the pause.
    loop_stopped: bool,
}

impl SwitchOutput for Output {
    #[inline]
    fn ready(&mut self, port: u16) {
        let index = usize::from(port);
        let Some(is_active) = self.is_active.get_mut(index) else { return };
        // A port that waits for its rate is tried again: the new packet may be in another queue and be due
        // earlier.
        let waits_for_rate = self.due[index] > Time::ZERO && self.due[index] < Time::MAX;
        if !std::mem::replace(is_active, true) || waits_for_rate {
            self.due[index] = Time::ZERO;
            self.ready_ports.push(port);
        }
    }
    /// Never called: PFC is not configured, because no neighbour of this driver's ports handles pause frames.
    fn pause(&mut self, _: u16, _: u8, _: PauseQuanta) {}
    #[inline]
    fn recycle(&mut self, packet: Box<Packet>) {
        self.pool.put(packet);
    }
    fn reentry_deferred(&mut self) {
        self.has_reentries = true;
    }
    fn loop_stopped(&mut self) {
        self.loop_stopped = true;
    }
    fn warn(&mut self, message: String) {
        tracing::warn!("{message}");
    }
    fn digest(&mut self, digest: Digest) {
        self.digests_lost += u64::from(!self.subscribers.notify(DataplaneEvent::Digest(&digest)));
    }
}

/// The reason why a port stopped sending.
enum TransmitStatus {
    /// The switch has no packet for the port.
    Idle,
    /// The rate allows the next packet at this time. [`Time::MAX`]: the socket is full; the port waits until
    /// it is writable.
    Until(Time),
}

/// A switch with its ports. [`super::commands`] has the operations of the control plane.
pub(super) struct Runtime {
    pub clock: MonotonicClock,
    pub config: DataplaneConfig,
    /// Index of the switch in the data plane.
    pub index: u16,
    pub switch: Option<Box<Switch>>,
    pub ports: Vec<Port>,
    /// True if ports were added or removed, or links plugged or unplugged; the event loop resets it.
    pub ports_changed: bool,
    /// Ports whose internal link was plugged in or unplugged at the local end; the event loop notifies the peer.
    pub plug_changes: Vec<(u16, PlugState)>,
    /// Index into `ports` by port number; [`NO_PORT`] if none.
    pub port_index: Box<[u16; PORTS]>,
    /// By port number, the time of the last transmit timer that was armed and has not fired; [`Time::ZERO`] if there
    /// is none.
    armed_for: Box<[Time; PORTS]>,
    /// The switch's time for events on links with a rate. It may be behind the clock, by at most [`MAX_CATCH_UP`]
    /// (the lateness for which a shaper compensates), and never goes back.
    virtual_now: Time,
    /// The switch receives and sends no packets until this time, see [`OVERRUN_PAUSE`]; [`Time::ZERO`] if it is not
    /// paused.
    pub paused_until: Time,
    pub out: Output,
    pub epoll_set: Arc<EpollSet>,
    pub replay: Replay,
    /// Rates that were set, by port and priority (`None`: the port). They also apply to programs installed later.
    pub rates: BTreeMap<(u16, Option<u8>), Rate>,
    /// Limits that were set, by port and priority. They also apply to programs installed later.
    pub limits: BTreeMap<(u16, u8), QueueLimits>,
    pub portless_drops: IoDrops,
    pub packet_in: u64,
    pub packet_out: u64,
    /// Both directions of the links of removed ports, by port number: their counters are kept, and continue
    /// if the port returns.
    pub detached_links: BTreeMap<u16, [Option<LinkDirection>; 2]>,
    /// Lateness of frames that left links for interfaces.
    pub lateness: Lateness,
    pub is_running: bool,
}

impl Runtime {
    pub(super) fn new(
        index: u16,
        config: DataplaneConfig,
        clock: MonotonicClock,
        epoll_set: Arc<EpollSet>,
    ) -> Runtime {
        let link_rates =
            config.port_links.iter().filter_map(|(&port, config)| Some((port, config.link.rate?)));
        let rates = config.port_rates.iter().map(|(&port, &rate)| (port, rate)).chain(link_rates);
        let rates = rates.map(|(port, rate)| ((port, None), Rate::Bits(rate))).collect();
        Runtime {
            clock,
            config,
            index,
            switch: None,
            ports: Vec::new(),
            ports_changed: true,
            plug_changes: Vec::new(),
            port_index: Box::new([NO_PORT; PORTS]),
            armed_for: Box::new([Time::ZERO; PORTS]),
            virtual_now: Time::ZERO,
            paused_until: Time::ZERO,
            out: Output {
                ready_ports: Vec::with_capacity(PORTS),
                is_active: Box::new([false; PORTS]),
                due: Box::new([Time::ZERO; PORTS]),
                pool: PacketPool::new(),
                subscribers: Subscribers::default(),
                digests_lost: 0,
                has_reentries: false,
                loop_stopped: false,
            },
            epoll_set,
            replay: Replay::default(),
            rates,
            limits: BTreeMap::new(),
            portless_drops: IoDrops::default(),
            packet_in: 0,
            packet_out: 0,
            detached_links: BTreeMap::new(),
            lateness: Lateness::default(),
            is_running: true,
        }
    }

    /// Returns the port with this number.
    #[inline]
    pub(super) fn port(&mut self, number: u16) -> Option<&mut Port> {
        let index = *self.port_index.get(usize::from(number))?;
        self.ports.get_mut(usize::from(index))
    }

    /// Returns whether the switch must not process packets now, because a loop of its program did not terminate.
    #[inline]
    pub(super) fn is_paused(&mut self) -> bool {
        if std::mem::take(&mut self.out.loop_stopped) {
            self.paused_until = self.clock.now().saturating_add(OVERRUN_PAUSE);
        }
        self.paused_until > Time::ZERO && self.is_pause_active()
    }

    /// Ends the pause if its time is over. Returns whether the switch is still paused.
    #[cold]
    fn is_pause_active(&mut self) -> bool {
        if self.clock.now() >= self.paused_until {
            self.paused_until = Time::ZERO;
        }
        self.paused_until > Time::ZERO
    }

    /// Installs a switch, which replaces the old one.
    pub(super) fn replace_switch(&mut self, mut switch: Box<Switch>) -> Option<Box<Switch>> {
        switch.set_reentry_batch(REENTRY_BATCH);
        (self.out.has_reentries, self.out.loop_stopped, self.paused_until) = (false, false, Time::ZERO);
        self.switch.replace(switch)
    }

    /// Runs a batch of the packets that wait to enter the pipeline again.
    pub(super) fn run_reentries(&mut self, timers: &mut Timers) {
        if self.is_paused() {
            return;
        }
        self.sync_time();
        let Runtime { switch, out, config, virtual_now, .. } = self;
        out.has_reentries = false;
        if let Some(switch) = switch {
            out.has_reentries = match config.is_logged() {
                true => packet_log::run_reentries(switch, config, *virtual_now, out),
                false => switch.run_reentries(*virtual_now, out),
            };
        }
        self.transmit_ready(timers);
    }

    /// Reads a batch of frames from an interface into the switch. Returns whether there were any. `index`
    /// is an index into `ports`.
    pub(super) fn receive_batch(&mut self, index: usize, timers: &mut Timers) -> bool {
        if self.ports[index].ingress_link.is_some() {
            return self.receive_into_link(index, timers);
        }
        if self.is_paused() {
            return false;
        }
        let Runtime { ports, switch, out, clock, config, virtual_now, .. } = self;
        let port = &mut ports[index];
        let mut unprocessed = 0;
        let frames = port.receive(RX_BATCH, |number, _, frame| match switch {
            Some(switch) => {
                let now = clock.now();
                *virtual_now = now;
                receive(switch, config, now, number, frame, out);
                !out.loop_stopped
            }
            None => {
                unprocessed += 1;
                true
            }
        });
        port.counters.dropped.add(IoDrop::NoProgram, unprocessed);
        frames > 0
    }

    /// Passes a frame that arrived on a link at time `arrival` to the switch.
    pub(super) fn deliver(&mut self, arrival: Time, now: Time, number: u16, packet: Box<Packet>) {
        self.advance(arrival, now);
        let virtual_now = self.virtual_now;
        let Some(port) = self.port(number) else { return self.out.pool.put(packet) };
        port.count_received(packet.bytes());
        let Runtime { switch: Some(switch), config, out, .. } = self else {
            let port = &mut self.ports[usize::from(self.port_index[usize::from(number)])];
            port.counters.dropped.add(IoDrop::NoProgram, 1);
            return self.out.pool.put(packet);
        };
        if config.is_logged() {
            packet_log::receive(switch, config, virtual_now, number, packet, out);
        } else {
            switch.receive(virtual_now, number, packet, out);
        }
    }

    /// Sets this switch's time to the clock.
    pub(super) fn sync_time(&mut self) {
        self.virtual_now = self.clock.now();
    }

    /// Advances this switch's time to `time`: never backwards, and never to more than [`MAX_CATCH_UP`] behind
    /// the clock.
    fn advance(&mut self, time: Time, now: Time) {
        self.virtual_now = self.virtual_now.max(time).max(now.saturating_sub(MAX_CATCH_UP));
    }

    /// Returns the earliest time for the next frame of the input files; [`Time::MAX`] if there is none.
    pub(super) fn next_replay(&self) -> Time {
        match self.config.frames {
            FrameSource::Files { wait, .. } if !self.replay.is_done() => wait,
            _ => Time::MAX,
        }
    }

    /// Passes the next frame of the input files to the switch, if the initial delay is over. Returns whether
    /// there was one. Frames are read one at a time, so that none is lost to a full queue.
    pub(super) fn replay_one(&mut self) -> bool {
        let FrameSource::Files { wait, .. } = self.config.frames else { return false };
        let now = self.clock.now();
        if now < wait || self.replay.is_done() || self.is_paused() {
            return false;
        }
        self.virtual_now = now;
        let Runtime { ports, port_index, switch, out, config, replay, .. } = self;
        let read = replay.next(|number, frame| {
            let port = &mut ports[usize::from(port_index[usize::from(number)])];
            port.count_received(frame);
            match switch {
                Some(switch) => receive(switch, config, now, number, frame, out),
                None => port.counters.dropped.add(IoDrop::NoProgram, 1),
            }
        });
        if let Err(error) = read {
            tracing::error!(%error, "cannot read the input file further; skipping the rest");
        }
        if self.replay.is_done() {
            tracing::info!("all input files have been replayed");
        }
        true
    }

    /// Sends the packets of all ready ports.
    #[inline]
    pub(super) fn transmit_ready(&mut self, timers: &mut Timers) {
        // Not an iterator: egress can make further ports ready, for example by a clone, which extends the list.
        let mut next = 0;
        while let Some(&port) = self.out.ready_ports.get(next) {
            next += 1;
            let number = usize::from(port);
            let index = self.port_index[number];
            let status = match index {
                _ if self.is_paused() => TransmitStatus::Until(self.paused_until),
                NO_PORT => self.transmit_unattached(port),
                index if self.ports[usize::from(index)].egress_link.is_some() => {
                    self.transmit_to_link(port, usize::from(index), timers)
                }
                index => self.transmit(port, usize::from(index)),
            };
            match status {
                TransmitStatus::Until(due) => {
                    self.out.due[number] = due;
                    // The timer is armed once per due time.
                    if due < Time::MAX && std::mem::replace(&mut self.armed_for[number], due) != due {
                        timers.push(Timer { due, switch: self.index, port, kind: TimerKind::TransmitReady });
                    }
                }
                TransmitStatus::Idle => {
                    self.out.due[number] = Time::ZERO;
                    self.out.is_active[number] = false;
                }
            }
        }
        self.out.ready_ports.clear();
    }

    /// Handles a transmit timer. An outdated timer has no effect.
    pub(super) fn resume(&mut self, timer: Timer, now: Time) {
        let number = usize::from(timer.port);
        if self.armed_for[number] == timer.due {
            self.armed_for[number] = Time::ZERO;
        }
        if self.out.due[number] == timer.due {
            self.advance(timer.due, now);
            self.wake_port(timer.port);
        }
    }

    /// Makes an active port ready, even if it waits for its rate or its socket.
    pub(super) fn wake_port(&mut self, port: u16) {
        let number = usize::from(port);
        if self.out.is_active[number] && std::mem::take(&mut self.out.due[number]) > Time::ZERO {
            self.out.ready_ports.push(port);
        }
    }

    /// Dequeues the packets of a port without interface: to the controller if it is the CPU port; others are
    /// dropped.
    fn transmit_unattached(&mut self, number: u16) -> TransmitStatus {
        let Some(switch) = &mut self.switch else { return TransmitStatus::Idle };
        let out = &mut self.out;
        while let Some(packet) = transmit(switch, &self.config, self.clock.now(), number, out) {
            if self.config.cpu_port == Some(number) {
                let accepted = out.subscribers.notify(DataplaneEvent::PacketIn { frame: packet.bytes() });
                self.packet_in += u64::from(accepted);
                self.portless_drops.add(IoDrop::PacketInLost, u64::from(!accepted));
            } else {
                self.portless_drops.add(IoDrop::NoInterface, 1);
            }
            out.pool.put(packet);
        }
        TransmitStatus::from_queues(switch, number)
    }

    /// Sends on an interface until the switch has nothing ready or the socket is full. On a port with a rate,
    /// a packet gets the time at which the rate released it, not the time of this call.
    fn transmit(&mut self, number: u16, index: usize) -> TransmitStatus {
        let Some(switch) = &mut self.switch else { return TransmitStatus::Idle };
        let has_rate = self.config.port_rates.contains_key(&number);
        let (port, out) = (&mut self.ports[index], &mut self.out);
        loop {
            let mut has_more = true;
            while has_more && port.has_room() {
                let now = if has_rate { self.virtual_now } else { self.clock.now() };
                match transmit(switch, &self.config, now, number, out) {
                    Some(packet) => port.push(Time::ZERO, packet, &mut out.pool),
                    None => has_more = false,
                }
            }
            if !port.flush(&mut out.pool) {
                self.epoll_set.watch_writable(self.index, port);
                return TransmitStatus::Until(Time::MAX);
            }
            if !has_more {
                return TransmitStatus::from_queues(switch, number);
            }
        }
    }

    /// Called when a port's socket is writable again.
    pub(super) fn on_writable(&mut self, number: u16, timers: &mut Timers) {
        let Runtime { ports, port_index, epoll_set, .. } = self;
        let index = port_index.get(usize::from(number));
        if let Some(port) = index.and_then(|&index| ports.get_mut(usize::from(index))) {
            port.tx_blocked = false;
            epoll_set.unwatch_writable(port);
            self.retry_transmit(number, timers);
        }
    }

    /// Continues sending on a port whose socket was full or whose interface changed.
    fn retry_transmit(&mut self, number: u16, timers: &mut Timers) {
        self.sync_time();
        self.wake_port(number);
        self.flush_link(number, self.virtual_now);
        self.arm_link_timer(number, timers);
    }

    /// Reads the state of all interfaces again, and reports changes to subscribers.
    pub(super) fn refresh_ports(&mut self, timers: &mut Timers) {
        for index in 0..self.ports.len() {
            let port = &mut self.ports[index];
            if port.peer().is_some() {
                continue;
            }
            let (number, was_up, was_blocked) = (port.number, port.up, port.tx_blocked);
            port.tx_blocked = false;
            let renewed = port.refresh();
            let is_up = port.up;
            if renewed {
                self.epoll_set.watch(self.index, port);
            }
            if is_up != was_up {
                self.notify_port_state(number, is_up);
            }
            if renewed || was_blocked || is_up != was_up {
                // The event that the port waited for may belong to a socket that was closed.
                self.retry_transmit(number, timers);
            }
        }
    }

    /// Plugs an end of an internal link in, or unplugs it.
    pub(super) fn set_plug_state(&mut self, number: u16, end: LinkEnd, state: PlugState) {
        let Some(port) = self.port(number) else { return };
        if port.set_plug_state(end, state) {
            let up = port.up;
            self.notify_port_state(number, up);
        }
        if end == LinkEnd::Local {
            self.plug_changes.push((number, state));
            self.ports_changed = true;
        }
    }

    fn notify_port_state(&mut self, number: u16, up: bool) {
        let name = self.port(number).map_or("", |port| port.name.as_str());
        tracing::info!(port = number, interface = %name, up, "port state changed");
        self.update_watch_ports();
        self.out.subscribers.notify(DataplaneEvent::Port { port: number, up });
    }

    /// Tells the switch which ports are up, for the watch ports of its groups. The CPU port always is.
    pub(super) fn update_watch_ports(&mut self) {
        let Some(switch) = &mut self.switch else { return };
        let ports = self.ports.iter().filter(|port| port.up).map(|port| port.number);
        switch.pipeline_mut().set_ports_up(Some(ports.chain(self.config.cpu_port).collect()));
    }

    /// Flushes capture and output files to the operating system.
    pub(super) fn flush_files(&mut self) {
        if self.config.capture.is_some() || matches!(self.config.frames, FrameSource::Files { .. }) {
            self.ports.iter_mut().for_each(Port::flush_files);
        }
    }
}

impl TransmitStatus {
    /// Returns the status of a port after everything ready has been sent.
    fn from_queues(switch: &Switch, port: u16) -> TransmitStatus {
        switch.next_ready(port).map_or(TransmitStatus::Idle, TransmitStatus::Until)
    }
}

/// Passes a frame to the switch.
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
    if config.is_logged() {
        packet_log::receive(switch, config, now, port, packet, out);
    } else {
        switch.receive(now, port, packet, out);
    }
}

/// Dequeues a packet from the switch.
#[inline]
fn transmit(
    switch: &mut Switch,
    config: &DataplaneConfig,
    now: Time,
    port: u16,
    out: &mut Output,
) -> Option<Box<Packet>> {
    if config.is_logged() {
        packet_log::transmit(switch, config, now, port, out)
    } else {
        switch.transmit(now, port, out)
    }
}
