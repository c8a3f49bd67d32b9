//! Metrics for Prometheus: its text format, and a server of one page.
//!
//! The format is version 0.0.4 (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use crate::console::{Failure, warn};
use rustix::net::{Shutdown, shutdown};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time that a client has for its request and to take the answer. Clients are served one after the other.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most bytes of a request that are read.
const MOST_REQUEST: usize = 8 << 10;

/// The kinds of metrics in use.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// The samples of one name.
struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    samples: String,
}

/// A page of metrics. The samples of a name stand together, in whatever order they are given.
#[derive(Default)]
pub struct Page(Vec<Family>);

impl Page {
    /// Adds a number that only grows; its name ends in `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: u64) {
        self.add(Kind::Counter, name, help, labels, value);
    }

    /// Adds a number that rises and falls.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: u64) {
        self.add(Kind::Gauge, name, help, labels, value);
    }

    fn add(
        &mut self,
        kind: Kind,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: u64,
    ) {
        let at = self.0.iter().position(|family| family.name == name).unwrap_or_else(|| {
            self.0.push(Family { name, help, kind, samples: String::new() });
            self.0.len() - 1
        });
        let samples = &mut self.0[at].samples;
        samples.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let before = if index == 0 { '{' } else { ',' };
            // Writing to a string cannot fail.
            let _ = write!(samples, "{before}{label}=\"{value}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(samples, "{end} {value}");
    }
}

impl std::fmt::Display for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Family { name, help, kind, samples } in &self.0 {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            write!(f, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")?;
        }
        Ok(())
    }
}

/// The option of commands that export metrics.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct MetricsOptions {
    /// Serve metrics for Prometheus at http://ADDR/metrics, such as 127.0.0.1:9464
    #[arg(long = "metrics", value_name = "ADDR", help_heading = "Metrics")]
    address: Option<SocketAddr>,
}

impl MetricsOptions {
    /// Opens the address, before privileges are given up. `None`: no metrics were asked for.
    pub fn open(self) -> Result<Option<Opened>, Failure> {
        let Some(address) = self.address else { return Ok(None) };
        let listener = TcpListener::bind(address);
        let listener = listener.map_err(|error| {
            Failure::Input(format!("--metrics {address}: {error}; give another address and port"))
        })?;
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            warn(&format!("metrics are served on {address} to anyone who reaches this address"));
        }
        Ok(Some(Opened { listener, address }))
    }
}

/// A listener that nobody answers yet.
pub struct Opened {
    listener: TcpListener,
    address: SocketAddr,
}

impl Opened {
    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves pages that `render` makes, on a thread.
    pub fn serve(self, render: impl Fn() -> Page + Send + 'static) -> Result<MetricsServer, Failure> {
        let ended = Arc::new(AtomicBool::new(false));
        let (listener, told) = (self.listener.try_clone()?, ended.clone());
        let serve = move || {
            while !told.load(Ordering::SeqCst) {
                match listener.accept() {
                    // A client that goes away has had its answer.
                    Ok((stream, _)) => drop(answer(stream, &render)),
                    Err(_) => std::thread::sleep(PATIENCE / 10),
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(serve)?;
        Ok(MetricsServer { listener: self.listener, ended, thread: Some(thread) })
    }
}

/// A server. Dropping it ends it.
pub struct MetricsServer {
    listener: TcpListener,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // It makes `accept` return; a listener that is shut down already is as good.
        let _ = shutdown(&self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, render: &impl Fn() -> Page) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut request, mut buffer) = (Vec::new(), [0; 1024]);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MOST_REQUEST {
        match stream.read(&mut buffer)? {
            0 => break,
            read => request.extend_from_slice(&buffer[..read]),
        }
    }
    let mut words = request.split(|&byte| byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split(|&byte| byte == b'?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        (b"GET", b"/metrics") => ("200 OK", render().to_string()),
        (b"GET", _) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "ask with GET\n".to_owned()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn samples_of_a_name_stand_together_and_labels_are_escaped() {
        let mut page = Page::default();
        page.counter("a_total", "What a is.", &[("port", "1")], 7);
        page.gauge("b", "What b is.", &[], 2);
        page.counter("a_total", "What a is.", &[("port", "\"2\\"), ("x", "a\nb")], 8);
        let expected = "# HELP a_total What a is.\n# TYPE a_total counter\na_total{port=\"1\"} 7\n\
                        a_total{port=\"\\\"2\\\\\",x=\"a\\nb\"} 8\n# HELP b What b is.\n# TYPE b gauge\nb 2\n";
        assert_eq!(page.to_string(), expected);
    }

    #[test]
    fn only_the_page_is_served() {
        let options = MetricsOptions { address: Some("127.0.0.1:0".parse().unwrap()) };
        let opened = options.open().unwrap().unwrap();
        let address = opened.address();
        let server = opened
            .serve(|| {
                let mut page = Page::default();
                page.gauge("one", "One.", &[], 1);
                page
            })
            .unwrap();
        let page = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n")
                && page.ends_with("\r\n\r\n# HELP one One.\n# TYPE one gauge\none 1\n"),
            "{page}"
        );
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(address, &"x".repeat(MOST_REQUEST)).starts_with("HTTP/1.1 405"));
        drop(server);
        assert!(TcpStream::connect(address).is_err(), "it has ended");
    }
}
