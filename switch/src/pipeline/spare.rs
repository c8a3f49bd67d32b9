//! Header vectors that no packet has now.
//!
//! With a vector for each of thousands of packets in flight, none would be in the cache when it is needed. A packet
//! therefore returns its vector when it leaves, and the next packet that arrives, at any switch, takes the one that was
//! used last. One vector stays with the switch, which mostly has no more than one packet: it costs less to take than one
//! that the thread keeps. This is memory, not state: a packet's processing does not depend on the vector's earlier contents.

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
        let mut words = vec![0; program.vars + program.temps];
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
