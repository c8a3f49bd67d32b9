//! Header vectors, and parts of them, that no packet has now.
//!
//! With a vector for each of thousands of packets in queues, none would be in the cache when it is needed. Machine code
//! therefore has one for each switch, and packets in queues carry only the words that egress reads. With the interpreter
//! a packet in a queue has a vector, which it returns when it leaves: the next one that arrives, at any switch, takes the
//! vector that was used last. This is memory, not state: a packet's processing does not depend on the vector's earlier
//! contents.

use crate::packet::Slots;
use crate::program::{Native, Program};
use std::cell::RefCell;

/// Vectors that a thread keeps for the next packets, and parts of them that a switch keeps; what queues can give back at once
/// beyond that is freed.
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

/// Words that machine code gives the next packets to carry: a stack of those that packets have given back, as those of the
/// last one are in the cache. `Vec::push` would be a call.
#[derive(Default)]
pub(super) struct Words {
    /// The first `count` are there.
    places: Box<[Slots]>,
    count: usize,
}

impl Words {
    /// Returns words for the machine code of the switch, whatever they hold.
    #[inline(always)]
    pub fn take(&mut self, native: &Native) -> Slots {
        let last = self.count.wrapping_sub(1);
        let Some(place) = self.places.get_mut(last) else { return words(native) };
        self.count = last;
        place.take()
    }

    /// Takes words of the machine code of the switch.
    #[inline(always)]
    pub fn give(&mut self, words: Slots) {
        match self.places.get_mut(self.count) {
            Some(place) => {
                // It was empty, so there is nothing to drop.
                std::mem::forget(std::mem::replace(place, words));
                self.count += 1;
            }
            None => self.grow(words),
        }
    }

    /// Makes room. Copies of multicast packets give back more than was taken, for ever: what is too much is freed.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, words: Slots) {
        if self.count < KEPT {
            let mut places = std::mem::take(&mut self.places).into_vec();
            places.push(words);
            self.count = places.len();
            places.resize_with((2 * self.count).min(KEPT), Slots::default);
            self.places = places.into_boxed_slice();
        }
    }
}

#[cold]
#[inline(never)]
fn words(native: &Native) -> Slots {
    Slots::new(native.stamp, vec![0; native.carried.len()])
}
