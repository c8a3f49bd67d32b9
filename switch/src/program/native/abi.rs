//! The binary interface between machine code and the pipeline.

use crate::program::hash::Algorithm;
use std::array::from_fn;
use std::mem::MaybeUninit;

/// Bytes of a frame, counted from its first one, that code may touch at most. [`Native::room`](super::Native::room) is how many
/// that of a program does touch, whatever the frame's length is.
pub(crate) const MAX_FRAME_ACCESS: usize = 512;

/// Words of the longest key that code builds.
pub(crate) const MAX_KEY_WORDS: usize = 16;

/// Numbers that the pipeline gives to code.
#[derive(Clone, Copy)]
pub(crate) enum NativeInput {
    Port,
    PacketLength,
    Now,
    DropPort,
    EnqTimestamp,
    EnqDepth,
    DeqTimedelta,
    DeqDepth,
    Qid,
    Rid,
}

/// The number of [`NativeInput`]s.
pub(crate) const INPUTS: usize = 10;

/// A table with keys of one word, in which code looks up small ones itself, and those of the last packets. Entries are
/// below the number of rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NativeTable {
    /// Address of the entries of all keys below `len`, 32 bits each.
    pub entries: usize,
    /// 0 if code has to ask.
    pub len: u64,
    /// Address of the rows of all entries.
    pub rows: usize,
    /// Address of the [`KeyCacheFormat`] keys of the table.
    pub recent: usize,
}

/// Keys that were looked up before, with their entries: [`KeyCacheFormat::WORDS`] words for each table. They are few, to stay in
/// the cache. A key is in its place, or in the place beside that, where the key that was put into its place next has moved it.
#[derive(Clone, Copy)]
pub(crate) enum KeyCacheFormat {
    /// Keys of up to 32 bits: each word has a key above an entry.
    Narrow,
    /// Each key is followed by its entry.
    Wide,
}

impl KeyCacheFormat {
    /// Words of all keys of a table.
    pub const WORDS: usize = 128;
    /// A key is multiplied by this number, 2^64 divided by the golden ratio, to find its place: keys differ in bits that
    /// depend on the table.
    pub const HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    /// Bits of a narrow key, and of an entry beside it.
    pub const NARROW_BITS: u32 = 32;

    /// Returns the form for keys that have no bits beyond these.
    pub const fn of(bits: u64) -> KeyCacheFormat {
        if bits >> KeyCacheFormat::NARROW_BITS == 0 { KeyCacheFormat::Narrow } else { KeyCacheFormat::Wide }
    }

    /// Returns the words of a key and its entry.
    pub const fn step(self) -> usize {
        match self {
            KeyCacheFormat::Narrow => 1,
            KeyCacheFormat::Wide => 2,
        }
    }

    /// Returns the bit of the product from which on it is the place of the key.
    pub const fn shift(self) -> u32 {
        u64::BITS - (KeyCacheFormat::WORDS / self.step()).ilog2()
    }

    /// Returns the first word of a key's place, and of the place beside it.
    fn candidate_slots(self, key: u64) -> [usize; 2] {
        let place = (key.wrapping_mul(KeyCacheFormat::HASH_MULTIPLIER) >> self.shift()) as usize;
        [place, place ^ 1].map(|place| place * self.step())
    }

    /// Puts a key with its entry in its place, and what was there beside it.
    pub fn insert(self, words: &mut [u64], key: u64, entry: u32) {
        let ([place, beside], entry) = (self.candidate_slots(key), u64::from(entry));
        words.copy_within(place..place + self.step(), beside);
        match self {
            KeyCacheFormat::Narrow => words[place] = key << KeyCacheFormat::NARROW_BITS | entry,
            KeyCacheFormat::Wide => words[place..][..2].copy_from_slice(&[key, entry]),
        }
    }

    /// Forgets all keys: where 1 would be found there is 0, which belongs elsewhere, and 1 is in all other places.
    pub fn clear(self, words: &mut [u64]) {
        words.fill(match self {
            KeyCacheFormat::Narrow => 1 << KeyCacheFormat::NARROW_BITS,
            KeyCacheFormat::Wide => 1,
        });
        self.candidate_slots(1).into_iter().for_each(|place| words[place] = 0);
    }
}

/// Keys of exact tables up to this width are all below [`NativeTable::len`], or have no entry.
pub(crate) const DIRECT_KEY_BITS: u32 = 8;

/// The state that code works on. The pointers are valid while the code runs.
#[repr(C)]
pub(crate) struct CallFrame {
    /// The header vector: as many slots as the program has.
    pub slots: *mut u64,
    /// Words that the packet carries from ingress to egress: as many words as [`Native::bridged`](super::Native::carried) has
    /// slots. Ingress writes it, egress reads it.
    pub bridged: *mut u64,
    /// At least [`Native::room`](super::Native::room) bytes.
    pub frame: *mut u8,
    /// Bytes of the frame that are kept.
    pub len: u64,
    /// Free bytes in front of the frame.
    pub headroom: u64,
    /// Number of these that the frame has taken.
    pub headroom_used: u64,
    /// The cells of all register arrays.
    pub registers: *mut u64,
    /// Bytes that the parser consumed.
    pub parsed: u64,
    /// BMv2's packet register 0.
    pub length: u32,
    /// Target of writes to registers that do not exist.
    pub discard: u64,
    /// As many as the program has tables.
    pub tables: *const NativeTable,
    /// [`MAX_KEY_WORDS`] words for a key.
    pub key: *mut u64,
    /// [`MAX_HASH_BYTES`](crate::program::MAX_BYTES) bytes for the input of a hash.
    pub bytes: *mut u8,
    /// Ingress reads the first ones, up to [`NativeInput::DropPort`], and egress all.
    pub inputs: [MaybeUninit<u64>; INPUTS],
}

/// The result of a lookup: the matched entry and its row of words (see [`crate::program::native::ROW_ACTION_SHIFT`]).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LookupResult {
    pub words: *const u64,
    pub entry: u64,
}

/// Parts of a CRC: it is that of as many zeros, exclusive-or the effects of all bytes.
pub(crate) struct CrcTables {
    /// By number of zeros.
    pub zeros: [u32; CrcTables::MAX_BYTES + 1],
    /// By number of bytes behind, then by the byte.
    pub of_byte: [[u32; 256]; CrcTables::MAX_BYTES],
}

impl CrcTables {
    /// The most bytes: IPv6's addresses, ports and protocol are 37. More tables would not be in the nearest cache.
    pub const MAX_BYTES: usize = 40;

    /// Returns what a CRC is made of.
    pub fn of<W: Into<u32>>(crc: impl Fn(&[u8]) -> W) -> Box<CrcTables> {
        let mut bytes = [0; CrcTables::MAX_BYTES];
        let of_zeros = from_fn(|len| crc(&bytes[..len]).into());
        let mut effects = Box::new(CrcTables { zeros: of_zeros, of_byte: [[0; 256]; CrcTables::MAX_BYTES] });
        for (behind, of_byte) in effects.of_byte.iter_mut().enumerate() {
            for (byte, effect) in (0..=u8::MAX).zip(of_byte) {
                bytes[0] = byte;
                *effect = crc(&bytes[..=behind]).into() ^ of_zeros[behind + 1];
            }
        }
        effects
    }
}

/// Addresses of what code calls. Each takes the address of the [`CallFrame`] and the numbers named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Helpers {
    /// Looks a key of one word up: table, key. Returns a [`LookupResult`].
    pub lookup_word: usize,
    /// Looks the key at [`CallFrame::key`] up in any table: table. Returns a [`LookupResult`].
    pub lookup_key: usize,
    /// The value of a calculation over slots: calculation.
    pub hash: usize,
    /// The value of a calculation over what is at [`CallFrame::bytes`]: calculation, bytes.
    pub digest: usize,
    /// Returns what a CRC is made of, for code to have it inline.
    pub effects: fn(Algorithm) -> Option<&'static CrcTables>,
    /// Does an operation on slots: address.
    pub exec_op: usize,
    /// Counts the packet: array, index.
    pub count_packet: usize,
    /// Makes room for headers: bytes of those at the front that stay together, bytes of all. Returns the frame, which has
    /// as many bytes as before again.
    pub grow_front: usize,
}

/// Return value of code, in the lowest byte: ingress changed nothing, so the interpreter has to run.
pub(crate) const EXIT_INTERPRET: u64 = 0;
/// All slots are written that are not carried, and the rest is the pipeline's.
pub(crate) const EXIT_FINISH: u64 = 1;
/// As [`EXIT_FINISH`] after egress, but only slots of headers are written: all that is left is to put the packet together.
pub(crate) const EXIT_DEPARSE: u64 = 6;
/// To the port in bits 16 to 31, in the class in bits 8 to 15.
pub(crate) const UNICAST: u64 = 2;
pub(crate) const DROP: u64 = 3;
/// To the group in bits 16 to 31, in the class in bits 8 to 15.
pub(crate) const MULTICAST: u64 = 5;
/// The frame is put together.
pub(crate) const EXIT_SEND: u64 = 4;
/// The parser does not end.
pub(crate) const PARSER_LOOP: u64 = 7;
/// An action does not end.
pub(crate) const ACTION_LOOP: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn find(form: KeyCacheFormat, words: &[u64], key: u64) -> Option<u64> {
        form.candidate_slots(key).into_iter().find_map(|place| match form {
            KeyCacheFormat::Narrow => (words[place] >> KeyCacheFormat::NARROW_BITS == key)
                .then_some(words[place] & u64::from(u32::MAX)),
            KeyCacheFormat::Wide => (words[place] == key).then_some(words[place + 1]),
        })
    }

    #[test]
    fn the_last_two_keys_of_each_place_are_known() {
        for form in [KeyCacheFormat::Narrow, KeyCacheFormat::Wide] {
            let mut words = [0; KeyCacheFormat::WORDS];
            form.clear(&mut words);
            assert!((0..1_000).all(|key| find(form, &words, key).is_none()));
            let same: Vec<u64> =
                (0..10_000).filter(|key| form.candidate_slots(*key) == form.candidate_slots(0)).collect();
            for (at, key) in same.iter().enumerate() {
                form.insert(&mut words, *key, at as u32);
                assert_eq!(find(form, &words, *key), Some(at as u64));
                let is_known = |at: &usize| find(form, &words, same[*at]).is_some();
                let known: Vec<usize> = (0..same.len()).filter(is_known).collect();
                assert_eq!(known, (at.saturating_sub(1)..=at).collect::<Vec<_>>());
            }
            form.clear(&mut words);
            assert!((0..10_000).all(|key| find(form, &words, key).is_none()));
        }
    }
}
