//! A FIFO queue for the per-packet paths: like `VecDeque`, but its operations are inlined, and an empty queue is
//! small.

/// A FIFO queue. Its capacity grows as needed and is never released. The struct is kept small because a fabric has
/// several rings per port.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    /// The slots. Their number is a power of two, or 0.
    slots: Box<[Option<T>]>,
    /// Index of the oldest item.
    head: u32,
    len: u32,
}

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring { slots: Box::default(), head: 0, len: 0 }
    }
}

impl<T> Ring<T> {
    /// Capacity after the first insertion.
    const MIN_CAPACITY: usize = 4;

    /// Creates an empty queue, which allocates no memory.
    pub fn new() -> Ring<T> {
        Ring::default()
    }

    /// Returns whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the number of items that fit without growing.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns the oldest item; `None` if the queue is empty.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.slots.get(self.head as usize)?.as_ref()
    }

    /// Returns the slot of the item at position `index` from the front, without reading it. For prefetching an item
    /// that is probably not in the cache.
    #[inline]
    pub fn slot_at(&self, index: usize) -> Option<&Option<T>> {
        self.slots.get((self.head as usize + index) & self.slots.len().wrapping_sub(1))
    }

    /// Appends an item.
    #[inline]
    pub fn push_back(&mut self, item: T) {
        if self.len as usize == self.slots.len() {
            self.grow();
        }
        let index = (self.head + self.len) as usize & (self.slots.len() - 1);
        // The slot is known to be `None`. Dropping the old value would read it first; `forget` makes the access a
        // pure store, which does not stall on a cache miss.
        std::mem::forget(self.slots[index].replace(item));
        self.len += 1;
    }

    /// Removes and returns the oldest item.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        let item = self.slots.get_mut(self.head as usize)?.take()?;
        self.len -= 1;
        // An emptied queue starts again at the first slots, which are still in the cache.
        let mask = self.slots.len() as u32 - 1;
        self.head = if self.len == 0 { 0 } else { (self.head + 1) & mask };
        Some(item)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut slots = std::mem::take(&mut self.slots).into_vec();
        slots.rotate_left(self.head as usize);
        self.head = 0;
        let capacity = (2 * slots.len()).max(Self::MIN_CAPACITY);
        slots.resize_with(capacity, || None);
        self.slots = slots.into_boxed_slice();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn behaves_like_a_vec_deque_while_growing() {
        let (mut ring, mut model, mut next) = (Ring::new(), VecDeque::new(), 0_u32);
        for round in 0..200_u32 {
            for _ in 0..round * 7 % 23 {
                ring.push_back(next);
                model.push_back(next);
                next += 1;
            }
            for _ in 0..round * 5 % 19 {
                assert_eq!(ring.front(), model.front());
                assert_eq!(ring.pop_front(), model.pop_front());
            }
            assert_eq!((ring.len(), ring.is_empty()), (model.len(), model.is_empty()));
            for (index, item) in model.iter().enumerate() {
                assert_eq!(ring.slot_at(index), Some(&Some(*item)));
            }
        }
        while let Some(item) = model.pop_front() {
            assert_eq!(ring.pop_front(), Some(item));
        }
        assert_eq!(ring.front(), None);
        assert_eq!(ring.pop_front(), None);
        assert!(ring.capacity().is_power_of_two());
    }
}
