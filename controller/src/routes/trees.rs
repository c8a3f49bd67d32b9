//! Routes along spanning trees. Between two nodes of a tree there is exactly one path, so that both directions are
//! the same.
//!
//! Trees are breadth-first from the roots that give the shortest paths, and share as few links as possible. In a
//! leaf-spine or fat-tree the roots are the spines or cores, and the trees are the paths of ECMP.

use super::racks::deliver_locally;
use crate::route_table::{NextHop, Routes, RoutingMethod};
use crate::topology::{LinkIx, Neighbour, Node, SwitchIx, Topology};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of trees: each costs one entry per host on every switch.
const MAX_TREES: usize = 16;
/// Capacity of `tree_route` on every switch (p4src/include/constants.p4, TREE_ROUTE_ENTRIES).
const TREE_ROUTE_ENTRIES: usize = 16384;
/// A tree is good enough to be used if its longest path between hosts exceeds that of the best tree by at most this
/// number of links.
const MAX_EXTRA_HOPS: u32 = 1;

/// Computes routes along `count` trees, or, if `count` is `None`, along all trees that are good ([`MAX_EXTRA_HOPS`]).
pub(super) fn routes(topology: &Topology, count: Option<usize>) -> Routes {
    let mut switches = deliver_locally(topology);
    let trees = build_forest(topology, count);
    for routes in &mut switches {
        routes.forward.insert(topology.fabric, NextHop::Trees { count: trees.len() as u8 });
        routes.trees = vec![Default::default(); trees.len()];
    }
    for (t, links) in trees.iter().enumerate() {
        let adjacency = tree_adjacency(topology, links);
        for rack in topology.switch_ixs().filter(|&ix| !topology.switch(ix).hosts.is_empty()) {
            for (ix, port) in next_hops_towards(&adjacency, rack) {
                let table = &mut switches[ix.0 as usize].trees[t];
                table.extend(topology.switch(rack).hosts.iter().map(|&h| (topology.host(h).ip, port)));
            }
        }
    }
    Routes { method: RoutingMethod::Trees, switches }
}

/// Returns the links of the best tree of each connected component, without branches that lead to no host.
pub(super) fn spanning_tree(topology: &Topology) -> Vec<LinkIx> {
    build_forest(topology, Some(1)).into_iter().flatten().collect()
}

/// A spanning tree without the branches that lead to no host. The derived order ranks better trees first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tree {
    /// Number of links of switches to be avoided, summed over the paths of all host pairs.
    avoided_paths: u64,
    /// Number of links between switches on the longest path between two hosts.
    max_host_distance: u32,
    /// Sum of the path lengths of all host pairs, in links between switches.
    total_distance: u64,
    /// Links of the tree between switches, sorted.
    links: Vec<LinkIx>,
}

/// Returns the number of trees for which switches have room.
pub(super) fn max_trees(topology: &Topology) -> usize {
    (TREE_ROUTE_ENTRIES / topology.hosts.len().max(1)).clamp(1, MAX_TREES)
}

/// Returns the root of the best tree of a component.
pub(super) fn best_root(topology: &Topology, component: &[SwitchIx]) -> Option<SwitchIx> {
    let used = vec![0; topology.links.len()];
    component.iter().map(|&root| (bfs_tree(topology, root, &used), root)).min().map(|(_, root)| root)
}

/// Returns the links of each tree. In a partitioned fabric each component has its own trees, but all have the same
/// number, since switches compute the hash modulo one global number. Components with fewer good trees reuse them.
fn build_forest(topology: &Topology, count: Option<usize>) -> Vec<Vec<LinkIx>> {
    let labels = topology.components();
    let mut components: BTreeMap<usize, Vec<SwitchIx>> = BTreeMap::new();
    for (ix, label) in topology.switch_ixs().zip(labels) {
        components.entry(label).or_default().push(ix);
    }
    let has_host = |ix: &SwitchIx| !topology.switch(*ix).hosts.is_empty();
    let with_hosts = components.into_values().filter(|component| component.iter().any(has_host));
    let forests: Vec<Vec<Tree>> = with_hosts.map(|component| build_trees(topology, &component)).collect();
    let count = count.unwrap_or_else(|| forests.iter().map(Vec::len).max().unwrap_or(0));
    let links = |t: usize| {
        forests.iter().flat_map(move |trees| trees.iter().cycle().nth(t)).flat_map(|tree| &tree.links)
    };
    (0..count).map(|t| links(t).copied().collect()).collect()
}

/// Builds one tree per root, as long as trees are good, and omits duplicates.
fn build_trees(topology: &Topology, component: &[SwitchIx]) -> Vec<Tree> {
    let max_trees = max_trees(topology);
    // For each link, the number of trees that use it.
    let mut used = vec![0u32; topology.links.len()];
    let mut roots: Vec<(Tree, SwitchIx)> =
        component.iter().map(|&root| (bfs_tree(topology, root, &used), root)).collect();
    roots.sort_unstable();
    let (min_avoided, max_distance) = roots
        .first()
        .map_or((0, 0), |(best, _)| (best.avoided_paths, best.max_host_distance + MAX_EXTRA_HOPS));
    let is_good = |tree: &Tree| tree.avoided_paths == min_avoided && tree.max_host_distance <= max_distance;
    let mut trees: Vec<Tree> = Vec::new();
    for (_, root) in roots.into_iter().take_while(|(tree, _)| is_good(tree)) {
        if trees.len() == max_trees {
            break;
        }
        // Roots were ranked by unconstrained trees. The tree that is used avoids links of earlier trees and may be
        // longer, so check it again.
        let tree = bfs_tree(topology, root, &used);
        if is_good(&tree) && !trees.contains(&tree) {
            tree.links.iter().for_each(|link| used[link.0 as usize] += 1);
            trees.push(tree);
        }
    }
    trees
}

/// Builds a breadth-first tree. Among the links from a switch to the previous level it chooses the least used one.
/// Switches to be avoided are expanded last: they are inner nodes only for switches that no other path reaches.
fn bfs_tree(topology: &Topology, root: SwitchIx, used: &[u32]) -> Tree {
    let mut depth = vec![None; topology.switches.len()];
    let mut is_placed = vec![false; topology.switches.len()];
    depth[root.0 as usize] = Some(0u32);
    let (mut queue, mut avoided_queue) = (VecDeque::from([root]), VecDeque::new());
    let is_avoided = |ix: SwitchIx| topology.switch(ix).is_avoided;
    // Switches other than the root by depth, each with the link to its parent.
    let mut parent_links: Vec<(SwitchIx, Neighbour)> = Vec::new();
    while let Some(here) = queue.pop_front().or_else(|| avoided_queue.pop_front()) {
        let parent_depth = depth[here.0 as usize].and_then(|d| d.checked_sub(1));
        let is_parent =
            |n: &Neighbour| is_placed[n.switch.0 as usize] && depth[n.switch.0 as usize] == parent_depth;
        let parents = topology.neighbours(here).filter(is_parent);
        let parent = parents.min_by_key(|n| (is_avoided(n.switch), used[n.link.0 as usize], n.link));
        parent_links.extend(parent.map(|up| (here, up)));
        is_placed[here.0 as usize] = true;
        for n in topology.neighbours(here) {
            if depth[n.switch.0 as usize].is_none() {
                depth[n.switch.0 as usize] = depth[here.0 as usize].map(|d| d + 1);
                let target = if is_avoided(n.switch) { &mut avoided_queue } else { &mut queue };
                target.push_back(n.switch);
            }
        }
    }
    prune(topology, root, &parent_links)
}

/// Removes branches without hosts and computes the measures of the tree.
fn prune(topology: &Topology, root: SwitchIx, parent_links: &[(SwitchIx, Neighbour)]) -> Tree {
    // For each switch, the number of hosts in its subtree and the distance to the farthest of them, if any.
    let mut hosts: Vec<u64> = topology.switches.iter().map(|s| s.hosts.len() as u64).collect();
    let mut down: Vec<Option<u32>> = hosts.iter().map(|&n| (n > 0).then_some(0)).collect();
    let reached = parent_links.iter().map(|(here, _)| *here).chain([root]);
    let all = reached.map(|ix| hosts[ix.0 as usize]).sum::<u64>();
    let mut tree = Tree { avoided_paths: 0, max_host_distance: 0, total_distance: 0, links: Vec::new() };
    for (here, up) in parent_links.iter().rev() {
        let (here, parent) = (here.0 as usize, up.switch.0 as usize);
        if hosts[here] > 0 && hosts[here] < all {
            tree.links.push(up.link);
        }
        // The link is on the paths between the hosts of the subtree and all others.
        let paths = hosts[here] * (all - hosts[here]);
        tree.total_distance += paths;
        if topology.switches[here].is_avoided || topology.switches[parent].is_avoided {
            tree.avoided_paths += paths;
        }
        hosts[parent] += hosts[here];
        if let Some(far) = down[here].map(|links| links + 1) {
            tree.max_host_distance = tree.max_host_distance.max(down[parent].map_or(0, |other| far + other));
            down[parent] = down[parent].max(Some(far));
        }
    }
    tree.links.sort_unstable();
    tree
}

/// Returns for each switch its neighbours in the tree.
fn tree_adjacency(topology: &Topology, tree: &[LinkIx]) -> Vec<Vec<Neighbour>> {
    let mut adjacency = vec![Vec::new(); topology.switches.len()];
    for &ix in tree {
        let link = topology.link(ix);
        for (here, there) in [(link.a, link.b), (link.b, link.a)] {
            if let (Node::Switch(from), Node::Switch(to)) = (here.node, there.node) {
                let neighbour = Neighbour { port: here.port, link: ix, switch: to, peer_port: there.port };
                adjacency[from.0 as usize].push(neighbour);
            }
        }
    }
    adjacency
}

/// Returns for every other switch the port that leads to `rack` in the tree.
fn next_hops_towards(adjacency: &[Vec<Neighbour>], rack: SwitchIx) -> Vec<(SwitchIx, u16)> {
    let mut seen = vec![false; adjacency.len()];
    seen[rack.0 as usize] = true;
    let mut queue = VecDeque::from([rack]);
    let mut next_hops = Vec::new();
    while let Some(here) = queue.pop_front() {
        for n in &adjacency[here.0 as usize] {
            if !std::mem::replace(&mut seen[n.switch.0 as usize], true) {
                next_hops.push((n.switch, n.peer_port));
                queue.push_back(n.switch);
            }
        }
    }
    next_hops
}
