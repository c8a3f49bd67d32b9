//! The ranks of the entries of a plan: the order in which switches may write them.

use super::entry::Phase;
use crate::reconcile::{BASE, LAST_INSERT};
use crate::routes::{NextHop, Routes, SwitchRoutes};
use crate::topology::{HostIx, Node, Prefix, SwitchIx, Topology};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The order in which switches may adopt new routes so that no packet loops.
///
/// For each destination, switches are updated in order of their distance on the new path, nearest first. A packet
/// that reaches an updated switch passes only updated switches from there to its destination. Before that it follows
/// the old routes, which have no loop either. The update is therefore loop-free for any old routes. (RFC 6976 orders
/// FIB updates for the same purpose, without a controller.)
///
/// From ECMP to trees no such order exists, since each tree needs an order of its own. The old prefixes are therefore
/// deleted first ([`DesiredState::delete_first`](crate::reconcile::DesiredState::delete_first)): packets are dropped
/// for a moment, but never loop.
pub struct UpdateOrder {
    /// For each prefix, the remaining hops to the destination from every switch.
    prefixes: BTreeMap<Prefix, Vec<u32>>,
    /// For each tree and host address, the remaining hops from every switch.
    trees: Vec<BTreeMap<Ipv4Addr, Vec<u32>>>,
}

impl UpdateOrder {
    pub fn new(topology: &Topology, routes: &Routes) -> UpdateOrder {
        let mut prefixes = BTreeMap::new();
        for prefix in routes.switches.iter().flat_map(|switch| switch.forward.keys()) {
            prefixes.entry(*prefix).or_insert_with(|| {
                max_remaining_hops(topology, routes, &|switch| {
                    switch.forward.get(prefix).map_or(Vec::new(), |hop| ports(switch, hop))
                })
            });
        }
        let tree_count = routes.switches.iter().map(|switch| switch.trees.len()).max().unwrap_or(0);
        let mut trees = vec![BTreeMap::new(); tree_count];
        for (tree, by_host) in trees.iter_mut().enumerate() {
            for host in topology.host_ixs().filter(|&host| is_first_of_rack(topology, host)) {
                let ip = topology.host(host).ip;
                let next_ports = |switch: &SwitchRoutes| {
                    switch.trees.get(tree).and_then(|table| table.get(&ip)).copied().into_iter().collect()
                };
                let remaining_hops = max_remaining_hops(topology, routes, &next_ports);
                // Trees lead to the rack's switch, so all hosts of the rack have the same order.
                for &other in &topology.switch(topology.host(host).switch).hosts {
                    by_host.insert(topology.host(other).ip, remaining_hops.clone());
                }
            }
        }
        UpdateOrder { prefixes, trees }
    }

    /// Returns the rank in which `switch` may write an entry of this phase; lower ranks are written first.
    pub fn rank(&self, switch: SwitchIx, phase: Phase) -> u32 {
        // Routes follow `BASE`, since they refer to group members.
        let rank = |hops: Option<&Vec<u32>>| BASE + 1 + hops.map_or(0, |hops| hops[switch.0 as usize]);
        match phase {
            Phase::Base => BASE,
            Phase::Prefix(prefix) => rank(self.prefixes.get(&prefix)),
            Phase::Tree(tree, dst) => {
                rank(self.trees.get(usize::from(tree)).and_then(|by_host| by_host.get(&dst)))
            }
            Phase::Last => LAST_INSERT,
        }
    }
}

fn is_first_of_rack(topology: &Topology, host: HostIx) -> bool {
    topology.switch(topology.host(host).switch).hosts.first() == Some(&host)
}

/// Returns the ports by which packets may leave for this next hop.
fn ports(switch: &SwitchRoutes, hop: &NextHop) -> Vec<u16> {
    match hop {
        NextHop::Deliver { port, .. } | NextHop::Via { port } => vec![*port],
        NextHop::Ecmp { group, .. } => switch.groups.get(group).cloned().unwrap_or_default(),
        NextHop::Trees { .. } => Vec::new(),
    }
}

/// Returns for every switch the maximum number of hops that remain to the destination. `next_ports` returns the ports
/// by which a switch sends packets to it. If the routes have a loop, the values are finite but meaningless.
fn max_remaining_hops(
    topology: &Topology,
    routes: &Routes,
    next_ports: &dyn Fn(&SwitchRoutes) -> Vec<u16>,
) -> Vec<u32> {
    let mut known = vec![None; topology.switches.len()];
    for ix in topology.switch_ixs() {
        remaining_hops_from(topology, routes, next_ports, ix, &mut known);
    }
    known.into_iter().map(|hops| hops.unwrap_or(0)).collect()
}

/// Computes the value of one switch, and of the switches behind it, in `known`.
fn remaining_hops_from(
    topology: &Topology,
    routes: &Routes,
    next_ports: &dyn Fn(&SwitchRoutes) -> Vec<u16>,
    ix: SwitchIx,
    known: &mut [Option<u32>],
) -> u32 {
    if let Some(hops) = known[ix.0 as usize] {
        return hops;
    }
    // Loop guard: a path that returns to a switch being explored finds 0 and ends.
    known[ix.0 as usize] = Some(0);
    let after =
        next_ports(routes.of(ix)).into_iter().filter_map(|port| match topology.peer(ix, port)?.1.node {
            Node::Switch(next_ix) => {
                Some(1 + remaining_hops_from(topology, routes, next_ports, next_ix, known))
            }
            Node::Host(_) => None,
        });
    let max = after.max().unwrap_or(0);
    known[ix.0 as usize] = Some(max);
    max
}
