//! Emulates links between pairs of interfaces: a thread moves each frame from one interface to the other when
//! it is due.
//!
//! [`crate::link`] decides when a frame arrives and whether it is lost; this module has the sockets, the
//! clock and the commands.

use super::clock::{MonotonicClock, wall_clock};
use super::error::{DataplaneError, StartError};
use super::oneshot::{self, Reply};
use super::poll::{EpollSet, Poll};
use super::port::Port;
use super::port_link::{DirectionStatus, Lateness};
use super::stats::IoDrops;
use super::switch_runtime::MAX_COMMANDS;
use crate::link::{FrameInFlight, LinkChange, LinkChannel, LinkParameters};
use crate::packet::PacketPool;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_units::Time;

/// Maximum number of frames read from an interface per batch.
const RX_BATCH: usize = 32;
/// The thread spins instead of sleeping if the next deadline is nearer than this: a sleep and the wake-up take as long.
const SPIN_THRESHOLD: Time = Time::from_us(20);
/// A sleep is shortened by at most its length divided by this, which bounds the share of time spent on spinning.
const EARLY_WAKE_DIVISOR: u64 = 8;
/// Maximum time by which a sleep is shortened.
const MAX_EARLY_WAKE: Time = Time::from_us(200);
/// Interval at which a missing interface is looked up again, in case the netlink notification of its return
/// is lost.
const INTERFACE_RETRY_INTERVAL: Time = Time::from_secs(1);
/// The switch index in the epoll tokens of the emulator's ports. An emulator has no switch.
const NO_SWITCH: u16 = 0;
/// Receive ring of each interface, in bytes.
const RING_BYTES: usize = 256 << 10;

/// A link to emulate.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatedLink {
    /// The name by which [`LinkEmulatorHandle::change`] finds the link.
    pub name: String,
    /// The names of the two interfaces that it connects.
    pub ends: [String; 2],
    /// Applied to each direction separately.
    pub parameters: LinkParameters,
}

/// The state of an emulated link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// The link with its current parameters.
    pub link: EmulatedLink,
    /// The direction from `ends[0]`, then the direction from `ends[1]`.
    pub directions: [DirectionStatus; 2],
}

/// The state of an emulator.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkEmulatorStats {
    /// In the order of `LinkEmulator::start`.
    pub links: Vec<LinkStatus>,
    /// Lateness of recent arrivals, ascending.
    pub lateness: Vec<Time>,
}

/// Receives the frames of an emulator's links. It is called on the emulator's thread, and delays it.
pub trait LinkObserver: Send {
    /// A frame left a link through the interface with this number: `2 n` for the first end of the n-th link,
    /// `2 n + 1` for its second end.
    fn delivered(&mut self, now: Time, interface: u16, frame: &[u8]);
    /// A frame entered a link through the interface with this number. `now` is the time at which the kernel
    /// received it.
    fn received(&mut self, now: Time, interface: u16, frame: &[u8]);
}

/// A command for the emulator's thread.
type EmulatorCommand = Box<dyn FnOnce(&mut Emulator) + Send>;

/// A running link emulator. Dropping it stops its thread; the interfaces stay.
#[derive(Debug)]
pub struct LinkEmulator {
    handle: LinkEmulatorHandle,
    thread: Option<JoinHandle<()>>,
}

/// A handle of an emulator, for any thread.
#[derive(Clone, Debug)]
pub struct LinkEmulatorHandle {
    commands: SyncSender<EmulatorCommand>,
    wake: Arc<OwnedFd>,
}

impl LinkEmulator {
    /// Opens the interfaces of all links in the caller's network namespace and starts the thread, or fails
    /// without effect. `seed` seeds losses and other random events.
    ///
    /// # Errors
    ///
    /// An interface is absent, or the caller may not open raw sockets.
    pub fn start(
        links: Vec<EmulatedLink>,
        seed: u64,
        observer: Option<Box<dyn LinkObserver>>,
    ) -> Result<LinkEmulator, StartError> {
        let poll = Poll::new()?;
        let (commands, receiver) = sync_channel(MAX_COMMANDS);
        let handle = LinkEmulatorHandle { commands, wake: poll.wake() };
        let mut emulator = Emulator::open(links, seed, observer, poll, receiver)?;
        let thread = std::thread::Builder::new().name("links".into()).spawn(move || {
            // The default timer slack lets timers fire 50 us late (prctl(2), PR_SET_TIMERSLACK).
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            emulator.run();
        })?;
        Ok(LinkEmulator { handle, thread: Some(thread) })
    }

    /// Returns a handle. After the emulator has stopped, its calls return [`DataplaneError::Stopped`].
    pub fn handle(&self) -> LinkEmulatorHandle {
        self.handle.clone()
    }

    /// Returns whether the thread runs. It ends when the emulator is dropped, or if it panics.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for LinkEmulator {
    fn drop(&mut self) {
        self.handle.post(|emulator| emulator.is_running = false);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported on stderr.
            let _ = thread.join();
        }
    }
}

impl LinkEmulatorHandle {
    /// Returns parameters and counters of all links.
    pub fn stats(&self) -> Reply<LinkEmulatorStats> {
        self.submit(Emulator::stats)
    }

    /// Changes the links with these names. Frames in flight keep their time of arrival. Returns `false` and
    /// changes nothing if one of the names is unknown.
    pub fn change(&self, names: Vec<String>, change: LinkChange) -> Reply<bool> {
        self.submit(move |emulator| emulator.change(&names, change))
    }

    fn submit<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Emulator) -> R + Send + 'static,
    ) -> Reply<R> {
        let (promise, reply) = oneshot::channel();
        // If the thread has ended, the command is dropped with its promise, so the reply is `Stopped`.
        self.post(move |emulator| promise.send(Ok::<R, DataplaneError>(operation(emulator))));
        reply
    }

    fn post(&self, command: impl FnOnce(&mut Emulator) + Send + 'static) {
        // Sending fails only if the thread has ended.
        let _ = self.commands.send(Box::new(command));
        // The write fails only if the eventfd's counter would overflow, in which case the thread is awake.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

/// One link. Its ends are the ports `2 n` and `2 n + 1`; `directions[e]` leads away from end `e`.
struct LinkState {
    link: EmulatedLink,
    directions: [LinkChannel; 2],
}

/// The state of the emulator's thread.
struct Emulator {
    clock: MonotonicClock,
    links: Vec<LinkState>,
    ports: Vec<Port>,
    epoll_set: Arc<EpollSet>,
    poll: Poll,
    pool: PacketPool,
    commands: Receiver<EmulatorCommand>,
    observer: Option<Box<dyn LinkObserver>>,
    lateness: Lateness,
    /// Moving average of the time by which sleeps ended later than requested.
    mean_wake_latency: Time,
    /// The deadline for which the thread woke early, and until which it spins; [`Time::ZERO`] if it does not.
    spin_until: Time,
    is_running: bool,
}

impl Emulator {
    fn open(
        links: Vec<EmulatedLink>,
        seed: u64,
        observer: Option<Box<dyn LinkObserver>>,
        poll: Poll,
        commands: Receiver<EmulatorCommand>,
    ) -> Result<Emulator, StartError> {
        let mut ports = Vec::with_capacity(links.len() * 2);
        for (number, name) in (0..).zip(links.iter().flat_map(|link| &link.ends)) {
            let port = Port::open(number, name, RING_BYTES, None).map_err(|error| DataplaneError::Port {
                port: number,
                reason: format!("interface {name}: {error}"),
            })?;
            poll.epoll_set().watch(NO_SWITCH, &port);
            ports.push(port);
        }
        let links = links.into_iter().enumerate().map(|(n, link)| LinkState {
            link,
            directions: [0, 1].map(|end| LinkChannel::from_seed(LinkChannel::seed(seed, n, end))),
        });
        Ok(Emulator {
            clock: MonotonicClock::start(),
            links: links.collect(),
            ports,
            epoll_set: poll.epoll_set(),
            poll,
            pool: PacketPool::new(),
            commands,
            observer,
            lateness: Lateness::default(),
            mean_wake_latency: Time::ZERO,
            spin_until: Time::ZERO,
            is_running: true,
        })
    }

    fn run(&mut self) {
        loop {
            while let Ok(command) = self.commands.try_recv() {
                command(self);
            }
            if !self.is_running {
                return;
            }
            let received = self.receive();
            let due = self.deliver();
            if !received {
                self.sleep_or_spin(due);
            }
        }
    }

    /// Reads a batch from each interface into its link. Returns whether there were any frames.
    fn receive(&mut self) -> bool {
        let (now, wall) = (self.clock.now(), wall_clock());
        let mut any_received = false;
        for index in 0..self.ports.len() {
            let Emulator { links, ports, pool, observer, .. } = self;
            let LinkState { link, directions } = &mut links[index / 2];
            let frames = ports[index].receive(RX_BATCH, |number, received, bytes| {
                // The frame arrived before this thread read it, by the difference of the two wall-clock
                // times.
                let arrived_at = now.saturating_sub(nanos(wall.saturating_sub(received)));
                if let Some(observer) = observer {
                    observer.received(arrived_at, number, bytes);
                }
                let mut frame = pool.get();
                frame.set_bytes(bytes);
                directions[index % 2].send(&link.parameters, arrived_at, frame, pool);
                true
            });
            any_received |= frames > 0;
        }
        any_received
    }

    /// Sends the frames that have arrived. Returns the time of the next arrival, [`Time::MAX`] if there is
    /// none.
    fn deliver(&mut self) -> Time {
        let mut due = Time::MAX;
        for index in 0..self.ports.len() {
            let Emulator { clock, links, ports, pool, epoll_set, observer, lateness, .. } = self;
            let (direction, port) = (&mut links[index / 2].directions[index % 2], &mut ports[index ^ 1]);
            while !port.tx_blocked {
                let now = clock.now();
                while port.has_room()
                    && let Some(FrameInFlight { arrival, frame, .. }) = direction.pop_arrived(now)
                {
                    if let Some(observer) = observer {
                        observer.delivered(now, port.number, frame.bytes());
                    }
                    port.push(Time::ZERO, frame, pool);
                    lateness.add(now.saturating_sub(arrival));
                }
                if port.unsent() == 0 {
                    break;
                }
                if !port.flush(pool) {
                    epoll_set.watch_writable(NO_SWITCH, port);
                }
            }
            if !port.tx_blocked {
                due = due.min(direction.next_arrival().unwrap_or(Time::MAX));
            }
        }
        due
    }

    /// Sleeps until a frame is received or due, or spins once if that is soon.
    fn sleep_or_spin(&mut self, due: Time) {
        let now = self.clock.now();
        let mut wait = due.saturating_sub(now);
        if wait < SPIN_THRESHOLD || (now < self.spin_until && due <= self.spin_until) {
            return std::hint::spin_loop();
        }
        let early = self.mean_wake_latency.min(wait / EARLY_WAKE_DIVISOR);
        wait = wait.saturating_sub(early);
        if self.ports.iter().any(Port::is_absent) {
            wait = wait.min(INTERFACE_RETRY_INTERVAL);
            self.poll.events.links_changed = true;
        }
        self.poll.wait((due < Time::MAX || wait <= INTERFACE_RETRY_INTERVAL).then_some(wait));
        // If another event ended the sleep early, the next call sleeps again.
        self.spin_until = Time::ZERO;
        if let Some(late) = self.clock.now().checked_sub(now + wait) {
            // Weight 1/8 for the new sample.
            self.mean_wake_latency = (self.mean_wake_latency * 7 + late.min(MAX_EARLY_WAKE)) / 8;
            self.spin_until = due;
        }
        while let Some((_, number)) = self.poll.events.writable.pop() {
            let Some(port) = self.ports.get_mut(usize::from(number)) else { continue };
            self.epoll_set.unwatch_writable(port);
            if !port.flush(&mut self.pool) {
                self.epoll_set.watch_writable(NO_SWITCH, port);
            }
        }
        if std::mem::take(&mut self.poll.events.links_changed) {
            for port in &mut self.ports {
                port.tx_blocked = false;
                if port.refresh() {
                    self.epoll_set.watch(NO_SWITCH, port);
                }
            }
        }
    }

    fn change(&mut self, names: &[String], change: LinkChange) -> bool {
        if !names.iter().all(|name| self.links.iter().any(|state| state.link.name == *name)) {
            return false;
        }
        for LinkState { link, directions } in
            self.links.iter_mut().filter(|state| names.contains(&state.link.name))
        {
            link.parameters = change.apply(link.parameters);
            if !link.parameters.up {
                directions.iter_mut().for_each(|direction| direction.drop_in_flight(&mut self.pool));
            }
        }
        true
    }

    fn stats(&mut self) -> LinkEmulatorStats {
        self.ports.iter_mut().for_each(Port::sync_counters);
        let links = self.links.iter().enumerate().map(|(n, LinkState { link, directions })| LinkStatus {
            link: link.clone(),
            directions: [0, 1].map(|end| DirectionStatus {
                counters: directions[end].counters().clone(),
                in_flight: directions[end].in_flight(),
                interfaces: interface_drops(&self.ports[2 * n + end], &self.ports[2 * n + (end ^ 1)]),
            }),
        });
        let links = links.collect();
        let mut lateness = self.lateness.last().to_vec();
        lateness.sort_unstable();
        LinkEmulatorStats { links, lateness }
    }
}

/// Returns the frames that a direction lost at its two interfaces.
fn interface_drops(from: &Port, to: &Port) -> IoDrops {
    let mut lost = from.counters.dropped.receive_drops();
    lost.add_all(&to.counters.dropped.send_drops());
    lost
}

fn nanos(time: Duration) -> Time {
    Time::from_ns(u64::try_from(time.as_nanos()).unwrap_or(0))
}
