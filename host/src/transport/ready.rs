//! The queues of flows that may send now, one per priority class of hosts: short messages that go before long ones
//! (Dart's Pri-Q), and all others. Each has a priority class of its own in the switches, which PFC may pause.

use crate::priority::Priority;
use crate::ring::Ring;

/// Round robin within each queue.
#[derive(Debug)]
pub(super) struct ReadyQueues<T> {
    rings: [Ring<T>; Priority::ALL.len()],
    /// As it was when the NIC last asked.
    paused: [bool; Priority::ALL.len()],
}

impl<T> ReadyQueues<T> {
    pub fn new() -> ReadyQueues<T> {
        ReadyQueues { rings: [Ring::new(), Ring::new()], paused: [false; Priority::ALL.len()] }
    }

    pub fn push(&mut self, priority: Priority, waits: T) {
        self.rings[priority as usize].push_back(waits);
    }

    pub fn pause(&mut self, is_paused: impl Fn(Priority) -> bool) {
        for (paused, priority) in self.paused.iter_mut().zip(Priority::ALL) {
            *paused = is_paused(priority);
        }
    }

    pub fn is_paused(&self, priority: Priority) -> bool {
        self.paused[priority as usize]
    }

    /// Returns the next flow of the first queue that is not paused and not empty.
    pub fn pop(&mut self) -> Option<T> {
        self.rings
            .iter_mut()
            .zip(self.paused)
            .find_map(|(ring, paused)| if paused { None } else { ring.pop_front() })
    }
}
