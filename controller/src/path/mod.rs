//! Paths of single packets through a fabric.

mod base_rtt;
pub(crate) mod walk;

pub use base_rtt::BaseRtt;

use self::base_rtt::link_cost;
use crate::hash::{FiveTuple, PathHash};
use crate::route_table::{NextHop, Routes};
use crate::topology::{HostIx, LinkIx, Node, SwitchIx, Topology};
use std::net::Ipv4Addr;
use thiserror::Error;
use weir_units::{Bandwidth, Bytes, Time};

/// The path of a packet from one host to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Switches, in order.
    pub hops: Vec<PathHop>,
    /// Links, in order: one more than switches.
    pub links: Vec<LinkIx>,
}

/// One switch on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathHop {
    pub switch: SwitchIx,
    pub in_port: u16,
    pub out_port: u16,
}

impl Path {
    /// Returns the base RTT as the HPCC simulator computes it (third.cc, docs/algorithms/hpcc.md#base-rtt): twice the
    /// propagation delays plus the time to serialise `payload` on each link in one direction.
    pub fn base_rtt(&self, topology: &Topology, payload: Bytes) -> Time {
        self.links.iter().map(|&ix| link_cost(topology.link(ix), payload)).sum()
    }
    /// Returns the lowest link rate on the path.
    pub fn bottleneck(&self, topology: &Topology) -> Bandwidth {
        self.links.iter().map(|&ix| topology.link(ix).rate).min().unwrap_or(Bandwidth::ZERO)
    }
    /// Returns the `path_id` of the header on arrival: the XOR of the switch ids on the path.
    pub fn path_id(&self, topology: &Topology) -> u16 {
        self.hops.iter().fold(0, |id, hop| id ^ topology.switch(hop.switch).switch_id)
    }
    /// Returns the reverse path over the same links.
    pub fn reversed(&self) -> Path {
        let reverse =
            |hop: &PathHop| PathHop { switch: hop.switch, in_port: hop.out_port, out_port: hop.in_port };
        Path {
            hops: self.hops.iter().rev().map(reverse).collect(),
            links: self.links.iter().rev().copied().collect(),
        }
    }
}

/// The reason why a packet does not reach its destination. Routes that [`mod@crate::verify`] accepts have none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    #[error("no route at {0}")]
    NoRoute(String),
    #[error("loop at {0}")]
    Loop(String),
    /// The packet leaves by a port without a device, or by one that leads to another host.
    #[error("{switch} sends it out of port {port}, which does not lead to the destination")]
    WrongPort { switch: String, port: u16 },
}

impl Routes {
    /// Returns the path of a packet with this hash from host `src` to host `dst`.
    ///
    /// # Errors
    ///
    /// A switch has no route to `dst`, the packet passes a switch twice, or it leaves by a port that leads to no
    /// device or to another host.
    pub fn path(
        &self,
        topology: &Topology,
        src: HostIx,
        dst: HostIx,
        hash: PathHash,
    ) -> Result<Path, PathError> {
        let (from, to) = (topology.host(src), topology.host(dst));
        let mut path = Path { hops: Vec::new(), links: vec![from.link] };
        let (mut switch, mut in_port) = (from.switch, from.switch_port);
        loop {
            let name = || topology.switch(switch).name.clone();
            if path.hops.iter().any(|hop| hop.switch == switch) {
                return Err(PathError::Loop(name()));
            }
            let out_port = self.out_port(switch, to.ip, hash).ok_or_else(|| PathError::NoRoute(name()))?;
            let wrong_port = || PathError::WrongPort { switch: name(), port: out_port };
            let (link, end) = topology.peer(switch, out_port).ok_or_else(wrong_port)?;
            path.hops.push(PathHop { switch, in_port, out_port });
            path.links.push(link);
            match end.node {
                Node::Host(host) if host == dst => return Ok(path),
                Node::Host(_) => return Err(wrong_port()),
                Node::Switch(next) => (switch, in_port) = (next, end.port),
            }
        }
    }

    /// Returns the path of a five-tuple between two hosts, or `None` if an address belongs to no host. The inner
    /// error is that of [`path`](Self::path).
    pub fn path_of(&self, topology: &Topology, tuple: FiveTuple) -> Option<Result<Path, PathError>> {
        let host = |ip| topology.hosts.iter().position(|h| h.ip == ip).map(|i| HostIx(i as u32));
        Some(self.path(topology, host(tuple.src)?, host(tuple.dst)?, tuple.path_hash()))
    }

    /// Returns the port by which `switch` sends a packet with this hash to `dst`, or `None` if it drops the packet.
    pub fn out_port(&self, switch: SwitchIx, dst: Ipv4Addr, hash: PathHash) -> Option<u16> {
        let routes = self.of(switch);
        match routes.lookup(dst)?.1 {
            NextHop::Deliver { port, .. } | NextHop::Via { port } => Some(port),
            NextHop::Ecmp { group, size, slice } => {
                routes.groups.get(&group)?.get(usize::from(hash.member(slice, size))).copied()
            }
            NextHop::Trees { count } => routes.trees.get(usize::from(hash.tree(count)))?.get(&dst).copied(),
        }
    }
}
