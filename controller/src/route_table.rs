//! Routes, as the tables of switches hold them.

use crate::topology::{Prefix, SwitchIx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The method that makes paths symmetric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoutingMethod {
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
    /// The method in use, never [`RoutingMethod::Auto`].
    pub method: RoutingMethod,
    /// By [`SwitchIx`].
    pub switches: Vec<SwitchRoutes>,
}

impl Routes {
    /// Returns the routes of one switch.
    pub fn of(&self, switch: SwitchIx) -> &SwitchRoutes {
        &self.switches[switch.0 as usize]
    }

    /// Returns the number of spanning trees; 0 with ECMP.
    pub fn trees(&self) -> usize {
        self.switches.iter().map(|it| it.trees.len()).max().unwrap_or(0)
    }
}

/// The routes of one switch: tables `forward`, `member` and `tree_route`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchRoutes {
    /// Longest prefix match.
    pub forward: BTreeMap<Prefix, NextHop>,
    /// Group id -> ports in order. Both directions of a path must find the same order.
    pub groups: BTreeMap<u16, Vec<u16>>,
    /// Tree -> destination -> port.
    pub trees: Vec<BTreeMap<Ipv4Addr, u16>>,
    /// Ports to which POLICY packets go that arrive at a port: all other ports of the flooding tree. Table
    /// `policy_flood`, and a multicast group for each port.
    pub flood: BTreeMap<u16, Vec<u16>>,
}

impl SwitchRoutes {
    /// Returns the longest prefix that holds the address, and what it says.
    pub fn lookup(&self, addr: Ipv4Addr) -> Option<(Prefix, NextHop)> {
        (0..=32u8).rev().find_map(|len| {
            let prefix = Prefix::of(addr, len);
            self.forward.get(&prefix).map(|&hop| (prefix, hop))
        })
    }
}

/// The treatment of packets for a prefix: the actions of table `forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NextHop {
    /// To the host itself, with its MAC.
    Deliver {
        /// Out by this port.
        port: u16,
        /// The host's MAC.
        mac: [u8; 6],
    },
    /// The only next hop.
    Via {
        /// Out by this port.
        port: u16,
    },
    /// One of several equally near next hops: member `crc16(path_hash >> slice) % size` of the group.
    Ecmp {
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
