//! The fabric in virtual time: logical processes, and the mailboxes through which they exchange frames.
//!
//! A *logical process* simulates a switch or a host; nodes joined by a link with a very small delay share one process.
//! The *lookahead* is the least delay of all links between processes. A frame sent at time t reaches another process at
//! t + lookahead or later, so during a *window* of that length every process can run without the others: one after the
//! other, which keeps the tables of each in the cache, or on several threads (`worker_pool.rs`). A window has the
//! length of the lookahead, or twice that if neighbouring processes run alternately (`bipartition.rs`). At the end of
//! its window a process hands over the frames for other processes.
//!
//! The results depend neither on the order in which processes run nor on the number of threads: within a process,
//! events run in the order of their [`EventKey`]s, which depend on virtual time alone.

use crate::events::EventKey;
use crate::layout::{Layout, Locations, ObservedProcess, TableIndex};
use crate::link::{Batch, InFlight, PfcFrame};
use crate::messages::{HostCommand, HostReport};
use crate::nodes::HostNode;
use crate::observers::{Observers, PathTrace};
use crate::process::Process;
use crate::thread_buffers::ThreadBuffers;
pub use crate::view::View;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_controller::topology::{HostIx, SwitchIx, Topology};
use weir_host::Host;
use weir_switch::Switch;
use weir_switch::packet::Packet;
use weir_switch::prefetch::{prefetch, prefetch_all};
use weir_units::Time;

/// Value of [`Network::next_due`] if no event is pending.
const NEVER: u64 = u64::MAX;

/// When a process is due to run, in ps; [`NEVER`] if it is not.
struct NextDue {
    /// Time of its next event.
    event: AtomicU64,
    /// Earliest arrival in its mailbox.
    mail: AtomicU64,
}

impl NextDue {
    fn never() -> NextDue {
        NextDue { event: AtomicU64::new(NEVER), mail: AtomicU64::new(NEVER) }
    }
}

/// A fabric in virtual time.
pub struct Network {
    processes: Vec<Mutex<ObservedProcess>>,
    /// Frames for each process that are not yet on its wires.
    mailboxes: Vec<PaddedMailbox>,
    /// By process number.
    next_due: Vec<NextDue>,
    /// Processes with reports for [`Network::take_reports`]; may contain duplicates.
    reporting: Mutex<Vec<u32>>,
    /// Buffers of the coordinating thread, which runs processes in windows and single calls between them.
    buffers: Mutex<ThreadBuffers>,
    locations: Locations,
    /// Processes that have hosts, in ascending order.
    with_hosts: Vec<u32>,
    /// All processes by side of the [bipartition](crate::bipartition), neighbours near each other.
    sides: Vec<Vec<u32>>,
    /// `sides` with the processes that have hosts moved to the end.
    run_order: Vec<Vec<u32>>,
    lookahead: Time,
    /// Processes trace the paths of sampled packets.
    is_tracing_paths: bool,
}

/// A mailbox in its own cache line: several threads write to different mailboxes at the same time.
#[derive(Default)]
#[repr(align(64))]
struct PaddedMailbox(Mutex<Mailbox>);

/// Frames for a process, each with the index of its wire in [`Process::wires`].
#[derive(Default)]
struct Mailbox {
    frames: Vec<(u32, Batch<Box<Packet>>)>,
    pfc: Vec<(u32, InFlight<PfcFrame>)>,
}

/// Locks a mutex and ignores poisoning: a panic under a lock ends the whole run, so the state is not used again.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    /// Creates a fabric without pending events. Direction `2i` is link `i` from its end `a` to `b`, direction `2i +
    /// 1` from `b` to `a`.
    pub fn new(topology: &Topology, switches: Vec<Switch>, hosts: Vec<Host>) -> Network {
        Network::from_layout(Layout::new(topology, switches, hosts))
    }

    /// Creates a fabric without nodes, as a placeholder.
    pub(crate) fn empty() -> Network {
        Network::from_layout(Layout::default())
    }

    fn from_layout(
        Layout { processes, locations, with_hosts, sides, run_order, lookahead }: Layout,
    ) -> Network {
        Network {
            mailboxes: processes.iter().map(|_| PaddedMailbox::default()).collect(),
            next_due: processes.iter().map(|_| NextDue::never()).collect(),
            processes: processes.into_iter().map(Mutex::new).collect(),
            reporting: Mutex::default(),
            buffers: Mutex::default(),
            locations,
            with_hosts,
            sides,
            run_order,
            lookahead,
            is_tracing_paths: false,
        }
    }

    /// Returns the number of processes.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Returns the least delay of all links between processes; [`Time::MAX`] if there is only one process.
    pub fn lookahead(&self) -> Time {
        self.lookahead
    }

    /// Returns the processes that have hosts, in ascending order.
    pub(crate) fn with_hosts(&self) -> &[u32] {
        &self.with_hosts
    }

    /// Returns the processes without hosts, in ascending order.
    pub(crate) fn without_hosts(&self) -> impl Iterator<Item = u32> {
        (0..self.len() as u32).filter(|number| self.with_hosts.binary_search(number).is_err())
    }

    /// Returns all processes by side of the [bipartition](crate::bipartition), neighbours near each other.
    pub(crate) fn sides(&self) -> &[Vec<u32>] {
        &self.sides
    }

    /// Returns the processes of each side in the order in which a thread runs them: first switches, then hosts, so
    /// that the code of each kind stays in the instruction cache.
    pub(crate) fn run_order(&self) -> &[Vec<u32>] {
        &self.run_order
    }

    /// Returns the number of a process's events since the previous call.
    pub(crate) fn take_event_count(&self, number: u32) -> u64 {
        std::mem::take(&mut lock(&self.processes[number as usize]).process.events_since_rebalance)
    }

    /// Returns the number of the host's process.
    pub(crate) fn process_of(&self, host: HostIx) -> u32 {
        self.locations.host(host).process
    }

    /// Returns the time of the process's next event, frames in its mailbox included; [`Time::MAX`] if none is pending.
    #[inline]
    pub(crate) fn due(&self, number: u32) -> Time {
        let NextDue { event, mail } = &self.next_due[number as usize];
        Time::from_ps(event.load(Ordering::Relaxed).min(mail.load(Ordering::Relaxed)))
    }

    /// Returns the least [`due`](Self::due) of all processes.
    pub(crate) fn earliest(&self) -> Time {
        (0..self.len() as u32).map(|number| self.due(number)).min().unwrap_or(Time::MAX)
    }

    /// Prefetches a process that will run soon: since its last run, other processes have replaced its data in the
    /// cache.
    #[inline]
    pub(crate) fn prefetch(&self, number: u32) {
        prefetch_all(&self.processes[number as usize]);
        prefetch(&self.mailboxes[number as usize]);
    }

    /// Runs all events of a process before `end`, hands over the frames that it sent, and returns the number of events.
    pub(crate) fn run_process(&self, number: u32, end: &EventKey, buffers: &mut ThreadBuffers) -> u64 {
        let ObservedProcess { process, observers } = &mut *lock(&self.processes[number as usize]);
        self.drain_mailbox(process, buffers);
        // Two instances of the event loop: in most runs and processes nothing but the basic observers is requested.
        let events = if observers.is_basic() {
            process.run(end, &mut observers.basic, buffers)
        } else {
            process.run(end, observers, buffers)
        };
        process.events_since_rebalance += events;
        self.flush_process(process);
        events
    }

    /// Runs the next event of a process if it is before `end`, and returns its key.
    pub(crate) fn step_process(&self, number: u32, end: &EventKey) -> Option<EventKey> {
        let ObservedProcess { process, observers } = &mut *lock(&self.processes[number as usize]);
        let buffers = &mut self.buffers();
        self.drain_mailbox(process, buffers);
        let key = process.step(end, observers, buffers);
        self.flush_process(process);
        key
    }

    /// Returns the key of a process's next event, frames in its mailbox included.
    pub(crate) fn next_event_of(&self, number: u32) -> Option<EventKey> {
        let process = &mut lock(&self.processes[number as usize]).process;
        self.drain_mailbox(process, &mut self.buffers());
        self.update_next_due(process);
        process.next_event().copied()
    }

    /// Locks the buffers of the coordinating thread.
    pub(crate) fn buffers(&self) -> MutexGuard<'_, ThreadBuffers> {
        lock(&self.buffers)
    }

    /// Puts the frames in the mailbox of a process on its wires.
    fn drain_mailbox(&self, process: &mut Process, buffers: &mut ThreadBuffers) {
        let number = process.number() as usize;
        // A relaxed load suffices. Frames of earlier windows are visible through the barrier between windows. A frame
        // sent in this window may be missed, but it does not arrive before the end of the window, so the next call is
        // early enough.
        if self.next_due[number].mail.load(Ordering::Relaxed) == NEVER {
            return;
        }
        let Mailbox { frames, pfc } = &mut *lock(&self.mailboxes[number].0);
        frames.iter().for_each(|(wire, frames)| process.prefetch(*wire, frames));
        frames.drain(..).for_each(|(wire, frames)| process.deliver(wire, frames, buffers));
        pfc.drain(..).for_each(|(wire, frame)| process.deliver_pfc(wire, frame));
        // Still under the mailbox lock, under which `flush_process` lowers the value: neither update can be lost.
        self.next_due[number].mail.store(NEVER, Ordering::Relaxed);
    }

    /// Puts the frames that a process has sent into the mailboxes of their receivers, and updates `next_due` and
    /// `reporting`.
    fn flush_process(&self, process: &mut Process) {
        while let Some(index) = process.unflushed.pop() {
            let transmitter = &mut process.transmitters[index as usize];
            let due = &self.next_due[transmitter.receiver_process as usize].mail;
            let mut mail = lock(&self.mailboxes[transmitter.receiver_process as usize].0);
            if let Some(first) = transmitter.outgoing.front() {
                // Several processes fill a mailbox, in any order; the minimum does not depend on it.
                due.fetch_min(first.arrival.as_ps(), Ordering::Relaxed);
                mail.frames.push((transmitter.wire, std::mem::take(&mut transmitter.outgoing)));
            }
            if let Some(first) = transmitter.outgoing_pfc.front() {
                due.fetch_min(first.arrival.as_ps(), Ordering::Relaxed);
                let flights = std::iter::from_fn(|| transmitter.outgoing_pfc.pop_front());
                mail.pfc.extend(flights.map(|flight| (transmitter.wire, flight)));
            }
        }
        self.update_next_due(process);
        if !process.reports.is_empty() {
            lock(&self.reporting).push(process.number());
        }
    }

    /// Publishes the time of the process's next event; must follow every change of its queue.
    fn update_next_due(&self, process: &Process) {
        let next = process.next_event().map_or(NEVER, |key| key.time.as_ps());
        self.next_due[process.number() as usize].event.store(next, Ordering::Relaxed);
    }

    /// Removes and returns the reports of all hosts, by time; at the same time by process number.
    pub fn take_reports(&self) -> Vec<HostReport> {
        let mut numbers = std::mem::take(&mut *lock(&self.reporting));
        if numbers.is_empty() {
            return Vec::new();
        }
        numbers.sort_unstable();
        let mut reports = Vec::new();
        for number in numbers {
            reports.append(&mut lock(&self.processes[number as usize]).process.reports);
        }
        // Stable: the reports of one process keep their order.
        reports.sort_by_key(|report| report.at);
        reports
    }

    /// Calls `f` on process `number` with its clock at `now`, then collects reports and hands over the frames that the
    /// process sent. No thread may run this process in the current window.
    fn with_process_at<R>(
        &self,
        number: u32,
        now: Time,
        f: impl FnOnce(&mut Process, &mut Observers, &mut ThreadBuffers) -> R,
    ) -> R {
        let ObservedProcess { process, observers } = &mut *lock(&self.processes[number as usize]);
        process.set_now(now);
        let result = f(process, observers, &mut lock(&self.buffers));
        process.collect_reports(observers);
        self.flush_process(process);
        result
    }

    /// Polls a host for frames and its next deadline, after a change from outside.
    pub fn kick(&self, now: Time, host: HostIx) {
        let TableIndex { process: number, index } = self.locations.host(host);
        self.with_process_at(number, now, |process, observers, buffers| {
            process.kick(index, observers, buffers)
        });
    }

    /// Sends a frame of an attacker from the host's NIC.
    pub fn inject(&self, now: Time, host: HostIx, frame: Vec<u8>) {
        let TableIndex { process: number, index } = self.locations.host(host);
        self.with_process_at(number, now, |process, observers, buffers| {
            process.hosts[index as usize].injected.push_back(frame);
            process.kick(index, observers, buffers);
        });
    }

    /// Clears all PFC pauses of the direction's transmitter, after its link came up or the switch at the other end
    /// restarted.
    pub fn unpause(&self, now: Time, direction: u32) {
        let TableIndex { process: number, index } = self.locations.direction(direction).transmitter;
        self.with_process_at(number, now, |process, observers, buffers| {
            process.unpause(index, observers, buffers)
        });
    }

    /// Executes a command at a host now.
    pub fn execute_command(&self, now: Time, host: HostIx, command: HostCommand) {
        let TableIndex { process: number, index } = self.locations.host(host);
        self.with_process_at(number, now, |process, observers, buffers| {
            process.execute_command(index, command, observers, buffers)
        });
    }

    /// Schedules a command at a host for the event `at`, which must be later than every event that the host's process
    /// has run.
    pub fn schedule_command(&self, at: &EventKey, host: HostIx, command: HostCommand) {
        let TableIndex { process: number, index } = self.locations.host(host);
        let process = &mut lock(&self.processes[number as usize]).process;
        process.schedule_command(at, index, command);
        self.flush_process(process);
    }

    /// Calls `f` on a host, with its process locked.
    pub fn with_host<R>(&self, host: HostIx, f: impl FnOnce(&mut HostNode) -> R) -> R {
        let TableIndex { process: number, index } = self.locations.host(host);
        f(&mut lock(&self.processes[number as usize]).process.hosts[index as usize])
    }

    /// Calls `f` on a switch, with its process locked.
    pub fn with_switch<R>(&self, ix: SwitchIx, f: impl FnOnce(&Switch) -> R) -> R {
        let TableIndex { process: number, index } = self.locations.switch(ix);
        f(&lock(&self.processes[number as usize]).process.switches[index as usize].switch)
    }

    /// Calls `f` on the observers of a host's process, with the process locked.
    pub(crate) fn with_observers_of<R>(&self, host: HostIx, f: impl FnOnce(&mut Observers) -> R) -> R {
        f(&mut lock(&self.processes[self.process_of(host) as usize]).observers)
    }

    /// Starts to trace the paths of sampled packets.
    pub fn enable_path_trace(&mut self) {
        self.is_tracing_paths = true;
        self.view().observers_mut().for_each(|observers| observers.path_trace = Some(Box::default()));
    }

    /// Halves the sample of traced packets until it is within its bound. No effect if tracing is off.
    pub(crate) fn bound_path_trace(&self) {
        if self.is_tracing_paths {
            PathTrace::bound(
                self.view().observers_mut().filter_map(|observers| observers.path_trace.as_deref_mut()),
            );
        }
    }

    /// Locks all processes and delivers the frames in their mailboxes, so that wires are complete. Only between
    /// windows.
    pub fn view(&self) -> View<'_> {
        let mut view = self.view_without_mail();
        view.processes_mut().for_each(|process| self.drain_mailbox(process, &mut self.buffers()));
        view.processes_mut().for_each(|process| self.flush_process(process));
        view
    }

    /// Locks all processes, but leaves frames in mailboxes, so wires may lack the frames sent in the last window.
    /// Queues and counters are complete. Used for samples, which are frequent: delivering the mail would be serial
    /// work of this thread.
    pub fn view_without_mail(&self) -> View<'_> {
        View::new(&self.locations, self.processes.iter().map(lock).collect())
    }

    /// Runs the earliest event of the whole fabric if it is before `end`. The outer `None` means that there was none;
    /// the inner value is the first switch of the process, `None` in a process of hosts. For tests that inspect the
    /// fabric after every event.
    pub fn step(&self, end: Time) -> Option<Option<SwitchIx>> {
        let end = EventKey::first_at(end);
        let next = |number| Some((self.next_event_of(number)?, number));
        let earliest = self.earliest();
        let due = (0..self.len() as u32).filter(|&number| self.due(number) == earliest);
        let (_, number) = due.filter_map(next).min()?;
        self.step_process(number, &end)?;
        Some(lock(&self.processes[number as usize]).process.switches.first().map(|node| node.ix))
    }
}
