/// Identifies a value in a [`Slab`]. Stays invalid after the value is removed, because the generation of the slot
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub slot: u32,
    generation: u32,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values in slots, which are reused after removal. The key of a removed value finds nothing.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// Indices of the slots without a value.
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, value: None });
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        entry.value = Some(value);
        Key { slot, generation: entry.generation }
    }

    /// Removes and returns the value in `slot`; `None` if the slot is free.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<T> {
        let entry = self.slots.get_mut(slot as usize)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(slot);
        Some(value)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let entry = self.slots.get(key.slot as usize)?;
        entry.value.as_ref().filter(|_| entry.generation == key.generation)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.slots.get_mut(key.slot as usize)?;
        entry.value.as_mut().filter(|_| entry.generation == key.generation)
    }

    /// Returns all values, in the order of their slots.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    /// Returns the range of all slots, including free ones.
    pub(crate) fn slots(&self) -> std::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    /// Returns the value in `slot`, of any generation; `None` if the slot is free.
    pub(crate) fn get_slot(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.value.as_ref()
    }

    pub(crate) fn get_slot_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.value.as_mut()
    }

    /// Returns the key of the present value in `slot`. The slot must exist.
    pub(crate) fn key(&self, slot: u32) -> Key {
        Key { slot, generation: self.slots[slot as usize].generation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_keys_find_nothing() {
        let mut slab = Slab::default();
        let a = slab.insert('a');
        assert_eq!(slab.remove(a.slot), Some('a'));
        let b = slab.insert('b');
        assert_eq!(a.slot, b.slot);
        assert_eq!((slab.get(a), slab.get(b), slab.len()), (None, Some(&'b'), 1));
        assert_eq!(slab.key(b.slot), b);
        assert_eq!(slab.remove(7), None);
    }
}
