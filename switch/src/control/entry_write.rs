//! Writes table entries and default actions: checks an entry against the P4Info, and converts its key and action to the
//! pipeline's form. The pipeline checks the values of keys (`pipeline/table_write.rs`).

use super::entry_settings::{apply_settings, check_metadata};
use super::error::ControlError;
use super::state::{ActionIds, Control, EntryRef, OneShot};
use super::value::{check_form, ones, to_width};
use crate::Switch;
use crate::pipeline::{ActionCall, EntryHandle, KeyMatch};
use crate::program::TableId;
use p4runtime::p4::config::v1::action_ref::Scope;
use p4runtime::p4::config::v1::match_field::{Match, MatchType};
use p4runtime::p4::config::v1::{ActionRef, MatchField, Table};
use p4runtime::p4::v1::field_match::FieldMatchType;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{Action, FieldMatch, TableAction, TableEntry};
use p4runtime::p4info::{Index, Object};
use p4runtime::value::canonical;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The use of an action: in an entry, or as a table's default action.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionScope {
    Entry,
    Default,
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
        check_metadata(entry)?;
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
            apply_settings(switch, (id, handle), settings).inspect_err(|_| {
                // The entry was added above and is not referenced, so this cannot fail.
                let _ = switch.pipeline_mut().table_delete(id, handle);
            })?;
            Ok(handle)
        });
        match result {
            Ok(handle) => {
                let entry_ref = EntryRef { table_id: entry.table_id, handle: Some(handle) };
                self.store_extras(entry_ref, entry, one_shot);
                Ok(())
            }
            Err(error) => {
                self.delete_one_shot(switch, table.implementation_id, one_shot)?;
                Err(error.into())
            }
        }
    }

    fn modify(&mut self, switch: &mut Switch, entry: &TableEntry, table: &Table) -> Result<(), ControlError> {
        let (id, handle) = self.find(switch, entry)?;
        let entry_ref = EntryRef { table_id: entry.table_id, handle: Some(handle) };
        let settings = self.entry_settings(switch, table, entry)?;
        let old_one_shot = self.entry_extras.get(&entry_ref).and_then(|extras| extras.one_shot.clone());
        let Some(action) = &entry.action else {
            apply_settings(switch, (id, handle), settings)?;
            self.store_extras(entry_ref, entry, old_one_shot);
            return Ok(());
        };
        let (call, one_shot) = self.table_action(switch, table, action)?;
        if let Err(error) = switch.pipeline_mut().table_modify(id, handle, &call) {
            self.delete_one_shot(switch, table.implementation_id, one_shot)?;
            return Err(error.into());
        }
        apply_settings(switch, (id, handle), settings)?;
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
}

fn resolve_table<'a>(
    index: &'a Index,
    tables: &BTreeMap<u32, TableId>,
    id: u32,
) -> Result<(&'a Table, TableId), ControlError> {
    let found = index.tables.id(id).zip(tables.get(&id).copied());
    found.ok_or_else(|| ControlError::invalid(format!("there is no table {id:#010x}")))
}

/// Returns the match kind of a field; `None` for an architecture-specific kind.
pub(super) fn match_kind(field: &MatchField) -> Option<MatchType> {
    match field.r#match {
        Some(Match::MatchType(kind)) => MatchType::try_from(kind).ok(),
        _ => None,
    }
}

/// Returns whether entries of the table have priorities.
pub(super) fn has_priorities(table: &Table) -> bool {
    let needs_priority = [MatchType::Ternary, MatchType::Range, MatchType::Optional];
    table
        .match_fields
        .iter()
        .any(|field| match_kind(field).is_some_and(|kind| needs_priority.contains(&kind)))
}

/// Converts a key to the pipeline's form: one match per field, in the table's order.
///
/// # Errors
///
/// A field is unknown, is given twice or has another match kind; an exact field is missing; or a field that matches every
/// value is not omitted.
pub(super) fn to_key(table: &Table, matches: &[FieldMatch]) -> Result<Vec<KeyMatch>, ControlError> {
    let name = &table.preamble().name;
    for (i, given) in matches.iter().enumerate() {
        if table.match_field_by_id(given.field_id).is_none() {
            return Err(ControlError::invalid(format!("table {name} has no match field {}", given.field_id)));
        }
        if matches[..i].iter().any(|other| other.field_id == given.field_id) {
            return Err(ControlError::invalid(format!(
                "table {name}: field {} is given twice",
                given.field_id
            )));
        }
    }
    let key = table.match_fields.iter().map(|field| {
        let given = matches.iter().find(|given| given.field_id == field.id);
        match given {
            Some(given) => to_match(field, given),
            None if match_kind(field) == Some(MatchType::Exact) => {
                Err(ControlError::invalid("an exact match field is missing"))
            }
            None => Ok(KeyMatch::Any),
        }
        .map_err(|e| e.context(format_args!("table {name}, field {}", field.name)))
    });
    key.collect()
}

/// Checks an entry's priority and converts its key.
///
/// # Errors
///
/// The table has priorities and the entry has none, or the reverse; or the key is invalid.
fn checked_key(table: &Table, entry: &TableEntry) -> Result<Vec<KeyMatch>, ControlError> {
    let name = &table.preamble().name;
    match (has_priorities(table), entry.priority) {
        (true, ..=0) => {
            return Err(ControlError::invalid(format!(
                "entries of table {name} need a priority of 1 or more"
            )));
        }
        (false, 1.. | ..=-1) => {
            return Err(ControlError::invalid(format!(
                "entries of table {name} have no priority; set it to 0"
            )));
        }
        _ => {}
    }
    to_key(table, &entry.r#match)
}

/// Converts the match of one field. Omits what the pipeline checks: that values fit the field and their masks, and the order
/// of a range.
fn to_match(field: &MatchField, given: &FieldMatch) -> Result<KeyMatch, ControlError> {
    let given = given.field_match_type.as_ref().ok_or_else(|| ControlError::invalid("no match is given"))?;
    let bits = field.bitwidth;
    let bytes = |value: &Vec<u8>| check_form(value, bits).map(|()| value.clone());
    let is_zero = |value: &[u8]| value.iter().all(|&byte| byte == 0);
    match (match_kind(field), given) {
        (Some(MatchType::Exact), FieldMatchType::Exact(m)) => Ok(KeyMatch::Exact(bytes(&m.value)?)),
        (Some(MatchType::Optional), FieldMatchType::Optional(m)) => Ok(KeyMatch::Exact(bytes(&m.value)?)),
        (Some(MatchType::Lpm), FieldMatchType::Lpm(m)) => {
            let prefix_len = u16::try_from(m.prefix_len).ok().filter(|_| (1..=bits).contains(&m.prefix_len));
            let prefix_len = prefix_len.ok_or_else(|| {
                ControlError::invalid(format!(
                    "prefix length {} is not between 1 and {bits}; omit the field for don't care",
                    m.prefix_len
                ))
            })?;
            Ok(KeyMatch::Lpm { value: bytes(&m.value)?, prefix_len })
        }
        (Some(MatchType::Ternary), FieldMatchType::Ternary(m)) => {
            let (value, mask) = (bytes(&m.value)?, bytes(&m.mask)?);
            if is_zero(&mask) {
                return Err(ControlError::invalid("the mask is zero; omit the field for don't care"));
            }
            Ok(KeyMatch::Ternary { value, mask })
        }
        (Some(MatchType::Range), FieldMatchType::Range(m)) => {
            let (low, high) = (bytes(&m.low)?, bytes(&m.high)?);
            if is_zero(&low) && canonical(&high) == ones(bits) {
                return Err(ControlError::invalid(
                    "the range covers every value; omit the field for don't care",
                ));
            }
            Ok(KeyMatch::Range { low, high })
        }
        (Some(kind), _) => {
            Err(ControlError::invalid(format!("the field has match kind {}", kind.as_str_name())))
        }
        (None, _) => Err(ControlError::unimplemented("the match kind is not supported")),
    }
}

impl ActionIds {
    /// Converts an action to the pipeline's form. `owner` is the id of its table, or of the action profile of its member;
    /// `allowed` lists the actions of the table.
    ///
    /// # Errors
    ///
    /// The action is not one of `allowed`, is not allowed in this scope, or has other parameters in the P4Info.
    pub(super) fn to_call(
        &self,
        index: &Index,
        (owner, allowed): (u32, &[ActionRef]),
        action: &Action,
        scope: ActionScope,
    ) -> Result<ActionCall, ControlError> {
        let id = action.action_id;
        let info = index
            .actions
            .id(id)
            .ok_or_else(|| ControlError::invalid(format!("there is no action {id:#010x}")))?;
        let name = &info.preamble().name;
        let action_ref = allowed
            .iter()
            .find(|action_ref| action_ref.id == id)
            .ok_or_else(|| ControlError::invalid(format!("action {name} is not one of the table's")))?;
        let forbidden = match scope {
            ActionScope::Entry => Scope::DefaultOnly,
            ActionScope::Default => Scope::TableOnly,
        };
        if action_ref.scope() == forbidden {
            return Err(ControlError::denied(format!(
                "action {name} is {} in this table",
                forbidden.as_str_name()
            )));
        }
        for (i, given) in action.params.iter().enumerate() {
            if info.param_by_id(given.param_id).is_none() {
                return Err(ControlError::invalid(format!(
                    "action {name} has no parameter {}",
                    given.param_id
                )));
            }
            if action.params[..i].iter().any(|other| other.param_id == given.param_id) {
                return Err(ControlError::invalid(format!(
                    "action {name}: parameter {} is given twice",
                    given.param_id
                )));
            }
        }
        let args = info.params.iter().map(|param| {
            let location = format!("action {name}, parameter {}", param.name);
            let given = action.params.iter().find(|given| given.param_id == param.id);
            let given = given.ok_or_else(|| ControlError::invalid("is missing").context(&location))?;
            to_width(&given.value, param.bitwidth).map_err(|e| e.context(&location))
        });
        let args = args.collect::<Result<_, ControlError>>()?;
        let unknown = || ControlError::invalid(format!("the program's JSON has no action {name} here"));
        Ok(ActionCall::Action { action: *self.pipeline.get(&(owner, id)).ok_or_else(unknown)?, args })
    }
}
