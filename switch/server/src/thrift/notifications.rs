//! The notifications socket: publishes learning notifications to clients of nanomsg and NNG, as BMv2 does.
//!
//! The protocol is SP's publish-subscribe over a stream: each side sends a header of 8 bytes, then the publisher sends
//! messages with their length in front (nanomsg RFCs sp-tcp-mapping-01, sp-ipc-mapping-01). Subscribers filter messages
//! themselves, so they send nothing after the header.

use super::learning::Learning;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_switch::driver::{DataplaneEvent, DataplaneHandle, Delivery};
use weir_switch::pipeline::Digest;

/// Header that a publisher sends: `\0SP`, version 0, protocol 32 (PUB), reserved.
const PUBLISHER_HEADER: [u8; 8] = [0, b'S', b'P', 0, 0, 32, 0, 0];
/// Header that a subscriber sends: protocol 33 (SUB).
const SUBSCRIBER_HEADER: [u8; 8] = [0, b'S', b'P', 0, 0, 33, 0, 0];
/// Type of a message over a Unix socket: sent in band.
const IN_BAND: u8 = 1;
/// Timeout of a subscriber's header, and of sending a message.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of subscribers. A further one is rejected.
const MAX_SUBSCRIBERS: usize = 8;
/// Capacity of the queue to a subscriber, in messages. Further ones are lost for it, as in nanomsg.
const SUBSCRIBER_QUEUE_LEN: usize = 4096;
/// Capacity of the queue of digests from the data plane. It drops and counts digests when the queue is full.
const DIGEST_QUEUE_LEN: usize = 4096;
/// Delay after a failed accept, for example when there are no file descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A bound socket for notifications. Bind it before the process gives up the right to create files.
#[derive(Debug)]
pub struct NotificationSocket {
    /// The address with its scheme.
    address: String,
    listener: Listener,
    /// Path of a Unix socket.
    path: Option<PathBuf>,
}

#[derive(Debug)]
enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl NotificationSocket {
    /// Returns BMv2's default address for a device (options_parse.cpp).
    pub fn default_address(device_id: u64) -> String {
        format!("ipc:///tmp/bmv2-{device_id}-notifications.ipc")
    }

    /// Binds an address of nanomsg: `ipc://` and a path, or `tcp://`, an address or `*`, and a port. A socket file that
    /// no process listens on any more is replaced.
    ///
    /// # Errors
    ///
    /// The address has another form, is in use, or cannot be bound.
    pub fn bind(address: &str) -> io::Result<NotificationSocket> {
        let unsupported = || {
            let what = format!("unsupported address {address:?}: use ipc://PATH or tcp://ADDRESS:PORT");
            io::Error::new(ErrorKind::InvalidInput, what)
        };
        if let Some(path) = address.strip_prefix("ipc://") {
            let path = Path::new(path);
            remove_stale(path)?;
            let listener = Listener::Unix(UnixListener::bind(path)?);
            return Ok(NotificationSocket {
                address: address.to_owned(),
                listener,
                path: Some(path.to_owned()),
            });
        }
        let host = address.strip_prefix("tcp://").ok_or_else(unsupported)?;
        let host = host.strip_prefix('*').map_or(host.to_owned(), |port| format!("0.0.0.0{port}"));
        let addresses: Vec<_> = host.to_socket_addrs().map_err(|_| unsupported())?.collect();
        let listener = TcpListener::bind(&addresses[..])?;
        let address = format!("tcp://{}", listener.local_addr()?);
        Ok(NotificationSocket { address, listener: Listener::Tcp(listener), path: None })
    }

    /// Returns the address, with the port that was selected for port 0.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the path of a Unix socket, whose file is removed on drop; `None` for TCP.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn accept(&self) -> io::Result<UnixStream> {
        match &self.listener {
            Listener::Unix(listener) => Ok(listener.accept()?.0),
            // The calls of `UnixStream` that are used here do not depend on the family of a stream socket.
            Listener::Tcp(listener) => Ok(UnixStream::from(OwnedFd::from(listener.accept()?.0))),
        }
    }

    /// Makes [`Self::accept`] fail.
    fn shut_down(&self) {
        // Fails only if the listener is already shut down.
        let _ = match &self.listener {
            Listener::Unix(listener) => rustix::net::shutdown(listener, rustix::net::Shutdown::Both),
            Listener::Tcp(listener) => rustix::net::shutdown(listener, rustix::net::Shutdown::Both),
        };
    }
}

impl Drop for NotificationSocket {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // If the process may not remove it, its next start does.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the socket file of a process that has ended. Leaves any other file, on which the bind then fails.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    // Without blocking: the process that listens may accept no connection.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let probe = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&probe, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::CONNREFUSED) => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

enum Event {
    Digest(Digest),
    /// A setting or an acknowledgement may have made a buffer due.
    Changed,
    Stop,
}

/// Publishes the digests of a switch. Dropping it ends all connections.
#[derive(Debug)]
pub(super) struct Notifier {
    socket: Arc<NotificationSocket>,
    shared: Arc<Shared>,
    events: SyncSender<Event>,
    threads: Vec<JoinHandle<()>>,
}

/// The state that the threads share.
#[derive(Debug)]
struct Shared {
    learning: Mutex<Learning>,
    subscribers: Mutex<Subscribers>,
    /// Number of subscribers that have sent their header. Without one the data plane need not copy digests.
    subscriber_count: AtomicUsize,
    /// Whether the socket is a Unix socket, on which each message begins with its type.
    is_ipc: bool,
}

#[derive(Debug, Default)]
struct Subscribers {
    by_id: BTreeMap<u64, Subscriber>,
    next_id: u64,
    /// True when the notifier is dropped: no further client is served.
    is_closed: bool,
}

#[derive(Debug)]
struct Subscriber {
    stream: UnixStream,
    /// `None` until its header has arrived.
    queue: Option<SyncSender<Arc<[u8]>>>,
}

/// Ignores poisoning: no code that runs under these locks can panic in the middle of a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}

impl Notifier {
    /// Starts to publish the digests of the switch behind the handle.
    ///
    /// # Errors
    ///
    /// The system provides no thread, or the data plane has stopped.
    pub(super) fn start(
        handle: &DataplaneHandle,
        device_id: u64,
        socket: Arc<NotificationSocket>,
    ) -> io::Result<Notifier> {
        let shared = Arc::new(Shared {
            learning: Mutex::new(Learning::new(device_id)),
            subscribers: Mutex::default(),
            subscriber_count: AtomicUsize::new(0),
            is_ipc: socket.path.is_some(),
        });
        let (events, receiver) = sync_channel(DIGEST_QUEUE_LEN);
        let mut notifier = Notifier {
            socket: Arc::clone(&socket),
            shared: Arc::clone(&shared),
            events,
            threads: Vec::new(),
        };
        let (queue, state) = (notifier.events.clone(), Arc::clone(&shared));
        let subscriber = move |event: DataplaneEvent<'_>| match event {
            DataplaneEvent::Digest(digest) if state.subscriber_count.load(Ordering::Relaxed) > 0 => {
                match queue.try_send(Event::Digest(digest.clone())) {
                    Ok(()) => Delivery::Accepted,
                    Err(TrySendError::Full(_)) => Delivery::Full,
                    Err(TrySendError::Disconnected(_)) => Delivery::Closed,
                }
            }
            _ => Delivery::Ignored,
        };
        handle.subscribe(subscriber).wait().map_err(io::Error::other)?;
        let state = Arc::clone(&shared);
        notifier.threads.push(spawn("learn", move || learn(&state, &receiver))?);
        notifier.threads.push(spawn("notify", move || accept(&socket, &shared))?);
        Ok(notifier)
    }

    pub(super) fn address(&self) -> &str {
        self.socket.address()
    }

    /// Changes a setting or acknowledges samples.
    pub(super) fn with_learning(&self, change: impl FnOnce(&mut Learning)) {
        change(&mut lock(&self.shared.learning));
        // If the queue is full, the thread looks for due buffers soon anyway.
        let _ = self.events.try_send(Event::Changed);
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.socket.shut_down();
        {
            let mut subscribers = lock(&self.shared.subscribers);
            subscribers.is_closed = true;
            subscribers.by_id.values().for_each(|subscriber| shut_down(&subscriber.stream));
        }
        // Fails only if the thread has ended.
        let _ = self.events.send(Event::Stop);
        for thread in self.threads.drain(..) {
            // Fails only if the thread has panicked.
            let _ = thread.join();
        }
    }
}

fn shut_down(stream: &UnixStream) {
    // Fails only if the peer has already disconnected.
    let _ = stream.shutdown(Shutdown::Both);
}

/// Collects digests and publishes buffers that are due, until it is stopped.
fn learn(shared: &Shared, events: &Receiver<Event>) {
    loop {
        let due = lock(&shared.learning).next_due();
        let event = match due {
            Some(due) => events.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => events.recv().map_err(RecvTimeoutError::from),
        };
        let now = Instant::now();
        match event {
            Ok(Event::Digest(digest)) => lock(&shared.learning).push(now, &digest),
            Ok(Event::Changed) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let messages = lock(&shared.learning).take_due(now);
        messages.iter().for_each(|message| shared.publish(message));
    }
}

/// Accepts subscribers until the socket is shut down.
fn accept(socket: &NotificationSocket, shared: &Arc<Shared>) {
    loop {
        let accepted = socket.accept();
        if lock(&shared.subscribers).is_closed {
            return;
        }
        let result = accepted.and_then(|stream| shared.add(stream));
        if let Err(error) = result {
            tracing::warn!(%error, "cannot serve a client of the notifications socket");
            std::thread::sleep(ACCEPT_RETRY_DELAY);
        }
    }
}

impl Shared {
    /// Passes a message to all subscribers. A subscriber whose queue is full loses it.
    fn publish(&self, message: &[u8]) {
        let kind: &[u8] = if self.is_ipc { &[IN_BAND] } else { &[] };
        let len = (message.len() as u64).to_be_bytes();
        let framed: Arc<[u8]> = [kind, &len, message].concat().into();
        for subscriber in lock(&self.subscribers).by_id.values() {
            if let Some(queue) = &subscriber.queue {
                // Fails if the queue is full or the client has disconnected.
                let _ = queue.try_send(Arc::clone(&framed));
            }
        }
    }

    /// Serves a client on its own thread.
    fn add(self: &Arc<Shared>, stream: UnixStream) -> io::Result<()> {
        let mut subscribers = lock(&self.subscribers);
        if subscribers.is_closed || subscribers.by_id.len() >= MAX_SUBSCRIBERS {
            tracing::warn!("rejecting a client of the notifications socket: there are {MAX_SUBSCRIBERS}");
            return Ok(());
        }
        let id = subscribers.next_id;
        let (shared, thread_stream) = (Arc::clone(self), stream.try_clone()?);
        spawn("notify-peer", move || shared.serve(id, &thread_stream))?;
        subscribers.next_id += 1;
        // The thread waits for this lock before it looks for its entry.
        subscribers.by_id.insert(id, Subscriber { stream, queue: None });
        Ok(())
    }

    /// Serves a client until it disconnects.
    fn serve(self: &Arc<Shared>, id: u64, stream: &UnixStream) {
        if let Err(error) = self.exchange(id, stream) {
            tracing::debug!(%error, "closing a connection of the notifications socket");
        }
        shut_down(stream);
        let mut subscribers = lock(&self.subscribers);
        let was_subscribed = subscribers.by_id.remove(&id).is_some_and(|removed| removed.queue.is_some());
        if was_subscribed && self.subscriber_count.fetch_sub(1, Ordering::Relaxed) == 1 {
            // The next subscriber has not received the samples that wait for acknowledgement.
            lock(&self.learning).reset();
        }
    }

    /// Exchanges headers, then writes messages on a thread of their own until the client disconnects.
    fn exchange(self: &Arc<Shared>, id: u64, mut stream: &UnixStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PEER_TIMEOUT))?;
        stream.set_read_timeout(Some(PEER_TIMEOUT))?;
        stream.write_all(&PUBLISHER_HEADER)?;
        let mut header = [0; SUBSCRIBER_HEADER.len()];
        stream.read_exact(&mut header)?;
        if header != SUBSCRIBER_HEADER {
            return Err(io::Error::new(ErrorKind::InvalidData, "the client is not a subscriber (SUB)"));
        }
        stream.set_read_timeout(None)?;
        let (queue, messages) = sync_channel::<Arc<[u8]>>(SUBSCRIBER_QUEUE_LEN);
        let writer = stream.try_clone()?;
        spawn("notify-write", move || {
            let sent = messages.iter().try_for_each(|message| (&writer).write_all(&message));
            if sent.is_err() {
                // Ends the read below.
                shut_down(&writer);
            }
        })?;
        match lock(&self.subscribers).by_id.get_mut(&id) {
            Some(subscriber) => subscriber.queue = Some(queue),
            None => return Ok(()),
        }
        self.subscriber_count.fetch_add(1, Ordering::Relaxed);
        // A subscriber sends nothing more; the read returns when it disconnects.
        let read = stream.read(&mut [0; 1]);
        shut_down(stream);
        read.map(drop)
    }
}
