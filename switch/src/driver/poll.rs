//! The events that end the data plane's sleep: frames, commands, changed links, and a deadline.

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

/// RTMGRP_LINK (linux/rtnetlink.h): interfaces that come, go and change.
const LINK_GROUP: u32 = 1;
/// Events taken at once.
const EVENTS: usize = 32;
const COMMANDS: u64 = u64::MAX;
const LINKS: u64 = u64::MAX - 1;
const TIMER: u64 = u64::MAX - 2;
/// Set in the number of a port whose socket became writable.
const WRITABLE: u64 = 1 << 32;
const NANOS: u64 = 1_000_000_000;

/// The events that woke the data plane, apart from frames.
#[derive(Debug, Default)]
pub(super) struct WakeEvents {
    /// Interfaces changed, or one has an error.
    pub links: bool,
    /// Ports that can send again, each with the index of its switch.
    pub writable: Vec<(u16, u16)>,
}

/// The sockets that wake a data plane.
#[derive(Debug)]
pub(super) struct EpollSet(OwnedFd);

pub(super) struct Poll {
    watched: Arc<EpollSet>,
    wake: Arc<OwnedFd>,
    links: OwnedFd,
    /// Ends a sleep to the nanosecond; epoll's own timeout is whole milliseconds before Linux 5.11.
    timer: OwnedFd,
    /// The timer was set, and may have gone off.
    is_armed: bool,
    pub woken: WakeEvents,
}

impl EpollSet {
    /// Wakes when a port has a frame, or an error.
    pub fn watch(&self, switch: u16, port: &Port) {
        let Some((receiver, _)) = port.sockets() else { return };
        let data = epoll::EventData::new_u64(token(switch, port.number));
        if let Err(error) = epoll::add(&self.0, receiver, data, epoll::EventFlags::IN) {
            tracing::error!(port = port.number, %error, "cannot wait for frames");
        }
    }

    /// Wakes once when a port's socket can send again.
    pub fn watch_writable(&self, switch: u16, port: &Port) {
        let Some((_, sender)) = port.sockets() else { return };
        let data = epoll::EventData::new_u64(token(switch, port.number) | WRITABLE);
        // It can only fail if the socket waits there already.
        let _ = epoll::add(&self.0, sender, data, epoll::EventFlags::OUT | epoll::EventFlags::ONESHOT);
    }

    /// No longer wakes for this port's socket.
    pub fn unwatch_writable(&self, port: &Port) {
        if let Some((_, sender)) = port.sockets() {
            // It may never have been added.
            let _ = epoll::delete(&self.0, sender);
        }
    }
}

/// Names a port of a switch in an event.
fn token(switch: u16, port: u16) -> u64 {
    u64::from(switch) << 16 | u64::from(port)
}

impl Poll {
    pub fn new() -> io::Result<Poll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let links = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&links, &SocketAddrNetlink::new(0, LINK_GROUP))?;
        epoll::add(&epoll, &*wake, epoll::EventData::new_u64(COMMANDS), epoll::EventFlags::IN)?;
        epoll::add(&epoll, &links, epoll::EventData::new_u64(LINKS), epoll::EventFlags::IN)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        Ok(Poll {
            watched: Arc::new(EpollSet(epoll)),
            wake,
            links,
            timer,
            is_armed: false,
            woken: WakeEvents::default(),
        })
    }

    /// Returns the sockets, to which each switch adds its ports'.
    pub fn watched(&self) -> Arc<EpollSet> {
        self.watched.clone()
    }

    /// Written to when a command waits.
    pub fn wake(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    /// Sleeps until something happens, `timeout` passes (`None`: for ever), or not at all (zero).
    pub fn wait(&mut self, timeout: Option<Time>) {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let sleeps = timeout != Some(Time::ZERO);
        if sleeps && (timeout.is_some() || self.is_armed) {
            self.is_armed = timeout.is_some();
            let spec = |time: Time| Timespec {
                tv_sec: (time.as_ns() / NANOS) as i64,
                // A time of 0 would stop the timer.
                tv_nsec: (time.as_ns() % NANOS).max(1) as i64,
            };
            let value = timeout.map_or(NOW, spec);
            let _ = timerfd_settime(
                &self.timer,
                TimerfdTimerFlags::empty(),
                &Itimerspec { it_interval: NOW, it_value: value },
            );
        }
        let mut buffer = [MaybeUninit::uninit(); EVENTS];
        let Ok((events, _)) = epoll::wait(&self.watched.0, &mut buffer, (!sleeps).then_some(&NOW)) else {
            return; // Interrupted: nothing happened.
        };
        for event in events {
            let (data, flags) = (event.data.u64(), event.flags);
            match data {
                COMMANDS => {
                    let _ = rustix::io::read(&*self.wake, &mut [0; size_of::<u64>()]);
                }
                LINKS => {
                    // Only that something changed is of interest: ports are looked at again. An overrun
                    // (ENOBUFS) says the same.
                    let mut scratch = [0; 4096];
                    while matches!(recv(&self.links, &mut scratch, RecvFlags::empty()), Ok((1.., _))) {}
                    self.woken.links = true;
                }
                // Setting it again takes back that it went off.
                TIMER => {}
                port if port & WRITABLE != 0 => self.woken.writable.push(((port >> 16) as u16, port as u16)),
                _ => self.woken.links |= flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP),
            }
        }
    }
}
