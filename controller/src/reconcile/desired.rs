use super::canonical::{Identity, canonical, identity, shorter_prefixes};
use p4runtime::p4::v1::Entity;
use p4runtime::p4info::Index;
use std::collections::{BTreeMap, BTreeSet};

/// Rank of entities that refer to no others: identities, profiles, groups and their members.
pub const BASE: u32 = 16;
/// Rank of wanted entities that refer to any other wanted entity.
pub const LAST_INSERT: u32 = u32::MAX - 1;
/// Rank of entities to delete, which nothing refers to any more.
pub const DELETE: u32 = u32::MAX;
/// Rank of entities that must be deleted before anything new is written.
pub(super) const DELETE_FIRST: u32 = 0;
/// Rank of updates that remove members of multicast groups. New members are written last of all wanted
/// entities, so in between only the links that belong to both flooding trees are in use, and no packet loops.
pub(super) const SHRINK_GROUPS: u32 = 1;

/// An entity that a switch should hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DesiredEntity<'a> {
    /// Rank in which it may be written.
    pub rank: u32,
    /// In canonical form.
    pub entity: &'a Entity,
}

/// All that a switch should hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredState {
    wanted: Vec<(u32, Entity)>,
    places: BTreeMap<Identity, usize>,
    retire_first: BTreeSet<u32>,
    tables: Option<BTreeSet<u32>>,
}

impl DesiredState {
    /// Adds an entity. A second one with the same identity takes the place of the first.
    pub fn insert(&mut self, rank: u32, entity: Entity) {
        let entity = canonical(&entity);
        let Some(identity) = identity(&entity) else { return };
        match self.places.get(&identity) {
            Some(&place) => self.wanted[place] = (rank, entity),
            None => {
                self.places.insert(identity, self.wanted.len());
                self.wanted.push((rank, entity));
            }
        }
    }

    /// Adds all entities of another goal.
    pub fn merge(&mut self, other: &DesiredState) {
        for DesiredEntity { rank, entity } in other.entities() {
            if let (Some(tables), Some(Identity::Entry { table, .. } | Identity::Default(table))) =
                (&mut self.tables, identity(entity))
            {
                tables.insert(table);
            }
            self.insert(rank, entity.clone());
        }
    }

    /// Leaves all tables alone but these: what they hold beyond the goal stays there.
    pub fn manage_only(&mut self, tables: BTreeSet<u32>) {
        self.tables = Some(tables);
    }

    /// Returns whether the switch may hold this although it is not wanted.
    pub(super) fn ignores(&self, identity: &Identity) -> bool {
        match (identity, &self.tables) {
            (Identity::Entry { table, .. } | Identity::Default(table), Some(tables)) => {
                !tables.contains(table)
            }
            _ => false,
        }
    }

    /// Superfluous entries of this table are deleted before anything is written, not later. An entry of it that is
    /// written last is deleted with them, so that no packet meets it in between.
    pub fn delete_first(&mut self, table_id: u32) {
        self.retire_first.insert(table_id);
    }

    /// In the order in which they were added.
    pub fn entities(&self) -> impl Iterator<Item = DesiredEntity<'_>> {
        self.wanted.iter().map(|(rank, entity)| DesiredEntity { rank: *rank, entity })
    }

    /// Returns the number of entities.
    pub fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Returns whether the switch should hold nothing.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns whether an entry with this identity is in a table of [`retire_first`](Self::retire_first).
    pub(super) fn retires_first(&self, identity: &Identity) -> bool {
        matches!(identity, Identity::Entry { table, .. } if self.retire_first.contains(table))
    }

    /// Returns whether the switch should hold an entity with this identity.
    pub(super) fn wants(&self, identity: &Identity) -> bool {
        self.places.contains_key(identity)
    }

    /// Returns the rank in which a superfluous entity is deleted. An entry that hides a wanted one of a shorter prefix
    /// goes in the rank of that one: until then, the wanted one is not in use.
    pub(super) fn retirement_rank(&self, identity: &Identity, entity: &Entity, p4info: &Index) -> u32 {
        if self.retires_first(identity) {
            return DELETE_FIRST;
        }
        let hidden = shorter_prefixes(entity, p4info).find_map(|shorter| self.places.get(&shorter));
        hidden.map_or(DELETE, |&place| self.wanted[place].0)
    }
}
