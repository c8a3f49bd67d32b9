//! `weir run --serve`: a run in virtual time that a browser looks at and steers.

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Long enough for several looks at each scheme.
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

struct Served {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    address: String,
}

impl Served {
    fn start(dir: &Path) -> Served {
        let mut command = Command::new(cargo_bin!("weir"));
        command.current_dir(dir).args(["run", "served.yaml", "--serve", "0", "--out", "x"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("Live view http://").and_then(|url| url.strip_suffix('/'));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Served { child, errors, address }
    }

    /// The body of an answer.
    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// The scene, once it is as `wanted`.
    fn scene(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let scene: Value = serde_json::from_str(&self.ask("GET", "/scene.json")).unwrap();
            if wanted(&scene) {
                return scene;
            }
            assert!(began.elapsed() < TIMEOUT, "{scene}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn end(mut self) -> (Output, String) {
        let mut told = String::new();
        self.errors.read_to_string(&mut told).unwrap();
        (self.child.wait_with_output().unwrap(), told)
    }
}

fn digest(dir: &Path) -> String {
    let summary = fs::read(dir.join("x/summary.json")).unwrap();
    serde_json::from_slice::<Value>(&summary).unwrap()["digest"].as_str().unwrap().to_owned()
}

#[test]
fn a_run_stands_until_a_browser_lets_it_go_on_and_its_results_are_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("served.yaml"), EXPERIMENT).unwrap();
    let plain =
        Command::new(cargo_bin!("weir")).current_dir(dir).args(["run", "served.yaml", "--out", "x"]).output();
    assert!(plain.unwrap().status.success());
    let expected = digest(dir);

    let served = Served::start(dir);
    assert!(served.ask("GET", "/").contains("/scene.json"));
    let first = served.scene(|scene| scene["is_paused"] == true);
    assert!(
        first["progress"].as_f64().unwrap() < 0.5 && first["title"].as_str().unwrap().contains("fncc"),
        "{first}"
    );
    assert!(first["ports"].as_array().unwrap().iter().any(|port| port["peer"] == "s2"), "{first}");
    served.ask("POST", "/step");
    let second = served.scene(|scene| scene["is_paused"] == true && scene["progress"] != first["progress"]);
    assert!(second["progress"].as_f64() > first["progress"].as_f64(), "{second}");
    served.ask("POST", "/pause");
    let (output, told) = served.end();
    assert!(output.status.success(), "{told}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("Report x/report.html"));
    assert_eq!(digest(dir), expected);
}

#[test]
fn a_link_taken_down_by_hand_loses_packets_and_the_report_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("served.yaml"), EXPERIMENT).unwrap();
    let served = Served::start(dir);
    let scene = served.scene(|scene| scene["is_paused"] == true);
    let port = scene["ports"].as_array().unwrap().iter().find(|port| port["peer"] == "s2").unwrap();
    let name = port["name"].as_str().unwrap().to_owned();
    served.ask("POST", &format!("/link/{name}"));
    let is_up = |scene: &Value| {
        let ports = scene["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == *name).unwrap()["is_up"].as_bool().unwrap()
    };
    served.scene(|scene| !is_up(scene));
    served.ask("POST", "/pause");
    let (output, told) = served.end();
    assert!(output.status.success(), "{told}");
    let summary: Value = serde_json::from_slice(&fs::read(dir.join("x/summary.json")).unwrap()).unwrap();
    let lost = |scheme: &str| summary["schemes"][scheme]["drops"]["link_down"].as_u64().unwrap_or(0);
    assert!(lost("fncc") > 0 && lost("hpcc") == 0, "the next scheme has the link again: {summary}");
    let report = fs::read_to_string(dir.join("x/report.html")).unwrap();
    assert!(
        report.contains("Links changed manually")
            && report.contains(&format!("the link of {name} is taken down at"))
    );
}
