/// The neighbours of a slot in its list. A slot is in at most one [`LruList`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    older: u32,
    newer: u32,
}

/// No slot. No vector of links has this index, so `get_mut` returns `None` for it.
const NONE: u32 = u32::MAX;

/// A doubly linked list of slots, oldest first. Several lists share one array of links, and a slot moves between them
/// in constant time.
#[derive(Debug)]
pub(super) struct LruList {
    oldest: u32,
    newest: u32,
    len: usize,
}

impl LruList {
    pub(super) const fn new() -> LruList {
        LruList { oldest: NONE, newest: NONE, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the slot that was pushed first.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Returns the slot that was pushed last.
    pub(super) fn newest(&self) -> Option<u32> {
        (self.newest != NONE).then_some(self.newest)
    }

    /// Appends `slot`, which must not be in any list, as the newest.
    pub(super) fn push(&mut self, links: &mut Vec<Links>, slot: u32) {
        let links_needed = slot as usize + 1;
        if links.len() < links_needed {
            links.resize(links_needed, Links { older: NONE, newer: NONE });
        }
        links[slot as usize] = Links { older: self.newest, newer: NONE };
        match links.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
        self.len += 1;
    }

    /// Removes `slot`, which must be in this list.
    pub(super) fn remove(&mut self, links: &mut [Links], slot: u32) {
        let Links { older, newer } = links[slot as usize];
        match links.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
        match links.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(list: &mut LruList, links: &mut [Links]) -> Vec<u32> {
        std::iter::from_fn(|| {
            let slot = list.oldest()?;
            list.remove(links, slot);
            Some(slot)
        })
        .collect()
    }

    #[test]
    fn removal_from_any_position_keeps_the_order() {
        let mut links = Vec::new();
        let (mut a, mut b) = (LruList::new(), LruList::new());
        for slot in 0..5 {
            a.push(&mut links, slot);
        }
        for slot in [2, 0, 4] {
            a.remove(&mut links, slot);
            b.push(&mut links, slot);
        }
        assert_eq!((a.len(), b.len()), (2, 3));
        assert_eq!(drain(&mut a, &mut links), [1, 3]);
        assert_eq!(drain(&mut b, &mut links), [2, 0, 4]);
        assert_eq!((a.len(), a.oldest()), (0, None));
    }
}
