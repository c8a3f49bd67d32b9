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

mod batch;
mod digest;
mod entry_read;
mod entry_settings;
mod entry_write;
mod error;
mod externs;
mod idle_timeout;
mod page;
mod profile;
mod replication;
mod state;
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
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Replication;
use p4runtime::p4::v1::{Entity, TableEntry, Update, update};
use p4runtime::p4info::{Object, Objects};

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
        let entity = entity.ok_or_else(|| ControlError::invalid("the update has no entity"))?;
        self.write(switch, kind, entity).map_err(|error| match self.object_name(entity) {
            // Messages about a part of the entity, such as an action's parameter, do not name the object.
            Some((what, name)) if !error.message.contains(&name) => error.context(what + &name),
            _ => error,
        })
    }

    fn write(&mut self, switch: &mut Switch, kind: update::Type, entity: &Kind) -> Result<(), ControlError> {
        match entity {
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

    /// Returns kind and name of the object that an entity belongs to, such as `table ` and `MyIngress.ipv4_lpm`; `None` if the
    /// program has no such object.
    fn object_name(&self, entity: &Kind) -> Option<(String, String)> {
        fn name_of<T: Object>(objects: &Objects<T>, id: u32) -> Option<(String, String)> {
            Some((format!("{} ", T::KIND), objects.id(id)?.preamble().name.clone()))
        }
        let index = &self.index;
        let table = |entry: &Option<TableEntry>| name_of(&index.tables, entry.as_ref()?.table_id);
        match entity {
            Kind::TableEntry(entry) => name_of(&index.tables, entry.table_id),
            Kind::DirectCounterEntry(entry) => table(&entry.table_entry),
            Kind::DirectMeterEntry(entry) => table(&entry.table_entry),
            Kind::ActionProfileMember(member) => name_of(&index.action_profiles, member.action_profile_id),
            Kind::ActionProfileGroup(group) => name_of(&index.action_profiles, group.action_profile_id),
            Kind::CounterEntry(entry) => name_of(&index.counters, entry.counter_id),
            Kind::MeterEntry(entry) => name_of(&index.meters, entry.meter_id),
            Kind::RegisterEntry(entry) => name_of(&index.registers, entry.register_id),
            Kind::ValueSetEntry(entry) => name_of(&index.value_sets, entry.value_set_id),
            Kind::DigestEntry(entry) => name_of(&index.digests, entry.digest_id),
            Kind::PacketReplicationEngineEntry(entry) => Some(match entry.r#type.as_ref()? {
                Replication::MulticastGroupEntry(group) => {
                    (String::new(), format!("multicast group {}", group.multicast_group_id))
                }
                Replication::CloneSessionEntry(session) => {
                    (String::new(), format!("clone session {}", session.session_id))
                }
            }),
            Kind::ExternEntry(_) => None,
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
