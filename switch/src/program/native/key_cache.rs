//! The key caches of tables. Machine code finds the entries of recently used keys there without calling the
//! interpreter.

use super::abi::DIRECT_KEY_BITS;
use crate::program::table::Table;

/// The format of a table's key cache: [`KeyCacheFormat::WORDS`] words, divided into cache slots of one or two words.
/// A key is inserted into the cache slot that its hash selects. The key that was there moves to the neighbouring slot
/// (index XOR 1), so each key has two candidate slots.
#[derive(Clone, Copy)]
pub(crate) enum KeyCacheFormat {
    /// Keys of up to 32 bits: each word has the key in its upper half and the entry in its lower half.
    Narrow,
    /// Each key is a word, followed by a word with its entry.
    Wide,
}

impl KeyCacheFormat {
    /// Length of the cache of one table in words: 1 KiB, so that the caches of several tables fit the L1 cache.
    pub(crate) const WORDS: usize = 128;
    /// The multiplier of the hash, 2^64 divided by the golden ratio (Fibonacci hashing): it mixes all bits of
    /// the key into the upper bits of the product, whichever bits the keys of a table differ in.
    pub(crate) const HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    /// Bits of a narrow key, and of the entry in the same word.
    pub(crate) const NARROW_BITS: u32 = 32;

    /// Returns the format for keys with this mask.
    pub(crate) const fn for_mask(mask: u64) -> KeyCacheFormat {
        if mask >> KeyCacheFormat::NARROW_BITS == 0 { KeyCacheFormat::Narrow } else { KeyCacheFormat::Wide }
    }

    /// Returns the number of words of a cache slot.
    pub(crate) const fn slot_words(self) -> usize {
        match self {
            KeyCacheFormat::Narrow => 1,
            KeyCacheFormat::Wide => 2,
        }
    }

    /// Returns the shift that turns the product of the hash into the index of a slot.
    pub(crate) const fn hash_shift(self) -> u32 {
        u64::BITS - (KeyCacheFormat::WORDS / self.slot_words()).ilog2()
    }

    /// Returns the first word of each candidate slot of a key, the preferred one first.
    fn candidate_slots(self, key: u64) -> [usize; 2] {
        let index = (key.wrapping_mul(KeyCacheFormat::HASH_MULTIPLIER) >> self.hash_shift()) as usize;
        [index, index ^ 1].map(|index| index * self.slot_words())
    }

    /// Inserts a key with its entry. The key that was in its slot moves to the neighbouring slot.
    pub(crate) fn insert(self, words: &mut [u64], key: u64, entry: u32) {
        let ([preferred, neighbour], entry) = (self.candidate_slots(key), u64::from(entry));
        words.copy_within(preferred..preferred + self.slot_words(), neighbour);
        match self {
            // The shift loses no bits: `for_mask` chooses `Narrow` only if the key's mask has no bit above the
            // lower 32.
            KeyCacheFormat::Narrow => words[preferred] = key << KeyCacheFormat::NARROW_BITS | entry,
            KeyCacheFormat::Wide => words[preferred..][..2].copy_from_slice(&[key, entry]),
        }
    }

    /// Empties the cache. Each cache slot gets a key whose candidate slots are others, so that no lookup matches it:
    /// key 1 everywhere, except in the two candidate slots of key 1, which get key 0.
    pub(crate) fn clear(self, words: &mut [u64]) {
        words.fill(match self {
            KeyCacheFormat::Narrow => 1 << KeyCacheFormat::NARROW_BITS,
            KeyCacheFormat::Wide => 1,
        });
        self.candidate_slots(1).into_iter().for_each(|word| words[word] = 0);
    }
}

impl Table {
    /// Returns whether machine code caches lookups of this table: its key is one word, it needs no slow path,
    /// and it is not an exact table whose keys are all [direct](DIRECT_KEY_BITS).
    pub(crate) fn has_key_cache(&self) -> bool {
        self.key_layout.words == 1
            && !self.needs_slow_apply
            && !(self.is_exact() && self.key_layout.bits <= DIRECT_KEY_BITS)
    }

    pub(crate) fn key_cache_format(&self) -> KeyCacheFormat {
        KeyCacheFormat::for_mask(
            self.key_layout.segments.iter().fold(0, |bits, part| bits | part.mask << part.shift),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(format: KeyCacheFormat, words: &[u64], key: u64) -> Option<u64> {
        format.candidate_slots(key).into_iter().find_map(|word| match format {
            KeyCacheFormat::Narrow => (words[word] >> KeyCacheFormat::NARROW_BITS == key)
                .then_some(words[word] & u64::from(u32::MAX)),
            KeyCacheFormat::Wide => (words[word] == key).then_some(words[word + 1]),
        })
    }

    #[test]
    fn the_cache_holds_the_last_two_keys_with_the_same_slots() {
        for format in [KeyCacheFormat::Narrow, KeyCacheFormat::Wide] {
            let mut words = [0; KeyCacheFormat::WORDS];
            format.clear(&mut words);
            assert!((0..1_000).all(|key| find(format, &words, key).is_none()));
            let colliding: Vec<u64> =
                (0..10_000).filter(|key| format.candidate_slots(*key) == format.candidate_slots(0)).collect();
            for (index, key) in colliding.iter().enumerate() {
                format.insert(&mut words, *key, index as u32);
                assert_eq!(find(format, &words, *key), Some(index as u64));
                let is_cached = |index: &usize| find(format, &words, colliding[*index]).is_some();
                let cached: Vec<usize> = (0..colliding.len()).filter(is_cached).collect();
                assert_eq!(cached, (index.saturating_sub(1)..=index).collect::<Vec<_>>());
            }
            format.clear(&mut words);
            assert!((0..10_000).all(|key| find(format, &words, key).is_none()));
        }
    }
}
