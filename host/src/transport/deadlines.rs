use weir_units::Time;

/// Timers by slot, at most one per slot: a binary heap with an index from slot to heap position, so that a deadline
/// can be moved or removed in logarithmic time. Equal times expire in the order in which they were set.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    heap: Vec<Entry>,
    /// Heap index by slot, or [`ABSENT`].
    heap_index: Vec<u32>,
    /// Sequence number of the last deadline set; breaks ties between equal times.
    seq: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Time,
    seq: u64,
    slot: u32,
}

impl Entry {
    fn is_before(&self, other: &Entry) -> bool {
        (self.time, self.seq) < (other.time, other.seq)
    }
}

/// Heap index of a slot that has no deadline.
const ABSENT: u32 = u32::MAX;

impl Deadlines {
    /// Returns the earliest deadline.
    pub(super) fn earliest(&self) -> Option<Time> {
        self.heap.first().map(|entry| entry.time)
    }

    /// Returns the deadline of `slot`.
    pub(super) fn get(&self, slot: u32) -> Option<Time> {
        self.heap_index_of(slot).map(|index| self.heap[index].time)
    }

    /// Sets or moves the deadline of `slot`.
    pub(super) fn set(&mut self, slot: u32, time: Time) {
        self.seq += 1;
        let entry = Entry { time, seq: self.seq, slot };
        if self.heap_index.len() <= slot as usize {
            self.heap_index.resize(slot as usize + 1, ABSENT);
        }
        match self.heap_index_of(slot) {
            Some(index) => {
                self.heap[index] = entry;
                let index = self.sift_up(index);
                self.sift_down(index);
            }
            None => {
                self.heap.push(entry);
                self.heap_index[slot as usize] = (self.heap.len() - 1) as u32;
                self.sift_up(self.heap.len() - 1);
            }
        }
    }

    /// Removes the deadline of `slot`, if it has one.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(index) = self.heap_index_of(slot) else { return };
        self.heap_index[slot as usize] = ABSENT;
        self.heap.swap_remove(index);
        if let Some(moved) = self.heap.get(index) {
            self.heap_index[moved.slot as usize] = index as u32;
            let index = self.sift_up(index);
            self.sift_down(index);
        }
    }

    /// Removes the earliest deadline and returns its slot, if that deadline is not after `now`.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<u32> {
        let first = self.heap.first().filter(|entry| entry.time <= now)?;
        let slot = first.slot;
        self.remove(slot);
        Some(slot)
    }

    fn heap_index_of(&self, slot: u32) -> Option<usize> {
        self.heap_index.get(slot as usize).filter(|&&index| index != ABSENT).map(|&index| index as usize)
    }

    fn sift_up(&mut self, mut index: usize) -> usize {
        while index > 0 {
            let parent = (index - 1) / 2;
            if !self.heap[index].is_before(&self.heap[parent]) {
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
                && right.is_before(&self.heap[left])
            {
                min = left + 1;
            }
            if !self.heap[min].is_before(&self.heap[index]) {
                break;
            }
            self.swap(index, min);
            index = min;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.heap_index[self.heap[a].slot as usize] = a as u32;
        self.heap_index[self.heap[b].slot as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares every operation, including moves and removals, with a map whose minimum is found by a scan.
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec((0u32..20, prop::option::of(0u64..50), 0u64..50), 0..200)) {
            let mut heap = Deadlines::default();
            let mut model: BTreeMap<u32, (Time, usize)> = BTreeMap::new();
            for (seq, (slot, time, now)) in steps.into_iter().enumerate() {
                match time.map(Time::from_ps) {
                    Some(time) => {
                        heap.set(slot, time);
                        model.insert(slot, (time, seq));
                    }
                    None => {
                        heap.remove(slot);
                        model.remove(&slot);
                    }
                }
                let first = model.iter().map(|(&slot, &key)| (key, slot)).min();
                prop_assert_eq!(heap.earliest(), first.map(|((time, _), _)| time));
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
