//! Builds a checked topology from its specification: names, links, ports, tiers and addresses.

use super::error::{Location, TopologyError, TopologyProblem};
use super::graph::{Endpoint, Host, HostIx, Link, LinkIx, Node, Switch, SwitchIx, Topology};
use super::kinds::{Draft, DraftLink, draft};
use super::limits::{CPU_PORT, HOST_PORT, MAX_PORTS, MAX_SWITCHES};
use super::prefix::Prefix;
use super::spec::{AddressSpec, TopologySpec};
use petgraph::unionfind::UnionFind;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, RateCode};

/// Minimum number of host bits of a rack prefix, so that racks are `10.x.y.0/24` unless a rack is larger.
const RACK_HOST_BITS: u32 = 8;
/// Network of assigned host addresses (RFC 1918). Addresses given in the specification may be outside.
const FABRIC: Prefix = Prefix { addr: Ipv4Addr::new(10, 0, 0, 0), len: 8 };
/// Port number that BMv2 reserves for dropped packets.
const DROP_PORT: u16 = 511;
/// First two bytes of assigned host MACs: locally administered, unicast.
const MAC_PREFIX: [u8; 2] = [0x02, 0x00];

/// Checks a specification and assigns all ports and addresses.
///
/// # Errors
///
/// Names, links, ports or addresses are missing, duplicate or out of range, hosts are not connected, or there are more
/// nodes than supported. The error contains the location.
pub fn build(spec: &TopologySpec) -> Result<Topology, TopologyError> {
    let topology = build_parts(spec)?;
    check_connected(&topology).map_err(|problem| TopologyError::at(Location::Topology, problem))?;
    Ok(topology)
}

/// Like [`build`], but also accepts disconnected graphs and graphs without hosts, for fabrics whose routes Weir does
/// not compute.
///
/// # Errors
///
/// See [`build`], except that the graph may be disconnected.
pub fn build_parts(spec: &TopologySpec) -> Result<Topology, TopologyError> {
    let draft = draft(spec)?;
    let nodes = declare(&draft)?;
    let draft_addresses = draft.addresses;
    let mut topology = skeleton(draft.hosts, draft.switches);
    let mut linked = vec![false; topology.hosts.len()];
    for (i, link) in draft.links.iter().enumerate() {
        connect_link(&mut topology, &nodes, &mut linked, i, link)
            .map_err(|problem| TopologyError::at(Location::Link(i + 1), problem))?;
    }
    if let Some(unlinked) = linked.iter().position(|&linked| !linked) {
        return Err(TopologyError::at(
            Location::Topology,
            TopologyProblem::Unlinked(topology.hosts[unlinked].name.clone()),
        ));
    }
    set_tiers(&mut topology);
    if draft_addresses.is_empty() {
        assign_addresses(&mut topology);
    } else {
        assign_given_addresses(&mut topology, &draft_addresses)
            .map_err(|problem| TopologyError::at(Location::Field("addresses"), problem))?;
    }
    Ok(topology)
}

/// Maps names to nodes. Rejects invalid or duplicate names and too many switches.
fn declare(draft: &Draft) -> Result<HashMap<String, Node>, TopologyError> {
    if draft.switches.len() > MAX_SWITCHES {
        return Err(TopologyError::at(
            Location::Topology,
            TopologyProblem::TooManySwitches(draft.switches.len()),
        ));
    }
    let hosts = draft.hosts.iter().enumerate().map(|(i, n)| ("hosts", n, Node::Host(HostIx(i as u32))));
    let switches =
        draft.switches.iter().enumerate().map(|(i, n)| ("switches", n, Node::Switch(SwitchIx(i as u32))));
    let mut nodes = HashMap::new();
    for (field, name, node) in hosts.chain(switches) {
        if !is_valid_name(name) {
            return Err(TopologyError::at(Location::Field(field), TopologyProblem::BadName(name.clone())));
        }
        if nodes.insert(name.clone(), node).is_some() {
            return Err(TopologyError::at(Location::Field(field), TopologyProblem::Duplicate(name.clone())));
        }
    }
    Ok(nodes)
}

/// Checks that a name is valid in interface names (`s1-eth12`, at most 15 bytes in Linux) and file names.
fn is_valid_name(name: &str) -> bool {
    /// Maximum length for which `-eth` and a three-digit port fit in IFNAMSIZ - 1.
    const MAX_NAME_LEN: usize = 12;
    name.len() <= MAX_NAME_LEN
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Creates the nodes without links, tiers and addresses.
fn skeleton(hosts: Vec<String>, switches: Vec<String>) -> Topology {
    let host = |name| Host {
        name,
        ip: Ipv4Addr::UNSPECIFIED,
        mac: [0; 6],
        switch: SwitchIx(0),
        switch_port: 0,
        link: LinkIx(0),
    };
    let switch = |(i, name)| Switch {
        name,
        switch_id: i as u16 + 1,
        tier: 0,
        rack: None,
        hosts: Vec::new(),
        is_avoided: false,
        ports: vec![None],
    };
    Topology {
        hosts: hosts.into_iter().map(host).collect(),
        switches: switches.into_iter().enumerate().map(switch).collect(),
        links: Vec::new(),
        fabric: FABRIC,
    }
}

/// Adds a link and assigns a port on each switch at its ends.
fn connect_link(
    topology: &mut Topology,
    nodes: &HashMap<String, Node>,
    linked: &mut [bool],
    index: usize,
    link: &DraftLink,
) -> Result<(), TopologyProblem> {
    let find =
        |name: &String| nodes.get(name).copied().ok_or_else(|| TopologyProblem::Undeclared(name.clone()));
    let (a, b) = (find(&link.a)?, find(&link.b)?);
    if a == b {
        return Err(TopologyProblem::SelfLink(link.a.clone()));
    }
    if link.rate == Bandwidth::ZERO {
        return Err(TopologyProblem::ZeroRate);
    }
    if RateCode::from_bandwidth(link.rate).is_none() {
        return Err(TopologyProblem::NoRateCode(link.rate));
    }
    let ix = LinkIx(index as u32);
    let (a, b) = match (a, b) {
        (Node::Host(_), Node::Host(_)) => {
            return Err(TopologyProblem::HostToHost(link.a.clone(), link.b.clone()));
        }
        (Node::Switch(one), Node::Switch(other)) => {
            (assign_port(topology, one, ix, link.ports[0])?, assign_port(topology, other, ix, link.ports[1])?)
        }
        (Node::Host(host), Node::Switch(switch)) | (Node::Switch(switch), Node::Host(host)) => {
            let requested = if matches!(b, Node::Switch(_)) { link.ports[1] } else { link.ports[0] };
            if std::mem::replace(&mut linked[host.0 as usize], true) {
                return Err(TopologyProblem::SecondHostLink(topology.host(host).name.clone()));
            }
            let end = assign_port(topology, switch, ix, requested)?;
            topology.switches[switch.0 as usize].hosts.push(host);
            let attached = &mut topology.hosts[host.0 as usize];
            (attached.switch, attached.switch_port, attached.link) = (switch, end.port, ix);
            // The host becomes end `a`, in whatever order the ends are declared.
            (Endpoint { node: Node::Host(host), port: HOST_PORT }, end)
        }
    };
    topology.links.push(Link { a, b, rate: link.rate, delay: link.delay });
    Ok(())
}

/// Assigns the requested port of a switch, or else the port after the highest in use.
fn assign_port(
    topology: &mut Topology,
    switch: SwitchIx,
    link: LinkIx,
    requested: Option<u16>,
) -> Result<Endpoint, TopologyProblem> {
    let switch_entry = &mut topology.switches[switch.0 as usize];
    if switch_entry.ports().count() == MAX_PORTS {
        return Err(TopologyProblem::TooManyPorts(switch_entry.name.clone()));
    }
    let next = switch_entry.ports.len() as u16;
    let port = requested.unwrap_or(if next == CPU_PORT { next + 1 } else { next });
    if port == 0 || port == CPU_PORT || port >= DROP_PORT {
        return Err(TopologyProblem::BadPort(port));
    }
    let index = usize::from(port);
    switch_entry.ports.resize(switch_entry.ports.len().max(index + 1), None);
    if switch_entry.ports[index].is_some() {
        return Err(TopologyProblem::PortTaken { switch: switch_entry.name.clone(), port });
    }
    switch_entry.ports[index] = Some(link);
    Ok(Endpoint { node: Node::Switch(switch), port })
}

/// Rejects topologies without hosts, and topologies in which two hosts cannot reach each other.
fn check_connected(topology: &Topology) -> Result<(), TopologyProblem> {
    let first = topology.hosts.first().ok_or(TopologyProblem::NoHost)?;
    let mut components = UnionFind::<usize>::new(topology.switches.len());
    for link in &topology.links {
        if let (Node::Switch(a), Node::Switch(b)) = (link.a.node, link.b.node) {
            components.union(a.0 as usize, b.0 as usize);
        }
    }
    match topology
        .hosts
        .iter()
        .find(|host| !components.equiv(first.switch.0 as usize, host.switch.0 as usize))
    {
        Some(other) => Err(TopologyProblem::Disconnected(first.name.clone(), other.name.clone())),
        None => Ok(()),
    }
}

/// Sets the tier of each switch, the number of hops to the nearest switch with hosts, by a multi-source breadth-first
/// search. Switches that no host can reach keep tier 0; no path uses them.
fn set_tiers(topology: &mut Topology) {
    let mut queue: VecDeque<SwitchIx> =
        topology.switch_ixs().filter(|&s| !topology.switch(s).hosts.is_empty()).collect();
    let mut seen: Vec<bool> = topology.switches.iter().map(|s| !s.hosts.is_empty()).collect();
    while let Some(here) = queue.pop_front() {
        let tier = topology.switch(here).tier.saturating_add(1);
        let next: Vec<SwitchIx> = topology.neighbours(here).map(|n| n.switch).collect();
        for switch in next {
            if !std::mem::replace(&mut seen[switch.0 as usize], true) {
                topology.switches[switch.0 as usize].tier = tier;
                queue.push_back(switch);
            }
        }
    }
}

/// Assigns addresses by rack. The rack of switch n is `10.0.0.0 + n * 2^bits`, with hosts numbered from 1. `bits` is 8
/// unless a rack has more than 254 hosts. The largest fabric, 4,095 racks of 500 hosts, needs 21 of 24 bits.
fn assign_addresses(topology: &mut Topology) {
    let largest = topology.switches.iter().map(|s| s.hosts.len()).max().unwrap_or(0) as u32;
    // All-zeros and all-ones are not host addresses.
    let bits = RACK_HOST_BITS.max(u32::BITS - (largest + 1).leading_zeros());
    let Topology { hosts, switches, .. } = topology;
    for switch in switches.iter_mut().filter(|s| !s.hosts.is_empty()) {
        let base = FABRIC.addr.to_bits() + (u32::from(switch.switch_id) << bits);
        switch.rack = Some(Prefix { addr: Ipv4Addr::from_bits(base), len: (u32::BITS - bits) as u8 });
        for (n, host) in (1..).zip(&switch.hosts) {
            let ip = Ipv4Addr::from_bits(base + n);
            let host = &mut hosts[host.0 as usize];
            (host.ip, host.mac) = (ip, mac_of(ip));
        }
    }
}

/// Derives the MAC address of a host from its IP address.
fn mac_of(ip: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = ip.octets();
    [MAC_PREFIX[0], MAC_PREFIX[1], a, b, c, d]
}

/// Assigns the addresses given in the specification. Switches then have no rack prefix, and every host has a route of
/// its own.
fn assign_given_addresses(
    topology: &mut Topology,
    given: &BTreeMap<String, AddressSpec>,
) -> Result<(), TopologyProblem> {
    if let Some(unknown) = given.keys().find(|name| topology.host_named(name).is_none()) {
        return Err(TopologyProblem::Undeclared(unknown.clone()));
    }
    let mut owners: BTreeMap<Ipv4Addr, String> = BTreeMap::new();
    for host in &mut topology.hosts {
        let Some(address) = given.get(&host.name) else {
            return Err(TopologyProblem::NoAddress(host.name.clone()));
        };
        host.ip = address.ip;
        host.mac = address.mac.map_or_else(|| mac_of(address.ip), |mac| mac.0);
        if let Some(other) = owners.insert(host.ip, host.name.clone()) {
            return Err(TopologyProblem::SameAddress(other, host.name.clone()));
        }
    }
    // Bits that are 1 in all addresses, and bits that are 1 in any. The common prefix ends where they differ.
    let (all, any) =
        owners.keys().fold((u32::MAX, 0), |(all, any), ip| (all & ip.to_bits(), any | ip.to_bits()));
    // A single host would give /32, which its own `deliver` route already uses.
    let len = (all ^ any).leading_zeros().min(u32::BITS - 1) as u8;
    topology.fabric = Prefix::of(Ipv4Addr::from_bits(all), len);
    Ok(())
}
