//! Metrics in the text format of Prometheus, served as one page.
//!
//! The format is version 0.0.4 (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use crate::console::Failure;
use crate::http::{BoundListener, Response, Server};
use std::fmt::Write as _;
use std::net::SocketAddr;

/// Media type of the format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

/// A metric with its samples.
struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    samples: String,
}

/// A page of metrics. Samples of the same metric are grouped, in whatever order they are added, as the format
/// requires.
#[derive(Default)]
pub(crate) struct Page(Vec<Family>);

impl Page {
    /// Adds a sample of a counter; the name must end in `_total`.
    pub(crate) fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: u64,
    ) {
        self.add(Kind::Counter, name, help, labels, value);
    }

    /// Adds a sample of a gauge.
    pub(crate) fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: u64,
    ) {
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
        let index = self.0.iter().position(|family| family.name == name).unwrap_or_else(|| {
            self.0.push(Family { name, help, kind, samples: String::new() });
            self.0.len() - 1
        });
        let samples = &mut self.0[index].samples;
        samples.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let separator = if index == 0 { '{' } else { ',' };
            // Writing to a `String` cannot fail.
            let _ = write!(samples, "{separator}{label}=\"{value}\"");
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
pub(crate) struct MetricsOptions {
    /// Serve metrics for Prometheus at http://ADDR/metrics, for example 127.0.0.1:9464
    #[arg(long = "metrics", value_name = "ADDR", help_heading = "Metrics")]
    address: Option<SocketAddr>,
}

impl MetricsOptions {
    /// Binds to the address; call this before privileges are dropped. `None` without `--metrics`.
    pub(crate) fn open(self) -> Result<Option<BoundListener>, Failure> {
        self.address.map(|address| BoundListener::bind(address, "--metrics", "metrics are")).transpose()
    }
}

/// Serves the pages that `render` returns.
pub(crate) fn serve(
    listener: BoundListener,
    render: impl Fn() -> Page + Send + Sync + 'static,
) -> Result<Server, Failure> {
    listener.serve(move |request| match (request.method, request.path) {
        ("GET", "/metrics") => Response::ok(TEXT_FORMAT, render().to_string()),
        ("GET", _) => Response::not_found("metrics are at /metrics"),
        _ => Response::not_allowed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::send_request;

    #[test]
    fn samples_of_a_metric_are_grouped_and_labels_are_escaped() {
        let mut page = Page::default();
        page.counter("a_total", "What a is.", &[("port", "1")], 7);
        page.gauge("b", "What b is.", &[], 2);
        page.counter("a_total", "What a is.", &[("port", "\"2\\"), ("x", "a\nb")], 8);
        let expected = "# HELP a_total What a is.\n# TYPE a_total counter\na_total{port=\"1\"} 7\n\
                        a_total{port=\"\\\"2\\\\\",x=\"a\\nb\"} 8\n# HELP b What b is.\n# TYPE b gauge\nb 2\n";
        assert_eq!(page.to_string(), expected);
    }

    #[test]
    fn only_the_metrics_page_is_served() {
        let options = MetricsOptions { address: Some("127.0.0.1:0".parse().unwrap()) };
        let listener = options.open().unwrap().unwrap();
        let address = listener.address();
        let render = || {
            let mut page = Page::default();
            page.gauge("one", "One.", &[], 1);
            page
        };
        let _server = serve(listener, render).unwrap();
        let page = send_request(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n")
                && page.ends_with("\r\n\r\n# HELP one One.\n# TYPE one gauge\none 1\n"),
            "{page}"
        );
        assert!(send_request(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(send_request(address, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    }
}
