//! The binary interface between machine code and the pipeline.

use crate::program::hash::Algorithm;
use std::array::from_fn;
use std::mem::MaybeUninit;

/// Upper bound of the frame bytes that code may access, counted from the frame's first byte.
/// [`Native::frame_room`](super::Native::frame_room) is the bound for one program; both hold for frames of
/// any length.
pub(crate) const MAX_FRAME_ACCESS: usize = 512;

/// The most words of a key that machine code can build.
pub(crate) const MAX_KEY_WORDS: usize = 16;

/// The values that the pipeline passes to machine code, as indices of [`CallFrame::inputs`].
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

/// Pointers to one table for machine code, valid until the table changes. Code looks a key of one word up in
/// `entries` if it is below `len`, then in the key cache, and then by a helper. Every entry is below the
/// number of rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NativeTable {
    /// Address of the entries of all keys below `len`, as 32-bit integers.
    pub entries: usize,
    /// Number of `entries`; 0 if the table has none.
    pub len: u64,
    /// Address of the rows, indexed by entry.
    pub rows: usize,
    /// Address of the table's key cache, see [`KeyCacheFormat`].
    pub recent: usize,
}

/// The format of a table's key cache: [`KeyCacheFormat::WORDS`] words. Each key has two candidate slots. It
/// is stored in the slot that its hash selects; the key that was there moves to the neighbouring slot (index
/// XOR 1).
#[derive(Clone, Copy)]
pub(crate) enum KeyCacheFormat {
    /// Keys of up to 32 bits: each word has the key in its upper half and the entry in its lower half.
    Narrow,
    /// Each key is a word, followed by a word with its entry.
    Wide,
}

impl KeyCacheFormat {
    /// Words of the cache of one table: 1 KiB, so that the caches of several tables fit the L1 cache.
    pub const WORDS: usize = 128;
    /// The multiplier of the hash, 2^64 divided by the golden ratio (Fibonacci hashing): it mixes all bits of
    /// the key into the upper bits of the product, whichever bits the keys of a table differ in.
    pub const HASH_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    /// Bits of a narrow key, and of the entry in the same word.
    pub const NARROW_BITS: u32 = 32;

    /// Returns the format for keys whose mask is `bits`.
    pub const fn of(bits: u64) -> KeyCacheFormat {
        if bits >> KeyCacheFormat::NARROW_BITS == 0 { KeyCacheFormat::Narrow } else { KeyCacheFormat::Wide }
    }

    /// Returns the number of words of a slot: a key and its entry.
    pub const fn step(self) -> usize {
        match self {
            KeyCacheFormat::Narrow => 1,
            KeyCacheFormat::Wide => 2,
        }
    }

    /// Returns the shift that turns the product of the hash into the index of a slot.
    pub const fn shift(self) -> u32 {
        u64::BITS - (KeyCacheFormat::WORDS / self.step()).ilog2()
    }

    /// Returns the first word of each candidate slot of a key, the preferred one first.
    fn candidate_slots(self, key: u64) -> [usize; 2] {
        let place = (key.wrapping_mul(KeyCacheFormat::HASH_MULTIPLIER) >> self.shift()) as usize;
        [place, place ^ 1].map(|place| place * self.step())
    }

    /// Inserts a key with its entry. The key that was in its slot moves to the neighbouring slot.
    pub fn insert(self, words: &mut [u64], key: u64, entry: u32) {
        let ([place, beside], entry) = (self.candidate_slots(key), u64::from(entry));
        words.copy_within(place..place + self.step(), beside);
        match self {
            // The shift loses no bits: `of` chooses `Narrow` only if the key's mask has no bit above the
            // lower 32.
            KeyCacheFormat::Narrow => words[place] = key << KeyCacheFormat::NARROW_BITS | entry,
            KeyCacheFormat::Wide => words[place..][..2].copy_from_slice(&[key, entry]),
        }
    }

    /// Empties the cache: each slot gets a key that hashes elsewhere, so that no lookup matches it. That is
    /// key 1, and key 0 in the two slots of key 1.
    pub fn clear(self, words: &mut [u64]) {
        words.fill(match self {
            KeyCacheFormat::Narrow => 1 << KeyCacheFormat::NARROW_BITS,
            KeyCacheFormat::Wide => 1,
        });
        self.candidate_slots(1).into_iter().for_each(|place| words[place] = 0);
    }
}

/// For exact tables with keys up to this width, [`NativeTable::entries`] has every key that has an entry: a
/// key that is not below [`NativeTable::len`] misses.
pub(crate) const DIRECT_KEY_BITS: u32 = 8;

/// The first part of a call, which machine code addresses at constant offsets. Pointers are valid for the
/// duration of the call.
#[repr(C)]
pub(crate) struct CallFrame {
    /// The header vector, with exactly as many slots as the program's `capacity`.
    pub slots: *mut u64,
    /// The bridged words, one for each slot of [`Native::carried`](super::Native::carried). Ingress writes
    /// them, egress reads them.
    pub bridged: *mut u64,
    /// The frame: at least [`Native::frame_room`](super::Native::frame_room) bytes of memory, whatever its
    /// length.
    pub frame: *mut u8,
    /// Bytes of the frame that are stored, without its virtual payload.
    pub len: u64,
    /// Free bytes in front of the frame.
    pub headroom: u64,
    /// Bytes of `headroom` that the deparser has used for new headers.
    pub headroom_used: u64,
    /// The cells of all register arrays.
    pub registers: *mut u64,
    /// Bytes that the parser consumed; set by ingress, read by egress.
    pub parsed: u64,
    /// The packet's length in bytes as headers are added and removed, BMv2's packet register 0.
    pub length: u32,
    /// Target of register writes beyond the end of an array.
    pub discard: u64,
    /// One for each table of the program.
    pub tables: *const NativeTable,
    /// [`MAX_KEY_WORDS`] words, in which code passes a key to [`Helpers::lookup_key`].
    pub key: *mut u64,
    /// [`MAX_HASH_BYTES`](crate::program::MAX_HASH_BYTES) bytes, in which code passes the input to
    /// [`Helpers::digest`].
    pub bytes: *mut u8,
    /// Indexed by [`NativeInput`]. Ingress reads those up to [`NativeInput::DropPort`], egress all.
    pub inputs: [MaybeUninit<u64>; INPUTS],
}

/// The result of a lookup: the matched entry, 0 for a miss, and its row of words (see
/// [`ROW_ACTION_SHIFT`](super::ROW_ACTION_SHIFT)).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LookupResult {
    pub words: *const u64,
    pub entry: u64,
}

/// Lookup tables for a CRC of short inputs: the CRC of as many zero bytes, exclusive-or the contribution of
/// each byte.
pub(crate) struct CrcTables {
    /// The CRC of this number of zero bytes.
    pub zeros: [u32; CrcTables::MAX_BYTES + 1],
    /// The contribution of a byte, indexed by the number of bytes that follow it, then by the byte's value.
    pub of_byte: [[u32; 256]; CrcTables::MAX_BYTES],
}

impl CrcTables {
    /// The longest input: IPv6 addresses, ports and protocol are 37 bytes. Each byte costs a table of 1 KiB,
    /// which competes for the L1 cache.
    pub const MAX_BYTES: usize = 40;

    /// Computes the tables of a CRC function.
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

/// Addresses of the functions that code calls. Each takes the address of the [`CallFrame`] and the arguments
/// named in its comment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Helpers {
    /// Looks up a key of one word. Arguments: table, key. Returns a [`LookupResult`].
    pub lookup_word: usize,
    /// Looks up the key at [`CallFrame::key`] in any table. Argument: table. Returns a [`LookupResult`].
    pub lookup_key: usize,
    /// Returns the value of a calculation over slots. Argument: calculation.
    pub hash: usize,
    /// Returns the value of a calculation over the bytes at [`CallFrame::bytes`]. Arguments: calculation,
    /// number of bytes.
    pub digest: usize,
    /// Returns the tables of a CRC, which code reads inline; `None` for algorithms that have none.
    pub effects: fn(Algorithm) -> Option<&'static CrcTables>,
    /// Executes an operation that has no machine code. Argument: its address.
    pub exec_op: usize,
    /// Counts the packet in a counter. Arguments: array, index.
    pub count_packet: usize,
    /// Makes room for headers: bytes of those at the front that stay together, bytes of all. Returns the frame, which has
    /// as many bytes as before again.
    pub grow_front: usize,
}

/// Exit code, the lowest byte of the return value: nothing was changed; the interpreter runs the packet from
/// the start.
pub(crate) const EXIT_INTERPRET: u64 = 0;
/// Control has run and every slot that is not bridged is in the header vector. The pipeline does the rest:
/// clone, digest, resubmit or recirculate, verdict, deparser.
pub(crate) const EXIT_FINISH: u64 = 1;
/// As [`EXIT_FINISH`] after egress, but only the slots that the deparser and the verdict read were stored: no
/// clone and no recirculation is pending.
pub(crate) const EXIT_DEPARSE: u64 = 6;
/// The packet goes to the port in bits 16 to 31 of the return value, with the priority class in bits 8 to 15.
pub(crate) const UNICAST: u64 = 2;
pub(crate) const DROP: u64 = 3;
/// The packet goes to the multicast group in bits 16 to 31, with the priority class in bits 8 to 15.
pub(crate) const MULTICAST: u64 = 5;
/// Egress has deparsed the packet; its bytes are ready to send.
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
