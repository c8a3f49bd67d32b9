//! Queues of subflows that may send now, one per [`Priority`]: short messages, which go before long ones (Dart's
//! Pri-Q), and all others. Each has its own priority class in the switches, which PFC may pause.

use crate::priority::Priority;
use crate::ring::Ring;

/// The ready queues. Each is served round robin, because a subflow is appended again after it has sent.
#[derive(Debug)]
pub(super) struct ReadyQueues<T> {
    rings: [Ring<T>; Priority::ALL.len()],
    /// The priorities paused at the last call of `set_paused`, one bit each. One byte rather than an array, so that
    /// reading it right after writing it avoids a store-forwarding stall.
    paused: u8,
}

impl<T> ReadyQueues<T> {
    pub(super) fn new() -> ReadyQueues<T> {
        ReadyQueues { rings: [Ring::new(), Ring::new()], paused: 0 }
    }

    /// Appends a subflow to the queue of its message's priority.
    pub(super) fn push(&mut self, priority: Priority, subflow: T) {
        self.rings[priority as usize].push_back(subflow);
    }

    /// Sets which priorities PFC pauses.
    pub(super) fn set_paused(&mut self, is_paused: impl Fn(Priority) -> bool) {
        let mut paused = 0;
        for priority in Priority::ALL {
            paused |= u8::from(is_paused(priority)) << priority as u8;
        }
        self.paused = paused;
    }

    pub(super) fn is_paused(&self, priority: Priority) -> bool {
        self.paused >> priority as u8 & 1 != 0
    }

    /// Removes and returns the next subflow of the first queue that is neither paused nor empty.
    pub(super) fn pop(&mut self) -> Option<T> {
        let paused = self.paused;
        let mut rings = (0u8..).zip(&mut self.rings).filter(|(bit, _)| paused >> bit & 1 == 0);
        rings.find_map(|(_, ring)| ring.pop_front())
    }
}
