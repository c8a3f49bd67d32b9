//! The queues of flows that may send now, one per priority class of hosts: short messages that go before long ones
//! (Dart's Pri-Q), and all others. Each has a priority class of its own in the switches, which PFC may pause.

use crate::lane::Lane;
use std::collections::VecDeque;

/// Round robin within each queue.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    rings: [VecDeque<T>; Lane::ALL.len()],
    /// As it was when the NIC last asked.
    paused: [bool; Lane::ALL.len()],
}

impl<T> Lanes<T> {
    pub fn new() -> Lanes<T> {
        Lanes { rings: [VecDeque::new(), VecDeque::new()], paused: [false; Lane::ALL.len()] }
    }

    pub fn push(&mut self, lane: Lane, waits: T) {
        self.rings[lane as usize].push_back(waits);
    }

    pub fn pause(&mut self, is_paused: impl Fn(Lane) -> bool) {
        self.paused = Lane::ALL.map(is_paused);
    }

    pub fn is_paused(&self, lane: Lane) -> bool {
        self.paused[lane as usize]
    }

    /// Returns the next flow of the first queue that is not paused and not empty.
    pub fn pop(&mut self) -> Option<T> {
        self.rings
            .iter_mut()
            .zip(self.paused)
            .find_map(|(ring, paused)| if paused { None } else { ring.pop_front() })
    }
}
