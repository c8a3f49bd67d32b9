//! A port: its interface or files, its link, and its counters.

use super::af_packet::{Interface, RxFrame, RxRing, TxSocket};
use super::capture::Capture;
use super::clock::wall_clock;
use super::pcap::PcapWriter;
use super::port_link::{Lateness, LinkDirection, PortLink, PortLinkConfig, direction_status};
use super::stats::{IoDrop, PortCounters};
use crate::packet::{Packet, PacketPool};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use weir_units::Time;

/// The source and sink of a port's frames.
enum PortBackend {
    /// A network interface, with its sockets unless it is absent.
    Interface(Option<Sockets>),
    /// A file to which frames are sent. Received frames come from [`super::replay::Replay`].
    File(PcapWriter),
    /// A link to a switch of the same data plane.
    Internal(InternalLink),
}

/// The two ends of a link between switches, seen from one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkEnd {
    Local,
    Peer,
}

/// Whether an end of a link between switches is plugged in. A user unplugs it by removing the port, and plugs it in by
/// adding the port again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlugState {
    Plugged,
    Unplugged,
}

/// A link between two switches of a data plane, seen from one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct InternalLink {
    /// Index of the switch at the other end, and its port number.
    peer: (u16, u16),
    /// Indexed by [`LinkEnd`]. The port is up if both ends are plugged in.
    ends: [PlugState; 2],
}

struct Sockets {
    interface: Interface,
    ring: RxRing,
    sender: TxSocket,
}

/// A port of the data plane.
pub(super) struct Port {
    pub number: u16,
    /// Name of the interface or of the pcap files.
    pub name: String,
    pub up: bool,
    pub counters: PortCounters,
    pub capture: Option<Capture>,
    /// Frames from the switch to the far end; `None` if the port has no link.
    pub egress_link: Option<LinkDirection>,
    /// Frames from the interface to the switch; `None` if the port has no link, or an internal one.
    pub ingress_link: Option<LinkDirection>,
    backend: PortBackend,
    ring_bytes: usize,
    /// Frames that the kernel has not accepted yet, at most [`TxSocket::BATCH`].
    outgoing: VecDeque<Box<Packet>>,
    /// True after the socket was full, until it is writable again.
    pub tx_blocked: bool,
    /// Buffer for a received frame with its VLAN tag and checksum restored.
    scratch: Vec<u8>,
}

impl Port {
    /// Opens a port on an interface, which must exist.
    pub(super) fn open(
        number: u16,
        name: &str,
        ring_bytes: usize,
        capture: Option<Capture>,
    ) -> io::Result<Port> {
        let interface = Interface::find(name)?;
        let mut port = Port::new(number, name, PortBackend::Interface(None), capture);
        port.ring_bytes = ring_bytes;
        port.attach(interface)?;
        Ok(port)
    }

    /// Creates a port that sends to a file.
    pub(super) fn to_file(number: u16, name: &str, file: PcapWriter) -> Port {
        Port { up: true, ..Port::new(number, name, PortBackend::File(file), None) }
    }

    /// Creates a port on a link to a port of another switch of this data plane.
    pub(super) fn internal(number: u16, name: &str, peer: (u16, u16), capture: Option<Capture>) -> Port {
        let link = InternalLink { peer, ends: [PlugState::Plugged; 2] };
        Port { up: true, ..Port::new(number, name, PortBackend::Internal(link), capture) }
    }

    fn new(number: u16, name: &str, backend: PortBackend, capture: Option<Capture>) -> Port {
        Port {
            number,
            name: name.to_owned(),
            up: false,
            counters: PortCounters::default(),
            capture,
            egress_link: None,
            ingress_link: None,
            backend,
            ring_bytes: 0,
            outgoing: VecDeque::with_capacity(TxSocket::BATCH),
            tx_blocked: false,
            scratch: Vec::new(),
        }
    }

    fn attach(&mut self, interface: Interface) -> io::Result<()> {
        let ring = RxRing::open(&interface, self.ring_bytes)?;
        let sender = TxSocket::open(&interface)?;
        self.up = interface.running;
        self.backend = PortBackend::Interface(Some(Sockets { interface, ring, sender }));
        Ok(())
    }

    /// Returns the sockets to receive and to send with; `None` if the port has none.
    pub(super) fn sockets(&self) -> Option<(BorrowedFd<'_>, BorrowedFd<'_>)> {
        match &self.backend {
            PortBackend::Interface(Some(sockets)) => Some((sockets.ring.as_fd(), sockets.sender.as_fd())),
            _ => None,
        }
    }

    /// Returns whether the interface is gone; the driver then looks for it from time to time.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self.backend, PortBackend::Interface(None))
    }

    /// Returns the switch index and port number at the other end of an internal link.
    pub(super) fn peer(&self) -> Option<(u16, u16)> {
        match &self.backend {
            PortBackend::Internal(link) => Some(link.peer),
            _ => None,
        }
    }

    /// Plugs an end of an internal link in, or unplugs it. Returns whether the port went up or down.
    pub(super) fn set_plug_state(&mut self, end: LinkEnd, state: PlugState) -> bool {
        let PortBackend::Internal(link) = &mut self.backend else { return false };
        link.ends[end as usize] = state;
        let was_up = std::mem::replace(&mut self.up, link.ends == [PlugState::Plugged; 2]);
        self.counters.link_down_events += u64::from(was_up && !self.up);
        was_up != self.up
    }

    /// Reads the state of the interface again: it may be gone, down, up, or replaced by another of the same
    /// name. Returns whether the sockets are new.
    pub(super) fn refresh(&mut self) -> bool {
        self.sync_counters();
        let PortBackend::Interface(sockets) = &mut self.backend else { return false };
        let was_up = self.up;
        let mut renewed = false;
        match Interface::find(&self.name) {
            Err(_) => {
                *sockets = None;
                self.up = false;
            }
            Ok(found) => match sockets {
                Some(open)
                    if open.interface.index == found.index
                        && found.slot_bytes() <= open.ring.slot_bytes() =>
                {
                    // After the interface went down, ENETDOWN is pending at the socket and would wake the
                    // thread until it is read.
                    open.ring.take_error();
                    open.interface = found;
                    self.up = found.running;
                }
                _ => {
                    *sockets = None;
                    self.up = false;
                    match self.attach(found) {
                        Ok(()) => renewed = true,
                        Err(error) => {
                            tracing::warn!(port = self.number, interface = %self.name, %error, "cannot open the interface")
                        }
                    }
                }
            },
        }
        self.counters.link_down_events += u64::from(was_up && !self.up);
        renewed
    }

    /// Passes at most `budget` frames from the interface to `on_frame`, with the port's number and the system
    /// time at which the kernel received each, until it returns `false`. Returns the number of frames read.
    #[inline]
    pub(super) fn receive(
        &mut self,
        budget: usize,
        mut on_frame: impl FnMut(u16, Duration, &[u8]) -> bool,
    ) -> usize {
        let Port { number, backend, counters, capture, scratch: restored, .. } = self;
        let PortBackend::Interface(Some(sockets)) = backend else { return 0 };
        sockets.ring.receive_while(budget, |frame| {
            let Some(bytes) = reassemble(&frame, counters, restored) else { return true };
            counters.received.count(bytes.len() as u32);
            if let Some(capture) = capture {
                counters.not_captured += u64::from(!capture.write_received(bytes));
            }
            on_frame(*number, frame.received, bytes)
        })
    }

    /// Moves at most `budget` frames from the interface to the link to the switch. `arrived_at` converts the system
    /// time of a frame's arrival to the data plane's clock. Returns the number of frames read.
    pub(super) fn receive_into_link(
        &mut self,
        budget: usize,
        mut arrived_at: impl FnMut(Duration) -> Time,
        pool: &mut PacketPool,
    ) -> usize {
        let Port { backend, counters, scratch: restored, ingress_link, .. } = self;
        let (PortBackend::Interface(Some(sockets)), Some(link)) = (backend, ingress_link) else { return 0 };
        sockets.ring.receive(budget, |frame| {
            let Some(bytes) = reassemble(&frame, counters, restored) else { return };
            let mut packet = pool.get();
            packet.set_bytes(bytes);
            link.push(arrived_at(frame.received), packet, pool);
        })
    }

    /// Counts and captures a frame that was read from this port's file or arrived on its link.
    pub(super) fn count_received(&mut self, frame: &[u8]) {
        self.counters.received.count(frame.len() as u32);
        if let Some(capture) = &mut self.capture {
            self.counters.not_captured += u64::from(!capture.write_received(frame));
        }
    }

    /// Returns whether [`Port::push`] may be called before the next flush.
    pub(super) fn has_room(&self) -> bool {
        self.outgoing.len() < TxSocket::BATCH
    }

    /// Returns the number of frames that have left the switch but are not sent yet, including those on the
    /// link.
    pub(super) fn unsent(&self) -> usize {
        self.outgoing.len() + self.egress_link.as_ref().map_or(0, LinkDirection::len)
    }

    /// Queues a frame for the next [`Port::flush`], or puts it on the port's link. A frame on a link counts
    /// as sent when it enters the link.
    pub(super) fn push(&mut self, now: Time, packet: Box<Packet>, pool: &mut PacketPool) {
        if self.egress_link.is_none() {
            return self.outgoing.push_back(packet);
        }
        if !self.up {
            self.counters.dropped.add(IoDrop::PortDown, 1);
            return pool.put(packet);
        }
        self.count_sent(&packet);
        if let Some(link) = &mut self.egress_link {
            link.push(now, packet, pool);
        }
    }

    /// Queues the frames that have arrived at the end of the link for the interface. Returns whether there is
    /// something to flush.
    pub(super) fn flush_link(&mut self, now: Time, lateness: &mut Lateness) -> bool {
        let Some(link) = &mut self.egress_link else { return false };
        while self.outgoing.len() < TxSocket::BATCH
            && let Some((arrival, packet)) = link.pop(now)
        {
            lateness.add(now.saturating_sub(arrival));
            self.outgoing.push_back(packet);
        }
        !self.outgoing.is_empty() && !self.tx_blocked
    }

    /// Removes and returns the next frame that has arrived at the far end of an internal link, with its time of
    /// arrival. Frames that arrive while the link is down are dropped.
    pub(super) fn pop_arrived(&mut self, now: Time, pool: &mut PacketPool) -> Option<(Time, Box<Packet>)> {
        loop {
            let (arrival, packet) = self.egress_link.as_mut()?.pop(now)?;
            if self.up {
                return Some((arrival, packet));
            }
            self.counters.dropped.add(IoDrop::PortDown, 1);
            pool.put(packet);
        }
    }

    fn count_sent(&mut self, packet: &Packet) {
        self.counters.sent.count(packet.len());
        if let Some(capture) = &mut self.capture {
            self.counters.not_captured += u64::from(!capture.write_sent(packet.bytes()));
        }
    }

    /// Sends queued frames. Returns `false` if the socket is full; it becomes writable when there is room.
    pub(super) fn flush(&mut self, pool: &mut PacketPool) -> bool {
        self.tx_blocked = false;
        while let Some(first) = self.outgoing.front() {
            let result = match &mut self.backend {
                PortBackend::File(file) => write_file(file, first.bytes()),
                PortBackend::Interface(Some(sockets)) if self.up => sockets
                    .sender
                    .send(self.outgoing.iter().map(|packet| packet.bytes()))
                    .map_err(SendFailure::from),
                PortBackend::Interface(_) | PortBackend::Internal(_) => {
                    Err(SendFailure::Dropped(IoDrop::PortDown))
                }
            };
            let (done, drop_reason) = match result {
                Ok(sent) => (sent, None),
                Err(SendFailure::Interrupted) => continue,
                Err(SendFailure::WouldBlock) => {
                    self.tx_blocked = true;
                    return false;
                }
                // `sendmmsg` reports an error only for the first frame of a call, so that frame is dropped
                // and the rest is tried again.
                Err(SendFailure::Dropped(reason)) => (1, Some(reason)),
            };
            for _ in 0..done {
                let Some(packet) = self.outgoing.pop_front() else { break };
                match drop_reason {
                    Some(reason) => self.counters.dropped.add(reason, 1),
                    None if self.egress_link.is_none() => self.count_sent(&packet),
                    None => {}
                }
                pool.put(packet);
            }
        }
        true
    }

    /// Attaches a link to the port: in both directions if the port is on an interface.
    pub(super) fn attach_link(&mut self, link_config: PortLinkConfig) {
        self.egress_link = Some(LinkDirection::new(link_config.link, link_config.seeds[0]));
        self.ingress_link = matches!(self.backend, PortBackend::Interface(_))
            .then(|| LinkDirection::new(link_config.link, link_config.seeds[1]));
    }

    /// Returns the state of the port's link, whose parameters are in `link_config`.
    pub(super) fn link(&mut self, link_config: &PortLinkConfig) -> PortLink {
        self.sync_counters();
        let dropped = &self.counters.dropped;
        PortLink {
            port: self.number,
            link: link_config.link,
            sent: direction_status(self.egress_link.as_ref(), dropped.send_drops()),
            received: direction_status(self.ingress_link.as_ref(), dropped.receive_drops()),
        }
    }

    /// Adds the kernel's drops to the counters and flushes files.
    pub(super) fn sync_counters(&mut self) {
        if let PortBackend::Interface(Some(sockets)) = &self.backend {
            self.counters.dropped.add(IoDrop::RingFull, sockets.ring.take_drops().unwrap_or(0));
        }
        self.flush_files();
    }

    /// Flushes capture and output files to the operating system.
    pub(super) fn flush_files(&mut self) {
        if let Some(capture) = &mut self.capture {
            capture.flush();
        }
        if let PortBackend::File(file) = &mut self.backend
            && let Err(error) = file.flush()
        {
            tracing::warn!(port = self.number, %error, "cannot write the pcap file");
        }
    }
}

/// Returns a frame as it was on the wire. A frame that cannot be accepted is counted as dropped.
fn reassemble<'f>(
    frame: &RxFrame<'f>,
    counters: &mut PortCounters,
    restored: &'f mut Vec<u8>,
) -> Option<&'f [u8]> {
    if let Some(reason) = drop_reason(frame) {
        counters.dropped.add(reason, 1);
        return None;
    }
    if frame.is_plain() {
        return Some(frame.bytes);
    }
    frame.write_to(restored);
    Some(restored)
}

/// Returns the reason to drop a frame from the ring, if there is one.
fn drop_reason(frame: &RxFrame<'_>) -> Option<IoDrop> {
    if frame.segmented {
        Some(IoDrop::Segmented)
    } else if !frame.is_whole() {
        Some(IoDrop::Oversize)
    } else {
        None
    }
}

/// The reason why the first frame of a batch was not sent.
enum SendFailure {
    /// The call was interrupted; try again at once.
    Interrupted,
    /// The socket is full; try again when it is writable.
    WouldBlock,
    /// The frame is dropped.
    Dropped(IoDrop),
}

impl From<io::Error> for SendFailure {
    fn from(error: io::Error) -> SendFailure {
        match Errno::from_io_error(&error) {
            Some(Errno::INTR) => SendFailure::Interrupted,
            Some(Errno::AGAIN) => SendFailure::WouldBlock,
            Some(Errno::NOBUFS) => SendFailure::Dropped(IoDrop::SendQueueFull),
            Some(Errno::MSGSIZE | Errno::INVAL) => SendFailure::Dropped(IoDrop::BadLength),
            Some(Errno::NETDOWN | Errno::NXIO | Errno::NODEV) => SendFailure::Dropped(IoDrop::PortDown),
            _ => SendFailure::Dropped(IoDrop::SendError),
        }
    }
}

fn write_file(file: &mut PcapWriter, frame: &[u8]) -> Result<usize, SendFailure> {
    let written = file.write(wall_clock(), frame);
    written.map(|_| 1).map_err(|_| SendFailure::Dropped(IoDrop::SendError))
}
