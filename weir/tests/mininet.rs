//! `weir run --backend mininet` on the embedded switch: results on real interfaces agree with virtual time, and no process
//! or interface remains after any kind of end. Needs root and Debian's mininet.
//!
//! Each test runs in its own network namespace, isolated from this machine's interfaces.

// Prints measurements.
#![allow(clippy::print_stderr)]

mod netns;

use netns::{TestNetns, assert_paths, number, python_of, signal, text, work_dirs};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_testkit::harness;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// Marks processes and interfaces of a fabric (`mininet/weir_mininet/ownership.py`).
const MARK: &str = "WEIR_FABRIC=";
/// Time limit of a start or an end, ample for a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let without_root = harness::run(UNPRIVILEGED_TESTS, None);
    let with_root = harness::run(ROOT_TESTS, missing());
    if without_root == ExitCode::SUCCESS { with_root } else { without_root }
}

/// Returns the missing requirement of the runs, if there is one.
fn missing() -> Option<String> {
    let run = |program: &str, arguments: &[&str]| Command::new(program).args(arguments).output().ok();
    if run("id", &["-u"]).is_none_or(|output| output.stdout != b"0\n") {
        return Some("needs root".to_owned());
    }
    let mininet =
        run("/usr/bin/python3", &["-c", "import mininet.net"]).is_some_and(|output| output.status.success());
    (!mininet).then(|| "needs Debian's mininet".to_owned())
}

const UNPRIVILEGED_TESTS: &[harness::Test] =
    &[("mininet_options_are_rejected_in_virtual_time", mininet_options_are_rejected_in_virtual_time)];

const ROOT_TESTS: &[harness::Test] = &[
    ("the_quickstart_does_what_it_does_in_virtual_time", the_quickstart_does_what_it_does_in_virtual_time),
    ("base_rtt_is_measured_by_pings_alone", base_rtt_is_measured_by_pings_alone),
    (
        "a_fat_tree_carries_a_permutation_on_symmetric_paths",
        a_fat_tree_carries_a_permutation_on_symmetric_paths,
    ),
    ("every_scheme_carries_its_messages", every_scheme_carries_its_messages),
    ("an_interrupt_keeps_results_and_leaves_nothing", an_interrupt_keeps_results_and_leaves_nothing),
    ("whichever_side_is_killed_nothing_stays", whichever_side_is_killed_nothing_stays),
    ("a_failed_step_is_named_and_leaves_nothing", a_failed_step_is_named_and_leaves_nothing),
    ("links_fail_and_change_while_traffic_flows", links_fail_and_change_while_traffic_flows),
    (
        "a_link_emulator_answers_what_it_can_and_leaves_nothing",
        a_link_emulator_answers_what_it_can_and_leaves_nothing,
    ),
    ("a_network_of_the_tutorials_is_as_its_file_says", a_network_of_the_tutorials_is_as_its_file_says),
];

/// The quickstart at the lowest rate: a full frame takes 12 ms, much longer than scheduling delays of processes with
/// real-time priority. The second flow joins early, so that a run takes 11 s. PFC is off in both backends.
const SCALE_MODEL: [&str; 12] = [
    "--rate",
    "1Mbps",
    "--set",
    "flows=[{from: h1, to: h3}, {from: h2, to: h3, start: 50us}]",
    "--set",
    "duration=110us",
    "--set",
    "observe.fairness_window=40us",
    "--set",
    "pfc=off",
    "--set",
    "schemes=[fncc, hpcc, dcqcn, dart]",
];

/// Runs the schemes in parallel, each on its own fabric: they are idle most of the time. BMv2 needs more CPU time, so
/// only two of its fabrics run at a time.
fn the_quickstart_does_what_it_does_in_virtual_time() {
    let switches = if has_bmv2() { &["weir", "bmv2"][..] } else { &["weir"] };
    let virtual_time = TestNetns::new("virtual");
    let output = virtual_time.run("quickstart", "sim", &SCALE_MODEL);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let summary = virtual_time.json("summary.json");
    let expected = &summary["schemes"];
    let expected = |scheme| (scheme, &expected[scheme]);
    for switch in switches {
        let schemes = ["fncc", "hpcc", "dcqcn", "dart"];
        for together in schemes.chunks(if *switch == "weir" { 4 } else { 2 }) {
            std::thread::scope(|scope| {
                for (scheme, expected) in together.iter().copied().map(expected) {
                    scope.spawn(move || compare_with_virtual_time(switch, scheme, expected));
                }
            });
        }
    }
}

fn has_bmv2() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join("simple_switch_grpc").is_file())
}

/// Margins are wider than an idle machine needs (docs/sim-vs-testbed.md).
fn compare_with_virtual_time(switch: &str, scheme: &str, expected: &Value) {
    let netns = TestNetns::new(&format!("{switch}-{scheme}"));
    let pcap = ["--schemes", scheme, "--pcap=captures", "--switch", switch];
    let output = netns.run("quickstart", "mininet", &[&SCALE_MODEL[..], &pcap].concat());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    netns.wait_until_nothing_is_left();
    assert_tutorial_shows_header(&text(&output.stdout));
    let (summary, fabric) = (netns.json("summary.json"), netns.json("fabric.json"));
    assert_eq!(summary["backend"], "mininet");
    assert!(summary.get("partial").is_none(), "{summary}");
    assert_eq!(fabric["switch_processes"], if switch == "weir" { 1 } else { 3 });
    match scheme {
        // Dart's ACKs do not echo the path of data.
        "dart" => assert_eq!(fabric["schemes"][scheme]["pairs"], 6),
        _ => assert_paths(&fabric, scheme, 6, 2),
    }
    let it = &summary["schemes"][scheme];
    // The queue builds up in the switch where the two flows meet, and is as long as in virtual time; no packet is lost.
    for (key, margin) in [("peak_bytes", 0.3), ("mean_bytes", 0.5)] {
        let [expected, measured] = [expected, it].map(|it| number(&it["queues"]["s1:3"][key]));
        assert!(
            (measured / expected - 1.0).abs() < margin,
            "{scheme}, {key}: {measured}, in virtual time {expected}"
        );
    }
    let [busy, measured] = [expected, it].map(|it| number(&it["utilisation"]["s1:3"]));
    assert!((measured - busy).abs() < 0.15, "{scheme}: {measured} of the link used, in virtual time {busy}");
    assert!(number(&it["jain"]) > number(&expected["jain"]) - 0.1, "{scheme}: {it}");
    assert_eq!(it["drops"], serde_json::json!({}), "{scheme}");
    let capture = netns.dir.path().join("captures").join(scheme).join("s1-eth1_in.pcap");
    assert!(fs::metadata(&capture).is_ok_and(|it| it.len() > 100_000), "{}", capture.display());
    for file in ["flows.csv", "queues.csv", "rates.csv", "report.html", "run.yaml", "queue-s1-3.svg"] {
        assert!(netns.dir.path().join("run").join(file).is_file(), "{file}");
    }
}

/// The tutorial shows the table's columns and units as they are printed, but for their widths.
fn assert_tutorial_shows_header(printed: &str) {
    let page = fs::read_to_string(format!("{ROOT}/docs/tutorials/bmv2.md")).expect("a page");
    let header = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with(" scheme ")).take(3);
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(header(printed).len(), 3, "{printed}");
    assert_eq!(header(&page), header(printed), "docs/tutorials/bmv2.md");
}

/// T of a leaf-spine at 1 Mbit/s is the model's: pings that wait for each other would make it 7 to 10 % longer. The
/// threshold of PFC is above the buffer, which means that no switch pauses.
fn base_rtt_is_measured_by_pings_alone() {
    const LEAF_SPINE: &str = "\
name: ls4
topology: {kind: leaf-spine, leaves: 3, spines: 2, hosts_per_leaf: 2, rate: 100Gbps, delay: 1us}
mtu: 1518B
pfc: {threshold: 100MB}
schemes: [hpcc]
flows:
  - {from: h1, to: h5, port: 50001}
  - {from: h4, to: h6, port: 50004}
duration: 40us
observe: {interval: 1us}
";
    let netns = TestNetns::new("base-rtt");
    fs::write(netns.dir.path().join("ls4.yaml"), LEAF_SPINE).expect("written");
    let arguments =
        ["run", "ls4.yaml", "--on", "mininet", "--switch", "weir", "--rate", "1Mbps", "--out", "run"];
    let output = netns.weir(&arguments).output().expect("the process exits");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    netns.wait_until_nothing_is_left();
    let fabric = netns.json("fabric.json");
    let facts = &fabric["schemes"]["hpcc"];
    assert_eq!(facts["pairs"], 30);
    let [base_rtt, model, pings] =
        ["base_rtt_us", "model_rtt_us", "ping_rtt_us"].map(|key| number(&facts[key]));
    let excess = base_rtt / model - 1.0;
    eprintln!(
        "T is {:.2} % above the model's {:.1} ms; the longest ping of all at once took {:.1} ms",
        excess * 100.0,
        model / 1e3,
        pings / 1e3
    );
    assert!((0.0..0.02).contains(&excess), "T is {base_rtt} us, the model's {model} us");
    assert_eq!(netns.json("summary.json")["schemes"]["hpcc"]["pauses"], 0);
}

/// Faults of the experiment happen at their times, and links can also be changed manually, both with one process for
/// all switches and with one process per switch.
fn links_fail_and_change_while_traffic_flows() {
    std::thread::scope(|scope| {
        scope.spawn(|| fail_and_change("links-one", &[], 1));
        scope.spawn(|| fail_and_change("links-each", &["--process-per-switch"], 3));
    });
}

fn fail_and_change(name: &str, form: &[&str], processes: usize) {
    let netns = TestNetns::new(name);
    // The scale factor is 10,000: the link is down from 0.5 to 1 s, the timeout of 16 round trips is about 2 s, and the
    // run takes 4 s.
    let faults = "faults=[{kind: down, links: [s1-s2], from: 50us, to: 100us}]";
    let arguments =
        ["--schemes", "hpcc", "--rate", "10Mbps", "--set", "duration=400us", "--set", faults, "--pcap=p"];
    let run = netns.start("quickstart", &[&arguments[..], form].concat());
    netns.wait_for("host run");
    let running = netns.leftovers();
    assert_eq!(running.iter().filter(|line| line.contains(" switch ")).count(), processes, "{running:#?}");
    // If one process runs all switches, only ports to hosts are interfaces.
    let interfaces = if processes == 1 { 3 } else { 17 };
    assert_eq!(
        running.iter().filter(|line| line.contains("alias weir-fabric")).count(),
        interfaces,
        "{running:#?}"
    );
    let link = |arguments: &[&str]| {
        let output = netns.weir(&[&["link"], arguments].concat()).output().expect("the process exits");
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let shown = link(&["show", "--json"]);
    let names: Vec<&str> =
        shown["links"].as_array().expect("a list").iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["h1-s1", "h2-s1", "h3-s3", "s1-s2", "s2-s3"]);
    let changed = link(&["set", "s3-s2", "--duplicate", "100%", "--json"]);
    assert_eq!(changed["links"].as_array().expect("a list").len(), 1, "{changed}");
    assert_eq!(changed["links"][0]["duplicate"], 1.0);
    assert!(number(&changed["links"][0]["directions"][0]["offered"]) > 0.0, "{changed}");
    let output = run.wait_with_output().expect("the process exits");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    netns.wait_until_nothing_is_left();
    assert_eq!(netns.json("fabric.json")["switch_processes"], processes);
    let summary = netns.json("summary.json");
    assert!(number(&summary["packet_hops"]) > 500.0, "{summary}");
    let it = &summary["schemes"]["hpcc"];
    assert!(number(&it["utilisation"]["s1:3"]) > 0.15, "{it}");
    // Ports between switches have captures, too. A frame that the link duplicates appears twice at the next switch.
    let captured =
        |file: &str| fs::metadata(netns.dir.path().join("p/hpcc").join(file)).map_or(0, |it| it.len());
    let (sent, received) = (captured("s2-eth2_out.pcap"), captured("s3-eth2_in.pcap"));
    assert!(sent > 100_000 && received > sent * 3 / 2, "{sent} and {received} bytes");
    let lost = number(&it["drops"]["link_down"]);
    assert!(lost > 20.0, "a window of frames was in flight on a link that went down: {it}");
    assert!(number(&it["retransmits"]) > 20.0, "and was sent again: {it}");
}

/// A link emulator without an experiment: invalid input, malformed requests, and its end.
fn a_link_emulator_answers_what_it_can_and_leaves_nothing() {
    let netns = TestNetns::new("emulator");
    for (a, b) in [("v0", "v1"), ("w0", "w1")] {
        let pair = ["-n", &netns.namespace, "link", "add", a, "type", "veth", "peer", "name", b];
        assert!(Command::new("ip").args(pair).status().expect("iproute2").success());
    }
    let stderr_of_rejected = |arguments: &[&str]| {
        let output = netns.weir(&[&["link"], arguments].concat()).output().expect("the process exits");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(stderr_of_rejected(&["show"]).contains("no link emulator is called fabric"));
    assert!(stderr_of_rejected(&["run"]).contains("at least one link is required"));
    assert!(stderr_of_rejected(&["run", "l=v1,w1,delay=5"]).contains("l: delay:"));
    assert!(stderr_of_rejected(&["run", "l=v1,w1", "m=v1,v0"]).contains("interface v1 is used by two links"));
    assert!(stderr_of_rejected(&["run", "l=v1,nothing"]).contains("interface nothing"));
    fs::write(netns.dir.path().join("links.txt"), "# two\nl=v1,w1\nm=x\n").expect("written");
    assert!(
        stderr_of_rejected(&["run", "--file", "links.txt"]).contains("links.txt:3: \"m=x\": expected NAME=")
    );

    let mut run = netns.weir(&["link", "run", "l=v1,w1,delay=1ms"]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weir starts");
    let end = Instant::now() + TIMEOUT;
    while !netns.weir(&["link", "show"]).output().expect("the process exits").status.success() {
        assert!(Instant::now() < end, "the emulator does not respond");
        sleep(Duration::from_millis(20));
    }
    assert!(stderr_of_rejected(&["run", "l=v0,w0"]).contains("in use by another process"));
    assert!(stderr_of_rejected(&["set", "m", "--down"]).contains("unknown link m; links are l"));
    assert!(stderr_of_rejected(&["set", "l"]).contains("nothing to change"));
    assert!(stderr_of_rejected(&["set", "l", "--loss", "2"]).contains("--loss: 2 exceeds 100%"));
    // Malformed requests: each gets an error or its connection is closed, and the next one is served.
    let damaged = r#"
import socket
for bytes in [b"", b"{", b"\xff\n", b"[" * 100000 + b"\n", b'{"do":"set","links":["l"],"change":"delay"}\n', b"x" * (1 << 20)]:
    s = socket.socket(socket.AF_UNIX)
    s.connect("\0weir-link/fabric")
    try:
        s.sendall(bytes)
        s.shutdown(socket.SHUT_WR)
        print(s.recv(100000).decode()[:9])
    except OSError:
        print("closed")
"#;
    let response =
        Command::new("ip").args(["netns", "exec", &netns.namespace, "python3", "-c", damaged]).output();
    let response = response.expect("python3");
    let answers = text(&response.stdout);
    assert_eq!(answers.lines().count(), 6, "{answers}{}", text(&response.stderr));
    assert!(answers.lines().take(5).all(|line| line == "{\"error\":"), "{answers}");
    let shown =
        netns.weir(&["link", "set", "l", "--loss", "1%", "--json"]).output().expect("the process exits");
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!((&shown["links"][0]["loss"], &shown["links"][0]["delay_us"]), (&0.01.into(), &1000.0.into()));
    // `ip netns exec` replaces itself by weir, so this is weir's pid.
    signal(run.id(), "INT");
    let status = run.wait().expect("the process exits");
    assert!(status.success(), "{status}");
    assert!(stderr_of_rejected(&["show"]).contains("no link emulator is called fabric"));
}

fn a_fat_tree_carries_a_permutation_on_symmetric_paths() {
    std::thread::scope(|scope| {
        for scheme in ["fncc", "hpcc"] {
            scope.spawn(move || carry_a_permutation(scheme));
        }
    });
}

fn carry_a_permutation(scheme: &str) {
    let netns = TestNetns::new(&format!("fat-tree-{scheme}"));
    let arguments = ["--switch", "weir", "--rate", "10Mbps", "--schemes", scheme];
    let output = netns.run("fat-tree-k4", "mininet", &arguments);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    netns.wait_until_nothing_is_left();
    let (summary, fabric) = (netns.json("summary.json"), netns.json("fabric.json"));
    assert_paths(&fabric, scheme, 240, 16);
    let it = &summary["schemes"][scheme];
    assert_eq!((&it["fct"]["count"], &it["fct"]["unfinished"]), (&16.into(), &0.into()), "{scheme}");
    assert_eq!(it["drops"], serde_json::json!({}), "{scheme}");
}

/// Number of concurrent fabrics in `every_scheme_carries_its_messages`, each in its own network namespace. They are
/// idle most of the time.
const FABRICS: usize = 6;

/// Every scheme transfers two messages over raw sockets and through its P4 program.
fn every_scheme_carries_its_messages() {
    let listed = text(&Command::new(WEIR).arg("schemes").output().expect("the process exits").stdout);
    let schemes: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let file = fs::read_to_string(format!("{ROOT}/experiments/every-scheme.yaml")).expect("an experiment");
    let all = format!("schemes: [{}]", schemes.join(", "));
    assert!(file.contains(&all), "experiments/every-scheme.yaml is to have {all}");
    std::thread::scope(|scope| {
        for (index, group) in schemes.chunks(schemes.len().div_ceil(FABRICS)).enumerate() {
            scope.spawn(move || carry_messages(&TestNetns::new(&format!("schemes{index}")), group));
        }
    });
}

fn carry_messages(netns: &TestNetns, schemes: &[&str]) {
    // In virtual time the slowest scheme needs 90 us.
    let duration = "duration=400us";
    let schemes_option = schemes.join(",");
    let mut arguments = vec!["--switch", "weir", "--rate", "10Mbps", "--schemes", &schemes_option];
    // A longer sampling interval, because the samples would take half of the CPU time.
    arguments.extend(["--set", duration, "--set", "observe.interval=20us"]);
    let output = netns.run("every-scheme", "mininet", &arguments);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    netns.wait_until_nothing_is_left();
    let (summary, fabric) = (netns.json("summary.json"), netns.json("fabric.json"));
    for scheme in schemes {
        let fct = &summary["schemes"][scheme]["fct"];
        assert_eq!((&fct["count"], &fct["unfinished"]), (&2.into(), &0.into()), "{scheme}");
        assert_eq!(fabric["schemes"][scheme]["pairs"], 6, "{scheme}");
    }
}

fn an_interrupt_keeps_results_and_leaves_nothing() {
    let netns = TestNetns::new("interrupt");
    let child = netns.start("quickstart", &["--rate", "20Mbps"]);
    netns.wait_for("host run");
    sleep(Duration::from_secs(4)); // traffic is flowing; its results must be kept
    signal(child.id(), "INT");
    let output = child.wait_with_output().expect("the process exits");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("interrupted: run"), "{}", text(&output.stderr));
    netns.wait_until_nothing_is_left();
    let summary = netns.json("summary.json");
    assert_eq!(summary["partial"], true);
    assert!(number(&summary["virtual_s"]) > 0.5, "{summary}");
    assert!(number(&summary["schemes"]["fncc"]["utilisation"]["s1:3"]) > 0.1, "{summary}");
}

fn whichever_side_is_killed_nothing_stays() {
    // weir is killed: the Python process detects the end of its input.
    let netns = TestNetns::new("kill-weir");
    let mut child = netns.start("quickstart", &["--rate", "20Mbps"]);
    netns.wait_for("host run");
    assert_mininet_is_limited(python_of(child.id()));
    signal(child.id(), "KILL");
    child.wait().expect("the process exits");
    netns.wait_until_nothing_is_left();

    // The Python process is killed: weir detects it, cleans up and reports it.
    let child = netns.start("quickstart", &["--rate", "20Mbps"]);
    netns.wait_for("host run");
    signal(python_of(child.id()), "KILL");
    let output = child.wait_with_output().expect("the process exits");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the Mininet process exited"), "{}", text(&output.stderr));
    netns.wait_until_nothing_is_left();

    // The switch process is killed while traffic is flowing.
    let child = netns.start("quickstart", &["--rate", "20Mbps"]);
    netns.wait_for("host run");
    sleep(Duration::from_secs(2)); // traffic is flowing
    let switches = netns.processes().into_iter().find(|(_, words)| words.contains(" switch "));
    signal(switches.expect("the process runs").0, "KILL");
    let output = child.wait_with_output().expect("the process exits");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    netns.wait_until_nothing_is_left();

    // Both are killed at once: `weir mininet --clean` removes the leftovers. Interfaces to hosts disappear with the
    // hosts; only those between switch processes remain.
    let mut child = netns.start("quickstart", &["--rate", "20Mbps", "--process-per-switch"]);
    netns.wait_for("host run");
    let python = python_of(child.id());
    signal(child.id(), "STOP");
    signal(python, "KILL");
    signal(child.id(), "KILL");
    child.wait().expect("the process exits");
    assert!(!netns.leftovers().is_empty(), "interfaces at least");
    let removed = netns.weir(&["mininet", "--clean"]).output().expect("the process exits");
    assert!(removed.status.success() && text(&removed.stdout).starts_with("removed "), "{removed:?}");
    netns.wait_until_nothing_is_left();
    assert_eq!(work_dirs(), Vec::<PathBuf>::new());
}

/// Asserts that Mininet may create namespaces and interfaces, but not, for example, load kernel modules or set the
/// clock.
fn assert_mininet_is_limited(process: u32) {
    const SYS_ADMIN: u64 = 1 << 21; // linux/capability.h
    const FORBIDDEN: [u32; 6] = [16, 17, 22, 25, 27, 39]; // modules, raw I/O, reboot, clock, device files, BPF
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).expect(key).trim();
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        let capabilities = u64::from_str_radix(value(set), 16).expect("hexadecimal");
        assert_ne!(capabilities & SYS_ADMIN, 0);
        assert!(FORBIDDEN.iter().all(|bit| capabilities >> bit & 1 == 0), "{set} {capabilities:x}");
    }
    assert_eq!(value("NoNewPrivs:"), "1");
}

fn a_failed_step_is_named_and_leaves_nothing() {
    let netns = TestNetns::new("failure");
    // An interface name that a switch needs is already in use by another program, so it must not be removed.
    let foreign = ["-n", &netns.namespace, "link", "add", "s1-eth1", "type", "veth", "peer", "name", "x"];
    assert!(Command::new("ip").args(foreign).status().expect("iproute2").success());
    let output = netns.run("quickstart", "mininet", &["--switch", "weir", "--rate", "20Mbps"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("interface s1-eth1 already exists"), "{}", text(&output.stderr));
    assert_eq!(
        netns.leftovers().len(),
        2,
        "only the two ends of the foreign interface: {:?}",
        netns.leftovers()
    );
    assert!(!netns.dir.path().join("run").exists(), "there are no results to keep");
}

/// Hosts in two subnets, with gateways that exist only in their neighbour tables, as in the p4 tutorials.
fn a_network_of_the_tutorials_is_as_its_file_says() {
    let netns = TestNetns::new("tutorial");
    let write = |name: &str, value: Value| {
        fs::write(netns.dir.path().join(name), value.to_string()).expect("written");
    };
    let host = |net: u8| {
        let gateway = [
            format!("ip route add default via 10.0.{net}.254"),
            format!("ip neigh add 10.0.{net}.254 lladdr 08:00:00:00:0{net}:00 dev eth0"),
        ];
        serde_json::json!({
            "ip": format!("10.0.{net}.{net}/24"), "mac": format!("08:00:00:00:0{net}:11"), "commands": gateway,
        })
    };
    write(
        "topology.json",
        serde_json::json!({
            "hosts": {"h1": host(1), "h2": host(2)},
            "switches": {"s1": {"runtime_json": "s1-runtime.json"}, "s2": {"runtime_json": "s2-runtime.json"}},
            "links": [["h1", "s1-p1", "20ms", 10], ["s1-p2", "s2-p1"], ["s2-p2", "h2"]],
        }),
    );
    let entry = |net: u8| {
        serde_json::json!({
            "table": "forward", "match": {"dst_addr": [format!("10.0.{net}.{net}"), 32]}, "action_name": "deliver",
            "action_params": {"port": net, "dst_mac": format!("08:00:00:00:0{net}:11")},
        })
    };
    let program = format!("{ROOT}/p4src/build/hpcc");
    for switch in ["s1", "s2"] {
        write(
            &format!("{switch}-runtime.json"),
            serde_json::json!({
                "target": "bmv2", "p4info": format!("{program}.p4info.txtpb"), "bmv2_json": format!("{program}.json"),
                "table_entries": [entry(1), entry(2)],
            }),
        );
    }
    let mut network = netns.weir(&["mininet", "topology.json", "--switch", "weir"]);
    network.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut network = network.spawn().expect("weir starts");
    let mut terminal = network.stdin.take().expect("a pipe");
    terminal
        .write_all(
            b"weir tables s1\nweir trace h1 h2\nweir link show\nweir\nlinks\nlink s1 s2 down\n\
              h1 ping -c 1 -W 1 10.0.2.2\nlink s1 s2 up\nh1 ping -c 1 -W 9 10.0.2.2\nswitch s1 stop\nexit\n",
        )
        .expect("the terminal is open");
    let output = network.wait_with_output().expect("the process exits");
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", text(&output.stderr));
    assert!(stdout.contains("ping: 2 of 2 host pairs ok"), "{stdout}");
    assert!(stdout.contains("mininet> "), "Mininet's command line: {stdout}");
    assert!(stdout.contains("forward[dst_addr=10.0.1.1/32] -> deliver(port=1"), "weir tables: {stdout}");
    assert!(stdout.contains("s2:2 to h2") && stdout.contains("delivered to h2"), "weir trace: {stdout}");
    assert!(
        stdout.contains("s1-eth1") && !stdout.contains("_s1-eth1"),
        "weir link show, in one process: {stdout}"
    );
    let error = text(&output.stderr);
    let pings: Vec<_> = error.lines().filter(|line| line.contains("1 packets transmitted")).collect();
    let lost = |at: usize, share: &str| pings.get(at).is_some_and(|line| line.contains(share));
    assert!(lost(0, " 100% packet loss") && lost(1, " 0% packet loss"), "link down, up: {stdout}{error}");
    assert!(error.contains("s1-eth2<->s2-eth1 (OK OK)"), "links: {error}");
    assert!(
        error.contains("one process runs all switches; with --process-per-switch"),
        "switch stop: {error}"
    );
    assert!(text(&output.stderr).contains("weir tables [SWITCH ...]"), "the usage: {}", text(&output.stderr));
    netns.wait_until_nothing_is_left();
}

fn mininet_options_are_rejected_in_virtual_time() {
    let stderr_of_rejected = |experiment: &str, arguments: &[&str]| {
        let file = format!("{ROOT}/experiments/{experiment}.yaml");
        let output =
            Command::new(WEIR).args(["run", &file]).args(arguments).output().expect("the process exits");
        assert_eq!(output.status.code(), Some(2), "{experiment}: {arguments:?}");
        text(&output.stderr)
    };
    let in_virtual_time = |arguments: &[&str]| stderr_of_rejected("quickstart", arguments);
    assert!(in_virtual_time(&["--cli"]).contains("--cli requires --backend mininet"));
    assert!(in_virtual_time(&["--switch", "weir"]).contains("--switch requires"));
    assert!(in_virtual_time(&["--pcap"]).contains("--pcap requires"));
    assert!(in_virtual_time(&["--rate", "30Mbps"]).contains("30Mbps has no telemetry code"));
    assert!(in_virtual_time(&["--rate", "200Gbps"]).contains("at most the file's 100Gbps"));
    let in_mininet = |experiment: &str, arguments: &[&str]| {
        stderr_of_rejected(experiment, &[&["--on", "mininet", "--check"], arguments].concat())
    };
    assert!(in_mininet("hpcc-plus-weights", &[]).contains("not by weight"));
    assert!(in_mininet("swift-endpoint", &[]).contains("no model of a NIC"));
    let key = tempfile::NamedTempFile::new().expect("a file");
    fs::write(key.path(), [b'k'; 64]).expect("a key");
    let with_key = ["--policy-key", key.path().to_str().expect("text")];
    assert!(in_mininet("policy-faults", &with_key).contains("are for virtual time"));
    let policy = ["--set", "policy={imax: 6}"];
    assert!(in_mininet("quickstart", &policy).contains("requires --policy-key FILE"));
    let no_key = [&policy[..], &["--policy-key", "/no/key"]].concat();
    assert!(in_mininet("quickstart", &no_key).contains("--policy-key /no/key: No such file"));
}
