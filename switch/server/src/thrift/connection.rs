//! Serves one client: handles its calls in order, each within limits of size and time.

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
/// Maximum length of a call, enough for a program of 1 MiB.
const MAX_CALL_LEN: usize = (1 << 20) + (64 << 10);
/// Maximum length of a reply: some 100,000 table entries.
const MAX_REPLY_LEN: usize = 32 << 20;
/// Timeout from the first to the last byte of a call, and of a reply. There is no timeout between calls, since users
/// type them in a CLI.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const BUFFER: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Connections {
    peers: Mutex<Peers>,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Peers {
    by_number: BTreeMap<u64, Peer>,
    /// Numbers are not reused.
    next: u64,
}

#[derive(Debug)]
struct Peer {
    stream: TcpStream,
    /// Start of the idle time; `None` during a call.
    idle: Option<Instant>,
}

impl Connections {
    /// Ignores poisoning: no code that runs under the lock can panic in the middle of a change.
    fn lock(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all connections, and all that are accepted later.
    pub fn close(&self) {
        let peers = self.lock();
        self.closed.store(true, Ordering::SeqCst);
        peers.by_number.values().for_each(Peer::shutdown);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

impl Peer {
    /// Ends the peer's thread, which reads the end of the stream. Fails only if the peer has already disconnected.
    fn shutdown(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// RAII guard of a slot for one connection.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    connections: Arc<Connections>,
    number: u64,
}

impl ConnectionPermit {
    /// Returns `None` if the server is closing or all slots are taken by clients with calls in progress.
    pub fn take(connections: &Arc<Connections>, stream: &TcpStream) -> Option<ConnectionPermit> {
        let stream = stream.try_clone().ok()?;
        let mut peers = connections.lock();
        if connections.is_closed() {
            return None;
        }
        if peers.by_number.len() >= MAX_CONNECTIONS {
            let idle = peers.by_number.iter().filter_map(|(number, peer)| Some((peer.idle?, *number)));
            let (_, longest) = idle.min()?;
            if let Some(peer) = peers.by_number.remove(&longest) {
                peer.shutdown();
            }
        }
        let number = peers.next;
        peers.next += 1;
        peers.by_number.insert(number, Peer { stream, idle: Some(Instant::now()) });
        drop(peers);
        Some(ConnectionPermit { connections: connections.clone(), number })
    }

    fn set_idle(&self, idle: Option<Instant>) {
        if let Some(peer) = self.connections.lock().by_number.get_mut(&self.number) {
            peer.idle = idle;
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.lock().by_number.remove(&self.number);
    }
}

/// A stream with limits on the bytes and the duration of a call.
struct BoundedStream {
    stream: TcpStream,
    buffer: Box<[u8; BUFFER]>,
    at: usize,
    end: usize,
    left: usize,
    deadline: Option<Instant>,
}

impl BoundedStream {
    /// Waits for the first byte of a call. Returns `false` if the peer has disconnected.
    fn next_call(&mut self) -> io::Result<bool> {
        (self.left, self.deadline) = (MAX_CALL_LEN, None);
        if self.at == self.end {
            self.fill()?;
        }
        self.deadline = Some(Instant::now() + CALL_TIMEOUT);
        Ok(self.at < self.end)
    }

    fn fill(&mut self) -> io::Result<()> {
        (self.at, self.end) = (0, 0);
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
        if self.left == 0 {
            return Err(io::Error::new(ErrorKind::InvalidData, "the call is too long"));
        }
        if self.at == self.end {
            self.fill()?;
        }
        let len = into.len().min(self.end - self.at).min(self.left);
        into[..len].copy_from_slice(&self.buffer[self.at..][..len]);
        self.at += len;
        self.left -= len;
        Ok(len)
    }
}

/// Serves a client until it disconnects or sends an invalid call.
pub(super) fn serve(stream: TcpStream, slot: &ConnectionPermit, service: &Mutex<Service>) {
    // Replies are written at once, so delaying small segments gains nothing.
    let _ = stream.set_nodelay(true);
    let buffer = Box::new([0; BUFFER]);
    let mut peer = BoundedStream { stream, buffer, at: 0, end: 0, left: 0, deadline: None };
    while let Ok(true) = peer.next_call() {
        slot.set_idle(None);
        let served = answer(&mut peer, service).and_then(|answer| Ok(send_answer(&mut peer, slot, &answer)?));
        if let Err(error) = served {
            tracing::debug!(%error, "a Thrift client is turned away");
            break;
        }
    }
    let _ = peer.stream.shutdown(Shutdown::Both);
}

/// Sends a reply. The client is marked idle before the last part is sent: a client that has read its whole reply must
/// not still count as busy when its own next connection needs a slot.
fn send_answer(peer: &mut BoundedStream, slot: &ConnectionPermit, answer: &[u8]) -> io::Result<()> {
    let (first, last) = answer.split_at(answer.len().saturating_sub(BUFFER));
    peer.send(first)?;
    slot.set_idle(Some(Instant::now()));
    peer.send(last)
}

/// Reads a call and returns the encoded reply. A malformed call ends the connection, since the start of the next call
/// is unknown.
fn answer(peer: &mut BoundedStream, service: &Mutex<Service>) -> thrift::Result<Vec<u8>> {
    let mut protocol = TBinaryInputProtocol::with_config(&mut *peer, true, limits()?);
    let message = protocol.read_message_begin()?;
    let args = Fields::read(&mut protocol, 0)?;
    protocol.read_message_end()?;
    if message.message_type != TMessageType::Call {
        let what = format!("{} is not a call", message.name);
        return Err(thrift::new_protocol_error(thrift::ProtocolErrorKind::InvalidData, what));
    }
    let answer = service.lock().unwrap_or_else(PoisonError::into_inner).call(&message.name, &args);
    let (_, method) = message.name.split_once(':').unwrap_or(("", &message.name));
    let mut bytes = encode(method, message.sequence_number, &answer)?;
    if bytes.len() > MAX_REPLY_LEN {
        let too_long = Err(CallError::internal("the answer is too long; ask for less"));
        bytes = encode(method, message.sequence_number, &too_long)?;
    }
    Ok(bytes)
}

/// Encodes a reply. A result is field 0 of a struct, a declared exception field 1.
fn encode(method: &str, sequence: i32, answer: &Result<Value, CallError>) -> thrift::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut protocol = TBinaryOutputProtocol::new(&mut bytes, true);
    let (message_type, fields) = match answer {
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
