//! Which way packets go: symmetric ECMP or spanning trees (FNCC §3.1, observation 2).
//!
//! [`Routes`] holds exactly what the tables of each switch will hold; [`mod@crate::verify`] walks it and
//! [`mod@crate::plan`] writes it out. Nothing else decides a path.

mod ecmp;
mod trees;

pub(crate) use trees::spanning_tree;

use crate::flood;
use crate::topology::{Prefix, SwitchIx, Topology};
use crate::verify::{Violation, verify};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use thiserror::Error;

/// How to make paths symmetric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// ECMP where it can be proved symmetric, else trees.
    #[default]
    Auto,
    /// Ordered groups of equal-cost next hops, FNCC Fig. 5.
    Ecmp,
    /// Several spanning trees, FNCC Fig. 6. Works on any graph.
    Trees,
}

/// The routes of the whole fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// The method in use, never [`Method::Auto`].
    pub method: Method,
    /// By [`SwitchIx`].
    pub switches: Vec<SwitchRoutes>,
}

impl Routes {
    /// The routes of one switch.
    pub fn of(&self, switch: SwitchIx) -> &SwitchRoutes {
        &self.switches[switch.0 as usize]
    }
}

/// The routes of one switch: tables `forward`, `member` and `tree_route`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchRoutes {
    /// Longest prefix match.
    pub forward: BTreeMap<Prefix, Hop>,
    /// Group id -> ports in order. Both directions of a path must find the same order.
    pub groups: BTreeMap<u16, Vec<u16>>,
    /// Tree -> destination -> port.
    pub trees: Vec<BTreeMap<Ipv4Addr, u16>>,
    /// Where POLICY packets go that come by a port: to all other ports of the flooding tree. Table `policy_flood`, and a
    /// multicast group for each port.
    pub flood: BTreeMap<u16, Vec<u16>>,
}

impl SwitchRoutes {
    /// The longest prefix that holds the address, and what it says.
    pub fn lookup(&self, addr: Ipv4Addr) -> Option<(Prefix, Hop)> {
        (0..=32u8).rev().find_map(|len| {
            let prefix = Prefix::of(addr, len);
            self.forward.get(&prefix).map(|&hop| (prefix, hop))
        })
    }
}

/// What a switch does with a packet for some prefix: the actions of table `forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hop {
    /// To the host itself, with its MAC.
    Deliver {
        /// Out by this port.
        port: u16,
        /// The host's MAC.
        mac: [u8; 6],
    },
    /// The only way on.
    Via {
        /// Out by this port.
        port: u16,
    },
    /// One of several equal ways: member `crc16(path_hash >> slice) % size` of the group.
    Spread {
        /// Key into [`SwitchRoutes::groups`].
        group: u16,
        /// Number of members.
        size: u16,
        /// The tier's slice of the path hash.
        slice: u8,
    },
    /// Along the spanning tree that the path hash chooses.
    Trees {
        /// Number of trees.
        count: u8,
    },
}

/// Why there are no routes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// ECMP was asked for and cannot be symmetric here.
    #[error("ECMP is not symmetric on this topology, use trees: {0}")]
    NotSymmetric(Box<Violation>),
}

/// Computes the routes of a fabric.
pub fn routes(topology: &Topology, method: Method) -> Result<Routes, RouteError> {
    compute(topology, method, None)
}

/// The routes of a fabric after some of its links have failed or returned. `now` is what its switches have: if these
/// are trees, their number stays, since it is written into every switch's hash.
pub fn reroute(topology: &Topology, method: Method, now: &Routes) -> Result<Routes, RouteError> {
    let trees = now.switches.iter().map(|it| it.trees.len()).max().filter(|_| now.method == Method::Trees);
    compute(topology, method, trees)
}

fn compute(topology: &Topology, method: Method, trees: Option<usize>) -> Result<Routes, RouteError> {
    let mut routes = unicast(topology, method, trees)?;
    flood::lay(topology, &mut routes.switches);
    Ok(routes)
}

fn unicast(topology: &Topology, method: Method, trees: Option<usize>) -> Result<Routes, RouteError> {
    if method == Method::Trees {
        return Ok(trees::routes(topology, trees));
    }
    let ecmp = ecmp::routes(topology);
    match verify(topology, &ecmp) {
        Ok(_) => Ok(ecmp),
        Err(_) if method == Method::Auto => Ok(trees::routes(topology, trees)),
        Err(mut violations) => Err(RouteError::NotSymmetric(Box::new(violations.swap_remove(0)))),
    }
}

/// Gives every host its `deliver` route on its own switch, common to both methods.
fn deliver_locally(topology: &Topology) -> Vec<SwitchRoutes> {
    let mut switches = vec![SwitchRoutes::default(); topology.switches.len()];
    for host in &topology.hosts {
        let hop = Hop::Deliver { port: host.switch_port, mac: host.mac };
        switches[host.switch.0 as usize].forward.insert(Prefix::host(host.ip), hop);
    }
    switches
}

/// The switches that have hosts, with their prefix, or where there is none, with each of their hosts.
fn racks(topology: &Topology) -> impl Iterator<Item = (SwitchIx, Prefix)> + '_ {
    topology.switch_ixs().flat_map(|ix| {
        let switch = topology.switch(ix);
        let hosts = switch.hosts.iter().filter(|_| switch.rack.is_none());
        let hosts = hosts.map(|&host| Prefix::host(topology.host(host).ip));
        switch.rack.into_iter().chain(hosts).map(move |prefix| (ix, prefix))
    })
}
