//! FIFO queues as linked lists in one slab, which all queues of a switch share. After the first burst nothing
//! is allocated.

use weir_units::Time;

/// Marks the end of a list.
const NIL: u32 = u32::MAX;

/// An item in a queue.
#[derive(Debug)]
pub(super) struct QueuedItem<T> {
    pub item: T,
    /// Length in bytes.
    pub len: u32,
    /// Time at which the item was queued.
    pub enqueued: Time,
    /// Number of packets in the queue before this one was queued.
    pub depth: u32,
    /// Index of the PFC account to which the item is charged; `None` if its class is lossy.
    pub account: Option<u32>,
}

/// An element of a queue or of the list of free nodes.
#[derive(Debug)]
struct Node<T> {
    /// `None` if the node is free.
    queued: Option<QueuedItem<T>>,
    next: u32,
}

/// The memory of all queues.
#[derive(Debug)]
pub(super) struct Slab<T> {
    nodes: Vec<Node<T>>,
    /// Index of the first free node; [`NIL`] if there is none.
    first_free: u32,
}

/// A queue: the ends of its list, and its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    head: u32,
    tail: u32,
    pub packets: u32,
    pub bytes: u64,
}

impl Default for Fifo {
    fn default() -> Fifo {
        Fifo { head: NIL, tail: NIL, packets: 0, bytes: 0 }
    }
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { nodes: Vec::new(), first_free: NIL }
    }

    /// Appends an item to `fifo`.
    #[inline(always)]
    pub(super) fn push(&mut self, fifo: &mut Fifo, queued: QueuedItem<T>) {
        fifo.packets += 1;
        fifo.bytes += u64::from(queued.len);
        let node = Node { queued: Some(queued), next: NIL };
        let index = if self.first_free == NIL {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let index = self.first_free;
            let free_node = &mut self.nodes[index as usize];
            self.first_free = free_node.next;
            // The free node has no item, so forgetting it leaks nothing and saves the call to its destructor.
            std::mem::forget(std::mem::replace(free_node, node));
            index
        };
        if fifo.head == NIL {
            fifo.head = index;
        } else {
            self.nodes[fifo.tail as usize].next = index;
        }
        fifo.tail = index;
    }

    /// Removes the oldest item of `fifo`.
    #[inline(always)]
    pub(super) fn pop(&mut self, fifo: &mut Fifo) -> Option<QueuedItem<T>> {
        let index = fifo.head;
        let node = self.nodes.get_mut(index as usize)?;
        let queued = node.queued.take()?;
        fifo.head = node.next;
        node.next = self.first_free;
        self.first_free = index;
        fifo.packets -= 1;
        fifo.bytes -= u64::from(queued.len);
        Some(queued)
    }

    /// Returns the oldest item of `fifo`.
    #[inline]
    pub(super) fn first(&self, fifo: &Fifo) -> Option<&QueuedItem<T>> {
        self.nodes.get(fifo.head as usize)?.queued.as_ref()
    }

    /// Returns the items of `fifo`, oldest first.
    pub(super) fn iter(&self, fifo: &Fifo) -> impl Iterator<Item = &QueuedItem<T>> {
        let mut next = fifo.head;
        std::iter::from_fn(move || {
            let node = self.nodes.get(next as usize)?;
            next = node.next;
            node.queued.as_ref()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_to_the_peak_and_no_further() {
        let (mut slab, mut fifos) = (Slab::new(), [Fifo::default(); 2]);
        let queued = |item| QueuedItem { item, len: 1, enqueued: Time::ZERO, depth: 0, account: None };
        for round in 0..1_000u32 {
            for n in 0..3 {
                slab.push(&mut fifos[(n % 2) as usize], queued(round + n));
            }
            for n in 0..3 {
                assert_eq!(slab.pop(&mut fifos[(n % 2) as usize]).map(|queued| queued.item), Some(round + n));
            }
        }
        assert_eq!(slab.nodes.len(), 3);
        assert!(slab.pop(&mut fifos[0]).is_none());
    }
}
