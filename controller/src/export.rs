//! Writes a topology in the file formats of other tools.

use crate::topology::{Node, Topology};
use std::fmt::Write as _;

/// Returns the id of a node in an HPCC topology file. Hosts come first, then switches, each in the order of the
/// topology.
pub fn hpcc_id(topology: &Topology, node: Node) -> usize {
    match node {
        Node::Host(ix) => ix.0 as usize,
        Node::Switch(ix) => topology.hosts.len() + ix.0 as usize,
    }
}

/// Returns the topology file of the HPCC simulator (`TOPOLOGY_FILE`). [`crate::import`] reads it back as the same
/// graph, with nodes named after their ids.
pub fn hpcc_topology(topology: &Topology) -> String {
    let (hosts, switches) = (topology.hosts.len(), topology.switches.len());
    let mut text = format!("{} {switches} {}\n", hosts + switches, topology.links.len());
    let ids: Vec<String> = (hosts..hosts + switches).map(|id| id.to_string()).collect();
    text.push_str(&ids.join(" "));
    text.push('\n');
    for link in &topology.links {
        let (a, b) = (hpcc_id(topology, link.a.node), hpcc_id(topology, link.b.node));
        // ns-3 parses integer picoseconds for any delay.
        writeln!(text, "{a} {b} {}bps {}ps 0", link.rate.as_bps(), link.delay.as_ps())
            .expect("a String takes all");
    }
    text
}
