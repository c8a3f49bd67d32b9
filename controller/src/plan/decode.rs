//! Decodes the entities of switches into routes, so that the actual state can be verified.

use super::target::P4Target;
use crate::pretty;
use crate::reconcile::{canonical, replica_port};
use crate::routes::{NextHop, Routes, RoutingMethod, SwitchRoutes};
use crate::topology::{Prefix, Topology};
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::field_match::FieldMatchType;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::{Entity, TableEntry};
use p4runtime::p4info::{Index, Object};
use p4runtime::value;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Decodes the routes of all switches from their entities, by switch name. A switch without entities has no routes;
/// entries of other tables are ignored. Port numbers of the target are converted to those of the topology.
///
/// # Errors
///
/// Fails with the switch and the entry if a route table contains an entry that no plan writes.
pub fn decode(
    topology: &Topology,
    actual: &BTreeMap<String, Vec<Entity>>,
    p4info: &Index,
    target: &dyn P4Target,
) -> Result<Routes, String> {
    let mut switches = Vec::with_capacity(topology.switches.len());
    for switch in &topology.switches {
        let mut routes = SwitchRoutes::default();
        let mut members: BTreeMap<u16, BTreeMap<u16, u16>> = BTreeMap::new();
        let port_of = |number: u16| target.topology_port(&switch.name, number);
        let groups = multicast_groups(actual.get(&switch.name).map_or(&[], Vec::as_slice), &port_of);
        for entity in actual.get(&switch.name).into_iter().flatten() {
            let Some(Kind::TableEntry(entry)) = &entity.entity else { continue };
            decode_entry(entry, p4info, &port_of, &mut routes, &mut members).ok_or_else(|| {
                format!("{}: not an entry of a plan: {}", switch.name, pretty::entity(entity, p4info))
            })?;
        }
        for (group, ports) in members {
            // A missing index ends the group, so that `verify` reports the members behind it as missing.
            let ports = (0..).map_while(|index| ports.get(&index).copied()).collect();
            routes.groups.insert(group, ports);
        }
        for to in routes.flood.values_mut() {
            // `decode_entry` stored the id of the multicast group here; replace it by the group's ports.
            *to = to.first().and_then(|group| groups.get(group)).cloned().unwrap_or_default();
        }
        switches.push(routes);
    }
    let has_trees =
        switches.iter().any(|switch| switch.forward.values().any(|hop| matches!(hop, NextHop::Trees { .. })));
    Ok(Routes { method: if has_trees { RoutingMethod::Trees } else { RoutingMethod::Ecmp }, switches })
}

/// Adds a table entry to the routes, members of ECMP groups to `members` (group id -> index -> port). Returns `None` if
/// it is an entry of a route table that no plan writes.
fn decode_entry(
    entry: &TableEntry,
    p4info: &Index,
    port_of: &dyn Fn(u16) -> Option<u16>,
    routes: &mut SwitchRoutes,
    members: &mut BTreeMap<u16, BTreeMap<u16, u16>>,
) -> Option<()> {
    let table = p4info.tables.id(entry.table_id)?;
    // The value of a key field, and its prefix length if it has one.
    let key = |name: &str| {
        let id = table.match_field(name)?.id;
        let field = entry.r#match.iter().find(|field| field.field_id == id)?;
        match field.field_match_type.as_ref()? {
            FieldMatchType::Exact(exact) => Some((value::to_u64(&exact.value)?, 0)),
            FieldMatchType::Lpm(lpm) => Some((value::to_u64(&lpm.value)?, lpm.prefix_len)),
            _ => None,
        }
    };
    let key_u16 = |name: &str| u16::try_from(key(name)?.0).ok();
    // The action with its P4Info.
    let action_call = || {
        let ActionType::Action(action) = entry.action.as_ref()?.r#type.as_ref()? else { return None };
        let info = p4info.actions.id(action.action_id)?;
        Some((action, info))
    };
    let param = |name: &str| {
        let (action, info) = action_call()?;
        let id = info.param(name)?.id;
        value::to_u64(&action.params.iter().find(|param| param.param_id == id)?.value)
    };
    let port = || port_of(u16::try_from(param("port")?).ok()?);
    let last_component = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    match last_component(&table.preamble().name).as_str() {
        "forward" if !entry.is_default_action => {
            // P4Runtime omits the field of a prefix of length 0.
            let (addr, len) = key("dst_addr").unwrap_or((0, 0));
            let prefix = Prefix::of(Ipv4Addr::from_bits(u32::try_from(addr).ok()?), u8::try_from(len).ok()?);
            let hop = match last_component(&action_call()?.1.preamble().name).as_str() {
                "deliver" => {
                    let [_, _, mac @ ..] = param("dst_mac")?.to_be_bytes();
                    NextHop::Deliver { port: port()?, mac }
                }
                "via" => NextHop::Via { port: port()? },
                "spread" => NextHop::Ecmp {
                    group: u16::try_from(param("group")?).ok()?,
                    size: u16::try_from(param("size")?).ok()?,
                    slice: u8::try_from(param("slice")?).ok()?,
                },
                "trees" => NextHop::Trees { count: u8::try_from(param("count")?).ok()? },
                _ => return None,
            };
            routes.forward.insert(prefix, hop);
        }
        "member" if !entry.is_default_action => {
            members.entry(key_u16("group")?).or_default().insert(key_u16("index")?, port()?);
        }
        "tree_route" if !entry.is_default_action => {
            let tree = usize::from(u8::try_from(key("tree")?.0).ok()?);
            let dst = Ipv4Addr::from_bits(u32::try_from(key("dst_addr")?.0).ok()?);
            routes.trees.resize(routes.trees.len().max(tree + 1), BTreeMap::new());
            routes.trees[tree].insert(dst, port()?);
        }
        "policy_flood" if !entry.is_default_action => {
            routes.flood.insert(port_of(key_u16("port")?)?, vec![u16::try_from(param("group")?).ok()?]);
        }
        _ => {}
    }
    Some(())
}

/// Returns the ports of each multicast group, by group id.
fn multicast_groups(entities: &[Entity], port_of: &dyn Fn(u16) -> Option<u16>) -> BTreeMap<u16, Vec<u16>> {
    let groups = entities.iter().filter_map(|entity| match canonical(entity).entity? {
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type? {
            Pre::MulticastGroupEntry(group) => {
                // A port that the topology lacks becomes an invalid number, so that the proof fails.
                let port = |replica| port_of(u16::try_from(replica_port(replica)).ok()?).or(Some(u16::MAX));
                let ports = group.replicas.iter().filter_map(port);
                Some((u16::try_from(group.multicast_group_id).ok()?, ports.collect()))
            }
            Pre::CloneSessionEntry(_) => None,
        },
        _ => None,
    });
    groups.collect()
}
