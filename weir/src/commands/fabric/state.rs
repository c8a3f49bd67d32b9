//! The record of the objects that a fabric has created on this machine, kept in a file so that any later
//! process can remove them.

use super::ip::run_ip;
use crate::console::{Failure, warn};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_report::files::{MODE_PUBLIC, write_atomic, write_new};

/// Directory of the records. /run is cleared at boot, like the namespaces and processes.
const RUN_DIR: &str = "/run/weir";
/// Directory in which iproute2 keeps the names of network namespaces.
const NETNS_DIR: &str = "/run/netns";
/// Time for the switches to exit after SIGTERM, and again after SIGKILL.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which the exit of the switches is checked.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Attempts to remove the namespaces, and the time between them.
const REMOVE_ATTEMPTS: usize = 10;
const REMOVE_INTERVAL: Duration = Duration::from_millis(100);

/// The objects of one fabric: the content of its record.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct State {
    name: String,
    /// The namespaces that the fabric has created.
    namespaces: Vec<Namespace>,
    /// Name of the namespace that is being created. If the process is killed in the meantime, it is unknown whether
    /// this fabric or another program created the namespace.
    #[serde(rename = "making")]
    creating_namespace: Option<String>,
    /// Network namespace of the switches, as the target of `/proc/self/ns/net`.
    #[serde(rename = "home")]
    switch_netns: PathBuf,
    ports: Ports,
    /// Process of the switches: its pid, and its start time in clock ticks since boot, which distinguishes it from a
    /// later process with the same pid.
    process: Option<(u32, u64)>,
}

/// A network namespace, with the properties that distinguish it from a later one with the same name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Namespace {
    name: String,
    device: u64,
    inode: u64,
    /// Time at which the name was created, in seconds and nanoseconds. Needed because the kernel reuses the inodes of
    /// removed namespaces.
    #[serde(rename = "since")]
    created: (i64, i64),
}

impl Namespace {
    /// Returns the namespace that currently has this name.
    fn find(name: &str) -> std::io::Result<Namespace> {
        let metadata = fs::metadata(Path::new(NETNS_DIR).join(name))?;
        let created = (metadata.ctime(), metadata.ctime_nsec());
        Ok(Namespace { name: name.to_owned(), device: metadata.dev(), inode: metadata.ino(), created })
    }

    /// Returns true if the namespace still exists under its name.
    fn exists(&self) -> bool {
        Namespace::find(&self.name).is_ok_and(|found| found == *self)
    }
}

/// The ports of the switches' servers, and the number of switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Ports {
    /// P4Runtime port of the first switch; others consecutive.
    pub grpc: u16,
    /// Thrift port of the first switch; others consecutive.
    pub thrift: u16,
    pub switches: u16,
}

impl Ports {
    /// Fails if the ports exceed 65535 or overlap with those of `others`, the other fabrics in this network namespace.
    fn check(self, others: &[State]) -> Result<(), Failure> {
        /// Returns the first port of a kind of server.
        type FirstPort = fn(&Ports) -> u16;
        let servers: [(&str, &str, FirstPort); 2] = [
            ("P4Runtime", "--grpc-base-port", |ports| ports.grpc),
            ("Thrift", "--thrift-base-port", |ports| ports.thrift),
        ];
        // One past the last port.
        let port_end = |ports: &Ports, first: FirstPort| u32::from(first(ports)) + u32::from(ports.switches);
        for (server, option, first) in servers {
            if port_end(&self, first) > 1 << 16 {
                return Err(Failure::Input(format!(
                    "{option} {}: port range exhausted for {} switches (last port is 65535)",
                    first(&self),
                    self.switches
                )));
            }
            let overlaps = |other: &&State| {
                let other = &other.ports;
                u32::from(first(&self)) < port_end(other, first)
                    && u32::from(first(other)) < port_end(&self, first)
            };
            if let Some(other) = others.iter().find(overlaps) {
                let free = others.iter().map(|other| port_end(&other.ports, first)).max().unwrap_or_default();
                return Err(Failure::Input(format!(
                    "{server} ports {} to {} are in use by fabric {}; use {option} {free}",
                    first(&other.ports),
                    port_end(&other.ports, first) - 1,
                    other.name
                )));
            }
        }
        Ok(())
    }
}

impl State {
    /// Creates the record of a new fabric. Fails if there is a fabric with this name, or if another one uses the ports.
    pub(super) fn create(name: &str, ports: Ports) -> Result<State, Failure> {
        fs::create_dir_all(RUN_DIR)?;
        let (name, switch_netns) = (name.to_owned(), current_netns()?);
        let state = State {
            name,
            namespaces: Vec::new(),
            creating_namespace: None,
            switch_netns,
            ports,
            process: None,
        };
        match write_new(&state.file(), state.to_json()?.as_bytes(), MODE_PUBLIC) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(Failure::Input(format!(
                    "fabric \"{name}\" already exists; remove it with `weir fabric down --name {name}`",
                    name = state.name
                )));
            }
            Err(error) => return Err(Failure::Work(format!("{}: {error}", state.file().display()))),
        }
        // The ports are recorded before they are checked, so that of two fabrics that start concurrently at least one
        // detects the other.
        let others: Vec<State> = in_this_netns()?.filter(|other| other.name != state.name).collect();
        if let Err(failure) = ports.check(&others) {
            state.remove()?;
            return Err(failure);
        }
        Ok(state)
    }

    /// Reads the record of a fabric.
    pub(super) fn load(name: &str) -> Result<State, Failure> {
        check_name(name)?;
        let file = file(name);
        let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::Input(format!("unknown fabric \"{name}\" ({} not found)", file.display()))
            }
            _ => Failure::Work(format!("{}: {error}", file.display())),
        })?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::Work(format!(
                "{}: malformed: {error}; remove it with `weir fabric down --name {name}`",
                file.display()
            ))
        })
    }

    /// Returns all fabrics on this machine whose records can be read.
    fn all() -> impl Iterator<Item = State> {
        let files = fs::read_dir(RUN_DIR).into_iter().flatten().flatten().map(|entry| entry.path());
        let texts = files
            .filter(|file| file.extension().is_some_and(|extension| extension == EXTENSION))
            .filter_map(|file| fs::read_to_string(file).ok());
        texts.filter_map(|text| serde_json::from_str(&text).ok())
    }

    /// Creates a namespace. Its name is recorded before the creation, its identity afterwards.
    pub(super) fn create_namespace(&mut self, name: &str) -> Result<(), Failure> {
        self.creating_namespace = Some(name.to_owned());
        self.write()?;
        let result = run_ip(&[], &format!("netns add {name}\n"));
        self.creating_namespace = None;
        result?;
        self.namespaces.push(Namespace::find(name)?);
        self.write()
    }

    /// Records the process of the switches.
    pub(super) fn set_switch_process(&mut self, pid: u32) -> Result<(), Failure> {
        self.process = start_time(pid).map(|start| (pid, start));
        self.write()
    }

    /// Returns true if the process of the switches was started and no longer runs.
    pub(super) fn switches_have_ended(&self) -> bool {
        self.process.is_some_and(|(pid, start)| start_time(pid) != Some(start))
    }

    /// Returns true if the fabric has this namespace.
    pub(super) fn has_namespace(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|owned| owned.name == namespace)
    }

    pub(super) fn ports(&self) -> Ports {
        self.ports
    }

    /// Returns the path of the switches' log.
    pub(super) fn log(&self) -> PathBuf {
        log(&self.name)
    }

    fn file(&self) -> PathBuf {
        file(&self.name)
    }

    fn to_json(&self) -> Result<String, Failure> {
        serde_json::to_string(self).map_err(Failure::work)
    }

    fn write(&self) -> Result<(), Failure> {
        write_atomic(&self.file(), self.to_json()?.as_bytes(), MODE_PUBLIC)
            .map_err(|error| Failure::Work(format!("{}: {error}", self.file().display())))
    }

    /// Removes the namespaces that still exist, with their links.
    fn remove_namespaces(&self) -> Result<(), Failure> {
        let mut batch = String::new();
        for Namespace { name, .. } in self.namespaces.iter().filter(|namespace| namespace.exists()) {
            // The link is deleted explicitly: the kernel removes those of a deleted namespace asynchronously, and the
            // name could still be in use when the next fabric starts. If that fails, the namespace is still removed.
            let _ = run_ip(&["-n", name], "link del dev eth0\n");
            batch += &format!("netns del {name}\n");
        }
        if batch.is_empty() { Ok(()) } else { run_ip(&["-force"], &batch) }
    }

    /// Stops the switches and removes all recorded objects that still exist, then the record.
    pub(super) fn remove(self) -> Result<(), Failure> {
        if let Some((pid, start)) = self.process {
            terminate(pid, start);
        }
        // A process that ends in a namespace, or another that unmounts it, can make its file busy for a moment.
        let mut result = self.remove_namespaces();
        for _ in 1..REMOVE_ATTEMPTS {
            if result.is_ok() {
                break;
            }
            std::thread::sleep(REMOVE_INTERVAL);
            result = self.remove_namespaces();
        }
        result?;
        if let Some(name) = self.creating_namespace.as_deref().filter(|name| namespace_exists(name)) {
            warn(&format!(
                "network namespace {name} not removed: created by a killed `weir fabric up` or by another program; \
                 remove it with `ip netns del {name}`"
            ));
        }
        remove_record(&self.name)
    }
}

/// Removes a fabric. If its record is malformed, only the record is removed, and the error lists what may remain.
pub(super) fn remove(name: &str) -> Result<(), Failure> {
    check_name(name)?;
    let is_malformed = fs::read(file(name)).is_ok_and(|text| serde_json::from_slice::<State>(&text).is_err());
    if !is_malformed {
        return State::load(name)?.remove();
    }
    remove_record(name)?;
    let prefix = format!("{name}-");
    let names = fs::read_dir(NETNS_DIR).into_iter().flatten().flatten();
    let mut names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(&prefix))
        .collect();
    names.sort();
    let remains = match names.is_empty() {
        true => format!("no network namespace is named {prefix}*"),
        false => format!(
            "network namespaces that may belong to the fabric (remove with `ip netns del`): {}",
            names.join(", ")
        ),
    };
    Err(Failure::Work(format!(
        "{}: malformed, so the fabric's objects are unknown; removed the file, so that the name can be used again; \
         {remains}; if the switches still run, their process is `weir switch --no-p4 --control {name}`",
        file(name).display()
    )))
}

/// Fails if a name cannot be part of the names of files and namespaces.
pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    match is_valid_name(name) {
        true => Ok(()),
        false => Err(Failure::Input(format!("invalid name {name}: use letters, digits, '-' and '_'"))),
    }
}

/// Returns true if a name can be part of the names of files, namespaces and interfaces.
pub(super) fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !name.starts_with(['-', '.'])
}

/// Returns true if iproute2 has an entry for a network namespace with this name, even a stale one.
pub(super) fn namespace_exists(name: &str) -> bool {
    fs::symlink_metadata(Path::new(NETNS_DIR).join(name)).is_ok()
}

/// Returns the fabrics whose switches are in the network namespace of this process.
fn in_this_netns() -> std::io::Result<impl Iterator<Item = State>> {
    let netns = current_netns()?;
    Ok(State::all().filter(move |state| state.switch_netns == netns))
}

/// Returns the names of the fabrics whose switches are in the network namespace of this process.
pub(super) fn names_in_this_netns() -> Vec<String> {
    in_this_netns().into_iter().flatten().map(|state| state.name).collect()
}

/// Returns the name of the fabric that has created a namespace.
pub(super) fn owner_of(namespace: &str) -> Option<String> {
    State::all().find(|state| state.has_namespace(namespace)).map(|state| state.name)
}

/// Removes the log and the record of a fabric.
fn remove_record(name: &str) -> Result<(), Failure> {
    // The log does not exist if the switches were never started.
    let _ = fs::remove_file(log(name));
    fs::remove_file(file(name)).map_err(|error| Failure::Work(format!("{}: {error}", file(name).display())))
}

/// Returns the network namespace of this process, such as `net:[4026531840]`.
fn current_netns() -> std::io::Result<PathBuf> {
    fs::read_link("/proc/self/ns/net")
}

/// Extension of the records.
const EXTENSION: &str = "json";

fn file(name: &str) -> PathBuf {
    Path::new(RUN_DIR).join(format!("{name}.{EXTENSION}"))
}

fn log(name: &str) -> PathBuf {
    Path::new(RUN_DIR).join(format!("{name}.log"))
}

/// Returns the start time of a process, field 22 of `proc(5)`; `None` if the process does not exist or is a
/// zombie.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 2, the name in parentheses, may itself contain parentheses and spaces; field 3 is the state.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    (fields.next()? != "Z").then_some(())?;
    // The next field is the fourth.
    fields.nth(22 - 4)?.parse().ok()
}

/// Stops a process with SIGTERM, then with SIGKILL, waiting [`SHUTDOWN_TIMEOUT`] after each.
fn terminate(pid: u32, start: u64) {
    let is_running = || start_time(pid) == Some(start);
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    for signal in [Signal::TERM, Signal::KILL] {
        if !is_running() {
            return;
        }
        // Fails if the process has exited meanwhile.
        let _ = kill_process(pid, signal);
        let deadline = Instant::now() + SHUTDOWN_TIMEOUT;
        while is_running() && Instant::now() < deadline {
            std::thread::sleep(EXIT_POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_its_start_time() {
        let pid = std::process::id();
        assert!(start_time(pid).is_some());
        assert_eq!(start_time(u32::MAX), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let start = start_time(child.id()).unwrap();
        terminate(child.id(), start + 1);
        assert!(
            child.try_wait().unwrap().is_none(),
            "a process with this pid but another start time is not terminated"
        );
        terminate(child.id(), start);
        assert!(!child.wait().unwrap().success());
    }
}
