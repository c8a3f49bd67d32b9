//! Fabrics that several tests use.
#![allow(dead_code)]

use std::collections::BTreeSet;
use weir_controller::Routes;
use weir_controller::topology::{HostIx, Node, Topology, build};

/// Builds a topology from YAML.
pub(crate) fn fabric(yaml: &str) -> Topology {
    let spec = serde_yaml::from_str(yaml).unwrap_or_else(|e| panic!("{yaml}: {e}"));
    build(&spec).unwrap_or_else(|e| panic!("{yaml}: {e}"))
}

/// The kinds on which ECMP must be symmetric.
pub(crate) const CLOS: [&str; 8] = [
    "{kind: star, hosts: 4}",
    "{kind: dumbbell, switches: 3, senders: 2, receivers: 1}",
    "{kind: leaf-spine, leaves: 4, spines: 3, hosts_per_leaf: 2}",
    "{kind: fat-tree, k: 2}",
    "{kind: fat-tree, k: 4}",
    "{kind: fat-tree, k: 6}",
    "{kind: fat-tree, k: 8}",
    "{kind: fat-tree, k: 4, pods: 6, hosts_per_edge: 8}",
];

/// Kinds in which all or most switches have hosts, or whose graph is random. Where ECMP is not symmetric, routes are
/// trees.
pub(crate) const DIRECT: [&str; 8] = [
    "{kind: parking-lot, switches: 4, hosts_per_switch: 2}",
    "{kind: jellyfish, switches: 12, degree: 3, hosts_per_switch: 2}",
    "{kind: jellyfish, switches: 20, degree: 4, seed: 7}",
    "{kind: dragonfly, a: 2, p: 1, h: 1}",
    "{kind: dragonfly, a: 4, p: 2, h: 2}",
    "{kind: dragonfly, a: 4, p: 1, h: 2, groups: 5}",
    "{kind: butterfly, k: 2, stages: 3}",
    "{kind: butterfly, k: 3, stages: 2}",
];

/// A ring of six switches: opposite switches have two equal paths, on which ordered ECMP is not symmetric.
pub(crate) fn ring() -> Topology {
    fabric(
        "{kind: custom, hosts: [h1, h2, h3, h4, h5, h6], switches: [s1, s2, s3, s4, s5, s6], links:
          [[h1, s1], [h2, s2], [h3, s3], [h4, s4], [h5, s5], [h6, s6],
           [s1, s2], [s2, s3], [s3, s4], [s4, s5], [s5, s6], [s6, s1]]}",
    )
}

/// Two leaves and two spines with two links between each pair.
pub(crate) fn parallel() -> Topology {
    fabric(
        "{kind: custom, hosts: [h1, h2], switches: [s1, s2, s3, s4], links:
          [[h1, s1], [h2, s2], [s1, s3], [s1, s3], [s1, s4], [s1, s4], [s2, s3], [s2, s3], [s2, s4], [s2, s4]]}",
    )
}

/// A connected random graph: a random tree plus random links.
pub(crate) fn random(switches: u32, degree: u32, mut seed: u64) -> Topology {
    let mut draw = move |n: u32| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as u32 % n + 1
    };
    let hosts: Vec<String> = (1..=switches).map(|n| format!("h{n}")).collect();
    let names: Vec<String> = (1..=switches).map(|n| format!("s{n}")).collect();
    let mut links: Vec<String> = (1..=switches).map(|n| format!("[h{n}, s{n}]")).collect();
    links.extend((2..=switches).map(|n| format!("[s{n}, s{}]", draw(n - 1))));
    for _ in 0..switches * degree / 2 {
        let (a, b) = (draw(switches), draw(switches));
        if a != b {
            links.push(format!("[s{a}, s{b}]"));
        }
    }
    fabric(&format!(
        "{{kind: custom, hosts: [{}], switches: [{}], links: [{}]}}",
        hosts.join(", "),
        names.join(", "),
        links.join(", ")
    ))
}

/// Returns the hosts that receive a packet flooded by `host`, sorted and once per copy; `None` if the packet loops.
/// Follows the tables, correct or not, over the links that are up.
pub(crate) fn flood_receivers(topology: &Topology, routes: &Routes, host: HostIx) -> Option<Vec<HostIx>> {
    let from = topology.host(host);
    let (mut receivers, mut seen) = (Vec::new(), BTreeSet::new());
    let mut in_flight = vec![(from.switch, from.switch_port)];
    while let Some((switch, port)) = in_flight.pop() {
        if !seen.insert((switch, port)) {
            return None;
        }
        for &out in routes.of(switch).flood.get(&port).into_iter().flatten() {
            match topology.peer(switch, out).map(|(_, end)| (end.node, end.port)) {
                Some((Node::Switch(next), port)) => in_flight.push((next, port)),
                Some((Node::Host(host), _)) => receivers.push(host),
                None => {}
            }
        }
    }
    receivers.sort_unstable();
    Some(receivers)
}
