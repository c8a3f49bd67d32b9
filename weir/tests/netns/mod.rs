//! A network namespace in which a test runs Mininet, and what a run leaves behind.

use crate::{MARK, ROOT, TIMEOUT, WEIR};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A network namespace and a directory for results, removed when dropped.
pub(crate) struct TestNetns {
    pub(crate) namespace: String,
    pub(crate) dir: tempfile::TempDir,
}

impl TestNetns {
    pub(crate) fn new(test: &str) -> TestNetns {
        let namespace = format!("weir-mn-{}-{test}", std::process::id());
        for arguments in [&["netns", "add", &namespace][..], &["-n", &namespace, "link", "set", "lo", "up"]] {
            assert!(
                Command::new("ip").args(arguments).status().expect("iproute2").success(),
                "{arguments:?}"
            );
        }
        TestNetns { namespace, dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn weir(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, WEIR]).args(arguments).current_dir(self.dir.path());
        command
    }

    /// Runs an experiment on a backend, with the results in `run/`.
    pub(crate) fn run(&self, experiment: &str, on: &str, arguments: &[&str]) -> Output {
        self.start_on(experiment, on, arguments).wait_with_output().expect("the process exits")
    }

    /// Starts a run in Mininet on Weir's switch.
    pub(crate) fn start(&self, experiment: &str, arguments: &[&str]) -> Child {
        self.start_on(experiment, "mininet", &[arguments, &["--switch", "weir"]].concat())
    }

    pub(crate) fn start_on(&self, experiment: &str, on: &str, arguments: &[&str]) -> Child {
        let file = format!("{ROOT}/experiments/{experiment}.yaml");
        let mut command = self.weir(&["run", &file, "--on", on, "--out", "run"]);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("weir starts")
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        let path = self.dir.path().join("run").join(name);
        serde_json::from_str(&fs::read_to_string(&path).expect(name)).expect("JSON")
    }

    /// Returns pids and command lines of the fabric's processes.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        let mark = format!("{MARK}{}", self.inode());
        let matching = |entry: fs::DirEntry| {
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            let pid = entry.file_name().to_string_lossy().parse().ok()?;
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            String::from_utf8_lossy(&environ).contains(&mark).then_some((pid, words))
        };
        fs::read_dir("/proc").expect("/proc").flatten().filter_map(matching).collect()
    }

    /// Returns the remaining processes (command lines) and interfaces (lines of `ip link`) of the fabric.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut leftovers: Vec<String> = self.processes().into_iter().map(|(_, words)| words).collect();
        let shown =
            Command::new("ip").args(["-n", &self.namespace, "-o", "link"]).output().expect("iproute2").stdout;
        leftovers.extend(
            String::from_utf8_lossy(&shown).lines().filter(|l| l.contains("-eth")).map(str::to_owned),
        );
        leftovers
    }

    pub(crate) fn inode(&self) -> String {
        let path = Path::new("/run/netns").join(&self.namespace);
        let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("the namespace exists"));
        format!("net:[{inode}]")
    }

    pub(crate) fn wait_until_nothing_is_left(&self) {
        let end = Instant::now() + TIMEOUT;
        while !self.leftovers().is_empty() {
            assert!(Instant::now() < end, "left behind: {:#?}", self.leftovers());
            sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a process or an interface of the fabric contains `what`.
    pub(crate) fn wait_for(&self, what: &str) {
        let end = Instant::now() + TIMEOUT;
        while !self.leftovers().iter().any(|line| line.contains(what)) {
            assert!(Instant::now() < end, "no {what} in {:#?}", self.leftovers());
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for TestNetns {
    fn drop(&mut self) {
        // Does not kill processes that a failed test has left; the next `ip netns` shows them.
        let _ = Command::new("ip").args(["netns", "del", &self.namespace]).output();
    }
}

pub(crate) fn work_dirs() -> Vec<PathBuf> {
    let entries = fs::read_dir(std::env::temp_dir())
        .expect("a temporary directory")
        .flatten()
        .map(|entry| entry.path());
    entries
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("weir-mininet-"))
        })
        .collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    assert!(Command::new("kill").args(["-s", name, &pid]).status().expect("kill").success());
}

/// Returns the pid of a run's Python process, the child of weir. (`ip netns exec` replaces itself by weir.)
pub(crate) fn python_of(weir: u32) -> u32 {
    let children =
        fs::read_to_string(format!("/proc/{weir}/task/{weir}/children")).expect("the process runs");
    children.split_whitespace().next().expect("a child").parse().expect("a number")
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Asserts that all host pairs responded, and that data and ACKs of every flow took the path of the routes.
pub(crate) fn assert_paths(fabric: &Value, scheme: &str, pairs: u64, flows: usize) {
    let facts = &fabric["schemes"][scheme];
    assert_eq!(facts["pairs"], pairs, "{scheme}");
    let flow_paths = facts["flows"].as_array().expect("a list");
    assert_eq!(flow_paths.len(), flows, "{scheme}");
    for flow in flow_paths {
        assert_eq!(flow["same_path"], true, "{scheme}: {flow}");
        let planned = &flow["planned_path"];
        for direction in ["data_paths", "ack_paths"] {
            let paths = flow[direction].as_array().expect("a list");
            assert!(paths.len() == 1 && paths[0]["path_id"] == *planned, "{scheme}: {flow}");
            assert!(number(&paths[0]["packets"]) > 50.0, "{scheme}: {flow}");
        }
    }
}
