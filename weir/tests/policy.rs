//! Policies over raw sockets: `weir policy` with running agents, after a restart, and in Mininet with sixteen hosts on
//! the embedded switch, one of which is disconnected and one sends forged packets. Needs root, and Debian's mininet for
//! the latter.
//!
//! Each test runs in its own network namespace, and its agents listen in its own directory.

// Prints the measured times for the log of CI.
#![allow(clippy::print_stdout)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_testkit::harness;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// Time limit of a start or an end, ample for a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Time limit for a policy to reach all hosts: an idle machine needs some tenths of a second. If Trickle did not reset
/// the interval, it would take up to Imax, which is much longer.
const MAX_CONVERGENCE_TIME: Duration = Duration::from_secs(5);
const HOSTS: usize = 16;

fn main() -> ExitCode {
    let codes = [
        harness::run(UNPRIVILEGED_TESTS, None),
        harness::run(AGENTS, missing(false)),
        harness::run(FABRICS, missing(true)),
    ];
    codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
}

const UNPRIVILEGED_TESTS: &[harness::Test] = &[("invalid_input_is_rejected", invalid_input_is_rejected)];
const AGENTS: &[harness::Test] = &[("a_policy_outlives_its_agent", a_policy_outlives_its_agent)];
const FABRICS: &[harness::Test] = &[("sixteen_hosts_agree", sixteen_hosts_agree)];

/// Returns a missing requirement, if there is one.
fn missing(mininet: bool) -> Option<String> {
    let run_program = |program: &str, arguments: &[&str]| Command::new(program).args(arguments).output().ok();
    if run_program("id", &["-u"]).is_none_or(|output| output.stdout != b"0\n") {
        return Some("needs root".to_owned());
    }
    let is_installed = run_program("/usr/bin/python3", &["-c", "import mininet.net"])
        .is_some_and(|output| output.status.success());
    (mininet && !is_installed).then(|| "needs Debian's mininet".to_owned())
}

/// A network namespace and a directory, removed when dropped.
struct TestNetns {
    namespace: String,
    dir: tempfile::TempDir,
}

impl TestNetns {
    fn new(test: &str) -> TestNetns {
        let namespace = format!("weir-policy-{}-{test}", std::process::id());
        ip(&["netns", "add", &namespace]);
        ip(&["-n", &namespace, "link", "set", "lo", "up"]);
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("sockets")).expect("a directory");
        let netns = TestNetns { namespace, dir };
        netns.write("key", "of sixteen bytes or more");
        chmod(&netns.path("key"), "600");
        netns
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).expect("written");
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, WEIR]).args(arguments);
        command.current_dir(self.dir.path()).env("WEIR_RUN", self.path("sockets")).stdin(Stdio::null());
        command
    }

    fn policy(&self, arguments: &[&str]) -> Output {
        self.weir(&[&["policy"], arguments].concat()).output().expect("the process exits")
    }

    /// Returns the status of all running agents.
    fn show(&self) -> BTreeMap<String, Value> {
        let output = self.policy(&["show", "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn sockets(&self) -> usize {
        fs::read_dir(self.dir.path().join("sockets")).expect("a directory").count()
    }
}

impl Drop for TestNetns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).output();
    }
}

/// A child process, killed when dropped.
struct Running(Child);

impl Running {
    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().expect("kill").success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().expect("iproute2");
    assert!(output.status.success(), "ip {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn chmod(path: &str, mode: &str) {
    assert!(Command::new("chmod").args([mode, path]).status().expect("chmod").success());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Calls `check` until it succeeds, and returns the time that it took. Panics with the last error after `timeout`.
fn wait_until<T: std::fmt::Debug>(timeout: Duration, mut check: impl FnMut() -> Result<(), T>) -> Duration {
    let start = Instant::now();
    loop {
        match check() {
            Ok(()) => return start.elapsed(),
            Err(last) => assert!(start.elapsed() < timeout, "not within {timeout:?}: {last:?}"),
        }
        sleep(Duration::from_millis(50));
    }
}

fn version(report: &Value) -> u64 {
    report["policies"][0]["version"].as_u64().expect("a version")
}

/// Returns the value of a scheme parameter that flows use, as text.
fn parameter_in_use<'a>(report: &'a Value, parameter: &str) -> &'a str {
    let scheme = report["scheme"].as_array().expect("a list");
    scheme.iter().find(|entry| entry[0] == parameter).and_then(|entry| entry[1].as_str()).unwrap_or("")
}

fn count(report: &Value, group: &str, name: &str) -> u64 {
    report[group][name].as_u64().unwrap_or(0)
}

fn invalid_input_is_rejected() {
    let dir = tempfile::tempdir().expect("a directory");
    let weir = |arguments: &[&str]| {
        Command::new(WEIR).args(arguments).env("WEIR_RUN", dir.path()).output().expect("the process exits")
    };
    let assert_rejected = |arguments: &[&str], reason: &str| {
        let output = weir(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(reason), "{arguments:?}: {}", text(&output.stderr));
    };
    assert_rejected(&["policy", "show"], "no agent found in");
    assert_rejected(&["policy", "show", "--via", "h1"], "h1.sock: no agent listens; no sockets in");
    assert_rejected(&["policy", "set", "eta=0.9"], "--via");
    assert_rejected(&["policy", "set", "eta", "--via", "h1"], "\"eta\": expected KEY=VALUE");
    assert_rejected(&["policy", "set", "--via", "h1"], "KEY=VALUE");
    let quickstart = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/quickstart.yaml");
    assert_rejected(&["run", quickstart, "--policy-key", "k"], "--policy-key requires --backend mininet");
    let key = dir.path().join("key");
    fs::write(&key, "short").expect("written");
    chmod(key.to_str().expect("a path"), "600");
    assert_rejected(&["host", "recv", "--iface", "lo", "--control", "h1"], "--policy-key");
    // The key is checked before anything is started.
    let run = ["run", quickstart, "--on", "mininet", "--policy-key", key.to_str().expect("a path")];
    assert_rejected(&run, "policy key of 5 bytes is too short");
    // Faults that only virtual time supports are an error.
    fs::write(&key, "of sixteen bytes or more").expect("written");
    let faults = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/policy-faults.yaml");
    let run =
        ["run", faults, "--on", "mininet", "--rate", "10Mbps", "--policy-key", key.to_str().expect("a path")];
    assert_rejected(&run, "are for virtual time");
    // A stale socket: no process listens.
    drop(std::os::unix::net::UnixListener::bind(dir.path().join("h9.sock")).expect("a socket"));
    let stale = weir(&["policy", "show", "--via", "h9"]);
    assert_eq!(stale.status.code(), Some(1));
    assert!(text(&stale.stderr).contains("agent stopped responding"), "{}", text(&stale.stderr));
    assert_rejected(&["policy", "show", "--via", "h1"], "agents are h9");
}

/// A policy set at an agent is in use again after the agent is killed and restarted with other parameters, but not with
/// another key.
fn a_policy_outlives_its_agent() {
    let netns = TestNetns::new("restart");
    let inside = ["-n", &netns.namespace];
    ip(&[&inside[..], &["link", "add", "v0", "type", "veth", "peer", "name", "v1"]].concat());
    for link in ["v0", "v1"] {
        ip(&[&inside[..], &["link", "set", link, "up"]].concat());
    }
    ip(&[&inside[..], &["addr", "add", "10.9.0.1/24", "dev", "v0"]].concat());
    let start = |more: &[&str]| {
        let base =
            ["host", "recv", "--iface", "v0", "--scheme", "hpcc", "--policy-state", "state", "--spin", "0us"];
        let mut command = netns.weir(&[&base, more].concat());
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("weir starts"))
    };
    let listening = |name: &str| {
        let socket = netns.dir.path().join("sockets").join(name);
        wait_until(TIMEOUT, || if socket.exists() { Ok(()) } else { Err("no socket") });
    };
    let key = ["--policy-key", "key", "--control", "a"];
    let agent = start(&key);
    listening("a.sock");
    let output = netns.policy(&["set", "eta=0.9", "max_stage=3", "--via", "a", "--wait", "0us"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "policy 1 by 10.9.0.1 is set and is being disseminated to all hosts\n");
    // A set of edits with an invalid one is rejected as a whole.
    let invalid: [(&[&str], &str); 4] = [
        (&["max_stage=4", "eta=9"], "eta: "),
        (&["max_stage=4", "etta=1"], "unknown parameter \"etta\""),
        (&["scheme=dctcp"], "ECN marks"),
        (&["scheme=tcp"], "unknown scheme \"tcp\""),
    ];
    for (edits, reason) in invalid {
        let output = netns.policy(&[&["set", "--via", "a"], edits].concat());
        assert_eq!(output.status.code(), Some(2), "{edits:?}");
        assert!(text(&output.stderr).contains(reason), "{edits:?}: {}", text(&output.stderr));
    }
    let history = text(&netns.policy(&["history", "--via", "a"]).stdout);
    assert!(history.contains("1 by 10.9.0.1") && history.contains("set here"), "{history}");
    let second = netns
        .weir(&["host", "recv", "--iface", "v0", "--policy-key", "key"])
        .output()
        .expect("the process exits");
    assert_eq!(second.status.code(), Some(2), "an address has one agent: {}", text(&second.stderr));
    wait_until(TIMEOUT, || fs::read(netns.path("state")).map(|_| ()));
    agent.signal("KILL");
    drop(agent);
    assert_eq!(netns.sockets(), 1, "the stale socket remains");
    // Restarted with other parameters.
    let agent = start(&[&key[..], &["--set", "eta=0.8"]].concat());
    wait_until(TIMEOUT, || match netns.policy(&["show", "--via", "a"]).status.success() {
        true => Ok(()),
        false => Err("no answer"),
    });
    let report = &netns.show()["a"];
    assert_eq!(
        (version(report), parameter_in_use(report, "eta"), parameter_in_use(report, "max_stage")),
        (1, "0.9", "3")
    );
    assert_eq!(report["policies"][0]["from"], "kept");
    let shown = text(&netns.policy(&["show"]).stdout);
    assert!(
        shown.contains("holds     1 by 10.9.0.1") && shown.contains("runs      this policy, hpcc"),
        "{shown}"
    );
    agent.signal("INT");
    wait_until(TIMEOUT, || if netns.sockets() == 0 { Ok(()) } else { Err("the socket still exists") });
    drop(agent);
    // With another key the saved policy is rejected.
    netns.write("other", "another key of sixteen bytes");
    chmod(&netns.path("other"), "600");
    let mut other_agent = start(&["--policy-key", "other", "--control", "a"]);
    assert_eq!(other_agent.0.wait().expect("the process exits").code(), Some(2));
    let mut stderr = String::new();
    std::io::Read::read_to_string(other_agent.0.stderr.as_mut().expect("a pipe"), &mut stderr).expect("text");
    assert!(stderr.contains("policy state has an invalid signature"), "{stderr}");
    assert_eq!(netns.sockets(), 0);
}

const EXPERIMENT: &str = "
name: policy
topology: {kind: fat-tree, k: 4, rate: 5Mbps, delay: 100us}
mtu: 1518B
schemes: [hpcc]
flows:
  - {from: h1, to: h9}
  - {from: h2, to: h10}
  - {from: h3, to: h11}
  - {from: h4, to: h12}
  - {from: h13, to: h5}
  - {from: h14, to: h6}
  - {from: h15, to: h7}
  - {from: h16, to: h8}
duration: 300s
policy: {imin: 200ms}
observe: {interval: 100ms}
";

/// Returns the pid of a host's agent.
fn pid(host: &str, netns: &TestNetns) -> String {
    let words = format!("--control\0{host}\0");
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_in_netns = text(&environ).contains(&netns.path("sockets"));
        // Not the wrapper process that starts the agent.
        if is_in_netns && text(&command).contains(&words) && text(&command).starts_with(WEIR) {
            return entry.file_name().to_string_lossy().into_owned();
        }
    }
    panic!("no agent of {host}")
}

/// Returns the interface at the switch's end of a host's link.
fn switch_port(host: &str, netns: &TestNetns) -> String {
    let shown = nsenter(&pid(host, netns), &["ip", "-o", "link", "show", "eth0"]);
    let peer =
        shown.split("eth0@if").nth(1).and_then(|rest| rest.split(':').next()).expect("a veth").to_owned();
    let links = ip(&["-n", &netns.namespace, "-o", "link"]);
    let line = links.lines().find(|line| line.starts_with(&format!("{peer}: "))).expect("its peer");
    line.split(": ").nth(1).and_then(|name| name.split('@').next()).expect("a name").to_owned()
}

fn nsenter(pid: &str, command: &[&str]) -> String {
    let output = Command::new("nsenter").args(["-t", pid, "-n"]).args(command).output().expect("util-linux");
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Returns the number of frames received by all ports of all switches.
fn frames_received(netns: &TestNetns) -> u64 {
    let shown = ip(&["-n", &netns.namespace, "-s", "-j", "link"]);
    let links: Vec<Value> = serde_json::from_str(&shown).expect("JSON");
    let ports = links.iter().filter(|it| it["ifname"].as_str().is_some_and(|name| name.contains("-eth")));
    ports.map(|it| it["stats64"]["rx"]["packets"].as_u64().expect("a count")).sum()
}

fn total(reports: &BTreeMap<String, Value>, name: &str) -> u64 {
    reports.values().map(|report| count(report, "counts", name)).sum()
}

/// Returns the hosts that do not yet run this version with this eta.
fn outdated_hosts(netns: &TestNetns, wanted: u64, eta: &str) -> Vec<String> {
    let reports = netns.show();
    assert_eq!(reports.len(), HOSTS);
    let is_current = |report: &Value| {
        version(report) == wanted
            && parameter_in_use(report, "eta") == eta
            && report["runs"][0].as_u64() == Some(wanted)
    };
    reports.into_iter().filter(|(_, report)| !is_current(report)).map(|(name, _)| name).collect()
}

/// Sets eta at a host and waits until all hosts run it, except those in `except`. Returns the time until the last one
/// did.
fn set_and_wait(netns: &TestNetns, eta: &str, via: &str, wanted: u64, except: &[&str]) -> Duration {
    let start = Instant::now();
    let output = netns.policy(&["set", &format!("eta={eta}"), "--via", via, "--wait", "0us"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    wait_until(TIMEOUT, || match outdated_hosts(netns, wanted, eta) {
        hosts if hosts == except => Ok(()),
        hosts => Err(hosts),
    });
    // Computed from how long each host has held the policy, because polling is too coarse.
    let reports = netns.show();
    let elapsed = start.elapsed();
    let held =
        |report: &Value| Duration::from_nanos(report["policies"][0]["for_ns"].as_u64().expect("a time"));
    let others = reports.iter().filter(|(name, _)| !except.contains(&name.as_str()));
    others.map(|(_, report)| elapsed.saturating_sub(held(report))).max().expect("hosts")
}

/// Python script of the attacker: captures a POLICY packet of another host, and on request sends it again unchanged
/// (replay), with a modified payload (forged), and malformed in three ways.
const ATTACK_SCRIPT: &str = r#"
import socket, sys
GROUP = bytes.fromhex("01005e574549")
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
wire.bind(("eth0", 3))
while True:
    frame, (_, _, kind, *_) = wire.recvfrom(65536)
    if frame[:6] == GROUP and kind != 4 and len(frame) > 120 and frame[42] == 0x17:
        break
def csum(head):
    total = sum(int.from_bytes(head[at:at + 2], "big") for at in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return (~total & 0xffff).to_bytes(2, "big")
def with_payload(payload):
    head = bytearray(frame[14:34])
    head[2:4] = (52 + len(payload)).to_bytes(2, "big")
    head[10:12] = b"\0\0"
    head[10:12] = csum(head)
    udp = frame[34:38] + (32 + len(payload)).to_bytes(2, "big") + b"\0\0"
    return frame[:14] + bytes(head) + udp + frame[42:66] + payload
payload = frame[66:]
flipped = bytearray(payload)
flipped[30] ^= 1
lies = [frame, with_payload(bytes(flipped)), with_payload(payload[:-5]), with_payload(payload[:9]), with_payload(bytes(90))]
print(socket.inet_ntoa(frame[26:30]), flush=True)
sys.stdin.readline()
# As many as the meter of a port to a host lets through at once.
for lie in lies:
    wire.send(lie)
print("done", flush=True)
"#;

fn sixteen_hosts_agree() {
    let netns = TestNetns::new("mininet");
    netns.write("policy.yaml", EXPERIMENT);
    let mut command = netns.weir(&[
        "run",
        "policy.yaml",
        "--on",
        "mininet",
        "--switch",
        "weir",
        "--policy-key",
        "key",
        "--out",
        "run",
    ]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = Running(command.spawn().expect("weir starts"));
    wait_until(TIMEOUT, || match run.0.try_wait().expect("a process") {
        None if netns.sockets() == HOSTS => Ok(()),
        None => Err(netns.sockets()),
        Some(status) => panic!("the run has ended: {status}"),
    });
    wait_until(TIMEOUT, || {
        let flows: u64 = netns.show().values().map(|it| it["flows"].as_u64().expect("a count")).sum();
        if flows == 8 { Ok(()) } else { Err(flows) }
    });

    // A policy set at one host while flows run reaches all hosts soon, and no flow ends.
    let took = set_and_wait(&netns, "0.9", "h1", 1, &[]);
    println!("16 hosts run the policy after {took:?}");
    assert!(took < MAX_CONVERGENCE_TIME, "{took:?}");
    let reports = netns.show();
    assert!(reports.values().all(|it| it["policies"][0]["writer"] == reports["h1"]["addr"]));
    assert_eq!(reports.values().map(|it| it["flows"].as_u64().expect("a count")).sum::<u64>(), 8);

    // A host that is disconnected meanwhile catches up by itself.
    let port = switch_port("h16", &netns);
    ip(&["-n", &netns.namespace, "link", "set", &port, "down"]);
    let took = set_and_wait(&netns, "0.85", "h7", 2, &["h16"]);
    println!("15 hosts run the next after {took:?}");
    assert!(took < MAX_CONVERGENCE_TIME, "{took:?}");
    sleep(Duration::from_secs(2));
    assert_eq!(outdated_hosts(&netns, 2, "0.85"), ["h16"]);
    ip(&["-n", &netns.namespace, "link", "set", &port, "up"]);
    let took = wait_until(Duration::from_secs(30), || match outdated_hosts(&netns, 2, "0.85") {
        hosts if hosts.is_empty() => Ok(()),
        hosts => Err(hosts),
    });
    println!("h16 has caught up {took:?} after its link was back");

    // An attacker's replayed, forged and malformed packets change nothing, reset no timer, and are counted.
    let mut attacker = Command::new("nsenter")
        .args(["-t", &pid("h2", &netns), "-n", "/usr/bin/python3", "-c", ATTACK_SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map(Running)
        .expect("util-linux");
    sleep(Duration::from_millis(500));
    set_and_wait(&netns, "0.95", "h3", 3, &[]);
    let mut replies = BufReader::new(attacker.0.stdout.take().expect("a pipe"));
    let mut read_reply = || {
        let mut line = String::new();
        replies.read_line(&mut line).expect("the attacker prints a line");
        line.trim().to_owned()
    };
    let author = read_reply();
    sleep(Duration::from_secs(2));
    let before = netns.show();
    attacker.0.stdin.as_mut().expect("a pipe").write_all(b"go\n").expect("the attacker reads its input");
    assert_eq!(read_reply(), "done");
    sleep(Duration::from_millis(500));
    let after = netns.show();
    assert!(outdated_hosts(&netns, 3, "0.95").is_empty());
    for (name, now) in after.iter().filter(|(name, now)| *name != "h2" && now["addr"] != author.as_str()) {
        let more = |group, what| count(now, group, what) - count(&before[name], group, what);
        assert_eq!(more("counts", "resets") + more("counts", "newer") + more("counts", "older"), 0, "{name}");
        let [replayed, forged, malformed] =
            ["policy_replayed", "policy_forged", "policy_malformed"].map(|reason| more("drops", reason));
        assert_eq!((replayed, forged + malformed), (1, 4), "{name}: {now}");
        assert!(forged >= 1 && malformed >= 2, "{name}: {now}");
    }

    // Without changes, hosts send hardly any POLICY packets.
    sleep(Duration::from_secs(5));
    let (packets, sent) = (frames_received(&netns), total(&netns.show(), "sent"));
    sleep(Duration::from_secs(5));
    let (packets, sent) = (frames_received(&netns) - packets, total(&netns.show(), "sent") - sent);
    // Switches receive each POLICY packet 13 times: from its host, and over each of the 12 links of the flooding tree.
    let policies = sent * 13;
    println!("{policies} of {packets} frames that switches took in within 5 s were POLICY: {sent} packets");
    assert!(packets > 10_000, "traffic: {packets}");
    assert!(policies * 100 < packets, "{policies} of {packets}");

    run.signal("INT");
    let status = run.0.wait().expect("the process exits");
    assert_eq!(status.code(), Some(130));
    assert_eq!(netns.sockets(), 0, "no socket is left");
    let summary: PathBuf = netns.dir.path().join("run/summary.json");
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(summary).expect("a summary")).expect("JSON");
    println!("drops {}", summary["schemes"]["hpcc"]["drops"]);
}
