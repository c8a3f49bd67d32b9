//! Topologies with failed links or with switches to be avoided.

use super::{LinkIx, Node, SwitchIx, Topology};
use petgraph::unionfind::UnionFind;
use std::collections::BTreeSet;

impl Topology {
    /// Returns the topology without these links. Names, addresses and port numbers are unchanged. Hosts may become
    /// disconnected.
    pub fn without_links(&self, down: &BTreeSet<LinkIx>) -> Topology {
        let mut rest = self.clone();
        for port in rest.switches.iter_mut().flat_map(|switch| &mut switch.ports) {
            *port = port.filter(|link| !down.contains(link));
        }
        rest
    }

    /// Returns the topology with these switches marked: routes pass them only where no other path exists.
    pub fn avoiding(mut self, avoided: &BTreeSet<SwitchIx>) -> Topology {
        for &SwitchIx(place) in avoided {
            self.switches[place as usize].is_avoided = true;
        }
        self
    }

    /// Returns for every switch the label of its connected component.
    pub fn islands(&self) -> Vec<usize> {
        let mut islands = UnionFind::<usize>::new(self.switches.len());
        for ix in self.switch_ixs() {
            for neighbour in self.neighbours(ix) {
                islands.union(ix.0 as usize, neighbour.switch.0 as usize);
            }
        }
        islands.into_labeling()
    }

    /// Returns whether the link connects two switches.
    pub fn is_fabric_link(&self, ix: LinkIx) -> bool {
        let link = self.link(ix);
        matches!((link.a.node, link.b.node), (Node::Switch(_), Node::Switch(_)))
    }
}
