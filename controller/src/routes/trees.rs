//! Spanning trees: between two nodes of a tree there is one path, the same both ways.
//!
//! The trees are breadth-first from different roots and share as few links as they can. In a leaf-spine
//! or a fat-tree the roots come out as the spines or cores, and the trees are ECMP's paths.

use super::{Hop, Method, Routes, deliver_locally};
use crate::topology::{LinkIx, Neighbour, Node, SwitchIx, Topology};
use std::collections::VecDeque;

/// The most trees built: each costs an entry per host on every switch.
const MOST_TREES: usize = 16;

pub(super) fn routes(topology: &Topology) -> Routes {
    let mut switches = deliver_locally(topology);
    let trees = plant(topology);
    for it in &mut switches {
        it.forward.insert(topology.fabric, Hop::Trees { count: trees.len() as u8 });
        it.trees = vec![Default::default(); trees.len()];
    }
    for (t, tree) in trees.iter().enumerate() {
        let branches = branches(topology, tree);
        for rack in topology.switch_ixs().filter(|&ix| !topology.switch(ix).hosts.is_empty()) {
            for (ix, port) in towards(&branches, rack) {
                let table = &mut switches[ix.0 as usize].trees[t];
                table.extend(topology.switch(rack).hosts.iter().map(|&h| (topology.host(h).ip, port)));
            }
        }
    }
    Routes { method: Method::Trees, switches }
}

/// The links of one tree.
type Tree = Vec<LinkIx>;

/// Roots are the switches farthest from the hosts (highest tier), as long as they differ by the links
/// they use; every tree takes the links that earlier ones used least.
fn plant(topology: &Topology) -> Vec<Tree> {
    let mut used = vec![0u32; topology.links.len()];
    let mut roots: Vec<SwitchIx> = topology.switch_ixs().filter(|&ix| is_live(topology, ix)).collect();
    roots.sort_by_key(|&ix| (std::cmp::Reverse(topology.switch(ix).tier), ix));
    let top = roots.first().map_or(0, |&ix| topology.switch(ix).tier);
    // With no tier above the edge every switch is as good a root as any other.
    roots.retain(|&ix| topology.switch(ix).tier == top);
    let mut trees: Vec<Tree> = Vec::new();
    for root in roots {
        if trees.len() == MOST_TREES {
            break;
        }
        let tree = grow(topology, root, &used);
        for link in &tree {
            used[link.0 as usize] += 1;
        }
        if !trees.contains(&tree) {
            trees.push(tree);
        }
    }
    trees
}

/// Whether any host can reach the switch (all hosts can reach each other).
fn is_live(topology: &Topology, ix: SwitchIx) -> bool {
    let it = topology.switch(ix);
    it.tier > 0 || !it.hosts.is_empty()
}

/// Breadth first from the root; among the ways to a switch at its depth, the link used least.
fn grow(topology: &Topology, root: SwitchIx, used: &[u32]) -> Tree {
    let mut depth = vec![None; topology.switches.len()];
    depth[root.0 as usize] = Some(0u32);
    let mut queue = VecDeque::from([root]);
    let mut tree = Tree::new();
    while let Some(here) = queue.pop_front() {
        let above = depth[here.0 as usize].and_then(|d| d.checked_sub(1));
        let parents =
            topology.neighbours(here).filter(|n| above.is_some() && depth[n.switch.0 as usize] == above);
        tree.extend(parents.map(|n| n.link).min_by_key(|link| (used[link.0 as usize], *link)));
        for n in topology.neighbours(here) {
            if depth[n.switch.0 as usize].is_none() {
                depth[n.switch.0 as usize] = depth[here.0 as usize].map(|d| d + 1);
                queue.push_back(n.switch);
            }
        }
    }
    tree.sort_unstable();
    tree
}

/// Switch -> its neighbours in the tree.
fn branches(topology: &Topology, tree: &Tree) -> Vec<Vec<Neighbour>> {
    let mut branches = vec![Vec::new(); topology.switches.len()];
    for &ix in tree {
        let link = topology.link(ix);
        for (here, there) in [(link.a, link.b), (link.b, link.a)] {
            if let (Node::Switch(from), Node::Switch(to)) = (here.node, there.node) {
                let way = Neighbour { port: here.port, link: ix, switch: to, peer_port: there.port };
                branches[from.0 as usize].push(way);
            }
        }
    }
    branches
}

/// For every other switch, the port that leads to `rack` in the tree.
fn towards(branches: &[Vec<Neighbour>], rack: SwitchIx) -> Vec<(SwitchIx, u16)> {
    let mut seen = vec![false; branches.len()];
    seen[rack.0 as usize] = true;
    let mut queue = VecDeque::from([rack]);
    let mut ways = Vec::new();
    while let Some(here) = queue.pop_front() {
        for n in &branches[here.0 as usize] {
            if !std::mem::replace(&mut seen[n.switch.0 as usize], true) {
                ways.push((n.switch, n.peer_port));
                queue.push_back(n.switch);
            }
        }
    }
    ways
}
