//! The tree along which POLICY packets are flooded, and the proof that each host receives each packet exactly once.
//!
//! [`FloodConfig`] limits the rate of POLICY packets per port; the ports of the tree are in
//! [`SwitchRoutes::flood`](crate::routes::SwitchRoutes::flood). `docs/routing.md` describes how the tree is computed
//! and repaired.

use crate::route_table::{Routes, SwitchRoutes};
use crate::topology::{HostIx, LinkIx, Node, SwitchIx, Topology};
use petgraph::unionfind::UnionFind;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use weir_units::{Bandwidth, Bytes, Ratio};

/// A meter of a table entry. The switch drops packets above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Sustained rate, in bytes per second.
    pub rate: u64,
    /// Burst, in bytes.
    pub burst: u64,
}

/// Limits of the POLICY packets that a port accepts; the switch drops packets above them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloodConfig {
    /// Sustained rate of the meter as a share of the port's rate.
    pub rate_share: Ratio,
    /// Burst of the meter. It is divided among the hosts, as is the rate.
    pub burst: Bytes,
}

impl Default for FloodConfig {
    /// 1 % of the rate, the share that policies may cost a fabric. A burst of 64 KB admits the POLICY packets that many
    /// hosts send at once when they learn of a new policy.
    fn default() -> FloodConfig {
        FloodConfig { rate_share: Ratio::new(0.01).unwrap_or_default(), burst: Bytes::from_kb(64) }
    }
}

/// Minimum burst of a host port, in bytes: two POLICY packets of the maximum length, headers included.
const MIN_BURST_BYTES: u64 = 2 * 1_090;

impl FloodConfig {
    /// Returns the meter of a port; its rate is at least 1.
    ///
    /// A host port gets the host's share of what the slowest link of the fabric admits. Ports between switches thus
    /// never drop packets that host ports have admitted, and a flooding host cannot use the shares of other hosts.
    pub(crate) fn meter(&self, topology: &Topology, link: LinkIx) -> Meter {
        let hosts = topology.hosts.len().max(1) as u64;
        let bytes_per_s = |rate: Bandwidth| (rate.as_bps_f64() / 8.0 * self.rate_share.get()) as u64;
        let burst = (self.burst.get() / hosts).max(MIN_BURST_BYTES);
        if topology.is_fabric_link(link) {
            let rate = bytes_per_s(topology.link(link).rate).max(hosts);
            return Meter { rate, burst: burst * hosts };
        }
        let slowest = topology.links.iter().map(|link| link.rate).min();
        Meter { rate: slowest.map_or(0, |rate| bytes_per_s(rate) / hosts).max(1), burst }
    }
}

/// Sets the flooding ports of all switches: the links of `tree` between switches, and all host links.
pub(crate) fn set_tree(
    topology: &Topology,
    tree: impl IntoIterator<Item = LinkIx>,
    switches: &mut [SwitchRoutes],
) {
    let tree: BTreeSet<_> = tree.into_iter().collect();
    for (ix, routes) in topology.switch_ixs().zip(switches) {
        let is_flooded = |link| !topology.is_fabric_link(link) || tree.contains(&link);
        let ports = topology.switch(ix).ports().filter(|(_, link)| is_flooded(*link)).map(|(port, _)| port);
        routes.flood = other_ports(&ports.collect());
    }
}

/// Maps each port to all the others; empty if there is only one port.
fn other_ports(ports: &BTreeSet<u16>) -> BTreeMap<u16, Vec<u16>> {
    let others = |port| ports.iter().copied().filter(|&other| other != port).collect();
    ports.iter().filter(|_| ports.len() > 1).map(|&port| (port, others(port))).collect()
}

/// Size of a flooding tree that was proved correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloodProof {
    /// Number of hosts. Each receives every packet of every other host of its connected component exactly once.
    pub hosts: usize,
    /// Number of links between switches that belong to a tree.
    pub links: usize,
    /// Number of connected components of the fabric that contain hosts; more than one if links have failed.
    pub components: usize,
}

/// A fault of the flooding ports.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FloodFault {
    /// A host can neither send nor receive POLICY packets, since its port is not part of the tree.
    #[error("{host} is not on the flooding tree: {switch} does not flood out of its port {port}")]
    HostNotOnTree { host: String, switch: String, port: u16 },
    /// A switch does not flood packets from a port to exactly the other ports of the tree.
    #[error(
        "{switch}: packets from port {port} are flooded to {found:?}, but the other ports of the tree are {others:?}"
    )]
    WrongPortSet { switch: String, port: u16, found: Vec<u16>, others: Vec<u16> },
    /// A switch floods out of a port without a device, or to a switch whose port is not part of the tree.
    #[error("{switch} floods out of port {port}, where no device accepts the packet")]
    DeadEnd { switch: String, port: u16 },
    /// A link of the tree closes a cycle: packets arrive twice and loop.
    #[error("the flooding tree has a cycle, which the link at port {port} of {switch} closes")]
    Cycle { switch: String, port: u16 },
    /// Two switches with hosts are connected by the fabric but not by the flooding tree.
    #[error("the flooding tree does not reach {b} from {a}")]
    Partitioned { a: String, b: String },
}

/// Proves that every host receives each POLICY packet of every other host that it can reach exactly once.
///
/// The proof has three parts. At each switch, a packet that arrives on a port of the tree leaves by all other ports
/// of the tree. Both ends of each link of the tree belong to the tree. The links form no cycle and connect all
/// switches with hosts that the topology connects.
///
/// # Errors
///
/// Returns all faults; the list is never empty.
pub fn verify_flood(topology: &Topology, routes: &Routes) -> Result<FloodProof, Vec<FloodFault>> {
    let mut faults = Vec::new();
    let mut proof = FloodProof { hosts: topology.hosts.len(), ..FloodProof::default() };
    let name = |ix: SwitchIx| topology.switch(ix).name.clone();
    let mut on_tree = UnionFind::<usize>::new(topology.switches.len());
    for ix in topology.switch_ixs() {
        let flood = &routes.of(ix).flood;
        let ports = flood.keys().copied().collect();
        let expected = other_ports(&ports);
        for (&port, found) in flood {
            let (found, others) = (sorted(found), expected.get(&port).cloned().unwrap_or_default());
            if found != others || others.is_empty() {
                faults.push(FloodFault::WrongPortSet { switch: name(ix), port, found, others });
            }
            let Some((_, peer)) = topology.peer(ix, port) else {
                faults.push(FloodFault::DeadEnd { switch: name(ix), port });
                continue;
            };
            let Node::Switch(next) = peer.node else { continue };
            if !routes.of(next).flood.contains_key(&peer.port) {
                faults.push(FloodFault::DeadEnd { switch: name(ix), port });
            } else if (ix, port) < (next, peer.port) {
                proof.links += 1;
                if !on_tree.union(ix.0 as usize, next.0 as usize) {
                    faults.push(FloodFault::Cycle { switch: name(ix), port });
                }
            }
        }
    }
    proof.components = check_components(topology, routes, &on_tree, &mut faults);
    if faults.is_empty() { Ok(proof) } else { Err(faults) }
}

/// Returns the number of connected components with hosts. In each, the tree must connect all hosts whose links are up.
fn check_components(
    topology: &Topology,
    routes: &Routes,
    on_tree: &UnionFind<usize>,
    faults: &mut Vec<FloodFault>,
) -> usize {
    let components = topology.components();
    // By component, its first host.
    let mut first_hosts: BTreeMap<usize, HostIx> = BTreeMap::new();
    let mut hosts_per_component: BTreeMap<usize, usize> = BTreeMap::new();
    let is_up = |host: HostIx| {
        let host = topology.host(host);
        topology.switch(host.switch).link_at(host.switch_port).is_some()
    };
    for host in topology.host_ixs().filter(|&host| is_up(host)) {
        *hosts_per_component.entry(components[topology.host(host).switch.0 as usize]).or_default() += 1;
    }
    for ix in topology.host_ixs().filter(|&host| is_up(host)) {
        let host = topology.host(ix);
        let component = components[host.switch.0 as usize];
        // A host without others in its component needs no flooding.
        let has_others = hosts_per_component[&component] > 1;
        if has_others && !routes.of(host.switch).flood.contains_key(&host.switch_port) {
            let switch = topology.switch(host.switch).name.clone();
            faults.push(FloodFault::HostNotOnTree {
                host: host.name.clone(),
                switch,
                port: host.switch_port,
            });
        }
        let first_host = topology.host(*first_hosts.entry(component).or_insert(ix));
        if !on_tree.equiv(first_host.switch.0 as usize, host.switch.0 as usize) {
            let name = |ix: SwitchIx| topology.switch(ix).name.clone();
            let fault = FloodFault::Partitioned { a: name(first_host.switch), b: name(host.switch) };
            // The hosts of a switch follow each other: report the switch once.
            if faults.last() != Some(&fault) {
                faults.push(fault);
            }
        }
    }
    first_hosts.len()
}

fn sorted(ports: &[u16]) -> Vec<u16> {
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    ports
}
