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
pub fn candidates(topology: &Topology, routes: &Routes, at: SwitchIx, port: u16) -> Vec<u16> {
    if topology.leads_to_host(at, port) {
        return topology.neighbours(at).map(|next| next.port).collect();
    }
    let behind: Vec<HostIx> = topology
        .switch_ixs()
        .filter(|&rack| rack != at)
        // One host stands for its rack: only the rack's own switch distinguishes its hosts.
        .filter_map(|rack| topology.switch(rack).hosts.first().copied())
        .filter(|&host| ports(routes.of(at), topology.host(host).ip).contains(&port))
        .collect();
    if behind.is_empty() {
        return Vec::new();
    }
    let others = topology.neighbours(at).filter(|next| next.port != port);
    let leads_on = |next: SwitchIx| {
        behind.iter().all(|&host| {
            topology.host(host).switch == next
                || has_alternate_path(topology, routes, (at, port), next, topology.host(host).ip)
        })
    };
    others.filter(|next| leads_on(next.switch)).map(|next| next.port).collect()
}

/// Returns whether a packet for `dst` that `at` sends to `next` instead of by `port` can continue from `next` without
/// returning to `at` at once.
fn has_alternate_path(
    topology: &Topology,
    routes: &Routes,
    (at, port): (SwitchIx, u16),
    next: SwitchIx,
    dst: Ipv4Addr,
) -> bool {
    let on = |out: u16| {
        let peer = topology.peer(next, out).map(|(_, peer)| peer.node);
        peer.is_some_and(|node| node != Node::Switch(at))
    };
    let (here, there) = (routes.of(at), routes.of(next));
    if let Some((_, NextHop::Trees { .. })) = here.lookup(dst) {
        // A deflected packet continues on its own tree.
        let mut trees = here.trees.iter().zip(&there.trees).filter(|(tree, _)| tree.get(&dst) == Some(&port));
        return trees.all(|(_, tree)| tree.get(&dst).is_some_and(|&out| on(out)));
    }
    ports(there, dst).into_iter().any(on)
}

/// Returns all ports by which a switch may send packets to `dst`, for any path hash.
pub(crate) fn ports(it: &SwitchRoutes, dst: Ipv4Addr) -> Vec<u16> {
    match it.lookup(dst) {
        Some((_, NextHop::Deliver { port, .. } | NextHop::Via { port })) => vec![port],
        Some((_, NextHop::Ecmp { group, .. })) => it.groups.get(&group).cloned().unwrap_or_default(),
        Some((_, NextHop::Trees { .. })) => {
            it.trees.iter().filter_map(|tree| tree.get(&dst).copied()).collect()
        }
        None => Vec::new(),
    }
}
