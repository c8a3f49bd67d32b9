//! Writes the entries and default actions of tables. It does not depend on P4Runtime.
//!
//! A table numbers its rows: row 0 is the default entry, and entry handle `h` is row `h + 1`. A deleted entry leaves a
//! free row.

use super::api_types::{ActionCall, ConstPart, EntryHandle, KeyMatch, TableError};
use super::lookup::{Lookup, Match, RangeMatch};
use super::table_state::{DEFAULT_ENTRY, EntryInfo, ProfileRef};
use super::{Pipeline, values};
use crate::program::{ActionId, MatchKind, Table, TableId, limb_count, mask_limbs, prefix_mask};

/// An action call with its names and handles resolved.
pub(super) enum ResolvedAction {
    Action(ActionId, Vec<u64>),
    /// A member or group of the table's action profile.
    ProfileRef(ProfileRef),
}

impl Pipeline {
    fn immutable(&self, table: &Table, what: ConstPart) -> TableError {
        TableError::Immutable { table: table.info.name.clone(), what }
    }

    /// Adds an entry. Among matching entries the one with the largest `priority` wins; among equal priorities,
    /// the oldest. `priority` is ignored if the table has no priorities.
    ///
    /// # Errors
    ///
    /// Unknown table; the table is full, has no key, has const entries, or has an entry with this match; the
    /// action with these arguments is not one of the table's; or the match does not fit the key.
    pub fn table_add(
        &mut self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
        action: &ActionCall,
    ) -> Result<EntryHandle, TableError> {
        let definition = self.table(table)?;
        if definition.info.const_entries {
            return Err(self.immutable(definition, ConstPart::Entries));
        }
        if definition.key.is_empty() {
            let name = &definition.info.name;
            return Err(TableError::Invalid(format!("table {name} has no key: set its default action")));
        }
        let entry_match = self.to_match(table, key, priority)?;
        let resolved = self.resolve_for_table(definition, action)?;
        let state = &self.state.tables[table];
        if state.find_exact(definition, &entry_match) != 0 {
            return Err(TableError::Duplicate { table: definition.info.name.clone() });
        }
        if state.used() >= definition.info.size {
            let (table, size) = (definition.info.name.clone(), definition.info.size);
            return Err(TableError::Full { table, size });
        }
        let program = &self.program;
        let definition = &program.tables[table];
        let state = &mut self.state.tables[table];
        let entry = state.alloc_entry(definition);
        match resolved {
            ResolvedAction::Action(action, args) => {
                state.set_action(program, definition, entry, action, &args)
            }
            ResolvedAction::ProfileRef(profile_ref) => {
                state.set_profile_ref(program, definition, entry, profile_ref)
            }
        }
        state.lookup.insert(definition, entry, &entry_match);
        let now = self.state.now;
        state.extras.entries[entry as usize] =
            Some(EntryInfo { entry_match, is_const: false, idle_timeout: 0, timer: now });
        if let Some(last_hit) = state.extras.last_hit.get_mut(entry as usize) {
            *last_hit = now;
        }
        Ok(EntryHandle(entry - 1))
    }

    /// Changes the action of an entry.
    ///
    /// # Errors
    ///
    /// Unknown table or entry, the entries are const, or the action with these arguments is not one of the
    /// table's.
    pub fn table_modify(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        action: &ActionCall,
    ) -> Result<(), TableError> {
        let definition = self.table(table)?;
        let index = self.entry(table, entry)?;
        if definition.info.const_entries {
            return Err(self.immutable(definition, ConstPart::Entries));
        }
        let resolved = self.resolve_for_table(definition, action)?;
        let definition = &self.program.tables[table];
        let state = &mut self.state.tables[table];
        match resolved {
            ResolvedAction::Action(action, args) => {
                state.set_action(&self.program, definition, index, action, &args)
            }
            ResolvedAction::ProfileRef(profile_ref) => {
                state.set_profile_ref(&self.program, definition, index, profile_ref)
            }
        }
        Ok(())
    }

    /// Removes an entry. Its handle may be reused.
    ///
    /// # Errors
    ///
    /// Unknown table or entry, or the entries are const.
    pub fn table_delete(&mut self, table: TableId, entry: EntryHandle) -> Result<(), TableError> {
        let definition = self.table(table)?;
        let index = self.entry(table, entry)?;
        if definition.info.const_entries {
            return Err(self.immutable(definition, ConstPart::Entries));
        }
        let definition = &self.program.tables[table];
        let state = &mut self.state.tables[table];
        let extras = &mut *state.extras;
        if let Some(info) = extras.entries[index as usize].take() {
            state.lookup.remove(definition, index, &info.entry_match);
            extras.profile_refs[index as usize] = ProfileRef::None;
            if let Some(counter) = extras.counters.get_mut(index as usize) {
                *counter = Default::default();
            }
            if let Some(meter) = extras.meters.get_mut(index as usize) {
                *meter = Default::default();
            }
            extras.free.push(index);
        }
        Ok(())
    }

    /// Returns the entry with exactly this match (and this priority, if the table has priorities).
    ///
    /// # Errors
    ///
    /// Unknown table, or the match does not fit the key.
    pub fn table_find(
        &self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
    ) -> Result<Option<EntryHandle>, TableError> {
        let entry_match = self.to_match(table, key, priority)?;
        let state = &self.state.tables[table];
        let entry = state.find_exact(self.table(table)?, &entry_match);
        Ok(entry.checked_sub(1).map(EntryHandle))
    }

    /// Sets the default action, which runs on a miss.
    ///
    /// # Errors
    ///
    /// Unknown table, the default action is const, or the action with these arguments is not one of the
    /// table's.
    pub fn table_set_default(&mut self, table: TableId, action: &ActionCall) -> Result<(), TableError> {
        let definition = self.table(table)?;
        if definition.info.const_default {
            return Err(self.immutable(definition, ConstPart::DefaultAction));
        }
        let resolved = self.resolve_for_table(definition, action)?;
        let definition = &self.program.tables[table];
        let state = &mut self.state.tables[table];
        match resolved {
            ResolvedAction::Action(action, args) => {
                state.extras.profile_refs[DEFAULT_ENTRY as usize] = ProfileRef::None;
                state.set_action(&self.program, definition, DEFAULT_ENTRY, action, &args);
            }
            ResolvedAction::ProfileRef(profile_ref) => {
                state.set_profile_ref(&self.program, definition, DEFAULT_ENTRY, profile_ref)
            }
        }
        Ok(())
    }

    /// Restores the default action that the program declares.
    ///
    /// # Errors
    ///
    /// Unknown table.
    pub fn table_reset_default(&mut self, table: TableId) -> Result<(), TableError> {
        self.table(table)?;
        self.state.tables[table].reset_default(&self.program, &self.program.tables[table]);
        Ok(())
    }

    /// Sets the idle timeout of an entry in ticks and restarts it; 0 disables it.
    ///
    /// # Errors
    ///
    /// Unknown table or entry, or the table does not support timeouts.
    pub fn table_set_timeout(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        ticks: u64,
    ) -> Result<(), TableError> {
        let definition = self.table(table)?;
        if !definition.info.idle_timeout {
            let name = &definition.info.name;
            return Err(TableError::Invalid(format!("table {name} does not support timeouts")));
        }
        let index = self.entry(table, entry)?;
        let now = self.state.now;
        if let Some(info) = &mut self.state.tables[table].extras.entries[index as usize] {
            info.idle_timeout = ticks;
            info.timer = now;
        }
        Ok(())
    }

    /// Converts a match to the words of the table's key, and checks it.
    fn to_match(&self, table: TableId, key: &[KeyMatch], priority: i32) -> Result<Match, TableError> {
        let definition = self.table(table)?;
        let name = &definition.info.name;
        if key.len() != definition.key.len() {
            let (expected, found) = (definition.key.len(), key.len());
            return Err(TableError::Invalid(format!(
                "table {name} has {expected} key elements, not {found}"
            )));
        }
        let state = &self.state.tables[table];
        let layout = &definition.key_layout;
        let (mut value, mut mask) = (vec![0; layout.words], vec![0; layout.words]);
        let (mut ranges, mut prefix) = (Vec::new(), 0);
        for (element, (key_match, part)) in key.iter().zip(&definition.key).enumerate() {
            let info = &definition.info.key[element];
            let read = |value: &[u8]| {
                values::to_limbs(value, part.bits, || format!("table {name}: key {}", info.name))
            };
            let full_mask = || mask_limbs(part.bits, limb_count(part.bits));
            let check_mask = |value: &[u64], mask: &[u64], outside: &str| match value
                .iter()
                .zip(mask)
                .all(|(v, m)| v & !m == 0)
            {
                true => Ok(()),
                false => Err(TableError::Invalid(format!(
                    "table {name}: key {}: the value has bits set {outside}",
                    info.name
                ))),
            };
            let (element_value, element_mask) = match (key_match, part.kind) {
                (KeyMatch::Exact(value), MatchKind::Exact | MatchKind::Ternary) => {
                    (read(value)?, full_mask())
                }
                (KeyMatch::Lpm { value, prefix_len }, MatchKind::Lpm) => {
                    if u32::from(*prefix_len) > part.bits {
                        return Err(TableError::Invalid(format!(
                            "table {name}: a prefix of {prefix_len} bits is longer than key {}",
                            info.name
                        )));
                    }
                    prefix = *prefix_len;
                    let (value, mask) = (read(value)?, prefix_mask(part.bits, u32::from(prefix)));
                    check_mask(&value, &mask, "beyond its prefix")?;
                    (value, mask)
                }
                (KeyMatch::Exact(value), MatchKind::Lpm) => {
                    prefix = part.bits as u16;
                    (read(value)?, full_mask())
                }
                (KeyMatch::Ternary { value, mask }, MatchKind::Ternary) => {
                    let (value, mask) = (read(value)?, read(mask)?);
                    check_mask(&value, &mask, "outside its mask")?;
                    (value, mask)
                }
                (KeyMatch::Range { low, high }, MatchKind::Range) => {
                    let (low, high) = (read(low)?, read(high)?);
                    if low.iter().rev().gt(high.iter().rev()) {
                        return Err(TableError::Invalid(format!(
                            "table {name}: key {}: low is greater than high",
                            info.name
                        )));
                    }
                    ranges.push(RangeMatch { element, low, high });
                    continue;
                }
                (KeyMatch::Exact(value), MatchKind::Range) => {
                    let value = read(value)?;
                    ranges.push(RangeMatch { element, low: value.clone(), high: value });
                    continue;
                }
                (KeyMatch::Any, MatchKind::Range) => {
                    ranges.push(RangeMatch {
                        element,
                        low: vec![0; limb_count(part.bits)],
                        high: full_mask(),
                    });
                    continue;
                }
                (KeyMatch::Any, MatchKind::Lpm | MatchKind::Ternary) => {
                    (vec![0; limb_count(part.bits)], vec![0; limb_count(part.bits)])
                }
                (key_match, kind) => {
                    return Err(TableError::Invalid(format!(
                        "table {name}: key {} is matched as {kind:?}, this match is {key_match:?}",
                        info.name
                    )));
                }
            };
            layout.insert_element(element, &element_value, &mut value);
            layout.insert_element(element, &element_mask, &mut mask);
        }
        let has_ranks = matches!(state.lookup, Lookup::Ternary(_));
        Ok(Match { value, mask, ranges, prefix, rank: if has_ranks { rank_of(priority) } else { 0 } })
    }

    fn resolve_for_table(&self, table: &Table, action: &ActionCall) -> Result<ResolvedAction, TableError> {
        let name = &table.info.name;
        match (action, table.profile) {
            (ActionCall::Action { .. }, None) => {
                let (id, args) = self.resolve(&format!("table {name}"), &table.info.actions, action)?;
                Ok(ResolvedAction::Action(id, args))
            }
            (ActionCall::Member(member), Some(profile)) => {
                self.check_member(profile, *member)?;
                Ok(ResolvedAction::ProfileRef(ProfileRef::Member(member.0)))
            }
            (ActionCall::Group(group), Some(profile)) => {
                self.check_group(profile, *group)?;
                Ok(ResolvedAction::ProfileRef(ProfileRef::Group(group.0)))
            }
            (_, Some(_)) => Err(TableError::Invalid(format!(
                "table {name} is implemented by an action profile; use a member or a group"
            ))),
            (_, None) => Err(TableError::Invalid(format!("table {name} has no action profile"))),
        }
    }

    /// Checks that an action is one of `actions`, and converts its arguments.
    pub(super) fn resolve(
        &self,
        object: &str,
        actions: &[ActionId],
        call: &ActionCall,
    ) -> Result<(ActionId, Vec<u64>), TableError> {
        let &ActionCall::Action { action, ref args } = call else {
            return Err(TableError::Invalid(format!("{object}: expected an action")));
        };
        let name = self.program.action_name(action);
        if !actions.contains(&action) {
            return Err(TableError::UnknownAction { object: object.to_owned(), name: name.to_owned() });
        }
        let params = &self.program.actions[action].params;
        if params.len() != args.len() {
            let (expected, found) = (params.len(), args.len());
            return Err(TableError::Invalid(format!(
                "action {name} takes {expected} arguments, not {found}"
            )));
        }
        let mut words = Vec::new();
        for ((param, bits), arg) in params.iter().zip(args) {
            words.extend(values::to_limbs(arg, *bits, || format!("action {name}: {param}"))?);
        }
        Ok((action, words))
    }
}

/// Converts a priority to a rank. As in BMv2's JSON, the lowest rank wins, whereas the highest priority wins.
fn rank_of(priority: i32) -> i64 {
    i64::from(i32::MAX) - i64::from(priority)
}
