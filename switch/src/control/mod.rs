//! Writes and reads P4Runtime's entities on a switch, in process. The simulation calls it directly; the gRPC
//! server calls it on behalf of its clients.
//!
//! [`Control`] keeps the state that a switch does not have: the controller's ids of members and groups, its
//! metadata, and its one-shot action sets as written. Everything else is read from the switch. An update is
//! checked completely before anything changes. Errors have the canonical codes of the P4Runtime specification
//! (v1.5); where the specification contradicts itself (values that are too wide), the code is BMv2's.
//!
//! The server handles sessions, roles, pipeline configs and the sending of digests.

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
mod state;
mod table;
mod table_read;
mod undo;
mod value;
mod value_set;
mod widths;

pub use batch::{Atomicity, Batch};
pub use error::{BatchError, ControlError};
pub use page::ReadPage;
pub use state::Control;

use crate::Switch;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::{Entity, Update, update};

impl Control {
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
    /// The request names an unknown object or a kind of entity that cannot be read.
    pub fn read(&self, switch: &Switch, request: &Entity) -> Result<Vec<Entity>, ControlError> {
        self.read_page(switch, request, &mut ReadPage::all())
    }

    /// Returns a page of what [`Self::read`] returns. Only tables and arrays are divided into pages; other
    /// entities are in the first page.
    ///
    /// # Errors
    ///
    /// See [`Self::read`].
    pub fn read_page(
        &self,
        switch: &Switch,
        request: &Entity,
        page: &mut ReadPage,
    ) -> Result<Vec<Entity>, ControlError> {
        let request =
            request.entity.as_ref().ok_or_else(|| ControlError::invalid("the request has no entity"))?;
        match request {
            Kind::TableEntry(entry) => wrap(self.read_table_entries(switch, entry, page)?, Kind::TableEntry),
            Kind::ActionProfileMember(member) => {
                wrap(self.read_members(switch, member)?, Kind::ActionProfileMember)
            }
            Kind::ActionProfileGroup(group) => wrap(self.read_groups(group)?, Kind::ActionProfileGroup),
            Kind::CounterEntry(entry) => wrap(self.read_counters(switch, entry, page)?, Kind::CounterEntry),
            Kind::DirectCounterEntry(entry) => {
                wrap(self.read_direct_counters(switch, entry, page)?, Kind::DirectCounterEntry)
            }
            Kind::MeterEntry(entry) => wrap(self.read_meters(switch, entry, page)?, Kind::MeterEntry),
            Kind::DirectMeterEntry(entry) => {
                wrap(self.read_direct_meters(switch, entry, page)?, Kind::DirectMeterEntry)
            }
            Kind::RegisterEntry(entry) => {
                wrap(self.read_registers(switch, entry, page)?, Kind::RegisterEntry)
            }
            Kind::PacketReplicationEngineEntry(entry) => {
                wrap(self.read_replication(switch, entry)?, Kind::PacketReplicationEngineEntry)
            }
            Kind::ValueSetEntry(entry) => wrap(self.read_value_sets(switch, entry)?, Kind::ValueSetEntry),
            Kind::DigestEntry(entry) => wrap(self.read_digests(entry)?, Kind::DigestEntry),
            Kind::ExternEntry(_) => {
                Err(ControlError::unimplemented("the program's architecture has no such extern"))
            }
        }
    }
}

fn wrap<T>(found: Vec<T>, kind: fn(T) -> Kind) -> Result<Vec<Entity>, ControlError> {
    Ok(found.into_iter().map(|entry| Entity { entity: Some(kind(entry)) }).collect())
}
