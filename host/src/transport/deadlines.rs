use weir_units::Time;

/// Timers by slot, at most one per slot: a binary heap with an index from slot to heap position, so that a deadline
/// can be moved or removed in logarithmic time. Equal times expire in the order in which they were set.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: Vec<Entry>,
    /// Heap index by slot, or [`ABSENT`].
    place: Vec<u32>,
    order: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Time,
    order: u64,
    slot: u32,
}

impl Entry {
    fn before(&self, other: &Entry) -> bool {
        (self.time, self.order) < (other.time, other.order)
    }
}

/// The slot has no deadline.
const ABSENT: u32 = u32::MAX;

impl Deadlines {
    /// Returns the earliest deadline.
    pub fn next(&self) -> Option<Time> {
        self.heap.first().map(|entry| entry.time)
    }

    /// Returns the deadline of `slot`.
    pub fn get(&self, slot: u32) -> Option<Time> {
        self.index(slot).map(|index| self.heap[index].time)
    }

    /// Sets or moves the deadline of `slot`.
    pub fn set(&mut self, slot: u32, time: Time) {
        self.order += 1;
        let entry = Entry { time, order: self.order, slot };
        if self.place.len() <= slot as usize {
            self.place.resize(slot as usize + 1, ABSENT);
        }
        match self.index(slot) {
            Some(index) => {
                self.heap[index] = entry;
                let index = self.sift_up(index);
                self.sift_down(index);
            }
            None => {
                self.heap.push(entry);
                self.place[slot as usize] = (self.heap.len() - 1) as u32;
                self.sift_up(self.heap.len() - 1);
            }
        }
    }

    /// Removes the deadline of `slot`, if it has one.
    pub fn remove(&mut self, slot: u32) {
        let Some(index) = self.index(slot) else { return };
        self.place[slot as usize] = ABSENT;
        self.heap.swap_remove(index);
        if let Some(moved) = self.heap.get(index) {
            self.place[moved.slot as usize] = index as u32;
            let index = self.sift_up(index);
            self.sift_down(index);
        }
    }

    /// Removes the earliest deadline and returns its slot, if that deadline is not after `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<u32> {
        let first = self.heap.first().filter(|entry| entry.time <= now)?;
        let slot = first.slot;
        self.remove(slot);
        Some(slot)
    }

    fn index(&self, slot: u32) -> Option<usize> {
        self.place.get(slot as usize).filter(|&&index| index != ABSENT).map(|&index| index as usize)
    }

    fn sift_up(&mut self, mut index: usize) -> usize {
        while index > 0 {
            let parent = (index - 1) / 2;
            if !self.heap[index].before(&self.heap[parent]) {
                break;
            }
            self.swap(index, parent);
            index = parent;
        }
        index
    }

    fn sift_down(&mut self, mut index: usize) {
        loop {
            let left = 2 * index + 1;
            let Some(mut min) = self.heap.get(left).map(|_| left) else { break };
            if let Some(right) = self.heap.get(left + 1)
                && right.before(&self.heap[left])
            {
                min = left + 1;
            }
            if !self.heap[min].before(&self.heap[index]) {
                break;
            }
            self.swap(index, min);
            index = min;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a].slot as usize] = a as u32;
        self.place[self.heap[b].slot as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Against a map that is searched: every operation, moved and removed deadlines included.
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec((0u32..20, prop::option::of(0u64..50), 0u64..50), 0..200)) {
            let mut heap = Deadlines::default();
            let mut model: BTreeMap<u32, (Time, usize)> = BTreeMap::new();
            for (order, (slot, time, now)) in steps.into_iter().enumerate() {
                match time.map(Time::from_ps) {
                    Some(time) => {
                        heap.set(slot, time);
                        model.insert(slot, (time, order));
                    }
                    None => {
                        heap.remove(slot);
                        model.remove(&slot);
                    }
                }
                let first = model.iter().map(|(&slot, &at)| (at, slot)).min();
                prop_assert_eq!(heap.next(), first.map(|((time, _), _)| time));
                prop_assert_eq!(heap.get(slot), model.get(&slot).map(|&(time, _)| time));
                let now = Time::from_ps(now);
                let due = first.filter(|((time, _), _)| *time <= now).map(|(_, slot)| slot);
                prop_assert_eq!(heap.pop_due(now), due);
                if let Some(slot) = due {
                    model.remove(&slot);
                }
            }
        }
    }
}
