//! Link utilisation by layer of the fabric (docs/summary.md).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_controller::topology::{Endpoint, Node, Topology};

/// Utilisation of the links of one layer of the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerSummary {
    /// Number of switch ports; a link between switches counts twice.
    pub ports: u64,
    /// Mean utilisation of these ports over the whole run, 0 to 1.
    pub utilisation: f64,
}

/// Returns the mean utilisation of the switch ports of each layer. `utilisation` is keyed by `<switch>:<port>`; a missing
/// port counts as 0. Layer 0 has the links of hosts, and layer `n + 1` the links between switches whose nearer switch is `n`
/// hops from an edge switch.
pub fn summarise(topology: &Topology, utilisation: &BTreeMap<String, f64>) -> Vec<LayerSummary> {
    let tier = |end: Endpoint| match end.node {
        Node::Host(_) => 0,
        Node::Switch(ix) => usize::from(topology.switch(ix).tier) + 1,
    };
    let mut layers: Vec<LayerSummary> = Vec::new();
    for link in &topology.links {
        let layer = tier(link.a).min(tier(link.b));
        if layers.len() <= layer {
            layers.resize(layer + 1, LayerSummary::default());
        }
        for end in [link.a, link.b] {
            if let Node::Switch(_) = end.node {
                layers[layer].ports += 1;
                layers[layer].utilisation += utilisation.get(&topology.end_name(end)).copied().unwrap_or(0.0);
            }
        }
    }
    for layer in &mut layers {
        layer.utilisation /= (layer.ports as f64).max(1.0);
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_controller::topology::{TopologySpec, build};

    #[test]
    fn layers_of_a_fat_tree_are_hosts_edge_and_core() {
        let spec: TopologySpec =
            serde_yaml::from_str("{kind: fat-tree, k: 4, rate: 10Gbps, delay: 1us}").unwrap();
        let topology = build(&spec).unwrap();
        let to_hosts = topology.hosts.iter().map(|host| {
            let end = Endpoint { node: Node::Switch(host.switch), port: host.switch_port };
            (topology.end_name(end), 0.5)
        });
        let layers = summarise(&topology, &to_hosts.collect());
        let ports_and_utilisation: Vec<_> =
            layers.iter().map(|layer| (layer.ports, layer.utilisation)).collect();
        assert_eq!(ports_and_utilisation, [(16, 0.5), (32, 0.0), (32, 0.0)]);
    }
}
