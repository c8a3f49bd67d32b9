//! The objects that a fabric has created on this machine, recorded in a file so that any later process can remove
//! them.

use super::run_ip;
use crate::console::Failure;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_switch::driver::af_packet::Interface;

/// The directory of the files. It is emptied when the machine restarts, as are namespaces and processes.
const RUN_DIR: &str = "/run/weir";
/// Time that the switches have to end before they are killed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The objects of one fabric.
#[derive(Debug, Deserialize, Serialize)]
pub struct State {
    name: String,
    namespaces: Vec<String>,
    /// Interfaces of the switches, and the namespace that they are in.
    interfaces: Vec<String>,
    home: PathBuf,
    /// The process of the switches, and its start in clock ticks since the machine's, which tells it from a later process of
    /// the same number.
    process: Option<(u32, u64)>,
}

impl State {
    /// Notes what is about to be made. Refused if a fabric of this name is there.
    pub fn create(name: &str, namespaces: Vec<String>, interfaces: Vec<String>) -> Result<State, Failure> {
        fs::create_dir_all(RUN_DIR)?;
        let (name, home) = (name.to_owned(), home()?);
        let state = State { name, namespaces, interfaces, home, process: None };
        if state.file().exists() {
            return Err(Failure::Input(format!(
                "a fabric \"{name}\" is up, or was left behind: `weir fabric down --name {name}` removes it",
                name = state.name
            )));
        }
        state.write()?;
        Ok(state)
    }

    /// Reads what was made.
    pub fn load(name: &str) -> Result<State, Failure> {
        if name.contains('/') {
            return Err(Failure::Input(format!("--name {name}: take letters, digits, - and _")));
        }
        let file = file(name);
        let text = fs::read_to_string(&file).map_err(|_| {
            Failure::Input(format!("there is no fabric \"{name}\": {} is missing", file.display()))
        })?;
        serde_json::from_str(&text).map_err(|error| Failure::Work(format!("{}: {error}", file.display())))
    }

    /// Notes the process of the switches.
    pub fn switches(&mut self, id: u32) -> Result<(), Failure> {
        self.process = started(id).map(|at| (id, at));
        self.write()
    }

    /// Returns whether it has this namespace.
    pub fn has(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|known| known == namespace)
    }

    /// Returns the log of the switches.
    pub fn log(&self) -> PathBuf {
        Path::new(RUN_DIR).join(format!("{}.log", self.name))
    }

    fn file(&self) -> PathBuf {
        file(&self.name)
    }

    fn write(&self) -> Result<(), Failure> {
        let text = serde_json::to_string(self).map_err(Failure::work)?;
        fs::write(self.file(), text)
            .map_err(|error| Failure::Work(format!("{}: {error}", self.file().display())))
    }

    /// Removes everything that was made, as far as it is there.
    pub fn remove(self) -> Result<(), Failure> {
        if let Some((id, at)) = self.process {
            terminate(id, at);
        }
        // A link goes with the namespace of its host too, but some time later, when the next fabric may want its name.
        let is_home = home().is_ok_and(|home| home == self.home);
        let links = self.interfaces.iter().filter(|name| is_home && Interface::find(name).is_ok());
        let links = links.map(|name| format!("link del dev {name}\n"));
        let namespaces = self.namespaces.iter().filter(|name| Path::new("/run/netns").join(name).exists());
        let batch: String = links.chain(namespaces.map(|name| format!("netns del {name}\n"))).collect();
        if !batch.is_empty() {
            run_ip(&["-force"], &batch)?;
        }
        let _ = fs::remove_file(self.log());
        fs::remove_file(self.file())
            .map_err(|error| Failure::Work(format!("{}: {error}", self.file().display())))
    }
}

/// Names the network namespace of this process.
fn home() -> std::io::Result<PathBuf> {
    fs::read_link("/proc/self/ns/net")
}

fn file(name: &str) -> PathBuf {
    Path::new(RUN_DIR).join(format!("{name}.json"))
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
