//! `weir fabric`: starts fabrics without Mininet, and removes them without leftovers.

use super::lab::{FABRIC, output_text, program, signal};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A network namespace for the switches, and a temporary directory.
struct TestNetns {
    name: String,
    dir: tempfile::TempDir,
}

impl TestNetns {
    fn new() -> TestNetns {
        let netns = TestNetns {
            name: format!("wfab{}", std::process::id()),
            dir: tempfile::tempdir().expect("a directory"),
        };
        fs::write(netns.dir.path().join("fabric.yaml"), FABRIC).expect("written");
        for arguments in
            [["netns", "add", &netns.name].to_vec(), ["-n", &netns.name, "link", "set", "lo", "up"].to_vec()]
        {
            let output = Command::new("ip").args(&arguments).output().expect("iproute2 is installed");
            assert!(output.status.success(), "{}", output_text(&output));
        }
        netns
    }

    /// Returns a command that runs `weir` in this network namespace. Names of namespaces that it creates are visible to
    /// the whole machine.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.name))
            .arg(env!("CARGO_BIN_EXE_weir"))
            .args(arguments);
        command.current_dir(self.dir.path());
        command
    }

    /// Returns the command `weir fabric TASK` for the fabric named after this namespace with a suffix.
    fn fabric(&self, suffix: &str, task: &str, arguments: &[&str]) -> Command {
        let name = format!("{}{suffix}", self.name);
        self.command(&[&["fabric", task, "--name", &name], arguments].concat())
    }

    fn weir(&self, task: &str, arguments: &[&str]) -> Output {
        self.fabric("", task, arguments).output().expect("nsenter is installed")
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.dir.path().join(file), text).expect("written");
    }

    /// Creates a network namespace that does not belong to a fabric.
    fn add_foreign(&self, host: &str) {
        let name = format!("{}-{host}", self.name);
        for arguments in
            [vec!["netns", "add", &name], vec!["-n", &name, "addr", "add", "192.0.2.1/32", "dev", "lo"]]
        {
            let output = Command::new("ip").args(&arguments).output().expect("iproute2 is installed");
            assert!(output.status.success(), "{}", output_text(&output));
        }
    }

    /// Removes the foreign namespace, after checking that it is unchanged.
    fn remove_foreign(&self, host: &str) {
        let name = format!("{}-{host}", self.name);
        let shown = Command::new("ip").args(["-n", &name, "addr", "show", "lo"]).output().expect("iproute2");
        assert!(output_text(&shown).contains("192.0.2.1"), "{}", output_text(&shown));
        let removed = Command::new("ip").args(["netns", "del", &name]).output().expect("iproute2");
        assert!(removed.status.success(), "{}", output_text(&removed));
    }

    /// Runs `fabric up` with a wrapper of `ip` that executes the shell commands `before` and `after` around the
    /// creation of the namespace of `host`.
    fn up_with_ip(&self, host: &str, before: &str, after: &str) -> Output {
        use std::os::unix::fs::PermissionsExt;
        let bin = self.dir.path().join("bin");
        fs::create_dir_all(&bin).expect("a directory");
        let script = format!(
            "#!/bin/sh\nPATH=${{PATH#*:}}\ninput=$(cat)\nadd='netns add {}-{host}'\n\
             case $input in $add) {before} ;; esac\nprintf '%s\\n' \"$input\" | ip \"$@\"\nstatus=$?\n\
             case $input in $add) {after} ;; esac\nexit $status\n",
            self.name
        );
        fs::write(bin.join("ip"), script).expect("written");
        fs::set_permissions(bin.join("ip"), fs::Permissions::from_mode(0o755)).expect("a program");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("set"));
        self.fabric("", "up", &["fabric.yaml"]).env("PATH", path).output().expect("nsenter is installed")
    }

    fn ping(&self, suffix: &str, host: &str, to: &str) {
        let ping = ["--", "ping", "-c", "2", "-W", "5", to];
        let ping = self.fabric(suffix, "exec", &[&[host], &ping[..]].concat()).output().expect("nsenter");
        assert!(ping.status.success() && output_text(&ping).contains("2 received"), "{}", output_text(&ping));
    }

    fn assert_clean(&self) {
        let remaining: Vec<_> =
            fs::read_dir("/run/netns").expect("made above").flatten().map(|it| it.file_name()).collect();
        let created =
            remaining.iter().filter(|name| name.to_string_lossy().starts_with(&format!("{}-", self.name)));
        assert_eq!(created.count(), 0, "{remaining:?}");
        assert!(!Path::new("/run/weir").join(format!("{}.json", self.name)).exists());
        let pids = Command::new("ip").args(["netns", "pids", &self.name]).output().expect("iproute2");
        assert!(pids.stdout.is_empty(), "{}", output_text(&pids));
        let links = Command::new("ip").args(["-n", &self.name, "-br", "link"]).output().expect("iproute2");
        assert_eq!(
            String::from_utf8_lossy(&links.stdout).lines().count(),
            1,
            "only lo: {}",
            output_text(&links)
        );
    }
}

impl Drop for TestNetns {
    fn drop(&mut self) {
        // Removes what a failed test has left.
        for suffix in ["", "-b"] {
            let _ = self.fabric(suffix, "down", &[]).output();
        }
        let remaining = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let remaining = remaining.map(|it| it.file_name().to_string_lossy().into_owned());
        for name in remaining.filter(|name| name.starts_with(&self.name)) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

pub(crate) fn a_fabric_comes_up_without_mininet_and_leaves_nothing() {
    let netns = TestNetns::new();
    let program = program();
    let program = program.to_str().expect("text");
    let up = netns.weir("up", &["fabric.yaml", "--program", program]);
    assert!(
        up.status.success() && output_text(&up).contains("4 switches, 2 hosts up"),
        "{}",
        output_text(&up)
    );
    // The commands that it prints are those for this fabric.
    for command in ["weir fabric exec h1 --name ", "weir fabric down --name "] {
        assert!(output_text(&up).contains(&format!("{command}{}", netns.name)), "{}", output_text(&up));
    }
    let again = netns.weir("up", &["fabric.yaml"]);
    assert_eq!(again.status.code(), Some(2), "{}", output_text(&again));
    let ping = netns.weir("exec", &["h1", "--", "ping", "-c", "2", "-W", "5", "10.0.2.1"]);
    assert!(ping.status.success() && output_text(&ping).contains("ttl=61"), "{}", output_text(&ping));
    let nobody = netns.weir("exec", &["h9", "--", "true"]);
    assert_eq!(nobody.status.code(), Some(2), "{}", output_text(&nobody));
    let down = netns.weir("down", &[]);
    assert!(down.status.success(), "{}", output_text(&down));
    netns.assert_clean();
    let down = netns.weir("down", &[]);
    assert!(
        down.status.code() == Some(2) && output_text(&down).contains("unknown fabric"),
        "{}",
        output_text(&down)
    );

    let failed = netns.weir("up", &["fabric.yaml", "--", "--bogus"]);
    assert!(
        failed.status.code() == Some(1) && output_text(&failed).contains("--bogus"),
        "{}",
        output_text(&failed)
    );
    netns.assert_clean();
    let failed = netns.weir("up", &["fabric.yaml", "--program", "nowhere.json"]);
    assert!(
        failed.status.code() == Some(2) && output_text(&failed).contains("nowhere"),
        "{}",
        output_text(&failed)
    );
    netns.assert_clean();

    // Interrupts `up` after it has created the record.
    let child =
        netns.fabric("", "up", &["fabric.yaml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("nsenter is installed");
    while !Path::new("/run/weir").join(format!("{}.json", netns.name)).exists() {
        sleep(Duration::from_millis(1));
    }
    signal(&child, "-INT");
    let ended = child.wait_with_output().expect("the process exits");
    assert_eq!(ended.status.code(), Some(130), "{}", output_text(&ended));
    netns.assert_clean();
}

/// Only objects that a fabric has created are removed with it, however `up` ends.
pub(crate) fn a_fabric_leaves_namespaces_of_others_alone() {
    let netns = TestNetns::new();
    let h2 = format!("{}-h2", netns.name);
    netns.add_foreign("h2");
    let rejected = netns.weir("up", &["fabric.yaml"]);
    assert_eq!(rejected.status.code(), Some(2), "{}", output_text(&rejected));
    assert!(
        output_text(&rejected).contains(&format!("network namespace {h2} already exists")),
        "{}",
        output_text(&rejected)
    );
    netns.remove_foreign("h2");
    netns.assert_clean();

    // Another process creates the namespace of h2 just before the fabric would, after that of h1.
    let foreign = format!("ip netns add {h2}; ip -n {h2} addr add 192.0.2.1/32 dev lo");
    let failed = netns.up_with_ip("h2", &foreign, ":");
    assert_eq!(failed.status.code(), Some(1), "{}", output_text(&failed));
    assert!(output_text(&failed).contains("File exists"), "{}", output_text(&failed));
    netns.remove_foreign("h2");
    netns.assert_clean();

    // `up` is killed when the namespace of h2 is created but not yet recorded, so its owner is unknown.
    let killed = netns.up_with_ip("h2", ":", "kill -KILL $PPID");
    assert_eq!(killed.status.code(), None, "{}", output_text(&killed));
    let down = netns.weir("down", &[]);
    assert!(down.status.success(), "{}", output_text(&down));
    assert!(
        output_text(&down).contains(&format!("warning: network namespace {h2} not removed")),
        "{}",
        output_text(&down)
    );
    let removed = Command::new("ip").args(["netns", "del", &h2]).output().expect("iproute2");
    assert!(removed.status.success(), "{}", output_text(&removed));
    netns.assert_clean();

    // Another process has replaced a namespace of the fabric.
    assert!(netns.weir("up", &["fabric.yaml"]).status.success());
    let removed = Command::new("ip").args(["netns", "del", &h2]).output().expect("iproute2");
    assert!(removed.status.success(), "{}", output_text(&removed));
    netns.add_foreign("h2");
    let down = netns.weir("down", &[]);
    assert!(down.status.success(), "{}", output_text(&down));
    netns.remove_foreign("h2");
    netns.assert_clean();
}

/// While something is mounted on the file of a namespace, the file cannot be removed. An attempt undoes one mount.
pub(crate) fn a_namespace_that_is_busy_is_removed_by_the_next_attempt() {
    let netns = TestNetns::new();
    let up = netns.weir("up", &["fabric.yaml"]);
    assert!(up.status.success(), "{}", output_text(&up));
    let file = format!("/run/netns/{}-h2", netns.name);
    for _ in 0..2 {
        let mounted = Command::new("mount").args(["--bind", &file, &file]).output().expect("mount");
        assert!(mounted.status.success(), "{}", output_text(&mounted));
    }
    let down = netns.weir("down", &[]);
    assert!(down.status.success(), "{}", output_text(&down));
    netns.assert_clean();
}

/// Host b-h1 of a fabric x and host h1 of a fabric x-b would have the same namespace, x-b-h1.
pub(crate) fn two_fabrics_do_not_share_a_namespace() {
    let netns = TestNetns::new();
    netns.write(
        "a.yaml",
        "{kind: custom, rate: 10Mbps, hosts: [b-h1, h2], switches: [s1], links: [[b-h1, s1], [h2, s1]]}",
    );
    netns.write(
        "b.yaml",
        "{kind: custom, rate: 10Mbps, hosts: [h1, h2], switches: [t1], links: [[h1, t1], [h2, t1]]}",
    );
    let program = program();
    let up = netns.weir("up", &["a.yaml", "--program", program.to_str().expect("text")]);
    assert!(up.status.success(), "{}", output_text(&up));
    let rejected = netns.fabric("-b", "up", &["b.yaml"]).output().expect("nsenter");
    assert_eq!(rejected.status.code(), Some(2), "{}", output_text(&rejected));
    let expected_owner =
        format!("namespace {name}-b-h1 already exists (owned by fabric \"{name}\")", name = netns.name);
    assert!(output_text(&rejected).contains(&expected_owner), "{}", output_text(&rejected));
    let down = netns.fabric("-b", "down", &[]).output().expect("nsenter");
    assert_eq!(down.status.code(), Some(2), "{}", output_text(&down));
    netns.ping("", "b-h1", "10.0.1.2");
    assert!(netns.weir("down", &[]).status.success());
    netns.assert_clean();
}

/// A program is loaded only into the fabric's own switches, even if another process listens on their ports.
pub(crate) fn a_second_fabric_does_not_write_into_the_first() {
    let netns = TestNetns::new();
    let links = |a: &str, b: &str, s: &str, t: &str| {
        format!(
            "{{kind: custom, rate: 10Mbps, hosts: [{a}, {b}], switches: [{s}, {t}], links: [[{s}, {t}], [{a}, {s}], [{b}, {t}]]}}"
        )
    };
    netns.write("a.yaml", &links("h1", "h2", "s1", "s2"));
    netns.write("b.yaml", &links("x1", "x2", "t1", "t2"));
    let program = program();
    let dart = program.with_file_name("dart.json");
    let (program, dart) = (program.to_str().expect("text"), dart.to_str().expect("text"));
    let up = netns.weir("up", &["a.yaml", "--program", program]);
    assert!(up.status.success(), "{}", output_text(&up));
    let tables =
        || netns.command(&["controller", "tables", "--topology", "a.yaml", "s1"]).output().expect("nsenter");
    let before = output_text(&tables());

    let b = |arguments: &[&str]| {
        netns.fabric("-b", "up", &[&["b.yaml", "--program", dart], arguments].concat()).output()
    };
    let same = netns.fabric("-b", "up", &["a.yaml"]).output().expect("nsenter");
    assert_eq!(same.status.code(), Some(2), "{}", output_text(&same));
    assert!(
        output_text(&same).contains(&format!("fabrics in this network namespace: {})", netns.name)),
        "{}",
        output_text(&same)
    );
    let rejected = b(&[]).expect("nsenter");
    assert_eq!(rejected.status.code(), Some(2), "{}", output_text(&rejected));
    let expected = format!(
        "P4Runtime ports 50051 to 50052 are in use by fabric {}; use --grpc-base-port 50053",
        netns.name
    );
    assert!(output_text(&rejected).contains(&expected), "{}", output_text(&rejected));
    let rejected = b(&["--grpc-base-port", "50053"]).expect("nsenter");
    assert_eq!(rejected.status.code(), Some(2), "{}", output_text(&rejected));
    assert!(output_text(&rejected).contains("use --thrift-base-port 9092"), "{}", output_text(&rejected));
    netns.ping("", "h1", "10.0.2.1");
    assert_eq!(output_text(&tables()), before);

    let up = b(&["--grpc-base-port", "50053", "--thrift-base-port", "9092"]).expect("nsenter");
    assert!(
        up.status.success() && output_text(&up).contains("P4Runtime from 127.0.0.1:50053"),
        "{}",
        output_text(&up)
    );
    netns.ping("-b", "x1", "10.0.2.1");
    netns.ping("", "h1", "10.0.2.1");
    assert_eq!(output_text(&tables()), before);
    assert!(netns.fabric("-b", "down", &[]).output().expect("nsenter").status.success());
    netns.ping("", "h1", "10.0.2.1");
    assert!(netns.weir("down", &[]).status.success());
    netns.assert_clean();

    // A switch that belongs to no fabric uses a P4Runtime port of the fabric, then a Thrift port.
    for (grpc, thrift) in [("50052", "9190"), ("50152", "9091")] {
        let server = format!("--grpc-server-addr=127.0.0.1:{grpc}");
        let mut foreign =
            netns.command(&["switch", "--no-p4", "--device-id", "1", "--thrift-port", thrift, "--", &server]);
        let mut foreign = foreign.stdout(Stdio::piped()).spawn().expect("nsenter is installed");
        // The pipe must have a reader, or the switch would exit.
        let mut lines = BufReader::new(foreign.stdout.take().expect("piped")).lines();
        let line = lines.next().expect("a line").expect("text");
        assert!(line.contains("Server listening on"), "{line}");
        let failed = netns.weir("up", &["a.yaml", "--program", program]);
        assert_eq!(failed.status.code(), Some(1), "{}", output_text(&failed));
        assert!(
            output_text(&failed).contains("in use") && output_text(&failed).contains("--grpc-base-port"),
            "{}",
            output_text(&failed)
        );
        let base = format!("--grpc-base-port={}", grpc.parse::<u16>().expect("a number") - 1);
        let tables = netns
            .command(&["controller", "tables", "--topology", "a.yaml", &base, "s2"])
            .output()
            .expect("nsenter");
        assert!(output_text(&tables).contains("no program"), "{}", output_text(&tables));
        signal(&foreign, "-TERM");
        foreign.wait().expect("the process exits");
        netns.assert_clean();
    }
}

/// A killed process of switches leaves namespaces and interfaces, and says nothing itself.
pub(crate) fn switches_that_were_killed_are_reported() {
    let netns = TestNetns::new();
    assert!(netns.weir("up", &["fabric.yaml"]).status.success());
    let again = output_text(&netns.weir("up", &["fabric.yaml"]));
    assert!(again.contains("already exists; remove it with `weir fabric down"), "{again}");
    let record = fs::read_to_string(format!("/run/weir/{}.json", netns.name)).expect("a record");
    let (_, process) = record.split_once("\"process\":[").expect("the process of the switches");
    let pid = process.split(',').next().expect("its number");
    assert!(Command::new("kill").args(["-KILL", pid]).status().expect("kill").success());
    sleep(Duration::from_millis(200));
    let exec = netns.weir("exec", &["h1", "--", "true"]);
    assert!(exec.status.success() && output_text(&exec).contains("have ended"), "{}", output_text(&exec));
    let again = netns.weir("up", &["fabric.yaml"]);
    assert_eq!(again.status.code(), Some(2), "{}", output_text(&again));
    assert!(output_text(&again).contains("its switches have ended: "), "{}", output_text(&again));
    let down = netns.weir("down", &[]);
    assert!(
        down.status.success() && output_text(&down).contains("had ended before"),
        "{}",
        output_text(&down)
    );
    netns.assert_clean();
    // And a fabric that is stopped as it should be has no warning.
    assert!(netns.weir("up", &["fabric.yaml"]).status.success());
    let down = output_text(&netns.weir("down", &[]));
    assert!(!down.contains("warning"), "{down}");
    netns.assert_clean();
}

/// `down` handles malformed records, and `up` never leaves a truncated one.
pub(crate) fn a_malformed_state_is_removed_and_reported() {
    let netns = TestNetns::new();
    let file = Path::new("/run/weir").join(format!("{}.json", netns.name));
    fs::create_dir_all("/run/weir").expect("a directory");
    for damaged in ["", "{\"name\": \"x\", "] {
        fs::write(&file, damaged).expect("written");
        let up = netns.weir("up", &["fabric.yaml"]);
        assert!(
            up.status.code() == Some(2) && output_text(&up).contains("weir fabric down --name"),
            "{}",
            output_text(&up)
        );
        let exec = netns.weir("exec", &["h1", "--", "true"]);
        assert!(
            exec.status.code() == Some(1) && output_text(&exec).contains("malformed"),
            "{}",
            output_text(&exec)
        );
        let down = netns.weir("down", &[]);
        assert!(
            down.status.code() == Some(1) && output_text(&down).contains("malformed"),
            "{}",
            output_text(&down)
        );
        assert!(output_text(&down).contains("no network namespace is named"), "{}", output_text(&down));
        netns.assert_clean();
    }
    assert!(netns.weir("up", &["fabric.yaml"]).status.success());
    let intact = fs::read(&file).expect("a state");
    fs::write(&file, &intact[..intact.len() / 2]).expect("written");
    let down = netns.weir("down", &[]);
    let remaining = format!("{name}-h1, {name}-h2", name = netns.name);
    assert!(
        down.status.code() == Some(1) && output_text(&down).contains(&remaining),
        "{}",
        output_text(&down)
    );
    assert!(!file.exists(), "the record is removed");
    // The namespaces were not removed, because they might belong to others.
    fs::write(&file, intact).expect("written");
    let down = netns.weir("down", &[]);
    assert!(down.status.success(), "{}", output_text(&down));
    netns.assert_clean();

    // On a full file system no truncated record remains, and with space again the fabric starts.
    let weir = env!("CARGO_BIN_EXE_weir");
    let script = format!(
        "mount -t tmpfs -o size=64k none /run/weir && head -c 65536 /dev/zero > /run/weir/fill || exit 9\n\
         {weir} fabric up fabric.yaml --name {name}; echo \"up $?\"; ls -A /run/weir; rm /run/weir/fill\n\
         {weir} fabric up fabric.yaml --name {name} --json > /dev/null; echo \"again $?\"\n\
         {weir} fabric down --name {name}; echo \"down $?\"; ls -A /run/weir",
        name = netns.name
    );
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", netns.name)).args(["unshare", "--mount", "sh", "-c", &script]);
    let output = command.current_dir(netns.dir.path()).output().expect("nsenter is installed");
    let expected = format!("up 1\nfill\nagain 0\n{}: down\ndown 0\n", netns.name);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", output_text(&output));
    netns.assert_clean();
}
