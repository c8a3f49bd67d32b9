//! Writes table entries and default actions.

use super::action::ActionScope;
use super::error::ControlError;
use super::externs::{counter_value, meter_rates};
use super::key::checked_key;
use super::state::{Control, EntryExtras, EntryRef, OneShot};
use crate::Switch;
use crate::pipeline::{ActionCall, CounterValue, EntryHandle, MeterRates, TableError};
use crate::program::TableId;
use p4runtime::google::rpc::Code;
use p4runtime::p4::config::v1::table::IdleTimeoutBehavior;
use p4runtime::p4::config::v1::{DirectMeter, Table};
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{TableAction, TableEntry};
use p4runtime::p4info::{Index, Object};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_units::Time;

/// Maximum length of the metadata of an entry in bytes. It bounds the memory, since every entry can have metadata.
const MAX_METADATA_LEN: usize = 4 << 10;

/// The direct resources (counter and meter of the entry) and the timeout of a table write, validated.
struct EntrySettings {
    /// `None` leaves the counter unchanged.
    counter: Option<CounterValue>,
    /// `None` if the table has no direct meter; `Some(None)` resets the rates.
    meter: Option<Option<MeterRates>>,
    /// `None` if the table has no idle timeouts; 0 disables the timeout.
    timeout_ticks: Option<u64>,
}

/// An existing entry, with the ids of P4Runtime and of the pipeline.
#[derive(Clone, Copy)]
struct ResolvedEntry {
    table: u32,
    id: TableId,
    handle: EntryHandle,
}

impl Control {
    /// Returns the P4Info and the pipeline's id of a table.
    pub(super) fn table(&self, id: u32) -> Result<(&Table, TableId), ControlError> {
        resolve_table(&self.index, &self.tables, id)
    }

    /// Returns the table and handle of the entry with the same match and priority as `entry`.
    pub(super) fn find(
        &self,
        switch: &Switch,
        entry: &TableEntry,
    ) -> Result<(TableId, EntryHandle), ControlError> {
        let (table, id) = self.table(entry.table_id)?;
        let key = checked_key(table, entry)?;
        let found = switch.pipeline().table_find(id, &key, entry.priority)?;
        let missing =
            || ControlError::not_found(format!("table {} has no such entry", table.preamble().name));
        Ok((id, found.ok_or_else(missing)?))
    }

    pub(super) fn write_table_entry(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &TableEntry,
    ) -> Result<(), ControlError> {
        let index = Arc::clone(&self.index);
        let (table, id) = resolve_table(&index, &self.tables, entry.table_id)?;
        let name = &table.preamble().name;
        if entry.metadata.len() > MAX_METADATA_LEN {
            let message =
                format!("metadata of {} bytes exceeds the limit of {MAX_METADATA_LEN}", entry.metadata.len());
            return Err(ControlError::new(Code::ResourceExhausted, message));
        }
        if entry.is_const {
            return Err(ControlError::invalid("is_const cannot be set by a controller"));
        }
        if entry.is_default_action {
            return self.write_default(switch, kind, entry, table, id);
        }
        if table.is_const_table && (kind != Type::Modify || entry.action.is_some()) {
            return Err(ControlError::denied(format!("the entries of table {name} are const")));
        }
        if table.match_fields.is_empty() {
            return Err(ControlError::invalid(format!(
                "table {name} has no key; only a default action is allowed"
            )));
        }
        match kind {
            Type::Insert => self.insert(switch, entry, table, id),
            Type::Modify => self.modify(switch, entry, table),
            _ => self.delete(switch, entry, table),
        }
    }

    fn insert(
        &mut self,
        switch: &mut Switch,
        entry: &TableEntry,
        table: &Table,
        id: TableId,
    ) -> Result<(), ControlError> {
        let key = checked_key(table, entry)?;
        let action = entry.action.as_ref().ok_or_else(|| ControlError::invalid("the entry has no action"))?;
        let settings = self.entry_settings(switch, table, entry)?;
        if switch.pipeline().table_find(id, &key, entry.priority)?.is_some() {
            let name = &table.preamble().name;
            return Err(ControlError::exists(format!(
                "table {name} has this entry; MODIFY changes its action"
            )));
        }
        let (call, one_shot) = self.table_action(switch, table, action)?;
        let added = switch.pipeline_mut().table_add(id, &key, entry.priority, &call);
        let result = added.and_then(|handle| {
            let target = ResolvedEntry { table: entry.table_id, id, handle };
            apply_settings(switch, target, settings).inspect_err(|_| {
                // The entry was added above and is not referenced, so this cannot fail.
                let _ = switch.pipeline_mut().table_delete(id, handle);
            })?;
            Ok(target)
        });
        match result {
            Ok(target) => self.store_extras(
                EntryRef { table_id: target.table, handle: Some(target.handle) },
                entry,
                one_shot,
            ),
            Err(error) => {
                self.delete_one_shot(switch, table.implementation_id, one_shot)?;
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn modify(&mut self, switch: &mut Switch, entry: &TableEntry, table: &Table) -> Result<(), ControlError> {
        let (id, handle) = self.find(switch, entry)?;
        let target = ResolvedEntry { table: entry.table_id, id, handle };
        let entry_ref = EntryRef { table_id: entry.table_id, handle: Some(handle) };
        let settings = self.entry_settings(switch, table, entry)?;
        let old_one_shot = self.entry_extras.get(&entry_ref).and_then(|extras| extras.one_shot.clone());
        let Some(action) = &entry.action else {
            apply_settings(switch, target, settings)?;
            self.store_extras(entry_ref, entry, old_one_shot);
            return Ok(());
        };
        let (call, one_shot) = self.table_action(switch, table, action)?;
        if let Err(error) = switch.pipeline_mut().table_modify(id, handle, &call) {
            self.delete_one_shot(switch, table.implementation_id, one_shot)?;
            return Err(error.into());
        }
        apply_settings(switch, target, settings)?;
        self.store_extras(entry_ref, entry, one_shot);
        self.delete_one_shot(switch, table.implementation_id, old_one_shot)
    }

    fn delete(&mut self, switch: &mut Switch, entry: &TableEntry, table: &Table) -> Result<(), ControlError> {
        let (id, handle) = self.find(switch, entry)?;
        switch.pipeline_mut().table_delete(id, handle)?;
        let entry_ref = EntryRef { table_id: entry.table_id, handle: Some(handle) };
        let extras = self.replace_extras(entry_ref, None);
        self.delete_one_shot(switch, table.implementation_id, extras.and_then(|extras| extras.one_shot))
    }

    fn store_extras(&mut self, entry_ref: EntryRef, entry: &TableEntry, one_shot: Option<OneShot>) {
        #[allow(deprecated)] // older clients still use it
        let controller_metadata = entry.controller_metadata;
        let (metadata, idle_timeout_ns) = (entry.metadata.clone(), entry.idle_timeout_ns);
        let extras = EntryExtras { controller_metadata, metadata, idle_timeout_ns, one_shot };
        self.replace_extras(entry_ref, Some(extras).filter(|extras| *extras != EntryExtras::default()));
    }

    /// Replaces the attributes of an entry; `None` removes them. Returns the previous ones.
    fn replace_extras(&mut self, entry_ref: EntryRef, extras: Option<EntryExtras>) -> Option<EntryExtras> {
        let count_timeout = |extras: &Option<EntryExtras>| {
            usize::from(extras.as_ref().is_some_and(|extras| extras.idle_timeout_ns > 0))
        };
        self.entries_with_timeout += count_timeout(&extras);
        let previous = match extras {
            Some(extras) => self.entry_extras.insert(entry_ref, extras),
            None => self.entry_extras.remove(&entry_ref),
        };
        self.entries_with_timeout -= count_timeout(&previous);
        previous
    }

    fn write_default(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &TableEntry,
        table: &Table,
        id: TableId,
    ) -> Result<(), ControlError> {
        let name = &table.preamble().name;
        if kind != Type::Modify {
            return Err(ControlError::invalid("a default action can only be modified"));
        }
        if !entry.r#match.is_empty() || entry.priority != 0 {
            return Err(ControlError::invalid("a default action has neither match nor priority"));
        }
        if entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some() {
            return Err(ControlError::invalid("a default action has no idle timeout"));
        }
        if entry.counter_data.is_some() || entry.meter_config.is_some() || entry.meter_counter_data.is_some()
        {
            return Err(ControlError::unimplemented(
                "direct resources of a default action are not supported",
            ));
        }
        if table.const_default_action_id != 0 || table.implementation_id != 0 {
            return Err(ControlError::denied(format!("the default action of table {name} is const")));
        }
        match entry.action.as_ref().map(|action| action.r#type.as_ref()) {
            None => switch.pipeline_mut().table_reset_default(id)?,
            Some(Some(ActionType::Action(action))) => {
                let allowed = (entry.table_id, table.action_refs.as_slice());
                let call = self.actions.to_call(&self.index, allowed, action, ActionScope::Default)?;
                switch.pipeline_mut().table_set_default(id, &call)?;
            }
            Some(_) => {
                return Err(ControlError::invalid(
                    "a default action must be an action, not a member, a group or a one-shot set",
                ));
            }
        }
        let entry_ref = EntryRef { table_id: entry.table_id, handle: None };
        match entry.action {
            Some(_) => self.store_extras(entry_ref, entry, None),
            // The previous attributes hold no one-shot set to delete: a default action cannot be one.
            None => drop(self.replace_extras(entry_ref, None)),
        }
        Ok(())
    }

    /// Returns the pipeline's form of an entry's action. For a one-shot set, creates its members and group.
    fn table_action(
        &mut self,
        switch: &mut Switch,
        table: &Table,
        action: &TableAction,
    ) -> Result<(ActionCall, Option<OneShot>), ControlError> {
        let name = &table.preamble().name;
        let action = action.r#type.as_ref().ok_or_else(|| ControlError::invalid("the action is not set"))?;
        let profile = table.implementation_id;
        match (action, profile) {
            (ActionType::Action(action), 0) => {
                let allowed = (table.preamble().id, table.action_refs.as_slice());
                Ok((self.actions.to_call(&self.index, allowed, action, ActionScope::Entry)?, None))
            }
            (_, 0) => {
                Err(ControlError::invalid(format!("table {name} has no action profile; use an action")))
            }
            (ActionType::Action(_), _) => Err(ControlError::invalid(format!(
                "table {name} is implemented by an action profile; use a member or a group"
            ))),
            (&ActionType::ActionProfileMemberId(id), _) => Ok((self.member(profile, id)?, None)),
            (&ActionType::ActionProfileGroupId(id), _) => Ok((self.group(profile, id)?, None)),
            (ActionType::ActionProfileActionSet(set), _) => {
                let one_shot = self.create_one_shot(switch, table, set)?;
                Ok((ActionCall::Group(one_shot.group), Some(one_shot)))
            }
        }
    }

    /// Validates the direct resources and the timeout of a table write.
    fn entry_settings(
        &self,
        switch: &Switch,
        table: &Table,
        entry: &TableEntry,
    ) -> Result<EntrySettings, ControlError> {
        let name = &table.preamble().name;
        if entry.meter_counter_data.is_some() {
            return Err(ControlError::unimplemented("meters do not count their colours"));
        }
        let counter = entry.counter_data.as_ref().map(counter_value).transpose()?;
        if counter.is_some() && !self.has_direct_counter(table) {
            return Err(ControlError::invalid(format!("table {name} has no direct counter")));
        }
        let meter = match (self.direct_meter(table), &entry.meter_config) {
            (None, Some(_)) => {
                return Err(ControlError::invalid(format!("table {name} has no direct meter")));
            }
            (None, None) => None,
            (Some(_), None) => Some(None),
            (Some(meter), Some(config)) => Some(Some(meter_rates(meter.spec.as_ref(), config)?)),
        };
        Ok(EntrySettings { counter, meter, timeout_ticks: idle_ticks(switch, table, entry)? })
    }

    pub(super) fn has_direct_counter(&self, table: &Table) -> bool {
        table.direct_resource_ids.iter().any(|&id| self.index.direct_counters.id(id).is_some())
    }

    pub(super) fn direct_meter(&self, table: &Table) -> Option<&DirectMeter> {
        table.direct_resource_ids.iter().find_map(|&id| self.index.direct_meters.id(id))
    }
}

/// Writes the direct resources and the timeout of an entry.
fn apply_settings(
    switch: &mut Switch,
    target: ResolvedEntry,
    settings: EntrySettings,
) -> Result<(), TableError> {
    let ResolvedEntry { id, handle, .. } = target;
    let pipeline = switch.pipeline_mut();
    if let Some(value) = settings.counter {
        pipeline.direct_counter_write(id, handle, value)?;
    }
    if let Some(rates) = settings.meter {
        pipeline.direct_meter_set_rates(id, handle, rates)?;
    }
    if let Some(ticks) = settings.timeout_ticks {
        pipeline.table_set_timeout(id, handle, ticks)?;
    }
    Ok(())
}

fn resolve_table<'a>(
    index: &'a Index,
    tables: &BTreeMap<u32, TableId>,
    id: u32,
) -> Result<(&'a Table, TableId), ControlError> {
    let found = index.tables.id(id).zip(tables.get(&id).copied());
    found.ok_or_else(|| ControlError::invalid(format!("there is no table {id:#010x}")))
}

/// Returns the timeout in the switch's ticks, at least one, since 0 disables the timeout in the pipeline; `None` if the
/// table has no idle timeouts.
fn idle_ticks(switch: &Switch, table: &Table, entry: &TableEntry) -> Result<Option<u64>, ControlError> {
    if entry.time_since_last_hit.is_some() {
        return Err(ControlError::invalid("time_since_last_hit cannot be written"));
    }
    /// The largest `Time`, about 213 days; longer timeouts are shortened to it.
    const MAX_TIMEOUT_NS: u64 = Time::MAX.as_ns();
    let is_supported = table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl;
    let ns = u64::try_from(entry.idle_timeout_ns)
        .map_err(|_| ControlError::invalid("idle_timeout_ns is negative"))?;
    match (is_supported, ns) {
        (false, 0) => Ok(None),
        (false, _) => {
            Err(ControlError::invalid(format!("table {} has no idle timeout", table.preamble().name)))
        }
        (true, 0) => Ok(Some(0)),
        (true, ns) => Ok(Some(switch.clock().ticks(Time::from_ns(ns.min(MAX_TIMEOUT_NS))).max(1))),
    }
}
