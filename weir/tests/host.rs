//! `weir host`: what it refuses, and that an interrupt keeps its results. The latter needs root.

use assert_cmd::Command;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::{Command as Plain, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;
use std::{env, fs};
use weir_testkit::harness;

fn main() -> ExitCode {
    let without_root = harness::run(REFUSALS, None);
    let is_root = Plain::new("id").arg("-u").output().is_ok_and(|done| done.stdout == b"0\n");
    let with_root = harness::run(RUNS, (!is_root).then(|| "needs root".to_owned()));
    if without_root == ExitCode::SUCCESS { with_root } else { without_root }
}

const REFUSALS: &[harness::Test] = &[
    ("bad_input_is_refused_with_status_2", bad_input_is_refused_with_status_2),
    ("bad_lists_are_refused_with_status_2", bad_lists_are_refused_with_status_2),
];

const RUNS: &[harness::Test] = &[
    ("sigint_ends_recv_and_keeps_results", sigint_ends_recv_and_keeps_results),
    (
        "results_on_a_full_disk_are_printed_and_leave_no_draft",
        results_on_a_full_disk_are_printed_and_leave_no_draft,
    ),
    ("results_reach_devices_and_pipes_and_links", results_reach_devices_and_pipes_and_links),
    ("a_running_agent_has_no_privileges", a_running_agent_has_no_privileges),
    (
        "a_switch_attaches_an_interface_again_without_other_privileges",
        a_switch_attaches_an_interface_again_without_other_privileges,
    ),
    ("without_the_capability_it_says_what_is_needed", without_the_capability_it_says_what_is_needed),
];

fn refused(args: &[&str]) -> String {
    let mut command = Command::cargo_bin("weir").expect("the binary is built");
    let done = command.arg("host").args(args).assert().code(2);
    String::from_utf8(done.get_output().stderr.clone()).expect("text")
}

fn bad_input_is_refused_with_status_2() {
    let send = ["send", "--iface", "eth77", "--to", "10.0.0.2"];
    let with = |more: &[&str]| refused(&[&send, more].concat());
    assert!(with(&["--size", "1MB"]).starts_with("error: no network interface \"eth77\"; available: "));
    assert!(with(&["--size", "1MB", "--rate", "10"]).contains("10Mbps"), "an example of a rate");
    assert!(with(&[]).contains("specify --size"));
    assert!(with(&["--size", "1MB", "--flows", "0"]).contains("at least 1"));
    assert!(with(&["--size", "1MB", "--start-at", "soon"]).contains("mono:SECONDS"));
    assert!(with(&["--size", "1MB", "--out", "/nowhere/x.json"]).contains("/nowhere/x.json"));
    assert!(with(&["--size", "1MB", "--peer-mac", "x"]).contains("02:00:0a:00:02:02"));
    let recv = ["recv", "--iface", "lo"];
    assert!(
        refused(&[&recv[..], &["--scheme", "cubic"]].concat()).contains("known schemes: hpcc, hpcc++, fncc")
    );
    assert!(refused(&[&recv[..], &["--set", "lhcs"]].concat()).contains("PARAMETER=VALUE"));
}

fn bad_lists_are_refused_with_status_2() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let list = dir.path().join("flows.yaml");
    fs::write(&list, "- {peer: 10.0.0.2, size: 1}\n").expect("written");
    let path = list.to_str().expect("text");
    assert!(refused(&["run", "--iface", "lo", "--flows-from", path]).contains("flows.yaml: "));
    assert!(refused(&["run", "--iface", "lo", "--flows-from", "/nowhere.yaml"]).contains("/nowhere.yaml"));
}

/// `weir` in a network namespace of its own with the loopback interface up.
fn unshared(arguments: &str) -> Plain {
    let weir = env!("CARGO_BIN_EXE_weir");
    let mut command = Plain::new("unshare");
    command.args([
        "--net",
        "sh",
        "-c",
        &format!("ip link set lo up && exec {arguments}").replace("weir", weir),
    ]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn sigint_ends_recv_and_keeps_results() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let out = dir.path().join("results.json");
    let place = out.to_str().expect("text");
    let child =
        unshared(&format!("weir host recv --iface lo --out {place}")).spawn().expect("unshare is there");
    sleep(Duration::from_millis(1_500));
    let killed = Plain::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let done = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{:?} {said}", done.status);
    let results: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&out).expect("results are kept")).expect("JSON");
    assert_eq!(results["ended"], "interrupted");
    assert_eq!((&results["addr"], &results["scheme"]), (&"127.0.0.1".into(), &"fncc".into()));
    let left: Vec<_> = fs::read_dir(dir.path()).expect("readable").collect();
    assert_eq!(left.len(), 1, "no partial file is left");
}

fn results_on_a_full_disk_are_printed_and_leave_no_draft() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let out = dir.path().join("results.json");
    fs::write(&out, "of an earlier run").expect("written");
    let recv = format!("weir host recv --iface lo --for 100ms --out {}", out.display());
    // Every write to a file fails, as it does without room.
    let done = unshared(&format!("sh -c \"ulimit -f 0; exec {recv}\"")).output().expect("unshare");
    let (printed, told) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.starts_with("error: ") && told.contains("results.json: "), "{told}");
    assert!(printed.contains("0 frames out, 0 in, 1"), "{printed}");
    assert_eq!(fs::read_to_string(&out).expect("it is kept"), "of an earlier run");
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 1, "no draft is left");
}

/// The process is confined to the folder of its results when it writes them.
fn results_reach_devices_and_pipes_and_links() {
    let (dir, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let at = |name: &str| dir.path().join(name);
    let made = Plain::new("mknod").arg(at("null")).args(["c", "1", "3"]).status();
    assert!(made.is_ok_and(|status| status.success()));
    let made = Plain::new("mkfifo").arg(at("pipe")).status();
    assert!(made.is_ok_and(|status| status.success()));
    fs::write(other.path().join("real"), "of an earlier run").expect("written");
    symlink(other.path().join("real"), at("link.csv")).expect("made");
    symlink(other.path().join("nothing"), at("dangling")).expect("made");
    let reader = std::thread::spawn({
        let pipe = at("pipe");
        move || fs::read_to_string(pipe).expect("text")
    });
    let recv = |more: &str| {
        let recv = format!("cd {} && exec weir host recv --iface lo --for 50ms {more}", dir.path().display());
        unshared(&format!("sh -c '{recv}'")).output().expect("unshare is there")
    };
    for arguments in ["--out null", "--out null --format csv", "--out pipe", "--out link.csv --format csv"] {
        let done = recv(arguments);
        assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
    }
    assert!(reader.join().expect("it was written to").contains("\"ended\":\"deadline\""));
    let kind = |name: &str| fs::symlink_metadata(at(name)).expect("it stays").file_type();
    assert!(kind("null").is_char_device() && kind("pipe").is_fifo() && kind("link.csv").is_symlink());
    assert!(fs::read_to_string(other.path().join("real")).expect("text").starts_with("flow,peer,"));
    assert!(other.path().join("link-series.csv").exists(), "beside the file, where it may write");
    assert_eq!(
        fs::read_dir(dir.path()).expect("readable").count(),
        4,
        "no draft, and nothing beside a device"
    );

    let refused = recv("--out dangling");
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && told.contains("--out dangling: symbolic link"), "{told}");
}

fn a_running_agent_has_no_privileges() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    fs::write(at("key"), [7; 32]).expect("written");
    fs::set_permissions(at("key"), fs::Permissions::from_mode(0o600)).expect("changed");
    let (key, state, socket, out) = (at("key"), at("state"), at("h1.sock"), at("out.json"));
    let policy = format!("--policy-key {key} --policy-state {state} --control {socket}");
    let child =
        unshared(&format!("weir host recv --iface lo --out {out} {policy}")).spawn().expect("unshare");
    sleep(Duration::from_millis(1_500));
    let mut threads = 0;
    for thread in fs::read_dir(format!("/proc/{}/task", child.id())).expect("it runs").flatten() {
        threads += 1;
        let status = fs::read_to_string(thread.path().join("status")).expect("a status");
        for (key, value) in status.lines().filter_map(|line| line.split_once(":\t")) {
            match key {
                "CapInh" | "CapPrm" | "CapEff" | "CapBnd" | "CapAmb" => {
                    assert_eq!(value, "0000000000000000", "{key} of thread {threads}");
                }
                "NoNewPrivs" => assert_eq!(value, "1"),
                "Seccomp" => assert_eq!(value, "2"),
                _ => {}
            }
        }
    }
    assert!(threads > 2, "the socket and the state have threads");
    // It still answers, writes its state and results, and removes its socket.
    let set =
        Plain::new(env!("CARGO_BIN_EXE_weir")).args(["policy", "set", "eta=0.9", "--via", &socket]).output();
    let set = set.expect("weir runs");
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    let killed = Plain::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let done = child.wait_with_output().expect("it ends");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut left: Vec<_> =
        fs::read_dir(dir.path()).expect("readable").flatten().map(|it| it.file_name()).collect();
    left.sort();
    assert_eq!(left, ["key", "out.json", "state"]);
}

fn a_switch_attaches_an_interface_again_without_other_privileges() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // The kernel reports a carrier a moment later. A switch that starts before that logs one `up=true` more.
    let veth = "ip link add va0 type veth peer name vb0 && ip link set va0 up && ip link set vb0 up && \
                until ip link show va0 | grep -q 'state UP'; do sleep 0.05; done";
    let switch = "weir switch --no-p4 -i 1@va0 --stats --pcap . --log-file log -L info --thrift-addr 127.0.0.1 \
                  --thrift-port 0 -- --grpc-server-addr 127.0.0.1:0";
    let seen = |count: u32, up: &str| {
        format!("until test \"$(grep -c 'interface=va0 up={up}' log.txt)\" = {count}; do sleep 0.05; done")
    };
    let up = "until grep -q running log.txt; do sleep 0.05; done";
    let script = format!(
        "{veth}; {switch} & {up}; ip link del va0; {}; {veth}; {}; kill $!; wait $!",
        seen(1, "false"),
        seen(1, "true")
    );
    let script = script.replace("weir switch", concat!(env!("CARGO_BIN_EXE_weir"), " switch"));
    let done = Plain::new("timeout")
        .args(["30", "unshare", "--net", "sh", "-c", &format!("ip link set lo up; {script}")])
        .current_dir(dir.path())
        .output()
        .expect("timeout is there");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    assert!(said.contains("   1 va0                 up "), "{said}");
}

fn without_the_capability_it_says_what_is_needed() {
    let drop = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    // The binary may lie where only root may go.
    let copy = env::temp_dir().join(format!("weir-unprivileged-{}", std::process::id()));
    fs::copy(env!("CARGO_BIN_EXE_weir"), &copy).expect("copied");
    let done = Plain::new("sh")
        .args(["-c", &format!("{drop} {} host recv --iface lo --for 1s", copy.display())])
        .output()
        .expect("sh is there");
    fs::remove_file(&copy).expect("removed");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("needs root or CAP_NET_RAW"), "{said}");
}
