//! `weir controller` with programs for Tofino, against servers that validate every message with bfrt.json.

use assert_cmd::Command;
use bfruntime::server::TableServer;
use std::net::TcpListener;
use std::path::Path;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TOPOLOGY: &str = "\
topology: {kind: leaf-spine, leaves: 2, spines: 3, hosts_per_leaf: 2, rate: 100Gbps}
ecn: {kmin: 100KB, kmax: 400KB, pmax: 20%}
deflection: {threshold: 15KB}
ack_priority: true
";

fn artifact(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src").join(name).display().to_string()
}

/// A fabric of driver stand-ins that run weir.p4, and a directory with its topology.
struct Fabric {
    _runtime: Runtime,
    servers: Vec<TableServer>,
    switches: Vec<String>,
    dir: TempDir,
}

impl Fabric {
    fn new() -> Fabric {
        let runtime = Runtime::new().unwrap();
        let json = std::fs::read(artifact("tna/build/weir.bfrt.json")).unwrap();
        let (mut servers, mut switches) = (Vec::new(), Vec::new());
        for number in 1..=5 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            switches.extend(["--switch".to_owned(), format!("s{number}={}", listener.local_addr().unwrap())]);
            let server = TableServer::new(0, "weir", json.clone()).unwrap();
            runtime.spawn(server.clone().serve(listener));
            servers.push(server);
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("fabric.yaml"), TOPOLOGY).unwrap();
        Fabric { _runtime: runtime, servers, switches, dir }
    }

    /// Runs a subcommand that connects to the switches. Returns exit status, stdout and stderr.
    fn controller(&self, arguments: &[&str]) -> (i32, String, String) {
        let arguments: Vec<&str> =
            arguments.iter().copied().chain(self.switches.iter().map(String::as_str)).collect();
        run(self.dir.path(), &arguments)
    }
}

fn run(dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("weir").expect("cargo builds the binary before its tests");
    let command = command.current_dir(dir).args(["controller", arguments[0], "--topology", "fabric.yaml"]);
    let output = command.args(&arguments[1..]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_plan_for_tofino_switches_is_applied_compared_and_verified() {
    let fabric = Fabric::new();
    let program = artifact("tna/build/weir.bfrt.json");
    let (status, output, _) = fabric.controller(&["diff", "--program", &program]);
    assert_eq!(status, 2);
    assert!(output.contains("+ ecn_ramp[ramp=1 depth=5001..65535] priority=1 -> mark_always()"), "{output}");
    let (status, output, errors) = fabric.controller(&["apply", "--program", &program]);
    assert_eq!(status, 0, "{errors}");
    assert!(output.contains("5 switches as planned"), "{output}");
    let (status, output, _) = fabric.controller(&["diff", "--program", &program]);
    assert_eq!((status, output.as_str()), (0, "5 switches are as planned\n"));
    let (status, output, errors) = fabric.controller(&["verify", "--live", "--program", &program]);
    assert_eq!(status, 0, "{output}{errors}");
    assert!(output.contains("proved: 12 ordered pairs of hosts, every path hash"), "{output}");
    // After a driver restarts, only its entries are written again.
    fabric.servers[2].clear();
    let (status, output, _) = fabric.controller(&["apply", "--program", &program]);
    let rows: Vec<&str> = output.lines().filter(|line| line.starts_with(" s")).collect();
    assert_eq!((status, rows.len()), (0, 6), "{output}");
    for (row, is_new) in rows[1..].iter().zip([false, false, true, false, false]) {
        let inserted: u32 = row.split_whitespace().nth(2).unwrap().parse().unwrap();
        assert_eq!(inserted > 0, is_new, "{output}");
    }
    assert!(fabric.servers.iter().all(|server| server.take_rejected().is_empty()));
    // With the port numbers of another chip, the entries that are read do not correspond to a plan.
    let (status, _, errors) =
        fabric.controller(&["verify", "--live", "--program", &program, "--chip", "tofino"]);
    assert_eq!(status, 1);
    assert!(!errors.is_empty() && !errors.contains("panicked"), "{errors}");
}

#[test]
fn a_plan_for_tofino_is_printed_without_a_switch() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("fabric.yaml"), TOPOLOGY).unwrap();
    std::fs::write(dir.path().join("ports.yaml"), "ports: {1: 20, 2: 24, 3: 28, 4: 32, 5: 36}\n").unwrap();
    let program = artifact("tna/build/hpcc.bfrt.json");
    let plan = |more: &[&str]| {
        let arguments = [&["plan", "--program", &program, "--only", "s1"], more].concat();
        let (status, output, errors) = run(dir.path(), &arguments);
        assert_eq!(status, 0, "{errors}");
        output
    };
    assert!(plan(&[]).contains("forward[dst_addr=10.0.1.1/32] -> deliver(port=8 "));
    assert!(plan(&["--chip", "tofino"]).contains("forward[dst_addr=10.0.1.1/32] -> deliver(port=0 "));
    let mapped = plan(&["--ports", "ports.yaml", "--format", "json"]);
    assert!(mapped.contains("forward[dst_addr=10.0.1.1/32] -> deliver(port=20 "), "{mapped}");
}

/// The port map of docs/tofino-controller.md.
#[test]
fn the_port_map_of_the_documentation_is_valid() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tofino-controller.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (ports, _) = page.split_once("```yaml\n").unwrap().1.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ports.yaml"), ports).unwrap();
    let topology = "{kind: leaf-spine, leaves: 3, spines: 1, hosts_per_leaf: 2}";
    std::fs::write(dir.path().join("fabric.yaml"), topology).unwrap();
    let program = artifact("tna/build/hpcc.bfrt.json");
    let arguments = ["plan", "--program", &program, "--chip", "tofino", "--ports", "ports.yaml"];
    let (status, output, errors) = run(dir.path(), &arguments);
    assert_eq!(status, 0, "{errors}");
    let entries_of = |switch: &str| {
        output.split_once(&format!("{switch}: ")).unwrap().1.split_once("policy_flood").unwrap().0
    };
    assert!(
        entries_of("s2").contains("profile_port=148]") && !entries_of("s2").contains("profile_port=156]"),
        "{output}"
    );
    assert!(
        entries_of("s3").contains("profile_port=156]") && !entries_of("s3").contains("profile_port=148]"),
        "{output}"
    );
}

#[test]
fn invalid_input_for_tofino_is_one_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("fabric.yaml", TOPOLOGY);
    write("bad.bfrt.json", "{\"tables\": 3}");
    write("unknown.yaml", "switches: {s9: {1: 8}}\n");
    write("short.yaml", "ports: {1: 8}\n");
    write("wrong.yaml", "ports: [8, 9]\n");
    let weir = artifact("tna/build/weir.bfrt.json");
    let bmv2 = artifact("build/hpcc.json");
    for (arguments, expected) in [
        (&["watch", "--program", &weir][..], "does not support Tofino"),
        (&["plan", "--program", "bad.bfrt.json"], "bad.bfrt.json: not a bfrt.json"),
        (&["plan", "--program", &bmv2, "--chip", "tofino"], "--chip requires a program for Tofino"),
        (&["plan", "--program", &weir, "--p4info", "x"], "--p4info: not allowed with a bfrt.json"),
        (
            &["plan", "--program", &weir, "--format", "runtime-json"],
            "runtime-json requires a program for BMv2",
        ),
        (&["plan", "--program", &weir, "--ports", "unknown.yaml"], "unknown switch s9"),
        (
            &["plan", "--program", &weir, "--ports", "short.yaml"],
            "port 2: no device port number on Tofino; assign one with --ports",
        ),
        (&["plan", "--program", &weir, "--ports", "wrong.yaml"], "wrong.yaml:1:1: ports: "),
        (&["plan", "--program", &weir, "--ports", "none.yaml"], "none.yaml: "),
    ] {
        let (status, output, errors) = run(dir.path(), arguments);
        assert_eq!((status, output.as_str()), (2, ""), "{arguments:?}: {errors}");
        assert!(errors.contains(expected), "{arguments:?}: {errors}");
    }
}
