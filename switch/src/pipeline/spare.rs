//! Header vectors that no packet has now.
//!
//! With a vector for each of thousands of packets in queues, none would be in the cache when it is needed. Machine code
//! therefore has one for each switch, and packets in queues carry only the words that egress reads. With the interpreter
//! a packet in a queue has a vector, which it returns when it leaves: the next one that arrives, at any switch, takes the
//! vector that was used last. This is memory, not state: a packet's processing does not
//! depend on the vector's earlier contents.

use crate::packet::Slots;
use crate::program::Program;
use std::cell::RefCell;

/// Vectors that a thread keeps for the next packets; what queues can give back at once beyond that is freed.
const KEPT: usize = 1 << 12;

thread_local! {
    /// All of one program.
    static SPARE: RefCell<Vec<Slots>> = const { RefCell::new(Vec::new()) };
}

/// Returns a vector laid out for a program: constants in place, the rest undefined.
pub(super) fn take(program: &Program) -> Slots {
    let reused = SPARE.with_borrow_mut(|spare| {
        let last = spare.last()?;
        if last.are_of(program.stamp) { spare.pop() } else { None }
    });
    reused.unwrap_or_else(|| {
        let mut words = Vec::with_capacity(program.capacity);
        words.resize(program.vars + program.temps, 0);
        words.extend_from_slice(&program.consts);
        words.resize(program.capacity, 0);
        Slots::new(program.stamp, words)
    })
}

/// Takes a packet's vector, which is laid out for `program`.
pub(super) fn give(program: &Program, slots: Slots) {
    SPARE.with_borrow_mut(|spare| {
        if spare.last().is_some_and(|last| !last.are_of(program.stamp)) {
            spare.clear();
        }
        if spare.len() < KEPT {
            spare.push(slots);
        }
    });
}
