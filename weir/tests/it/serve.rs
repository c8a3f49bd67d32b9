//! `weir run --serve`: a run in virtual time that is viewed and controlled by a browser.

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Long enough for several snapshots of each scheme.
const EXPERIMENT: &str = "\
name: served
topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps, delay: 1us}
schemes: [fncc, hpcc]
flows:
  - {from: h1, to: h3}
  - {from: h2, to: h3, start: 20us}
duration: 1ms
";
const TIMEOUT: Duration = Duration::from_secs(60);

struct ServedRun {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    address: String,
}

impl ServedRun {
    fn start(dir: &Path) -> ServedRun {
        let mut command = Command::new(cargo_bin!("weir"));
        command.current_dir(dir).args(["run", "served.yaml", "--serve", "0", "--out", "x"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("Live view http://").and_then(|url| url.strip_suffix('/'));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        let mut waiting = String::new();
        errors.read_line(&mut waiting).unwrap();
        assert!(waiting.starts_with("The run is paused: the button on the page starts it"), "{waiting}");
        ServedRun { child, errors, address }
    }

    /// Sends a request, and returns the body of the response.
    fn request(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        response.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Polls the state of the view until `is_wanted` returns true, and returns it.
    fn wait_for(&self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let state: Value = serde_json::from_str(&self.request("GET", "/scene.json")).unwrap();
            if is_wanted(&state) {
                return state;
            }
            assert!(began.elapsed() < TIMEOUT, "{state}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn wait(mut self) -> (Output, String) {
        let mut printed = String::new();
        self.errors.read_to_string(&mut printed).unwrap();
        (self.child.wait_with_output().unwrap(), printed)
    }
}

fn digest(dir: &Path) -> String {
    let summary = fs::read(dir.join("x/summary.json")).unwrap();
    serde_json::from_slice::<Value>(&summary).unwrap()["digest"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_pauses_until_a_browser_continues_it_and_has_the_same_results() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("served.yaml"), EXPERIMENT).unwrap();
    let without_view =
        Command::new(cargo_bin!("weir")).current_dir(dir).args(["run", "served.yaml", "--out", "x"]).output();
    assert!(without_view.unwrap().status.success());
    let expected = digest(dir);

    let began = Instant::now();
    let served = ServedRun::start(dir);
    assert!(served.request("GET", "/").contains("/scene.json"));
    let first = served.wait_for(|state| state["is_paused"] == true);
    let paused = Duration::from_secs(5);
    std::thread::sleep(paused);
    assert!(
        first["progress"].as_f64().unwrap() < 0.5 && first["title"].as_str().unwrap().contains("fncc"),
        "{first}"
    );
    assert!(first["ports"].as_array().unwrap().iter().any(|port| port["peer"] == "s2"), "{first}");
    served.request("POST", "/step");
    let second =
        served.wait_for(|state| state["is_paused"] == true && state["progress"] != first["progress"]);
    assert!(second["progress"].as_f64() > first["progress"].as_f64(), "{second}");
    served.request("POST", "/pause");
    let (output, printed) = served.wait();
    assert!(output.status.success(), "{printed}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("Report x/report.html"));
    assert_eq!(digest(dir), expected);
    let summary: Value = serde_json::from_slice(&fs::read(dir.join("x/summary.json")).unwrap()).unwrap();
    let wall = Duration::from_secs_f64(summary["wall_s"].as_f64().unwrap());
    assert!(wall + paused <= began.elapsed(), "a pause is no wall time: {summary}");
}

#[test]
fn with_serve_now_a_run_does_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("served.yaml"), EXPERIMENT).unwrap();
    let mut command = Command::new(cargo_bin!("weir"));
    command.current_dir(&dir).args(["run", "served.yaml", "--out", "x", "--serve-now"]);
    assert_eq!(command.output().unwrap().status.code(), Some(2), "--serve-now requires --serve");
    let output = command.args(["--serve", "0"]).output().unwrap();
    let printed = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !printed.contains("paused"), "{printed}");
}

#[test]
fn a_link_taken_down_manually_loses_packets_and_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("served.yaml"), EXPERIMENT).unwrap();
    let served = ServedRun::start(dir);
    let state = served.wait_for(|state| state["is_paused"] == true);
    let port = state["ports"].as_array().unwrap().iter().find(|port| port["peer"] == "s2").unwrap();
    let name = port["name"].as_str().unwrap().to_owned();
    served.request("POST", &format!("/link/{name}"));
    let is_up = |state: &Value| {
        let ports = state["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == *name).unwrap()["is_up"].as_bool().unwrap()
    };
    served.wait_for(|state| !is_up(state));
    served.request("POST", "/pause");
    let (output, printed) = served.wait();
    assert!(output.status.success(), "{printed}");
    let summary: Value = serde_json::from_slice(&fs::read(dir.join("x/summary.json")).unwrap()).unwrap();
    let lost = |scheme: &str| summary["schemes"][scheme]["drops"]["link_down"].as_u64().unwrap_or(0);
    assert!(lost("fncc") > 0 && lost("hpcc") == 0, "the link is up again for the next scheme: {summary}");
    let report = fs::read_to_string(dir.join("x/report.html")).unwrap();
    assert!(report.contains("Links changed manually") && report.contains(&format!("{name}: link down at")));
}
