//! The objects that a fabric has created on this machine, recorded in a file so that any later process can remove
//! them.

use super::net::run_ip;
use crate::console::{Failure, warn};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_report::files::{MODE_PUBLIC, write_atomic, write_new};

/// The directory of the files. It is emptied when the machine restarts, as are namespaces and processes.
const RUN_DIR: &str = "/run/weir";
/// The directory in which iproute2 names network namespaces.
const NAMESPACES: &str = "/run/netns";
/// Time that the switches have to end before they are killed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The objects of one fabric.
#[derive(Debug, Deserialize, Serialize)]
pub struct State {
    name: String,
    /// The namespaces that were made.
    namespaces: Vec<Namespace>,
    /// The namespace that is being made. If the process is killed meanwhile, nothing tells whether it or another one has
    /// made it.
    making: Option<String>,
    /// The network namespace of the switches.
    home: PathBuf,
    ports: Ports,
    /// The process of the switches, and its start in clock ticks since the machine's, which tells it from a later process of
    /// the same number.
    process: Option<(u32, u64)>,
}

/// A network namespace: its name, and what tells it from a later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Namespace {
    name: String,
    device: u64,
    inode: u64,
    /// The kernel uses inodes of removed namespaces again; this is the time at which this one got its name.
    since: (i64, i64),
}

impl Namespace {
    /// Returns the namespace that has this name now.
    fn find(name: &str) -> std::io::Result<Namespace> {
        let about = fs::metadata(Path::new(NAMESPACES).join(name))?;
        let since = (about.ctime(), about.ctime_nsec());
        Ok(Namespace { name: name.to_owned(), device: about.dev(), inode: about.ino(), since })
    }

    /// Returns whether it is still there under its name.
    fn is_there(&self) -> bool {
        Namespace::find(&self.name).is_ok_and(|found| found == *self)
    }
}

/// The ports of the switches' servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Ports {
    /// P4Runtime port of the first switch; the others follow.
    pub grpc: u16,
    /// Thrift port of the first switch; the others follow.
    pub thrift: u16,
    /// Number of switches.
    pub switches: u16,
}

impl Ports {
    /// Refuses ports that other fabrics of this network namespace use, or that are too many.
    fn check(self, others: &[State]) -> Result<(), Failure> {
        type First = fn(&Ports) -> u16;
        let servers: [(&str, &str, First); 2] = [
            ("P4Runtime", "--grpc-base-port", |ports| ports.grpc),
            ("Thrift", "--thrift-base-port", |ports| ports.thrift),
        ];
        let terminate = |ports: &Ports, first: First| u32::from(first(ports)) + u32::from(ports.switches);
        for (server, option, first) in servers {
            if terminate(&self, first) > 1 << 16 {
                return Err(Failure::Input(format!(
                    "{option} {}: no port is left for the last of {} switches",
                    first(&self),
                    self.switches
                )));
            }
            let is_shared = |other: &&State| {
                let other = &other.ports;
                u32::from(first(&self)) < terminate(other, first)
                    && u32::from(first(other)) < terminate(&self, first)
            };
            if let Some(other) = others.iter().find(is_shared) {
                let free =
                    others.iter().map(|other| terminate(&other.ports, first)).max().unwrap_or_default();
                return Err(Failure::Input(format!(
                    "the {server} ports {} to {} are those of fabric {}; give {option} {free} or another",
                    first(&other.ports),
                    terminate(&other.ports, first) - 1,
                    other.name
                )));
            }
        }
        Ok(())
    }
}

impl State {
    /// Notes what is about to be made. Refused if a fabric of this name is there, or another one has the ports.
    pub fn create(name: &str, ports: Ports) -> Result<State, Failure> {
        fs::create_dir_all(RUN_DIR)?;
        let (name, home) = (name.to_owned(), home()?);
        let state = State { name, namespaces: Vec::new(), making: None, home, ports, process: None };
        match write_new(&state.file(), state.text()?.as_bytes(), MODE_PUBLIC) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(Failure::Input(format!(
                    "a fabric \"{name}\" is up, or was left behind: `weir fabric down --name {name}` removes it",
                    name = state.name
                )));
            }
            Err(error) => return Err(Failure::Work(format!("{}: {error}", state.file().display()))),
        }
        // After its own ports are noted: of two fabrics that come at once, one at least sees the other.
        let others: Vec<State> = here()?.filter(|other| other.name != state.name).collect();
        if let Err(failure) = ports.check(&others) {
            state.remove()?;
            return Err(failure);
        }
        Ok(state)
    }

    /// Reads what was made.
    pub fn load(name: &str) -> Result<State, Failure> {
        check_name(name)?;
        let file = file(name);
        let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::Input(format!("there is no fabric \"{name}\": {} is missing", file.display()))
            }
            _ => Failure::Work(format!("{}: {error}", file.display())),
        })?;
        serde_json::from_str(&text).map_err(|error| {
            Failure::Work(format!(
                "{}: the file is damaged ({error}); `weir fabric down --name {name}` removes it",
                file.display()
            ))
        })
    }

    /// Returns the fabrics that are noted here and can be read.
    fn all() -> impl Iterator<Item = State> {
        let files = fs::read_dir(RUN_DIR).into_iter().flatten().flatten().map(|entry| entry.path());
        let texts = files
            .filter(|file| file.extension().is_some_and(|ending| ending == ENDING))
            .filter_map(|file| fs::read_to_string(file).ok());
        texts.filter_map(|text| serde_json::from_str(&text).ok())
    }

    /// Makes a namespace.
    pub fn make_namespace(&mut self, name: &str) -> Result<(), Failure> {
        self.making = Some(name.to_owned());
        self.write()?;
        let made = run_ip(&[], &format!("netns add {name}\n"));
        self.making = None;
        made?;
        self.namespaces.push(Namespace::find(name)?);
        self.write()
    }

    /// Notes the process of the switches.
    pub fn switches(&mut self, id: u32) -> Result<(), Failure> {
        self.process = started(id).map(|at| (id, at));
        self.write()
    }

    /// Returns whether it has this namespace.
    pub fn has(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|known| known.name == namespace)
    }

    /// Returns the ports of the switches.
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// Returns the log of the switches.
    pub fn log(&self) -> PathBuf {
        log(&self.name)
    }

    fn file(&self) -> PathBuf {
        file(&self.name)
    }

    fn text(&self) -> Result<String, Failure> {
        serde_json::to_string(self).map_err(Failure::work)
    }

    fn write(&self) -> Result<(), Failure> {
        write_atomic(&self.file(), self.text()?.as_bytes(), MODE_PUBLIC)
            .map_err(|error| Failure::Work(format!("{}: {error}", self.file().display())))
    }

    /// Removes everything that was made, as far as it is there, and nothing else.
    pub fn remove(self) -> Result<(), Failure> {
        if let Some((id, at)) = self.process {
            terminate(id, at);
        }
        let mut batch = String::new();
        for Namespace { name, .. } in self.namespaces.iter().filter(|it| it.is_there()) {
            // The link goes with the namespace too, but some time later, when the next fabric may want its name.
            let _ = run_ip(&["-n", name], "link del dev eth0\n");
            batch += &format!("netns del {name}\n");
        }
        if !batch.is_empty() {
            run_ip(&["-force"], &batch)?;
        }
        if let Some(name) = self.making.as_deref().filter(|name| namespace_exists(name)) {
            warn(&format!(
                "the network namespace {name} stays: `weir fabric up` was killed while it made it, or another program \
                 has; `ip netns del {name}` removes it"
            ));
        }
        forget(&self.name)
    }
}

/// Removes a fabric. If its file is damaged, that is removed, and the failure says what may be left.
pub fn remove(name: &str) -> Result<(), Failure> {
    check_name(name)?;
    let damaged = fs::read(file(name)).is_ok_and(|text| serde_json::from_slice::<State>(&text).is_err());
    if !damaged {
        return State::load(name)?.remove();
    }
    forget(name)?;
    let prefix = format!("{name}-");
    let names = fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    let mut names: Vec<String> = names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|it| it.starts_with(&prefix))
        .collect();
    names.sort();
    let left = match names.is_empty() {
        true => "no network namespace has a name of it".to_owned(),
        false => format!(
            "these network namespaces have names of it, `ip netns del` removes those that are: {}",
            names.join(", ")
        ),
    };
    Err(Failure::Work(format!(
        "{}: the file was damaged, so what the fabric had is not known; it is removed, and `weir fabric up` can use \
         the name again; {left}; its switches, if they run, are a process `weir switch --no-p4 --control {name}`",
        file(name).display()
    )))
}

/// Refuses names that are no part of names of files and namespaces.
pub fn check_name(name: &str) -> Result<(), Failure> {
    match is_plain(name) {
        true => Ok(()),
        false => Err(Failure::Input(format!("--name {name}: take letters, digits, - and _"))),
    }
}

/// Returns whether a name can be part of names of files, namespaces and interfaces.
pub fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !name.starts_with(['-', '.'])
}

/// Returns whether a network namespace, or the remains of one, has this name.
pub fn namespace_exists(name: &str) -> bool {
    fs::symlink_metadata(Path::new(NAMESPACES).join(name)).is_ok()
}

/// Returns the fabrics whose switches are in the network namespace of this process.
fn here() -> std::io::Result<impl Iterator<Item = State>> {
    let home = home()?;
    Ok(State::all().filter(move |state| state.home == home))
}

/// Returns their names.
pub fn names_here() -> Vec<String> {
    here().into_iter().flatten().map(|state| state.name).collect()
}

/// Returns the fabric that has made a namespace.
pub fn owner_of(namespace: &str) -> Option<String> {
    State::all().find(|state| state.has(namespace)).map(|state| state.name)
}

/// Removes the files of a fabric.
fn forget(name: &str) -> Result<(), Failure> {
    let _ = fs::remove_file(log(name));
    fs::remove_file(file(name)).map_err(|error| Failure::Work(format!("{}: {error}", file(name).display())))
}

/// Names the network namespace of this process.
fn home() -> std::io::Result<PathBuf> {
    fs::read_link("/proc/self/ns/net")
}

/// Extension of the files.
const ENDING: &str = "json";

fn file(name: &str) -> PathBuf {
    Path::new(RUN_DIR).join(format!("{name}.{ENDING}"))
}

fn log(name: &str) -> PathBuf {
    Path::new(RUN_DIR).join(format!("{name}.log"))
}

/// Returns the start of a process, field 22 of `proc(5)`; `None` if it is gone or only its status is left.
fn started(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    (fields.next()? != "Z").then_some(())?;
    fields.nth(18)?.parse().ok()
}

/// Ends a process, and waits for its end.
fn terminate(id: u32, at: u64) {
    let runs = || started(id) == Some(at);
    let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) else { return };
    for (signal, patience) in [(Signal::TERM, SHUTDOWN_TIMEOUT), (Signal::KILL, SHUTDOWN_TIMEOUT)] {
        if !runs() {
            return;
        }
        // It may have ended by itself.
        let _ = kill_process(pid, signal);
        let until = Instant::now() + patience;
        while runs() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let own = std::process::id();
        assert!(started(own).is_some());
        assert_eq!(started(u32::MAX), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let at = started(child.id()).unwrap();
        terminate(child.id(), at + 1);
        assert!(child.try_wait().unwrap().is_none(), "another process of this number");
        terminate(child.id(), at);
        assert!(!child.wait().unwrap().success());
    }
}
