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

/// Size in bytes of the kernel's receive buffer: about 3,600 full frames, or 40 ms at 1 Gbit/s.
const RECEIVE_BUFFER_LEN: usize = 8 << 20;
/// Length in bytes of the longest frame that the kernel delivers, which is one merged from several by GRO.
const MAX_READ_LEN: usize = 1 << 16;
/// Interval between attempts to send while the interface is down.
const DOWN_RETRY_INTERVAL: Time = Time::from_ms(10);

/// A raw socket on one interface, and a transmitter that sends at the configured rate of the NIC.
///
/// pnet binds the socket and makes the system calls. The socket is created here, because its filter must be attached
/// before the first frame arrives, and a handle is kept, because pnet can neither poll it nor clear an error such as
/// "network is down".
pub(super) struct Nic {
    sender: Box<dyn DataLinkSender>,
    receiver: Box<dyn DataLinkReceiver>,
    socket: Socket,
    rate: Bandwidth,
    /// Maximum lateness of the loop for which the transmitter compensates.
    max_catch_up: Time,
    /// End of the serialisation of the last frame.
    free_at: Time,
    /// The send buffer, zero except for the last frame's headers.
    frame: Vec<u8>,
    /// Length of the prefix of `frame` that may be non-zero.
    dirty_len: usize,
    /// Length of the frame in `frame` that the kernel has not accepted yet; `None` if there is none.
    pending_len: Option<usize>,
    /// True if the kernel's queue was full at the last attempt to send.
    is_queue_full: bool,
    /// True if receiving failed since the last `take_error`.
    had_error: bool,
    counters: NicCounters,
}

/// The outcome of sending a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendOutcome {
    /// The kernel has accepted the frame, or the frame was dropped and counted.
    Sent,
    /// The frame is kept for `flush`: the kernel's queue is full, or the interface is down.
    WouldBlock,
    /// The interface no longer exists.
    NoDevice,
}

/// Counters of the raw socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NicCounters {
    /// Frames that the kernel accepted.
    pub frames_sent: u64,
    pub bytes_sent: u64,
    pub frames_received: u64,
    pub bytes_received: u64,
    /// Attempts to send that failed because the kernel's queue was full; the frame is sent later.
    pub queue_full: u64,
    /// Frames that the interface's queueing discipline dropped (ENOBUFS).
    pub queue_drops: u64,
    /// Attempts to send that failed because the interface was down; the frame is sent later.
    pub down: u64,
    /// Frames dropped because they exceed the interface's MTU.
    pub too_long: u64,
    /// Frames dropped because of any other error.
    pub other_errors: u64,
}

impl Nic {
    /// Opens the raw socket. Frames are sent at `rate`; lateness of up to `max_catch_up` does not reduce it.
    pub(crate) fn open(
        interface: &Interface,
        rate: Bandwidth,
        max_catch_up: Time,
    ) -> Result<Nic, AgentError> {
        let open_error = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => AgentError::NoPermission { iface: interface.name.clone() },
            _ => {
                AgentError::System { operation: format!("opening a raw socket on {}", interface.name), error }
            }
        };
        // Protocol 0: the socket receives nothing until pnet binds it, and by then the filter is attached.
        let socket = Socket::new(Domain::PACKET, Type::RAW, None).map_err(open_error)?;
        socket.attach_filter(&filter::weir_frames()).map_err(open_error)?;
        if set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_LEN).is_err() {
            // Without CAP_NET_ADMIN the kernel limits the size to net.core.rmem_max.
            socket.set_recv_buffer_size(RECEIVE_BUFFER_LEN).map_err(open_error)?;
        }
        let handle = socket.try_clone().map_err(open_error)?;
        let config = Config {
            read_buffer_size: MAX_READ_LEN,
            write_buffer_size: 0, // only for pnet's build_and_send
            read_timeout: Some(Duration::ZERO),
            write_timeout: Some(Duration::ZERO),
            promiscuous: false,
            socket_fd: Some(socket.into_raw_fd()), // pnet closes it, also on error
            ..Config::default()
        };
        let Channel::Ethernet(sender, receiver) =
            datalink::channel(&interface.pnet, config).map_err(open_error)?
        else {
            return Err(open_error(io::Error::other("pnet opened no Ethernet channel")));
        };
        Ok(Nic {
            sender,
            receiver,
            socket: handle,
            rate,
            max_catch_up,
            free_at: Time::ZERO,
            frame: vec![0; interface.max_frame.get() as usize + MAX_HEADER_LEN],
            dirty_len: 0,
            pending_len: None,
            is_queue_full: false,
            had_error: false,
            counters: NicCounters::default(),
        })
    }

    /// Returns the end of serialisation of the last frame.
    pub(crate) fn free_at(&self) -> Time {
        self.free_at
    }
    /// Returns whether the pending frame waits for room in the kernel's queue.
    pub(crate) fn is_queue_full(&self) -> bool {
        self.is_queue_full
    }
    pub(crate) fn has_pending(&self) -> bool {
        self.pending_len.is_some()
    }
    pub(crate) fn counters(&self) -> &NicCounters {
        &self.counters
    }
    /// Returns whether receiving failed since the previous call.
    pub(crate) fn take_error(&mut self) -> bool {
        std::mem::take(&mut self.had_error)
    }
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
    /// Returns the buffer for the headers of the next frame.
    pub(crate) fn head(&mut self) -> &mut [u8] {
        &mut self.frame[..MAX_HEADER_LEN]
    }

    /// Copies a whole frame into the send buffer. Returns its length, for the next call of [`send`](Self::send).
    pub(crate) fn load_frame(&mut self, frame: &[u8]) -> usize {
        let len = frame.len().min(self.frame.len());
        self.frame[..len].copy_from_slice(&frame[..len]);
        // Not `len`: `send` counts a frame that exceeds the buffer as too long.
        frame.len()
    }

    /// Calls `on_frame` with the next received frame. Returns false if there is none.
    pub(crate) fn receive(&mut self, on_frame: impl FnOnce(&[u8])) -> bool {
        match self.receiver.next() {
            Ok(frame) => {
                self.counters.frames_received += 1;
                self.counters.bytes_received += frame.len() as u64;
                on_frame(frame);
                true
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::Interrupted) => {
                false
            }
            Err(_) => {
                // The interface went down. The error is pending until it is read, and until then poll returns at once.
                let _ = self.socket.take_error();
                self.had_error = true;
                false
            }
        }
    }

    /// Sends the `head_len` bytes written to [`head`](Self::head), followed by `payload` zero bytes.
    pub(crate) fn send(&mut self, now: Time, head_len: usize, payload: u32) -> SendOutcome {
        let length = head_len + payload as usize;
        if length > self.frame.len() {
            self.counters.too_long += 1;
            return SendOutcome::Sent;
        }
        // The payload must be zero, but the headers of the previous frame may have been longer.
        let dirty_len = std::mem::replace(&mut self.dirty_len, head_len.max(HEADERS_LEN));
        if dirty_len > head_len {
            self.frame[head_len..dirty_len].fill(0);
        }
        // If the loop is late by up to `max_catch_up`, the frame counts as sent at the time at which it was due, so
        // that lateness does not reduce the rate.
        let from = self.free_at.max(now.saturating_sub(self.max_catch_up));
        self.free_at = from.saturating_add(self.rate.tx_time(weir_units::Bytes::new(length as u64)));
        self.pending_len = Some(length);
        self.flush(now)
    }

    /// Tries to send the pending frame, if there is one.
    pub(crate) fn flush(&mut self, now: Time) -> SendOutcome {
        let Some(length) = self.pending_len else { return SendOutcome::Sent };
        self.is_queue_full = false;
        let Some(Err(error)) = self.sender.send_to(&self.frame[..length], None) else {
            self.pending_len = None;
            self.counters.frames_sent += 1;
            self.counters.bytes_sent += length as u64;
            return SendOutcome::Sent;
        };
        match Errno::from_io_error(&error) {
            // Interrupted by a signal: the caller tries again.
            Some(Errno::INTR) => return SendOutcome::WouldBlock,
            Some(Errno::NETDOWN) => {
                self.counters.down += 1;
                self.free_at = now.saturating_add(DOWN_RETRY_INTERVAL);
                return SendOutcome::WouldBlock;
            }
            Some(Errno::NXIO | Errno::NODEV) => return SendOutcome::NoDevice,
            Some(Errno::NOBUFS) => self.counters.queue_drops += 1,
            Some(Errno::MSGSIZE) => self.counters.too_long += 1,
            Some(Errno::AGAIN) => return self.mark_queue_full(),
            None if error.kind() == io::ErrorKind::TimedOut => return self.mark_queue_full(),
            _ => {
                // Clear the error, or poll would return at once from now on.
                let _ = self.socket.take_error();
                self.counters.other_errors += 1;
            }
        }
        self.pending_len = None;
        SendOutcome::Sent
    }

    fn mark_queue_full(&mut self) -> SendOutcome {
        self.counters.queue_full += 1;
        self.is_queue_full = true;
        SendOutcome::WouldBlock
    }
}
