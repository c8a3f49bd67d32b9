//! Memory that a switch works with while a packet is in the pipeline: no state, a packet's processing does not depend on what
//! it holds.
//!
//! A header vector of its own for each of thousands of packets in queues would be in no cache when it is needed. Machine code
//! therefore works on one vector, and packets in queues carry only the words that egress reads. With the interpreter a packet
//! in a queue has a vector, which it gives back when it leaves, for the next one that arrives.

use crate::packet::SlotVec;
use crate::program::{MAX_HASH_BYTES, MAX_KEY_WORDS, Native, Program};

/// Vectors that are kept for the next packets, and parts of them; what queues can give back at once beyond that is freed.
const MAX_FREE: usize = 1 << 12;

/// The memory of a switch, or of a thread that runs many: see [`Switch::swap_scratch`](crate::engine::Switch::swap_scratch).
pub struct Scratch {
    /// The stamp of the program that all vectors are laid out for, and the words for its machine code.
    stamp: u32,
    vectors: FreeList,
    /// Words that packets may carry from ingress to egress.
    words: FreeList,
    /// In which machine code builds keys and the input of hashes.
    pub(super) code_key: [u64; MAX_KEY_WORDS],
    pub(super) code_bytes: [u8; MAX_HASH_BYTES],
    /// Keys.
    pub(super) key: Vec<u64>,
    /// A row of a table.
    pub(super) row: Vec<u64>,
    /// The input of a hash.
    pub(super) buffer: Vec<u8>,
    /// Headers as they were.
    pub(super) old: Vec<u8>,
    /// Metadata that is kept.
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
    /// Becomes memory for this program.
    #[inline]
    pub(super) fn fit(&mut self, program: &Program) {
        if self.stamp != program.layout_id {
            (self.stamp, self.vectors, self.words) =
                (program.layout_id, FreeList::default(), FreeList::default());
        }
    }

    /// Returns the vector that machine code of `program` works on. Its constants are in place, the rest is undefined.
    #[inline(always)]
    pub(super) fn vector(&mut self, program: &Program) -> &mut SlotVec {
        if self.vectors.first.is_none() {
            self.vectors.first = self.vectors.pop_other().unwrap_or_else(|| vector(program));
        }
        &mut self.vectors.first
    }

    /// Gives a packet a vector.
    pub(super) fn acquire_vector(&mut self, program: &Program) -> SlotVec {
        self.vectors.take().unwrap_or_else(|| vector(program))
    }

    /// Takes the vector of a packet.
    pub(super) fn recycle_vector(&mut self, slots: SlotVec) {
        if slots.has_layout(self.stamp) {
            self.vectors.give(slots);
        }
    }

    /// Gives a packet words for machine code, whatever they hold.
    #[inline(always)]
    pub(super) fn acquire_bridged(&mut self, native: &Native) -> SlotVec {
        self.words.take().unwrap_or_else(|| words(native))
    }

    /// Takes the words of a packet, which were for the machine code of this program.
    #[inline(always)]
    pub(super) fn recycle_bridged(&mut self, words: SlotVec) {
        self.words.give(words);
    }
}

/// Slots that no packet has now. Those that were given last are in the caches: they are taken first.
#[derive(Default)]
struct FreeList {
    /// Mostly the only ones.
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

    /// Copies of multicast packets give back more than was taken, for ever: what is too much is freed.
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
