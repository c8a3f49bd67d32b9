//! Policies over raw sockets: `weir policy` at running agents, over a restart, and in Mininet with sixteen hosts on the
//! embedded switch, where one is cut off, and one lies. Needs root, and the second part Debian's mininet.
//!
//! Everything runs in a network namespace of its own, and agents listen in a folder of its own.

// What it took is worth a line in CI's log.
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
/// The longest time that start or end may take on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);
/// The longest time that a policy may take to reach all hosts: some tenths of a second on an idle machine. Without a
/// reset of the interval it would be up to Imax, much longer.
const SOON: Duration = Duration::from_secs(5);
const HOSTS: usize = 16;

fn main() -> ExitCode {
    let codes = [
        harness::run(REFUSALS, None),
        harness::run(AGENTS, missing(false)),
        harness::run(FABRICS, missing(true)),
    ];
    codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
}

const REFUSALS: &[harness::Test] = &[("what_is_wrong_is_said", what_is_wrong_is_said)];
const AGENTS: &[harness::Test] = &[("a_policy_outlives_its_agent", a_policy_outlives_its_agent)];
const FABRICS: &[harness::Test] = &[("sixteen_hosts_agree", sixteen_hosts_agree)];

/// Returns a missing requirement, if there is one.
fn missing(mininet: bool) -> Option<String> {
    let says = |program: &str, arguments: &[&str]| Command::new(program).args(arguments).output().ok();
    if says("id", &["-u"]).is_none_or(|done| done.stdout != b"0\n") {
        return Some("needs root".to_owned());
    }
    let there =
        says("/usr/bin/python3", &["-c", "import mininet.net"]).is_some_and(|done| done.status.success());
    (mininet && !there).then(|| "needs Debian's mininet".to_owned())
}

/// A network namespace and a folder, both gone in the end.
struct Place {
    namespace: String,
    dir: tempfile::TempDir,
}

impl Place {
    fn new(test: &str) -> Place {
        let namespace = format!("weir-policy-{}-{test}", std::process::id());
        ip(&["netns", "add", &namespace]);
        ip(&["-n", &namespace, "link", "set", "lo", "up"]);
        let dir = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(dir.path().join("sockets")).expect("a folder");
        let place = Place { namespace, dir };
        place.write("key", "of sixteen bytes or more");
        chmod(&place.path("key"), "600");
        place
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
        self.weir(&[&["policy"], arguments].concat()).output().expect("it ends")
    }

    /// Returns the status of all agents that listen.
    fn show(&self) -> BTreeMap<String, Value> {
        let done = self.policy(&["show", "--json"]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        serde_json::from_slice(&done.stdout).expect("JSON")
    }

    fn sockets(&self) -> usize {
        fs::read_dir(self.dir.path().join("sockets")).expect("a folder").count()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).output();
    }
}

/// A process that does not outlive its test.
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
    let done = Command::new("ip").args(arguments).output().expect("iproute2");
    assert!(done.status.success(), "ip {arguments:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

fn chmod(path: &str, mode: &str) {
    assert!(Command::new("chmod").args([mode, path]).status().expect("chmod").success());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until it is so; says what was last seen if it never is.
fn until<T: std::fmt::Debug>(patience: Duration, mut look: impl FnMut() -> Result<(), T>) -> Duration {
    let start = Instant::now();
    loop {
        match look() {
            Ok(()) => return start.elapsed(),
            Err(seen) => assert!(start.elapsed() < patience, "not within {patience:?}: {seen:?}"),
        }
        sleep(Duration::from_millis(50));
    }
}

fn version(report: &Value) -> u64 {
    report["policies"][0]["version"].as_u64().expect("a version")
}

/// The value of a parameter that flows follow.
fn runs<'a>(report: &'a Value, parameter: &str) -> &'a str {
    let scheme = report["scheme"].as_array().expect("a list");
    scheme.iter().find(|entry| entry[0] == parameter).and_then(|entry| entry[1].as_str()).unwrap_or("")
}

fn count(report: &Value, group: &str, name: &str) -> u64 {
    report[group][name].as_u64().unwrap_or(0)
}

fn what_is_wrong_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let weir = |arguments: &[&str]| {
        Command::new(WEIR).args(arguments).env("WEIR_RUN", dir.path()).output().expect("it ends")
    };
    let refused = |arguments: &[&str], reason: &str| {
        let done = weir(arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {}", text(&done.stderr));
        assert!(text(&done.stderr).contains(reason), "{arguments:?}: {}", text(&done.stderr));
    };
    refused(&["policy", "show"], "no agent found in");
    refused(&["policy", "show", "--via", "h1"], "h1.sock: no agent listens; no sockets in");
    refused(&["policy", "set", "eta=0.9"], "--via");
    refused(&["policy", "set", "eta", "--via", "h1"], "\"eta\": expected KEY=VALUE");
    refused(&["policy", "set", "--via", "h1"], "KEY=VALUE");
    let quickstart = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/quickstart.yaml");
    refused(&["run", quickstart, "--policy-key", "k"], "--policy-key requires --backend mininet");
    let key = dir.path().join("key");
    fs::write(&key, "short").expect("written");
    chmod(key.to_str().expect("a path"), "600");
    refused(&["host", "recv", "--iface", "lo", "--control", "h1"], "--policy-key");
    // The key is looked at before anything else is done.
    let run = ["run", quickstart, "--on", "mininet", "--policy-key", key.to_str().expect("a path")];
    refused(&run, "policy key of 5 bytes is too short");
    // What only virtual time can do is not passed over in silence.
    fs::write(&key, "of sixteen bytes or more").expect("written");
    let faults = concat!(env!("CARGO_MANIFEST_DIR"), "/../experiments/policy-faults.yaml");
    let run =
        ["run", faults, "--on", "mininet", "--rate", "10Mbps", "--policy-key", key.to_str().expect("a path")];
    refused(&run, "are for virtual time");
    // A socket that nobody listens at any more.
    drop(std::os::unix::net::UnixListener::bind(dir.path().join("h9.sock")).expect("a socket"));
    let dead = weir(&["policy", "show", "--via", "h9"]);
    assert_eq!(dead.status.code(), Some(1));
    assert!(text(&dead.stderr).contains("agent stopped responding"), "{}", text(&dead.stderr));
    refused(&["policy", "show", "--via", "h1"], "agents are h9");
}

/// One agent on a veth: what is set there holds after it was killed, with another start's parameters, and only with its key.
fn a_policy_outlives_its_agent() {
    let place = Place::new("restart");
    let inside = ["-n", &place.namespace];
    ip(&[&inside[..], &["link", "add", "v0", "type", "veth", "peer", "name", "v1"]].concat());
    for link in ["v0", "v1"] {
        ip(&[&inside[..], &["link", "set", link, "up"]].concat());
    }
    ip(&[&inside[..], &["addr", "add", "10.9.0.1/24", "dev", "v0"]].concat());
    let start = |more: &[&str]| {
        let base =
            ["host", "recv", "--iface", "v0", "--scheme", "hpcc", "--policy-state", "state", "--spin", "0us"];
        let mut command = place.weir(&[&base, more].concat());
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("weir starts"))
    };
    let listening = |name: &str| {
        let socket = place.dir.path().join("sockets").join(name);
        until(TIMEOUT, || if socket.exists() { Ok(()) } else { Err("no socket") });
    };
    let key = ["--policy-key", "key", "--control", "a"];
    let agent = start(&key);
    listening("a.sock");
    let done = place.policy(&["set", "eta=0.9", "max_stage=3", "--via", "a", "--wait", "0us"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), "policy 1 by 10.9.0.1 is set and is being disseminated to all hosts\n");
    // What cannot be is refused as a whole.
    let wrong: [(&[&str], &str); 4] = [
        (&["max_stage=4", "eta=9"], "eta: "),
        (&["max_stage=4", "etta=1"], "unknown parameter \"etta\""),
        (&["scheme=dctcp"], "ECN marks"),
        (&["scheme=tcp"], "unknown scheme \"tcp\""),
    ];
    for (edits, reason) in wrong {
        let done = place.policy(&[&["set", "--via", "a"], edits].concat());
        assert_eq!(done.status.code(), Some(2), "{edits:?}");
        assert!(text(&done.stderr).contains(reason), "{edits:?}: {}", text(&done.stderr));
    }
    let history = text(&place.policy(&["history", "--via", "a"]).stdout);
    assert!(history.contains("1 by 10.9.0.1") && history.contains("set here"), "{history}");
    let second =
        place.weir(&["host", "recv", "--iface", "v0", "--policy-key", "key"]).output().expect("it ends");
    assert_eq!(second.status.code(), Some(2), "an address has one agent: {}", text(&second.stderr));
    until(TIMEOUT, || fs::read(place.path("state")).map(|_| ()));
    agent.signal("KILL");
    drop(agent);
    assert_eq!(place.sockets(), 1, "a name that nobody listens at");
    // Started anew with other parameters.
    let agent = start(&[&key[..], &["--set", "eta=0.8"]].concat());
    until(TIMEOUT, || match place.policy(&["show", "--via", "a"]).status.success() {
        true => Ok(()),
        false => Err("no answer"),
    });
    let report = &place.show()["a"];
    assert_eq!((version(report), runs(report, "eta"), runs(report, "max_stage")), (1, "0.9", "3"));
    assert_eq!(report["policies"][0]["from"], "kept");
    let shown = text(&place.policy(&["show"]).stdout);
    assert!(
        shown.contains("holds     1 by 10.9.0.1") && shown.contains("runs      this policy, hpcc"),
        "{shown}"
    );
    agent.signal("INT");
    until(TIMEOUT, || if place.sockets() == 0 { Ok(()) } else { Err("the socket is there") });
    drop(agent);
    // Another key: what was kept is not taken for its own.
    place.write("other", "another key of sixteen bytes");
    chmod(&place.path("other"), "600");
    let mut stranger = start(&["--policy-key", "other", "--control", "a"]);
    assert_eq!(stranger.0.wait().expect("it ends").code(), Some(2));
    let mut said = String::new();
    std::io::Read::read_to_string(stranger.0.stderr.as_mut().expect("a pipe"), &mut said).expect("text");
    assert!(said.contains("policy state has an invalid signature"), "{said}");
    assert_eq!(place.sockets(), 0);
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

/// The agent of a host.
fn pid(host: &str, place: &Place) -> String {
    let words = format!("--control\0{host}\0");
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
        let own = text(&environ).contains(&place.path("sockets"));
        // Not the tether around it.
        if own && text(&command).contains(&words) && text(&command).starts_with(WEIR) {
            return entry.file_name().to_string_lossy().into_owned();
        }
    }
    panic!("no agent of {host}")
}

/// The switch's end of a host's link.
fn switch_port(host: &str, place: &Place) -> String {
    let shown = nsenter(&pid(host, place), &["ip", "-o", "link", "show", "eth0"]);
    let peer =
        shown.split("eth0@if").nth(1).and_then(|rest| rest.split(':').next()).expect("a veth").to_owned();
    let links = ip(&["-n", &place.namespace, "-o", "link"]);
    let line = links.lines().find(|line| line.starts_with(&format!("{peer}: "))).expect("its peer");
    line.split(": ").nth(1).and_then(|name| name.split('@').next()).expect("a name").to_owned()
}

fn nsenter(pid: &str, command: &[&str]) -> String {
    let done = Command::new("nsenter").args(["-t", pid, "-n"]).args(command).output().expect("util-linux");
    assert!(done.status.success(), "{command:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

/// Frames that came in by all ports of all switches.
fn carried(place: &Place) -> u64 {
    let shown = ip(&["-n", &place.namespace, "-s", "-j", "link"]);
    let links: Vec<Value> = serde_json::from_str(&shown).expect("JSON");
    let ports = links.iter().filter(|it| it["ifname"].as_str().is_some_and(|name| name.contains("-eth")));
    ports.map(|it| it["stats64"]["rx"]["packets"].as_u64().expect("a count")).sum()
}

fn total(reports: &BTreeMap<String, Value>, name: &str) -> u64 {
    reports.values().map(|report| count(report, "counts", name)).sum()
}

/// Returns the hosts that do not run this version with this eta yet.
fn late(place: &Place, wanted: u64, eta: &str) -> Vec<String> {
    let reports = place.show();
    assert_eq!(reports.len(), HOSTS);
    let there = |report: &Value| {
        version(report) == wanted && runs(report, "eta") == eta && report["runs"][0].as_u64() == Some(wanted)
    };
    reports.into_iter().filter(|(_, report)| !there(report)).map(|(name, _)| name).collect()
}

/// Sets eta at a host and waits until all but some run it. Returns the time that it took.
fn spread(place: &Place, eta: &str, via: &str, wanted: u64, but: &[&str]) -> Duration {
    let start = Instant::now();
    let done = place.policy(&["set", &format!("eta={eta}"), "--via", via, "--wait", "0us"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    until(TIMEOUT, || match late(place, wanted, eta) {
        late if late == but => Ok(()),
        late => Err(late),
    });
    // How long it holds it, not when we have looked.
    let reports = place.show();
    let looked = start.elapsed();
    let held =
        |report: &Value| Duration::from_nanos(report["policies"][0]["for_ns"].as_u64().expect("a time"));
    let others = reports.iter().filter(|(name, _)| !but.contains(&name.as_str()));
    others.map(|(_, report)| looked.saturating_sub(held(report))).max().expect("hosts")
}

/// Catches a POLICY packet of another host as it comes in, and when it is told to, sends it again, forged, and damaged in
/// several forms, ten times each.
const LIAR: &str = r#"
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
    let place = Place::new("mininet");
    place.write("policy.yaml", EXPERIMENT);
    let mut command = place.weir(&[
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
    until(TIMEOUT, || match run.0.try_wait().expect("a process") {
        None if place.sockets() == HOSTS => Ok(()),
        None => Err(place.sockets()),
        Some(status) => panic!("the run has ended: {status}"),
    });
    until(TIMEOUT, || {
        let flows: u64 = place.show().values().map(|it| it["flows"].as_u64().expect("a count")).sum();
        if flows == 8 { Ok(()) } else { Err(flows) }
    });

    // Set at one, while flows run: all run it soon, and no flow has ended.
    let took = spread(&place, "0.9", "h1", 1, &[]);
    println!("16 hosts run the policy after {took:?}");
    assert!(took < SOON, "{took:?}");
    let reports = place.show();
    assert!(reports.values().all(|it| it["policies"][0]["writer"] == reports["h1"]["addr"]));
    assert_eq!(reports.values().map(|it| it["flows"].as_u64().expect("a count")).sum::<u64>(), 8);

    // One is cut off meanwhile, and catches up by itself.
    let port = switch_port("h16", &place);
    ip(&["-n", &place.namespace, "link", "set", &port, "down"]);
    let took = spread(&place, "0.85", "h7", 2, &["h16"]);
    println!("15 hosts run the next after {took:?}");
    assert!(took < SOON, "{took:?}");
    sleep(Duration::from_secs(2));
    assert_eq!(late(&place, 2, "0.85"), ["h16"]);
    ip(&["-n", &place.namespace, "link", "set", &port, "up"]);
    let took = until(Duration::from_secs(30), || match late(&place, 2, "0.85") {
        late if late.is_empty() => Ok(()),
        late => Err(late),
    });
    println!("h16 has caught up {took:?} after its link was back");

    // One lies: what it sends again, forges and breaks changes nothing, resets nothing, and is counted.
    let mut liar = Command::new("nsenter")
        .args(["-t", &pid("h2", &place), "-n", "/usr/bin/python3", "-c", LIAR])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map(Running)
        .expect("util-linux");
    sleep(Duration::from_millis(500));
    spread(&place, "0.95", "h3", 3, &[]);
    let mut said = BufReader::new(liar.0.stdout.take().expect("a pipe"));
    let mut hear = || {
        let mut line = String::new();
        said.read_line(&mut line).expect("it speaks");
        line.trim().to_owned()
    };
    let author = hear();
    sleep(Duration::from_secs(2));
    let before = place.show();
    liar.0.stdin.as_mut().expect("a pipe").write_all(b"go\n").expect("it listens");
    assert_eq!(hear(), "done");
    sleep(Duration::from_millis(500));
    let after = place.show();
    assert!(late(&place, 3, "0.95").is_empty());
    for (name, now) in after.iter().filter(|(name, now)| *name != "h2" && now["addr"] != author.as_str()) {
        let more = |group, what| count(now, group, what) - count(&before[name], group, what);
        assert_eq!(more("counts", "resets") + more("counts", "newer") + more("counts", "older"), 0, "{name}");
        let [replayed, forged, malformed] =
            ["policy_replayed", "policy_forged", "policy_malformed"].map(|reason| more("drops", reason));
        assert_eq!((replayed, forged + malformed), (1, 4), "{name}: {now}");
        assert!(forged >= 1 && malformed >= 2, "{name}: {now}");
    }

    // Left alone, they hardly say anything.
    sleep(Duration::from_secs(5));
    let (packets, sent) = (carried(&place), total(&place.show(), "sent"));
    sleep(Duration::from_secs(5));
    let (packets, sent) = (carried(&place) - packets, total(&place.show(), "sent") - sent);
    // Each passes every host's link once and every link of the tree: 13 switches joined by 12.
    let policies = sent * 13;
    println!("{policies} of {packets} frames that switches took in within 5 s were POLICY: {sent} packets");
    assert!(packets > 10_000, "traffic: {packets}");
    assert!(policies * 100 < packets, "{policies} of {packets}");

    run.signal("INT");
    let status = run.0.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(place.sockets(), 0, "no socket is left");
    let summary: PathBuf = place.dir.path().join("run/summary.json");
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(summary).expect("a summary")).expect("JSON");
    println!("drops {}", summary["schemes"]["hpcc"]["drops"]);
}
