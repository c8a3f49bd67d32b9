//! Working memory of a switch while a packet is in the pipeline. It is not state: results do not depend on
//! its content.
//!
//! If each of thousands of queued packets had a header vector of its own, none would be in the processor's
//! cache when needed. Machine code therefore works on one vector, and a queued packet has only the bridged
//! words that egress reads. With the interpreter a queued packet has a vector, which is recycled when the
//! packet leaves.

use crate::packet::SlotVec;
use crate::program::{MAX_HASH_BYTES, MAX_KEY_WORDS, Native, Program};

/// The most vectors, and the most bridged words, that a free list keeps.
const MAX_FREE: usize = 1 << 12;

/// The working memory of a switch, or of a thread that runs many switches: see
/// [`Switch::swap_scratch`](crate::engine::Switch::swap_scratch).
pub struct Scratch {
    /// The layout id of the program for which all vectors and bridged words are laid out.
    stamp: u32,
    vectors: FreeList,
    /// Bridged words.
    words: FreeList,
    /// Key and hash input of machine code.
    pub(super) code_key: [u64; MAX_KEY_WORDS],
    pub(super) code_bytes: [u8; MAX_HASH_BYTES],
    /// Key of a lookup.
    pub(super) key: Vec<u64>,
    /// Row of a table with extras, for machine code.
    pub(super) row: Vec<u64>,
    /// Input of a hash.
    pub(super) buffer: Vec<u8>,
    /// The headers of the frame before deparsing.
    pub(super) old: Vec<u8>,
    /// Metadata that is preserved by a clone or a re-entry.
    pub(super) kept: Vec<u64>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            stamp: 0,
            vectors: FreeList::default(),
            words: FreeList::default(),
            code_key: [0; MAX_KEY_WORDS],
            code_bytes: [0; MAX_HASH_BYTES],
            key: Vec::new(),
            row: Vec::new(),
            buffer: Vec::new(),
            old: Vec::new(),
            kept: Vec::new(),
        }
    }
}

impl Scratch {
    /// Adapts the memory to a program: drops the vectors of another one.
    #[inline]
    pub(super) fn fit(&mut self, program: &Program) {
        if self.stamp != program.layout_id {
            (self.stamp, self.vectors, self.words) =
                (program.layout_id, FreeList::default(), FreeList::default());
        }
    }

    /// Returns the vector for machine code of `program`. Constants are in place; all other slots are
    /// undefined.
    #[inline(always)]
    pub(super) fn vector(&mut self, program: &Program) -> &mut SlotVec {
        if self.vectors.first.is_none() {
            self.vectors.first = self.vectors.pop_other().unwrap_or_else(|| vector(program));
        }
        &mut self.vectors.first
    }

    /// Returns a vector, from the free list if possible. Constants are in place; all other slots are
    /// undefined.
    pub(super) fn acquire_vector(&mut self, program: &Program) -> SlotVec {
        self.vectors.take().unwrap_or_else(|| vector(program))
    }

    /// Returns a vector to the free list, unless it belongs to another program.
    pub(super) fn recycle_vector(&mut self, slots: SlotVec) {
        if slots.has_layout(self.stamp) {
            self.vectors.give(slots);
        }
    }

    /// Returns bridged words with undefined contents, from the free list if possible.
    #[inline(always)]
    pub(super) fn acquire_bridged(&mut self, native: &Native) -> SlotVec {
        self.words.take().unwrap_or_else(|| words(native))
    }

    /// Returns bridged words of this program to the free list.
    #[inline(always)]
    pub(super) fn recycle_bridged(&mut self, words: SlotVec) {
        self.words.give(words);
    }
}

/// A free list in last-in, first-out order: what was returned last is most likely in the processor's cache.
#[derive(Default)]
struct FreeList {
    /// The first element, apart from the vector: usually the only one in use.
    first: SlotVec,
    others: Vec<SlotVec>,
}

impl FreeList {
    #[inline(always)]
    fn take(&mut self) -> Option<SlotVec> {
        if self.first.is_none() { self.pop_other() } else { Some(self.first.take()) }
    }

    #[inline(never)]
    fn pop_other(&mut self) -> Option<SlotVec> {
        self.others.pop()
    }

    #[inline(always)]
    fn give(&mut self, slots: SlotVec) {
        if self.first.is_none() {
            self.first.replace_none(slots);
        } else {
            self.keep(slots);
        }
    }

    /// Out of line. Copies of multicast packets return more than was acquired, so the list is bounded.
    #[inline(never)]
    fn keep(&mut self, slots: SlotVec) {
        if self.others.len() < MAX_FREE {
            self.others.push(slots);
        }
    }
}

#[cold]
#[inline(never)]
fn vector(program: &Program) -> SlotVec {
    let mut words = Vec::with_capacity(program.capacity);
    words.resize(program.vars + program.temps, 0);
    words.extend_from_slice(&program.consts);
    words.resize(program.capacity, 0);
    SlotVec::new(program.layout_id, words)
}

#[cold]
#[inline(never)]
fn words(native: &Native) -> SlotVec {
    SlotVec::new(native.stamp, vec![0; native.carried.len()])
}
