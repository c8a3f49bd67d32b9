//! Lookup structures of tables: from a key to the entry that matches.
//!
//! Entries are numbered from 1. 0 means that no entry matches; it is also the number of the table's default entry, so a
//! miss needs no case of its own. A key is built from slots (64-bit words of the header vector) as a list of words; the
//! key layout says which bits of which word hold each key element. Data that is the same in all switches of a program
//! (key layout, masks) belongs to the program, because tens of switches share one processor cache.

use crate::program::{DIRECT_KEY_BITS, KeyLayout, MatchKind, Table};

/// The match of an entry, in the words of the key layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub value: Vec<u64>,
    pub mask: Vec<u64>,
    /// The range elements. Their bits in `value` and `mask` are 0.
    pub ranges: Vec<RangeMatch>,
    /// Length in bits of the prefix in the LPM element; 0 without such an element.
    pub prefix: u16,
    /// The smallest matching rank wins; 0 in tables without priorities.
    pub rank: i64,
}

/// The match of one range element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RangeMatch {
    /// Index of the element in the key.
    pub element: usize,
    /// The lowest value, as limbs.
    pub low: Vec<u64>,
    /// The highest value, as limbs.
    pub high: Vec<u64>,
}

/// The lookup structure of a table, selected by its match kinds.
#[derive(Clone, Debug)]
pub(super) enum Lookup {
    /// Without a key every packet misses.
    Keyless,
    /// All elements are exact, and the key is one word.
    Word(WordIndex),
    /// All elements are exact.
    Words(HashIndex),
    /// One element is LPM, the others are exact.
    Prefix(LpmIndex),
    /// An element is ternary or a range.
    Ternary(PriorityList),
}

impl Lookup {
    pub(super) fn new(table: &Table) -> Lookup {
        let has = |kind| table.key.iter().any(|key| key.kind == kind);
        match table.key_layout.words {
            0 => Lookup::Keyless,
            words if has(MatchKind::Ternary) || has(MatchKind::Range) => {
                Lookup::Ternary(PriorityList::new(words))
            }
            _ if has(MatchKind::Lpm) => Lookup::Prefix(LpmIndex::new(&table.key_layout)),
            1 => Lookup::Word(WordIndex::new()),
            words => Lookup::Words(HashIndex::new(words)),
        }
    }

    /// Returns the entries that are directly indexed by the key; machine code reads them without a call.
    pub(super) fn direct_entries(&self) -> &[u32] {
        match self {
            Lookup::Word(word) => &word.direct,
            _ => &[],
        }
    }

    /// Builds the key from the slots and returns the matching entry, or 0. `key` is scratch space.
    pub(super) fn find(&self, table: &Table, slots: &[u64], key: &mut Vec<u64>) -> u32 {
        table.key_layout.build_key(slots, key);
        self.find_key(table, key)
    }

    /// Same as [`Lookup::find`], for a key of at most one word that is already built.
    #[inline]
    pub(super) fn find_word(&self, table: &Table, word: u64, key: &mut Vec<u64>) -> u32 {
        match self {
            Lookup::Keyless => 0,
            Lookup::Word(words) => words.get(word),
            Lookup::Prefix(prefixes) if LpmIndex::is_packed(&table.key_layout) => {
                prefixes.find_packed(&table.key_layout, word)
            }
            _ => {
                key.clear();
                key.push(word);
                self.find_key(table, key)
            }
        }
    }

    /// Same as [`Lookup::find`], for a key that is already built. The content of `key` is undefined
    /// afterwards.
    pub(super) fn find_key(&self, table: &Table, key: &mut Vec<u64>) -> u32 {
        match self {
            Lookup::Keyless => 0,
            Lookup::Word(words) => words.get(key[0]),
            Lookup::Words(index) => index.get(key),
            Lookup::Prefix(prefixes) if LpmIndex::is_packed(&table.key_layout) => {
                prefixes.find_packed(&table.key_layout, key[0])
            }
            Lookup::Prefix(prefixes) => prefixes.find(&table.key_layout, key),
            Lookup::Ternary(rows) => rows.find(table, key),
        }
    }

    /// Returns the entry with exactly this match and rank, or 0.
    pub(super) fn find_exact(
        &self,
        table: &Table,
        target: &Match,
        entries: impl Fn(u32) -> Option<Match>,
    ) -> u32 {
        match self {
            Lookup::Keyless => 0,
            Lookup::Word(word) => word.get(target.value[0]),
            Lookup::Words(index) => index.get(&target.value),
            Lookup::Prefix(prefixes) => {
                prefixes.index.get(&LpmIndex::prefix_key(&table.key_layout, &target.value, target.prefix))
            }
            Lookup::Ternary(rows) => {
                let mut same = rows.rows.iter().filter(|row| row.rank == target.rank);
                same.find(|row| entries(row.entry).as_ref() == Some(target)).map_or(0, |row| row.entry)
            }
        }
    }

    pub(super) fn insert(&mut self, table: &Table, entry: u32, entry_match: &Match) {
        match self {
            Lookup::Keyless => {}
            Lookup::Word(word) => word.insert(entry_match.value[0], entry),
            Lookup::Words(index) => index.insert(&entry_match.value, entry),
            Lookup::Prefix(prefixes) => prefixes.insert(&table.key_layout, entry_match, entry),
            Lookup::Ternary(rows) => rows.insert(entry_match, entry),
        }
    }

    pub(super) fn remove(&mut self, table: &Table, entry: u32, entry_match: &Match) {
        match self {
            Lookup::Keyless => {}
            Lookup::Word(word) => word.remove(entry_match.value[0]),
            Lookup::Words(index) => index.remove(&entry_match.value),
            Lookup::Prefix(prefixes) => prefixes.remove(&table.key_layout, entry_match),
            Lookup::Ternary(rows) => rows.remove(entry),
        }
    }
}

/// An index of one-word keys: small keys, such as ports, index an array; the others are hashed.
#[derive(Clone, Debug)]
pub(super) struct WordIndex {
    /// The entries of small keys, indexed by key; 0 for none.
    direct: Vec<u32>,
    /// The entries of keys from `DIRECT_KEYS` on.
    index: HashIndex,
}

/// Keys from this value on are hashed.
const DIRECT_KEYS: u64 = 1 << DIRECT_KEY_BITS;

impl WordIndex {
    fn new() -> WordIndex {
        WordIndex { direct: Vec::new(), index: HashIndex::new(1) }
    }

    #[inline]
    fn get(&self, key: u64) -> u32 {
        match self.direct.get(key as usize) {
            Some(entry) => *entry,
            None if self.index.used == 0 => 0,
            None => self.index.get_word(key),
        }
    }

    fn insert(&mut self, key: u64, entry: u32) {
        if key >= DIRECT_KEYS {
            return self.index.insert(&[key], entry);
        }
        let index = key as usize;
        self.direct.resize(self.direct.len().max(index + 1), 0);
        self.direct[index] = entry;
    }

    fn remove(&mut self, key: u64) {
        match self.direct.get_mut(key as usize) {
            Some(entry) => *entry = 0,
            None => self.index.remove(&[key]),
        }
    }
}

/// A hash table with open addressing and linear probing. A bucket is a row of words: the entry (0: free),
/// then its key.
#[derive(Clone, Debug)]
pub(super) struct HashIndex {
    rows: Box<[u64]>,
    /// Words per row.
    width: u32,
    /// Number of buckets, which is a power of two, minus 1.
    mask: u32,
    /// Number of buckets that hold an entry.
    used: u32,
}

/// Number of buckets of an empty table.
const MIN_CAPACITY: u32 = 8;
/// 2^64 divided by the golden ratio (Fibonacci hashing): spreads keys that differ in few bits.
const HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * u128::from(HASH_MULTIPLIER);
    product as u64 ^ (product >> 64) as u64
}

impl HashIndex {
    fn new(words: usize) -> HashIndex {
        HashIndex::with_buckets(words + 1, MIN_CAPACITY)
    }

    fn with_buckets(width: usize, buckets: u32) -> HashIndex {
        let rows = vec![0; width * buckets as usize].into_boxed_slice();
        HashIndex { rows, width: width as u32, mask: buckets - 1, used: 0 }
    }

    #[inline]
    fn get_word(&self, key: u64) -> u32 {
        let mask = self.mask as usize;
        let mut bucket = mix(HASH_MULTIPLIER, key) as usize & mask;
        // The table is at most half full (see `insert`), so every probe sequence meets a free bucket. The
        // slice pattern lets the compiler drop the bounds checks.
        loop {
            let [entry, found] = self.rows[bucket * 2..][..2] else { return 0 };
            if entry == 0 || found == key {
                return entry as u32;
            }
            bucket = (bucket + 1) & mask;
        }
    }

    fn row(&self, bucket: usize) -> &[u64] {
        let width = self.width as usize;
        &self.rows[bucket * width..][..width]
    }

    fn row_mut(&mut self, bucket: usize) -> &mut [u64] {
        let width = self.width as usize;
        &mut self.rows[bucket * width..][..width]
    }

    /// Returns the bucket of the key, or the free one in which to insert it.
    fn probe(&self, key: &[u64]) -> usize {
        let mut bucket = self.home_bucket(key);
        loop {
            let row = self.row(bucket);
            if row[0] == 0 || row[1..] == *key {
                return bucket;
            }
            bucket = (bucket + 1) & self.mask as usize;
        }
    }

    /// Returns the first bucket of the key's probe sequence.
    fn home_bucket(&self, key: &[u64]) -> usize {
        key.iter().fold(HASH_MULTIPLIER, |hash, word| mix(hash, *word)) as usize & self.mask as usize
    }

    fn get(&self, key: &[u64]) -> u32 {
        self.row(self.probe(key))[0] as u32
    }

    fn insert(&mut self, key: &[u64], entry: u32) {
        if (self.used + 1) * 2 > self.mask + 1 {
            let mut larger = HashIndex::with_buckets(self.width as usize, (self.mask + 1) * 2);
            for row in self.rows.chunks_exact(self.width as usize).filter(|row| row[0] != 0) {
                larger.put(&row[1..], row[0] as u32);
            }
            *self = larger;
        }
        self.put(key, entry);
    }

    /// Inserts or replaces an entry. A bucket must be free.
    fn put(&mut self, key: &[u64], entry: u32) {
        let bucket = self.probe(key);
        let row = self.row_mut(bucket);
        let is_new = row[0] == 0;
        row[0] = u64::from(entry);
        row[1..].copy_from_slice(key);
        self.used += u32::from(is_new);
    }

    fn remove(&mut self, key: &[u64]) {
        let (mask, width) = (self.mask as usize, self.width as usize);
        let mut hole = self.probe(key);
        if self.row(hole)[0] == 0 {
            return;
        }
        self.used -= 1;
        // Backward-shift deletion: a row moves into the hole unless its home bucket lies cyclically between
        // the hole and the row, because a probe from its home would then not find it in the hole.
        let mut bucket = hole;
        loop {
            bucket = (bucket + 1) & mask;
            let row = self.row(bucket);
            if row[0] == 0 {
                break;
            }
            let home = self.home_bucket(&row[1..]);
            if bucket.wrapping_sub(home) & mask >= bucket.wrapping_sub(hole) & mask {
                self.rows.copy_within(bucket * width..(bucket + 1) * width, hole * width);
                hole = bucket;
            }
        }
        self.row_mut(hole)[0] = 0;
    }
}

/// Longest-prefix match: one hash table for all lengths, with one lookup per prefix length in use, longest first.
#[derive(Clone, Debug)]
pub(super) struct LpmIndex {
    index: HashIndex,
    /// The prefix lengths in use, longest first, each with its number of entries.
    lengths: Vec<(u16, u32)>,
}

/// Bits of a prefix length that shares a word with its key, which leaves 57 bits for the key.
const LENGTH_BITS: u32 = 7;

impl LpmIndex {
    fn new(layout: &KeyLayout) -> LpmIndex {
        let words = if LpmIndex::is_packed(layout) { 1 } else { layout.words + 1 };
        LpmIndex { index: HashIndex::new(words), lengths: Vec::new() }
    }

    /// Returns whether a key and its prefix length fit one word, with the length in the low bits.
    #[inline]
    fn is_packed(layout: &KeyLayout) -> bool {
        layout.bits + LENGTH_BITS <= u64::BITS
    }

    fn prefix_key(layout: &KeyLayout, value: &[u64], length: u16) -> Vec<u64> {
        if LpmIndex::is_packed(layout) {
            return vec![value[0] << LENGTH_BITS | u64::from(length)];
        }
        let mut key = value.to_vec();
        key.push(u64::from(length));
        key
    }

    #[inline]
    fn find_packed(&self, layout: &KeyLayout, word: u64) -> u32 {
        for (length, _) in &self.lengths {
            let mask = layout.prefix_masks[usize::from(*length)][0];
            let entry = self.index.get_word((word & mask) << LENGTH_BITS | u64::from(*length));
            if entry != 0 {
                return entry;
            }
        }
        0
    }

    fn find(&self, layout: &KeyLayout, key: &mut Vec<u64>) -> u32 {
        key.resize(layout.words * 2 + 1, 0);
        let (key, masked) = key.split_at_mut(layout.words);
        for (length, _) in &self.lengths {
            let mask = &layout.prefix_masks[usize::from(*length)];
            for ((masked, word), mask) in masked.iter_mut().zip(&*key).zip(mask) {
                *masked = word & mask;
            }
            masked[layout.words] = u64::from(*length);
            let entry = self.index.get(masked);
            if entry != 0 {
                return entry;
            }
        }
        0
    }

    fn insert(&mut self, layout: &KeyLayout, entry_match: &Match, entry: u32) {
        self.index.insert(&LpmIndex::prefix_key(layout, &entry_match.value, entry_match.prefix), entry);
        match self.lengths.iter_mut().find(|(length, _)| *length == entry_match.prefix) {
            Some((_, count)) => *count += 1,
            None => {
                self.lengths.push((entry_match.prefix, 1));
                self.lengths.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
            }
        }
    }

    fn remove(&mut self, layout: &KeyLayout, entry_match: &Match) {
        self.index.remove(&LpmIndex::prefix_key(layout, &entry_match.value, entry_match.prefix));
        for (_, count) in self.lengths.iter_mut().filter(|(length, _)| *length == entry_match.prefix) {
            *count -= 1;
        }
        self.lengths.retain(|(_, count)| *count > 0);
    }
}

/// Entries in order of rank, searched linearly.
#[derive(Clone, Debug)]
pub(super) struct PriorityList {
    /// Words per key.
    words: usize,
    rows: Vec<Row>,
    /// Value and mask of each word of each row; row `i` has the patterns from `i * words` on. Kept apart from the rows,
    /// so that a search reads contiguous memory.
    patterns: Vec<(u64, u64)>,
}

#[derive(Clone, Debug)]
struct Row {
    rank: i64,
    entry: u32,
    ranges: Vec<RangeMatch>,
}

impl PriorityList {
    fn new(words: usize) -> PriorityList {
        PriorityList { words, rows: Vec::new(), patterns: Vec::new() }
    }

    fn find(&self, table: &Table, key: &[u64]) -> u32 {
        for (row, patterns) in self.rows.iter().zip(self.patterns.chunks_exact(self.words)) {
            let equal = patterns.iter().zip(key).all(|((value, mask), word)| word & mask == *value);
            if equal && row.ranges.iter().all(|range| in_range(table, key, range)) {
                return row.entry;
            }
        }
        0
    }

    fn insert(&mut self, entry_match: &Match, entry: u32) {
        // `<=`: among equal ranks the older entry stays in front, so it wins, as `table_add` documents.
        let index = self.rows.partition_point(|row| row.rank <= entry_match.rank);
        self.rows.insert(index, Row { rank: entry_match.rank, entry, ranges: entry_match.ranges.clone() });
        let first = index * self.words;
        self.patterns
            .splice(first..first, entry_match.value.iter().copied().zip(entry_match.mask.iter().copied()));
    }

    fn remove(&mut self, entry: u32) {
        if let Some(index) = self.rows.iter().position(|row| row.entry == entry) {
            self.rows.remove(index);
            self.patterns.drain(index * self.words..(index + 1) * self.words);
        }
    }
}

fn in_range(table: &Table, key: &[u64], RangeMatch { element, low, high }: &RangeMatch) -> bool {
    let value = table.key_layout.extract_element(*element, table.key[*element].bits, key);
    let order = |a: &[u64], b: &[u64]| a.iter().rev().cmp(b.iter().rev());
    order(low, &value).is_le() && order(&value, high).is_le()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The index behaves like a `BTreeMap`, through growth and removal.
        #[test]
        fn index_equals_a_map(operations in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..3), 0..400)) {
            let (mut index, mut map) = (HashIndex::new(2), BTreeMap::new());
            for (number, (is_insert, a, b)) in operations.into_iter().enumerate() {
                let key = [a << 50, b];
                if is_insert {
                    index.insert(&key, number as u32 + 1);
                    map.insert(key, number as u32 + 1);
                } else {
                    index.remove(&key);
                    map.remove(&key);
                }
                prop_assert_eq!(index.used as usize, map.len());
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
