//! `weir fabric`: a fabric with its hosts and without Mininet, and that nothing of it is left.

use super::lab::{FABRIC, program, said, signal};
use std::fs;
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

    /// `weir fabric` here. Only the network is another one: namespaces that it makes are seen by everybody.
    fn command(&self, task: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/run/netns/{}", self.name))
            .arg(env!("CARGO_BIN_EXE_weir"))
            .args(["fabric", task]);
        command.args(["--name", &self.name]).args(arguments).current_dir(self.dir.path());
        command
    }

    fn weir(&self, task: &str, arguments: &[&str]) -> Output {
        self.command(task, arguments).output().expect("nsenter is installed")
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
        let _ = self.weir("down", &[]);
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
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
    assert!(down.status.code() == Some(2) && said(&down).contains("there is no fabric"), "{}", said(&down));

    let failed = place.weir("up", &["fabric.yaml", "--", "--bogus"]);
    assert!(failed.status.code() == Some(1) && said(&failed).contains("--bogus"), "{}", said(&failed));
    place.assert_clean();
    let failed = place.weir("up", &["fabric.yaml", "--program", "nowhere.json"]);
    assert!(failed.status.code() == Some(2) && said(&failed).contains("nowhere"), "{}", said(&failed));
    place.assert_clean();

    // At some moment between its first step and its last.
    let child = place.command("up", &["fabric.yaml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("nsenter is installed");
    while !Path::new("/run/weir").join(format!("{}.json", place.name)).exists() {
        sleep(Duration::from_millis(1));
    }
    signal(&child, "-INT");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    place.assert_clean();
}
