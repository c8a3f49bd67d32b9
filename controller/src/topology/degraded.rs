//! A fabric some of whose links are down.

use super::{LinkIx, Node, SwitchIx, Topology};
use petgraph::unionfind::UnionFind;
use std::collections::BTreeSet;

impl Topology {
    /// Returns the same fabric without these links; names, addresses and port numbers stay. Some hosts may then be
    /// cut off from others.
    pub fn without_links(&self, down: &BTreeSet<LinkIx>) -> Topology {
        let mut rest = self.clone();
        for port in rest.switches.iter_mut().flat_map(|switch| &mut switch.ports) {
            *port = port.filter(|link| !down.contains(link));
        }
        rest
    }

    /// Returns the same fabric, whose routes pass these switches only where no others exist.
    pub fn avoiding(mut self, avoided: &BTreeSet<SwitchIx>) -> Topology {
        for &SwitchIx(place) in avoided {
            self.switches[place as usize].is_avoided = true;
        }
        self
    }

    /// For every switch a number that it shares with the switches it can reach, and with no others.
    pub fn islands(&self) -> Vec<usize> {
        let mut islands = UnionFind::<usize>::new(self.switches.len());
        for ix in self.switch_ixs() {
            for neighbour in self.neighbours(ix) {
                islands.union(ix.0 as usize, neighbour.switch.0 as usize);
            }
        }
        islands.into_labeling()
    }

    /// Returns whether a link joins two switches.
    pub fn is_fabric_link(&self, ix: LinkIx) -> bool {
        let link = self.link(ix);
        matches!((link.a.node, link.b.node), (Node::Switch(_), Node::Switch(_)))
    }
}
