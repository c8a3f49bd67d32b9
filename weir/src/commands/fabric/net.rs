//! Namespaces and links of a fabric, by iproute2.

use super::state::{self, State, check_name, is_plain};
use crate::console::Failure;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use weir_controller::topology::Topology;
use weir_switch::driver::af_packet::Interface;

/// The longest name of an interface (`IFNAMSIZ` without its end).
const MAX_IFNAME_LEN: usize = 15;

/// The namespaces, interfaces and addresses to be created.
pub struct Net {
    hosts: Vec<HostEnd>,
    mtu: u32,
    /// Length of the prefix that holds all hosts.
    prefix: u8,
}

/// A host, and its switch's end of their link.
struct HostEnd {
    namespace: String,
    interface: String,
    ip: String,
    mac: String,
}

impl Net {
    /// Plans a fabric of this name. Refused: names that cannot be interfaces, interfaces and namespaces that exist.
    pub fn plan(name: &str, topology: &Topology, mtu: u32) -> Result<Net, Failure> {
        check_name(name)?;
        let hosts = topology.hosts.iter().map(|host| {
            let interface = format!("{}-eth{}", topology.switch(host.switch).name, host.switch_port);
            if interface.len() > MAX_IFNAME_LEN || !is_plain(&interface) || !is_plain(&host.name) {
                return Err(Failure::Input(format!(
                    "{interface} of host {} is no name for an interface: at most {MAX_IFNAME_LEN} letters, digits, - and _",
                    host.name
                )));
            }
            if Interface::find(&interface).is_ok() {
                let whose = match state::names_here().join(", ") {
                    names if names.is_empty() => "another program, such as Mininet, is running here".to_owned(),
                    names => format!("in this network namespace are the fabrics {names}"),
                };
                return Err(Failure::Input(format!(
                    "there is an interface {interface} already: {whose}; give the switches other names"
                )));
            }
            let namespace = format!("{name}-{}", host.name);
            if state::namespace_exists(&namespace) {
                let whose = match state::owner_of(&namespace) {
                    Some(fabric) => format!("of fabric \"{fabric}\""),
                    None => "that this program has not made".to_owned(),
                };
                return Err(Failure::Input(format!(
                    "there is a network namespace {namespace} already, {whose}: remove it, or give another --name"
                )));
            }
            Ok(HostEnd {
                namespace,
                interface,
                ip: host.ip.to_string(),
                mac: host.mac.map(|byte| format!("{byte:02x}")).join(":"),
            })
        });
        Ok(Net { hosts: hosts.collect::<Result<_, _>>()?, mtu, prefix: topology.fabric.len })
    }

    /// Makes everything, unless it is told to stop, and notes it.
    pub fn make(&self, state: &mut State, is_cancelled: fn() -> bool) -> Result<(), Failure> {
        let interrupted = || Err(Failure::Interrupted("nothing is left behind".into()));
        for host in &self.hosts {
            if is_cancelled() {
                return interrupted();
            }
            state.make_namespace(&host.namespace)?;
        }
        let mut batch = String::new();
        // Writing to a string cannot fail.
        for HostEnd { namespace, interface, mac, .. } in &self.hosts {
            let _ = writeln!(
                batch,
                "link add name {interface} mtu {mtu} type veth peer name eth0 mtu {mtu} address {mac} netns {namespace}",
                mtu = self.mtu
            );
            let _ = writeln!(batch, "link set dev {interface} addrgenmode none up");
        }
        run_ip(&[], &batch)?;
        for host in &self.hosts {
            if is_cancelled() {
                return interrupted();
            }
            self.configure_host(host)?;
        }
        Ok(())
    }

    /// Address and neighbours of a host.
    fn configure_host(&self, host: &HostEnd) -> Result<(), Failure> {
        let mut batch = "link set dev lo up\nlink set dev eth0 addrgenmode none up\n".to_owned();
        let _ = writeln!(batch, "addr add {}/{} brd + dev eth0", host.ip, self.prefix);
        for other in self.hosts.iter().filter(|other| other.ip != host.ip) {
            let _ = writeln!(batch, "neigh replace {} lladdr {} dev eth0 nud permanent", other.ip, other.mac);
        }
        run_ip(&["-n", &host.namespace], &batch)?;
        // A virtual link computes no checksums and cuts no segments.
        let here = ["netns", "exec", &host.namespace, "ethtool", "-K", "eth0"];
        let offloads = ["rx", "tx", "sg", "tso", "gso", "gro"].iter().flat_map(|offload| [*offload, "off"]);
        let done = ip().args(here).args(offloads).stdin(Stdio::null()).output();
        match done {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(Failure::Work(format!(
                "{}: ethtool: {}",
                host.namespace,
                String::from_utf8_lossy(&done.stderr).trim()
            ))),
            Err(error) => Err(Failure::Work(format!("ip: {error}"))),
        }
    }
}

/// Ctrl-C does not end it: what it has made would not be known.
fn ip() -> Command {
    let mut command = Command::new("ip");
    command.process_group(0);
    command
}

/// Runs many `ip` commands in one process.
pub fn run_ip(options: &[&str], batch: &str) -> Result<(), Failure> {
    let failed = |reason: String| Failure::Work(format!("ip: {}", reason.trim()));
    let mut command = ip();
    command
        .args(options)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(format!("{error}; install iproute2")))?;
    if let Some(mut input) = child.stdin.take() {
        // If it ends early, its last words say why.
        let _ = input.write_all(batch.as_bytes());
    }
    let done = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(failed(String::from_utf8_lossy(&done.stderr).into_owned()))
    }
}
