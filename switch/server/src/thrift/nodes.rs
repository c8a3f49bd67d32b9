//! The packet replication engine in BMv2's form: a multicast group consists of nodes; a node is an instance number with
//! ports.
//!
//! The switch stores only groups and their replicas. Nodes and their handles are kept here. A group that P4Runtime
//! has changed is converted to nodes again.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use weir_switch::engine::Replica;

/// BMv2 uses this constant as the hash that selects a port of a link aggregation group (simple_pre_lag.cpp).
const LAG_HASH: usize = 0xff;

/// A node: instance number, ports, link aggregation groups, and the group with which it is associated.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub instance: u16,
    pub ports: Vec<u16>,
    pub lags: Vec<u16>,
    pub group: Option<u16>,
}

/// The packet replication engine in BMv2's form.
#[derive(Debug, Default)]
pub(super) struct Pre {
    /// Nodes of each group, in the order of association.
    pub groups: BTreeMap<u16, Vec<i32>>,
    pub nodes: BTreeMap<i32, Node>,
    pub lags: BTreeMap<u16, Vec<u16>>,
}

impl Pre {
    /// Returns the replicas of each group.
    pub(super) fn replicas(&self) -> BTreeMap<u16, Vec<Replica>> {
        let replicas = |nodes: &Vec<i32>| {
            nodes.iter().flat_map(|node| self.replicas_of_node(&self.nodes[node])).collect()
        };
        self.groups.iter().map(|(&group, nodes)| (group, replicas(nodes))).collect()
    }

    fn replicas_of_node(&self, node: &Node) -> Vec<Replica> {
        let of_lag = |lag: &u16| {
            let ports = self.lags.get(lag)?;
            ports.get(LAG_HASH.checked_rem(ports.len())?).copied()
        };
        let ports = node.ports.iter().copied().chain(node.lags.iter().filter_map(of_lag));
        ports.map(|port| Replica { port, instance: node.instance }).collect()
    }

    /// Synchronises with the switch: groups that differ from the stored ones are replaced, with a new node for each
    /// run of replicas with the same instance.
    pub(super) fn sync_groups(&mut self, groups: &BTreeMap<u16, Vec<Replica>>) {
        let known = self.replicas();
        for group in known.keys().filter(|group| groups.get(group) != known.get(group)) {
            for node in self.groups.remove(group).unwrap_or_default() {
                self.nodes.remove(&node);
            }
        }
        for (&group, replicas) in groups.iter().filter(|(group, replicas)| known.get(group) != Some(replicas))
        {
            let mut nodes: Vec<i32> = Vec::new();
            for replica in replicas {
                let last = nodes.last().and_then(|node| self.nodes.get_mut(node));
                // The ports of a node are in ascending order.
                match last.filter(|node| {
                    node.instance == replica.instance && node.ports.last() < Some(&replica.port)
                }) {
                    Some(node) => node.ports.push(replica.port),
                    None => {
                        let (instance, ports) = (replica.instance, vec![replica.port]);
                        let node = Node { instance, ports, lags: Vec::new(), group: Some(group) };
                        nodes.push(self.insert(node));
                    }
                }
            }
            self.groups.insert(group, nodes);
        }
    }

    /// Inserts a node with the lowest free handle.
    pub(super) fn insert(&mut self, node: Node) -> i32 {
        let handle = (0..).find(|handle| !self.nodes.contains_key(handle)).unwrap_or_default();
        self.nodes.insert(handle, node);
        handle
    }

    /// Returns the JSON of `bm_mc_get_entries`. BMv2 splits a node into L1 (the instance) and L2 (the ports); here both
    /// have the same handle.
    pub(super) fn json(&self) -> Json {
        let groups = self.groups.iter().map(|(id, nodes)| json!({ "id": id, "l1_handles": nodes }));
        let l1_handles = self
            .nodes
            .iter()
            .map(|(handle, node)| json!({ "handle": handle, "rid": node.instance, "l2_handle": handle }));
        let l2_handles = self
            .nodes
            .iter()
            .map(|(handle, node)| json!({ "handle": handle, "ports": node.ports, "lags": node.lags }));
        let lags = self.lags.iter().map(|(id, ports)| json!({ "id": id, "ports": ports }));
        json!({
            "mgrps": groups.collect::<Vec<_>>(),
            "l1_handles": l1_handles.collect::<Vec<_>>(),
            "l2_handles": l2_handles.collect::<Vec<_>>(),
            "lags": lags.collect::<Vec<_>>(),
        })
    }
}
