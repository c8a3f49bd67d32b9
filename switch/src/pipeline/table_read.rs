//! Finds and reads tables, their entries and their actions: the inverse of `table_write.rs`.

use super::api_types::{
    ActionCall, EntryHandle, GroupHandle, KeyMatch, MemberHandle, ObjectKind, TableEntry, TableError,
};
use super::lookup::Match;
use super::table_state::{DEFAULT_ENTRY, ProfileRef};
use super::{Pipeline, values};
use crate::program::{ActionId, Key, MatchKind, Table, TableDefinition, TableId};
use std::ops::Range;

/// Same as [`by_name`]; the error lists the known names.
pub(super) fn index_by_name<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    kind: ObjectKind,
    name: &str,
) -> Result<usize, TableError> {
    by_name(names.clone(), name).ok_or_else(|| {
        // p4c turns statements outside of tables into hidden tables `tbl_*`, which have no entries to write.
        let known: Vec<&str> = names.filter(|name| !name.starts_with("tbl_")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        TableError::Unknown { kind, name: name.to_owned(), known: format!("; the program has {known}") }
    })
}

/// Returns the error for a table index that the program does not have.
pub(super) fn unknown_table(table: TableId) -> TableError {
    let name = format!("number {}", table.0);
    TableError::Unknown { kind: ObjectKind::Table, name, known: String::new() }
}

/// Returns the index of `name` in `names`; otherwise that of the only name that ends in `.name`. `None` if there
/// is none, or several.
fn by_name<'a>(names: impl Iterator<Item = &'a str>, name: &str) -> Option<usize> {
    // `None`: no suffix matches; `Some(None)`: several do.
    let mut suffix = None;
    for (index, known) in names.enumerate() {
        if known == name {
            return Some(index);
        }
        if known.strip_suffix(name).is_some_and(|prefix| prefix.ends_with('.')) {
            suffix = match suffix {
                None => Some(Some(index)),
                Some(_) => Some(None),
            };
        }
    }
    suffix.flatten()
}

impl Pipeline {
    /// Returns the table with this name: the full name, or a suffix after a dot that is unique.
    ///
    /// # Errors
    ///
    /// Unknown table, or the suffix is ambiguous.
    pub fn table_by_name(&self, name: &str) -> Result<TableId, TableError> {
        let names = self.program.tables.iter().map(|table| table.info.name.as_str());
        index_by_name(names, ObjectKind::Table, name).map(|index| TableId(index as u16))
    }

    pub(super) fn table(&self, table: TableId) -> Result<&Table, TableError> {
        self.program.tables.of(table).ok_or_else(|| unknown_table(table))
    }

    /// Returns the index of an entry in its table: its handle plus 1.
    pub(super) fn entry(&self, table: TableId, entry: EntryHandle) -> Result<u32, TableError> {
        let state = &self.state.tables[table];
        let index = entry.0.saturating_add(1);
        match state.extras.entries.get(index as usize) {
            Some(Some(_)) => Ok(index),
            _ => Err(TableError::NoSuchHandle {
                object: format!("table {}", self.program.table_name(table)),
                kind: ObjectKind::Entry,
                handle: entry.0,
            }),
        }
    }

    /// Returns the action of a table with this name: the full name, or a suffix after a dot that is unique in the
    /// table.
    ///
    /// # Errors
    ///
    /// Unknown table, or the table has no such action.
    pub fn action_by_name(&self, table: TableId, name: &str) -> Result<ActionId, TableError> {
        let info = &self.table(table)?.info;
        self.find_action(|| format!("table {}", info.name), &info.actions, name)
    }

    pub(super) fn find_action(
        &self,
        object: impl FnOnce() -> String,
        actions: &[ActionId],
        name: &str,
    ) -> Result<ActionId, TableError> {
        let index = by_name(actions.iter().map(|action| self.program.action_name(*action)), name);
        let unknown = || TableError::UnknownAction { object: object(), name: name.to_owned() };
        index.map(|index| actions[index]).ok_or_else(unknown)
    }

    /// Returns the default action, which runs on a miss; `None` if the table has none or does not exist.
    pub fn table_default(&self, table: TableId) -> Option<ActionCall> {
        self.table(table).ok()?;
        self.action_of(table, DEFAULT_ENTRY)
    }

    /// Returns the action of a row; `None` if it runs no action.
    fn action_of(&self, table: TableId, entry: u32) -> Option<ActionCall> {
        let state = &self.state.tables[table];
        Some(match state.extras.profile_refs[entry as usize] {
            ProfileRef::Member(member) => ActionCall::Member(MemberHandle(member)),
            ProfileRef::Group(group) => ActionCall::Group(GroupHandle(group)),
            ProfileRef::None => {
                let (action_ref, args) = state.row(&self.program.tables[table], entry);
                // Code address 0 means no action.
                if action_ref.code == 0 {
                    return None;
                }
                let args = values::split_args(&self.program, action_ref.action, args);
                ActionCall::Action { action: action_ref.action, args }
            }
        })
    }

    /// Returns the entries of a table, in the order of their handles.
    pub fn table_entries(&self, table: TableId) -> Vec<TableEntry> {
        self.table_entries_in(table, 0..self.table_rows(table))
    }

    /// Returns the number of rows of a table: the default entry, the entries, and the free rows between them.
    pub fn table_rows(&self, table: TableId) -> usize {
        self.table(table).map_or(0, |_| self.state.tables[table].extras.entries.len())
    }

    pub fn table_len(&self, table: TableId) -> usize {
        self.table(table).map_or(0, |_| self.state.tables[table].used())
    }

    /// Returns the entries in a range of rows. Free rows and the default entry are skipped.
    pub fn table_entries_in(&self, table: TableId, rows: Range<usize>) -> Vec<TableEntry> {
        rows.filter_map(|row| self.entry_at(table, row as u32)).collect()
    }

    /// Returns an entry of a table.
    ///
    /// # Errors
    ///
    /// Unknown table or entry.
    pub fn table_entry(&self, table: TableId, entry: EntryHandle) -> Result<TableEntry, TableError> {
        self.table(table)?;
        let index = self.entry(table, entry)?;
        let no_action = || TableError::Invalid(format!("entry {entry} has no action"));
        self.entry_at(table, index).ok_or_else(no_action)
    }

    /// Returns the entry in a row; `None` for the default entry, a free row or a row beyond the end.
    fn entry_at(&self, table: TableId, index: u32) -> Option<TableEntry> {
        let definition = self.table(table).ok()?;
        let info = self.state.tables[table].extras.entries.get(index as usize)?.as_ref()?;
        Some(TableEntry {
            handle: EntryHandle(index - 1),
            key: self.key_of(table, &info.entry_match),
            priority: if definition.info.has_priorities() { priority_of(info.entry_match.rank) } else { 0 },
            action: self.action_of(table, index)?,
            is_const: info.is_const,
            idle_timeout: info.idle_timeout,
        })
    }

    fn key_of(&self, table: TableId, entry_match: &Match) -> Vec<KeyMatch> {
        let TableDefinition { key_layout: layout, key, .. } = &*self.program.tables[table];
        let elements = key.iter().enumerate();
        let to_key_match = |(element, key): (usize, &Key)| {
            let value =
                values::to_bytes(&layout.extract_element(element, key.bits, &entry_match.value), key.bits);
            match key.kind {
                MatchKind::Exact => KeyMatch::Exact(value),
                MatchKind::Lpm => KeyMatch::Lpm { value, prefix_len: entry_match.prefix },
                MatchKind::Ternary => {
                    let mask = layout.extract_element(element, key.bits, &entry_match.mask);
                    match mask.iter().all(|limb| *limb == 0) {
                        true => KeyMatch::Any,
                        false => KeyMatch::Ternary { value, mask: values::to_bytes(&mask, key.bits) },
                    }
                }
                MatchKind::Range => match entry_match.ranges.iter().find(|range| range.element == element) {
                    Some(range) => KeyMatch::Range {
                        low: values::to_bytes(&range.low, key.bits),
                        high: values::to_bytes(&range.high, key.bits),
                    },
                    None => KeyMatch::Any,
                },
            }
        };
        elements.map(to_key_match).collect()
    }
}

/// Converts a rank to a priority, the inverse of `rank_of`.
fn priority_of(rank: i64) -> i32 {
    i32::try_from(i64::from(i32::MAX) - rank).unwrap_or(i32::MIN)
}
