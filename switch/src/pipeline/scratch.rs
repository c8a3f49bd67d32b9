//! Memory that a switch works with while a packet is in the pipeline: no state, a packet's processing does not depend on what
//! it holds.
//!
//! A header vector of its own for each of thousands of packets in queues would be in no cache when it is needed. Machine code
//! therefore works on one vector, and packets in queues carry only the words that egress reads. With the interpreter a packet
//! in a queue has a vector, which it gives back when it leaves, for the next one that arrives.

use crate::packet::Slots;
use crate::program::{KEY_WORDS, MAX_BYTES, Native, Program};

/// Vectors that are kept for the next packets, and parts of them; what queues can give back at once beyond that is freed.
const KEPT: usize = 1 << 12;

/// The memory of a switch, or of a thread that runs many: see [`Switch::swap_scratch`](crate::engine::Switch::swap_scratch).
pub struct Scratch {
    /// The stamp of the program that all vectors are laid out for, and the words for its machine code.
    stamp: u32,
    vectors: Stack,
    /// Words that packets may carry from ingress to egress.
    words: Stack,
    /// In which machine code builds keys and the input of hashes.
    pub(super) code_key: [u64; KEY_WORDS],
    pub(super) code_bytes: [u8; MAX_BYTES],
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
            vectors: Stack::default(),
            words: Stack::default(),
            code_key: [0; KEY_WORDS],
            code_bytes: [0; MAX_BYTES],
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
        if self.stamp != program.stamp {
            (self.stamp, self.vectors, self.words) = (program.stamp, Stack::default(), Stack::default());
        }
    }

    /// Returns the vector that machine code of `program` works on. Its constants are in place, the rest is undefined.
    #[inline(always)]
    pub(super) fn vector(&mut self, program: &Program) -> &mut Slots {
        if self.vectors.first.is_none() {
            self.vectors.first = self.vectors.another().unwrap_or_else(|| vector(program));
        }
        &mut self.vectors.first
    }

    /// Gives a packet a vector.
    pub(super) fn take_vector(&mut self, program: &Program) -> Slots {
        self.vectors.take().unwrap_or_else(|| vector(program))
    }

    /// Takes the vector of a packet.
    pub(super) fn give_vector(&mut self, slots: Slots) {
        if slots.are_of(self.stamp) {
            self.vectors.give(slots);
        }
    }

    /// Gives a packet words for machine code, whatever they hold.
    #[inline(always)]
    pub(super) fn take_words(&mut self, native: &Native) -> Slots {
        self.words.take().unwrap_or_else(|| words(native))
    }

    /// Takes the words of a packet, which were for the machine code of this program.
    #[inline(always)]
    pub(super) fn give_words(&mut self, words: Slots) {
        self.words.give(words);
    }
}

/// Slots that no packet has now. Those that were given last are in the caches: they are taken first.
#[derive(Default)]
struct Stack {
    /// Mostly the only ones.
    first: Slots,
    others: Vec<Slots>,
}

impl Stack {
    #[inline(always)]
    fn take(&mut self) -> Option<Slots> {
        if self.first.is_none() { self.another() } else { Some(self.first.take()) }
    }

    #[inline(never)]
    fn another(&mut self) -> Option<Slots> {
        self.others.pop()
    }

    #[inline(always)]
    fn give(&mut self, slots: Slots) {
        if self.first.is_none() {
            self.first.fill(slots);
        } else {
            self.keep(slots);
        }
    }

    /// Copies of multicast packets give back more than was taken, for ever: what is too much is freed.
    #[inline(never)]
    fn keep(&mut self, slots: Slots) {
        if self.others.len() < KEPT {
            self.others.push(slots);
        }
    }
}

#[cold]
#[inline(never)]
fn vector(program: &Program) -> Slots {
    let mut words = Vec::with_capacity(program.capacity);
    words.resize(program.vars + program.temps, 0);
    words.extend_from_slice(&program.consts);
    words.resize(program.capacity, 0);
    Slots::new(program.stamp, words)
}

#[cold]
#[inline(never)]
fn words(native: &Native) -> Slots {
    Slots::new(native.stamp, vec![0; native.carried.len()])
}
