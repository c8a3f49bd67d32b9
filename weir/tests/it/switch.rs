//! `weir switch` as a user sees it: its command line, its files, and its exit.

use assert_cmd::Command;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use weir_switch::driver::{PcapReader, PcapWriter};

/// Time limit of any step, ample for a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(30);

fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build/hpcc.json")
}

fn stderr_of_rejected(arguments: &[&str]) -> String {
    let mut command = Command::cargo_bin("weir").expect("cargo builds the binary before its tests");
    let output = command.arg("switch").args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn wrappers_with_the_names_of_bmv2s_programs_run_the_switch() {
    let directory = tempfile::tempdir().unwrap();
    let install = || {
        let mut command = Command::cargo_bin("weir").unwrap();
        command.args(["switch", "--install-as"]).arg(directory.path()).assert()
    };
    install().success();
    install().success();
    let run = |name: &str, arguments: &[&str]| {
        Command::new(directory.path().join(name)).args(arguments).output().expect("the wrapper starts")
    };
    for name in ["simple_switch_grpc", "simple_switch"] {
        assert_eq!(run(name, &["--json-version"]).stdout, b"2.23\n");
    }
    // Options of the target follow `--`, whether the caller or the wrapper adds it.
    let rejected = run("simple_switch", &["--no-p4", "--", "--priority-queues", "9"]);
    assert!(String::from_utf8_lossy(&rejected.stderr).contains("9 is not in 1..=8"));
    let rejected = run("simple_switch", &["--no-p4", "--fabric", "absent.yaml"]);
    assert!(String::from_utf8_lossy(&rejected.stderr).contains("absent.yaml"));
    fs::write(directory.path().join("simple_switch"), "something else").unwrap();
    install().code(2);
}

/// Another test may listen on the default port of P4Runtime.
const FREE_PORT: [&str; 3] = ["--", "--grpc-server-addr", "127.0.0.1:0"];

#[test]
fn an_invalid_command_line_is_rejected_with_the_reason() {
    for (arguments, expected) in [
        (&["--bogus"][..], "--bogus"),
        (&["--no-p4", "--", "--bogus"], "--bogus"),
        (&["--no-p4", "--cpu-port", "255"], "--cpu-port"),
        (&["--no-p4", "--", "--cpu-port", "0"], "0 is not in 1..=511"),
        (&["--no-p4", "--", "--cpu-port", "511"], "CPU port and drop port must differ"),
        (&["--no-p4", "--", "--priority-queues", "9"], "9 is not in 1..=8"),
        (&["--no-p4", "--", "--dp-grpc-server-addr", "x"], "--dp-grpc-server-addr"),
        (&["--no-p4", "--", "--grpc-server-ssl"], "--grpc-server-cert"),
        (&["--no-p4", "--", "--grpc-server-addr", "nowhere"], "--grpc-server-addr nowhere: "),
        (&["--no-p4", "--", "--grpc-server-addr", "192.0.2.1:9559"], "choose another address and port"),
        (
            &[
                "--no-p4",
                "--",
                "--grpc-server-ssl",
                "--grpc-server-cert",
                "x",
                "--grpc-server-key",
                "y",
                "--grpc-server-with-client-auth",
            ],
            "--grpc-server-cacert",
        ),
        (
            &[
                "--no-p4",
                "--",
                "--grpc-server-ssl",
                "--grpc-server-cert",
                "absent.pem",
                "--grpc-server-key",
                "y",
            ],
            "--grpc-server-cert absent.pem: ",
        ),
        (
            &[
                "--no-p4",
                "--",
                "--grpc-server-addr",
                "127.0.0.1:0",
                "--grpc-server-ssl",
                "--grpc-server-cert",
                "Cargo.toml",
                "--grpc-server-key",
                "Cargo.toml",
            ],
            "over TLS",
        ),
        (&["--no-p4", "--debugger"], "weir trace"),
        (&["--no-p4", "--restore-state", "x"], "--restore-state"),
        (&["--no-p4", "--log-console", "--log-file", "x"], "cannot be used with"),
        (&["--no-p4", "-L", "loud"], "loud"),
        (&["-i", "veth0", "--no-p4"], "PORT@INTERFACE"),
        (&[&["-i", "1@no-such-if", "--no-p4"], &FREE_PORT[..]].concat(), "interface no-such-if"),
        (&[&["-i", "511@lo", "--no-p4"], &FREE_PORT[..]].concat(), "invalid port number"),
        (&[&["--use-files", "0", "-i", "1@absent", "--no-p4"], &FREE_PORT[..]].concat(), "absent_in.pcap"),
        (&[], "specify a program"),
        (&["absent.json"], "absent.json"),
    ] {
        let stderr = stderr_of_rejected(arguments);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

#[test]
fn a_thrift_port_in_use_is_rejected() {
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let stderr =
        stderr_of_rejected(&["--no-p4", "--thrift-port", &port, "--", "--grpc-server-addr", "127.0.0.1:0"]);
    assert!(stderr.contains(&format!("--thrift-port {port}: ")), "{stderr}");
}

#[test]
fn versions_are_printed() {
    for (flag, expected) in [("--json-version", "2.23"), ("-v", env!("CARGO_PKG_VERSION"))] {
        let output = Command::cargo_bin("weir").unwrap().args(["switch", flag]).output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8(output.stdout).unwrap().contains(expected));
    }
}

/// A switch process, killed when dropped.
struct RunningSwitch(Child);

impl RunningSwitch {
    fn start(directory: &Path, arguments: &[&str]) -> RunningSwitch {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("weir"));
        // Tests run concurrently, so each server uses any free port.
        command
            .current_dir(directory)
            .args(["switch", "--thrift-addr", "127.0.0.1", "--thrift-port", "0"])
            .args(arguments)
            .arg(program());
        command.args(["--", "--grpc-server-addr", "127.0.0.1:0"]);
        RunningSwitch(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Returns the addresses of its P4Runtime and Thrift servers, once they are served.
    fn addresses(&mut self) -> [String; 2] {
        let mut stdout = BufReader::new(self.0.stdout.as_mut().unwrap());
        [(), ()].map(|()| {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            assert!(line.contains("erver listening on "), "{line}");
            line.trim().rsplit(' ').next().unwrap().to_owned()
        })
    }

    /// Sends a signal, and waits for the process. Returns exit status, stdout and stderr.
    fn stop(self, signal: &str) -> (Option<i32>, String, String) {
        let pid = self.0.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.finish()
    }

    /// Waits for the process. Returns exit status, stdout and stderr.
    fn finish(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.0.wait().unwrap().code(), out, err)
    }
}

impl Drop for RunningSwitch {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a switch with these options, stops it once it serves, and returns its warnings.
fn warnings(options: &[&str]) -> String {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("weir"));
    command.arg("switch").args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut switch = RunningSwitch(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(switch.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("Server listening on "), "{line}");
    let _ = switch.0.kill();
    let mut warnings = String::new();
    switch.0.stderr.take().unwrap().read_to_string(&mut warnings).unwrap();
    warnings
}

#[test]
fn servers_that_anyone_can_reach_cause_warnings() {
    let local = ["--no-p4", "--thrift-addr", "127.0.0.1", "--thrift-port", "0", "--", "--grpc-server-addr"];
    assert_eq!(warnings(&[&local[..], &["127.0.0.1:0"]].concat()), "");
    assert_eq!(warnings(&[&local[..], &["[::1]:0"]].concat()), "");
    let open = warnings(&[&local[..], &["0.0.0.0:0"]].concat());
    assert!(open.starts_with("warning: P4Runtime is served on 0.0.0.0:"), "{open}");
    assert!(open.contains("without TLS") && open.contains("--grpc-server-addr 127.0.0.1:"), "{open}");
    assert_eq!(open.lines().count(), 1, "{open}");
    let open = warnings(&["--no-p4", "--thrift-port", "0", "--", "--grpc-server-addr", "127.0.0.1:0"]);
    assert!(open.starts_with("warning: Thrift is served on 0.0.0.0:"), "{open}");
    assert!(open.contains("--thrift-addr 127.0.0.1"), "{open}");
}

#[test]
fn an_expired_certificate_causes_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = (dir.path().join("server.pem"), dir.path().join("server.key"));
    for (until, expired) in [(2020, true), (4000, false)] {
        let pair = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["switch.test".into()]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
        fs::write(&key, pair.serialize_pem()).unwrap();
        let printed = warnings(&[
            "--no-p4",
            "--thrift-addr",
            "127.0.0.1",
            "--thrift-port",
            "0",
            "--",
            "--grpc-server-addr",
            "0.0.0.0:0",
            "--grpc-server-ssl",
            "--grpc-server-cert",
            certificate.to_str().unwrap(),
            "--grpc-server-key",
            key.to_str().unwrap(),
        ]);
        assert_eq!(printed.contains("server.pem: it expired "), expired, "{printed}");
        assert_eq!(printed.is_empty(), !expired, "{printed}");
    }
}

/// Returns the value of a key in the status of each thread of a process (proc_pid_status(5)).
fn thread_status(process: u32, key: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
    let value = |status: String| {
        let line =
            status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap().to_owned();
        line.trim().to_owned()
    };
    status.map(value).collect()
}

#[test]
fn a_running_switch_keeps_only_the_privilege_to_open_raw_sockets() {
    const NET_RAW: u64 = 1 << 13; // linux/capability.h
    let directory = tempfile::tempdir().unwrap();
    write_input(directory.path(), "e1", 1);
    let mut switch = RunningSwitch::start(directory.path(), &["--use-files", "0", "-i", "1@e1"]);
    let mut line = String::new();
    BufReader::new(switch.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let process = switch.0.id();
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        for capabilities in thread_status(process, set) {
            assert_eq!(u64::from_str_radix(&capabilities, 16).unwrap() & !NET_RAW, 0, "{set} {capabilities}");
        }
    }
    let threads = thread_status(process, "NoNewPrivs");
    assert!(threads.len() > 3 && threads.iter().all(|it| it == "1"), "{threads:?}");
    let filtered = thread_status(process, "Seccomp");
    assert!(filtered.iter().all(|it| it == "2"), "{filtered:?}");
    assert_eq!(switch.stop("-TERM").0, Some(0));
}

/// Writes a capture with `count` frames of 100 bytes that are not IP.
fn write_input(directory: &Path, interface: &str, count: u64) {
    let path = directory.join(format!("{interface}_in.pcap"));
    let mut file = PcapWriter::create(&path, u64::MAX).unwrap();
    for n in 0..count {
        assert!(file.write(Duration::from_secs(n), &[n as u8; 100]).unwrap());
    }
    file.flush().unwrap();
}

fn wait_for(mut is_done: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_done() {
        assert!(Instant::now() < end, "not done within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_switch_on_files_exits_cleanly_on_either_signal() {
    for signal in ["-TERM", "-INT"] {
        let directory = tempfile::tempdir().unwrap();
        write_input(directory.path(), "e1", 5);
        write_input(directory.path(), "e2", 0);
        let sockets = tempfile::tempdir().unwrap();
        let socket = sockets.path().join("notifications.ipc");
        let notifications = format!("ipc://{}", socket.display());
        let flags =
            ["--use-files", "0", "-i", "1@e1", "-i", "2@e2", "--stats", "--log-file", "log", "-L", "info"];
        let flags = [&flags[..], &["--notifications-addr", &notifications]].concat();
        let switch = RunningSwitch::start(directory.path(), &flags);
        let log = directory.path().join("log.txt");
        wait_for(|| {
            fs::read_to_string(&log).is_ok_and(|log| log.contains("all input files have been replayed"))
        });
        assert!(socket.exists());
        let (status, out, err) = switch.stop(signal);
        assert_eq!((status, err.as_str()), (Some(0), ""), "{signal}");
        assert!(!socket.exists(), "the switch leaves its notifications socket behind");
        assert!(
            out.contains("switch: 5 received, 0 copied, 0 sent, 0 queued; dropped: ingress_drop 5"),
            "{out}"
        );
        let mut frame = Vec::new();
        let mut written = PcapReader::open(&directory.path().join("e2_out.pcap")).unwrap();
        assert_eq!(written.read(&mut frame).unwrap(), None);
        let log = fs::read_to_string(log).unwrap();
        assert!(log.lines().all(|line| line.contains("] [weir] [I] [thread ")), "{log}");
    }
}

#[test]
fn every_packet_is_logged_in_files_of_limited_size() {
    let directory = tempfile::tempdir().unwrap();
    write_input(directory.path(), "e1", 200);
    let flags = [
        "--use-files",
        "0",
        "-i",
        "1@e1",
        "--log-file",
        "log",
        "--dump-packet-data",
        "4",
        "--log-file-max-size",
        "10000",
        "--log-file-max-files",
        "2",
        "--nanolog",
        "ipc:///tmp/x",
    ];
    let switch = RunningSwitch::start(directory.path(), &flags);
    wait_for(|| directory.path().join("log.2.txt").exists());
    let (status, _, err) = switch.stop("-TERM");
    assert_eq!(status, Some(0));
    assert!(err.contains("--nanolog is ignored"), "{err}");
    let mut logs = Vec::new();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            assert!(fs::metadata(&path).unwrap().len() <= 10_000);
            logs.push(path);
        }
    }
    assert_eq!(logs.len(), 3, "{logs:?}");
    let newest = fs::read_to_string(directory.path().join("log.1.txt")).unwrap();
    assert!(newest.contains("port 1 received 100 bytes: ["), "{newest}");
    assert!(newest.contains("[T]"), "the packet's path: {newest}");
}

#[test]
fn a_full_disk_ends_the_log_and_not_the_switch() {
    let directory = tempfile::tempdir().unwrap();
    write_input(directory.path(), "e1", 200);
    // The limit of 8 blocks per file is less than the log of 200 packets. Standard error is not read.
    let weir = assert_cmd::cargo::cargo_bin!("weir").display().to_string();
    let options =
        "switch --use-files 0 -i 1@e1 --stats --log-file log --thrift-addr 127.0.0.1 --thrift-port 0";
    let servers = "-- --grpc-server-addr 127.0.0.1:0";
    let program = program().display().to_string();
    let script = format!("trap '' XFSZ; ulimit -f 8; exec '{weir}' {options} '{program}' {servers}");
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(directory.path()).args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let switch = RunningSwitch(shell.spawn().unwrap());
    let log = directory.path().join("log.txt");
    wait_for(|| fs::metadata(&log).is_ok_and(|metadata| metadata.len() >= 4_000));
    std::thread::sleep(Duration::from_secs(1));
    let (status, out, err) = switch.stop("-TERM");
    assert_eq!(status, Some(0));
    assert!(out.contains("switch: 200 received"), "{out}");
    assert!(err.starts_with("warning: --log-file log: ") && err.lines().count() == 1, "{err}");
    assert!(fs::metadata(&log).unwrap().len() <= 8 * 1024);
}

/// Calls a method without arguments of Thrift's service `standard`. Returns the reply.
fn thrift_reply(address: &str, method: &str) -> Vec<u8> {
    const CALL: u32 = 0x8001_0001; // version 1 of the binary protocol
    const SEQUENCE: u32 = 7;
    const STOP: u8 = 0;
    let name = format!("standard:{method}");
    let mut message = [CALL.to_be_bytes(), (name.len() as u32).to_be_bytes()].concat();
    message.extend(name.as_bytes());
    message.extend(SEQUENCE.to_be_bytes());
    message.push(STOP);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(&message).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    reply
}

#[test]
fn digests_are_published_at_bmv2s_default_address() {
    // No other process has this device id.
    let device = 9_000_000_000 + u64::from(std::process::id());
    let directory = tempfile::tempdir().unwrap();
    let mut switch = RunningSwitch::start(directory.path(), &["--device-id", &device.to_string()]);
    let [_, thrift] = switch.addresses();
    let socket = format!("/tmp/bmv2-{device}-notifications.ipc");
    let info = thrift_reply(&thrift, "bm_mgmt_get_info");
    let address = format!("ipc://{socket}");
    assert!(info.windows(address.len()).any(|part| part == address.as_bytes()), "{info:?}");
    let mut subscriber = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    subscriber.set_read_timeout(Some(TIMEOUT)).unwrap();
    // The headers of a subscriber and of a publisher (nanomsg RFC sp-ipc-mapping-01).
    subscriber.write_all(b"\0SP\0\0\x21\0\0").unwrap();
    let mut header = [0; 8];
    subscriber.read_exact(&mut header).unwrap();
    assert_eq!(&header, b"\0SP\0\0\x20\0\0");
    assert_eq!(switch.stop("-TERM").0, Some(0));
    assert!(!Path::new(&socket).exists());
}

#[test]
fn a_saved_state_is_restored_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    // The reply is a message header, and a struct with one string.
    let state = |thrift: &str| {
        let reply = thrift_reply(thrift, "bm_serialize_state");
        let start = reply.iter().position(|&byte| byte == b'{').expect("JSON");
        String::from_utf8(reply[start..reply.len() - 1].to_vec()).unwrap()
    };
    let mut switch = RunningSwitch::start(directory.path(), &[]);
    let [p4runtime, thrift] = switch.addresses();
    let empty = state(&thrift);
    fs::write(directory.path().join("fabric.yaml"), "{kind: star, hosts: 3}").unwrap();
    let mut apply = Command::cargo_bin("weir").unwrap();
    apply.current_dir(directory.path()).args([
        "controller",
        "apply",
        "--topology",
        "fabric.yaml",
        "--program",
    ]);
    apply.arg(program()).arg(format!("--switch=s1={p4runtime}")).assert().success();
    let saved = state(&thrift);
    assert!(saved.len() > empty.len(), "{saved}");
    assert_eq!(switch.stop("-TERM").0, Some(0));

    fs::write(directory.path().join("state"), &saved).unwrap();
    let mut switch = RunningSwitch::start(directory.path(), &["--restore-state", "state"]);
    let [_, thrift] = switch.addresses();
    assert_eq!(state(&thrift), saved);
    assert_eq!(switch.stop("-TERM").0, Some(0));

    fs::write(directory.path().join("state"), &saved[1..]).unwrap();
    let switch = RunningSwitch::start(directory.path(), &["--restore-state", "state"]);
    let output = switch.finish();
    assert_eq!(output.0, Some(2));
    assert!(output.2.contains("error: state: the saved state is not JSON"), "{}", output.2);
}

#[test]
fn events_of_the_http2_library_are_not_logged() {
    let directory = tempfile::tempdir().unwrap();
    let mut switch = RunningSwitch::start(directory.path(), &["--log-file", "log", "-L", "trace"]);
    // The first line of the output ends with the server's address.
    let mut line = String::new();
    BufReader::new(switch.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    // HTTP/2's preface and an empty SETTINGS frame (RFC 9113, sections 3.4 and 6.5), which the server answers.
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    client.read_exact(&mut [0; 9]).unwrap();
    let (status, ..) = switch.stop("-TERM");
    assert_eq!(status, Some(0));
    let log = fs::read_to_string(directory.path().join("log.txt")).unwrap();
    assert!(log.contains("running"), "{log}");
    assert!(!log.to_lowercase().contains("settings"), "{log}");
}
