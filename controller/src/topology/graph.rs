//! Hosts, switches and links of a checked topology.

use super::prefix::Prefix;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Time};

/// Index of a host in [`Topology::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostIx(pub u32);
/// Index of a switch in [`Topology::switches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchIx(pub u32);
/// Index of a link in [`Topology::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIx(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    Host(HostIx),
    Switch(SwitchIx),
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub node: Node,
    /// From 1 on a switch, [`HOST_PORT`](super::HOST_PORT) on a host.
    pub port: u16,
}

/// A full-duplex link with the same rate and delay in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end, as declared; a host, if the link has one.
    pub a: Endpoint,
    pub b: Endpoint,
    pub rate: Bandwidth,
    /// Propagation delay of one direction.
    pub delay: Time,
}

/// A host, with one NIC and one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Unique among all nodes.
    pub name: String,
    /// Assigned from the [`Prefix`] of the rack, or given in the specification.
    pub ip: Ipv4Addr,
    /// If not given: `02:00` and the four bytes of the IP address, a locally administered address.
    pub mac: [u8; 6],
    /// Switch to which the host is attached.
    pub switch: SwitchIx,
    /// Port of this switch.
    pub switch_port: u16,
    pub link: LinkIx,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Unique among all nodes.
    pub name: String,
    /// Id that the switch XORs into `path_id`; 1 to 4095.
    pub switch_id: u16,
    /// Hops to the nearest switch that has hosts. In a fat-tree 0 is edge, 1 is aggregation and 2 is core.
    pub tier: u8,
    /// Prefix of the assigned host addresses; `None` if the switch has no hosts or addresses are given.
    pub rack: Option<Prefix>,
    /// Hosts on this switch, in the order in which their links are listed.
    pub hosts: Vec<HostIx>,
    /// Routes pass this switch only where no other path exists; its own hosts stay reachable. See
    /// [`Topology::avoiding`].
    pub is_avoided: bool,
    /// Indexed by port number; unused numbers (0, the CPU port) are `None`.
    pub(super) ports: Vec<Option<LinkIx>>,
}

impl Switch {
    /// Returns the connected ports with their links, in port order.
    pub fn ports(&self) -> impl Iterator<Item = (u16, LinkIx)> + '_ {
        self.ports.iter().enumerate().filter_map(|(port, link)| link.map(|link| (port as u16, link)))
    }
    /// Returns the link on a port, or `None` if the port is unused.
    pub fn link_at(&self, port: u16) -> Option<LinkIx> {
        self.ports.get(usize::from(port)).copied().flatten()
    }
}

/// A checked topology, created only by [`build`](super::build()) and [`build_parts`](super::build_parts). Every host
/// has one link, and ports and addresses are unique. Every pair of hosts is connected, except after `build_parts` or
/// [`Topology::without_links`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// In order of declaration, as `switches` and `links`.
    pub hosts: Vec<Host>,
    pub switches: Vec<Switch>,
    pub links: Vec<Link>,
    /// The prefix that contains all host addresses and no other network.
    pub fabric: Prefix,
}

impl Topology {
    pub fn host(&self, ix: HostIx) -> &Host {
        &self.hosts[ix.0 as usize]
    }
    pub fn switch(&self, ix: SwitchIx) -> &Switch {
        &self.switches[ix.0 as usize]
    }
    pub fn link(&self, ix: LinkIx) -> &Link {
        &self.links[ix.0 as usize]
    }
    pub fn host_ixs(&self) -> impl Iterator<Item = HostIx> + use<> {
        (0..self.hosts.len() as u32).map(HostIx)
    }
    pub fn switch_ixs(&self) -> impl Iterator<Item = SwitchIx> + use<> {
        (0..self.switches.len() as u32).map(SwitchIx)
    }
    pub fn node_name(&self, node: Node) -> &str {
        match node {
            Node::Host(ix) => &self.host(ix).name,
            Node::Switch(ix) => &self.switch(ix).name,
        }
    }
    pub fn host_named(&self, name: &str) -> Option<HostIx> {
        self.hosts.iter().position(|h| h.name == name).map(|i| HostIx(i as u32))
    }
    pub fn switch_named(&self, name: &str) -> Option<SwitchIx> {
        self.switches.iter().position(|s| s.name == name).map(|i| SwitchIx(i as u32))
    }
    /// Returns the link on a port of a switch and the far end of the link; `None` if the port is unused.
    pub fn peer(&self, switch: SwitchIx, port: u16) -> Option<(LinkIx, Endpoint)> {
        let ix = self.switch(switch).link_at(port)?;
        let link = self.link(ix);
        let here = Endpoint { node: Node::Switch(switch), port };
        Some((ix, if link.a == here { link.b } else { link.a }))
    }
    /// Formats an end of a link: the name of a host, or switch and port such as `s1:3`.
    pub fn end_name(&self, end: Endpoint) -> String {
        match end.node {
            Node::Host(_) => self.node_name(end.node).to_owned(),
            Node::Switch(_) => format!("{}:{}", self.node_name(end.node), end.port),
        }
    }
    pub fn leads_to_host(&self, switch: SwitchIx, port: u16) -> bool {
        self.peer(switch, port).is_some_and(|(_, peer)| matches!(peer.node, Node::Host(_)))
    }

    /// Returns the neighbours of a switch that are switches, in port order.
    pub fn neighbours(&self, switch: SwitchIx) -> impl Iterator<Item = Neighbour> + '_ {
        self.switch(switch).ports().filter_map(move |(port, link)| {
            let (_, peer) = self.peer(switch, port)?;
            match peer.node {
                Node::Switch(next) => Some(Neighbour { port, link, switch: next, peer_port: peer.port }),
                Node::Host(_) => None,
            }
        })
    }
}

/// A link from a switch to a neighbouring switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Local port.
    pub port: u16,
    pub link: LinkIx,
    /// Neighbouring switch.
    pub switch: SwitchIx,
    /// Port of the neighbouring switch.
    pub peer_port: u16,
}
