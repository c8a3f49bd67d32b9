//! Topologies with failed links, or with switches that routes should avoid.

use super::graph::{LinkIx, Node, SwitchIx, Topology};
use petgraph::unionfind::UnionFind;
use std::collections::BTreeSet;

impl Topology {
    /// Returns the topology without these links. Names, addresses and port numbers are unchanged. Hosts may become
    /// disconnected.
    pub fn without_links(&self, down: &BTreeSet<LinkIx>) -> Topology {
        let mut remaining = self.clone();
        for port in remaining.switches.iter_mut().flat_map(|switch| &mut switch.ports) {
            *port = port.filter(|link| !down.contains(link));
        }
        remaining
    }

    /// Returns the topology with these switches marked: routes pass them only where no other path exists.
    pub fn avoiding(mut self, avoided: &BTreeSet<SwitchIx>) -> Topology {
        for &SwitchIx(index) in avoided {
            self.switches[index as usize].is_avoided = true;
        }
        self
    }

    /// Returns for every switch the label of its connected component.
    pub fn components(&self) -> Vec<usize> {
        let mut components = UnionFind::<usize>::new(self.switches.len());
        for ix in self.switch_ixs() {
            for neighbour in self.neighbours(ix) {
                components.union(ix.0 as usize, neighbour.switch.0 as usize);
            }
        }
        components.into_labeling()
    }

    /// Returns whether the link connects two switches.
    pub fn is_fabric_link(&self, ix: LinkIx) -> bool {
        let link = self.link(ix);
        matches!((link.a.node, link.b.node), (Node::Switch(_), Node::Switch(_)))
    }
}
