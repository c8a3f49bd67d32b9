//! The updates between the actual and the desired entities of one switch.

use super::canonical::{Identity, canonical, identity};
use super::desired::{DELETE_FIRST, DesiredEntity, DesiredState, LAST_INSERT, SHRINK_GROUPS};
use p4runtime::p4::config::v1::Table;
use p4runtime::p4::v1::action::Param;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{
    Action, Entity, MulticastGroupEntry, PacketReplicationEngineEntry, TableAction, TableEntry, Update,
    table_action,
};
use p4runtime::p4info::{Index, Object};
use std::collections::BTreeMap;

/// One update, with its rank in a rollout (see [`BASE`](super::BASE)).
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The steps of lower ranks must be complete on all switches before this one.
    pub rank: u32,
    pub update: Update,
}

/// The updates that bring a switch to its desired state, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    pub steps: Vec<Step>,
    /// Number of entities that already have the desired content.
    pub unchanged: usize,
}

/// Returns the updates after which a switch holds the desired state and nothing else, except in tables that `desired`
/// does not manage.
pub fn diff(desired: &DesiredState, actual: &[Entity], p4info: &Index) -> Diff {
    let mut existing: BTreeMap<Identity, Entity> = BTreeMap::new();
    for entity in actual.iter().filter(|entity| is_writable(entity, p4info)) {
        let entity = canonical(entity);
        if let Some(identity) = identity(&entity) {
            existing.insert(identity, entity);
        }
    }
    let mut result = Diff::default();
    // Deleting surplus entries could expose desired entries of the same table that must take effect last. If there are
    // any, such entries are deleted too and inserted again at the end.
    let exposes_last =
        existing.keys().any(|identity| desired.is_deleted_first(identity) && !desired.contains(identity));
    for DesiredEntity { rank, entity } in desired.entities() {
        let Some(identity) = identity(entity) else { continue };
        let kind = match existing.remove(&identity) {
            Some(old)
                if rank == LAST_INSERT
                    && desired.is_deleted_first(&identity)
                    && (exposes_last || old != *entity) =>
            {
                let update = Update { r#type: Type::Delete.into(), entity: Some(old) };
                result.steps.push(Step { rank: DELETE_FIRST, update });
                Type::Insert
            }
            Some(old) if old == *entity => {
                result.unchanged += 1;
                continue;
            }
            Some(old) => {
                // Multicast groups change in two steps: see `SHRINK_GROUPS`.
                if let Some(common) = without_removed_replicas(&old, Some(entity)) {
                    result.steps.push(Step { rank: SHRINK_GROUPS, update: modify(&common) });
                    if common == *entity {
                        continue;
                    }
                }
                Type::Modify
            }
            None if matches!(identity, Identity::Default(_)) => Type::Modify,
            None => Type::Insert,
        };
        result
            .steps
            .push(Step { rank, update: Update { r#type: kind.into(), entity: Some(entity.clone()) } });
    }
    let mut surplus: Vec<_> =
        existing.into_iter().filter(|(identity, _)| !desired.is_unmanaged(identity)).collect();
    let tables = p4info.deletion_order();
    surplus.sort_by_key(|(identity, _)| deletion_order(identity, &tables));
    for (identity, entity) in surplus {
        result.steps.extend(
            without_removed_replicas(&entity, None)
                .map(|group| Step { rank: SHRINK_GROUPS, update: modify(&group) }),
        );
        let rank = desired.deletion_rank(&identity, &entity, p4info);
        if let Some(update) = removal(&identity, entity, p4info) {
            result.steps.push(Step { rank, update });
        }
    }
    result.steps.sort_by_key(|step| step.rank); // stable: keeps the order within a rank
    result
}

/// Returns the updates that bring empty tables to the desired state.
pub fn updates(desired: &DesiredState) -> Vec<Update> {
    let mut entities: Vec<_> = desired.entities().collect();
    entities.sort_by_key(|desired| desired.rank); // stable: keeps the order within a rank
    entities.iter().map(|desired| fill(desired.entity.clone())).collect()
}

/// Returns the update that writes an entity to empty tables: a default action exists already.
pub fn fill(entity: Entity) -> Update {
    let is_default = matches!(&entity.entity, Some(Kind::TableEntry(entry)) if entry.is_default_action);
    let kind = if is_default { Type::Modify } else { Type::Insert };
    Update { r#type: kind.into(), entity: Some(entity) }
}

fn modify(entity: &Entity) -> Update {
    Update { r#type: Type::Modify.into(), entity: Some(entity.clone()) }
}

/// Returns the old multicast group without the replicas that the new one lacks, or without any if there is no new one.
/// Returns `None` if no replica is removed, or the entity is not a multicast group.
fn without_removed_replicas(old: &Entity, new: Option<&Entity>) -> Option<Entity> {
    let old = multicast(old)?;
    let new_replicas = new.and_then(multicast).map_or(&[][..], |new| &new.replicas);
    let replicas: Vec<_> =
        old.replicas.iter().filter(|replica| new_replicas.contains(replica)).cloned().collect();
    if replicas.len() == old.replicas.len() {
        return None;
    }
    let group = MulticastGroupEntry { replicas, ..old.clone() };
    let entry = PacketReplicationEngineEntry { r#type: Some(Pre::MulticastGroupEntry(group)) };
    Some(Entity { entity: Some(Kind::PacketReplicationEngineEntry(entry)) })
}

/// Returns the multicast group that an entity is, if it is one.
fn multicast(entity: &Entity) -> Option<&MulticastGroupEntry> {
    match entity.entity.as_ref()? {
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            Pre::MulticastGroupEntry(group) => Some(group),
            Pre::CloneSessionEntry(_) => None,
        },
        _ => None,
    }
}

/// Returns whether the controller may write the entity: it is neither const nor in an unknown table.
fn is_writable(entity: &Entity, p4info: &Index) -> bool {
    let Some(Kind::TableEntry(entry)) = &entity.entity else { return true };
    let Some(table) = p4info.tables.id(entry.table_id) else { return false };
    let is_const =
        if entry.is_default_action { table.const_default_action_id != 0 } else { table.is_const_table };
    !is_const && !entry.is_const
}

/// Returns the sort key of deletions: table entries in the order of their tables (see [`Index::deletion_order`]), then
/// the entities to which tables refer.
fn deletion_order(identity: &Identity, tables: &[u32]) -> (u32, usize) {
    let position = |id: u32| tables.iter().position(|&table| table == id).unwrap_or(0);
    match identity {
        Identity::Entry { table, .. } => (0, position(*table)),
        Identity::Default(table) => (1, position(*table)),
        Identity::Group { .. } => (2, 0),
        Identity::Member { .. } => (3, 0),
        Identity::Multicast(_) | Identity::Clone(_) => (4, 0),
    }
}

/// Returns the update that removes an entity. A default action cannot be deleted: it is reset to the program's initial
/// one if that is known and differs.
fn removal(identity: &Identity, entity: Entity, p4info: &Index) -> Option<Update> {
    let Identity::Default(id) = identity else {
        return Some(Update { r#type: Type::Delete.into(), entity: Some(entity) });
    };
    let initial = initial_default(p4info.tables.id(*id)?)?;
    if canonical(&initial) == entity {
        return None;
    }
    Some(Update { r#type: Type::Modify.into(), entity: Some(initial) })
}

/// Returns the initial default action of a table, if its P4Info contains it.
fn initial_default(table: &Table) -> Option<Entity> {
    let call = table.initial_default_action.as_ref()?;
    let params = call.arguments.iter().map(|arg| Param { param_id: arg.param_id, value: arg.value.clone() });
    let action = Action { action_id: call.action_id, params: params.collect() };
    let entry = TableEntry {
        table_id: table.preamble().id,
        action: Some(TableAction { r#type: Some(table_action::Type::Action(action)) }),
        is_default_action: true,
        ..TableEntry::default()
    };
    Some(Entity { entity: Some(Kind::TableEntry(entry)) })
}
