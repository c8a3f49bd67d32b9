//! Decodes the entities of switches into routes, so that the actual state can be verified.

use super::codec::{EntryCodec, last_component};
use super::entry::Field;
use super::tables::{FORWARD, POLICY_FLOOD};
use super::target::P4Target;
use crate::pretty;
use crate::reconcile::{canonical, replica_port};
use crate::routes::{NextHop, Routes, RoutingMethod, SwitchRoutes};
use crate::topology::{Node, Prefix, SwitchIx, Topology};
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::{Entity, TableEntry};
use p4runtime::p4info::{Index, Object};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// The tables whose entries are routes.
const ROUTE_TABLES: [&str; 4] = [FORWARD, "member", "tree_route", POLICY_FLOOD];

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
    let method = match has_trees {
        false => RoutingMethod::Ecmp,
        true if are_trees(topology, &switches) => RoutingMethod::Trees,
        true => RoutingMethod::UpDown,
    };
    Ok(Routes { method, switches })
}

/// Returns whether the links that the routes of each index of `tree_route` use form a tree. Those of up*/down* paths, which
/// have the same table, may have cycles.
fn are_trees(topology: &Topology, switches: &[SwitchRoutes]) -> bool {
    let count = switches.iter().map(|routes| routes.trees.len()).max().unwrap_or(0);
    (0..count).all(|index| {
        let links = topology.switch_ixs().flat_map(|ix| {
            let ports = switches[ix.0 as usize].trees.get(index).into_iter().flat_map(BTreeMap::values);
            ports.filter_map(move |&port| match topology.peer(ix, port)?.1.node {
                Node::Switch(peer) => Some((ix.min(peer), ix.max(peer))),
                Node::Host(_) => None,
            })
        });
        let links: BTreeSet<(SwitchIx, SwitchIx)> = links.collect();
        let ends: BTreeSet<SwitchIx> = links.iter().flat_map(|&(one, other)| [one, other]).collect();
        links.len() < ends.len().max(1)
    })
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
    let table = last_component(&p4info.tables.id(entry.table_id)?.preamble().name);
    if entry.is_default_action || !ROUTE_TABLES.contains(&table) {
        return Some(());
    }
    let entry = EntryCodec::new(p4info).decode(entry)?;
    let port = || port_of(entry.param("port")?);
    match (table, entry.action) {
        (FORWARD, action) => {
            let Field::Lpm { value, prefix_len } = entry.field("dst_addr")? else { return None };
            let prefix = Prefix::of(Ipv4Addr::from_bits(u32::try_from(value).ok()?), prefix_len);
            let hop = match action {
                "deliver" => {
                    let [_, _, mac @ ..] = entry.param::<u64>("dst_mac")?.to_be_bytes();
                    NextHop::Deliver { port: port()?, mac }
                }
                "via" => NextHop::Via { port: port()? },
                "spread" => NextHop::Ecmp {
                    group: entry.param("group")?,
                    size: entry.param("size")?,
                    slice: entry.param("slice")?,
                },
                "trees" => NextHop::Trees { count: entry.param("count")? },
                _ => return None,
            };
            routes.forward.insert(prefix, hop);
        }
        ("member", _) => {
            members.entry(entry.exact("group")?).or_default().insert(entry.exact("index")?, port()?);
        }
        ("tree_route", _) => {
            let tree = usize::from(entry.exact::<u8>("tree")?);
            routes.trees.resize(routes.trees.len().max(tree + 1), BTreeMap::new());
            routes.trees[tree].insert(Ipv4Addr::from_bits(entry.exact("dst_addr")?), port()?);
        }
        _ => {
            routes.flood.insert(port_of(entry.exact("port")?)?, vec![entry.param("group")?]);
        }
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
