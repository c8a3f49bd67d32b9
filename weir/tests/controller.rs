//! `weir controller` against real `weir switch` processes on veth pairs: a link is cut under load, a switch and the
//! controller are killed and restarted, another controller meddles. Needs root; the refusals do not.

// What was measured is worth seeing.
#![allow(clippy::print_stderr)]

#[path = "controller/faults.rs"]
mod faults;
#[path = "controller/lab.rs"]
mod lab;
#[path = "controller/up.rs"]
mod up;

use lab::{FABRIC, Lab, Lines, program, said, signal, weir};
use std::fs;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_testkit::harness;

fn main() -> ExitCode {
    let without_root = harness::run(REFUSALS, None);
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|done| done.stdout == b"0\n");
    let with_root = harness::run(RUNS, (!is_root).then(|| "needs root".to_owned()));
    if without_root == ExitCode::SUCCESS { with_root } else { without_root }
}

const REFUSALS: &[harness::Test] = &[
    ("plan_and_verify_need_no_switch", plan_and_verify_need_no_switch),
    ("bad_input_is_refused_with_status_2", bad_input_is_refused_with_status_2),
];
const RUNS: &[harness::Test] = &[
    ("traffic_survives_links_switches_and_controllers", traffic_survives_links_switches_and_controllers),
    ("a_fabric_in_one_process_is_filled_and_repaired", a_fabric_in_one_process_is_filled_and_repaired),
    (
        "a_fabric_comes_up_without_mininet_and_leaves_nothing",
        up::a_fabric_comes_up_without_mininet_and_leaves_nothing,
    ),
    ("a_fabric_leaves_namespaces_of_others_alone", up::a_fabric_leaves_namespaces_of_others_alone),
    ("two_fabrics_do_not_share_a_namespace", up::two_fabrics_do_not_share_a_namespace),
    ("a_second_fabric_does_not_write_into_the_first", up::a_second_fabric_does_not_write_into_the_first),
    ("a_damaged_state_is_removed_and_told", up::a_damaged_state_is_removed_and_told),
    (
        "no_packet_is_lost_to_faults_of_the_control_plane",
        faults::no_packet_is_lost_to_faults_of_the_control_plane,
    ),
    ("no_packet_is_lost_on_a_fat_tree", faults::no_packet_is_lost_on_a_fat_tree),
];

/// Four switches in one process, each with its own servers: the controller fills them, hosts ping each other, and when a
/// link within the process is pulled, `watch` finds the other path.
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
        assert!(said(&down).contains(&format!("{port} - ")) && down.status.success(), "{}", said(&down));
        watch.expect(cut, "rerouted: ", 5 * SECOND);
        let rerouted = Instant::now();
        ping.expect(rerouted, "bytes from", 5 * SECOND);
        let mended = Instant::now();
        assert!(lab.thrift(&["link", "up", port]).status.success());
        watch.expect(mended, "all links up", 10 * SECOND);
    }
    assert!(said(&lab.thrift(&["link", "down", "s1:9"])).contains("unknown port s1:9"));
    drop((watch, ping));

    let mut switches = lab.switches.pop().expect("one process");
    signal(&switches, "-TERM");
    assert!(switches.wait().expect("it ends").success());
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
    assert!(proof.status.success() && said(&proof).contains("proved: 2 ordered pairs"), "{}", said(&proof));
    let plan = weir(&["plan", "-t", file, "-p", program, "--only", "s3"]);
    assert!(said(&plan).contains("  forward[dst_addr=10.0.1.0/24] -> via(port=1)\n"), "{}", said(&plan));
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
    assert!(written.status.success(), "{}", said(&written));
    let json = fs::read_to_string(out.join("s3-runtime.json")).expect("it was written");
    assert!(json.contains(r#""dst_addr": ["#) && json.contains("10.0.1.0"), "{json}");
}

fn bad_input_is_refused_with_status_2() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("written");
        path.to_str().expect("text").to_owned()
    };
    let good = write("good.yaml", FABRIC);
    let refused = |arguments: &[&str], says: &str| {
        let done = weir(arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {}", said(&done));
        assert!(said(&done).contains(says), "{arguments:?}: {}", said(&done));
    };
    refused(&["verify", "-t", "/nowhere.yaml"], "/nowhere.yaml");
    refused(&["verify", "-t", &write("no.yaml", "a: 1\n")], "missing `topology` or `kind`");
    refused(&["verify", "-t", &write("p4app.json", r#"{"program": "", "targets": {}}"#)], "p4lang/p4app");
    refused(&["plan", "-t", &good], "--program is required");
    refused(&["plan", "-t", &good, "-p", "/nowhere.json"], "/nowhere.json: No such file");
    refused(&["plan", "-t", &good, "-p", &write("alone.json", "{}")], "--p4info");
    let program = program();
    let program = program.to_str().expect("text");
    refused(&["apply", "-t", &good, "-p", program, "--switch", "s9=127.0.0.1:1"], "unknown switch");
    refused(&["apply", "-t", &good, "-p", program, "--switch", "s1"], "NAME=HOST:PORT");
    refused(&["watch", "-t", &good, "-p", program, "--probe-interval", "0s"], "--probe-interval");
    let silent = weir(&["apply", "-t", &good, "-p", program, "--grpc-base-port", "1", "--timeout", "1s"]);
    assert_eq!(silent.status.code(), Some(1));
    assert!(said(&silent).contains("no P4Runtime server at 127.0.0.1:1"), "{}", said(&silent));
}

/// The longest time between two answers after `since`.
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

    // What P4Runtime has no words for goes by Thrift.
    let rates = lab.thrift(&["rates", "--depth", "200"]);
    assert!(said(&rates).contains("s4:2  10Mbps        823"), "{}", said(&rates));
    let register = lab.thrift(&["registers", "tx_bytes"]);
    let sent = |port: &str| {
        let text = said(&register);
        let line =
            text.lines().find(|line| line.trim().starts_with(port)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().nth(1).and_then(|cell| cell.parse::<u64>().ok()).expect("a number")
    };
    assert!(sent("s1:1") > 0 && sent("s2:1") > 0, "{}", said(&register));
    assert!(said(&lab.thrift(&["registers", "nonsense"])).contains("s1: Thrift at 127.0.0.1:9090"));

    // One of the two is on the path of these packets.
    for link in ["s1-eth2", "s1-eth3"] {
        let cut = Instant::now();
        lab.ip("s", &format!("link set {link} down"));
        watch.expect(cut, "rerouted: ", 2 * SECOND);
        sleep(SECOND / 2);
        let silence = longest_silence(&ping, cut);
        assert!(silence < SECOND, "{link} cut: {silence:?} without traffic");
        eprintln!("{link} cut: {} ms without traffic", silence.as_millis());
        let mended = Instant::now();
        lab.ip("s", &format!("link set {link} up"));
        watch.expect(mended, "all links up", 3 * SECOND);
    }

    // A spine dies and returns.
    for index in [2, 3] {
        let killed = Instant::now();
        lab.switches[index].kill().expect("it runs");
        lab.switches[index].wait().expect("it ends");
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
    assert!(diff.status.success(), "all is as before: {}", said(&diff));

    // The controller dies and returns: it has nothing to write.
    signal(&watch.child, "-KILL");
    drop(watch);
    let again = Instant::now();
    let mut watch = lab.watch();
    let (line, _) = watch.expect(again, "started: ", 10 * SECOND);
    assert!(line.contains("started: 0 inserted, 0 modified, 0 deleted"), "{line}");

    // Another hand changes the routes; when it is gone, they are put right.
    let meddled = Instant::now();
    let other =
        lab.controller(&["apply", "--routing", "trees", "--election-id", "9"]).output().expect("weir runs");
    assert!(other.status.success(), "{}", said(&other));
    watch.expect(meddled, "standing by", 2 * SECOND);
    watch.expect(meddled, "refilled: ", 4 * SECOND);
    let mut diff = lab.controller(&["diff"]).output().expect("weir runs");
    let patience = Instant::now() + 3 * SECOND;
    while !diff.status.success() && Instant::now() < patience {
        diff = lab.controller(&["diff"]).output().expect("weir runs");
    }
    assert!(diff.status.success(), "repaired: {}", said(&diff));

    signal(&watch.child, "-INT");
    assert!(watch.child.wait().expect("it ends").success(), "Ctrl-C ends it cleanly");
}
