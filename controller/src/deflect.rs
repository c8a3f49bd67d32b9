//! Computes the candidate ports for deflection (Dart's IOFD, `p4src/controls/deflect.p4`).
//!
//! The candidates of a port are the other ports that lead to switches, except those whose neighbour can reach the
//! destinations behind the port only by sending the packet straight back. For example, the spines above a leaf usually
//! have no other path to the leaf's own rack.

use crate::routes::{NextHop, Routes, SwitchRoutes};
use crate::topology::{HostIx, Node, SwitchIx, Topology};
use std::net::Ipv4Addr;

/// Returns the ports to which a switch may deflect packets for `port`, in port order. If `port` leads to a host, all
/// ports to other switches are candidates: the packet comes back to this switch.
pub fn candidates(topology: &Topology, routes: &Routes, switch: SwitchIx, port: u16) -> Vec<u16> {
    if topology.leads_to_host(switch, port) {
        return topology.neighbours(switch).map(|next| next.port).collect();
    }
    let destinations: Vec<HostIx> = topology
        .switch_ixs()
        .filter(|&rack| rack != switch)
        // One host per rack suffices: only the rack's own switch distinguishes its hosts.
        .filter_map(|rack| topology.switch(rack).hosts.first().copied())
        .filter(|&host| ports(routes.of(switch), topology.host(host).ip).contains(&port))
        .collect();
    if destinations.is_empty() {
        return Vec::new();
    }
    let others = topology.neighbours(switch).filter(|next| next.port != port);
    let reaches_all = |next: SwitchIx| {
        destinations.iter().all(|&host| {
            topology.host(host).switch == next
                || has_alternate_path(topology, routes, (switch, port), next, topology.host(host).ip)
        })
    };
    others.filter(|next| reaches_all(next.switch)).map(|next| next.port).collect()
}

/// Returns whether `next` can forward a packet for `dst` without sending it straight back. The packet is deflected: the
/// switch sends it to `next` instead of by the port of the route.
fn has_alternate_path(
    topology: &Topology,
    routes: &Routes,
    (switch, port): (SwitchIx, u16),
    next: SwitchIx,
    dst: Ipv4Addr,
) -> bool {
    let leads_elsewhere = |out_port: u16| {
        let peer = topology.peer(next, out_port).map(|(_, peer)| peer.node);
        peer.is_some_and(|node| node != Node::Switch(switch))
    };
    let (routes_here, routes_next) = (routes.of(switch), routes.of(next));
    if let Some((_, NextHop::Trees { .. })) = routes_here.lookup(dst) {
        // A deflected packet continues on its own tree.
        let mut trees = routes_here
            .trees
            .iter()
            .zip(&routes_next.trees)
            .filter(|(tree, _)| tree.get(&dst) == Some(&port));
        return trees.all(|(_, tree)| tree.get(&dst).is_some_and(|&out_port| leads_elsewhere(out_port)));
    }
    ports(routes_next, dst).into_iter().any(leads_elsewhere)
}

/// Returns all ports by which a switch may send packets to `dst`, for any path hash.
pub(crate) fn ports(routes: &SwitchRoutes, dst: Ipv4Addr) -> Vec<u16> {
    match routes.lookup(dst) {
        Some((_, NextHop::Deliver { port, .. } | NextHop::Via { port })) => vec![port],
        Some((_, NextHop::Ecmp { group, .. })) => routes.groups.get(&group).cloned().unwrap_or_default(),
        Some((_, NextHop::Trees { .. })) => {
            routes.trees.iter().filter_map(|tree| tree.get(&dst).copied()).collect()
        }
        None => Vec::new(),
    }
}
