//! The tables and action profiles of one switch: what is in them, and what a packet gets out of them.

use super::entry::CounterValue;
use super::hash::{self, Payload};
use super::lookup::{Lookup, Match};
use super::meter::Meter;
use crate::program::{ActionId, CHOICE, Direct, NEXT, Pc, Profile, Program, Recent, Table, choices};
use std::ops::{Deref, DerefMut};

/// The code that runs on a match.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hot {
    /// The action's code; 0: no action.
    pub code: Pc,
    /// Address at which the control flow continues.
    pub next: Pc,
    pub action: ActionId,
}

impl Hot {
    /// Returns the first word of a row: the number of the action as machine code knows it, code, next and action.
    pub fn pack(self, program: &Program, table: &Table) -> u64 {
        let choice = match self.code {
            0 => 0,
            _ => choices(program, table).iter().position(|it| *it == self.action).map_or(0, |it| it + 1),
        };
        (choice as u64) << CHOICE
            | u64::from(self.code) << 32
            | u64::from(self.next) << NEXT
            | u64::from(self.action.0)
    }

    #[inline]
    fn unpack(word: u64) -> Hot {
        Hot { code: (word >> 32) as Pc, next: (word >> NEXT) as Pc, action: ActionId(word as u16) }
    }
}

/// The member or group of an action profile to which an entry refers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    #[default]
    None,
    Member(u32),
    Group(u32),
}

/// The part of an entry that packets do not need.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    pub found: Match,
    pub is_const: bool,
    pub idle_timeout: u64,
    /// Time at which the idle timeout was last restarted other than by a hit, in ticks.
    pub timer: u64,
}

/// The tables of one switch, and what machine code reads of them: that is current, because tables are changed only through
/// this.
pub(super) struct Tables {
    tables: Vec<TableState>,
    direct: Vec<Direct>,
    /// For each table.
    known: Vec<Known>,
    is_current: bool,
}

/// Keys and entries that were found since a table was changed, for those whose keys are [remembered](Table::remembers_keys).
struct Known {
    form: Recent,
    recent: Box<[u64]>,
    /// The first entries that were found with their rows.
    alike: Vec<u32>,
}

impl Known {
    fn new(table: &Table) -> Known {
        let words = if table.remembers_keys() { Recent::WORDS } else { 0 };
        let mut known = Known { form: table.recent(), recent: vec![0; words].into(), alike: Vec::new() };
        known.forget();
        known
    }

    fn forget(&mut self) {
        self.alike.clear();
        if !self.recent.is_empty() {
            self.form.clear(&mut self.recent);
        }
    }
}

impl Tables {
    pub fn new(program: &Program) -> Tables {
        Tables {
            tables: program.tables.iter().map(|table| TableState::new(program, table)).collect(),
            direct: Vec::new(),
            known: program.tables.iter().map(Known::new).collect(),
            is_current: false,
        }
    }

    /// Returns what machine code reads. The addresses hold until a table is changed.
    #[inline]
    pub fn direct(&mut self) -> &[Direct] {
        if !self.is_current {
            self.read();
        }
        &self.direct
    }

    #[cold]
    fn read(&mut self) {
        self.known.iter_mut().for_each(Known::forget);
        let direct = |(table, known): (&TableState, &Known)| {
            let entries = table.lookup.small();
            Direct {
                entries: entries.as_ptr() as usize,
                len: entries.len() as u64,
                rows: table.rows.as_ptr() as usize,
                recent: known.recent.as_ptr() as usize,
            }
        };
        self.direct.clear();
        self.direct.extend(self.tables.iter().zip(&self.known).map(direct));
        self.is_current = true;
    }

    /// Remembers the entry for a key, until a table is changed: or another with the same row, for which the entry is only to
    /// be one or none. A thousand routes lead to few ports, and the rows of few entries are in the cache.
    pub fn remember(&mut self, (index, table): (usize, &Table), key: u64, entry: u32) {
        /// As many as a switch has ports, and groups of them.
        const MOST: usize = 64;
        let Known { form, recent, alike } = &mut self.known[index];
        let row = |entry| self.tables[index].words(table, entry);
        // They have few words: `==` would be a call.
        let is_row = |other| row(other).iter().zip(row(entry)).all(|(a, b)| a == b);
        let is_like = |&&other: &&u32| (other == 0) == (entry == 0) && is_row(other);
        let other = alike.iter().find(is_like).copied();
        if other.is_none() && alike.len() < MOST {
            alike.push(entry);
        }
        form.put(recent, key, other.unwrap_or(entry));
    }

    /// Returns the part of a table that packets may change, which has no part in finding entries and their rows.
    #[inline]
    pub fn rest_mut(&mut self, index: usize) -> &mut Rest {
        &mut self.tables[index].rest
    }
}

impl Deref for Tables {
    type Target = [TableState];
    fn deref(&self) -> &[TableState] {
        &self.tables
    }
}

impl DerefMut for Tables {
    fn deref_mut(&mut self) -> &mut [TableState] {
        self.is_current = false;
        &mut self.tables
    }
}

/// A table. Entry 0 stands for a miss.
#[derive(Clone, Debug)]
pub(super) struct TableState {
    pub lookup: Lookup,
    /// By entry, a row of words: [`Hot`], packed, and the action's arguments.
    rows: Vec<u64>,
    /// State that few packets use, or none.
    pub rest: Box<Rest>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Rest {
    pub links: Vec<Link>,
    pub cold: Vec<Option<Cold>>,
    /// Entries that are free again.
    pub free: Vec<u32>,
    pub counters: Vec<CounterValue>,
    pub meters: Vec<Meter>,
    pub last_hit: Vec<u64>,
}

impl TableState {
    pub fn new(program: &Program, table: &Table) -> TableState {
        let mut state = TableState { lookup: Lookup::new(table), rows: Vec::new(), rest: Box::default() };
        state.push(table);
        state.reset_default(program, table);
        for entry in &table.entries {
            let found = state.const_match(table, entry);
            // Of two entries with the same match the first holds, as it would win anyway.
            if state.find_same(table, &found) != 0 {
                continue;
            }
            let number = state.push(table);
            state.rest.cold[number as usize] =
                Some(Cold { found: found.clone(), is_const: true, idle_timeout: 0, timer: 0 });
            state.set_action(program, table, number, entry.action, &entry.args);
            state.lookup.insert(table, number, &found);
        }
        state
    }

    /// Returns the action of an entry and its arguments; the action may not need all of them.
    #[inline]
    pub fn row(&self, table: &Table, entry: u32) -> (Hot, &[u64]) {
        match self.words(table, entry) {
            [hot, args @ ..] => (Hot::unpack(*hot), args),
            [] => (Hot::default(), &[]),
        }
    }

    /// Returns the row of an entry.
    #[inline]
    pub fn words(&self, table: &Table, entry: u32) -> &[u64] {
        let width = table.params + 1;
        &self.rows[entry as usize * width..][..width]
    }

    fn set_row(&mut self, program: &Program, table: &Table, entry: u32, hot: Hot, args: &[u64]) {
        let row = &mut self.rows[entry as usize * (table.params + 1)..];
        row[0] = hot.pack(program, table);
        row[1..][..args.len()].copy_from_slice(args);
    }

    /// Returns the number of entries.
    pub fn used(&self) -> usize {
        self.rest.cold.len() - 1 - self.rest.free.len()
    }

    /// Returns the entry with exactly this match, or 0.
    pub fn find_same(&self, table: &Table, wanted: &Match) -> u32 {
        self.lookup.find_same(table, wanted, |entry| self.found(entry))
    }

    fn const_match(&self, table: &Table, entry: &crate::program::ConstEntry) -> Match {
        let plan = &table.plan;
        let (mut value, mut mask, mut ranges) = (vec![0; plan.words], vec![0; plan.words], Vec::new());
        for (element, (first, second)) in entry.key.iter().enumerate() {
            if entry.ranges[element] {
                ranges.push((element, first.clone(), second.clone()));
            } else {
                plan.place(element, first, &mut value);
                plan.place(element, second, &mut mask);
            }
        }
        let rank = if matches!(self.lookup, Lookup::Scan(_)) { entry.rank } else { 0 };
        Match { value, mask, ranges, prefix: entry.prefix, rank }
    }

    /// Makes room for one more entry and returns its number.
    pub fn push(&mut self, table: &Table) -> u32 {
        let rest = &mut *self.rest;
        if let Some(free) = rest.free.pop() {
            return free;
        }
        self.rows.resize(self.rows.len() + table.params + 1, 0);
        rest.links.push(Link::None);
        rest.cold.push(None);
        if table.info.direct_counters {
            rest.counters.push(CounterValue::default());
        }
        if table.meter.is_some() {
            rest.meters.push(Meter::default());
        }
        if table.info.idle_timeout {
            rest.last_hit.push(0);
        }
        rest.cold.len() as u32 - 1
    }

    pub fn found(&self, entry: u32) -> Option<Match> {
        self.rest.cold.get(entry as usize)?.as_ref().map(|cold| cold.found.clone())
    }

    /// Lets an entry run an action (entry 0: on a miss).
    pub fn set_action(
        &mut self,
        program: &Program,
        table: &Table,
        entry: u32,
        action: ActionId,
        args: &[u64],
    ) {
        let code = program.action_code.get(usize::from(action.0)).copied().unwrap_or_default();
        let next = table.next_of(action, entry != 0);
        self.set_row(program, table, entry, Hot { code, next, action }, args);
    }

    /// Lets an entry refer to an action profile (entry 0: on a miss).
    pub fn set_link(&mut self, program: &Program, table: &Table, entry: u32, link: Link) {
        self.set_row(program, table, entry, Hot { next: table.jumps.base, ..Hot::default() }, &[]);
        self.rest.links[entry as usize] = link;
    }

    pub fn reset_default(&mut self, program: &Program, table: &Table) {
        self.rest.links[0] = Link::None;
        match &table.default {
            Some((action, args)) => self.set_action(program, table, 0, *action, args),
            None => {
                let next = table.jumps.miss.unwrap_or(table.jumps.base);
                self.set_row(program, table, 0, Hot { next, ..Hot::default() }, &[]);
            }
        }
    }
}

/// An action profile, or a selector.
#[derive(Clone, Debug, Default)]
pub(super) struct ProfileState {
    /// By handle.
    pub members: Vec<Option<Member>>,
    /// By handle: members, in ascending order as BMv2 numbers them.
    pub groups: Vec<Option<Vec<u32>>>,
    calls: u64,
}

/// A member of an action profile.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub action: ActionId,
    pub args: Vec<u64>,
}

impl ProfileState {
    /// Returns the member that a link leads to for this packet.
    pub fn choose(
        &mut self,
        profile: &Profile,
        link: Link,
        slots: &[u64],
        payload: Payload,
        buffer: &mut Vec<u8>,
    ) -> Option<&Member> {
        let member = match link {
            Link::None => return None,
            Link::Member(member) => member,
            Link::Group(group) => {
                let members = self.groups.get(group as usize)?.as_ref()?;
                let selector = profile.selector.as_ref()?;
                let hash = hash::compute(selector, slots, payload, buffer, &mut self.calls);
                *members.get(hash.checked_rem(members.len() as u64)? as usize)?
            }
        };
        self.members.get(member as usize)?.as_ref()
    }
}
