//! Deficit round robin (DRR; Shreedhar and Varghese, SIGCOMM 1995) over the weighted queues of a port.

use super::MAX_PRIORITIES;

const QUEUES: usize = MAX_PRIORITIES as usize;
/// The quantum of the smallest weight in bytes: about a full frame, so that queues alternate often.
const MIN_QUANTUM: u64 = 1_536;

/// The weights, the same at every port.
#[derive(Debug)]
pub(super) struct DrrWeights {
    /// The weighted queues, one bit each.
    pub mask: u8,
    /// Bytes that each queue may send per round; 0 for queues without a weight.
    quanta: [u64; QUEUES],
}

impl DrrWeights {
    /// Computes the quanta; `weights[0]` is that of queue 1, since queue 0 is served by strict priority.
    pub(super) fn new(weights: &[u16]) -> DrrWeights {
        // `max(1)`: no division by 0, although `TmConfig::check` rejects weights of 0.
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
    /// The queue that is being served.
    current: u8,
    /// Bytes that each queue may still send in this round.
    deficits: [u64; QUEUES],
}

impl DrrState {
    /// Selects the queue to serve among `candidates`: weighted queues that may send now, one bit each, at least one.
    /// `head_len` returns the length in bytes of a queue's first packet. Returns the queue, and the state after its
    /// first packet is sent.
    pub(super) fn select(
        mut self,
        weights: &DrrWeights,
        candidates: u8,
        head_len: impl Fn(u8) -> u64,
    ) -> (u8, DrrState) {
        // A queue without a sendable packet loses its deficit, as DRR demands: an idle queue must not
        // accumulate credit.
        for (queue, deficit) in self.deficits.iter_mut().enumerate() {
            if candidates & 1 << queue == 0 {
                *deficit = 0;
            }
        }
        // Terminates: each round adds at least `MIN_QUANTUM` to the deficit of every candidate.
        loop {
            let queue = self.current;
            if candidates & 1 << queue != 0 {
                let (deficit, len) = (&mut self.deficits[usize::from(queue)], head_len(queue));
                if *deficit >= len {
                    *deficit -= len;
                    return (queue, self);
                }
            }
            self.current = (queue + 1) % MAX_PRIORITIES;
            if candidates & 1 << self.current != 0 {
                self.deficits[usize::from(self.current)] += weights.quanta[usize::from(self.current)];
            }
        }
    }
}
