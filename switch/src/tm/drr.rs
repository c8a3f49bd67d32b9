//! Deficit weighted round robin (Shreedhar and Varghese, SIGCOMM 1995) over some of a port's queues.

use super::MAX_PRIORITIES;

const QUEUES: usize = MAX_PRIORITIES as usize;
/// Bytes that the queue of the smallest weight may send in a round. Ours: about a full frame, so that queues take turns
/// often.
const MIN_QUANTUM: u64 = 1_536;

/// The weights of a switch, the same at every port.
#[derive(Debug)]
pub(super) struct DrrWeights {
    /// A bit for each queue that is served by weight.
    pub mask: u8,
    /// Bytes that a queue may send in a round.
    quanta: [u64; QUEUES],
}

impl DrrWeights {
    /// Returns those of the queues 1, 2, ...
    pub fn new(weights: &[u16]) -> DrrWeights {
        let min = u64::from(weights.iter().copied().min().unwrap_or(1).max(1));
        let mut all = DrrWeights { mask: 0, quanta: [0; QUEUES] };
        for (queue, &weight) in (1..QUEUES).zip(weights) {
            all.mask |= 1 << queue;
            all.quanta[queue] = MIN_QUANTUM * u64::from(weight) / min;
        }
        all
    }
}

/// The state of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrrState {
    /// The queue whose turn it is.
    current: u8,
    /// Bytes that each may still send in its turn.
    deficits: [u64; QUEUES],
}

impl DrrState {
    /// Returns the queue that sends next of those in `waiting`, a bit each and one at least, and the state when it has;
    /// `head` is the length of a queue's first packet.
    pub fn select(mut self, weights: &DrrWeights, waiting: u8, head: impl Fn(u8) -> u64) -> (u8, DrrState) {
        // Who has nothing to send keeps nothing.
        for (queue, deficit) in self.deficits.iter_mut().enumerate() {
            if waiting & 1 << queue == 0 {
                *deficit = 0;
            }
        }
        loop {
            let queue = self.current;
            if waiting & 1 << queue != 0 {
                let (deficit, len) = (&mut self.deficits[usize::from(queue)], head(queue));
                if *deficit >= len {
                    *deficit -= len;
                    return (queue, self);
                }
            }
            self.current = (queue + 1) % MAX_PRIORITIES;
            if waiting & 1 << self.current != 0 {
                self.deficits[usize::from(self.current)] += weights.quanta[usize::from(self.current)];
            }
        }
    }
}
