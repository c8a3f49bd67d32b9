//! `weir host`: invalid input, results on interrupts and full disks, and privileges; all commands: limits of threads and
//! memory. Needs root, except for the tests of invalid input.

use assert_cmd::Command;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::{Command as StdCommand, ExitCode, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use std::{env, fs};
use weir_testkit::harness;

fn main() -> ExitCode {
    let without_root = harness::run(UNPRIVILEGED_TESTS, None);
    let is_root = StdCommand::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let with_root = harness::run(ROOT_TESTS, (!is_root).then(|| "needs root".to_owned()));
    if without_root == ExitCode::SUCCESS { with_root } else { without_root }
}

const UNPRIVILEGED_TESTS: &[harness::Test] = &[
    ("invalid_input_is_rejected_with_status_2", invalid_input_is_rejected_with_status_2),
    ("invalid_lists_are_rejected_with_status_2", invalid_lists_are_rejected_with_status_2),
];

const ROOT_TESTS: &[harness::Test] = &[
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
    ("without_the_capability_the_error_names_it", without_the_capability_the_error_names_it),
    ("a_thread_that_cannot_start_is_an_error", a_thread_that_cannot_start_is_an_error),
    ("a_command_without_memory_ends", a_command_without_memory_ends),
];

fn stderr_of_rejected(args: &[&str]) -> String {
    let mut command = Command::cargo_bin("weir").expect("the binary is built");
    let output = command.arg("host").args(args).assert().code(2);
    String::from_utf8(output.get_output().stderr.clone()).expect("text")
}

fn invalid_input_is_rejected_with_status_2() {
    let send = ["send", "--iface", "eth77", "--to", "10.0.0.2"];
    let with = |more: &[&str]| stderr_of_rejected(&[&send, more].concat());
    assert!(with(&["--size", "1MB"]).starts_with("error: no network interface \"eth77\"; available: "));
    assert!(with(&["--size", "1MB", "--rate", "10"]).contains("10Mbps"), "an example of a rate");
    assert!(with(&[]).contains("specify --size"));
    assert!(with(&["--size", "1MB", "--flows", "0"]).contains("at least 1"));
    assert!(with(&["--size", "1MB", "--start-at", "soon"]).contains("mono:SECONDS"));
    assert!(with(&["--size", "1MB", "--out", "/nowhere/x.json"]).contains("/nowhere/x.json"));
    assert!(with(&["--size", "1MB", "--peer-mac", "x"]).contains("02:00:0a:00:02:02"));
    let recv = ["recv", "--iface", "lo"];
    assert!(
        stderr_of_rejected(&[&recv[..], &["--scheme", "cubic"]].concat())
            .contains("known schemes: hpcc, hpcc++, fncc")
    );
    assert!(stderr_of_rejected(&[&recv[..], &["--set", "lhcs"]].concat()).contains("PARAMETER=VALUE"));
}

fn invalid_lists_are_rejected_with_status_2() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let list = dir.path().join("flows.yaml");
    fs::write(&list, "- {peer: 10.0.0.2, size: 1}\n").expect("written");
    let path = list.to_str().expect("text");
    assert!(stderr_of_rejected(&["run", "--iface", "lo", "--flows-from", path]).contains("flows.yaml: "));
    assert!(
        stderr_of_rejected(&["run", "--iface", "lo", "--flows-from", "/nowhere.yaml"])
            .contains("/nowhere.yaml")
    );
    let setup = dir.path().join("setup.json");
    fs::write(&setup, r#"{"scheme": "fncc", "rate": "10Mbps"}"#).expect("written");
    let run = ["run", "--iface", "lo", "--setup", setup.to_str().expect("text")];
    let stderr = stderr_of_rejected(&run);
    assert!(stderr.contains("setup.json: missing field `base_rtt`"), "{stderr}");
    assert!(stderr_of_rejected(&[&run[..], &["--scheme", "hpcc"]].concat()).contains("cannot be used with"));
}

/// Returns a command that runs `weir` in a new network namespace with the loopback interface up.
fn unshared(arguments: &str) -> StdCommand {
    let weir = env!("CARGO_BIN_EXE_weir");
    let mut command = StdCommand::new("unshare");
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
    let path = out.to_str().expect("text");
    let child =
        unshared(&format!("weir host recv --iface lo --out {path}")).spawn().expect("unshare is installed");
    sleep(Duration::from_millis(1_500));
    let killed = StdCommand::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("the process exits");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {stderr}", output.status);
    let results: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&out).expect("results are kept")).expect("JSON");
    assert_eq!(results["ended"], "interrupted");
    assert_eq!((&results["addr"], &results["scheme"]), (&"127.0.0.1".into(), &"fncc".into()));
    let remaining: Vec<_> = fs::read_dir(dir.path()).expect("readable").collect();
    assert_eq!(remaining.len(), 1, "no partial file remains");
}

fn results_on_a_full_disk_are_printed_and_leave_no_draft() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let out = dir.path().join("results.json");
    fs::write(&out, "of an earlier run").expect("written");
    let recv = format!("weir host recv --iface lo --for 100ms --out {}", out.display());
    // With this limit every write to a file fails, as on a full disk.
    let output = unshared(&format!("sh -c \"ulimit -f 0; exec {recv}\"")).output().expect("unshare");
    let (printed, message) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("error: ") && message.contains("results.json: "), "{message}");
    assert!(printed.contains("0 frames out, 0 in, 1"), "{printed}");
    assert_eq!(fs::read_to_string(&out).expect("the earlier file is kept"), "of an earlier run");
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 1, "no temporary file remains");
}

/// The process is in its sandbox when it writes the results: it may write only in their directory.
fn results_reach_devices_and_pipes_and_links() {
    let (dir, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let path_of = |name: &str| dir.path().join(name);
    let created = StdCommand::new("mknod").arg(path_of("null")).args(["c", "1", "3"]).status();
    assert!(created.is_ok_and(|status| status.success()));
    let created = StdCommand::new("mkfifo").arg(path_of("pipe")).status();
    assert!(created.is_ok_and(|status| status.success()));
    fs::write(other.path().join("real"), "of an earlier run").expect("written");
    symlink(other.path().join("real"), path_of("link.csv")).expect("made");
    symlink(other.path().join("nothing"), path_of("dangling")).expect("made");
    let reader = std::thread::spawn({
        let pipe = path_of("pipe");
        move || fs::read_to_string(pipe).expect("text")
    });
    let recv = |more: &str| {
        let recv = format!("cd {} && exec weir host recv --iface lo --for 50ms {more}", dir.path().display());
        unshared(&format!("sh -c '{recv}'")).output().expect("unshare is installed")
    };
    for arguments in ["--out null", "--out null --format csv", "--out pipe", "--out link.csv --format csv"] {
        let output = recv(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert!(reader.join().expect("the pipe is written").contains("\"ended\":\"deadline\""));
    let kind = |name: &str| fs::symlink_metadata(path_of(name)).expect("the file remains").file_type();
    assert!(kind("null").is_char_device() && kind("pipe").is_fifo() && kind("link.csv").is_symlink());
    assert!(fs::read_to_string(other.path().join("real")).expect("text").starts_with("flow,peer,"));
    assert!(other.path().join("link-series.csv").exists(), "next to the target of the link");
    assert_eq!(
        fs::read_dir(dir.path()).expect("readable").count(),
        4,
        "no temporary file, and no series for a device"
    );

    let rejected = recv("--out dangling");
    let printed = String::from_utf8_lossy(&rejected.stderr);
    assert!(
        rejected.status.code() == Some(2) && printed.contains("--out dangling: symbolic link"),
        "{printed}"
    );
}

fn a_running_agent_has_no_privileges() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path_of = |name: &str| dir.path().join(name).to_str().expect("text").to_owned();
    fs::write(path_of("key"), [7; 32]).expect("written");
    fs::set_permissions(path_of("key"), fs::Permissions::from_mode(0o600)).expect("changed");
    let (key, state, socket, out) =
        (path_of("key"), path_of("state"), path_of("h1.sock"), path_of("out.json"));
    let policy = format!("--policy-key {key} --policy-state {state} --control {socket}");
    let child =
        unshared(&format!("weir host recv --iface lo --out {out} {policy}")).spawn().expect("unshare");
    sleep(Duration::from_millis(1_500));
    let mut threads = 0;
    for thread in fs::read_dir(format!("/proc/{}/task", child.id())).expect("the process runs").flatten() {
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
    assert!(threads > 2, "there are threads for the socket and the state");
    // The agent still responds, writes its state and results, and removes its socket.
    let set = StdCommand::new(env!("CARGO_BIN_EXE_weir"))
        .args(["policy", "set", "eta=0.9", "--via", &socket])
        .output();
    let set = set.expect("weir runs");
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    let killed = StdCommand::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("the process exits");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut remaining: Vec<_> =
        fs::read_dir(dir.path()).expect("readable").flatten().map(|it| it.file_name()).collect();
    remaining.sort();
    assert_eq!(remaining, ["key", "out.json", "state"]);
}

fn a_switch_attaches_an_interface_again_without_other_privileges() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    // The kernel reports the carrier with a delay. A switch that starts earlier would log `up=true` once more.
    let veth = "ip link add va0 type veth peer name vb0 && ip link set va0 up && ip link set vb0 up && \
                until ip link show va0 | grep -q 'state UP'; do sleep 0.05; done";
    let switch = "weir switch --no-p4 -i 1@va0 --stats --pcap . --log-file log -L info --thrift-addr 127.0.0.1 \
                  --thrift-port 0 -- --grpc-server-addr 127.0.0.1:0";
    let wait_for_log = |count: u32, up: &str| {
        format!("until test \"$(grep -c 'interface=va0 up={up}' log.txt)\" = {count}; do sleep 0.05; done")
    };
    let up = "until grep -q running log.txt; do sleep 0.05; done";
    let script = format!(
        "{veth}; {switch} & {up}; ip link del va0; {}; {veth}; {}; kill $!; wait $!",
        wait_for_log(1, "false"),
        wait_for_log(1, "true")
    );
    let script = script.replace("weir switch", concat!(env!("CARGO_BIN_EXE_weir"), " switch"));
    let output = StdCommand::new("timeout")
        .args(["30", "unshare", "--net", "sh", "-c", &format!("ip link set lo up; {script}")])
        .current_dir(dir.path())
        .output()
        .expect("timeout is installed");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("   1 va0                 up "), "{stdout}");
}

fn without_the_capability_the_error_names_it() {
    let drop = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    // The binary may be in a directory that only root can access.
    let copy = env::temp_dir().join(format!("weir-unprivileged-{}", std::process::id()));
    fs::copy(env!("CARGO_BIN_EXE_weir"), &copy).expect("copied");
    let output = StdCommand::new("sh")
        .args(["-c", &format!("{drop} {} host recv --iface lo --for 1s", copy.display())])
        .output()
        .expect("sh is installed");
    fs::remove_file(&copy).expect("removed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("needs root or CAP_NET_RAW"), "{stderr}");
}

/// Starts commands under a limit of prlimit(1).
struct LimitedUser {
    dir: tempfile::TempDir,
}

impl LimitedUser {
    /// Limits of processes do not apply to root, and count all processes of a user: no other has this one.
    const USER: u32 = 54_321;
    /// Interfaces of a fabric of a star with three hosts, and of a link.
    const SETUP: &str = "ip link set lo up && for n in 1 2 3; do \
                         ip link add s1-eth$n type veth peer name q$n && ip link set s1-eth$n up && ip link set q$n up \
                         || exit 9; done";
    const EXPERIMENT: &str = "topology: {kind: star, hosts: 3, rate: 100Gbps}\nschemes: [hpcc, fncc]\nduration: 100us\n\
                              flows: [{from: h1, to: h3, size: 1MB}, {from: h2, to: h3, size: 1MB}]\n";
    const RUN: &[&str] = &["run", "x.yaml", "--quiet", "--threads", "3"];
    const SWEEP: &[&str] =
        &["sweep", "x.yaml", "--over", "seed=1..3", "--threads", "3", "--out", "sweep", "--quiet"];
    const SWITCH: &[&str] =
        &["switch", "hpcc.json", "--thrift-addr", "127.0.0.1", "--thrift-port", "0", "--"];
    const LINK: &[&str] = &["link", "run", "a=q1,q2,rate=10Mbps"];
    const TABLES: &[&str] = &["controller", "tables", "--topology", "x.yaml", "--grpc-base-port", "1"];
    const WATCH: &[&str] = &[
        "controller",
        "watch",
        "--topology",
        "x.yaml",
        "--program",
        "hpcc.json",
        "--grpc-base-port",
        "1",
        "--timeout",
        "200ms",
        "--for",
        "400ms",
    ];

    fn new() -> LimitedUser {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x.yaml"), Self::EXPERIMENT).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_weir"), dir.path().join("weir")).unwrap();
        for file in ["hpcc.json", "hpcc.p4info.txtpb"] {
            let build = concat!(env!("CARGO_MANIFEST_DIR"), "/../p4src/build");
            fs::copy(format!("{build}/{file}"), dir.path().join(file)).unwrap();
        }
        std::os::unix::fs::chown(dir.path(), Some(Self::USER), Some(Self::USER)).unwrap();
        LimitedUser { dir }
    }

    /// Commands that stay until SIGTERM: a switch, the switches of a fabric, and a link.
    fn servers() -> [Vec<&'static str>; 3] {
        let server = ["--grpc-server-addr", "127.0.0.1:0"];
        let fabric = [&["switch", "--fabric", "x.yaml"], &Self::SWITCH[1..], &server].concat();
        [[Self::SWITCH, &server].concat(), fabric, Self::LINK.to_vec()]
    }

    /// Runs a command. A server gets SIGTERM once it has started. Returns the exit status, `None` after a signal, and
    /// standard error.
    fn run(&self, limit: &str, args: &[&str]) -> (Option<i32>, String) {
        let setpriv = format!(
            "setpriv --reuid {user} --regid {user} --clear-groups --inh-caps -all,+net_raw --ambient-caps -all,+net_raw",
            user = Self::USER
        );
        let script = format!("{} && exec {setpriv} prlimit {limit} ./weir \"$@\"", Self::SETUP);
        let mut command = StdCommand::new("unshare");
        command.args(["--net", "sh", "-c", &script, "sh"]).args(args).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        // Ends with the output of a command, or with the first line of a server that runs.
        let _ = stdout.read_line(&mut line);
        if Self::servers().iter().any(|server| server == args) && !line.is_empty() {
            let killed = StdCommand::new("kill").args(["-TERM", &child.id().to_string()]).status();
            assert!(killed.is_ok_and(|status| status.success()));
        }
        for _ in 0..300 {
            if child.try_wait().unwrap().is_some() {
                let Output { status, stderr, .. } = child.wait_with_output().unwrap();
                return (status.code(), String::from_utf8_lossy(&stderr).into_owned());
            }
            sleep(Duration::from_millis(100));
        }
        child.kill().unwrap();
        panic!("{limit}: {args:?} does not end");
    }
}

/// A limit of processes (`ulimit -u`, the limit of a cgroup) counts threads. Under each limit a command does its work, or
/// ends with an error, and SIGTERM ends a server.
fn a_thread_that_cannot_start_is_an_error() {
    let user = LimitedUser::new();
    let servers = LimitedUser::servers();
    let others = [LimitedUser::RUN, LimitedUser::SWEEP, LimitedUser::TABLES, LimitedUser::WATCH];
    for args in others.into_iter().chain(servers.iter().map(Vec::as_slice)) {
        let outcomes: Vec<_> = (1..=12).map(|limit| user.run(&format!("--nproc={limit}"), args)).collect();
        for (limit, (code, stderr)) in (1..).zip(&outcomes) {
            assert!(matches!(code, Some(0 | 1)), "limit {limit}: {args:?}: {code:?} {stderr}");
            assert!(!stderr.contains("panicked"), "limit {limit}: {args:?}: {stderr}");
            assert!(*code == Some(0) || stderr.contains("error: "), "limit {limit}: {args:?}: {stderr}");
        }
        let too_few = "Resource temporarily unavailable";
        assert!(outcomes[0].1.contains(too_few), "{args:?}: {}", outcomes[0].1);
        // A client has one thread per core.
        assert!(args[0] == "controller" || outcomes[11].0 == Some(0), "{args:?}: {:?}", outcomes[11]);
    }
}

/// A limit of the address space (`ulimit -v`) also counts the stacks of threads. Under each limit a command does its work,
/// ends with an error or is aborted; none hangs, and SIGTERM ends a server.
fn a_command_without_memory_ends() {
    let user = LimitedUser::new();
    let servers = LimitedUser::servers();
    let limit_of = |megabytes: u32| format!("--as={megabytes}000000");
    // What the program itself needs depends on the build.
    let least = (40..400).step_by(4).find(|&it| user.run(&limit_of(it), &["--version"]).0 == Some(0));
    let least = least.expect("400 MB suffice to print the version");
    for args in [LimitedUser::RUN, LimitedUser::WATCH].into_iter().chain(servers.iter().map(Vec::as_slice)) {
        let mut failed_calls = 0;
        for megabytes in (least - 8..least + 56).step_by(8) {
            let limit = limit_of(megabytes);
            let (code, stderr) = user.run(&limit, args);
            let has_failed_call = ["Resource temporarily unavailable", "Cannot allocate memory"]
                .iter()
                .any(|reason| stderr.contains(reason));
            failed_calls += u32::from(has_failed_call);
            let is_expected = match code {
                Some(0) => true,
                // 2: an interface that cannot be opened.
                Some(1 | 2) => stderr.starts_with("error: ") && has_failed_call,
                // The kernel cannot load the program, or an allocation has failed.
                None => stderr.is_empty() || stderr.contains("memory allocation of "),
                Some(127) => stderr.contains("error while loading shared libraries"),
                Some(_) => false,
            };
            assert!(is_expected && !stderr.contains("panicked"), "{limit}: {args:?}: {code:?} {stderr}");
        }
        // A run goes on with fewer threads.
        assert!(failed_calls > 0 || args == LimitedUser::RUN, "{args:?}: choose other limits");
    }
}
