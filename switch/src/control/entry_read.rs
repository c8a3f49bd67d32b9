//! Reads table entries in the form in which they were written (P4Runtime's read-write symmetry): the inverse of
//! `entry_write.rs`.

use super::entry_write::{has_priorities, match_kind, to_key};
use super::error::ControlError;
use super::externs::{counter_data, meter_config};
use super::page::ReadPage;
use super::state::{ActionIds, Control, EntryRef};
use super::value::ones;
use crate::pipeline::{ActionCall, KeyMatch};
use crate::program::{ActionId, TableId};
use crate::{Switch, pipeline};
use p4runtime::google::rpc::Code;
use p4runtime::p4::config::v1::match_field::MatchType;
use p4runtime::p4::config::v1::table::IdleTimeoutBehavior;
use p4runtime::p4::config::v1::{MatchField, Table};
use p4runtime::p4::v1::action::Param;
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::table_entry::IdleTimeout;
use p4runtime::p4::v1::{Action, CounterData, FieldMatch, TableAction, TableEntry};
use p4runtime::p4info::{Index, Object};
use p4runtime::value::canonical;

impl Control {
    pub(super) fn read_table_entries(
        &self,
        switch: &Switch,
        request: &TableEntry,
        page: &mut ReadPage,
    ) -> Result<Vec<TableEntry>, ControlError> {
        if request.meter_counter_data.is_some() {
            return Err(ControlError::unimplemented("meters do not count their colours"));
        }
        if request.table_id == 0 {
            let allowed = TableEntry {
                counter_data: request.counter_data,
                meter_config: request.meter_config,
                time_since_last_hit: request.time_since_last_hit,
                is_default_action: request.is_default_action,
                ..TableEntry::default()
            };
            if *request != allowed {
                return Err(ControlError::invalid("a read of all tables allows no other filter"));
            }
        }
        let tables = self
            .index
            .tables
            .iter()
            .filter(|table| request.table_id == 0 || request.table_id == table.preamble().id);
        let mut found = Vec::new();
        for table in tables {
            let (_, id) = self.table(table.preamble().id)?;
            match request.is_default_action {
                // A default action counts as one row of the read.
                true if page.take_rows(1).is_empty() => {}
                true => found.extend(self.read_default(switch, table, id)?),
                false => self.read_table(switch, table, id, request, page, &mut found)?,
            }
        }
        // Reports an unknown table id, for which the loop above found no table.
        if found.is_empty() && request.table_id != 0 {
            self.table(request.table_id)?;
        }
        found.retain(|entry| matches_filter(request, entry));
        Ok(found)
    }

    fn read_table(
        &self,
        switch: &Switch,
        table: &Table,
        id: TableId,
        request: &TableEntry,
        page: &mut ReadPage,
        found: &mut Vec<TableEntry>,
    ) -> Result<(), ControlError> {
        let has_timeouts = table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl;
        if request.time_since_last_hit.is_some() && !has_timeouts && request.table_id != 0 {
            let name = &table.preamble().name;
            return Err(ControlError::invalid(format!("table {name} has no idle timeout")));
        }
        for entry in read_candidates(switch, table, id, request, page)? {
            found.push(self.read_entry(switch, table, id, request, &entry)?);
        }
        Ok(())
    }

    /// Returns an entry with the direct resources that the request selects.
    pub(super) fn read_entry(
        &self,
        switch: &Switch,
        table: &Table,
        id: TableId,
        request: &TableEntry,
        entry: &pipeline::TableEntry,
    ) -> Result<TableEntry, ControlError> {
        let mut message = self.entry(table, entry)?;
        if request.time_since_last_hit.is_some() {
            let ticks = switch.pipeline().ticks_since_hit(id, entry.handle)?;
            message.time_since_last_hit = ticks.map(|ticks| elapsed(switch, ticks));
        }
        if request.counter_data.is_some() && self.has_direct_counter(table) {
            message.counter_data = Some(self.direct_counter(switch, id, entry)?);
        }
        if request.meter_config.is_some() && self.direct_meter(table).is_some() {
            let rates = switch.pipeline().direct_meter_rates(id, entry.handle)?;
            message.meter_config = rates.map(meter_config);
        }
        Ok(message)
    }

    fn direct_counter(
        &self,
        switch: &Switch,
        id: TableId,
        entry: &pipeline::TableEntry,
    ) -> Result<CounterData, ControlError> {
        Ok(counter_data(switch.pipeline().direct_counter_read(id, entry.handle)?))
    }

    /// Converts an entry of the pipeline to P4Runtime's form, without its direct resources.
    pub(super) fn entry(
        &self,
        table: &Table,
        entry: &pipeline::TableEntry,
    ) -> Result<TableEntry, ControlError> {
        let entry_ref = EntryRef { table_id: table.preamble().id, handle: Some(entry.handle) };
        let mut message = TableEntry {
            table_id: table.preamble().id,
            r#match: from_key(table, &entry.key),
            priority: entry.priority,
            action: Some(self.action(table, entry_ref, &entry.action)?),
            is_const: entry.is_const,
            ..TableEntry::default()
        };
        self.fill_extras(entry_ref, &mut message);
        Ok(message)
    }

    fn read_default(
        &self,
        switch: &Switch,
        table: &Table,
        id: TableId,
    ) -> Result<Option<TableEntry>, ControlError> {
        let Some(call) = switch.pipeline().table_default(id) else { return Ok(None) };
        let entry_ref = EntryRef { table_id: table.preamble().id, handle: None };
        let mut message = TableEntry {
            table_id: table.preamble().id,
            is_default_action: true,
            action: Some(self.action(table, entry_ref, &call)?),
            ..TableEntry::default()
        };
        self.fill_extras(entry_ref, &mut message);
        Ok(Some(message))
    }

    /// Adds the attributes that only [`Control`] stores.
    fn fill_extras(&self, entry_ref: EntryRef, message: &mut TableEntry) {
        if let Some(extras) = self.entry_extras.get(&entry_ref) {
            #[allow(deprecated)] // older clients still use it
            {
                message.controller_metadata = extras.controller_metadata;
            }
            message.metadata = extras.metadata.clone();
            message.idle_timeout_ns = extras.idle_timeout_ns;
        }
    }

    fn action(
        &self,
        table: &Table,
        entry_ref: EntryRef,
        call: &ActionCall,
    ) -> Result<TableAction, ControlError> {
        let profile = table.implementation_id;
        let one_shot = self.entry_extras.get(&entry_ref).and_then(|extras| extras.one_shot.as_ref());
        let action = match (one_shot, call) {
            (Some(one_shot), _) => ActionType::ActionProfileActionSet(one_shot.set.clone()),
            (None, ActionCall::Action { action, args }) => {
                ActionType::Action(self.actions.to_p4runtime(&self.index, *action, args)?)
            }
            (None, ActionCall::Member(handle)) => {
                ActionType::ActionProfileMemberId(self.member_id(profile, *handle)?)
            }
            (None, ActionCall::Group(handle)) => {
                ActionType::ActionProfileGroupId(self.group_id(profile, *handle)?)
            }
        };
        Ok(TableAction { r#type: Some(action) })
    }
}

/// Returns the entries that may match a request: at most one if the request has a complete key.
fn read_candidates(
    switch: &Switch,
    table: &Table,
    id: TableId,
    request: &TableEntry,
    page: &mut ReadPage,
) -> Result<Vec<pipeline::TableEntry>, ControlError> {
    let pipeline = switch.pipeline();
    let mut all = || Ok(pipeline.table_entries_in(id, page.take_rows(pipeline.table_rows(id))));
    if request.r#match.is_empty() {
        return all();
    }
    let key = to_key(table, &request.r#match)?;
    let found = pipeline.table_find(id, &key, request.priority)?;
    // Priority 0 selects every priority, so the key is not complete.
    if has_priorities(table) && request.priority == 0 {
        return all();
    }
    // An exact lookup counts as one row.
    if page.take_rows(1).is_empty() {
        return Ok(Vec::new());
    }
    found.map(|handle| Ok(pipeline.table_entry(id, handle)?)).into_iter().collect()
}

fn elapsed(switch: &Switch, ticks: u64) -> IdleTimeout {
    let ns = switch.clock().time(ticks).as_ns();
    IdleTimeout { elapsed_ns: i64::try_from(ns).unwrap_or(i64::MAX) }
}

/// Returns whether an entry matches the request's filters (P4Runtime section 9.1.8).
fn matches_filter(request: &TableEntry, entry: &TableEntry) -> bool {
    let action_id = |entry: &TableEntry| match entry.action.as_ref().and_then(|action| action.r#type.as_ref())
    {
        Some(ActionType::Action(action)) => Some(action.action_id),
        _ => None,
    };
    #[allow(deprecated)] // older clients still use it
    let same_controller_metadata =
        request.controller_metadata == 0 || request.controller_metadata == entry.controller_metadata;
    same_controller_metadata
        && (request.r#match.is_empty() || same_match(request, entry))
        && (request.priority == 0 || request.priority == entry.priority)
        && (request.metadata.is_empty() || request.metadata == entry.metadata)
        && (action_id(request).is_none() || action_id(request) == action_id(entry))
}

/// Returns whether the matches are equal, in any order of fields and with any leading zeros.
fn same_match(request: &TableEntry, entry: &TableEntry) -> bool {
    let mut fields = request.r#match.clone();
    fields.iter_mut().for_each(canonicalise);
    fields.len() == entry.r#match.len() && fields.iter().all(|field| entry.r#match.contains(field))
}

/// Converts a key of the pipeline to P4Runtime's form: values are canonical, and a field that matches any
/// value is omitted.
fn from_key(table: &Table, key: &[KeyMatch]) -> Vec<FieldMatch> {
    table
        .match_fields
        .iter()
        .zip(key)
        .filter_map(|(field, key_match)| {
            let field_match_type = Some(from_match(field, key_match)?);
            Some(FieldMatch { field_id: field.id, field_match_type })
        })
        .collect()
}

fn from_match(field: &MatchField, key_match: &KeyMatch) -> Option<FieldMatchType> {
    let bits = field.bitwidth;
    let lpm = |value: &[u8], prefix_len: i32| {
        (prefix_len > 0).then(|| FieldMatchType::Lpm(Lpm { value: canonical(value), prefix_len }))
    };
    Some(match (match_kind(field)?, key_match) {
        (_, KeyMatch::Any) => return None,
        (MatchType::Exact, KeyMatch::Exact(value)) => {
            FieldMatchType::Exact(Exact { value: canonical(value) })
        }
        (MatchType::Lpm, KeyMatch::Lpm { value, prefix_len }) => lpm(value, i32::from(*prefix_len))?,
        (MatchType::Lpm, KeyMatch::Exact(value)) => lpm(value, bits)?,
        // BMv2's compiler makes a table with LPM and ternary fields ternary.
        (MatchType::Lpm, KeyMatch::Ternary { value, mask }) => {
            lpm(value, mask.iter().map(|byte| byte.count_ones() as i32).sum())?
        }
        (MatchType::Ternary, KeyMatch::Ternary { value, mask }) => {
            if mask.iter().all(|&byte| byte == 0) {
                return None;
            }
            FieldMatchType::Ternary(Ternary { value: canonical(value), mask: canonical(mask) })
        }
        (MatchType::Ternary, KeyMatch::Exact(value)) => {
            FieldMatchType::Ternary(Ternary { value: canonical(value), mask: canonical(&ones(bits)) })
        }
        (MatchType::Range, KeyMatch::Range { low, high }) => {
            if low.iter().all(|&byte| byte == 0) && *high == ones(bits) {
                return None;
            }
            FieldMatchType::Range(Range { low: canonical(low), high: canonical(high) })
        }
        (MatchType::Optional, KeyMatch::Exact(value)) => {
            FieldMatchType::Optional(Optional { value: canonical(value) })
        }
        (MatchType::Optional, KeyMatch::Ternary { value, mask }) => {
            if mask.iter().all(|&byte| byte == 0) {
                return None;
            }
            FieldMatchType::Optional(Optional { value: canonical(value) })
        }
        _ => return None,
    })
}

/// Removes leading zero bytes from the values of a match.
fn canonicalise(field: &mut FieldMatch) {
    let values = match &mut field.field_match_type {
        Some(FieldMatchType::Exact(m)) => vec![&mut m.value],
        Some(FieldMatchType::Optional(m)) => vec![&mut m.value],
        Some(FieldMatchType::Lpm(m)) => vec![&mut m.value],
        Some(FieldMatchType::Ternary(m)) => vec![&mut m.value, &mut m.mask],
        Some(FieldMatchType::Range(m)) => vec![&mut m.low, &mut m.high],
        Some(FieldMatchType::Other(_)) | None => Vec::new(),
    };
    values.into_iter().for_each(|value| *value = canonical(value));
}

impl ActionIds {
    /// Converts an action of the pipeline to P4Runtime's form.
    ///
    /// # Errors
    ///
    /// The P4Info has no such action, so it does not belong to the program.
    pub(super) fn to_p4runtime(
        &self,
        index: &Index,
        action: ActionId,
        args: &[Vec<u8>],
    ) -> Result<Action, ControlError> {
        let info = self.p4runtime.get(&action).and_then(|&id| index.actions.id(id));
        let info = info.ok_or_else(|| {
            let number = action.0;
            let message =
                format!("the P4Info does not belong to the program's JSON: it lacks action {number}");
            ControlError::new(Code::Internal, message)
        })?;
        let params = info.params.iter().zip(args);
        let params = params.map(|(param, value)| Param { param_id: param.id, value: canonical(value) });
        Ok(Action { action_id: info.preamble().id, params: params.collect() })
    }
}
