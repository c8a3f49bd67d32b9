//! The queues of flows that may send now, one per priority class of hosts: short messages that go before long ones
//! (Dart's Pri-Q), and all others. Each has a priority class of its own in the switches, which PFC may pause.

use crate::priority::Priority;
use crate::ring::Ring;

/// Round robin within each queue.
#[derive(Debug)]
pub(super) struct ReadyQueues<T> {
    rings: [Ring<T>; Priority::ALL.len()],
    /// Those that were paused when the NIC last asked, one bit each: written and read as one byte, it is not waited for.
    paused: u8,
}

impl<T> ReadyQueues<T> {
    pub fn new() -> ReadyQueues<T> {
        ReadyQueues { rings: [Ring::new(), Ring::new()], paused: 0 }
    }

    pub fn push(&mut self, priority: Priority, waits: T) {
        self.rings[priority as usize].push_back(waits);
    }

    pub fn set_paused(&mut self, is_paused: impl Fn(Priority) -> bool) {
        let bit = |priority| u8::from(is_paused(priority)) << priority as u8;
        self.paused = Priority::ALL.into_iter().map(bit).sum();
    }

    pub fn is_paused(&self, priority: Priority) -> bool {
        self.paused >> priority as u8 & 1 != 0
    }

    /// Returns the next flow of the first queue that is not paused and not empty.
    pub fn pop(&mut self) -> Option<T> {
        let paused = self.paused;
        let mut rings = (0u8..).zip(&mut self.rings).filter(|(bit, _)| paused >> bit & 1 == 0);
        rings.find_map(|(_, ring)| ring.pop_front())
    }
}
