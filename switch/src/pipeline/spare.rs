//! Header vectors that no packet has now.
//!
//! With a vector for each of thousands of packets in flight, none would be in the cache when it is needed. A packet
//! therefore returns its vector when it leaves, and the next packet that arrives, at any switch, takes the one that was
//! used last. One vector stays with the switch, which mostly has no more than one packet: it costs less to take than one
//! that the thread keeps. This is memory, not state: a packet's processing does not depend on the vector's earlier contents.

use crate::packet::Phv;
use crate::program::Program;
use std::cell::RefCell;

/// Vectors that a thread keeps for the next packets; what queues can give back at once beyond that is freed.
const KEPT: usize = 1 << 12;

struct Spare {
    /// The program they are laid out for.
    stamp: u64,
    vectors: Vec<Vec<u64>>,
}

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare { stamp: 0, vectors: Vec::new() }) };
}

/// Gives a packet a vector laid out for a program: constants in place, the rest undefined.
pub(super) fn take(program: &Program, phv: &mut Phv) {
    let reused =
        SPARE.with_borrow_mut(|spare| (spare.stamp == program.stamp).then(|| spare.vectors.pop())?);
    if let Some(slots) = reused {
        phv.slots = slots;
        return;
    }
    phv.slots.clear();
    phv.slots.resize(program.vars + program.temps, 0);
    phv.slots.extend_from_slice(&program.consts);
    phv.slots.resize(program.capacity, 0);
}

/// Takes a packet's vector, which is laid out for `program`.
pub(super) fn give(program: &Program, slots: Vec<u64>) {
    SPARE.with_borrow_mut(|spare| {
        if spare.stamp != program.stamp {
            *spare = Spare { stamp: program.stamp, vectors: Vec::new() };
        }
        if spare.vectors.len() < KEPT {
            spare.vectors.push(slots);
        }
    });
}
