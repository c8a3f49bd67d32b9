//! The Python process that drives Mininet: starts it, exchanges JSON lines with it over pipes, and cleans up if it
//! dies.

use super::plan::Plan;
use rustix::io::FdFlags;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write, pipe};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;
use std::{fmt, fs};
use tempfile::TempDir;
use weir_experiment::backend::Error;

/// Files of the Python package, embedded so that the program does not depend on the source tree.
const PACKAGE: &[(&str, &str)] = &[
    ("__init__.py", include_str!("../assets/weir_mininet/__init__.py")),
    ("__main__.py", include_str!("../assets/weir_mininet/__main__.py")),
    ("command_line.py", include_str!("../assets/weir_mininet/command_line.py")),
    ("emulator.py", include_str!("../assets/weir_mininet/emulator.py")),
    ("fabric.py", include_str!("../assets/weir_mininet/fabric.py")),
    ("jobs.py", include_str!("../assets/weir_mininet/jobs.py")),
    ("links.py", include_str!("../assets/weir_mininet/links.py")),
    ("ownership.py", include_str!("../assets/weir_mininet/ownership.py")),
    ("plan.py", include_str!("../assets/weir_mininet/plan.py")),
    ("processes.py", include_str!("../assets/weir_mininet/processes.py")),
    ("serve.py", include_str!("../assets/weir_mininet/serve.py")),
    ("switches.py", include_str!("../assets/weir_mininet/switches.py")),
];
const PACKAGE_NAME: &str = "weir_mininet";

/// Python interpreters in order of preference: Debian installs the Mininet package for /usr/bin/python3.
const PYTHONS: [&str; 2] = ["/usr/bin/python3", "python3"];

/// Interval at which a wait for a reply checks for interruption.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Prefix of the working directories of runs; followed by the process id of the owner.
const WORK_PREFIX: &str = "weir-mininet-";

/// Hooks of the calling program: cancellation of a run, and the owner of Ctrl-C.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    /// Returns true if the run should stop as soon as possible.
    pub is_cancelled: fn() -> bool,
    /// Called with true before a child process takes over the terminal and thereby Ctrl-C, and with false afterwards.
    pub lend_terminal: fn(bool),
}

/// Exit of one agent.
#[derive(Debug, Deserialize)]
pub(crate) struct AgentExit {
    pub status: i32,
    pub stderr_tail: String,
}

/// Says how the agent ended. A negative status is a signal.
impl fmt::Display for AgentExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SIGKILL: i32 = 9;
        match self.status {
            status if status == -SIGKILL => {
                write!(f, "was killed by SIGKILL, which the kernel sends when memory runs out")?;
            }
            status if status < 0 => write!(f, "was ended by signal {}", -status)?,
            status => write!(f, "exited with status {status}")?,
        }
        if self.stderr_tail.is_empty() { Ok(()) } else { write!(f, ": {}", self.stderr_tail) }
    }
}

/// Frame counters of a switch interface.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Frames {
    /// Frames received by the switch.
    pub rx_packets: u64,
    /// Frames dropped by the interface on transmission.
    pub tx_dropped: u64,
}

/// Minimum ping RTT in ms by source and destination host; `None`: no reply.
pub(crate) type PingMatrix = BTreeMap<String, BTreeMap<String, Option<f64>>>;

/// A running Python process. Dropping it tears the fabric down.
pub(crate) struct MininetProcess {
    process: Child,
    /// Closing this pipe makes the Python process tear down the fabric and exit.
    requests: Option<PipeWriter>,
    replies: Receiver<Value>,
    /// Path of the interpreter.
    python: &'static str,
    work_dir: TempDir,
    signals: Signals,
}

impl MininetProcess {
    /// Starts the process. Fails early, before anything is created, if a prerequisite is missing.
    pub(crate) fn start(signals: Signals) -> Result<MininetProcess, Error> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::input("--backend mininet needs root: run this with sudo"));
        }
        let python = python()?;
        remove_stale_work_dirs();
        let work_dir =
            tempfile::Builder::new().prefix(&format!("{WORK_PREFIX}{}-", std::process::id())).tempdir()?;
        unpack(work_dir.path())?;
        let (requests_reader, requests) = pipe()?;
        let (replies, replies_writer) = pipe()?;
        let process = spawn(python, work_dir.path(), &requests_reader, &replies_writer)?;
        let replies = spawn_reader(replies)?;
        Ok(MininetProcess { process, requests: Some(requests), replies, python, work_dir, signals })
    }

    /// Returns the working directory, which is removed when `self` is dropped.
    pub(crate) fn work_dir(&self) -> &Path {
        self.work_dir.path()
    }

    /// Builds a fabric.
    pub(crate) fn up(&mut self, plan: &Plan) -> Result<(), Error> {
        self.request("up", json!({ "plan": plan }))
    }

    pub(crate) fn down(&mut self) -> Result<(), Error> {
        self.request("down", json!({}))
    }

    /// Pings every host from every other host, `count` times with `payload` bytes.
    pub(crate) fn ping(&mut self, payload: u64, count: u32, wait_s: u64) -> Result<PingMatrix, Error> {
        self.request("ping", json!({ "payload": payload, "count": count, "wait_s": wait_s }))
    }

    /// Pings each pair of hosts, one pair after the other. Returns the minimum RTT of each pair in ms; `None`: no reply.
    pub(crate) fn ping_alone(
        &mut self,
        pairs: &[(&str, &str)],
        payload: u64,
        count: u32,
        wait_s: u64,
    ) -> Result<Vec<Option<f64>>, Error> {
        self.request(
            "ping_alone",
            json!({ "pairs": pairs, "payload": payload, "count": count, "wait_s": wait_s }),
        )
    }

    /// Runs one agent in each host and waits for all. `started` is called with their common start time in seconds of
    /// CLOCK_MONOTONIC. An interrupt is forwarded to the agents, which then write the results so far.
    pub(crate) fn run(
        &mut self,
        agents: &BTreeMap<String, Vec<String>>,
        started: impl FnOnce(f64),
        mut on_wait: impl FnMut(),
    ) -> Result<BTreeMap<String, AgentExit>, Error> {
        #[derive(Deserialize)]
        struct Started {
            started: f64,
        }
        self.send("run", json!({ "agents": agents }))?;
        let first = self.receive(&mut || ())?;
        if let Ok(Started { started: at }) = serde_json::from_value(first.clone()) {
            started(at);
            let reply = self.receive(&mut on_wait)?;
            self.parse_reply(reply)
        } else {
            self.parse_reply(first)
        }
    }

    /// Returns the frame counters of all switch interfaces.
    pub(crate) fn packets(&mut self) -> Result<BTreeMap<String, Frames>, Error> {
        self.request("packets", json!({}))
    }

    /// Returns the number of frames that links have dropped so far, by reason.
    pub(crate) fn link_drops(&mut self) -> Result<BTreeMap<String, u64>, Error> {
        self.request("link_drops", json!({}))
    }

    /// Runs Mininet's command line on this terminal until the user exits it. Ctrl-C goes to the command line meanwhile.
    /// Its Weir commands read the names of nodes from `topology`.
    pub(crate) fn cli(&mut self, topology: &Path) -> Result<(), Error> {
        (self.signals.lend_terminal)(true);
        let result = self.request("cli", json!({ "topology": topology }));
        (self.signals.lend_terminal)(false);
        result
    }

    fn request<R: DeserializeOwned>(&mut self, task: &str, arguments: Value) -> Result<R, Error> {
        self.send(task, arguments)?;
        let reply = self.receive(&mut || ())?;
        self.parse_reply(reply)
    }

    fn send(&mut self, task: &str, mut arguments: Value) -> Result<(), Error> {
        arguments["do"] = task.into();
        let line = format!("{arguments}\n");
        let sent = self.requests.as_mut().map(|requests| requests.write_all(line.as_bytes()));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.child_exited()),
        }
    }

    /// Waits for the next reply. While waiting, calls `on_wait` periodically and forwards the first interrupt.
    fn receive(&mut self, on_wait: &mut dyn FnMut()) -> Result<Value, Error> {
        let mut is_forwarded = (self.signals.is_cancelled)();
        loop {
            match self.replies.recv_timeout(POLL_INTERVAL) {
                Ok(reply) => return Ok(reply),
                Err(RecvTimeoutError::Disconnected) => return Err(self.child_exited()),
                Err(RecvTimeoutError::Timeout) => on_wait(),
            }
            if !is_forwarded && (self.signals.is_cancelled)() {
                is_forwarded = true;
                self.send("interrupt", json!({}))?;
            }
        }
    }

    fn parse_reply<R: DeserializeOwned>(&self, reply: Value) -> Result<R, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Reply<R> {
            Ok(R),
            Error(String),
        }
        match serde_json::from_value(reply) {
            Ok(Reply::Ok(result)) => Ok(result),
            Ok(Reply::Error(reason)) => Err(Error::Work(reason)),
            Err(error) => Err(Error::Work(format!("{PACKAGE_NAME} sent an invalid reply: {error}"))),
        }
    }

    /// Called when the Python process has exited unexpectedly: removes what it left, and returns the error.
    fn child_exited(&mut self) -> Error {
        self.requests = None;
        let status = self.process.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let cleaned_up = cleanup(self.python, self.work_dir.path());
        let remainder = if cleaned_up.is_ok() {
            "its processes and interfaces were removed"
        } else {
            "`weir mininet --clean` removes the rest"
        };
        Error::Work(format!("the Mininet process exited unexpectedly ({status}); {remainder}"))
    }
}

impl Drop for MininetProcess {
    fn drop(&mut self) {
        // End of file on its input makes the Python process tear everything down.
        if self.requests.take().is_some() {
            let exit = self.process.wait();
            if !exit.is_ok_and(|status| status.success() || status.code() == Some(1)) {
                // An error cannot be reported from a destructor.
                let _ = cleanup(self.python, self.work_dir.path());
            }
        }
    }
}

/// Removes processes and interfaces of killed runs, for `weir mininet --clean`. Returns their number.
///
/// # Errors
///
/// If the caller is not root, Python or Mininet is missing, or something cannot be removed.
pub fn clean() -> Result<u64, Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::input(
            "removing processes and interfaces of Mininet requires root; run with sudo",
        ));
    }
    let python = python()?;
    remove_stale_work_dirs();
    let work_dir =
        tempfile::Builder::new().prefix(&format!("{WORK_PREFIX}{}-", std::process::id())).tempdir()?;
    unpack(work_dir.path())?;
    cleanup(python, work_dir.path())
}

/// Returns a Python interpreter that can import Mininet.
fn python() -> Result<&'static str, Error> {
    let has_mininet = |python: &&&str| {
        let output = Command::new(python).args(["-c", "import mininet.net"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    PYTHONS.iter().find(has_mininet).copied().ok_or_else(|| {
        Error::input(
            "Mininet is not installed: `sudo apt install mininet iputils-ping ethtool` (Debian, Ubuntu)",
        )
    })
}

fn unpack(work_dir: &Path) -> Result<(), Error> {
    let package = work_dir.join(PACKAGE_NAME);
    fs::create_dir(&package)?;
    for (name, text) in PACKAGE {
        fs::write(package.join(name), text)?;
    }
    Ok(())
}

fn package_command(python: &str, work_dir: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-B", "-m", PACKAGE_NAME]).env("PYTHONPATH", work_dir);
    command
}

/// Starts the Python process. It inherits its ends of the pipes by file descriptor number.
fn spawn(python: &str, work_dir: &Path, requests: &PipeReader, replies: &PipeWriter) -> Result<Child, Error> {
    rustix::io::fcntl_setfd(requests, FdFlags::empty()).map_err(std::io::Error::from)?;
    rustix::io::fcntl_setfd(replies, FdFlags::empty()).map_err(std::io::Error::from)?;
    let mut command = package_command(python, work_dir);
    command.arg("serve").arg(requests.as_raw_fd().to_string()).arg(replies.as_raw_fd().to_string());
    command.spawn().map_err(|error| Error::Work(format!("{python}: {error}")))
}

/// Reads replies in a thread, so that waiting for a reply can be interrupted.
fn spawn_reader(replies: PipeReader) -> Result<Receiver<Value>, Error> {
    let (sender, receiver) = sync_channel(16);
    let read = move || {
        for line in BufReader::new(replies).lines() {
            let Ok(line) = line else { return };
            let reply = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "error": line }));
            if sender.send(reply).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("replies".into()).spawn(read).map_err(|error| Error::thread(&error))?;
    Ok(receiver)
}

fn cleanup(python: &str, work_dir: &Path) -> Result<u64, Error> {
    let done = package_command(python, work_dir).arg("clean").output()?;
    match done.status.success() {
        true => String::from_utf8_lossy(&done.stdout).trim().parse().map_err(Error::work),
        false => Err(Error::Work(String::from_utf8_lossy(&done.stderr).trim().replace("error: ", ""))),
    }
}

/// Removes working directories whose owner process no longer exists.
fn remove_stale_work_dirs() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner =
            name.strip_prefix(WORK_PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Fails if the directory belongs to another user, or was removed meanwhile.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PACKAGE` contains every module of the Python package.
    #[test]
    fn an_agent_that_was_killed_has_a_reason() {
        let exit = |status, tail: &str| AgentExit { status, stderr_tail: tail.to_owned() }.to_string();
        assert_eq!(exit(-9, ""), "was killed by SIGKILL, which the kernel sends when memory runs out");
        assert_eq!(exit(-11, ""), "was ended by signal 11");
        assert_eq!(exit(2, "no such interface"), "exited with status 2: no such interface");
    }

    #[test]
    fn all_modules_are_embedded() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../mininet/weir_mininet");
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".py"))
            .collect();
        names.sort();
        assert_eq!(names, PACKAGE.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
