//! The binary interface between machine code and the pipeline.

use crate::program::calc::Algorithm;
use std::array::from_fn;
use std::mem::MaybeUninit;

/// Bytes of a frame, counted from its first one, that code may touch at most. [`Native::room`](super::Native::room) is how many
/// that of a program does touch, whatever the frame's length is.
pub(crate) const ROOM: usize = 512;

/// Words of the longest key that code builds.
pub(crate) const KEY_WORDS: usize = 16;

/// Numbers that the pipeline gives to code.
#[derive(Clone, Copy)]
pub(crate) enum Input {
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

/// The number of [`Input`]s.
pub(crate) const INPUTS: usize = 10;

/// A table with keys of one word, in which code looks up small ones itself, and those of the last packets. Entries are
/// below the number of rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Direct {
    /// Address of the entries of all keys below `len`, 32 bits each.
    pub entries: usize,
    /// 0 if code has to ask.
    pub len: u64,
    /// Address of the rows of all entries.
    pub rows: usize,
    /// Address of the [`Recent`] keys of the table.
    pub recent: usize,
}

/// Keys that were looked up before, with their entries: [`Recent::WORDS`] words for each table. They are few, to stay in
/// the cache. A key is in its place, or in the place beside that, where the key that was put into its place next has moved it.
#[derive(Clone, Copy)]
pub(crate) enum Recent {
    /// Keys of up to 32 bits: each word has a key above an entry.
    Narrow,
    /// Each key is followed by its entry.
    Wide,
}

impl Recent {
    /// Words of all keys of a table.
    pub const WORDS: usize = 128;
    /// A key is multiplied by this number, 2^64 divided by the golden ratio, to find its place: keys differ in bits that
    /// depend on the table.
    pub const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    /// Bits of a narrow key, and of an entry beside it.
    pub const NARROW_BITS: u32 = 32;

    /// Returns the form for keys that have no bits beyond these.
    pub const fn of(bits: u64) -> Recent {
        if bits >> Recent::NARROW_BITS == 0 { Recent::Narrow } else { Recent::Wide }
    }

    /// Returns the words of a key and its entry.
    pub const fn step(self) -> usize {
        match self {
            Recent::Narrow => 1,
            Recent::Wide => 2,
        }
    }

    /// Returns the bit of the product from which on it is the place of the key.
    pub const fn shift(self) -> u32 {
        u64::BITS - (Recent::WORDS / self.step()).ilog2()
    }

    /// Returns the first word of a key's place, and of the place beside it.
    fn places(self, key: u64) -> [usize; 2] {
        let place = (key.wrapping_mul(Recent::FACTOR) >> self.shift()) as usize;
        [place, place ^ 1].map(|place| place * self.step())
    }

    /// Puts a key with its entry in its place, and what was there beside it.
    pub fn put(self, words: &mut [u64], key: u64, entry: u32) {
        let ([place, beside], entry) = (self.places(key), u64::from(entry));
        words.copy_within(place..place + self.step(), beside);
        match self {
            Recent::Narrow => words[place] = key << Recent::NARROW_BITS | entry,
            Recent::Wide => words[place..][..2].copy_from_slice(&[key, entry]),
        }
    }

    /// Forgets all keys: where 1 would be found there is 0, which belongs elsewhere, and 1 is in all other places.
    pub fn clear(self, words: &mut [u64]) {
        words.fill(match self {
            Recent::Narrow => 1 << Recent::NARROW_BITS,
            Recent::Wide => 1,
        });
        self.places(1).into_iter().for_each(|place| words[place] = 0);
    }
}

/// Keys of exact tables up to this width are all below [`Direct::len`], or have no entry.
pub(crate) const SMALL_BITS: u32 = 8;

/// The state that code works on. The pointers are valid while the code runs.
#[repr(C)]
pub(crate) struct CallHead {
    /// The header vector: as many slots as the program has.
    pub slots: *mut u64,
    /// Words that the packet carries from ingress to egress: as many words as [`Native::carried`](super::Native::carried) has
    /// slots. Ingress writes it, egress reads it.
    pub carried: *mut u64,
    /// At least [`Native::room`](super::Native::room) bytes.
    pub frame: *mut u8,
    /// Bytes of the frame that are kept.
    pub len: u64,
    /// Free bytes in front of the frame.
    pub headroom: u64,
    /// Number of these that the frame has taken.
    pub taken: u64,
    /// The cells of all register arrays.
    pub registers: *mut u64,
    /// Bytes that the parser consumed.
    pub parsed: u64,
    /// BMv2's packet register 0.
    pub length: u32,
    /// Target of writes to registers that do not exist.
    pub sink: u64,
    /// As many as the program has tables.
    pub tables: *const Direct,
    /// [`KEY_WORDS`] words for a key.
    pub key: *mut u64,
    /// [`MAX_BYTES`](crate::program::MAX_BYTES) bytes for the input of a hash.
    pub bytes: *mut u8,
    /// Ingress reads the first ones, up to [`Input::DropPort`], and egress all.
    pub inputs: [MaybeUninit<u64>; INPUTS],
}

/// The result of a lookup: the matched entry and its row of words (see [`crate::program::native::CHOICE`]).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub words: *const u64,
    pub entry: u64,
}

/// Parts of a CRC: it is that of as many zeros, exclusive-or the effects of all bytes.
pub(crate) struct Effects {
    /// By number of zeros.
    pub of_zeros: [u32; Effects::MOST + 1],
    /// By number of bytes behind, then by the byte.
    pub of_byte: [[u32; 256]; Effects::MOST],
}

impl Effects {
    /// The most bytes: IPv6's addresses, ports and protocol are 37. More tables would not be in the nearest cache.
    pub const MOST: usize = 40;

    /// Returns what a CRC is made of.
    pub fn of<W: Into<u32>>(crc: impl Fn(&[u8]) -> W) -> Box<Effects> {
        let mut bytes = [0; Effects::MOST];
        let of_zeros = from_fn(|len| crc(&bytes[..len]).into());
        let mut effects = Box::new(Effects { of_zeros, of_byte: [[0; 256]; Effects::MOST] });
        for (behind, of_byte) in effects.of_byte.iter_mut().enumerate() {
            for (byte, effect) in (0..=u8::MAX).zip(of_byte) {
                bytes[0] = byte;
                *effect = crc(&bytes[..=behind]).into() ^ of_zeros[behind + 1];
            }
        }
        effects
    }
}

/// Addresses of what code calls. Each takes the address of the [`CallHead`] and the numbers named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Helpers {
    /// Looks a key of one word up: table, key. Returns a [`Row`].
    pub table_word: usize,
    /// Looks the key at [`CallHead::key`] up in any table: table. Returns a [`Row`].
    pub table_any: usize,
    /// The value of a calculation over slots: calculation.
    pub hash: usize,
    /// The value of a calculation over what is at [`CallHead::bytes`]: calculation, bytes.
    pub digest: usize,
    /// Returns what a CRC is made of, for code to have it inline.
    pub effects: fn(Algorithm) -> Option<&'static Effects>,
    /// Does an operation on slots: address.
    pub one: usize,
    /// Counts the packet: array, index.
    pub count: usize,
    /// Counts an action that would not end.
    pub runaway: usize,
    /// Makes room for headers: bytes of those at the front that stay together, bytes of all. Returns the frame, which has
    /// as many bytes as before again.
    pub grow: usize,
}

/// Return value of code, in the lowest byte: ingress changed nothing, so the interpreter has to run.
pub(crate) const BAIL: u64 = 0;
/// All slots are written that are not carried, and the rest is the pipeline's.
pub(crate) const SLOW: u64 = 1;
/// As [`SLOW`] after egress, but only slots of headers are written: all that is left is to put the packet together.
pub(crate) const UNEMITTED: u64 = 6;
/// To the port in bits 16 to 31, in the class in bits 8 to 15.
pub(crate) const UNICAST: u64 = 2;
pub(crate) const DROP: u64 = 3;
/// To the group in bits 16 to 31, in the class in bits 8 to 15.
pub(crate) const MULTICAST: u64 = 5;
/// The frame is put together.
pub(crate) const SEND: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn find(form: Recent, words: &[u64], key: u64) -> Option<u64> {
        form.places(key).into_iter().find_map(|place| match form {
            Recent::Narrow => {
                (words[place] >> Recent::NARROW_BITS == key).then_some(words[place] & u64::from(u32::MAX))
            }
            Recent::Wide => (words[place] == key).then_some(words[place + 1]),
        })
    }

    #[test]
    fn the_last_two_keys_of_each_place_are_known() {
        for form in [Recent::Narrow, Recent::Wide] {
            let mut words = [0; Recent::WORDS];
            form.clear(&mut words);
            assert!((0..1_000).all(|key| find(form, &words, key).is_none()));
            let same: Vec<u64> = (0..10_000).filter(|key| form.places(*key) == form.places(0)).collect();
            for (at, key) in same.iter().enumerate() {
                form.put(&mut words, *key, at as u32);
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
