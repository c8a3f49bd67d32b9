//! Writes and reads P4Runtime's entities on a switch, in process. The simulation applies updates here
//! directly, a gRPC server for its clients.
//!
//! [`Control`] keeps the state that a switch does not have: a controller's ids of members and groups, its
//! metadata, and its one-shot action sets as written. Everything else is read from the switch. An update is
//! checked completely before anything changes. Errors have the canonical codes of the P4Runtime specification
//! (v1.5); where the specification contradicts itself (values that are too wide), the code is BMv2's.
//!
//! Sessions, roles, pipeline configs and the sending of digests are the server's.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod action;
mod batch;
mod digest;
mod error;
mod externs;
mod idle_timeout;
mod key;
mod page;
mod profile;
mod replication;
mod table;
mod table_read;
mod undo;
mod value;
mod value_set;

pub use batch::{Atomicity, Batch};
pub use error::ControlError;
pub use page::ReadPage;

use crate::Switch;
use crate::program::TableId;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::{Entity, MulticastGroupEntry, Update, ValueSetMember, digest_entry, update};
use p4runtime::p4info::{Index, Object};
use profile::ProfileEntities;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use table::EntryExtras;
use thiserror::Error;

/// The P4Runtime view of one switch: writes and reads its entities.
#[derive(Clone, Debug)]
pub struct Control {
    index: Arc<Index>,
    /// From P4Runtime table ids to the pipeline's.
    tables: BTreeMap<u32, TableId>,
    /// The attributes of entries that the pipeline does not keep; most entries have none.
    entry_extras: BTreeMap<table::EntryRef, EntryExtras>,
    /// Number of entries with an idle timeout.
    timeout_entries: usize,
    profiles: BTreeMap<u32, ProfileEntities>,
    /// Multicast groups as written, for their metadata.
    multicast: BTreeMap<u16, MulticastGroupEntry>,
    /// Clone sessions whose replicas were written with the deprecated `egress_port`.
    legacy_clone_sessions: BTreeSet<u16>,
    /// The members of value sets as written, in canonical form.
    value_sets: BTreeMap<u32, Vec<ValueSetMember>>,
    /// Configurations of the enabled digests, by id.
    digests: BTreeMap<u32, digest_entry::Config>,
}

impl Control {
    /// Creates the view of a switch that runs the program with this P4Info.
    ///
    /// # Errors
    ///
    /// The P4Info does not belong to the switch's program, or has a field wider than p4c supports.
    pub fn new(index: Arc<Index>, switch: &Switch) -> Result<Control, ControlError> {
        let other = |e| ControlError::invalid(format!("the P4Info is not of the switch's program: {e}"));
        let mut tables = BTreeMap::new();
        check_widths(&index)?;
        for table in &index.tables {
            let preamble = table.preamble();
            let id = switch.pipeline().table_by_name(&preamble.name).map_err(|e| other(e.to_string()))?;
            tables.insert(preamble.id, id);
        }
        let profiles =
            index.action_profiles.iter().map(|p| (p.preamble().id, ProfileEntities::default())).collect();
        Ok(Control {
            index,
            tables,
            profiles,
            entry_extras: BTreeMap::new(),
            timeout_entries: 0,
            multicast: BTreeMap::new(),
            legacy_clone_sessions: BTreeSet::new(),
            value_sets: BTreeMap::new(),
            digests: BTreeMap::new(),
        })
    }

    pub fn p4info(&self) -> &Arc<Index> {
        &self.index
    }

    /// Applies one update.
    ///
    /// # Errors
    ///
    /// The update is invalid; the error has the canonical code, and nothing has changed.
    pub fn apply(&mut self, switch: &mut Switch, update: &Update) -> Result<(), ControlError> {
        let kind = update.r#type();
        if kind == update::Type::Unspecified {
            return Err(ControlError::invalid("the update has no type"));
        }
        let entity = update.entity.as_ref().and_then(|entity| entity.entity.as_ref());
        match entity.ok_or_else(|| ControlError::invalid("the update has no entity"))? {
            Kind::TableEntry(entry) => self.write_table_entry(switch, kind, entry),
            Kind::ActionProfileMember(member) => self.write_member(switch, kind, member),
            Kind::ActionProfileGroup(group) => self.write_group(switch, kind, group),
            Kind::CounterEntry(entry) => self.write_counter(switch, kind, entry),
            Kind::DirectCounterEntry(entry) => self.write_direct_counter(switch, kind, entry),
            Kind::MeterEntry(entry) => self.write_meter(switch, kind, entry),
            Kind::DirectMeterEntry(entry) => self.write_direct_meter(switch, kind, entry),
            Kind::RegisterEntry(entry) => self.write_register(switch, kind, entry),
            Kind::PacketReplicationEngineEntry(entry) => self.write_replication(switch, kind, entry),
            Kind::ValueSetEntry(entry) => self.write_value_set(switch, kind, entry),
            Kind::DigestEntry(entry) => self.write_digest(kind, entry),
            Kind::ExternEntry(_) => {
                Err(ControlError::unimplemented("the program's architecture has no such extern"))
            }
        }
    }

    /// Applies updates in order, up to the first error.
    ///
    /// # Errors
    ///
    /// The position of the failed update, and its error. The updates before it are applied.
    pub fn apply_all(&mut self, switch: &mut Switch, updates: &[Update]) -> Result<(), BatchError> {
        let mut numbered = (1..).zip(updates);
        numbered.try_for_each(|(number, update)| {
            self.apply(switch, update).map_err(|error| BatchError { number, error })
        })
    }

    /// Returns the entities that match a request; unset fields are wildcards (P4Runtime section 11).
    ///
    /// # Errors
    ///
    /// The request names an unknown object, or a kind of entity that cannot be read.
    pub fn read(&self, switch: &Switch, request: &Entity) -> Result<Vec<Entity>, ControlError> {
        self.read_part(switch, request, &mut ReadPage::all())
    }

    /// Returns a page of what [`Self::read`] returns. Only tables and arrays are divided into pages; other
    /// entities are in the first page.
    ///
    /// # Errors
    ///
    /// See [`Self::read`].
    pub fn read_part(
        &self,
        switch: &Switch,
        request: &Entity,
        part: &mut ReadPage,
    ) -> Result<Vec<Entity>, ControlError> {
        let request =
            request.entity.as_ref().ok_or_else(|| ControlError::invalid("the request has no entity"))?;
        match request {
            Kind::TableEntry(entry) => wrap(self.read_table_entries(switch, entry, part)?, Kind::TableEntry),
            Kind::ActionProfileMember(member) => {
                wrap(self.read_members(switch, member)?, Kind::ActionProfileMember)
            }
            Kind::ActionProfileGroup(group) => wrap(self.read_groups(group)?, Kind::ActionProfileGroup),
            Kind::CounterEntry(entry) => wrap(self.read_counters(switch, entry, part)?, Kind::CounterEntry),
            Kind::DirectCounterEntry(entry) => {
                wrap(self.read_direct_counters(switch, entry, part)?, Kind::DirectCounterEntry)
            }
            Kind::MeterEntry(entry) => wrap(self.read_meters(switch, entry, part)?, Kind::MeterEntry),
            Kind::DirectMeterEntry(entry) => {
                wrap(self.read_direct_meters(switch, entry, part)?, Kind::DirectMeterEntry)
            }
            Kind::RegisterEntry(entry) => {
                wrap(self.read_registers(switch, entry, part)?, Kind::RegisterEntry)
            }
            Kind::PacketReplicationEngineEntry(entry) => {
                wrap(self.read_replication(switch, entry)?, Kind::PacketReplicationEngineEntry)
            }
            Kind::ValueSetEntry(entry) => wrap(self.read_value_sets(entry)?, Kind::ValueSetEntry),
            Kind::DigestEntry(entry) => wrap(self.read_digests(entry)?, Kind::DigestEntry),
            Kind::ExternEntry(_) => {
                Err(ControlError::unimplemented("the program's architecture has no such extern"))
            }
        }
    }
}

/// Checks that no field of the P4Info is wider than p4c supports. Values are allocated at the width that the
/// P4Info states, and a client provides it.
fn check_widths(index: &Index) -> Result<(), ControlError> {
    /// The limit of p4c in bits (ir/configuration.h, maximumWidthSupported).
    const MAX_WIDTH: i32 = 2048;
    let fields = index.tables.iter().flat_map(|table| &table.match_fields);
    let fields = fields.map(|field| (&field.name, field.bitwidth));
    let params = index.actions.iter().flat_map(|action| &action.params);
    let params = params.map(|param| (&param.name, param.bitwidth));
    let registers = index.registers.iter();
    let registers = registers.filter_map(|it| Some((&it.preamble().name, externs::register_bits(it).ok()?)));
    let sets =
        index.value_sets.iter().flat_map(|set| &set.r#match).map(|field| (&field.name, field.bitwidth));
    match fields.chain(params).chain(registers).chain(sets).find(|(_, bits)| !(0..=MAX_WIDTH).contains(bits))
    {
        Some((name, bits)) => {
            Err(ControlError::invalid(format!("the P4Info gives {name} a width of {bits} bits")))
        }
        None => Ok(()),
    }
}

fn wrap<T>(found: Vec<T>, kind: fn(T) -> Kind) -> Result<Vec<Entity>, ControlError> {
    Ok(found.into_iter().map(|it| Entity { entity: Some(kind(it)) }).collect())
}

/// The error of one update of several. The updates before it are applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("update {number}: {error}")]
pub struct BatchError {
    /// Position of the update, from 1.
    pub number: usize,
    pub error: ControlError,
}
