//! A small HTTP server for pages that this process generates: metrics, and live views in browsers.
//!
//! Requests have no bodies, and a connection serves one request (`Connection: close`, RFC 9112 section 9.6).

use crate::console::{Failure, warn};
use rustix::net::{Shutdown, shutdown};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit for reading a request, and again for writing the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of concurrent connections. More than one is necessary because browsers open connections before they
/// send a request.
const WORKERS: usize = 4;
/// Maximum number of bytes read of a request.
const MAX_REQUEST_HEAD: usize = 8 << 10;

/// The head of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
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
    pub fn field(&self, name: &str) -> Option<&'a str> {
        let mut fields = self.fields.split("\r\n").filter_map(|line| line.split_once(':'));
        fields.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

#[derive(Clone, Debug)]
pub struct Response {
    /// Status code and reason, such as `200 OK`.
    pub status: &'static str,
    pub content_type: &'static str,
    pub body: String,
}

impl Response {
    pub fn ok(content_type: &'static str, body: String) -> Response {
        Response { status: "200 OK", content_type, body }
    }

    /// An error with a plain-text message.
    pub fn error(status: &'static str, reason: &str) -> Response {
        Response { status, content_type: "text/plain; charset=utf-8", body: format!("{reason}\n") }
    }

    pub fn not_found(reason: &str) -> Response {
        Response::error("404 Not Found", reason)
    }

    pub fn not_allowed() -> Response {
        Response::error("405 Method Not Allowed", "method not allowed, use GET")
    }
}

/// A listening socket that is not served yet.
pub struct BoundListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl BoundListener {
    /// Binds to an address, and warns if other machines can connect. Messages begin with `option`, such as `--metrics`,
    /// or with `what`, the service and its verb, such as `metrics are`.
    ///
    /// # Errors
    ///
    /// If the address is in use or not an address of this machine.
    pub fn bind(address: SocketAddr, option: &str, what: &str) -> Result<BoundListener, Failure> {
        let listener = TcpListener::bind(address).map_err(|error| {
            Failure::Input(format!("{option} {address}: {error}; choose another address and port"))
        })?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            warn(&format!("{what} served on {address} to anyone who reaches this address"));
        }
        Ok(BoundListener { listener, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the responses of `handler` on [`WORKERS`] threads.
    pub fn serve(
        self,
        handler: impl Fn(&Request<'_>) -> Response + Send + Sync + 'static,
    ) -> Result<Server, Failure> {
        let mut server = Server {
            listener: self.listener,
            is_stopped: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        };
        let handler = Arc::new(handler);
        for _ in 0..WORKERS {
            let (listener, is_stopped, handler) =
                (server.listener.try_clone()?, server.is_stopped.clone(), handler.clone());
            let serve = move || {
                while !is_stopped.load(Ordering::SeqCst) {
                    match listener.accept() {
                        // Errors mean that the client has closed the connection.
                        Ok((stream, _)) => drop(exchange(stream, &*handler)),
                        Err(_) => std::thread::sleep(REQUEST_TIMEOUT / 10),
                    }
                }
            };
            server.threads.push(std::thread::Builder::new().name("http".into()).spawn(serve)?);
        }
        Ok(server)
    }
}

/// A running server. Dropping it stops the threads.
pub struct Server {
    listener: TcpListener,
    is_stopped: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        // On Linux, shutdown(2) makes `accept` on a listening socket return with EINVAL; closing the
        // descriptor would not. The error of a second shutdown is harmless.
        let _ = shutdown(&self.listener, Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A connection with a deadline for all reads and writes together, so that slow clients cannot occupy a
/// thread.
struct DeadlineStream {
    stream: TcpStream,
    deadline: Instant,
}

impl DeadlineStream {
    fn remaining(&self) -> io::Result<Option<Duration>> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(remaining)) }
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.remaining()?)?;
        self.stream.read(buffer)
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.remaining()?)?;
        self.stream.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Reads a request and writes the response.
fn exchange(stream: TcpStream, handler: &impl Fn(&Request<'_>) -> Response) -> io::Result<()> {
    let mut stream = DeadlineStream { stream, deadline: Instant::now() + REQUEST_TIMEOUT };
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    let is_complete = |request: &[u8]| request.windows(4).any(|bytes| bytes == b"\r\n\r\n");
    while !is_complete(&request) && request.len() < MAX_REQUEST_HEAD {
        match stream.read(&mut buffer)? {
            0 => break,
            read => request.extend_from_slice(&buffer[..read]),
        }
    }
    let head = String::from_utf8_lossy(&request);
    let Response { status, content_type, body } = handler(&Request::parse(&head));
    stream.deadline = Instant::now() + REQUEST_TIMEOUT;
    let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                  img-src data:; frame-ancestors 'none'";
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: {policy}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Sends a request, and returns the response.
    pub fn send_request(address: SocketAddr, request: &[u8]) -> String {
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
        let long = [b"GET /".as_slice(), &[b'x'; 2 * MAX_REQUEST_HEAD]].concat();
        let fields = [b"GET / HTTP/1.1\r\n".as_slice(), &b"a: b\r\n".repeat(10_000)].concat();
        let garbage: Vec<u8> = (0..=255).cycle().take(MAX_REQUEST_HEAD).collect();
        for request in
            [b"\r\n\r\n".as_slice(), b"GET\r\n\r\n", b":\r\n:\r\n\r\n", b"\xff\xfe \xff\r\n\r\n", &garbage]
        {
            assert!(send_request(address, request).starts_with("HTTP/1.1 "), "{request:?}");
        }
        for request in [long, fields] {
            send_request(address, &request);
        }
        // Silent clients, one of which sends a single byte, occupy all workers: others wait for at most
        // REQUEST_TIMEOUT.
        let mut clients: Vec<_> = (0..2 * WORKERS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let _ = clients[0].write(b"G");
        assert!(send_request(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    }
}
