//! The order of events in virtual time, and the queue of those to come.
//!
//! # The order
//!
//! Events run in the order of their [`Key`]s: by time, and at one time by the time at which they were scheduled. If that is
//! the same too, the process's own events come first, in the order in which they were scheduled, and then frames of other
//! processes by the number of the link. A counter over the whole fabric would depend on which thread was faster. Of these
//! three nothing does: an event of one process has the same place whatever the others do meanwhile.
//!
//! # The queue
//!
//! Each process has one. It stays small because nothing queues here per packet: packets on a wire wait in their link's own
//! FIFO, and only the first of them has an entry (see [`crate::link`]). The earliest events, which mostly are all, are kept
//! in order: an event is put in its place from the nearer end, which takes fewer instructions than a heap. Further ones are in a
//! four-ary heap.

use weir_units::Time;

/// Something due at a point in time. The number is an index into the tables of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first packet on this incoming wire arrives.
    Arrive(u32),
    /// This transmitter has finished a frame and may take the next.
    Free(u32),
    /// The first PFC frame on this incoming wire arrives.
    Pfc(u32),
    /// A host asked to be woken: a pacing release or a timer.
    Wake(u32),
    /// A host's next flow starts or stops.
    Command,
    /// The next flow of the workload starts.
    Flow,
    /// A frame that the wire's faults have delayed arrives.
    Late(u32),
    /// Time to sample queues and rates.
    Sample,
    /// The next fault happens, or the next policy is set.
    Change,
}

const INDEX_BITS: u32 = 20;
const KIND_BITS: u32 = 4;
const WORD_BITS: u32 = INDEX_BITS + KIND_BITS;
/// Links' directions or hosts that an event can name.
pub const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;
/// Set in the ties of events that another process has scheduled.
const REMOTE: u64 = 1 << 63;

impl Event {
    fn pack(self) -> u64 {
        let (kind, index) = match self {
            Event::Arrive(i) => (0, i),
            Event::Free(i) => (1, i),
            Event::Pfc(i) => (2, i),
            Event::Wake(i) => (3, i),
            Event::Flow => (4, 0),
            Event::Sample => (5, 0),
            Event::Change => (6, 0),
            Event::Command => (7, 0),
            Event::Late(i) => (8, i),
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
            6 => Event::Change,
            8 => Event::Late(index),
            _ => Event::Command,
        }
    }
}

/// The place of an event in the order of all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The time at which it is due.
    pub time: Time,
    /// The time at which it was scheduled.
    pub born: Time,
    /// `remote | count | index | kind`: those of the process itself come first.
    tie: u64,
}

impl Key {
    /// The least of all keys at `time`: what is before it is earlier.
    pub const fn start_of(time: Time) -> Key {
        Key { time, born: Time::ZERO, tie: 0 }
    }

    /// The event.
    #[inline]
    pub fn event(&self) -> Event {
        Event::unpack(self.tie)
    }

    /// Compares as `<` does, without the calls that a comparison of tuples makes.
    #[inline(always)]
    fn is_before(&self, other: &Key) -> bool {
        if self.time != other.time {
            return self.time < other.time;
        }
        if self.born != other.born {
            return self.born < other.born;
        }
        self.tie < other.tie
    }
}

const ARITY: usize = 4;
/// Events that are kept in order.
const NEAR: usize = 32;
/// Room for them: they move to its beginning when they reach its end.
const ROOM: usize = 2 * NEAR;

/// Pending events of a process, earliest first.
pub struct EventQueue {
    /// The earliest events in order, from `head` to `tail`. There are none only if there is no event at all.
    near: [Key; ROOM],
    head: usize,
    tail: usize,
    /// A heap of the other events. Those of `near` are all before them.
    far: Vec<Key>,
    count: u64,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        let key = Key::start_of(Time::ZERO);
        EventQueue { near: [key; ROOM], head: 0, tail: 0, far: Vec::new(), count: 0 }
    }
}

impl EventQueue {
    /// Adds `event` at `time`, which is scheduled `now`.
    #[inline]
    pub fn push(&mut self, time: Time, event: Event, now: Time) {
        let count = self.reserve();
        self.push_reserved(time, event, now, count);
    }

    /// Takes a place in the order of what is scheduled now, for an event that becomes known later.
    #[inline]
    pub fn reserve(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Adds an event at a place that was [reserved](Self::reserve) when it was `born`.
    #[inline]
    pub fn push_reserved(&mut self, time: Time, event: Event, born: Time, count: u64) {
        self.insert(time, born, (count << WORD_BITS) | event.pack());
    }

    /// Adds an event that another process has scheduled when it was `born`.
    #[inline]
    pub fn push_remote(&mut self, time: Time, event: Event, born: Time) {
        self.insert(time, born, REMOTE | event.pack());
    }

    /// Adds the event of a key. Its parts are passed in registers, here and to all that this calls: a key that was just
    /// written to memory part by part would be waited for when it is read as a whole.
    fn insert(&mut self, time: Time, born: Time, tie: u64) {
        let key = Key { time, born, tie };
        if !self.far.is_empty() && !key.is_before(self.at(self.tail - 1)) {
            return self.push_far(time, born, tie);
        }
        // What is due soon goes to its place from the front, where events have left room; the events of timers are behind it.
        let middle = usize::midpoint(self.head, self.tail);
        if self.head > 0 && key.is_before(self.at(middle)) {
            self.head -= 1;
            let mut hole = self.head;
            while self.at(hole + 1).is_before(&key) {
                *self.at_mut(hole) = *self.at(hole + 1);
                hole += 1;
            }
            *self.at_mut(hole) = key;
            return;
        }
        if self.tail == ROOM && !self.make_room(time, born, tie) {
            return;
        }
        let mut hole = self.tail;
        self.tail += 1;
        while hole > self.head && key.is_before(self.at(hole - 1)) {
            *self.at_mut(hole) = *self.at(hole - 1);
            hole -= 1;
        }
        *self.at_mut(hole) = key;
    }

    /// Returns one of the earliest events: the remainder tells the compiler that it exists.
    #[inline(always)]
    fn at(&self, index: usize) -> &Key {
        &self.near[index % ROOM]
    }

    #[inline(always)]
    fn at_mut(&mut self, index: usize) -> &mut Key {
        &mut self.near[index % ROOM]
    }

    /// Makes room for an event among the earliest. Returns false if there are enough of those that are before it: then it
    /// is among the others.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, time: Time, born: Time, tie: u64) -> bool {
        self.near.copy_within(self.head..self.tail, 0);
        (self.head, self.tail) = (0, self.tail - self.head);
        while self.tail > NEAR {
            self.tail -= 1;
            let Key { time, born, tie } = self.near[self.tail];
            self.push_far(time, born, tie);
        }
        let key = Key { time, born, tie };
        let is_near = self.far.is_empty() || key.is_before(&self.near[self.tail - 1]);
        if !is_near {
            self.push_far(time, born, tie);
        }
        is_near
    }

    #[cold]
    #[inline(never)]
    fn push_far(&mut self, time: Time, born: Time, tie: u64) {
        let key = Key { time, born, tie };
        let heap = &mut self.far;
        let mut hole = heap.len();
        heap.push(key);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if !key.is_before(&heap[parent]) {
                break;
            }
            heap[hole] = heap[parent];
            hole = parent;
        }
        heap[hole] = key;
    }

    fn pop_far(&mut self) -> Option<Key> {
        let last = self.far.pop()?;
        let heap = self.far.as_mut_slice();
        let Some(first) = heap.first().copied() else { return Some(last) };
        let mut hole = 0;
        loop {
            let child = hole * ARITY + 1;
            let children = child..(child + ARITY).min(heap.len());
            let Some(least) = children.min_by(|&a, &b| heap[a].cmp(&heap[b])) else { break };
            if !heap[least].is_before(&last) {
                break;
            }
            heap[hole] = heap[least];
            hole = least;
        }
        heap[hole] = last;
        Some(first)
    }

    /// Puts the earliest of the other events in order, when none that is has been left.
    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        (self.head, self.tail) = (0, 0);
        while self.tail < NEAR
            && let Some(key) = self.pop_far()
        {
            self.near[self.tail] = key;
            self.tail += 1;
        }
    }

    /// The earliest event.
    #[inline]
    pub fn first(&self) -> Option<&Key> {
        (self.head < self.tail).then(|| self.at(self.head))
    }

    /// The earliest event of those that `wanted` accepts. It looks at all of them.
    pub fn first_of(&self, wanted: impl Fn(Event) -> bool) -> Option<Key> {
        let there = self.near[self.head..self.tail].iter().chain(&self.far);
        there.filter(|key| wanted(key.event())).min().copied()
    }

    /// Takes the earliest event if it is before `end`.
    #[inline]
    pub fn pop_before(&mut self, end: &Key) -> Option<Key> {
        let first = *self.first()?;
        if !first.is_before(end) {
            return None;
        }
        self.head += 1;
        if self.head == self.tail {
            self.refill();
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Key = Key::start_of(Time::MAX);

    #[test]
    fn earliest_first_and_ties_in_order_of_scheduling() {
        let mut queue = EventQueue::default();
        // A small multiplicative generator: enough disorder, no dependency.
        let mut x = 1u64;
        let mut expected = Vec::new();
        for i in 0..5_000u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let time = Time::from_ps(x >> 55);
            queue.push(time, Event::Wake(i), Time::ZERO);
            expected.push((time, Event::Wake(i)));
        }
        expected.sort_by_key(|(time, _)| *time); // stable: ties keep their order
        let mut popped = Vec::new();
        while let Some(next) = queue.pop_before(&NEVER) {
            popped.push((next.time, next.event()));
            let following = expected.get(popped.len()).copied();
            assert_eq!(queue.first().map(|key| (key.time, key.event())), following);
            assert_eq!(queue.first_of(|_| true).map(|key| (key.time, key.event())), following);
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
            Event::Command,
            Event::Flow,
            Event::Sample,
            Event::Change,
        ];
        let mut queue = EventQueue::default();
        for event in events {
            queue.push(Time::from_ns(5), event, Time::ZERO);
        }
        for event in events {
            assert_eq!(
                queue.pop_before(&NEVER).map(|key| (key.time, key.event())),
                Some((Time::from_ns(5), event))
            );
        }
        assert_eq!(queue.pop_before(&NEVER), None);
        assert_eq!(queue.first(), None);
    }

    /// Events of few and of many that are pending are in order, whatever was added and taken before.
    #[test]
    fn events_are_in_order_as_the_queue_grows_and_shrinks() {
        let ps = Time::from_ps;
        let mut queue = EventQueue::default();
        let mut model = std::collections::BTreeSet::new();
        let mut x = 1u64;
        for i in 0..20_000u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let taken = (x >> 40 & 1 == 0).then(|| queue.pop_before(&NEVER));
            if let Some(taken) = taken {
                assert_eq!(
                    taken.map(|key| (key.time, key.event())),
                    model.pop_first().map(|(time, i)| (time, Event::Wake(i)))
                );
            }
            for more in 0..x >> 50 & 3 {
                let (time, number) = (ps(x >> (54 + more)), i * 4 + more as u32);
                queue.push(time, Event::Wake(number), Time::ZERO);
                model.insert((time, number));
            }
            assert_eq!(queue.first().map(|key| key.time), model.first().map(|(time, _)| *time));
        }
    }

    /// An event of another process takes its place by the time at which it was scheduled, however late it becomes known.
    #[test]
    fn frames_of_others_stand_where_they_were_sent() {
        let us = Time::from_us;
        let mut queue = EventQueue::default();
        queue.push(us(9), Event::Wake(1), us(3));
        let place = queue.reserve();
        queue.push_remote(us(9), Event::Arrive(4), us(5));
        queue.push(us(9), Event::Wake(2), us(5));
        queue.push_remote(us(9), Event::Arrive(5), us(4));
        queue.push_remote(us(9), Event::Arrive(3), us(5));
        queue.push_reserved(us(9), Event::Arrive(7), us(3), place);
        assert_eq!(
            queue.first_of(|event| event != Event::Wake(1)).map(|key| key.event()),
            Some(Event::Arrive(7))
        );
        let mut order = Vec::new();
        while let Some(key) = queue.pop_before(&Key::start_of(us(10))) {
            order.push(key.event());
        }
        let [arrive, wake] = [Event::Arrive as fn(u32) -> Event, Event::Wake];
        assert_eq!(order, [wake(1), arrive(7), arrive(5), wake(2), arrive(3), arrive(4)]);
        queue.push(us(10), Event::Free(0), us(9));
        assert_eq!(queue.pop_before(&Key::start_of(us(10))), None);
    }
}
