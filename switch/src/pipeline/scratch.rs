//! Working memory of a switch while a packet is in the pipeline. It is not state: results do not depend on
//! its content.
//!
//! If each of thousands of queued packets had a header vector of its own, none would be in the processor's
//! cache when needed. Machine code therefore works on one vector, and a queued packet has only the bridged
//! words that egress reads. With the interpreter a queued packet has a vector, which is recycled when the
//! packet leaves.

use crate::packet::SlotVec;
use crate::program::{MAX_HASH_BYTES, MAX_KEY_WORDS, Native, Program};

/// Maximum length of a free list.
const MAX_FREE: usize = 1 << 12;

/// The working memory of a switch, or of a thread that runs many switches: see
/// [`Switch::swap_scratch`](crate::engine::Switch::swap_scratch).
pub struct Scratch {
    /// The layout id of the program for which all vectors and bridged words are laid out.
    layout_id: u32,
    vectors: FreeList,
    bridged: FreeList,
    /// Lookup key and hash input of machine code.
    pub(super) native_key: [u64; MAX_KEY_WORDS],
    pub(super) native_hash_input: [u8; MAX_HASH_BYTES],
    /// Key of the interpreter's lookups.
    pub(super) key: Vec<u64>,
    /// Row of a table with extras, for machine code.
    pub(super) row: Vec<u64>,
    /// Input of the interpreter's hashes.
    pub(super) hash_input: Vec<u8>,
    /// The headers of the frame before deparsing.
    pub(super) old_headers: Vec<u8>,
    /// Metadata that is preserved by a clone or a re-entry.
    pub(super) saved_fields: Vec<u64>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            layout_id: 0,
            vectors: FreeList::default(),
            bridged: FreeList::default(),
            native_key: [0; MAX_KEY_WORDS],
            native_hash_input: [0; MAX_HASH_BYTES],
            key: Vec::new(),
            row: Vec::new(),
            hash_input: Vec::new(),
            old_headers: Vec::new(),
            saved_fields: Vec::new(),
        }
    }
}

impl Scratch {
    /// Prepares the memory for a program: frees the vectors of any other program.
    #[inline]
    pub(super) fn fit(&mut self, program: &Program) {
        if self.layout_id != program.layout_id {
            (self.layout_id, self.vectors, self.bridged) =
                (program.layout_id, FreeList::default(), FreeList::default());
        }
    }

    /// Returns the vector for machine code of `program`. Constants are in place; all other slots are
    /// undefined.
    #[inline(always)]
    pub(super) fn native_vector(&mut self, program: &Program) -> &mut SlotVec {
        if self.vectors.first.is_none() {
            self.vectors.first = self.vectors.pop_other().unwrap_or_else(|| new_vector(program));
        }
        &mut self.vectors.first
    }

    /// Returns a vector, from the free list if possible. Constants are in place; all other slots are
    /// undefined.
    pub(super) fn acquire_vector(&mut self, program: &Program) -> SlotVec {
        self.vectors.pop().unwrap_or_else(|| new_vector(program))
    }

    /// Returns a vector to the free list, unless it belongs to another program.
    pub(super) fn recycle_vector(&mut self, slots: SlotVec) {
        if slots.has_layout(self.layout_id) {
            self.vectors.push(slots);
        }
    }

    /// Returns bridged words with undefined contents, from the free list if possible.
    #[inline(always)]
    pub(super) fn acquire_bridged(&mut self, native: &Native) -> SlotVec {
        self.bridged.pop().unwrap_or_else(|| new_bridged(native))
    }

    /// Returns bridged words of this program to the free list.
    #[inline(always)]
    pub(super) fn recycle_bridged(&mut self, words: SlotVec) {
        self.bridged.push(words);
    }
}

/// A free list in last-in, first-out order: the element returned last is most likely in the processor's cache.
#[derive(Default)]
struct FreeList {
    /// One element outside of `others`, usually the only one in use, so that the fast path touches no `Vec`.
    first: SlotVec,
    others: Vec<SlotVec>,
}

impl FreeList {
    #[inline(always)]
    fn pop(&mut self) -> Option<SlotVec> {
        if self.first.is_none() { self.pop_other() } else { Some(self.first.take()) }
    }

    #[inline(never)]
    fn pop_other(&mut self) -> Option<SlotVec> {
        self.others.pop()
    }

    #[inline(always)]
    fn push(&mut self, slots: SlotVec) {
        if self.first.is_none() {
            self.first.replace_none(slots);
        } else {
            self.push_other(slots);
        }
    }

    /// Out of line. Copies of multicast packets return more elements than were acquired, so the list is
    /// bounded.
    #[inline(never)]
    fn push_other(&mut self, slots: SlotVec) {
        if self.others.len() < MAX_FREE {
            self.others.push(slots);
        }
    }
}

#[cold]
#[inline(never)]
fn new_vector(program: &Program) -> SlotVec {
    let mut words = Vec::with_capacity(program.capacity);
    words.resize(program.zeroed_slots + program.temp_count, 0);
    words.extend_from_slice(&program.consts);
    words.resize(program.capacity, 0);
    SlotVec::new(program.layout_id, words)
}

#[cold]
#[inline(never)]
fn new_bridged(native: &Native) -> SlotVec {
    SlotVec::new(native.layout_id, vec![0; native.bridged.len()])
}
