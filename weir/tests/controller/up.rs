//! `weir fabric`: a fabric with its hosts and without Mininet, and that nothing of it is left.

use super::lab::{FABRIC, program, said, signal};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A network namespace for the switches, and a folder.
struct Place {
    name: String,
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place {
            name: format!("wfab{}", std::process::id()),
            dir: tempfile::tempdir().expect("a folder"),
        };
        fs::write(place.dir.path().join("fabric.yaml"), FABRIC).expect("written");
        for arguments in
            [["netns", "add", &place.name].to_vec(), ["-n", &place.name, "link", "set", "lo", "up"].to_vec()]
        {
            let done = Command::new("ip").args(&arguments).output().expect("iproute2 is installed");
            assert!(done.status.success(), "{}", said(&done));
        }
        place
    }

    /// `weir` here. Only the network is another one: namespaces that it makes are seen by everybody.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.name))
            .arg(env!("CARGO_BIN_EXE_weir"))
            .args(arguments);
        command.current_dir(self.dir.path());
        command
    }

    /// `weir fabric` for the fabric whose name is the place's with this behind it.
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

    /// A network namespace of somebody else.
    fn foreign(&self, host: &str) {
        let name = format!("{}-{host}", self.name);
        for arguments in
            [vec!["netns", "add", &name], vec!["-n", &name, "addr", "add", "192.0.2.1/32", "dev", "lo"]]
        {
            let done = Command::new("ip").args(&arguments).output().expect("iproute2 is installed");
            assert!(done.status.success(), "{}", said(&done));
        }
    }

    /// Removes the namespace of somebody else, which must be there as it was made.
    fn remove_foreign(&self, host: &str) {
        let name = format!("{}-{host}", self.name);
        let shown = Command::new("ip").args(["-n", &name, "addr", "show", "lo"]).output().expect("iproute2");
        assert!(said(&shown).contains("192.0.2.1"), "{}", said(&shown));
        let gone = Command::new("ip").args(["netns", "del", &name]).output().expect("iproute2");
        assert!(gone.status.success(), "{}", said(&gone));
    }

    /// Lets `fabric up` find an `ip` of its own, a shell script that does something before the namespace of `host` is made,
    /// and something afterwards.
    fn up_with_ip(&self, host: &str, before: &str, after: &str) -> Output {
        use std::os::unix::fs::PermissionsExt;
        let bin = self.dir.path().join("bin");
        fs::create_dir_all(&bin).expect("a folder");
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
        assert!(ping.status.success() && said(&ping).contains("2 received"), "{}", said(&ping));
    }

    fn assert_clean(&self) {
        let left: Vec<_> =
            fs::read_dir("/run/netns").expect("made above").flatten().map(|it| it.file_name()).collect();
        let ours = left.iter().filter(|name| name.to_string_lossy().starts_with(&format!("{}-", self.name)));
        assert_eq!(ours.count(), 0, "{left:?}");
        assert!(!Path::new("/run/weir").join(format!("{}.json", self.name)).exists());
        let pids = Command::new("ip").args(["netns", "pids", &self.name]).output().expect("iproute2");
        assert!(pids.stdout.is_empty(), "{}", said(&pids));
        let links = Command::new("ip").args(["-n", &self.name, "-br", "link"]).output().expect("iproute2");
        assert_eq!(String::from_utf8_lossy(&links.stdout).lines().count(), 1, "only lo: {}", said(&links));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // After a failed test, what it left.
        for suffix in ["", "-b"] {
            let _ = self.fabric(suffix, "down", &[]).output();
        }
        let left = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        let left = left.map(|it| it.file_name().to_string_lossy().into_owned());
        for name in left.filter(|name| name.starts_with(&self.name)) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

pub fn a_fabric_comes_up_without_mininet_and_leaves_nothing() {
    let place = Place::new();
    let program = program();
    let program = program.to_str().expect("text");
    let up = place.weir("up", &["fabric.yaml", "--program", program]);
    assert!(up.status.success() && said(&up).contains("4 switches, 2 hosts up"), "{}", said(&up));
    let again = place.weir("up", &["fabric.yaml"]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    let ping = place.weir("exec", &["h1", "--", "ping", "-c", "2", "-W", "5", "10.0.2.1"]);
    assert!(ping.status.success() && said(&ping).contains("ttl=61"), "{}", said(&ping));
    let nobody = place.weir("exec", &["h9", "--", "true"]);
    assert_eq!(nobody.status.code(), Some(2), "{}", said(&nobody));
    let down = place.weir("down", &[]);
    assert!(down.status.success(), "{}", said(&down));
    place.assert_clean();
    let down = place.weir("down", &[]);
    assert!(down.status.code() == Some(2) && said(&down).contains("unknown fabric"), "{}", said(&down));

    let failed = place.weir("up", &["fabric.yaml", "--", "--bogus"]);
    assert!(failed.status.code() == Some(1) && said(&failed).contains("--bogus"), "{}", said(&failed));
    place.assert_clean();
    let failed = place.weir("up", &["fabric.yaml", "--program", "nowhere.json"]);
    assert!(failed.status.code() == Some(2) && said(&failed).contains("nowhere"), "{}", said(&failed));
    place.assert_clean();

    // At some moment between its first step and its last.
    let child =
        place.fabric("", "up", &["fabric.yaml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("nsenter is installed");
    while !Path::new("/run/weir").join(format!("{}.json", place.name)).exists() {
        sleep(Duration::from_millis(1));
    }
    signal(&child, "-INT");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    place.assert_clean();
}

/// Only what a fabric has made is removed with it, however `up` ends.
pub fn a_fabric_leaves_namespaces_of_others_alone() {
    let place = Place::new();
    let h2 = format!("{}-h2", place.name);
    place.foreign("h2");
    let refused = place.weir("up", &["fabric.yaml"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains(&format!("network namespace {h2} already exists")), "{}", said(&refused));
    place.remove_foreign("h2");
    place.assert_clean();

    // It comes just before the fabric would make it, when h1 has been made.
    let foreign = format!("ip netns add {h2}; ip -n {h2} addr add 192.0.2.1/32 dev lo");
    let failed = place.up_with_ip("h2", &foreign, ":");
    assert_eq!(failed.status.code(), Some(1), "{}", said(&failed));
    assert!(said(&failed).contains("File exists"), "{}", said(&failed));
    place.remove_foreign("h2");
    place.assert_clean();

    // `up` is killed when h2 is made and not yet noted: nothing tells whose it is.
    let killed = place.up_with_ip("h2", ":", "kill -KILL $PPID");
    assert_eq!(killed.status.code(), None, "{}", said(&killed));
    let down = place.weir("down", &[]);
    assert!(down.status.success(), "{}", said(&down));
    assert!(said(&down).contains(&format!("warning: network namespace {h2} not removed")), "{}", said(&down));
    let gone = Command::new("ip").args(["netns", "del", &h2]).output().expect("iproute2");
    assert!(gone.status.success(), "{}", said(&gone));
    place.assert_clean();

    // Somebody has replaced a namespace of the fabric.
    assert!(place.weir("up", &["fabric.yaml"]).status.success());
    let gone = Command::new("ip").args(["netns", "del", &h2]).output().expect("iproute2");
    assert!(gone.status.success(), "{}", said(&gone));
    place.foreign("h2");
    let down = place.weir("down", &[]);
    assert!(down.status.success(), "{}", said(&down));
    place.remove_foreign("h2");
    place.assert_clean();
}

/// Host b-h1 of a fabric x and host h1 of a fabric x-b would have one namespace.
pub fn two_fabrics_do_not_share_a_namespace() {
    let place = Place::new();
    place.write(
        "a.yaml",
        "{kind: custom, rate: 10Mbps, hosts: [b-h1, h2], switches: [s1], links: [[b-h1, s1], [h2, s1]]}",
    );
    place.write(
        "b.yaml",
        "{kind: custom, rate: 10Mbps, hosts: [h1, h2], switches: [t1], links: [[h1, t1], [h2, t1]]}",
    );
    let program = program();
    let up = place.weir("up", &["a.yaml", "--program", program.to_str().expect("text")]);
    assert!(up.status.success(), "{}", said(&up));
    let refused = place.fabric("-b", "up", &["b.yaml"]).output().expect("nsenter");
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let whose =
        format!("namespace {name}-b-h1 already exists (owned by fabric \"{name}\")", name = place.name);
    assert!(said(&refused).contains(&whose), "{}", said(&refused));
    let down = place.fabric("-b", "down", &[]).output().expect("nsenter");
    assert_eq!(down.status.code(), Some(2), "{}", said(&down));
    place.ping("", "b-h1", "10.0.1.2");
    assert!(place.weir("down", &[]).status.success());
    place.assert_clean();
}

/// A program is loaded into the fabric's own switches only, whatever else listens where they should.
pub fn a_second_fabric_does_not_write_into_the_first() {
    let place = Place::new();
    let links = |a: &str, b: &str, s: &str, t: &str| {
        format!(
            "{{kind: custom, rate: 10Mbps, hosts: [{a}, {b}], switches: [{s}, {t}], links: [[{s}, {t}], [{a}, {s}], [{b}, {t}]]}}"
        )
    };
    place.write("a.yaml", &links("h1", "h2", "s1", "s2"));
    place.write("b.yaml", &links("x1", "x2", "t1", "t2"));
    let program = program();
    let dart = program.with_file_name("dart.json");
    let (program, dart) = (program.to_str().expect("text"), dart.to_str().expect("text"));
    let up = place.weir("up", &["a.yaml", "--program", program]);
    assert!(up.status.success(), "{}", said(&up));
    let tables =
        || place.command(&["controller", "tables", "--topology", "a.yaml", "s1"]).output().expect("nsenter");
    let before = said(&tables());

    let b = |arguments: &[&str]| {
        place.fabric("-b", "up", &[&["b.yaml", "--program", dart], arguments].concat()).output()
    };
    let same = place.fabric("-b", "up", &["a.yaml"]).output().expect("nsenter");
    assert_eq!(same.status.code(), Some(2), "{}", said(&same));
    assert!(
        said(&same).contains(&format!("fabrics in this network namespace: {})", place.name)),
        "{}",
        said(&same)
    );
    let refused = b(&[]).expect("nsenter");
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let told = format!(
        "P4Runtime ports 50051 to 50052 are in use by fabric {}; use --grpc-base-port 50053",
        place.name
    );
    assert!(said(&refused).contains(&told), "{}", said(&refused));
    let refused = b(&["--grpc-base-port", "50053"]).expect("nsenter");
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("use --thrift-base-port 9092"), "{}", said(&refused));
    place.ping("", "h1", "10.0.2.1");
    assert_eq!(said(&tables()), before);

    let up = b(&["--grpc-base-port", "50053", "--thrift-base-port", "9092"]).expect("nsenter");
    assert!(up.status.success() && said(&up).contains("P4Runtime from 127.0.0.1:50053"), "{}", said(&up));
    place.ping("-b", "x1", "10.0.2.1");
    place.ping("", "h1", "10.0.2.1");
    assert_eq!(said(&tables()), before);
    assert!(place.fabric("-b", "down", &[]).output().expect("nsenter").status.success());
    place.ping("", "h1", "10.0.2.1");
    assert!(place.weir("down", &[]).status.success());
    place.assert_clean();

    // A switch of no fabric has the port of the last switch, and another one that of Thrift.
    for (grpc, thrift) in [("50052", "9190"), ("50152", "9091")] {
        let server = format!("--grpc-server-addr=127.0.0.1:{grpc}");
        let mut foreign =
            place.command(&["switch", "--no-p4", "--device-id", "1", "--thrift-port", thrift, "--", &server]);
        let mut foreign = foreign.stdout(Stdio::piped()).spawn().expect("nsenter is installed");
        // Without a reader it would end.
        let mut lines = BufReader::new(foreign.stdout.take().expect("piped")).lines();
        let line = lines.next().expect("a line").expect("text");
        assert!(line.contains("Server listening on"), "{line}");
        let failed = place.weir("up", &["a.yaml", "--program", program]);
        assert_eq!(failed.status.code(), Some(1), "{}", said(&failed));
        assert!(
            said(&failed).contains("in use") && said(&failed).contains("--grpc-base-port"),
            "{}",
            said(&failed)
        );
        let base = format!("--grpc-base-port={}", grpc.parse::<u16>().expect("a number") - 1);
        let asked = place
            .command(&["controller", "tables", "--topology", "a.yaml", &base, "s2"])
            .output()
            .expect("nsenter");
        assert!(said(&asked).contains("no program"), "{}", said(&asked));
        signal(&foreign, "-TERM");
        foreign.wait().expect("it ends");
        place.assert_clean();
    }
}

/// `down` copes with whatever is in a fabric's file, and `up` leaves none that is not whole.
pub fn a_damaged_state_is_removed_and_told() {
    let place = Place::new();
    let file = Path::new("/run/weir").join(format!("{}.json", place.name));
    fs::create_dir_all("/run/weir").expect("a folder");
    for damaged in ["", "{\"name\": \"x\", "] {
        fs::write(&file, damaged).expect("written");
        let up = place.weir("up", &["fabric.yaml"]);
        assert!(
            up.status.code() == Some(2) && said(&up).contains("weir fabric down --name"),
            "{}",
            said(&up)
        );
        let exec = place.weir("exec", &["h1", "--", "true"]);
        assert!(exec.status.code() == Some(1) && said(&exec).contains("malformed"), "{}", said(&exec));
        let down = place.weir("down", &[]);
        assert!(down.status.code() == Some(1) && said(&down).contains("malformed"), "{}", said(&down));
        assert!(said(&down).contains("no network namespace is named"), "{}", said(&down));
        place.assert_clean();
    }
    assert!(place.weir("up", &["fabric.yaml"]).status.success());
    let whole = fs::read(&file).expect("a state");
    fs::write(&file, &whole[..whole.len() / 2]).expect("written");
    let down = place.weir("down", &[]);
    let left = format!("{name}-h1, {name}-h2", name = place.name);
    assert!(down.status.code() == Some(1) && said(&down).contains(&left), "{}", said(&down));
    assert!(!file.exists(), "the name is free");
    // Nothing was removed that may be somebody else's.
    fs::write(&file, whole).expect("written");
    let down = place.weir("down", &[]);
    assert!(down.status.success(), "{}", said(&down));
    place.assert_clean();

    // Where the file system is full no half file stays, and with room again all is well.
    let weir = env!("CARGO_BIN_EXE_weir");
    let script = format!(
        "mount -t tmpfs -o size=64k none /run/weir && head -c 65536 /dev/zero > /run/weir/fill || exit 9\n\
         {weir} fabric up fabric.yaml --name {name}; echo \"up $?\"; ls -A /run/weir; rm /run/weir/fill\n\
         {weir} fabric up fabric.yaml --name {name} --json > /dev/null; echo \"again $?\"\n\
         {weir} fabric down --name {name}; echo \"down $?\"; ls -A /run/weir",
        name = place.name
    );
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/run/netns/{}", place.name)).args(["unshare", "--mount", "sh", "-c", &script]);
    let done = command.current_dir(place.dir.path()).output().expect("nsenter is installed");
    let expected = format!("up 1\nfill\nagain 0\n{}: down\ndown 0\n", place.name);
    assert_eq!(String::from_utf8_lossy(&done.stdout), expected, "{}", said(&done));
    place.assert_clean();
}
