//! The tables and action profiles of one switch: what is in them, and what a packet gets out of them.

use super::entry::CounterValue;
use super::hash::{self, Payload};
use super::lookup::{KeyPlan, Lookup, Match};
use super::meter::Meter;
use crate::program::{ActionId, Pc, Profile, Program, Table};

/// What runs when an entry matches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hot {
    /// The action's code; 0: no action.
    pub code: Pc,
    /// Where to go behind it.
    pub next: Pc,
    pub action: ActionId,
}

/// What an entry of a table with an action profile refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    #[default]
    None,
    Member(u32),
    Group(u32),
}

/// What is known of an entry beside what a packet needs.
#[derive(Clone, Debug)]
pub(super) struct Cold {
    pub found: Match,
    pub is_const: bool,
    pub idle_timeout: u64,
}

/// A table. Entry 0 stands for a miss.
#[derive(Clone, Debug)]
pub(super) struct TableState {
    pub plan: KeyPlan,
    pub lookup: Lookup,
    pub hot: Vec<Hot>,
    /// Arguments of entry n: from n * stride on.
    pub args: Vec<u64>,
    pub stride: usize,
    pub links: Vec<Link>,
    pub cold: Vec<Option<Cold>>,
    /// Entries that are free again.
    pub free: Vec<u32>,
    pub counters: Vec<CounterValue>,
    pub meters: Vec<Meter>,
    pub last_hit: Vec<u64>,
    /// Anything beside looking up and running an action.
    pub extras: bool,
}

impl TableState {
    pub fn new(program: &Program, table: &Table) -> TableState {
        let plan = KeyPlan::new(table);
        let words = |action: &ActionId| param_words(program, *action);
        let stride = table.info.actions.iter().map(words).max().unwrap_or(0);
        let stride = stride.max(table.default.as_ref().map_or(0, |(_, args)| args.len()));
        let mut state = TableState {
            lookup: Lookup::new(table, &plan),
            plan,
            hot: Vec::new(),
            args: Vec::new(),
            stride,
            links: Vec::new(),
            cold: Vec::new(),
            free: Vec::new(),
            counters: Vec::new(),
            meters: Vec::new(),
            last_hit: Vec::new(),
            extras: table.info.direct_counters
                || table.meter.is_some()
                || table.profile.is_some()
                || table.info.idle_timeout,
        };
        state.push(table);
        state.reset_default(program, table);
        for entry in &table.entries {
            let found = state.const_match(entry);
            // Of two entries with the same match the first holds, as it would win anyway.
            if state.lookup.find_same(&found, |entry| state.found(entry)) != 0 {
                continue;
            }
            let number = state.push(table);
            state.cold[number as usize] =
                Some(Cold { found: found.clone(), is_const: true, idle_timeout: 0 });
            state.set_action(program, table, number, entry.action, &entry.args);
            state.lookup.insert(number, &found);
        }
        state
    }

    fn const_match(&self, entry: &crate::program::ConstEntry) -> Match {
        let (mut value, mut mask, mut ranges) =
            (vec![0; self.plan.words], vec![0; self.plan.words], Vec::new());
        for (element, (first, second)) in entry.key.iter().enumerate() {
            if entry.ranges[element] {
                ranges.push((element, first.clone(), second.clone()));
            } else {
                self.plan.place(element, first, &mut value);
                self.plan.place(element, second, &mut mask);
            }
        }
        let rank = if matches!(self.lookup, Lookup::Scan(_)) { entry.rank } else { 0 };
        Match { value, mask, ranges, prefix: entry.prefix, rank }
    }

    /// Makes room for one more entry and returns its number.
    pub fn push(&mut self, table: &Table) -> u32 {
        if let Some(free) = self.free.pop() {
            return free;
        }
        self.hot.push(Hot::default());
        self.args.resize(self.hot.len() * self.stride, 0);
        self.links.push(Link::None);
        self.cold.push(None);
        if table.info.direct_counters {
            self.counters.push(CounterValue::default());
        }
        if table.meter.is_some() {
            self.meters.push(Meter::default());
        }
        if table.info.idle_timeout {
            self.last_hit.push(0);
        }
        self.hot.len() as u32 - 1
    }

    pub fn found(&self, entry: u32) -> Option<Match> {
        self.cold.get(entry as usize)?.as_ref().map(|cold| cold.found.clone())
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
        let next = next_of(table, action, entry != 0);
        self.hot[entry as usize] = Hot { code, next, action };
        self.args[entry as usize * self.stride..][..args.len()].copy_from_slice(args);
    }

    /// Lets an entry refer to an action profile (entry 0: on a miss).
    pub fn set_link(&mut self, table: &Table, entry: u32, link: Link) {
        self.hot[entry as usize] = Hot { code: 0, next: table.base, action: ActionId::default() };
        self.links[entry as usize] = link;
    }

    pub fn reset_default(&mut self, program: &Program, table: &Table) {
        self.links[0] = Link::None;
        match &table.default {
            Some((action, args)) => self.set_action(program, table, 0, *action, args),
            None => {
                self.hot[0] =
                    Hot { code: 0, next: table.miss.unwrap_or(table.base), action: ActionId::default() }
            }
        }
    }
}

/// How many words the arguments of an action take.
pub(super) fn param_words(program: &Program, action: ActionId) -> usize {
    let params = program.actions.get(usize::from(action.0)).map_or(&[][..], |action| &action.params);
    params.iter().map(|(_, bits)| crate::program::limbs(*bits)).sum()
}

/// Where to go after an action.
pub(super) fn next_of(table: &Table, action: ActionId, hit: bool) -> Pc {
    let fixed = if hit { table.hit } else { table.miss };
    let by_action = || table.actions.iter().find(|known| known.id == action).map(|known| known.next);
    fixed.or_else(by_action).unwrap_or(table.base)
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
    /// The member that a link leads to for this packet.
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
