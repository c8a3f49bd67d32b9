//! `simple_pre_lag`: multicast groups in BMv2's form. A group consists of nodes; a node is an instance number with
//! ports.
//!
//! The switch stores only groups and their replicas. Nodes and their handles are kept here. A group that was changed by
//! other means (P4Runtime) is converted to nodes again.

use super::service::{CallError, CallResult, Service, check_context};
use super::value::{Fields, Value};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use weir_switch::engine::Replica;
use weir_switch::tm::MAX_PORT;

/// `McOperationErrorCode` (simple_pre_lag.thrift).
const TABLE_FULL: i32 = 1;
const INVALID_MGID: i32 = 2;
const INVALID_MGRP_HANDLE: i32 = 3;
const INVALID_L1_HANDLE: i32 = 4;
const ERROR: i32 = 5;

/// Maximum numbers of groups and of nodes: BMv2's defaults (`--max-mc-groups`, `--max-l1-entries`).
const MAX_GROUPS: usize = 4096;
const MAX_NODES: usize = 4096;
/// Highest id of a link aggregation group (simple_pre_lag.h).
const MAX_LAG: u16 = 255;
/// BMv2 uses this constant as the hash that selects a port of a link aggregation group (simple_pre_lag.cpp).
const LAG_HASH: usize = 0xff;

/// A node: instance number, ports, link aggregation groups, and the group with which it is associated.
#[derive(Clone, Debug, Default)]
struct Node {
    instance: u16,
    ports: Vec<u16>,
    lags: Vec<u16>,
    group: Option<u16>,
}

/// The replication engine in BMv2's form.
#[derive(Debug, Default)]
pub(super) struct Pre {
    /// Nodes of each group, in the order of association.
    groups: BTreeMap<u16, Vec<i32>>,
    nodes: BTreeMap<i32, Node>,
    lags: BTreeMap<u16, Vec<u16>>,
}

/// Dispatches the methods of this file; `None` for any other.
pub(super) fn call(service: &mut Service, method: &str, args: &Fields) -> Option<CallResult> {
    let operation = match method {
        "bm_mc_mgrp_create" => create_group,
        "bm_mc_mgrp_destroy" => destroy_group,
        "bm_mc_node_create" => create_node,
        "bm_mc_node_update" => update_node,
        "bm_mc_node_associate" => associate,
        "bm_mc_node_dissociate" => dissociate,
        "bm_mc_node_destroy" => destroy_node,
        "bm_mc_set_lag_membership" => set_lag,
        "bm_mc_get_entries" => |pre: &mut Pre, _: &Fields| Ok(Value::text(pre.json().to_string())),
        _ => return None,
    };
    Some(check_context(args).and_then(|()| run(service, args, operation)))
}

/// Runs an operation on the nodes and updates the switch's groups. If the switch rejects them, the nodes are restored.
fn run(service: &mut Service, args: &Fields, operation: fn(&mut Pre, &Fields) -> CallResult) -> CallResult {
    let groups = service.on_switch(ERROR, |switch, _| switch.multicast_groups().clone())?;
    service.pre.sync_groups(&groups);
    let before = (service.pre.groups.clone(), service.pre.nodes.clone(), service.pre.lags.clone());
    let answer = operation(&mut service.pre, args);
    let wanted = service.pre.copies();
    if answer.is_err() || wanted == groups {
        return answer;
    }
    let done = service.on_switch(ERROR, move |switch, _| {
        for (&group, copies) in wanted.iter().filter(|(group, copies)| groups.get(group) != Some(copies)) {
            switch.set_multicast_group(group, copies.clone())?;
        }
        for &group in groups.keys().filter(|group| !wanted.contains_key(group)) {
            switch.delete_multicast_group(group);
        }
        Ok::<(), weir_switch::engine::ReplicationError>(())
    });
    if !matches!(done, Ok(Ok(()))) {
        (service.pre.groups, service.pre.nodes, service.pre.lags) = before;
        done?.map_err(|_| CallError::Exception(ERROR))?;
    }
    answer
}

impl Pre {
    /// Returns the replicas of each group.
    fn copies(&self) -> BTreeMap<u16, Vec<Replica>> {
        let copies =
            |nodes: &Vec<i32>| nodes.iter().flat_map(|node| self.copies_of(&self.nodes[node])).collect();
        self.groups.iter().map(|(&group, nodes)| (group, copies(nodes))).collect()
    }

    fn copies_of(&self, node: &Node) -> Vec<Replica> {
        let of_lag = |lag: &u16| {
            let ports = self.lags.get(lag)?;
            ports.get(LAG_HASH.checked_rem(ports.len())?).copied()
        };
        let ports = node.ports.iter().copied().chain(node.lags.iter().filter_map(of_lag));
        ports.map(|port| Replica { port, instance: node.instance }).collect()
    }

    /// Synchronises with the switch: groups that differ from the stored ones are replaced, with a new node for each
    /// run of replicas with the same instance.
    fn sync_groups(&mut self, groups: &BTreeMap<u16, Vec<Replica>>) {
        let known = self.copies();
        for group in known.keys().filter(|group| groups.get(group) != known.get(group)) {
            for node in self.groups.remove(group).unwrap_or_default() {
                self.nodes.remove(&node);
            }
        }
        for (&group, copies) in groups.iter().filter(|(group, copies)| known.get(group) != Some(copies)) {
            let mut nodes: Vec<i32> = Vec::new();
            for copy in copies {
                let last = nodes.last().and_then(|node| self.nodes.get_mut(node));
                // The ports of a node are in ascending order.
                match last
                    .filter(|node| node.instance == copy.instance && node.ports.last() < Some(&copy.port))
                {
                    Some(node) => node.ports.push(copy.port),
                    None => {
                        let (instance, ports) = (copy.instance, vec![copy.port]);
                        let node = Node { instance, ports, lags: Vec::new(), group: Some(group) };
                        nodes.push(self.insert(node));
                    }
                }
            }
            self.groups.insert(group, nodes);
        }
    }

    /// Inserts a node with the lowest free handle.
    fn insert(&mut self, node: Node) -> i32 {
        let handle = (0..).find(|handle| !self.nodes.contains_key(handle)).unwrap_or_default();
        self.nodes.insert(handle, node);
        handle
    }

    /// Returns the JSON of `bm_mc_get_entries`. The L2 handle of a node equals its L1 handle.
    fn json(&self) -> Json {
        let groups = self.groups.iter().map(|(id, nodes)| json!({ "id": id, "l1_handles": nodes }));
        let first = self
            .nodes
            .iter()
            .map(|(handle, node)| json!({ "handle": handle, "rid": node.instance, "l2_handle": handle }));
        let second = self
            .nodes
            .iter()
            .map(|(handle, node)| json!({ "handle": handle, "ports": node.ports, "lags": node.lags }));
        let lags = self.lags.iter().map(|(id, ports)| json!({ "id": id, "ports": ports }));
        json!({
            "mgrps": groups.collect::<Vec<_>>(),
            "l1_handles": first.collect::<Vec<_>>(),
            "l2_handles": second.collect::<Vec<_>>(),
            "lags": lags.collect::<Vec<_>>(),
        })
    }
}

/// Returns a 16-bit argument: a group or an instance.
fn number(args: &Fields, id: i16, code: i32) -> Result<u16, CallError> {
    u16::try_from(args.i32(id)?).map_err(|_| CallError::Exception(code))
}

/// Decodes a set of numbers from a string of zeros and ones, with number 0 at the right end.
fn parse_bitmap(args: &Fields, id: i16, highest: u16) -> Result<Vec<u16>, CallError> {
    let text = args.binary(id)?;
    if text.len() > usize::from(highest) + 1 || text.iter().any(|digit| !matches!(digit, b'0' | b'1')) {
        return Err(CallError::Exception(ERROR));
    }
    Ok((0..).zip(text.iter().rev()).filter(|(_, digit)| **digit == b'1').map(|(number, _)| number).collect())
}

fn create_group(pre: &mut Pre, args: &Fields) -> CallResult {
    let group = number(args, 2, INVALID_MGID)?;
    if group == 0 {
        return Err(CallError::Exception(INVALID_MGID));
    }
    if pre.groups.len() >= MAX_GROUPS {
        return Err(CallError::Exception(TABLE_FULL));
    }
    // As in BMv2, creating an existing group leaves it unchanged.
    pre.groups.entry(group).or_default();
    Ok(Value::I32(i32::from(group)))
}

fn destroy_group(pre: &mut Pre, args: &Fields) -> CallResult {
    let group = number(args, 2, INVALID_MGRP_HANDLE)?;
    for node in pre.groups.remove(&group).unwrap_or_default() {
        if let Some(node) = pre.nodes.get_mut(&node) {
            node.group = None;
        }
    }
    Ok(Value::Void)
}

fn create_node(pre: &mut Pre, args: &Fields) -> CallResult {
    let instance = number(args, 2, ERROR)?;
    let (ports, lags) = (parse_bitmap(args, 3, MAX_PORT)?, parse_bitmap(args, 4, MAX_LAG)?);
    if pre.nodes.len() >= MAX_NODES {
        return Err(CallError::Exception(TABLE_FULL));
    }
    Ok(Value::I32(pre.insert(Node { instance, ports, lags, group: None })))
}

fn node(pre: &mut Pre, handle: i32) -> Result<&mut Node, CallError> {
    pre.nodes.get_mut(&handle).ok_or(CallError::Exception(INVALID_L1_HANDLE))
}

fn update_node(pre: &mut Pre, args: &Fields) -> CallResult {
    let (ports, lags) = (parse_bitmap(args, 3, MAX_PORT)?, parse_bitmap(args, 4, MAX_LAG)?);
    let node = node(pre, args.i32(2)?)?;
    (node.ports, node.lags) = (ports, lags);
    Ok(Value::Void)
}

fn associate(pre: &mut Pre, args: &Fields) -> CallResult {
    let (group, handle) = (number(args, 2, INVALID_MGRP_HANDLE)?, args.i32(3)?);
    let is_group = pre.groups.contains_key(&group);
    let node = node(pre, handle)?;
    if !is_group {
        return Err(CallError::Exception(INVALID_MGRP_HANDLE));
    }
    if node.group.is_some() {
        return Err(CallError::Exception(ERROR));
    }
    node.group = Some(group);
    pre.groups.entry(group).or_default().push(handle);
    Ok(Value::Void)
}

fn dissociate(pre: &mut Pre, args: &Fields) -> CallResult {
    let (group, handle) = (number(args, 2, INVALID_MGRP_HANDLE)?, args.i32(3)?);
    let is_group = pre.groups.contains_key(&group);
    let node = node(pre, handle)?;
    if !is_group {
        return Err(CallError::Exception(INVALID_MGRP_HANDLE));
    }
    if node.group != Some(group) {
        return Err(CallError::Exception(ERROR));
    }
    node.group = None;
    pre.groups.entry(group).or_default().retain(|other| *other != handle);
    Ok(Value::Void)
}

fn destroy_node(pre: &mut Pre, args: &Fields) -> CallResult {
    let handle = args.i32(2)?;
    let removed = pre.nodes.remove(&handle).ok_or(CallError::Exception(INVALID_L1_HANDLE))?;
    if let Some(nodes) = removed.group.and_then(|group| pre.groups.get_mut(&group)) {
        nodes.retain(|other| *other != handle);
    }
    Ok(Value::Void)
}

fn set_lag(pre: &mut Pre, args: &Fields) -> CallResult {
    let lag =
        u16::try_from(args.i16(2)?).ok().filter(|lag| *lag <= MAX_LAG).ok_or(CallError::Exception(ERROR))?;
    let ports: BTreeSet<u16> = parse_bitmap(args, 3, MAX_PORT)?.into_iter().collect();
    pre.lags.insert(lag, ports.into_iter().collect());
    Ok(Value::Void)
}
