//! Deficit weighted round robin (Shreedhar and Varghese, SIGCOMM 1995) over some of a port's queues.

use super::MAX_PRIORITIES;

const QUEUES: usize = MAX_PRIORITIES as usize;
/// Bytes that the queue of the smallest weight may send in a round. Ours: about a full frame, so that queues take turns
/// often.
const LEAST_QUANTUM: u64 = 1_536;

/// The weights of a switch, the same at every port.
#[derive(Debug)]
pub(super) struct Weights {
    /// A bit for each queue that is served by weight.
    pub mask: u8,
    /// Bytes that a queue may send in a round.
    quanta: [u64; QUEUES],
}

impl Weights {
    /// Returns those of the queues 1, 2, ...
    pub fn new(weights: &[u16]) -> Weights {
        let least = u64::from(weights.iter().copied().min().unwrap_or(1).max(1));
        let mut all = Weights { mask: 0, quanta: [0; QUEUES] };
        for (queue, &weight) in (1..QUEUES).zip(weights) {
            all.mask |= 1 << queue;
            all.quanta[queue] = LEAST_QUANTUM * u64::from(weight) / least;
        }
        all
    }
}

/// The state of a port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    /// The queue whose turn it is.
    turn: u8,
    /// Bytes that each may still send in its turn.
    deficits: [u64; QUEUES],
}

impl Turns {
    /// Returns the queue that sends next of those in `waiting`, a bit each and one at least, and the state when it has;
    /// `head` is the length of a queue's first packet.
    pub fn next(mut self, weights: &Weights, waiting: u8, head: impl Fn(u8) -> u64) -> (u8, Turns) {
        // Who has nothing to send keeps nothing.
        for (queue, deficit) in self.deficits.iter_mut().enumerate() {
            if waiting & 1 << queue == 0 {
                *deficit = 0;
            }
        }
        loop {
            let queue = self.turn;
            if waiting & 1 << queue != 0 {
                let (deficit, len) = (&mut self.deficits[usize::from(queue)], head(queue));
                if *deficit >= len {
                    *deficit -= len;
                    return (queue, self);
                }
            }
            self.turn = (queue + 1) % MAX_PRIORITIES;
            if waiting & 1 << self.turn != 0 {
                self.deficits[usize::from(self.turn)] += weights.quanta[usize::from(self.turn)];
            }
        }
    }
}
