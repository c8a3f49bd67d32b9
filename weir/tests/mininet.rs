//! `weir run --on mininet` on the embedded switch: what the same experiment does on real interfaces, and that
//! nothing stays behind, whatever happens. Needs root and Debian's mininet.
//!
//! Everything runs in a network namespace of its own, so that it meets nothing of this machine's.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_testkit::harness;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const WEIR: &str = env!("CARGO_BIN_EXE_weir");
/// What marks processes and interfaces of a fabric (`mininet/weir_mininet/ours.py`).
const MARK: &str = "WEIR_FABRIC=";
/// What a busy machine may take to bring something up or down.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let without_root = harness::run(REFUSALS, None);
    let with_root = harness::run(RUNS, missing());
    if without_root == ExitCode::SUCCESS { with_root } else { without_root }
}

/// What the runs need that is not here.
fn missing() -> Option<String> {
    let says = |program: &str, arguments: &[&str]| Command::new(program).args(arguments).output().ok();
    if says("id", &["-u"]).is_none_or(|done| done.stdout != b"0\n") {
        return Some("needs root".to_owned());
    }
    let mininet =
        says("/usr/bin/python3", &["-c", "import mininet.net"]).is_some_and(|done| done.status.success());
    (!mininet).then(|| "needs Debian's mininet".to_owned())
}

const REFUSALS: &[harness::Test] =
    &[("what_is_for_mininet_is_refused_elsewhere", what_is_for_mininet_is_refused_elsewhere)];

const RUNS: &[harness::Test] = &[
    ("the_quickstart_does_what_it_does_in_virtual_time", the_quickstart_does_what_it_does_in_virtual_time),
    (
        "a_fat_tree_carries_a_permutation_on_symmetric_paths",
        a_fat_tree_carries_a_permutation_on_symmetric_paths,
    ),
    ("every_scheme_carries_its_messages", every_scheme_carries_its_messages),
    ("an_interrupt_keeps_results_and_leaves_nothing", an_interrupt_keeps_results_and_leaves_nothing),
    ("whichever_side_is_killed_nothing_stays", whichever_side_is_killed_nothing_stays),
    ("a_failed_step_is_named_and_leaves_nothing", a_failed_step_is_named_and_leaves_nothing),
    ("a_network_of_the_tutorials_is_as_its_file_says", a_network_of_the_tutorials_is_as_its_file_says),
];

/// A network namespace, and a folder for results; both go with it.
struct Place {
    namespace: String,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(test: &str) -> Place {
        let namespace = format!("weir-mn-{}-{test}", std::process::id());
        for arguments in [&["netns", "add", &namespace][..], &["-n", &namespace, "link", "set", "lo", "up"]] {
            assert!(
                Command::new("ip").args(arguments).status().expect("iproute2").success(),
                "{arguments:?}"
            );
        }
        Place { namespace, folder: tempfile::tempdir().expect("a temporary directory") }
    }

    fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace, WEIR])
            .args(arguments)
            .current_dir(self.folder.path());
        command
    }

    /// A run of an experiment into `run/`.
    fn run(&self, experiment: &str, arguments: &[&str]) -> Output {
        self.start(experiment, arguments).wait_with_output().expect("it ends")
    }

    fn start(&self, experiment: &str, arguments: &[&str]) -> Child {
        let file = format!("{ROOT}/experiments/{experiment}.yaml");
        let mut command = self.weir(&["run", &file, "--on", "mininet", "--switch", "weir", "--out", "run"]);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("weir starts")
    }

    fn json(&self, name: &str) -> Value {
        let path = self.folder.path().join("run").join(name);
        serde_json::from_str(&fs::read_to_string(&path).expect(name)).expect("JSON")
    }

    /// Processes of the fabric, interfaces and namespaces' files that are still there.
    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            let inode = self.inode();
            if String::from_utf8_lossy(&environ).contains(&format!("{MARK}{inode}")) {
                let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                left.push(String::from_utf8_lossy(&words).replace('\0', " "));
            }
        }
        let shown =
            Command::new("ip").args(["-n", &self.namespace, "-o", "link"]).output().expect("iproute2").stdout;
        left.extend(
            String::from_utf8_lossy(&shown).lines().filter(|l| l.contains("-eth")).map(str::to_owned),
        );
        left
    }

    fn inode(&self) -> String {
        let path = Path::new("/run/netns").join(&self.namespace);
        let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("the namespace is there"));
        format!("net:[{inode}]")
    }

    fn wait_until_nothing_is_left(&self) {
        let end = Instant::now() + PATIENCE;
        while !self.left().is_empty() {
            assert!(Instant::now() < end, "left behind: {:#?}", self.left());
            sleep(Duration::from_millis(50));
        }
    }

    /// Waits for a line of `ip link` or a process: the fabric is up.
    fn wait_for(&self, what: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.left().iter().any(|line| line.contains(what)) {
            assert!(Instant::now() < end, "no {what} in {:#?}", self.left());
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Kills nothing: what a failed test left in it is shown by the next `ip netns`.
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).output();
    }
}

fn work_folders() -> Vec<PathBuf> {
    let entries =
        fs::read_dir(std::env::temp_dir()).expect("a temporary folder").flatten().map(|entry| entry.path());
    entries
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("weir-mininet-"))
        })
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// All pairs answered, and every flow's data and ACKs took the path that the routes say.
fn assert_paths(fabric: &Value, scheme: &str, pairs: u64, flows: usize) {
    let facts = &fabric["schemes"][scheme];
    assert_eq!(facts["pairs"], pairs, "{scheme}");
    let seen = facts["flows"].as_array().expect("a list");
    assert_eq!(seen.len(), flows, "{scheme}");
    for flow in seen {
        assert_eq!(flow["same_path"], true, "{scheme}: {flow}");
        let planned = &flow["planned_path"];
        for way in ["data_paths", "ack_paths"] {
            let paths = flow[way].as_array().expect("a list");
            assert!(paths.len() == 1 && paths[0]["path_id"] == *planned, "{scheme}: {flow}");
            assert!(number(&paths[0]["packets"]) > 50.0, "{scheme}: {flow}");
        }
    }
}

/// Runs of the quickstart; at least one has to keep its bottleneck busy: what else this machine does meanwhile
/// makes clocks unsteady, and an unsteady clock makes a link look fuller than it is (docs/two-worlds.md).
const QUICKSTART_RUNS: usize = 3;

fn the_quickstart_does_what_it_does_in_virtual_time() {
    let busy = |place: &Place, scheme: &str| {
        number(&place.json("summary.json")["schemes"][scheme]["utilisation"]["s1:3"])
    };
    let mut runs = (0..QUICKSTART_RUNS).map(|_| {
        let place = Place::new("quickstart");
        let done = place.run("quickstart", &["--rate", "10Mbps", "--pcap=captures"]);
        assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
        place.wait_until_nothing_is_left();
        let seen = ["fncc", "hpcc"].map(|scheme| busy(&place, scheme));
        (place, seen)
    });
    let found = runs.find(|(_, seen)| seen.iter().all(|&share| share > 0.85));
    let (place, _) =
        found.expect("a bottleneck that is busy for more than 0.85 of the time, in one of the runs");
    let (summary, fabric) = (place.json("summary.json"), place.json("fabric.json"));
    assert_eq!(summary["backend"], "mininet");
    assert!(summary.get("partial").is_none(), "{summary}");
    for scheme in ["fncc", "hpcc"] {
        assert_paths(&fabric, scheme, 6, 2);
        let it = &summary["schemes"][scheme];
        assert!(number(&it["jain"]) > 0.9, "{scheme}: {it}");
        // The queue is in the switch, where two flows meet: some packets when the second joins, and none lost.
        let peak = number(&it["queues"]["s1:3"]["peak_bytes"]);
        assert!((20_000.0..400_000.0).contains(&peak), "{scheme}: {it}");
        assert!(number(&it["queues"]["s2:2"]["peak_bytes"]) < peak / 2.0, "{scheme}: {it}");
        let slows = number(&it["first_slowdown_us"]);
        assert!((3.0e6..3.5e6).contains(&slows), "{scheme}: the second flow joins at 3 s: {it}");
        assert_eq!(it["drops"], serde_json::json!({}), "{scheme}");
        let capture = place.folder.path().join("captures").join(scheme).join("s1-eth1_in.pcap");
        assert!(fs::metadata(&capture).is_ok_and(|it| it.len() > 1_000_000), "{}", capture.display());
    }
    for file in ["flows.csv", "queues.csv", "rates.csv", "report.html", "run.yaml", "queue-s1-3.svg"] {
        assert!(place.folder.path().join("run").join(file).is_file(), "{file}");
    }
}

fn a_fat_tree_carries_a_permutation_on_symmetric_paths() {
    let place = Place::new("fat-tree");
    let done = place.run("fat-tree-k4", &["--rate", "10Mbps"]);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    place.wait_until_nothing_is_left();
    let (summary, fabric) = (place.json("summary.json"), place.json("fabric.json"));
    for scheme in ["fncc", "hpcc"] {
        assert_paths(&fabric, scheme, 240, 16);
        let it = &summary["schemes"][scheme];
        assert_eq!((&it["fct"]["count"], &it["fct"]["unfinished"]), (&16.into(), &0.into()), "{scheme}");
        assert_eq!(it["drops"], serde_json::json!({}), "{scheme}");
    }
}

/// Fabrics of `every_scheme_carries_its_messages` that are up at the same time: each waits for its traffic most of the
/// time, and has a network namespace of its own.
const FABRICS: usize = 3;

/// All of `weir schemes`, over raw sockets and through their programs: two messages each, to the end.
fn every_scheme_carries_its_messages() {
    let listed = text(&Command::new(WEIR).arg("schemes").output().expect("it ends").stdout);
    let schemes: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let file = fs::read_to_string(format!("{ROOT}/experiments/every-scheme.yaml")).expect("an experiment");
    let all = format!("schemes: [{}]", schemes.join(", "));
    assert!(file.contains(&all), "experiments/every-scheme.yaml is to have {all}");
    std::thread::scope(|scope| {
        for (index, group) in schemes.chunks(schemes.len().div_ceil(FABRICS)).enumerate() {
            scope.spawn(move || carry_messages(&Place::new(&format!("schemes{index}")), group));
        }
    });
}

fn carry_messages(place: &Place, schemes: &[&str]) {
    // In virtual time the slowest scheme needs 90 us.
    let duration = "duration=400us";
    let arguments = ["--rate", "10Mbps", "--set", duration, "--schemes", &schemes.join(",")];
    let done = place.run("every-scheme", &arguments);
    assert!(done.status.success(), "{}{}", text(&done.stdout), text(&done.stderr));
    place.wait_until_nothing_is_left();
    let (summary, fabric) = (place.json("summary.json"), place.json("fabric.json"));
    for scheme in schemes {
        let fct = &summary["schemes"][scheme]["fct"];
        assert_eq!((&fct["count"], &fct["unfinished"]), (&2.into(), &0.into()), "{scheme}");
        assert_eq!(fabric["schemes"][scheme]["pairs"], 6, "{scheme}");
    }
}

fn an_interrupt_keeps_results_and_leaves_nothing() {
    let place = Place::new("interrupt");
    let child = place.start("quickstart", &["--rate", "20Mbps"]);
    place.wait_for("host run");
    sleep(Duration::from_secs(4)); // the traffic flows; what there is until now is to be kept
    signal(child.id(), "INT");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(130), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("interrupted: run"), "{}", text(&done.stderr));
    place.wait_until_nothing_is_left();
    let summary = place.json("summary.json");
    assert_eq!(summary["partial"], true);
    assert!(number(&summary["virtual_s"]) > 0.5, "{summary}");
    assert!(number(&summary["schemes"]["fncc"]["utilisation"]["s1:3"]) > 0.1, "{summary}");
}

fn whichever_side_is_killed_nothing_stays() {
    // Ours is killed: the Python side sees the end of the stream.
    let place = Place::new("kill-weir");
    let mut child = place.start("quickstart", &["--rate", "20Mbps"]);
    place.wait_for("host run");
    assert_mininet_is_limited(python_of(child.id()));
    signal(child.id(), "KILL");
    child.wait().expect("it ends");
    place.wait_until_nothing_is_left();

    // Python is killed: we see that, sweep, and say so.
    let child = place.start("quickstart", &["--rate", "20Mbps"]);
    place.wait_for("host run");
    signal(python_of(child.id()), "KILL");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("the Mininet side ended"), "{}", text(&done.stderr));
    place.wait_until_nothing_is_left();

    // Both at once: the next one removes what they left.
    let mut child = place.start("quickstart", &["--rate", "20Mbps"]);
    place.wait_for("host run");
    let python = python_of(child.id());
    signal(child.id(), "STOP");
    signal(python, "KILL");
    signal(child.id(), "KILL");
    child.wait().expect("it ends");
    assert!(!place.left().is_empty(), "interfaces at least");
    let cleaned = place.weir(&["mininet", "--clean"]).output().expect("it ends");
    assert!(cleaned.status.success() && text(&cleaned.stdout).starts_with("removed "), "{cleaned:?}");
    place.wait_until_nothing_is_left();
    assert_eq!(work_folders(), Vec::<PathBuf>::new());
}

/// Mininet may make namespaces and interfaces; it may not, for example, load kernel modules or set the clock.
fn assert_mininet_is_limited(process: u32) {
    const SYS_ADMIN: u64 = 1 << 21; // linux/capability.h
    const FORBIDDEN: [u32; 6] = [16, 17, 22, 25, 27, 39]; // modules, raw I/O, reboot, clock, device files, BPF
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).expect(key).trim();
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        let capabilities = u64::from_str_radix(value(set), 16).expect("hexadecimal");
        assert_ne!(capabilities & SYS_ADMIN, 0);
        assert!(FORBIDDEN.iter().all(|bit| capabilities >> bit & 1 == 0), "{set} {capabilities:x}");
    }
    assert_eq!(value("NoNewPrivs:"), "1");
}

fn a_failed_step_is_named_and_leaves_nothing() {
    let place = Place::new("failure");
    // An interface that a switch wants is there already, and is not ours to remove.
    let foreign = ["-n", &place.namespace, "link", "add", "s1-eth1", "type", "veth", "peer", "name", "x"];
    assert!(Command::new("ip").args(foreign).status().expect("iproute2").success());
    let done = place.run("quickstart", &["--rate", "20Mbps"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("an interface s1-eth1 already"), "{}", text(&done.stderr));
    assert_eq!(place.left().len(), 2, "both ends of it, and nothing else: {:?}", place.left());
    assert!(!place.folder.path().join("run").exists(), "there is nothing to keep");
}

/// Hosts in two subnets behind gateways that exist in their neighbour tables only, as in the exercises.
fn a_network_of_the_tutorials_is_as_its_file_says() {
    let place = Place::new("tutorial");
    let write = |name: &str, value: Value| {
        fs::write(place.folder.path().join(name), value.to_string()).expect("written");
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
            "switches": {"s1": {"runtime_json": "s1-runtime.json"}},
            "links": [["h1", "s1-p1", "20ms", 10], ["s1-p2", "h2"]],
        }),
    );
    let entry = |net: u8| {
        serde_json::json!({
            "table": "forward", "match": {"dst_addr": [format!("10.0.{net}.{net}"), 32]}, "action_name": "deliver",
            "action_params": {"port": net, "dst_mac": format!("08:00:00:00:0{net}:11")},
        })
    };
    let program = format!("{ROOT}/p4src/build/hpcc");
    write(
        "s1-runtime.json",
        serde_json::json!({
            "target": "bmv2", "p4info": format!("{program}.p4info.txtpb"), "bmv2_json": format!("{program}.json"),
            "table_entries": [entry(1), entry(2)],
        }),
    );
    let mut network = place.weir(&["mininet", "topology.json", "--switch", "weir"]);
    network.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut network = network.spawn().expect("weir starts");
    let mut terminal = network.stdin.take().expect("a pipe");
    terminal.write_all(b"exit\n").expect("it listens");
    let done = network.wait_with_output().expect("it ends");
    let said = text(&done.stdout);
    assert!(done.status.success(), "{said}{}", text(&done.stderr));
    assert!(said.contains("2 of 2 pairs of hosts answer a ping"), "{said}");
    assert!(said.contains("mininet> "), "Mininet's command line: {said}");
    place.wait_until_nothing_is_left();
}

fn what_is_for_mininet_is_refused_elsewhere() {
    let file = format!("{ROOT}/experiments/quickstart.yaml");
    let refused = |arguments: &[&str]| {
        let done = Command::new(WEIR).args(["run", &file]).args(arguments).output().expect("it ends");
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        text(&done.stderr)
    };
    assert!(refused(&["--cli"]).contains("--cli is for --on mininet"));
    assert!(refused(&["--switch", "weir"]).contains("--switch is for"));
    assert!(refused(&["--pcap"]).contains("--pcap is for"));
    assert!(refused(&["--rate", "30Mbps"]).contains("30Mbps has no code"));
    assert!(refused(&["--rate", "200Gbps"]).contains("slower than the file's 100Gbps"));
}

fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().expect("kill").success());
}

/// The Python side of a run: `ip netns exec` has become weir itself.
fn python_of(weir: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{weir}/task/{weir}/children")).expect("it runs");
    children.split_whitespace().next().expect("a child").parse().expect("a number")
}
