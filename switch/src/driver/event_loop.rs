//! The data-plane thread: it reads frames, runs the switches, and sends frames.
//!
//! In each round it takes one batch of frames from each interface and sends all that follows from it before it turns
//! to the next. A flooded port therefore gets no more than one batch per round, and no queue of a switch grows by
//! more than one batch at a time. The thread sleeps in epoll when all rings are empty. Under load it does not sleep:
//! batches grow, and a frame costs its share of a `sendmmsg` and no other system call. Frames beyond the capacity are
//! dropped by the kernel, which finds the ring full, at the sender's expense.
//!
//! One thread moves the frames of all its switches. A frame between two of them is a box that moves from one queue to
//! another. Events on such a link are processed in order, each with the time that the link's rate and length give it:
//! a thread that was descheduled for a while does not distort telemetry.

use super::clock::MonotonicClock;
use super::handle::Command;
use super::poll::Poll;
use super::port::Port;
use super::switch_runtime::{RX_BATCH, Runtime};
use super::timers::{Timer, TimerKind, Timers};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use weir_units::Time;

/// Commands run for a switch between two rounds.
const COMMAND_BATCH: usize = 16;
/// Rounds under load between two looks at what else may have happened (links, writable sockets).
const ROUNDS_BETWEEN_POLLS: u32 = 64;
/// Timers run between two batches of frames: many times what a batch causes, so that frames do not gather on links, and
/// few enough for rings and commands to have their turn.
const TIMER_BATCH: u32 = 4096;
/// A deadline nearer than this is waited for awake: sleep and wake-up take as long.
const SPIN_THRESHOLD: Time = Time::from_us(20);
/// Interval at which a missing interface is looked for, in case the notification of its return is lost.
const RETRY: Time = Time::from_secs(1);

pub(super) struct EventLoop {
    clock: MonotonicClock,
    poll: Poll,
    switches: Vec<Runtime>,
    commands: Vec<Receiver<Command>>,
    commands_posted: Arc<AtomicU64>,
    /// The value of `commands_posted` when the commands were last run.
    commands_seen: u64,
    timers: Timers,
    /// The ports that frames come by from outside: index of the switch, and of the port in it.
    external: Vec<(u16, u16)>,
    /// Index into `external` of the port that the next round begins with.
    first: usize,
}

impl EventLoop {
    pub fn new(
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
            external: Vec::new(),
            first: 0,
        }
    }

    /// Forwards until told to stop; returns the switches.
    pub fn run(mut self) -> Vec<Runtime> {
        let mut rounds = 0;
        loop {
            // What is due comes first: its time is that of its timer, not of what is looked at late.
            let mut worked = self.run_timers();
            worked |= self.run_commands();
            if self.switches.iter().any(|switch| !switch.running) {
                break;
            }
            worked |= self.receive_round();
            rounds += 1;
            if !worked && self.sleep_or_spin() {
                rounds = 0;
            } else if rounds >= ROUNDS_BETWEEN_POLLS {
                self.poll(Some(Time::ZERO));
                rounds = 0;
            }
        }
        self.switches.iter_mut().flat_map(|switch| &mut switch.ports).for_each(Port::sync_counters);
        self.switches
    }

    /// Runs what was asked for, and what follows from it. `true` if there was anything.
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
                    // There may be more.
                    self.commands_seen = posted.wrapping_sub(1);
                    break;
                }
            }
            if ran > 0 {
                switch.sync_time();
                switch.transmit_ready(&mut self.timers);
            }
        }
        if self.switches.iter_mut().fold(false, |any, it| std::mem::take(&mut it.ports_changed) | any) {
            self.rebuild_port_lists();
        }
        true
    }

    /// Ports were added or removed, or links plugged in or pulled.
    fn rebuild_port_lists(&mut self) {
        self.external.clear();
        for index in 0..self.switches.len() {
            let external = self.switches[index].ports.iter().enumerate();
            let external = external.filter(|(_, port)| port.peer().is_none());
            self.external.extend(external.map(|(at, _)| (index as u16, at as u16)));
            while let Some((port, plugged)) = self.switches[index].plugged.pop() {
                let peer = self.switches[index].port(port).and_then(|port| port.peer());
                if let Some((to, port)) = peer {
                    self.switches[usize::from(to)].plug(port, false, plugged);
                }
            }
        }
    }

    /// A batch from each interface. `true` if there was any.
    fn receive_round(&mut self) -> bool {
        let mut worked = false;
        for switch in &mut self.switches {
            if switch.replay_one() {
                worked = true;
                switch.transmit_ready(&mut self.timers);
            }
        }
        let ports = self.external.len();
        for turn in 0..ports {
            let (switch, port) = self.external[(self.first + turn) % ports];
            let switch = &mut self.switches[usize::from(switch)];
            if switch.receive_batch(usize::from(port), &mut self.timers) {
                worked = true;
                switch.transmit_ready(&mut self.timers);
                self.run_timers();
            }
        }
        if ports > 0 {
            self.first = (self.first + 1) % ports;
        }
        worked
    }

    /// Does what is due. `true` if there was anything.
    fn run_timers(&mut self) -> bool {
        let Some(mut next) = self.timers.next() else { return false };
        let mut now = self.clock.now();
        for ran in 0..TIMER_BATCH {
            if next > now {
                // The clock is read again only when all is done that was due when it was read last.
                now = self.clock.now();
            }
            let Some(timer) = self.timers.pop(now) else { return ran > 0 };
            match timer.act {
                TimerKind::TransmitReady => {
                    let switch = &mut self.switches[usize::from(timer.switch)];
                    switch.resume(timer, now);
                    switch.transmit_ready(&mut self.timers);
                }
                TimerKind::LinkArrival => self.deliver_link(timer, now),
                TimerKind::IngressLinkArrival => {
                    self.switches[usize::from(timer.switch)].receive_from_link(timer, now, &mut self.timers)
                }
            }
            match self.timers.next() {
                Some(at) => next = at,
                None => break,
            }
        }
        true
    }

    /// Brings frames from a link to where it ends.
    fn deliver_link(&mut self, timer: Timer, now: Time) {
        let from = usize::from(timer.switch);
        let Some(port) = self.switches[from].port(timer.port) else { return };
        if port.in_flight.as_mut().is_some_and(|cable| !cable.timer_fired(timer.at)) {
            return;
        }
        match port.peer() {
            Some((to, port)) => self.forward_internal(from, timer.port, (usize::from(to), port), now),
            None => self.switches[from].flush_link(timer.port, now),
        }
        self.switches[from].arm_link_timer(timer.port, &mut self.timers);
    }

    /// Gives what has reached the end of an inner link to the switch there.
    fn forward_internal(&mut self, from: usize, port: u16, (to, port_there): (usize, u16), now: Time) {
        for _ in 0..RX_BATCH {
            let sender = &mut self.switches[from];
            let at = sender.port_index[usize::from(port)];
            let Some((at, packet)) = sender.ports[usize::from(at)].pop_arrived(now, &mut sender.out.pool)
            else {
                return;
            };
            let receiver = &mut self.switches[to];
            // Boxes would gather where frames leave the fabric.
            let spare = (!receiver.out.pool.is_empty()).then(|| receiver.out.pool.get());
            receiver.deliver(at, now, port_there, packet);
            receiver.transmit_ready(&mut self.timers);
            if let Some(spare) = spare {
                self.switches[from].out.pool.put(spare);
            }
        }
    }

    /// Sleeps until an event, or spins for a deadline that is near. Returns whether it slept.
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
        }
        let is_absent = |&(switch, port): &(u16, u16)| {
            self.switches[usize::from(switch)].ports[usize::from(port)].is_absent()
        };
        if self.external.iter().any(is_absent) {
            wait = wait.min(RETRY);
            self.poll.woken.links = true;
        }
        self.poll((wait < Time::MAX.saturating_sub(now)).then_some(wait));
        true
    }

    /// Waits, and deals with what is neither frame nor command.
    fn poll(&mut self, timeout: Option<Time>) {
        self.poll.wait(timeout);
        while let Some((switch, port)) = self.poll.woken.writable.pop() {
            if let Some(switch) = self.switches.get_mut(usize::from(switch)) {
                switch.is_writable(port, &mut self.timers);
                switch.transmit_ready(&mut self.timers);
            }
        }
        if std::mem::take(&mut self.poll.woken.links) {
            for switch in &mut self.switches {
                switch.refresh_ports(&mut self.timers);
                switch.transmit_ready(&mut self.timers);
            }
        }
    }
}
