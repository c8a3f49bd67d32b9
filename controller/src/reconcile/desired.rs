use super::canonical::{Identity, canonical, identity};
use p4runtime::p4::v1::Entity;
use std::collections::{BTreeMap, BTreeSet};

/// Rank of entities that refer to no others: identities, profiles, groups and their members.
pub const BASE: u32 = 16;
/// Rank of wanted entities that refer to any other wanted entity.
pub const LAST_INSERT: u32 = u32::MAX - 1;
/// Rank of entities to delete, which nothing refers to any more.
pub const DELETE: u32 = u32::MAX;
/// Rank of entities that must be deleted before anything new is written.
const DELETE_FIRST: u32 = 0;
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

    /// Superfluous entries of this table are deleted before anything is written, not at the end.
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

    /// Returns the rank in which a superfluous entity is deleted.
    pub(super) fn retirement_rank(&self, identity: &Identity) -> u32 {
        match identity {
            Identity::Entry { table, .. } if self.retire_first.contains(table) => DELETE_FIRST,
            _ => DELETE,
        }
    }
}
