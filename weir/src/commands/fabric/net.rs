//! Creates the namespaces and links of a fabric with iproute2.

use super::ip::{ip, run_ip};
use super::state::{self, State, check_name, is_valid_name};
use crate::commands::linux::MAX_IFNAME_LEN;
use crate::console::Failure;
use std::fmt::Write as _;
use std::process::Stdio;
use weir_controller::topology::Topology;
use weir_switch::driver::af_packet::Interface;

/// The namespaces and links of a fabric.
pub(super) struct Net {
    hosts: Vec<HostEnd>,
    mtu: u32,
    /// Length of the network prefix that contains all hosts.
    prefix_len: u8,
}

/// A host, and the interface of the switch at the other end of its link.
struct HostEnd {
    namespace: String,
    interface: String,
    ip: String,
    mac: String,
}

impl Net {
    /// Plans the namespaces and links of a fabric. Fails if a name cannot be used for an interface, or if an
    /// interface or a namespace already exists.
    pub(super) fn plan(name: &str, topology: &Topology, mtu: u32) -> Result<Net, Failure> {
        check_name(name)?;
        let hosts = topology.hosts.iter().map(|host| {
            let interface = format!("{}-eth{}", topology.switch(host.switch).name, host.switch_port);
            if interface.len() > MAX_IFNAME_LEN || !is_valid_name(&interface) || !is_valid_name(&host.name) {
                return Err(Failure::Input(format!(
                    "invalid interface name {interface} for host {}: at most {MAX_IFNAME_LEN} letters, digits, '-' and '_'",
                    host.name
                )));
            }
            if Interface::find(&interface).is_ok() {
                let owner = match state::names_in_this_netns().join(", ") {
                    names if names.is_empty() => "another program such as Mininet is running".to_owned(),
                    names => format!("fabrics in this network namespace: {names}"),
                };
                return Err(Failure::Input(format!(
                    "interface {interface} already exists ({owner}); rename the switches"
                )));
            }
            let namespace = format!("{name}-{}", host.name);
            if state::namespace_exists(&namespace) {
                let owner = match state::owner_of(&namespace) {
                    Some(fabric) => format!("owned by fabric \"{fabric}\""),
                    None => "not created by this program".to_owned(),
                };
                return Err(Failure::Input(format!(
                    "network namespace {namespace} already exists ({owner}); remove it or use another --name"
                )));
            }
            Ok(HostEnd {
                namespace,
                interface,
                ip: host.ip.to_string(),
                mac: host.mac.map(|byte| format!("{byte:02x}")).join(":"),
            })
        });
        Ok(Net { hosts: hosts.collect::<Result<_, _>>()?, mtu, prefix_len: topology.fabric.len })
    }

    /// Creates everything, and records the namespaces in `state`. Fails with [`Failure::Interrupted`] once
    /// `is_cancelled` returns true.
    pub(super) fn create(&self, state: &mut State, is_cancelled: fn() -> bool) -> Result<(), Failure> {
        let interrupted_error = || Err(Failure::Interrupted("cleaned up".into()));
        for host in &self.hosts {
            if is_cancelled() {
                return interrupted_error();
            }
            state.create_namespace(&host.namespace)?;
        }
        let mut batch = String::new();
        // The results are ignored, because writing to a `String` cannot fail.
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
                return interrupted_error();
            }
            self.configure_host(host)?;
        }
        Ok(())
    }

    /// Sets the address, the neighbour entries and the offloads of a host.
    fn configure_host(&self, host: &HostEnd) -> Result<(), Failure> {
        let mut batch = "link set dev lo up\nlink set dev eth0 addrgenmode none up\n".to_owned();
        let _ = writeln!(batch, "addr add {}/{} brd + dev eth0", host.ip, self.prefix_len);
        // Static entries make ARP unnecessary, which P4 programs need not forward.
        for other in self.hosts.iter().filter(|other| other.ip != host.ip) {
            let _ = writeln!(batch, "neigh replace {} lladdr {} dev eth0 nud permanent", other.ip, other.mac);
        }
        run_ip(&["-n", &host.namespace], &batch)?;
        // Offloads must be off: veth links would deliver segments larger than the MTU and packets without
        // checksums.
        let ethtool = ["netns", "exec", &host.namespace, "ethtool", "-K", "eth0"];
        let offloads = ["rx", "tx", "sg", "tso", "gso", "gro"].iter().flat_map(|offload| [*offload, "off"]);
        let output = ip().args(ethtool).args(offloads).stdin(Stdio::null()).output();
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(Failure::Work(format!(
                "{}: ethtool: {}",
                host.namespace,
                String::from_utf8_lossy(&output.stderr).trim()
            ))),
            Err(error) => Err(Failure::Work(format!("ip: {error}"))),
        }
    }
}
