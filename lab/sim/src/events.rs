//! The event queue: what happens next in virtual time.
//!
//! A four-ary heap of 16-byte entries, so that the four children of a node share a cache line.
//! It stays small because nothing queues here per packet: packets on a wire wait in their
//! link's own FIFO, and only the first of them has an entry (see [`crate::network`]).
//!
//! Ties in time are broken by the order of scheduling, which makes a run reproducible.

use weir_units::Time;

/// Something due at a point in time. The number is an index into the network's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first packet on the wire of this link direction arrives at its far end.
    Arrive(u32),
    /// The transmitter of this link direction has finished a frame and may take the next.
    Free(u32),
    /// The first PFC frame on the wire of this link direction arrives.
    Pfc(u32),
    /// A host asked to be woken: a pacing release or a timer.
    Wake(u32),
    /// The next flow of the workload starts.
    Flow,
    /// Time to sample queues and rates.
    Sample,
    /// The next fault happens, or the next policy is set.
    Happening,
}

const INDEX_BITS: u32 = 20;
const KIND_BITS: u32 = 4;
/// Link directions or hosts that an event can name.
pub const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;

impl Event {
    fn pack(self) -> u64 {
        let (kind, index) = match self {
            Event::Arrive(i) => (0, i),
            Event::Free(i) => (1, i),
            Event::Pfc(i) => (2, i),
            Event::Wake(i) => (3, i),
            Event::Flow => (4, 0),
            Event::Sample => (5, 0),
            Event::Happening => (6, 0),
        };
        debug_assert!(index <= MAX_INDEX);
        (u64::from(index) << KIND_BITS) | kind
    }

    fn unpack(word: u64) -> Event {
        let index = ((word >> KIND_BITS) as u32) & MAX_INDEX;
        match word & ((1 << KIND_BITS) - 1) {
            0 => Event::Arrive(index),
            1 => Event::Free(index),
            2 => Event::Pfc(index),
            3 => Event::Wake(index),
            4 => Event::Flow,
            5 => Event::Sample,
            _ => Event::Happening,
        }
    }
}

/// Picoseconds above, then `sequence | index | kind`: the order of the numbers is time, then order of scheduling.
type Entry = u128;

fn entry(time: Time, word: u64) -> Entry {
    (u128::from(time.as_ps()) << 64) | u128::from(word)
}

fn time_of(entry: Entry) -> Time {
    Time::from_ps((entry >> 64) as u64)
}

fn event_of(entry: Entry) -> Event {
    Event::unpack(entry as u64)
}

const ARITY: usize = 4;

/// Pending events, earliest first.
#[derive(Default)]
pub struct EventQueue {
    heap: Vec<Entry>,
    sequence: u64,
}

impl EventQueue {
    /// Adds `event` at `time`.
    #[inline]
    pub fn push(&mut self, time: Time, event: Event) {
        let word = (self.sequence << (INDEX_BITS + KIND_BITS)) | event.pack();
        self.sequence += 1;
        let entry = entry(time, word);
        let mut hole = self.heap.len();
        self.heap.push(entry);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.heap[parent] <= entry {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
    }

    /// Returns the earliest event, and some of those that follow, the second among them.
    #[inline]
    pub fn upcoming(&self) -> impl Iterator<Item = Event> {
        self.heap.iter().take(1 + ARITY).map(|&entry| event_of(entry))
    }

    /// Takes the earliest event.
    #[expect(clippy::missing_panics_doc, reason = "the heap was checked to have an element")]
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, Event)> {
        let first = *self.heap.first()?;
        let last = self.heap.pop().expect("not empty");
        let len = self.heap.len();
        if len > 0 {
            let mut hole = 0;
            loop {
                let child = hole * ARITY + 1;
                let (least, which) = match self.heap.get(child..child + ARITY) {
                    // The least child cannot be predicted, so it is computed without branches.
                    Some(&[a, b, c, d]) => {
                        let left = (a.min(b), child + usize::from(b < a));
                        let right = (c.min(d), child + 2 + usize::from(d < c));
                        if right.0 < left.0 { right } else { left }
                    }
                    _ => match (child..len).map(|which| (self.heap[which], which)).min() {
                        Some(least) => least,
                        None => break,
                    },
                };
                if least >= last {
                    break;
                }
                self.heap[hole] = least;
                hole = which;
            }
            self.heap[hole] = last;
        }
        Some((time_of(first), event_of(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_and_ties_in_order_of_scheduling() {
        let mut queue = EventQueue::default();
        // A small multiplicative generator: enough disorder, no dependency.
        let mut x = 1u64;
        let mut expected = Vec::new();
        for i in 0..5_000u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let time = Time::from_ps(x >> 55);
            queue.push(time, Event::Wake(i));
            expected.push((time, Event::Wake(i)));
        }
        expected.sort_by_key(|(time, _)| *time); // stable: ties keep their order
        let mut popped = Vec::new();
        let mut second = None;
        while let Some(next) = queue.pop() {
            assert!(second.is_none_or(|among: Vec<Event>| among.contains(&next.1)));
            assert_eq!(queue.upcoming().next(), expected.get(popped.len() + 1).map(|(_, event)| *event));
            popped.push(next);
            second = Some(queue.upcoming().collect());
        }
        assert!(popped == expected);
    }

    #[test]
    fn every_event_survives_packing() {
        let events = [
            Event::Arrive(MAX_INDEX),
            Event::Free(7),
            Event::Pfc(0),
            Event::Wake(3),
            Event::Flow,
            Event::Sample,
            Event::Happening,
        ];
        let mut queue = EventQueue::default();
        for event in events {
            queue.push(Time::from_ns(5), event);
        }
        for event in events {
            assert_eq!(queue.pop(), Some((Time::from_ns(5), event)));
        }
        assert_eq!(queue.pop(), None);
        assert_eq!(queue.upcoming().next(), None);
    }
}
