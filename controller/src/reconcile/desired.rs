//! The entities that a switch should hold, with the ranks in which they may be written.

use super::canonical::{Identity, canonical, identity, shorter_prefixes};
use p4runtime::p4::v1::Entity;
use p4runtime::p4info::Index;
use std::collections::{BTreeMap, BTreeSet};

/// Rank of entities that refer to no others: clone sessions, action profile members and groups, switch identities.
///
/// Ranks order the updates of a rollout: the updates of one rank are written on all switches before those of the next.
/// In ascending order: deletions that must come first, removed members of multicast groups, `BASE`, routes by the
/// number of hops to the destination, [`LAST_INSERT`], [`DELETE`].
pub const BASE: u32 = 16;
/// Rank of entities that may refer to any other desired entity.
pub const LAST_INSERT: u32 = u32::MAX - 1;
/// Rank of deletions, when nothing refers to the entity any more.
pub const DELETE: u32 = u32::MAX;
/// Rank of deletions that must precede all new entities.
pub(super) const DELETE_FIRST: u32 = 0;
/// Rank of updates that remove members of multicast groups. New members are added in [`LAST_INSERT`]. In between only
/// links of both flooding trees are in use, and the intersection of two trees has no cycle, so no packet loops.
pub(super) const SHRINK_GROUPS: u32 = 1;

/// An entity that a switch should hold, in canonical form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DesiredEntity<'a> {
    /// Rank in which the entity may be written.
    pub rank: u32,
    pub entity: &'a Entity,
}

/// The entities that a switch should hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredState {
    /// Entities with their ranks, in the order in which they were added.
    ranked: Vec<(u32, Entity)>,
    /// Index of each entity in `ranked`.
    indices: BTreeMap<Identity, usize>,
    /// Ids of the tables of [`delete_first`](Self::delete_first).
    delete_first: BTreeSet<u32>,
    /// Ids of the managed tables; `None`: all.
    managed: Option<BTreeSet<u32>>,
}

impl DesiredState {
    /// Adds an entity, replacing one with the same identity. Ignores entities of types that are not compared.
    pub fn insert(&mut self, rank: u32, entity: Entity) {
        let entity = canonical(&entity);
        let Some(identity) = identity(&entity) else { return };
        match self.indices.get(&identity) {
            Some(&index) => self.ranked[index] = (rank, entity),
            None => {
                self.indices.insert(identity, self.ranked.len());
                self.ranked.push((rank, entity));
            }
        }
    }

    /// Adds all entities of another desired state, and manages the tables of its entries.
    pub fn merge(&mut self, other: &DesiredState) {
        for DesiredEntity { rank, entity } in other.entities() {
            if let (Some(tables), Some(Identity::Entry { table, .. } | Identity::Default(table))) =
                (&mut self.managed, identity(entity))
            {
                tables.insert(table);
            }
            self.insert(rank, entity.clone());
        }
    }

    /// Restricts the deletion of surplus entries to the tables with these ids.
    pub fn manage_only(&mut self, tables: BTreeSet<u32>) {
        self.managed = Some(tables);
    }

    /// Returns whether a surplus entity with this identity is kept, because its table is not managed.
    pub(super) fn is_unmanaged(&self, identity: &Identity) -> bool {
        match (identity, &self.managed) {
            (Identity::Entry { table, .. } | Identity::Default(table), Some(tables)) => {
                !tables.contains(table)
            }
            _ => false,
        }
    }

    /// Marks a table whose surplus entries must be deleted before new entities are written. Entries of the table with
    /// rank [`LAST_INSERT`] are deleted with them and inserted again at the end, so that no packet matches them in
    /// between.
    pub fn delete_first(&mut self, table_id: u32) {
        self.delete_first.insert(table_id);
    }

    /// Returns the entities in the order in which they were added.
    pub fn entities(&self) -> impl Iterator<Item = DesiredEntity<'_>> {
        self.ranked.iter().map(|(rank, entity)| DesiredEntity { rank: *rank, entity })
    }

    pub fn len(&self) -> usize {
        self.ranked.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranked.is_empty()
    }

    /// Returns whether the identity is an entry of a table of [`delete_first`](Self::delete_first).
    pub(super) fn is_deleted_first(&self, identity: &Identity) -> bool {
        matches!(identity, Identity::Entry { table, .. } if self.delete_first.contains(table))
    }

    /// Returns whether the switch should hold an entity with this identity.
    pub(super) fn contains(&self, identity: &Identity) -> bool {
        self.indices.contains_key(identity)
    }

    /// Returns the rank in which a surplus entity is deleted. An entry that hides a desired entry with a shorter prefix
    /// is deleted in the rank of the desired one, which takes effect only then.
    pub(super) fn deletion_rank(&self, identity: &Identity, entity: &Entity, p4info: &Index) -> u32 {
        if self.is_deleted_first(identity) {
            return DELETE_FIRST;
        }
        let hidden = shorter_prefixes(entity, p4info).find_map(|shorter| self.indices.get(&shorter));
        hidden.map_or(DELETE, |&index| self.ranked[index].0)
    }
}
