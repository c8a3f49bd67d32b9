//! `simple_pre_lag`: multicast groups, which consist of [`nodes`](super::nodes) in BMv2. Numbers in `args.i32(2)` and
//! the like are ids of Thrift fields.

use super::nodes::{Node, Pre};
use super::service::{CallError, CallResult, Service, check_context};
use super::value::{Fields, Value};
use std::collections::BTreeSet;
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
    let saved = (service.pre.groups.clone(), service.pre.nodes.clone(), service.pre.lags.clone());
    let answer = operation(&mut service.pre, args);
    let target = service.pre.replicas();
    if answer.is_err() || target == groups {
        return answer;
    }
    let result = service.on_switch(ERROR, move |switch, _| {
        for (&group, replicas) in
            target.iter().filter(|(group, replicas)| groups.get(group) != Some(replicas))
        {
            switch.set_multicast_group(group, replicas.clone())?;
        }
        for &group in groups.keys().filter(|group| !target.contains_key(group)) {
            switch.delete_multicast_group(group);
        }
        Ok::<(), weir_switch::engine::ReplicationError>(())
    });
    if !matches!(result, Ok(Ok(()))) {
        (service.pre.groups, service.pre.nodes, service.pre.lags) = saved;
        result?.map_err(|_| CallError::Exception(ERROR))?;
    }
    answer
}

/// Returns a 16-bit argument, a group or an instance; `code` is the error for a value out of range.
fn u16_arg(args: &Fields, field: i16, code: i32) -> Result<u16, CallError> {
    u16::try_from(args.i32(field)?).map_err(|_| CallError::Exception(code))
}

/// Decodes a set of numbers from a string of zeros and ones, with number 0 at the right end.
fn parse_bitmap(args: &Fields, field: i16, highest: u16) -> Result<Vec<u16>, CallError> {
    let text = args.binary(field)?;
    if text.len() > usize::from(highest) + 1 || text.iter().any(|digit| !matches!(digit, b'0' | b'1')) {
        return Err(CallError::Exception(ERROR));
    }
    Ok((0..).zip(text.iter().rev()).filter(|(_, digit)| **digit == b'1').map(|(number, _)| number).collect())
}

fn create_group(pre: &mut Pre, args: &Fields) -> CallResult {
    let group = u16_arg(args, 2, INVALID_MGID)?;
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
    let group = u16_arg(args, 2, INVALID_MGRP_HANDLE)?;
    for node in pre.groups.remove(&group).unwrap_or_default() {
        if let Some(node) = pre.nodes.get_mut(&node) {
            node.group = None;
        }
    }
    Ok(Value::Void)
}

fn create_node(pre: &mut Pre, args: &Fields) -> CallResult {
    let instance = u16_arg(args, 2, ERROR)?;
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
    let (group, handle) = (u16_arg(args, 2, INVALID_MGRP_HANDLE)?, args.i32(3)?);
    let group_exists = pre.groups.contains_key(&group);
    let node = node(pre, handle)?;
    if !group_exists {
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
    let (group, handle) = (u16_arg(args, 2, INVALID_MGRP_HANDLE)?, args.i32(3)?);
    let group_exists = pre.groups.contains_key(&group);
    let node = node(pre, handle)?;
    if !group_exists {
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
