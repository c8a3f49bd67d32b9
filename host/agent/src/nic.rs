use super::{AgentError, Interface, filter};
use pnet::datalink::{self, Channel, Config, DataLinkReceiver, DataLinkSender};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd};
use std::time::Duration;
use weir_host::wire::{HEADERS_LEN, MAX_HEADER_LEN};
use weir_units::{Bandwidth, Time};

/// Frames the kernel may hold for us: about 3,600 full ones, 40 ms of 1 Gbit/s.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Longest frame the kernel may hand over: one that it put together from several.
const READ_BUFFER: usize = 1 << 16;
/// While the interface is down it is tried this often.
const DOWN_RETRY: Time = Time::from_ms(10);

/// A raw socket on one interface, and a transmitter as slow as the NIC it stands for.
///
/// pnet binds the socket and makes the system calls; the socket is made here, because its filter
/// must be in place before the first frame, and kept, because pnet can neither wait precisely nor
/// clear an error such as "network is down".
pub(super) struct Nic {
    sender: Box<dyn DataLinkSender>,
    receiver: Box<dyn DataLinkReceiver>,
    socket: Socket,
    rate: Bandwidth,
    /// The most lateness of the loop that is compensated.
    max_catch_up: Time,
    free_at: Time,
    frame: Vec<u8>,
    /// Length of the part of `frame` that may be non-zero.
    dirty_len: usize,
    /// Length of a frame that the kernel had no room for.
    pending: Option<usize>,
    full: bool,
    /// The socket reported an error since it was last asked.
    had_error: bool,
    counters: NicCounters,
}

/// The outcome of sending a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// It left, or is lost and counted.
    Sent,
    /// It is kept: the kernel's queue is full, or the interface is down.
    WouldBlock,
    /// The interface does not exist any more.
    NoDevice,
}

/// Counters of the raw socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NicCounters {
    /// Frames handed to the kernel.
    pub frames_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Frames taken from the kernel.
    pub frames_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Times a frame had to wait because the kernel's queue was full.
    pub queue_full: u64,
    /// Frames that the interface's own queue dropped.
    pub queue_drops: u64,
    /// Times a frame had to wait because the interface was down.
    pub down: u64,
    /// Frames longer than the interface takes.
    pub too_long: u64,
    /// Frames lost to any other refusal.
    pub other_errors: u64,
}

impl Nic {
    pub fn open(interface: &Interface, rate: Bandwidth, slack: Time) -> Result<Nic, AgentError> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => AgentError::NoPermission { iface: interface.name.clone() },
            _ => AgentError::System { what: format!("opening a raw socket on {}", interface.name), error },
        };
        // Protocol 0: nothing comes in until pnet binds the socket, and then the filter is there.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None).map_err(refused)?;
        socket.attach_filter(&filter::weir_frames()).map_err(refused)?;
        if set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
            // Without CAP_NET_ADMIN as much as the system allows.
            socket.set_recv_buffer_size(RECEIVE_BUFFER).map_err(refused)?;
        }
        let ours = socket.try_clone().map_err(refused)?;
        let config = Config {
            read_buffer_size: READ_BUFFER,
            write_buffer_size: 0, // only for pnet's build_and_send
            read_timeout: Some(Duration::ZERO),
            write_timeout: Some(Duration::ZERO),
            promiscuous: false,
            socket_fd: Some(socket.into_raw_fd()), // pnet closes it, also on error
            ..Config::default()
        };
        let Channel::Ethernet(sender, receiver) =
            datalink::channel(&interface.pnet, config).map_err(refused)?
        else {
            return Err(refused(io::Error::other("pnet opened no Ethernet channel")));
        };
        Ok(Nic {
            sender,
            receiver,
            socket: ours,
            rate,
            max_catch_up: slack,
            free_at: Time::ZERO,
            frame: vec![0; interface.max_frame.get() as usize + MAX_HEADER_LEN],
            dirty_len: 0,
            pending: None,
            full: false,
            had_error: false,
            counters: NicCounters::default(),
        })
    }

    /// Returns the time at which the transmitter has sent what it was given.
    pub fn free_at(&self) -> Time {
        self.free_at
    }
    /// A frame waits until the kernel has room again.
    pub fn is_full(&self) -> bool {
        self.full
    }
    pub fn has_pending(&self) -> bool {
        self.pending.is_some()
    }
    pub fn counters(&self) -> &NicCounters {
        &self.counters
    }
    /// Returns whether there was trouble since the last time this was asked.
    pub fn take_error(&mut self) -> bool {
        std::mem::take(&mut self.had_error)
    }
    /// To wait on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
    /// Returns the buffer for the next frame's head.
    pub fn head(&mut self) -> &mut [u8] {
        &mut self.frame[..MAX_HEADER_LEN]
    }

    /// Takes a whole frame as the next one's head, and returns its length.
    pub fn load_frame(&mut self, frame: &[u8]) -> usize {
        let len = frame.len().min(self.frame.len());
        self.frame[..len].copy_from_slice(&frame[..len]);
        frame.len()
    }

    /// Gives the next frame that came in to `take`. False if there is none.
    pub fn receive(&mut self, take: impl FnOnce(&[u8])) -> bool {
        match self.receiver.next() {
            Ok(frame) => {
                self.counters.frames_received += 1;
                self.counters.bytes_received += frame.len() as u64;
                take(frame);
                true
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::Interrupted) => {
                false
            }
            Err(_) => {
                // The interface went down: the error stands until it is read, and poll returns at once.
                let _ = self.socket.take_error();
                self.had_error = true;
                false
            }
        }
    }

    /// Sends what was written to [`head`](Self::head) with `payload` zeros behind it.
    pub fn send(&mut self, now: Time, head_len: usize, payload: u32) -> SendOutcome {
        let length = head_len + payload as usize;
        if length > self.frame.len() {
            self.counters.too_long += 1;
            return SendOutcome::Sent;
        }
        // A longer head may have stood here before.
        let dirty = std::mem::replace(&mut self.dirty_len, head_len.max(HEADERS_LEN));
        if dirty > head_len {
            self.frame[head_len..dirty].fill(0);
        }
        // The transmitter is busy from when it was free, if the loop is only a little late.
        let from = self.free_at.max(now.saturating_sub(self.max_catch_up));
        self.free_at = from.saturating_add(self.rate.tx_time(weir_units::Bytes::new(length as u64)));
        self.pending = Some(length);
        self.flush(now)
    }

    /// Tries to send the frame that is kept, if there is one.
    pub fn flush(&mut self, now: Time) -> SendOutcome {
        let Some(length) = self.pending else { return SendOutcome::Sent };
        self.full = false;
        let Some(Err(error)) = self.sender.send_to(&self.frame[..length], None) else {
            self.pending = None;
            self.counters.frames_sent += 1;
            self.counters.bytes_sent += length as u64;
            return SendOutcome::Sent;
        };
        match Errno::from_io_error(&error) {
            Some(Errno::INTR) => return SendOutcome::WouldBlock,
            Some(Errno::NETDOWN) => {
                self.counters.down += 1;
                self.free_at = now.saturating_add(DOWN_RETRY);
                return SendOutcome::WouldBlock;
            }
            Some(Errno::NXIO | Errno::NODEV) => return SendOutcome::NoDevice,
            Some(Errno::NOBUFS) => self.counters.queue_drops += 1,
            Some(Errno::MSGSIZE) => self.counters.too_long += 1,
            Some(Errno::AGAIN) => return self.mark_queue_full(),
            None if error.kind() == io::ErrorKind::TimedOut => return self.mark_queue_full(),
            _ => {
                let _ = self.socket.take_error();
                self.counters.other_errors += 1;
            }
        }
        self.pending = None;
        SendOutcome::Sent
    }

    fn mark_queue_full(&mut self) -> SendOutcome {
        self.counters.queue_full += 1;
        self.full = true;
        SendOutcome::WouldBlock
    }
}
