//! Serves one client: handles its calls in order, each within limits of size and time.

use super::dispatch;
use super::service::{CallError, Service};
use super::value::{Fields, Value, limits};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TInputProtocol, TMessageIdentifier, TMessageType,
    TOutputProtocol,
};

/// Maximum number of clients. A further one evicts the client that has been idle longest.
const MAX_CONNECTIONS: usize = 16;
/// Maximum length of a call in bytes, enough for a program of 1 MiB.
const MAX_CALL_LEN: usize = (1 << 20) + (64 << 10);
/// Maximum length of a reply in bytes: some 100,000 table entries.
const MAX_REPLY_LEN: usize = 32 << 20;
/// Timeout from the first to the last byte of a call, and of a reply. There is no timeout between calls, since users
/// type them in a CLI.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the read buffer in bytes, and of the last part of a reply.
const BUFFER_LEN: usize = 4096;
/// Requires and writes the protocol version in the header of a message.
const STRICT: bool = true;

#[derive(Debug, Default)]
pub(super) struct Connections {
    peers: Mutex<Peers>,
    is_closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Peers {
    /// Ids are not reused.
    by_id: BTreeMap<u64, Peer>,
    next_id: u64,
}

#[derive(Debug)]
struct Peer {
    stream: TcpStream,
    /// Start of the idle time; `None` during a call.
    idle_since: Option<Instant>,
}

impl Connections {
    /// Ignores poisoning: no code that runs under the lock can panic in the middle of a change.
    fn lock(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all connections, and all that are accepted later.
    pub(super) fn close(&self) {
        let peers = self.lock();
        self.is_closed.store(true, Ordering::SeqCst);
        peers.by_id.values().for_each(Peer::shutdown);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }
}

impl Peer {
    /// Ends the peer's thread, which reads the end of the stream. Fails only if the peer has already disconnected.
    fn shutdown(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// RAII guard of an admitted connection.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    connections: Arc<Connections>,
    id: u64,
}

impl ConnectionPermit {
    /// Returns `None` if the server is closing or all connections have calls in progress.
    pub(super) fn acquire(connections: &Arc<Connections>, stream: &TcpStream) -> Option<ConnectionPermit> {
        let stream = stream.try_clone().ok()?;
        let mut peers = connections.lock();
        if connections.is_closed() {
            return None;
        }
        if peers.by_id.len() >= MAX_CONNECTIONS {
            let idle = peers.by_id.iter().filter_map(|(id, peer)| Some((peer.idle_since?, *id)));
            let (_, oldest) = idle.min()?;
            if let Some(peer) = peers.by_id.remove(&oldest) {
                peer.shutdown();
            }
        }
        let id = peers.next_id;
        peers.next_id += 1;
        peers.by_id.insert(id, Peer { stream, idle_since: Some(Instant::now()) });
        drop(peers);
        Some(ConnectionPermit { connections: connections.clone(), id })
    }

    fn set_idle_since(&self, since: Option<Instant>) {
        if let Some(peer) = self.connections.lock().by_id.get_mut(&self.id) {
            peer.idle_since = since;
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.lock().by_id.remove(&self.id);
    }
}

/// A stream with limits on the bytes and the duration of a call.
struct BoundedStream {
    stream: TcpStream,
    buffer: Box<[u8; BUFFER_LEN]>,
    /// The bytes of `buffer` in `start..end` are not read yet.
    start: usize,
    end: usize,
    /// Bytes that the current call may still have.
    bytes_left: usize,
    /// Time at which the current call must be complete; `None` between calls.
    deadline: Option<Instant>,
}

impl BoundedStream {
    /// Waits for the first byte of a call. Returns `false` if the peer has disconnected.
    fn next_call(&mut self) -> io::Result<bool> {
        (self.bytes_left, self.deadline) = (MAX_CALL_LEN, None);
        if self.start == self.end {
            self.fill()?;
        }
        self.deadline = Some(Instant::now() + CALL_TIMEOUT);
        Ok(self.start < self.end)
    }

    /// Reads into the empty buffer. Leaves the buffer empty at the end of the stream.
    fn fill(&mut self) -> io::Result<()> {
        (self.start, self.end) = (0, 0);
        loop {
            self.stream.set_read_timeout(self.deadline.map(time_left).transpose()?)?;
            match self.stream.read(&mut self.buffer[..]) {
                Ok(received) => break self.end = received,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + CALL_TIMEOUT;
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(time_left(deadline)?))?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn time_left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Read for BoundedStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.bytes_left == 0 {
            return Err(io::Error::new(ErrorKind::InvalidData, "the call is too long"));
        }
        if self.start == self.end {
            self.fill()?;
        }
        let len = into.len().min(self.end - self.start).min(self.bytes_left);
        into[..len].copy_from_slice(&self.buffer[self.start..][..len]);
        self.start += len;
        self.bytes_left -= len;
        Ok(len)
    }
}

/// Serves a client until it disconnects or sends an invalid call.
pub(super) fn serve(stream: TcpStream, permit: &ConnectionPermit, service: &Mutex<Service>) {
    // Replies are written at once, so delaying small segments gains nothing.
    // A failure only means slower replies.
    let _ = stream.set_nodelay(true);
    let buffer = Box::new([0; BUFFER_LEN]);
    let mut peer = BoundedStream { stream, buffer, start: 0, end: 0, bytes_left: 0, deadline: None };
    while let Ok(true) = peer.next_call() {
        permit.set_idle_since(None);
        let outcome =
            handle_call(&mut peer, service).and_then(|reply| Ok(send_reply(&mut peer, permit, &reply)?));
        if let Err(error) = outcome {
            tracing::debug!(%error, "closing a Thrift connection");
            break;
        }
    }
    // Fails only if the peer has already disconnected.
    let _ = peer.stream.shutdown(Shutdown::Both);
}

/// Sends a reply. The client is marked idle before the last part is sent: a client that has read its whole reply must
/// not still count as busy when its own next connection needs a permit.
fn send_reply(peer: &mut BoundedStream, permit: &ConnectionPermit, reply: &[u8]) -> io::Result<()> {
    let (first, last) = reply.split_at(reply.len().saturating_sub(BUFFER_LEN));
    peer.send(first)?;
    permit.set_idle_since(Some(Instant::now()));
    peer.send(last)
}

/// Reads a call and returns the encoded reply. A malformed call ends the connection, since the start of the next call
/// is unknown.
fn handle_call(peer: &mut BoundedStream, service: &Mutex<Service>) -> thrift::Result<Vec<u8>> {
    let mut protocol = TBinaryInputProtocol::with_config(&mut *peer, STRICT, limits()?);
    let message = protocol.read_message_begin()?;
    let args = Fields::read(&mut protocol, 0)?;
    protocol.read_message_end()?;
    if message.message_type != TMessageType::Call {
        let what = format!("{} is not a call", message.name);
        return Err(thrift::new_protocol_error(thrift::ProtocolErrorKind::InvalidData, what));
    }
    let result =
        dispatch::call(&mut service.lock().unwrap_or_else(PoisonError::into_inner), &message.name, &args);
    let (_, method) = message.name.split_once(':').unwrap_or(("", &message.name));
    let mut bytes = encode(method, message.sequence_number, &result)?;
    if bytes.len() > MAX_REPLY_LEN {
        let too_long = Err(CallError::internal("the reply exceeds the size limit; request fewer entries"));
        bytes = encode(method, message.sequence_number, &too_long)?;
    }
    Ok(bytes)
}

/// Encodes a reply. A result is field 0 of a struct, a declared exception field 1.
fn encode(method: &str, sequence: i32, result: &Result<Value, CallError>) -> thrift::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut protocol = TBinaryOutputProtocol::new(&mut bytes, STRICT);
    let (message_type, fields) = match result {
        Ok(value) => (TMessageType::Reply, Fields(vec![(0, value.clone())])),
        Err(CallError::Exception(code)) => {
            (TMessageType::Reply, Fields(vec![(1, Value::structure([(1, Value::I32(*code))]))]))
        }
        // TApplicationException has the message in field 1 and the type in field 2.
        Err(CallError::Application(kind, text)) => {
            (TMessageType::Exception, Fields(vec![(1, Value::text(text)), (2, Value::I32(*kind as i32))]))
        }
    };
    protocol.write_message_begin(&TMessageIdentifier::new(method, message_type, sequence))?;
    fields.write(&mut protocol)?;
    protocol.write_message_end()?;
    Ok(bytes)
}
