//! The fabric: hosts, switches and the links between them.
//!
//! [`TopologySpec`] is what people write, [`build`] checks it and gives a [`Topology`], in which every
//! name, port and address is fixed. The same spec gives the same topology, always.
//!
//! - Hosts are `h1, h2, ..` and switches `s1, s2, ..` (custom topologies name their own).
//! - A switch's ports are numbered from 1 in the order in which the links are listed, leaving out
//!   [`CPU_PORT`]. A host has one port, 0.
//! - The wire id of the n-th switch is n: what it XORs into `path_id`.
//! - Addresses follow the racks, see [`Prefix`] and `docs/routing.md`.

mod build;
mod degraded;
mod error;
mod kinds;
mod mac;
mod random_graph;
mod spec;
mod text;

pub use build::{build, build_parts};
pub use error::{Location, TopologyError, TopologyProblem};
pub use mac::Mac;
pub use spec::{
    AddressSpec, Butterfly, Custom, Dragonfly, Dumbbell, FatTree, Jellyfish, LeafSpine, LinkSpec, ParkingLot,
    Star, TopologyFile, TopologySpec,
};
pub use text::AsText;

use std::fmt;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Time};

/// The port by which a switch talks to its controller (`CPU_PORT` in `p4src/include/constants.p4`).
pub const CPU_PORT: u16 = 255;
/// The most links a switch takes: the port registers of the P4 programs have 512 cells, and BMv2
/// keeps port 511 for dropping.
pub const MAX_PORTS: usize = 500;
/// The most switches: `path_id` and `switch_identity` have 12 bits, and 0 means none.
pub const MAX_SWITCHES: usize = 4095;
/// The port number of a host's only NIC.
pub const HOST_PORT: u16 = 0;

/// Position of a host in [`Topology::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostIx(pub u32);
/// Position of a switch in [`Topology::switches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchIx(pub u32);
/// Position of a link in [`Topology::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIx(pub u32);

/// One end of a link: a host or a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// A host.
    Host(HostIx),
    /// A switch.
    Switch(SwitchIx),
}

/// An end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The node that has the port.
    pub node: Node,
    /// Port number: from 1 on a switch, [`HOST_PORT`] on a host.
    pub port: u16,
}

/// A cable: full duplex, the same rate and delay in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end (the host, if there is one).
    pub a: Endpoint,
    /// The other end.
    pub b: Endpoint,
    /// Rate of each direction.
    pub rate: Bandwidth,
    /// Propagation delay of one direction.
    pub delay: Time,
}

/// A host: one NIC, one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Unique among all nodes.
    pub name: String,
    /// Its address, from its rack's [`Prefix`].
    pub ip: Ipv4Addr,
    /// Locally administered: `02:00` and the four bytes of the IP address.
    pub mac: [u8; 6],
    /// The switch it hangs on.
    pub switch: SwitchIx,
    /// The port of that switch.
    pub switch_port: u16,
    /// The link between them.
    pub link: LinkIx,
}

/// A switch and what its ports lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Unique among all nodes.
    pub name: String,
    /// 1 to 4095: what it XORs into `path_id`.
    pub switch_id: u16,
    /// Hops to the nearest switch that has hosts: 0 is an edge switch, in a fat-tree 1 aggregates
    /// and 2 is the core.
    pub tier: u8,
    /// Addresses of the hosts on this switch; `None` if it has no host.
    pub rack: Option<Prefix>,
    /// The hosts on this switch, in port order.
    pub hosts: Vec<HostIx>,
    /// No route passes this switch where another one exists; its own hosts are reached. See
    /// [`Topology::avoiding`].
    pub is_avoided: bool,
    /// Port number -> link; unused numbers (0, the CPU port) hold `None`.
    ports: Vec<Option<LinkIx>>,
}

impl Switch {
    /// Returns the ports in use and their links, in port order.
    pub fn ports(&self) -> impl Iterator<Item = (u16, LinkIx)> + '_ {
        self.ports.iter().enumerate().filter_map(|(port, link)| link.map(|link| (port as u16, link)))
    }
    /// Returns the link on a port.
    pub fn link_at(&self, port: u16) -> Option<LinkIx> {
        self.ports.get(usize::from(port)).copied().flatten()
    }
}

/// An IPv4 prefix; the host bits of the address are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// Network address.
    pub addr: Ipv4Addr,
    /// Number of leading bits that count, 0 to 32.
    pub len: u8,
}

impl Prefix {
    /// Returns the prefix that holds one address only.
    pub const fn host(addr: Ipv4Addr) -> Prefix {
        Prefix { addr, len: 32 }
    }
    /// Returns the prefix of this length that holds the address; `len` is at most 32.
    pub fn of(addr: Ipv4Addr, len: u8) -> Prefix {
        let mask = u32::MAX.checked_shl(32u32.saturating_sub(len.into())).unwrap_or(0);
        Prefix { addr: Ipv4Addr::from_bits(addr.to_bits() & mask), len }
    }
    /// Returns whether the address lies in it.
    pub fn contains(self, addr: Ipv4Addr) -> bool {
        Prefix::of(addr, self.len).addr == self.addr
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}

/// A checked fabric. Made by [`build`] and [`build_parts`] only, so what it says of itself holds: every host has one
/// link, every pair of hosts is connected (but for `build_parts`, and until [`Topology::without`] takes links away), ports
/// and addresses are unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// In order of declaration.
    pub hosts: Vec<Host>,
    /// In order of declaration.
    pub switches: Vec<Switch>,
    /// In order of declaration.
    pub links: Vec<Link>,
    /// Holds every host's address and no other network's.
    pub fabric: Prefix,
}

impl Topology {
    /// Returns a host by its position.
    pub fn host(&self, ix: HostIx) -> &Host {
        &self.hosts[ix.0 as usize]
    }
    /// Returns a switch by its position.
    pub fn switch(&self, ix: SwitchIx) -> &Switch {
        &self.switches[ix.0 as usize]
    }
    /// Returns a link by its position.
    pub fn link(&self, ix: LinkIx) -> &Link {
        &self.links[ix.0 as usize]
    }
    /// Returns every host's position.
    pub fn host_ixs(&self) -> impl Iterator<Item = HostIx> + use<> {
        (0..self.hosts.len() as u32).map(HostIx)
    }
    /// Returns every switch's position.
    pub fn switch_ixs(&self) -> impl Iterator<Item = SwitchIx> + use<> {
        (0..self.switches.len() as u32).map(SwitchIx)
    }
    /// Returns the name of a host or switch.
    pub fn node_name(&self, node: Node) -> &str {
        match node {
            Node::Host(ix) => &self.host(ix).name,
            Node::Switch(ix) => &self.switch(ix).name,
        }
    }
    /// Returns the host of this name.
    pub fn host_named(&self, name: &str) -> Option<HostIx> {
        self.hosts.iter().position(|h| h.name == name).map(|i| HostIx(i as u32))
    }
    /// Returns the switch of this name.
    pub fn switch_named(&self, name: &str) -> Option<SwitchIx> {
        self.switches.iter().position(|s| s.name == name).map(|i| SwitchIx(i as u32))
    }
    /// Returns the node at the other end of a switch's port, and the link.
    pub fn peer(&self, switch: SwitchIx, port: u16) -> Option<(LinkIx, Endpoint)> {
        let ix = self.switch(switch).link_at(port)?;
        let link = self.link(ix);
        let here = Endpoint { node: Node::Switch(switch), port };
        Some((ix, if link.a == here { link.b } else { link.a }))
    }
    /// Returns the name of one end of a link: a host's name, or switch and port such as `s1:3`.
    pub fn end_name(&self, end: Endpoint) -> String {
        match end.node {
            Node::Host(_) => self.node_name(end.node).to_owned(),
            Node::Switch(_) => format!("{}:{}", self.node_name(end.node), end.port),
        }
    }
    /// Returns whether a port of a switch leads to a host.
    pub fn leads_to_host(&self, switch: SwitchIx, port: u16) -> bool {
        self.peer(switch, port).is_some_and(|(_, peer)| matches!(peer.node, Node::Host(_)))
    }

    /// Returns the switches next to this one: port, link, neighbour and its port, in port order.
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

/// One link from a switch to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The port on this side.
    pub port: u16,
    /// The link.
    pub link: LinkIx,
    /// The switch on the other side.
    pub switch: SwitchIx,
    /// The port on the other side.
    pub peer_port: u16,
}
