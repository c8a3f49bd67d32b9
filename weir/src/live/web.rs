//! The live view in browsers: a page that polls for the contents and sends its user's requests.

use super::interaction::UserAction;
use super::model::ViewModel;
use crate::console::Failure;
use crate::http::{BoundListener, Request, Response, Server};
use crate::output::ServeOptions;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The page, including style and script.
const PAGE: &str = include_str!("page.html");
/// Maximum number of queued requests.
const MAX_QUEUED: usize = 16;
/// A page that polled within this time counts as open, because pages poll several times a second. Also the time limit
/// for `end` to wait for the next poll.
const POLL_TIMEOUT: Duration = Duration::from_secs(1);

/// State that the server and the view share.
#[derive(Debug, Default)]
struct Shared {
    model: ViewModel,
    /// Time of the last poll by any page.
    last_poll: Option<Instant>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server of the live view. Dropping it stops the server.
pub(crate) struct WebView {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    requests: Receiver<WebAction>,
    /// Serves the page until it is dropped.
    _server: Server,
}

/// A request from a page. Ports are identified by name, because the page may be based on an older list of
/// ports.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WebAction {
    Pause,
    Step,
    Link(String),
}

impl WebView {
    /// Starts the server; `None` without `--serve`.
    pub(crate) fn open(options: ServeOptions) -> Result<Option<WebView>, Failure> {
        let Some(address) = options.serve else { return Ok(None) };
        BoundListener::bind(address, "--serve", "the live view is").and_then(WebView::serve).map(Some)
    }

    fn serve(listener: BoundListener) -> Result<WebView, Failure> {
        let address = listener.address();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (sender, requests) = sync_channel(MAX_QUEUED);
        let (is_local, read) = (address.ip().is_loopback(), shared.clone());
        let _server = listener.serve(move |request| respond(request, is_local, &read, &sender))?;
        Ok(WebView { address, shared, requests, _server })
    }

    /// Returns the address of the page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Sets the contents that the next poll returns.
    pub(crate) fn show(&self, model: &ViewModel) {
        lock(&self.shared).model.clone_from(model);
    }

    /// Waits at most `timeout` for a request from a page.
    pub(crate) fn next_action(&self, model: &ViewModel, timeout: Duration) -> Option<UserAction> {
        match self.requests.recv_timeout(timeout).ok()? {
            WebAction::Pause => Some(UserAction::Pause),
            WebAction::Step => Some(UserAction::Step),
            WebAction::Link(name) => {
                model.ports.iter().position(|port| port.name == name).map(UserAction::ToggleLink)
            }
        }
    }

    /// Marks the view as ended, and waits up to [`POLL_TIMEOUT`] until an open page has fetched this state.
    pub(crate) fn end(&self, note: String) {
        let start = Instant::now();
        let is_open = {
            let mut shared = lock(&self.shared);
            shared.model.note = note;
            (shared.model.is_over, shared.model.is_paused) = (true, false);
            shared.last_poll.is_some_and(|time| time.elapsed() < POLL_TIMEOUT)
        };
        while is_open && start.elapsed() < POLL_TIMEOUT && lock(&self.shared).last_poll < Some(start) {
            std::thread::sleep(POLL_TIMEOUT / 50);
        }
    }
}

/// Handles a request. A page of another origin must neither read the contents nor send requests: `Host` must
/// name this machine (against DNS rebinding), and `Origin`, which browsers send with POST, must be that of
/// the page itself.
fn respond(
    request: &Request<'_>,
    is_local: bool,
    shared: &Mutex<Shared>,
    requests: &SyncSender<WebAction>,
) -> Response {
    let host = request.field("host").unwrap_or_default();
    if is_local && !names_this_machine(host) {
        return Response::error("403 Forbidden", "invalid Host header; use localhost or 127.0.0.1");
    }
    match (request.method, request.path) {
        ("GET", "/") => Response::ok("text/html; charset=utf-8", PAGE.to_owned()),
        ("GET", "/scene.json") => {
            let mut shared = lock(shared);
            let text = serde_json::to_string(&shared.model);
            shared.last_poll = Some(Instant::now());
            text.map_or_else(
                |_| Response::error("500 Internal Server Error", "serialization failed"),
                |text| Response::ok("application/json", text),
            )
        }
        ("GET", _) => Response::not_found("the page is at /"),
        ("POST", _) if !is_local => {
            Response::error("403 Forbidden", "read-only: the view is not bound to loopback")
        }
        ("POST", path) => {
            let is_same_origin = |origin: &str| origin.strip_prefix("http://") == Some(host);
            if !request.field("origin").is_none_or(is_same_origin) {
                return Response::error("403 Forbidden", "cross-origin request rejected");
            }
            let action = match path {
                "/pause" => WebAction::Pause,
                "/step" => WebAction::Step,
                _ => match path.strip_prefix("/link/") {
                    Some(port) => WebAction::Link(port.to_owned()),
                    None => return Response::not_found("expected /pause, /step or /link/PORT"),
                },
            };
            match requests.try_send(action) {
                Ok(()) => Response::ok("application/json", "{}".to_owned()),
                Err(_) => Response::error("503 Service Unavailable", "busy, retry"),
            }
        }
        _ => Response::not_allowed(),
    }
}

/// Returns true if a `Host` field names this machine without DNS: `localhost` or a loopback address.
fn names_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::send_request;
    use crate::live::PortRow;

    fn web() -> WebView {
        let options = ServeOptions { serve: Some(([127, 0, 0, 1], 0).into()) };
        WebView::open(options).unwrap().unwrap()
    }

    fn send(web: &WebView, line: &str, fields: &str) -> String {
        send_request(web.address, format!("{line} HTTP/1.1\r\n{fields}\r\n").as_bytes())
    }

    #[test]
    fn pages_read_the_model_and_name_ports() {
        let web = web();
        let port = |name: &str| PortRow { name: name.into(), load: f64::NAN, ..PortRow::default() };
        let model = ViewModel {
            title: "<b>".into(),
            ports: vec![port("s1:1"), port("s1:2")],
            keys: vec![("space", "pause")],
            ..ViewModel::default()
        };
        web.show(&model);
        assert!(send(&web, "GET /", "Host: localhost:1\r\n").contains("<title>Weir</title>"));
        let response = send(&web, "GET /scene.json?1", "Host: 127.0.0.1\r\n");
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("default-src 'none'"), "{head}");
        let read: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&read["title"], &read["ports"][1]["name"]), (&"<b>".into(), &"s1:2".into()));
        assert_eq!(read["keys"][0][1], "pause");
        let timeout = Duration::from_secs(5);
        for (path, action) in [
            ("/pause", UserAction::Pause),
            ("/step", UserAction::Step),
            ("/link/s1:2", UserAction::ToggleLink(1)),
        ] {
            let same_origin = "Host: [::1]:8\r\nOrigin: http://[::1]:8\r\n";
            assert!(send(&web, &format!("POST {path}"), same_origin).starts_with("HTTP/1.1 200"));
            assert_eq!(web.next_action(&model, timeout), Some(action));
        }
        send(&web, "POST /link/s9:9", "Host: localhost\r\n");
        assert_eq!(web.next_action(&model, timeout), None, "no such port");
        web.end("it is done".into());
        let last = send(&web, "GET /scene.json", "Host: localhost\r\n");
        assert!(last.contains("\"is_over\":true") && last.contains("it is done"), "{last}");
    }

    #[test]
    fn other_origins_are_rejected() {
        let web = web();
        let is_rejected = |line: &str, fields: &str| send(&web, line, fields).starts_with("HTTP/1.1 403");
        for host in ["", "evil.example", "localhost.evil.example", "10.0.0.1:80", "127.0.0.1.evil.example:80"]
        {
            assert!(is_rejected("GET /scene.json", &format!("Host: {host}\r\n")), "{host}");
        }
        assert!(is_rejected("GET /", ""));
        assert!(is_rejected("POST /pause", "Host: localhost\r\nOrigin: http://evil.example\r\n"));
        assert!(is_rejected("POST /pause", "Host: localhost\r\nOrigin: null\r\n"));
        assert!(send(&web, "POST /quit", "Host: localhost\r\n").starts_with("HTTP/1.1 404"));
        assert!(send(&web, "PUT /", "Host: localhost\r\n").starts_with("HTTP/1.1 405"));
        for _ in 0..MAX_QUEUED {
            assert!(send(&web, "POST /step", "Host: localhost\r\n").starts_with("HTTP/1.1 200"));
        }
        assert!(send(&web, "POST /step", "Host: localhost\r\n").starts_with("HTTP/1.1 503"));
        // If the view is not bound to loopback, it is read-only.
        let (sender, _requests) = sync_channel(1);
        let request = |method| Request { method, path: "/pause", ..Request::default() };
        let response = respond(&request("POST"), false, &Mutex::default(), &sender);
        assert!(response.status.starts_with("403"), "{response:?}");
    }
}
