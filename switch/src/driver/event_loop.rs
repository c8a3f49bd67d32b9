//! The data-plane thread: reads frames, runs the switches, and sends frames.
//!
//! Each round reads one batch of frames from each interface, and sends everything that results from it before
//! the next interface. A flooded port therefore gets at most one batch per round, and no queue of a switch
//! grows by more than one batch at a time. The thread sleeps in epoll when all rings are empty. Under load it
//! does not sleep: batches grow, and a frame costs its share of a `sendmmsg` and no other system call. When
//! frames arrive faster than that, the ring is full and the kernel drops them, at the sender's expense.
//!
//! One thread moves the frames of all its switches. A frame between two of them is a box that moves from one
//! queue to another. Events on such a link are processed in order, each with the time that the rate and delay
//! of the link give it, so that telemetry is right even if the thread was descheduled for a while.

use super::clock::MonotonicClock;
use super::poll::Poll;
use super::port::{LinkEnd, Port};
use super::switch_runtime::{Command, RX_BATCH, Runtime};
use super::timers::{Timer, TimerKind, Timers};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use weir_units::Time;

/// Maximum number of commands run for one switch per round.
const COMMAND_BATCH: usize = 16;
/// Under load the thread does not sleep, so after this many rounds it polls epoll for link changes and writable
/// sockets.
const ROUNDS_BETWEEN_POLLS: u32 = 64;
/// Maximum number of timers that run between two batches of frames. A batch causes far fewer, so frames do not
/// accumulate on links; the bound keeps a flood of timers from starving rings and commands.
const TIMER_BATCH: u32 = 4096;
/// The thread spins instead of sleeping if the next deadline is nearer than this: a sleep and the wake-up take as long.
const SPIN_THRESHOLD: Time = Time::from_us(20);
/// Interval at which a missing interface is looked up again, in case the netlink notification of its return
/// is lost.
const INTERFACE_RETRY_INTERVAL: Time = Time::from_secs(1);

pub(super) struct EventLoop {
    clock: MonotonicClock,
    poll: Poll,
    switches: Vec<Runtime>,
    commands: Vec<Receiver<Command>>,
    commands_posted: Arc<AtomicU64>,
    /// The value of `commands_posted` when the command queues were last read.
    commands_seen: u64,
    timers: Timers,
    /// The ports on interfaces: index of the switch, and index of the port in it.
    external_ports: Vec<(u16, u16)>,
    /// Index into `external_ports` of the port at which the next round starts. It rotates, so that no port is always
    /// last.
    next_start: usize,
}

impl EventLoop {
    pub(super) fn new(
        clock: MonotonicClock,
        poll: Poll,
        switches: Vec<Runtime>,
        commands: Vec<Receiver<Command>>,
        commands_posted: Arc<AtomicU64>,
    ) -> EventLoop {
        let timers = Timers::default();
        EventLoop {
            clock,
            poll,
            switches,
            commands,
            commands_posted,
            commands_seen: 0,
            timers,
            external_ports: Vec::new(),
            next_start: 0,
        }
    }

    /// Runs the loop until a switch is stopped; returns the switches.
    pub(super) fn run(mut self) -> Vec<Runtime> {
        let mut rounds = 0;
        loop {
            // Due timers come before frames that are read now: their events carry the timer's time, which is
            // earlier.
            let mut did_work = self.run_timers();
            did_work |= self.run_commands();
            if self.switches.iter().any(|switch| !switch.is_running) {
                break;
            }
            did_work |= self.receive_round();
            did_work |= self.run_reentries();
            rounds += 1;
            if !did_work && self.sleep_or_spin() {
                rounds = 0;
            } else if rounds >= ROUNDS_BETWEEN_POLLS {
                self.poll(Some(Time::ZERO));
                rounds = 0;
            }
        }
        self.switches.iter_mut().flat_map(|switch| &mut switch.ports).for_each(Port::sync_counters);
        self.switches
    }

    /// Runs queued commands and sends what they released. Returns whether there were any.
    // Acquire pairs with the Release in `DataplaneHandle::wake`: the commands counted here are in the queues.
    fn run_commands(&mut self) -> bool {
        let posted = self.commands_posted.load(Ordering::Acquire);
        if posted == self.commands_seen {
            return false;
        }
        self.commands_seen = posted;
        for (switch, commands) in self.switches.iter_mut().zip(&self.commands) {
            let mut ran = 0;
            while let Ok(command) = commands.try_recv() {
                command(switch);
                ran += 1;
                if ran == COMMAND_BATCH {
                    // The queue may hold more; the next round reads it again.
                    self.commands_seen = posted.wrapping_sub(1);
                    break;
                }
            }
            if ran > 0 {
                switch.sync_time();
                switch.transmit_ready(&mut self.timers);
            }
        }
        if self.switches.iter_mut().fold(false, |any, switch| std::mem::take(&mut switch.ports_changed) | any)
        {
            self.rebuild_port_lists();
        }
        true
    }

    /// Runs the packets that wait to enter a pipeline again, one batch per switch and round. Returns whether there
    /// were any.
    fn run_reentries(&mut self) -> bool {
        let mut did_work = false;
        for switch in self.switches.iter_mut().filter(|switch| switch.out.has_reentries) {
            switch.run_reentries(&mut self.timers);
            did_work = true;
        }
        did_work
    }

    /// Collects the ports on interfaces again, and tells the other ends of internal links that a link was plugged in or
    /// unplugged.
    fn rebuild_port_lists(&mut self) {
        self.external_ports.clear();
        for index in 0..self.switches.len() {
            let external = self.switches[index].ports.iter().enumerate();
            let external = external.filter(|(_, port)| port.peer().is_none());
            self.external_ports.extend(external.map(|(port, _)| (index as u16, port as u16)));
            while let Some((port, state)) = self.switches[index].plug_changes.pop() {
                let peer = self.switches[index].port(port).and_then(|port| port.peer());
                if let Some((to, port)) = peer {
                    self.switches[usize::from(to)].set_plug_state(port, LinkEnd::Peer, state);
                }
            }
        }
    }

    /// Reads a batch from each interface and the next frame of the files. Returns whether there were any
    /// frames.
    fn receive_round(&mut self) -> bool {
        let mut did_work = false;
        for switch in &mut self.switches {
            if switch.replay_one() {
                did_work = true;
                switch.transmit_ready(&mut self.timers);
            }
        }
        let ports = self.external_ports.len();
        for turn in 0..ports {
            let (switch, port) = self.external_ports[(self.next_start + turn) % ports];
            let switch = &mut self.switches[usize::from(switch)];
            if switch.receive_batch(usize::from(port), &mut self.timers) {
                did_work = true;
                switch.transmit_ready(&mut self.timers);
                self.run_timers();
            }
        }
        if ports > 0 {
            self.next_start = (self.next_start + 1) % ports;
        }
        did_work
    }

    /// Runs due timers. Returns whether there were any.
    fn run_timers(&mut self) -> bool {
        let Some(mut next) = self.timers.next() else { return false };
        let mut now = self.clock.now();
        for ran in 0..TIMER_BATCH {
            if next > now {
                // All timers up to `now` are due. The clock is read again when the next one is later: one
                // read per batch of timers.
                now = self.clock.now();
            }
            let Some(timer) = self.timers.pop(now) else { return ran > 0 };
            match timer.kind {
                TimerKind::TransmitReady => {
                    let switch = &mut self.switches[usize::from(timer.switch)];
                    switch.resume(timer, now);
                    switch.transmit_ready(&mut self.timers);
                }
                TimerKind::LinkArrival => self.deliver_link(timer, now),
                TimerKind::IngressLinkArrival => {
                    self.switches[usize::from(timer.switch)].deliver_from_link(timer, now, &mut self.timers)
                }
            }
            match self.timers.next() {
                Some(due) => next = due,
                None => break,
            }
        }
        true
    }

    /// Moves frames that have arrived at the far end of a link to the interface or the switch there.
    fn deliver_link(&mut self, timer: Timer, now: Time) {
        let from = usize::from(timer.switch);
        let Some(port) = self.switches[from].port(timer.port) else { return };
        if port.egress_link.as_mut().is_some_and(|link| !link.timer_fired(timer.due)) {
            return;
        }
        let mut earliest = Time::ZERO;
        match port.peer() {
            Some((to, port)) => {
                self.forward_internal(from, timer.port, (usize::from(to), port), now);
                earliest = self.switches[usize::from(to)].paused_until;
            }
            None => self.switches[from].flush_link(timer.port, now),
        }
        self.switches[from].arm_link_timer_after(timer.port, earliest, &mut self.timers);
    }

    /// Passes frames that have arrived at the far end of an internal link to the switch there.
    fn forward_internal(&mut self, from: usize, port: u16, (to, peer_port): (usize, u16), now: Time) {
        for _ in 0..RX_BATCH {
            if self.switches[to].is_paused() {
                return;
            }
            let sender = &mut self.switches[from];
            let index = sender.port_index[usize::from(port)];
            let Some((arrival, packet)) =
                sender.ports[usize::from(index)].pop_arrived(now, &mut sender.out.pool)
            else {
                return;
            };
            let receiver = &mut self.switches[to];
            // The sender gets a box in exchange for the one that moves. Otherwise boxes would collect in the
            // pools of the switches at which frames leave the fabric.
            let spare = (!receiver.out.pool.is_empty()).then(|| receiver.out.pool.get());
            receiver.deliver(arrival, now, peer_port, packet);
            receiver.transmit_ready(&mut self.timers);
            if let Some(spare) = spare {
                self.switches[from].out.pool.put(spare);
            }
        }
    }

    /// Sleeps until an event or the next deadline; spins once if the deadline is near. Returns whether it
    /// slept.
    fn sleep_or_spin(&mut self) -> bool {
        let due = self.timers.next().unwrap_or(Time::MAX);
        let now = self.clock.now();
        if due.saturating_sub(now) < SPIN_THRESHOLD {
            std::hint::spin_loop();
            return false;
        }
        let mut wait = due.saturating_sub(now);
        for switch in &mut self.switches {
            switch.flush_files();
            wait = wait.min(switch.next_replay().saturating_sub(now));
            if switch.paused_until > now {
                wait = wait.min(switch.paused_until.saturating_sub(now));
            }
        }
        let is_absent = |&(switch, port): &(u16, u16)| {
            self.switches[usize::from(switch)].ports[usize::from(port)].is_absent()
        };
        if self.external_ports.iter().any(is_absent) {
            wait = wait.min(INTERFACE_RETRY_INTERVAL);
            self.poll.events.links_changed = true;
        }
        self.poll((wait < Time::MAX.saturating_sub(now)).then_some(wait));
        true
    }

    /// Waits for events, then handles writable sockets and changed interfaces. `None` waits without limit.
    fn poll(&mut self, timeout: Option<Time>) {
        self.poll.wait(timeout);
        while let Some((switch, port)) = self.poll.events.writable.pop() {
            if let Some(switch) = self.switches.get_mut(usize::from(switch)) {
                switch.on_writable(port, &mut self.timers);
                switch.transmit_ready(&mut self.timers);
            }
        }
        if std::mem::take(&mut self.poll.events.links_changed) {
            for switch in &mut self.switches {
                switch.refresh_ports(&mut self.timers);
                switch.transmit_ready(&mut self.timers);
            }
        }
    }
}
