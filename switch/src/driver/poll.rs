//! Waits for the events that wake the data plane: frames, commands, changed interfaces and deadlines.

use super::port::Port;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::OwnedFd;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use weir_units::Time;

/// Multicast group (linux/rtnetlink.h): notifications of added, removed and changed interfaces.
const RTMGRP_LINK: u32 = 1;
/// Maximum number of events read per call of `epoll_wait`.
const MAX_EVENTS: usize = 32;
/// Epoll tokens of the descriptors that do not belong to a port.
const COMMAND_TOKEN: u64 = u64::MAX;
const NETLINK_TOKEN: u64 = u64::MAX - 1;
const TIMER_TOKEN: u64 = u64::MAX - 2;
/// Flag in the token of a port's sending socket. The token of its receiving socket does not have it.
const WRITABLE_FLAG: u64 = 1 << 32;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The events that woke the data plane, except frames, which are found by polling the rings.
#[derive(Debug, Default)]
pub(super) struct WakeEvents {
    /// True if an interface changed, or a port's socket has an error.
    pub links_changed: bool,
    /// Ports whose socket became writable: index of the switch, and port number.
    pub writable: Vec<(u16, u16)>,
}

/// The epoll instance that wakes a data plane.
#[derive(Debug)]
pub(super) struct EpollSet(OwnedFd);

pub(super) struct Poll {
    epoll_set: Arc<EpollSet>,
    /// An eventfd that is written when a command is queued.
    wake: Arc<OwnedFd>,
    /// Reports added, removed and changed interfaces.
    netlink: OwnedFd,
    /// Wakes at a deadline with nanosecond resolution. The timeout of `epoll_wait` is in milliseconds, and
    /// `epoll_pwait2` needs Linux 5.11.
    timer: OwnedFd,
    /// True if the timer was set and may have expired.
    is_armed: bool,
    /// Events that the caller has not handled yet. The caller clears them.
    pub events: WakeEvents,
}

impl EpollSet {
    /// Adds a port's receiving socket, which wakes on frames and errors.
    pub(super) fn watch(&self, switch: u16, port: &Port) {
        let Some((receiver, _)) = port.sockets() else { return };
        let data = epoll::EventData::new_u64(token(switch, port.number));
        if let Err(error) = epoll::add(&self.0, receiver, data, epoll::EventFlags::IN) {
            tracing::error!(port = port.number, %error, "cannot add the port's socket to epoll");
        }
    }

    /// Adds a port's sending socket, which wakes once when it becomes writable.
    pub(super) fn watch_writable(&self, switch: u16, port: &Port) {
        let Some((_, sender)) = port.sockets() else { return };
        let data = epoll::EventData::new_u64(token(switch, port.number) | WRITABLE_FLAG);
        // Fails only if the socket has been added already.
        let _ = epoll::add(&self.0, sender, data, epoll::EventFlags::OUT | epoll::EventFlags::ONESHOT);
    }

    /// Removes a port's sending socket.
    pub(super) fn unwatch_writable(&self, port: &Port) {
        if let Some((_, sender)) = port.sockets() {
            // The socket may not have been added.
            let _ = epoll::delete(&self.0, sender);
        }
    }
}

/// Returns the epoll token of a port.
fn token(switch: u16, port: u16) -> u64 {
    u64::from(switch) << 16 | u64::from(port)
}

impl Poll {
    pub(super) fn new() -> io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let netlink = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&netlink, &SocketAddrNetlink::new(0, RTMGRP_LINK))?;
        epoll::add(&epoll, &*wake, epoll::EventData::new_u64(COMMAND_TOKEN), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &netlink, epoll::EventData::new_u64(NETLINK_TOKEN), epoll::EventFlags::IN)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER_TOKEN), epoll::EventFlags::IN)?;
        Ok(Poll {
            epoll_set: Arc::new(EpollSet(epoll)),
            wake,
            netlink,
            timer,
            is_armed: false,
            events: WakeEvents::default(),
        })
    }

    /// Returns the epoll set, to which each switch adds its ports' sockets.
    pub(super) fn epoll_set(&self) -> Arc<EpollSet> {
        self.epoll_set.clone()
    }

    /// Returns the eventfd that wakes the data plane when a command was queued.
    pub(super) fn wake(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    /// Waits for events. `None` waits without limit, zero does not wait.
    pub(super) fn wait(&mut self, timeout: Option<Time>) {
        // A timer set to 0 is disarmed.
        const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let may_block = timeout != Some(Time::ZERO);
        if may_block && (timeout.is_some() || self.is_armed) {
            self.is_armed = timeout.is_some();
            let spec = |time: Time| Timespec {
                tv_sec: (time.as_ns() / NANOS_PER_SEC) as i64,
                // A value of 0 would disarm the timer.
                tv_nsec: (time.as_ns() % NANOS_PER_SEC).max(1) as i64,
            };
            let value = timeout.map_or(ZERO, spec);
            // Fails only for invalid arguments.
            let _ = timerfd_settime(
                &self.timer,
                TimerfdTimerFlags::empty(),
                &Itimerspec { it_interval: ZERO, it_value: value },
            );
        }
        let mut buffer = [MaybeUninit::uninit(); MAX_EVENTS];
        let Ok((events, _)) = epoll::wait(&self.epoll_set.0, &mut buffer, (!may_block).then_some(&ZERO))
        else {
            return; // Interrupted: nothing happened.
        };
        for event in events {
            let (data, flags) = (event.data.u64(), event.flags);
            match data {
                COMMAND_TOKEN => {
                    // Resets the counter of the eventfd.
                    let _ = rustix::io::read(&*self.wake, &mut [0; size_of::<u64>()]);
                }
                NETLINK_TOKEN => {
                    // The content of the messages is not needed, because all ports are refreshed. An overrun
                    // (ENOBUFS) also sets the flag.
                    let mut scratch = [0; 4096];
                    while matches!(recv(&self.netlink, &mut scratch, RecvFlags::empty()), Ok((1.., _))) {}
                    self.events.links_changed = true;
                }
                // The next `timerfd_settime` clears the expiration, so the descriptor need not be read.
                TIMER_TOKEN => {}
                port if port & WRITABLE_FLAG != 0 => {
                    self.events.writable.push(((port >> 16) as u16, port as u16))
                }
                _ => {
                    self.events.links_changed |=
                        flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP)
                }
            }
        }
    }
}
