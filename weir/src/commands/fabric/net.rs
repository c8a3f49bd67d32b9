//! Creates the namespaces and links of a fabric with iproute2.

use super::state::{self, State, check_name, is_plain};
use crate::console::Failure;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use weir_controller::topology::Topology;
use weir_switch::driver::af_packet::Interface;

/// Maximum length of an interface name: `IFNAMSIZ` (16) includes the terminating NUL.
const MAX_IFNAME_LEN: usize = 15;

pub struct Net {
    hosts: Vec<HostEnd>,
    mtu: u32,
    /// Length of the network prefix that contains all hosts.
    prefix: u8,
}

/// A host, and the switch's end of its link.
struct HostEnd {
    namespace: String,
    interface: String,
    ip: String,
    mac: String,
}

impl Net {
    /// Plans the namespaces and links of a fabric. Fails if a name cannot be used for an interface, or if an
    /// interface or a namespace already exists.
    pub fn plan(name: &str, topology: &Topology, mtu: u32) -> Result<Net, Failure> {
        check_name(name)?;
        let hosts = topology.hosts.iter().map(|host| {
            let interface = format!("{}-eth{}", topology.switch(host.switch).name, host.switch_port);
            if interface.len() > MAX_IFNAME_LEN || !is_plain(&interface) || !is_plain(&host.name) {
                return Err(Failure::Input(format!(
                    "invalid interface name {interface} for host {}: at most {MAX_IFNAME_LEN} letters, digits, '-' and '_'",
                    host.name
                )));
            }
            if Interface::find(&interface).is_ok() {
                let whose = match state::names_here().join(", ") {
                    names if names.is_empty() => "another program such as Mininet is running".to_owned(),
                    names => format!("fabrics in this network namespace: {names}"),
                };
                return Err(Failure::Input(format!(
                    "interface {interface} already exists ({whose}); rename the switches"
                )));
            }
            let namespace = format!("{name}-{}", host.name);
            if state::namespace_exists(&namespace) {
                let whose = match state::owner_of(&namespace) {
                    Some(fabric) => format!("owned by fabric \"{fabric}\""),
                    None => "not created by this program".to_owned(),
                };
                return Err(Failure::Input(format!(
                    "network namespace {namespace} already exists ({whose}); remove it or use another --name"
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

    /// Creates everything, and records the namespaces in `state`. Fails with [`Failure::Interrupted`] once
    /// `is_cancelled` returns true.
    pub fn make(&self, state: &mut State, is_cancelled: fn() -> bool) -> Result<(), Failure> {
        let interrupted = || Err(Failure::Interrupted("cleaned up".into()));
        for host in &self.hosts {
            if is_cancelled() {
                return interrupted();
            }
            state.make_namespace(&host.namespace)?;
        }
        let mut batch = String::new();
        // Writing to a `String` cannot fail, hence the ignored results.
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

    /// Sets the address, the neighbour entries and the offloads of a host.
    fn configure_host(&self, host: &HostEnd) -> Result<(), Failure> {
        let mut batch = "link set dev lo up\nlink set dev eth0 addrgenmode none up\n".to_owned();
        let _ = writeln!(batch, "addr add {}/{} brd + dev eth0", host.ip, self.prefix);
        for other in self.hosts.iter().filter(|other| other.ip != host.ip) {
            let _ = writeln!(batch, "neigh replace {} lladdr {} dev eth0 nud permanent", other.ip, other.mac);
        }
        run_ip(&["-n", &host.namespace], &batch)?;
        // Offloads must be off: veth links would deliver segments larger than the MTU and packets without
        // checksums.
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

/// Returns a command for `ip` in its own process group, so that Ctrl-C does not stop it halfway: objects that it has
/// created but that are not recorded yet could not be removed.
fn ip() -> Command {
    let mut command = Command::new("ip");
    command.process_group(0);
    command
}

/// Runs a batch of `ip` commands in one process. The batch stops at the first error unless `options` has `-force`.
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
        // A broken pipe means that `ip` has exited; its status and stderr are reported below.
        let _ = input.write_all(batch.as_bytes());
    }
    let done = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if done.status.success() {
        Ok(())
    } else {
        Err(failed(String::from_utf8_lossy(&done.stderr).into_owned()))
    }
}
