//! Routes as the content of the switches' tables.

use crate::topology::{Prefix, SwitchIx};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Method of computing symmetric routes: data and its ACKs use the same links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RoutingMethod {
    /// ECMP if it is proved symmetric on the topology, otherwise trees.
    #[default]
    Auto,
    /// ECMP with ordered groups of equal-cost next hops, FNCC Fig. 5.
    Ecmp,
    /// Several spanning trees, FNCC Fig. 6. Works on any graph.
    Trees,
    /// Up*/down* paths, on which PFC cannot deadlock. Works on any graph.
    UpDown,
}

/// The routes of a whole fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// The method that was used; never [`RoutingMethod::Auto`].
    pub method: RoutingMethod,
    /// Indexed by [`SwitchIx`].
    pub switches: Vec<SwitchRoutes>,
}

impl Routes {
    /// Returns the routes of one switch.
    pub fn of(&self, switch: SwitchIx) -> &SwitchRoutes {
        &self.switches[switch.0 as usize]
    }

    /// Returns the number of spanning trees, or of planes of up*/down* paths; 0 with ECMP.
    pub fn trees(&self) -> usize {
        self.switches.iter().map(|routes| routes.trees.len()).max().unwrap_or(0)
    }
}

/// The routes of one switch: tables `forward`, `member` and `tree_route`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchRoutes {
    pub forward: BTreeMap<Prefix, NextHop>,
    /// Group id -> ports in order. The order must be consistent in both directions of a path.
    pub groups: BTreeMap<u16, Vec<u16>>,
    /// Tree index -> destination -> port.
    pub trees: Vec<BTreeMap<Ipv4Addr, u16>>,
    /// Ingress port -> ports to which POLICY packets are flooded: all other ports of the flooding tree. Written to
    /// table `policy_flood`, with a multicast group per port.
    pub flood: BTreeMap<u16, Vec<u16>>,
}

impl SwitchRoutes {
    /// Returns the longest prefix that contains the address, with its next hop.
    pub fn lookup(&self, addr: Ipv4Addr) -> Option<(Prefix, NextHop)> {
        (0..=32u8).rev().find_map(|len| {
            let prefix = Prefix::of(addr, len);
            self.forward.get(&prefix).map(|&hop| (prefix, hop))
        })
    }
}

/// The next hop of a prefix: the actions of table `forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NextHop {
    /// Deliver to the host, with its MAC as destination.
    Deliver { port: u16, mac: [u8; 6] },
    /// Forward by this port.
    Via { port: u16 },
    /// Select one of several equal-cost ports: member `crc16(path_hash >> slice) % size` of the group.
    Ecmp {
        /// Key into [`SwitchRoutes::groups`].
        group: u16,
        size: u16,
        /// Shift of the path hash for this tier, in bits.
        slice: u8,
    },
    /// Forward along the spanning tree `path_hash % count`.
    Trees { count: u8 },
}
