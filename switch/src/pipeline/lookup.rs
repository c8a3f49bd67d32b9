//! Finding the entry that matches a key.
//!
//! A key is a row of 64-bit words: elements are packed into words, none reaching over the end of one but those wider
//! than a word. Entries are numbered from 1; 0 is no entry.

use crate::program::{MatchKind, Slot, Table, limbs, low_bits, prefix_mask};

/// How a table's key is read from the slots.
#[derive(Clone, Debug)]
pub(super) struct KeyPlan {
    pub words: usize,
    parts: Vec<Part>,
    /// Where each element is: first word, shift, limbs.
    pub elements: Vec<(usize, u8, usize)>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    slot: Slot,
    word: u16,
    shift: u8,
    mask: u64,
}

impl KeyPlan {
    pub fn new(table: &Table) -> KeyPlan {
        let (mut parts, mut elements) = (Vec::new(), Vec::new());
        let (mut word, mut used) = (0usize, 0u32);
        for key in &table.key {
            let count = limbs(key.bits);
            if used > 0 && (count > 1 || used + key.bits > 64) {
                (word, used) = (word + 1, 0);
            }
            elements.push((word, used as u8, count));
            for (limb, mask) in key.mask.iter().enumerate() {
                let (slot, word) = (key.slot + limb as u16, (word + limb) as u16);
                parts.push(Part { slot, word, shift: used as u8, mask: *mask });
            }
            used += key.bits;
            if count > 1 || used >= 64 {
                (word, used) = (word + count, 0);
            }
        }
        KeyPlan { words: word + usize::from(used > 0), parts, elements }
    }

    /// The key of a table whose key is one word.
    #[inline]
    pub fn word(&self, slots: &[u64]) -> u64 {
        match self.parts.as_slice() {
            [part] => slots[usize::from(part.slot)] & part.mask,
            parts => parts
                .iter()
                .fold(0, |key, part| key | (slots[usize::from(part.slot)] & part.mask) << part.shift),
        }
    }

    /// The key of any table.
    pub fn read(&self, slots: &[u64], key: &mut Vec<u64>) {
        key.clear();
        key.resize(self.words, 0);
        for part in &self.parts {
            key[usize::from(part.word)] |= (slots[usize::from(part.slot)] & part.mask) << part.shift;
        }
    }

    /// Puts the limbs of an element where they belong in a key.
    pub fn place(&self, element: usize, value: &[u64], key: &mut [u64]) {
        let (word, shift, limbs) = self.elements[element];
        for (limb, value) in value.iter().enumerate().take(limbs) {
            key[word + limb] |= value << shift;
        }
    }

    /// The limbs of an element of a key.
    pub fn element(&self, element: usize, bits: u32, key: &[u64]) -> Vec<u64> {
        let (word, shift, limbs) = self.elements[element];
        match limbs {
            1 => vec![key.get(word).map_or(0, |word| word >> shift) & low_bits(bits)],
            limbs => key[word..word + limbs].to_vec(),
        }
    }
}

/// An entry's match, as words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub value: Vec<u64>,
    pub mask: Vec<u64>,
    /// The range elements: which, from, to.
    pub ranges: Vec<(usize, Vec<u64>, Vec<u64>)>,
    pub prefix: u16,
    /// Smaller wins; 0 in tables without priorities.
    pub rank: i64,
}

/// The structure behind a table, by what its key needs.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    /// No key: every packet misses.
    Nothing,
    /// All exact, one word.
    Word(Index),
    /// All exact.
    Words(Index),
    /// One LPM element.
    Prefix(Prefixes),
    /// Priorities decide.
    Scan(Rows),
}

impl Lookup {
    pub fn new(table: &Table, plan: &KeyPlan) -> Lookup {
        let has = |kind| table.key.iter().any(|key| key.kind == kind);
        match plan.words {
            0 => Lookup::Nothing,
            words if has(MatchKind::Ternary) || has(MatchKind::Range) => Lookup::Scan(Rows::new(words)),
            words if has(MatchKind::Lpm) => Lookup::Prefix(Prefixes::new(table, words)),
            1 => Lookup::Word(Index::new(1)),
            words => Lookup::Words(Index::new(words)),
        }
    }

    /// The entry that matches, or 0.
    #[inline]
    pub fn find(&self, table: &Table, plan: &KeyPlan, slots: &[u64], key: &mut Vec<u64>) -> u32 {
        match self {
            Lookup::Nothing => 0,
            Lookup::Word(index) => index.get_word(plan.word(slots)),
            Lookup::Words(index) => {
                plan.read(slots, key);
                index.get(key)
            }
            Lookup::Prefix(prefixes) => prefixes.find(plan, slots, key),
            Lookup::Scan(rows) => {
                plan.read(slots, key);
                rows.find(table, plan, key)
            }
        }
    }

    /// The entry with exactly this match, or 0.
    pub fn find_same(&self, wanted: &Match, entries: impl Fn(u32) -> Option<Match>) -> u32 {
        match self {
            Lookup::Nothing => 0,
            Lookup::Word(index) | Lookup::Words(index) => index.get(&wanted.value),
            Lookup::Prefix(prefixes) => prefixes.index.get(&prefixes.key_of(&wanted.value, wanted.prefix)),
            Lookup::Scan(rows) => {
                let mut same = rows.rows.iter().filter(|row| row.rank == wanted.rank);
                same.find(|row| entries(row.entry).as_ref() == Some(wanted)).map_or(0, |row| row.entry)
            }
        }
    }

    pub fn insert(&mut self, entry: u32, found: &Match) {
        match self {
            Lookup::Nothing => {}
            Lookup::Word(index) | Lookup::Words(index) => index.insert(&found.value, entry),
            Lookup::Prefix(prefixes) => prefixes.insert(found, entry),
            Lookup::Scan(rows) => rows.insert(found, entry),
        }
    }

    pub fn remove(&mut self, entry: u32, found: &Match) {
        match self {
            Lookup::Nothing => {}
            Lookup::Word(index) | Lookup::Words(index) => index.remove(&found.value),
            Lookup::Prefix(prefixes) => prefixes.remove(found),
            Lookup::Scan(rows) => rows.remove(entry),
        }
    }
}

/// A hash table with open addressing and linear probing: key words and entry side by side.
#[derive(Clone, Debug)]
pub(super) struct Index {
    words: usize,
    entries: Vec<u32>,
    keys: Vec<u64>,
    used: usize,
}

const SMALLEST: usize = 8;
/// 2^64 divided by the golden ratio: spreads keys that differ in a few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(SPREAD);
    product as u64 ^ (product >> 64) as u64
}

impl Index {
    fn new(words: usize) -> Index {
        Index { words, entries: vec![0; SMALLEST], keys: vec![0; SMALLEST * words], used: 0 }
    }

    #[inline]
    fn get_word(&self, key: u64) -> u32 {
        let mask = self.entries.len() - 1;
        let mut at = mix(SPREAD, key) as usize & mask;
        loop {
            let entry = self.entries[at];
            if entry == 0 || self.keys[at] == key {
                return entry;
            }
            at = (at + 1) & mask;
        }
    }

    fn position(&self, key: &[u64]) -> usize {
        let mask = self.entries.len() - 1;
        let mut at = self.home(key);
        while self.entries[at] != 0 && self.keys[at * self.words..][..self.words] != *key {
            at = (at + 1) & mask;
        }
        at
    }

    fn home(&self, key: &[u64]) -> usize {
        key.iter().fold(SPREAD, |hash, word| mix(hash, *word)) as usize & (self.entries.len() - 1)
    }

    fn get(&self, key: &[u64]) -> u32 {
        self.entries[self.position(key)]
    }

    fn insert(&mut self, key: &[u64], entry: u32) {
        if (self.used + 1) * 2 > self.entries.len() {
            let mut larger = Index::new(self.words);
            larger.entries.resize(self.entries.len() * 2, 0);
            larger.keys.resize(self.entries.len() * 2 * self.words, 0);
            for (at, entry) in self.entries.iter().enumerate().filter(|(_, entry)| **entry != 0) {
                larger.put(&self.keys[at * self.words..][..self.words], *entry);
            }
            *self = larger;
        }
        self.put(key, entry);
    }

    fn put(&mut self, key: &[u64], entry: u32) {
        let at = self.position(key);
        self.used += usize::from(self.entries[at] == 0);
        self.entries[at] = entry;
        self.keys[at * self.words..][..self.words].copy_from_slice(key);
    }

    fn remove(&mut self, key: &[u64]) {
        let mask = self.entries.len() - 1;
        let mut hole = self.position(key);
        if self.entries[hole] == 0 {
            return;
        }
        self.used -= 1;
        // What was pushed behind the hole moves up, so that no probe ends too early.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.entries[at] == 0 {
                break;
            }
            let home = self.home(&self.keys[at * self.words..][..self.words]);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.entries[hole] = self.entries[at];
                self.keys.copy_within(at * self.words..(at + 1) * self.words, hole * self.words);
                hole = at;
            }
        }
        self.entries[hole] = 0;
    }
}

/// Longest prefix match: one hash table, asked once for every length of prefix in use, longest first.
#[derive(Clone, Debug)]
pub(super) struct Prefixes {
    index: Index,
    words: usize,
    /// Prefix length, how many entries have it, and the mask of the whole key.
    lengths: Vec<(u16, usize, Vec<u64>)>,
    /// The masks of all lengths.
    masks: Vec<Vec<u64>>,
    /// A short key and its prefix length share a word, the length being below.
    packed: bool,
}

/// Bits that a prefix length takes when packed with the key.
const LENGTH_BITS: u32 = 7;

impl Prefixes {
    fn new(table: &Table, words: usize) -> Prefixes {
        let plan = KeyPlan::new(table);
        let bits: u32 = table.key.iter().map(|key| key.bits).sum();
        let prefix_bits = table.key.iter().find(|key| key.kind == MatchKind::Lpm).map_or(0, |key| key.bits);
        let mask = |length: u32| {
            let mut mask = vec![0; words];
            for (element, key) in table.key.iter().enumerate() {
                let length = if key.kind == MatchKind::Lpm { length } else { key.bits };
                plan.place(element, &prefix_mask(key.bits, length), &mut mask);
            }
            mask
        };
        let packed = words == 1 && bits + LENGTH_BITS <= 64;
        let index = Index::new(if packed { 1 } else { words + 1 });
        Prefixes { index, words, lengths: Vec::new(), masks: (0..=prefix_bits).map(mask).collect(), packed }
    }

    fn key_of(&self, value: &[u64], length: u16) -> Vec<u64> {
        if self.packed {
            return vec![value[0] << LENGTH_BITS | u64::from(length)];
        }
        let mut key = value.to_vec();
        key.push(u64::from(length));
        key
    }

    #[inline]
    fn find(&self, plan: &KeyPlan, slots: &[u64], key: &mut Vec<u64>) -> u32 {
        if self.packed {
            let word = plan.word(slots);
            for (length, _, mask) in &self.lengths {
                let entry = self.index.get_word((word & mask[0]) << LENGTH_BITS | u64::from(*length));
                if entry != 0 {
                    return entry;
                }
            }
            return 0;
        }
        plan.read(slots, key);
        key.resize(self.words * 2 + 1, 0);
        let (whole, masked) = key.split_at_mut(self.words);
        for (length, _, mask) in &self.lengths {
            for ((masked, word), mask) in masked.iter_mut().zip(&*whole).zip(mask) {
                *masked = word & mask;
            }
            masked[self.words] = u64::from(*length);
            let entry = self.index.get(masked);
            if entry != 0 {
                return entry;
            }
        }
        0
    }

    fn insert(&mut self, found: &Match, entry: u32) {
        self.index.insert(&self.key_of(&found.value, found.prefix), entry);
        match self.lengths.iter_mut().find(|(length, ..)| *length == found.prefix) {
            Some((_, count, _)) => *count += 1,
            None => {
                self.lengths.push((found.prefix, 1, self.masks[usize::from(found.prefix)].clone()));
                self.lengths.sort_by_key(|(length, ..)| std::cmp::Reverse(*length));
            }
        }
    }

    fn remove(&mut self, found: &Match) {
        self.index.remove(&self.key_of(&found.value, found.prefix));
        for (_, count, _) in self.lengths.iter_mut().filter(|(length, ..)| *length == found.prefix) {
            *count -= 1;
        }
        self.lengths.retain(|(_, count, _)| *count > 0);
    }
}

/// Entries tried one after the other, the most important first.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    words: usize,
    rows: Vec<Row>,
    /// Value and mask of each row.
    patterns: Vec<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct Row {
    rank: i64,
    entry: u32,
    ranges: Vec<(usize, Vec<u64>, Vec<u64>)>,
}

impl Rows {
    fn new(words: usize) -> Rows {
        Rows { words, rows: Vec::new(), patterns: Vec::new() }
    }

    fn find(&self, table: &Table, plan: &KeyPlan, key: &[u64]) -> u32 {
        for (row, patterns) in self.rows.iter().zip(self.patterns.chunks_exact(self.words)) {
            let equal = patterns.iter().zip(key).all(|((value, mask), word)| word & mask == *value);
            if equal && row.ranges.iter().all(|range| in_range(table, plan, key, range)) {
                return row.entry;
            }
        }
        0
    }

    fn insert(&mut self, found: &Match, entry: u32) {
        let at = self.rows.partition_point(|row| row.rank <= found.rank);
        self.rows.insert(at, Row { rank: found.rank, entry, ranges: found.ranges.clone() });
        let at = at * self.words;
        self.patterns.splice(at..at, found.value.iter().copied().zip(found.mask.iter().copied()));
    }

    fn remove(&mut self, entry: u32) {
        if let Some(at) = self.rows.iter().position(|row| row.entry == entry) {
            self.rows.remove(at);
            self.patterns.drain(at * self.words..(at + 1) * self.words);
        }
    }
}

fn in_range(
    table: &Table,
    plan: &KeyPlan,
    key: &[u64],
    (element, low, high): &(usize, Vec<u64>, Vec<u64>),
) -> bool {
    let value = plan.element(*element, table.key[*element].bits, key);
    let order = |a: &[u64], b: &[u64]| a.iter().rev().cmp(b.iter().rev());
    order(low, &value).is_le() && order(&value, high).is_le()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The index does what a map does, through growth and removal.
        #[test]
        fn index_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..3), 0..400)) {
            let (mut index, mut map) = (Index::new(2), BTreeMap::new());
            for (number, (insert, a, b)) in steps.into_iter().enumerate() {
                let key = [a << 50, b];
                if insert {
                    index.insert(&key, number as u32 + 1);
                    map.insert(key, number as u32 + 1);
                } else {
                    index.remove(&key);
                    map.remove(&key);
                }
                prop_assert_eq!(index.used, map.len());
            }
            for a in 0..40 {
                for b in 0..3 {
                    let key = [a << 50, b];
                    prop_assert_eq!(index.get(&key), map.get(&key).copied().unwrap_or(0));
                }
            }
        }
    }
}
