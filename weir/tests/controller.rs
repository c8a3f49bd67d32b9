//! `weir controller` against real `weir switch` processes on veth pairs: a link is cut under load, switches and the
//! controller are killed and restarted, and another controller changes the routes. Needs root, except for the tests of
//! invalid input.

// Prints measurements.
#![allow(clippy::print_stderr)]

#[path = "controller/faults.rs"]
mod faults;
#[path = "controller/lab.rs"]
mod lab;
#[path = "controller/up.rs"]
mod up;

use lab::{FABRIC, Lab, Lines, output_text, program, signal, weir};
use std::fs;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_testkit::harness;

fn main() -> ExitCode {
    let without_root = harness::run(UNPRIVILEGED_TESTS, None);
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let with_root = harness::run(ROOT_TESTS, (!is_root).then(|| "needs root".to_owned()));
    if without_root == ExitCode::SUCCESS { with_root } else { without_root }
}

const UNPRIVILEGED_TESTS: &[harness::Test] = &[
    ("plan_and_verify_need_no_switch", plan_and_verify_need_no_switch),
    ("unconnected_networks_need_entries_of_their_own", unconnected_networks_need_entries_of_their_own),
    ("invalid_input_is_rejected_with_status_2", invalid_input_is_rejected_with_status_2),
];
const ROOT_TESTS: &[harness::Test] = &[
    ("traffic_survives_links_switches_and_controllers", traffic_survives_links_switches_and_controllers),
    ("a_fabric_in_one_process_is_filled_and_repaired", a_fabric_in_one_process_is_filled_and_repaired),
    (
        "a_fabric_comes_up_without_mininet_and_leaves_nothing",
        up::a_fabric_comes_up_without_mininet_and_leaves_nothing,
    ),
    ("a_fabric_leaves_namespaces_of_others_alone", up::a_fabric_leaves_namespaces_of_others_alone),
    (
        "a_namespace_that_is_busy_is_removed_by_the_next_attempt",
        up::a_namespace_that_is_busy_is_removed_by_the_next_attempt,
    ),
    ("two_fabrics_do_not_share_a_namespace", up::two_fabrics_do_not_share_a_namespace),
    ("a_second_fabric_does_not_write_into_the_first", up::a_second_fabric_does_not_write_into_the_first),
    ("switches_that_were_killed_are_reported", up::switches_that_were_killed_are_reported),
    ("a_malformed_state_is_removed_and_reported", up::a_malformed_state_is_removed_and_reported),
    (
        "no_packet_is_lost_to_faults_of_the_control_plane",
        faults::no_packet_is_lost_to_faults_of_the_control_plane,
    ),
    ("no_packet_is_lost_on_a_fat_tree", faults::no_packet_is_lost_on_a_fat_tree),
];

/// Four switches in one process, each with its own servers: the controller installs the plan, hosts ping each other,
/// and when a link within the process goes down, `watch` reroutes.
fn a_fabric_in_one_process_is_filled_and_repaired() {
    const SECOND: Duration = Duration::from_secs(1);
    let mut lab = Lab::in_one_process(FABRIC, &["--stats"]);
    let begin = Instant::now();
    let watch = lab.watch();
    let (started, _) = watch.expect(begin, "started: ", 20 * SECOND);
    assert!(started.contains("on 4 switches") && started.contains("all links up"), "{started}");
    let ping = lab.ping();
    let (answer, _) = ping.expect(begin, "bytes from", 20 * SECOND);
    assert!(answer.contains("ttl=61"), "three switches on the path: {answer}");
    for port in ["s1:2", "s1:3"] {
        let cut = Instant::now();
        let down = lab.thrift(&["link", "down", port]);
        assert!(
            output_text(&down).contains(&format!("{port} - ")) && down.status.success(),
            "{}",
            output_text(&down)
        );
        watch.expect(cut, "rerouted: ", 5 * SECOND);
        let rerouted = Instant::now();
        ping.expect(rerouted, "bytes from", 5 * SECOND);
        let restored = Instant::now();
        assert!(lab.thrift(&["link", "up", port]).status.success());
        watch.expect(restored, "all links up", 10 * SECOND);
    }
    assert!(output_text(&lab.thrift(&["link", "down", "s1:9"])).contains("unknown port s1:9"));
    drop((watch, ping));

    let mut switches = lab.switches.pop().expect("one process");
    signal(&switches, "-TERM");
    assert!(switches.wait().expect("the process exits").success());
    let log = lab.log("fabric");
    assert_eq!(log.matches("Thrift server listening on 127.0.0.1:90").count(), 4, "{log}");
    assert!(log.contains("s4: Server listening on 127.0.0.1:50054"), "{log}");
    let counts = log.split_once("\ns3\n").expect("the counts of s3").1;
    assert!(counts.contains("s3-eth1") && counts.contains("s3-eth2"), "its links: {counts}");
}

fn plan_and_verify_need_no_switch() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("fabric.yaml");
    fs::write(&file, FABRIC).expect("written");
    let (file, program) = (file.to_str().expect("text"), program());
    let program = program.to_str().expect("text");
    let proof = weir(&["verify", "-t", file]);
    assert!(
        proof.status.success() && output_text(&proof).contains("proved: 2 ordered pairs"),
        "{}",
        output_text(&proof)
    );
    let plan = weir(&["plan", "-t", file, "-p", program, "--only", "s3"]);
    assert!(
        output_text(&plan).contains("  forward[dst_addr=10.0.1.0/24] -> via(port=1)\n"),
        "{}",
        output_text(&plan)
    );
    let out = dir.path().join("runtime");
    let written = weir(&[
        "plan",
        "-t",
        file,
        "-p",
        program,
        "--format",
        "runtime-json",
        "--out",
        out.to_str().expect("text"),
    ]);
    assert!(written.status.success(), "{}", output_text(&written));
    let json = fs::read_to_string(out.join("s3-runtime.json")).expect("the file is written");
    assert!(json.contains(r#""dst_addr": ["#) && json.contains("10.0.1.0"), "{json}");
}

fn assert_rejected(arguments: &[&str], reason: &str) {
    let output = weir(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", output_text(&output));
    assert!(output_text(&output).contains(reason), "{arguments:?}: {}", output_text(&output));
}

/// Two networks in one file of the p4 tutorials, which is valid if the file has the switches' entries: no routes are
/// computed between them.
fn unconnected_networks_need_entries_of_their_own() {
    const ISLANDS: &str = r#"{"hosts": {
        "h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11"}, "h2": {"ip": "10.0.1.2/24", "mac": "08:00:00:00:02:22"},
        "h3": {"ip": "10.0.3.3/24", "mac": "08:00:00:00:03:33"}, "h4": {"ip": "10.0.3.4/24", "mac": "08:00:00:00:04:44"}},
      "switches": {"s1": {"runtime_json": "s-runtime.json"}, "s2": {"runtime_json": "s-runtime.json"}},
      "links": [["h1", "s1-p1"], ["h2", "s1-p2"], ["h3", "s2-p1"], ["h4", "s2-p2"]]}"#;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let topology = write("topology.json", ISLANDS);
    write("s-runtime.json", r#"{"target": "bmv2", "table_entries": []}"#);
    let proof = weir(&["verify", "-t", &topology]);
    assert!(proof.status.success(), "{}", output_text(&proof));
    assert!(output_text(&proof).contains("proved: 4 ordered pairs of hosts"), "{}", output_text(&proof));
    // An experiment file that refers to the topology is read in the same way.
    let fabric = write("fabric.yaml", "{kind: file, path: topology.json}\n");
    let proof = weir(&["verify", "-t", &fabric]);
    assert!(output_text(&proof).contains("proved: 4 ordered pairs of hosts"), "{}", output_text(&proof));
    let without = write("without.json", &ISLANDS.replace(r#"{"runtime_json": "s-runtime.json"}"#, "{}"));
    assert_rejected(&["verify", "-t", &without], "topology: no path between \"h1\" and \"h3\"");
}

fn invalid_input_is_rejected_with_status_2() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let good = write("good.yaml", FABRIC);
    assert_rejected(&["verify", "-t", "/nowhere.yaml"], "/nowhere.yaml");
    assert_rejected(&["verify", "-t", &write("no.yaml", "a: 1\n")], "missing `topology` or `kind`");
    assert_rejected(
        &["verify", "-t", &write("p4app.json", r#"{"program": "", "targets": {}}"#)],
        "p4lang/p4app",
    );
    assert_rejected(&["plan", "-t", &good], "--program is required");
    assert_rejected(&["plan", "-t", &good, "-p", "/nowhere.json"], "/nowhere.json: No such file");
    assert_rejected(&["plan", "-t", &good, "-p", &write("alone.json", "{}")], "--p4info");
    let program = program();
    let program = program.to_str().expect("text");
    assert_rejected(&["apply", "-t", &good, "-p", program, "--switch", "s9=127.0.0.1:1"], "unknown switch");
    assert_rejected(&["apply", "-t", &good, "-p", program, "--switch", "s1"], "NAME=HOST:PORT");
    assert_rejected(&["watch", "-t", &good, "-p", program, "--probe-interval", "0s"], "--probe-interval");
    let unreachable =
        weir(&["apply", "-t", &good, "-p", program, "--grpc-base-port", "1", "--timeout", "1s"]);
    assert_eq!(unreachable.status.code(), Some(1));
    assert!(
        output_text(&unreachable).contains("no P4Runtime server at 127.0.0.1:1"),
        "{}",
        output_text(&unreachable)
    );
}

/// Returns the longest time between two replies after `since`.
fn longest_silence(ping: &Lines, since: Instant) -> Duration {
    let answers: Vec<Instant> =
        ping.all().iter().filter(|(_, line)| line.contains("bytes from")).map(|(at, _)| *at).collect();
    let mut times: Vec<Instant> = answers.into_iter().filter(|at| *at >= since).collect();
    times.insert(0, since);
    times.push(Instant::now());
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

fn traffic_survives_links_switches_and_controllers() {
    const SECOND: Duration = Duration::from_secs(1);
    let mut lab = Lab::new();
    let begin = Instant::now();
    let watch = lab.watch();
    let (started, _) = watch.expect(begin, "started: ", 10 * SECOND);
    assert!(started.contains("all links up"), "{started}");
    let ping = lab.ping();
    ping.expect(begin, "bytes from", 12 * SECOND);

    // Operations that P4Runtime lacks use Thrift.
    let rates = lab.thrift(&["rates", "--depth", "200"]);
    assert!(output_text(&rates).contains("s4:2  10Mbps        823"), "{}", output_text(&rates));
    let register = lab.thrift(&["registers", "tx_bytes"]);
    let sent = |port: &str| {
        let text = output_text(&register);
        let line =
            text.lines().find(|line| line.trim().starts_with(port)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().nth(1).and_then(|cell| cell.parse::<u64>().ok()).expect("a number")
    };
    assert!(sent("s1:1") > 0 && sent("s2:1") > 0, "{}", output_text(&register));
    assert!(output_text(&lab.thrift(&["registers", "nonsense"])).contains("s1: Thrift at 127.0.0.1:9090"));

    // One of the two links is on the path of the pings.
    for link in ["s1-eth2", "s1-eth3"] {
        let cut = Instant::now();
        lab.ip("s", &format!("link set {link} down"));
        watch.expect(cut, "rerouted: ", 2 * SECOND);
        sleep(SECOND / 2);
        let silence = longest_silence(&ping, cut);
        assert!(silence < SECOND, "{link} cut: {silence:?} without traffic");
        eprintln!("{link} cut: {} ms without traffic", silence.as_millis());
        let restored = Instant::now();
        lab.ip("s", &format!("link set {link} up"));
        watch.expect(restored, "all links up", 3 * SECOND);
    }

    // A spine is killed and restarted.
    for index in [2, 3] {
        let killed = Instant::now();
        lab.switches[index].kill().expect("the switch runs");
        lab.switches[index].wait().expect("the process exits");
        watch.expect(killed, "2 links down", 2 * SECOND);
        sleep(SECOND / 2);
        let silence = longest_silence(&ping, killed);
        assert!(silence < SECOND, "s{} killed: {silence:?} without traffic", index + 1);
        let restarted = Instant::now();
        lab.switches[index] = lab.start(index);
        let (_, refilled) = watch.expect(restarted, "refilled: ", 2 * SECOND);
        watch.expect(restarted, "all links up", 4 * SECOND);
        eprintln!(
            "s{}: {} ms without traffic, refilled after {} ms",
            index + 1,
            silence.as_millis(),
            refilled.as_millis()
        );
    }
    let diff = lab.controller(&["diff"]).output().expect("weir runs");
    assert!(diff.status.success(), "the entries are as planned: {}", output_text(&diff));

    // The controller is killed and restarted: it has nothing to write.
    signal(&watch.child, "-KILL");
    drop(watch);
    let again = Instant::now();
    let mut watch = lab.watch();
    let (line, _) = watch.expect(again, "started: ", 10 * SECOND);
    assert!(line.contains("started: 0 inserted, 0 modified, 0 deleted"), "{line}");

    // Another controller changes the routes; when it has exited, they are repaired.
    let changed = Instant::now();
    let other =
        lab.controller(&["apply", "--routing", "trees", "--election-id", "9"]).output().expect("weir runs");
    assert!(other.status.success(), "{}", output_text(&other));
    watch.expect(changed, "standing by", 2 * SECOND);
    watch.expect(changed, "refilled: ", 4 * SECOND);
    let mut diff = lab.controller(&["diff"]).output().expect("weir runs");
    let deadline = Instant::now() + 3 * SECOND;
    while !diff.status.success() && Instant::now() < deadline {
        diff = lab.controller(&["diff"]).output().expect("weir runs");
    }
    assert!(diff.status.success(), "repaired: {}", output_text(&diff));

    signal(&watch.child, "-INT");
    assert!(watch.child.wait().expect("the process exits").success(), "Ctrl-C exits with success");
}
