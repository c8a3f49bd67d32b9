//! A small HTTP server for pages that this process generates: metrics, and live views in browsers.
//!
//! Request bodies are not read, and a connection serves one request (`Connection: close`, RFC 9112 section 9.6).

use crate::console::{Failure, warn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_experiment::backend::Error;

/// Time limit for reading a request, and again for writing the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of concurrent connections. A further one replaces the oldest of the peer that has most of them.
const MAX_CONNECTIONS: usize = 128;
/// Maximum number of bytes read of a request. Further header fields are ignored.
const MAX_HEAD_LEN: usize = 8 << 10;
/// Pause after a connection could not be accepted, for example because there is no file descriptor left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The head of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request<'a> {
    /// Request method, such as `GET`.
    pub method: &'a str,
    /// The path without its query.
    pub path: &'a str,
    /// The header fields, separated by CRLF.
    pub fields: &'a str,
}

impl<'a> Request<'a> {
    /// Parses the head of a request. If the text is not HTTP, method and path may be empty.
    fn parse(head: &'a str) -> Request<'a> {
        let (line, fields) = head.split_once("\r\n").unwrap_or((head, ""));
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        Request { method, path: target.split('?').next().unwrap_or_default(), fields }
    }

    /// Returns the value of a header field; names are case-insensitive.
    pub(crate) fn field(&self, name: &str) -> Option<&'a str> {
        let mut fields = self.fields.split("\r\n").filter_map(|line| line.split_once(':'));
        fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// A response with a body.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// Status code and reason, such as `200 OK`.
    pub status: &'static str,
    pub content_type: &'static str,
    pub body: String,
}

impl Response {
    pub(crate) fn ok(content_type: &'static str, body: String) -> Response {
        Response { status: "200 OK", content_type, body }
    }

    /// An error with a plain-text message.
    pub(crate) fn error(status: &'static str, reason: &str) -> Response {
        Response { status, content_type: "text/plain; charset=utf-8", body: format!("{reason}\n") }
    }

    pub(crate) fn not_found(reason: &str) -> Response {
        Response::error("404 Not Found", reason)
    }

    pub(crate) fn not_allowed() -> Response {
        Response::error("405 Method Not Allowed", "method not allowed, use GET")
    }
}

/// A listening socket that is not served yet.
pub(crate) struct BoundListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl BoundListener {
    /// Binds to an address, and warns if other machines can connect. Messages begin with `option`, such as `--metrics`,
    /// or with `subject`, the service and its verb, such as `metrics are`.
    ///
    /// # Errors
    ///
    /// If the address is in use or not an address of this machine.
    pub(crate) fn bind(address: SocketAddr, option: &str, subject: &str) -> Result<BoundListener, Failure> {
        let listener = TcpListener::bind(address).map_err(|error| {
            Failure::Input(format!("{option} {address}: {error}; choose another address and port"))
        })?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            warn(&format!("{subject} served on {address} to anyone who reaches this address"));
        }
        Ok(BoundListener { listener, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the responses of `handler` on a thread of its own.
    pub(crate) fn serve(
        self,
        handler: impl Fn(&Request<'_>) -> Response + Send + Sync + 'static,
    ) -> Result<Server, Failure> {
        self.listener.set_nonblocking(true)?;
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (listener, thread_is_stopped) = (self.listener.try_clone()?, is_stopped.clone());
        let serve = move || {
            let mut connections = Vec::new();
            while !thread_is_stopped.load(Ordering::SeqCst) {
                wait_for_event(&listener, &connections);
                accept(&listener, &mut connections);
                let now = Instant::now();
                connections.retain_mut(|connection| connection.advance(now, &handler));
            }
        };
        let thread = std::thread::Builder::new().name("http".into()).spawn(serve);
        let thread = Some(thread.map_err(|error| Error::thread(&error))?);
        Ok(Server { listener: self.listener, is_stopped, thread })
    }
}

/// A running server. Dropping it stops the thread.
pub(crate) struct Server {
    listener: TcpListener,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        // On Linux, shutdown(2) makes a listening socket readable, and `accept` return EINVAL; closing the
        // descriptor would do neither. The error of a second shutdown is harmless.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // If the handler has panicked, the message was already printed.
            let _ = thread.join();
        }
    }
}

/// An accepted connection. One thread serves all connections without blocking, so a slow client does not delay others.
struct Connection {
    stream: TcpStream,
    peer: IpAddr,
    /// End of the time for the request or, once it is complete, for the response.
    deadline: Instant,
    request: Vec<u8>,
    /// The part of the response that is not written yet; `None` until the request is complete.
    response: Option<Vec<u8>>,
}

/// Waits until a connection arrives, or one that is open can be served or has reached its deadline.
fn wait_for_event(listener: &TcpListener, connections: &[Connection]) {
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    fds.extend(connections.iter().map(|connection| {
        let events = if connection.response.is_some() { PollFlags::OUT } else { PollFlags::IN };
        PollFd::new(&connection.stream, events)
    }));
    let deadline = connections.iter().map(|connection| connection.deadline).min();
    let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    // After an error, such as a signal, the loop tries all connections.
    let _ = poll(&mut fds, timeout.as_ref());
}

/// Accepts all pending connections.
fn accept(listener: &TcpListener, connections: &mut Vec<Connection>) {
    loop {
        match listener.accept() {
            Ok((stream, peer)) if stream.set_nonblocking(true).is_ok() => {
                if connections.len() >= MAX_CONNECTIONS {
                    remove_oldest_of_busiest(connections);
                }
                let (peer, deadline) = (peer.ip(), Instant::now() + REQUEST_TIMEOUT);
                connections.push(Connection { stream, peer, deadline, request: Vec::new(), response: None });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => return std::thread::sleep(ACCEPT_RETRY_DELAY),
        }
    }
}

/// Removes the oldest connection of the peer with the most connections, so that one peer cannot displace the others.
fn remove_oldest_of_busiest(connections: &mut Vec<Connection>) {
    let mut counts = BTreeMap::<IpAddr, usize>::new();
    connections.iter().for_each(|connection| *counts.entry(connection.peer).or_default() += 1);
    let busiest = counts.into_iter().max_by_key(|(_, count)| *count).map(|(peer, _)| peer);
    // Connections are in the order in which they were accepted.
    if let Some(oldest) = connections.iter().position(|connection| Some(connection.peer) == busiest) {
        connections.remove(oldest);
    }
}

impl Connection {
    /// Reads and writes what is possible without waiting. Returns false if the connection is to be closed: the response
    /// is complete, the client has gone, or the deadline has passed.
    fn advance(&mut self, now: Instant, handler: &impl Fn(&Request<'_>) -> Response) -> bool {
        if now >= self.deadline {
            return false;
        }
        let would_block = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        if self.response.is_none() {
            match self.read_request() {
                Ok(()) => {}
                Err(error) => return would_block(&error),
            }
            let head = String::from_utf8_lossy(&self.request);
            self.response = Some(format_response(&handler(&Request::parse(&head))));
            self.deadline = Instant::now() + REQUEST_TIMEOUT;
        }
        self.write_response().is_err_and(|error| would_block(&error))
    }

    /// Reads until the end of the head. Fails with `WouldBlock` if it is incomplete.
    fn read_request(&mut self) -> io::Result<()> {
        let is_complete = |request: &[u8]| request.windows(4).any(|bytes| bytes == b"\r\n\r\n");
        let mut buffer = [0; 1024];
        while !is_complete(&self.request) && self.request.len() < MAX_HEAD_LEN {
            match self.stream.read(&mut buffer)? {
                0 => break,
                read => self.request.extend_from_slice(&buffer[..read]),
            }
        }
        Ok(())
    }

    /// Writes the rest of the response. Fails with `WouldBlock` if the client does not take all of it yet.
    fn write_response(&mut self) -> io::Result<()> {
        while let Some(unwritten) = self.response.as_mut().filter(|unwritten| !unwritten.is_empty()) {
            let len = self.stream.write(unwritten)?;
            unwritten.drain(..len);
        }
        Ok(())
    }
}

fn format_response(response: &Response) -> Vec<u8> {
    let Response { status, content_type, body } = response;
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                  img-src data:; frame-ancestors 'none'";
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: {policy}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    text.into_bytes()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Sends a request, and returns the response.
    pub(crate) fn send_request(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut response = String::new();
        // A server that closes before it has read everything resets the connection.
        let _ = stream.read_to_string(&mut response);
        response
    }

    fn echo() -> (SocketAddr, Server) {
        let listener = BoundListener::bind("127.0.0.1:0".parse().unwrap(), "--serve", "a page is").unwrap();
        let address = listener.address();
        let handler = |request: &Request<'_>| match request.method {
            "GET" => Response::ok("text/plain", format!("{} {:?}", request.path, request.field("host"))),
            _ => Response::not_allowed(),
        };
        (address, listener.serve(handler).unwrap())
    }

    #[test]
    fn requests_are_answered_until_the_server_is_dropped() {
        let (address, server) = echo();
        let page = send_request(address, b"GET /a?b=c HTTP/1.1\r\nAccept: */*\r\nHOST:  x:1 \r\n\r\n");
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\n/a Some(\"x:1\")"),
            "{page}"
        );
        drop(server);
        assert!(TcpStream::connect(address).is_err(), "the server has stopped");
    }

    #[test]
    fn malformed_requests_do_not_stop_the_server() {
        let (address, _server) = echo();
        let long = [b"GET /".as_slice(), &[b'x'; 2 * MAX_HEAD_LEN]].concat();
        let fields = [b"GET / HTTP/1.1\r\n".as_slice(), &b"a: b\r\n".repeat(10_000)].concat();
        let garbage: Vec<u8> = (0..=255).cycle().take(MAX_HEAD_LEN).collect();
        for request in
            [b"\r\n\r\n".as_slice(), b"GET\r\n\r\n", b":\r\n:\r\n\r\n", b"\xff\xfe \xff\r\n\r\n", &garbage]
        {
            assert!(send_request(address, request).starts_with("HTTP/1.1 "), "{request:?}");
        }
        for request in [long, fields] {
            send_request(address, &request);
        }
    }

    /// As many clients as can be connected, and twice as many, send a byte of their requests from time to time.
    #[test]
    fn slow_clients_do_not_delay_others() {
        let (address, _server) = echo();
        for count in [MAX_CONNECTIONS / 2, 2 * MAX_CONNECTIONS] {
            let mut clients: Vec<_> = (0..count).map(|_| TcpStream::connect(address).unwrap()).collect();
            for _ in 0..5 {
                // The server has closed the connections of some clients, whose writes fail.
                clients.iter_mut().for_each(|client| drop(client.write(b"G")));
                let start = Instant::now();
                assert!(send_request(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
                // A busy machine delays the threads. The limit for slow clients is longer.
                assert!(start.elapsed() < REQUEST_TIMEOUT / 2, "{count}: {:?}", start.elapsed());
            }
        }
    }

    #[test]
    fn a_peer_with_many_connections_loses_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = |peer: [u8; 4]| {
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let deadline = Instant::now();
            Connection { stream, peer: peer.into(), deadline, request: Vec::new(), response: None }
        };
        let [few, many] = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let mut connections: Vec<_> = [few, many, many, few, many].map(connection).into();
        remove_oldest_of_busiest(&mut connections);
        let peers: Vec<_> = connections.iter().map(|connection| connection.peer).collect();
        assert_eq!(peers, [few, many, few, many].map(IpAddr::from));
    }
}
