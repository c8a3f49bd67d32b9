//! The tables and action profiles of one switch: their entries, and the actions that a lookup yields.

use super::api_types::CounterValue;
use super::hash::{self, CalculationState, Payload};
use super::lookup::{Lookup, Match, RangeMatch};
use super::meter::Meter;
use crate::program::{
    ActionId, ActionProfile, IdVec, KeyCacheFormat, NativeTable, Pc, Program, ROW_ACTION_SHIFT,
    ROW_NEXT_SHIFT, Table, TableId, row_actions,
};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// The entry that a table uses on a miss. Its action is the default action.
pub(super) const DEFAULT_ENTRY: u32 = 0;

/// The action of an entry: its code, and the point at which control flow continues.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ActionRef {
    /// Address of the action's code; 0: no action.
    pub code: Pc,
    /// Address at which control flow continues after the action.
    pub next: Pc,
    pub action: ActionId,
}

impl ActionRef {
    /// Returns the first word of a row: the index of the action in `row_actions` plus 1 (0: none), which machine
    /// code dispatches on; then code, next and action.
    pub(super) fn pack(self, program: &Program, table: &Table) -> u64 {
        let row_action = match self.code {
            0 => 0,
            _ => {
                let index = row_actions(program, table).iter().position(|action| *action == self.action);
                index.map_or(0, |index| index + 1)
            }
        };
        (row_action as u64) << ROW_ACTION_SHIFT
            | u64::from(self.code) << 32
            | u64::from(self.next) << ROW_NEXT_SHIFT
            | u64::from(self.action.0)
    }

    #[inline]
    fn unpack(word: u64) -> ActionRef {
        ActionRef {
            code: (word >> 32) as Pc,
            next: (word >> ROW_NEXT_SHIFT) as Pc,
            action: ActionId(word as u16),
        }
    }
}

/// The reference of an entry to a member or group of an action profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ProfileRef {
    #[default]
    None,
    Member(u32),
    Group(u32),
}

/// The fields of an entry that only the runtime API and timeouts read.
#[derive(Clone, Debug)]
pub(super) struct EntryInfo {
    pub entry_match: Match,
    pub is_const: bool,
    /// Ticks without a match after which the entry times out; 0: never.
    pub idle_timeout: u64,
    /// Time in ticks at which the idle timeout was last restarted other than by a hit.
    pub timer: u64,
}

/// The tables of one switch, with pointers into them for machine code. Every change goes through [`DerefMut`],
/// which marks the pointers as stale.
pub(super) struct Tables {
    tables: IdVec<TableId, TableState>,
    /// The pointers; valid only if `is_current`.
    native_tables: Vec<NativeTable>,
    /// One per table.
    key_caches: IdVec<TableId, KeyCache>,
    is_current: bool,
}

/// A cache of lookups since the last change of a table, if the table [has one](Table::has_key_cache).
struct KeyCache {
    format: KeyCacheFormat,
    words: Box<[u64]>,
    /// One entry for each distinct row among the cached ones.
    representatives: Vec<u32>,
}

impl KeyCache {
    fn new(table: &Table) -> KeyCache {
        let words = if table.has_key_cache() { KeyCacheFormat::WORDS } else { 0 };
        let mut cache = KeyCache {
            format: table.key_cache_format(),
            words: vec![0; words].into(),
            representatives: Vec::new(),
        };
        cache.clear();
        cache
    }

    fn clear(&mut self) {
        self.representatives.clear();
        if !self.words.is_empty() {
            self.format.clear(&mut self.words);
        }
    }
}

impl Tables {
    pub(super) fn new(program: &Program) -> Tables {
        Tables {
            tables: program.tables.iter().map(|table| TableState::new(program, table)).collect(),
            native_tables: Vec::new(),
            key_caches: program.tables.iter().map(KeyCache::new).collect(),
            is_current: false,
        }
    }

    /// Returns the pointers for machine code, collected again after a change of any table. They are valid
    /// until the next change.
    #[inline]
    pub(super) fn native_tables(&mut self) -> &[NativeTable] {
        if !self.is_current {
            self.refresh();
        }
        &self.native_tables
    }

    #[cold]
    fn refresh(&mut self) {
        self.key_caches.iter_mut().for_each(KeyCache::clear);
        let native_table = |(table, cache): (&TableState, &KeyCache)| {
            let entries = table.lookup.direct_entries();
            NativeTable {
                entries: entries.as_ptr() as usize,
                len: entries.len() as u64,
                rows: table.rows.as_ptr() as usize,
                key_cache: cache.words.as_ptr() as usize,
            }
        };
        self.native_tables.clear();
        self.native_tables.extend(self.tables.iter().zip(self.key_caches.iter()).map(native_table));
        self.is_current = true;
    }

    /// Caches the entry for a key until the table changes. If an earlier entry has the same row, that one is
    /// cached instead, so that the rows in use fit the processor's cache: a thousand routes lead to few
    /// ports. Callers may rely on the row, and on whether the entry is 0, but not on which entry it is.
    /// Tables with counters, meters, timeouts or profiles have no key cache, and traced packets are
    /// interpreted, so nothing can observe the difference.
    pub(super) fn cache_lookup(&mut self, (id, table): (TableId, &Table), key: u64, entry: u32) {
        /// Bounds the search for an equal row. When the list is full, further rows are cached without
        /// sharing.
        const MAX_REPRESENTATIVES: usize = 64;
        let KeyCache { format, words, representatives } = &mut self.key_caches[id];
        let row = |entry| self.tables[id].row_words(table, entry);
        // Rows have few words; `==` on slices would call `memcmp`.
        let has_same_row = |other| row(other).iter().zip(row(entry)).all(|(a, b)| a == b);
        let is_same = |&&other: &&u32| (other == 0) == (entry == 0) && has_same_row(other);
        let representative = representatives.iter().find(is_same).copied();
        if representative.is_none() && representatives.len() < MAX_REPRESENTATIVES {
            representatives.push(entry);
        }
        format.insert(words, key, representative.unwrap_or(entry));
    }

    /// Returns the counters, meters and other state of a table that packets change. Lookups and rows do not
    /// depend on it, so the pointers for machine code stay valid.
    #[inline]
    pub(super) fn extras_mut(&mut self, id: TableId) -> &mut TableExtras {
        &mut self.tables[id].extras
    }
}

impl Deref for Tables {
    type Target = IdVec<TableId, TableState>;
    #[inline]
    fn deref(&self) -> &IdVec<TableId, TableState> {
        &self.tables
    }
}

impl DerefMut for Tables {
    fn deref_mut(&mut self) -> &mut IdVec<TableId, TableState> {
        // Machine code holds addresses of rows and entries, which any change may move.
        self.is_current = false;
        &mut self.tables
    }
}

/// The state of one table. Its entries are numbered from 1; entry 0 is [`DEFAULT_ENTRY`].
#[derive(Clone, Debug)]
pub(super) struct TableState {
    pub lookup: Lookup,
    /// One row of words per entry: the packed [`ActionRef`], then the arguments of the action.
    rows: Vec<u64>,
    /// State that tables without counters, meters, timeouts and profiles do not use on the packet path.
    pub extras: Box<TableExtras>,
}

/// The state that the lookup of a simple table does not need, indexed by entry.
#[derive(Clone, Debug, Default)]
pub(super) struct TableExtras {
    pub profile_refs: Vec<ProfileRef>,
    /// `None` for the default entry and for free entries.
    pub entries: Vec<Option<EntryInfo>>,
    /// Entries that can be allocated again.
    pub free: Vec<u32>,
    /// The direct counters and meters; empty if the table has none.
    pub counters: Vec<CounterValue>,
    pub meters: Vec<Meter>,
    /// Time in ticks of the last match; empty if the table has no idle timeouts.
    pub last_hit: Vec<u64>,
}

impl TableState {
    pub(super) fn new(program: &Program, table: &Table) -> TableState {
        let mut state = TableState { lookup: Lookup::new(table), rows: Vec::new(), extras: Box::default() };
        // The first allocation is `DEFAULT_ENTRY`.
        state.alloc_entry(table);
        state.reset_default(program, table);
        for entry in &table.entries {
            let entry_match = state.const_match(table, entry);
            // Of two const entries with the same match, the first one wins.
            if state.find_exact(table, &entry_match) != 0 {
                continue;
            }
            let index = state.alloc_entry(table);
            state.extras.entries[index as usize] = Some(EntryInfo {
                entry_match: entry_match.clone(),
                is_const: true,
                idle_timeout: 0,
                timer: 0,
            });
            state.set_action(program, table, index, entry.action, &entry.args);
            state.lookup.insert(table, index, &entry_match);
        }
        state
    }

    /// Returns the action of an entry and its arguments, padded to the table's longest argument list.
    #[inline]
    pub(super) fn row(&self, table: &Table, entry: u32) -> (ActionRef, &[u64]) {
        match self.row_words(table, entry) {
            [action_ref, args @ ..] => (ActionRef::unpack(*action_ref), args),
            [] => (ActionRef::default(), &[]),
        }
    }

    /// Returns the row of an entry: the packed action, then its arguments.
    #[inline]
    pub(super) fn row_words(&self, table: &Table, entry: u32) -> &[u64] {
        let width = table.max_arg_words + 1;
        &self.rows[entry as usize * width..][..width]
    }

    fn set_row(&mut self, program: &Program, table: &Table, entry: u32, action_ref: ActionRef, args: &[u64]) {
        let row = &mut self.rows[entry as usize * (table.max_arg_words + 1)..];
        row[0] = action_ref.pack(program, table);
        row[1..][..args.len()].copy_from_slice(args);
    }

    /// Returns the number of entries, the default entry excluded.
    pub(super) fn used(&self) -> usize {
        self.extras.entries.len() - 1 - self.extras.free.len()
    }

    /// Returns the entry with exactly this match; 0 if there is no such entry.
    pub(super) fn find_exact(&self, table: &Table, target: &Match) -> u32 {
        self.lookup.find_exact(table, target, |entry| self.entry_match(entry))
    }

    fn const_match(&self, table: &Table, entry: &crate::program::ConstEntry) -> Match {
        let layout = &table.key_layout;
        let (mut value, mut mask, mut ranges) = (vec![0; layout.words], vec![0; layout.words], Vec::new());
        // An element is a pair: the lowest and highest value of a range, or a value and its mask.
        for (element, (first, second)) in entry.key.iter().enumerate() {
            if entry.ranges[element] {
                ranges.push(RangeMatch { element, low: first.clone(), high: second.clone() });
            } else {
                layout.insert_element(element, first, &mut value);
                layout.insert_element(element, second, &mut mask);
            }
        }
        let rank = if matches!(self.lookup, Lookup::Ternary(_)) { entry.rank } else { 0 };
        Match { value, mask, ranges, prefix: entry.prefix, rank }
    }

    /// Allocates an entry, if possible one that was freed, and returns its index.
    pub(super) fn alloc_entry(&mut self, table: &Table) -> u32 {
        let extras = &mut *self.extras;
        if let Some(free) = extras.free.pop() {
            return free;
        }
        self.rows.resize(self.rows.len() + table.max_arg_words + 1, 0);
        extras.profile_refs.push(ProfileRef::None);
        extras.entries.push(None);
        if table.info.direct_counters {
            extras.counters.push(CounterValue::default());
        }
        if table.meter.is_some() {
            extras.meters.push(Meter::default());
        }
        if table.info.idle_timeout {
            extras.last_hit.push(0);
        }
        extras.entries.len() as u32 - 1
    }

    fn entry_match(&self, entry: u32) -> Option<Match> {
        self.extras.entries.get(entry as usize)?.as_ref().map(|info| info.entry_match.clone())
    }

    /// Sets the action of an entry.
    pub(super) fn set_action(
        &mut self,
        program: &Program,
        table: &Table,
        entry: u32,
        action: ActionId,
        args: &[u64],
    ) {
        let code = program.action_code.of(action).copied().unwrap_or_default();
        let next = table.successor(action, entry != DEFAULT_ENTRY);
        self.set_row(program, table, entry, ActionRef { code, next, action }, args);
    }

    /// Makes an entry refer to a member or group. The row then holds only a successor: the packet path takes the action
    /// from the member.
    pub(super) fn set_profile_ref(
        &mut self,
        program: &Program,
        table: &Table,
        entry: u32,
        profile_ref: ProfileRef,
    ) {
        self.set_row(
            program,
            table,
            entry,
            ActionRef { next: table.successors.base, ..ActionRef::default() },
            &[],
        );
        self.extras.profile_refs[entry as usize] = profile_ref;
    }

    pub(super) fn reset_default(&mut self, program: &Program, table: &Table) {
        self.extras.profile_refs[DEFAULT_ENTRY as usize] = ProfileRef::None;
        match &table.default {
            Some((action, args)) => self.set_action(program, table, DEFAULT_ENTRY, *action, args),
            None => {
                let next = table.successors.miss.unwrap_or(table.successors.base);
                self.set_row(program, table, DEFAULT_ENTRY, ActionRef { next, ..ActionRef::default() }, &[]);
            }
        }
    }
}

/// The members and groups of an action profile or selector.
#[derive(Clone, Debug, Default)]
pub(super) struct ProfileState {
    /// Indexed by handle.
    pub members: Vec<Option<Member>>,
    /// The members of each group that packets may select, indexed by handle, in ascending order as in BMv2.
    pub groups: Vec<Option<Vec<u32>>>,
    /// The groups with watch ports, by handle. For these, `groups` lacks the members whose port is down.
    pub watched: BTreeMap<u32, WatchedGroup>,
    /// The state of the selector's hash.
    calculation: CalculationState,
}

/// A group whose members are selected only while their watch port is up.
#[derive(Clone, Debug)]
pub(super) struct WatchedGroup {
    /// All members, in ascending order.
    pub members: Vec<u32>,
    /// The watch port of each member that has one.
    pub ports: BTreeMap<u32, u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub action: ActionId,
    pub args: Vec<u64>,
}

impl ProfileState {
    /// Returns all members of a group, also those whose watch port is down; `None` if there is no such group.
    pub(super) fn group_members(&self, group: u32) -> Option<&[u32]> {
        let selectable = self.groups.get(group as usize)?.as_ref()?;
        Some(self.watched.get(&group).map_or(selectable, |watched| &watched.members))
    }

    /// Returns the member for this packet: the member itself, or one of the group, selected by the selector's
    /// hash. `None` if the group is empty.
    pub(super) fn select_member(
        &mut self,
        profile: &ActionProfile,
        profile_ref: ProfileRef,
        slots: &[u64],
        payload: Payload,
        buffer: &mut Vec<u8>,
    ) -> Option<&Member> {
        let member = match profile_ref {
            ProfileRef::None => return None,
            ProfileRef::Member(member) => member,
            ProfileRef::Group(group) => {
                let members = self.groups.get(group as usize)?.as_ref()?;
                let selector = profile.selector.as_ref()?;
                let hash = hash::compute(selector, slots, payload, buffer, &mut self.calculation);
                *members.get(hash.checked_rem(members.len() as u64)? as usize)?
            }
        };
        self.members.get(member as usize)?.as_ref()
    }
}
