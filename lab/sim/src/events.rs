//! The order of events in virtual time, and the queue of those to come.
//!
//! # The order
//!
//! Events run in the order of their [`EventKey`]s: by time, and at one time by the time at which they were scheduled. If that is
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
    Arrival(u32),
    /// This transmitter has finished a frame and may take the next.
    TxDone(u32),
    /// The first PFC frame on this incoming wire arrives.
    PfcArrival(u32),
    /// A host asked to be woken: a pacing release or a timer.
    HostTimer(u32),
    /// A host's next flow starts or stops.
    Command,
    /// The next flow of the workload starts.
    FlowSchedule,
    /// A frame that the wire's faults have delayed arrives.
    DelayedArrival(u32),
    /// Time to sample queues and rates.
    Sample,
    /// The next fault happens, or the next policy is set.
    ScheduledChange,
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
            Event::Arrival(i) => (0, i),
            Event::TxDone(i) => (1, i),
            Event::PfcArrival(i) => (2, i),
            Event::HostTimer(i) => (3, i),
            Event::FlowSchedule => (4, 0),
            Event::Sample => (5, 0),
            Event::ScheduledChange => (6, 0),
            Event::Command => (7, 0),
            Event::DelayedArrival(i) => (8, i),
        };
        debug_assert!(index <= MAX_INDEX);
        (u64::from(index) << KIND_BITS) | kind
    }

    fn unpack(word: u64) -> Event {
        let index = ((word >> KIND_BITS) as u32) & MAX_INDEX;
        match word & ((1 << KIND_BITS) - 1) {
            0 => Event::Arrival(index),
            1 => Event::TxDone(index),
            2 => Event::PfcArrival(index),
            3 => Event::HostTimer(index),
            4 => Event::FlowSchedule,
            5 => Event::Sample,
            6 => Event::ScheduledChange,
            8 => Event::DelayedArrival(index),
            _ => Event::Command,
        }
    }
}

/// The place of an event in the order of all events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// The time at which it is due.
    pub time: Time,
    /// The time at which it was scheduled.
    pub scheduled_at: Time,
    /// `remote | last_seq | index | kind`: those of the process itself come first.
    tie_break: u64,
}

impl EventKey {
    /// The least of all keys at `time`: what is before it is earlier.
    pub const fn first_at(time: Time) -> EventKey {
        EventKey { time, scheduled_at: Time::ZERO, tie_break: 0 }
    }

    /// The event.
    #[inline]
    pub fn event(&self) -> Event {
        Event::unpack(self.tie_break)
    }

    /// Compares as `<` does, without the calls that a comparison of tuples makes.
    #[inline(always)]
    fn is_before(&self, other: &EventKey) -> bool {
        if self.time != other.time {
            return self.time < other.time;
        }
        if self.scheduled_at != other.scheduled_at {
            return self.scheduled_at < other.scheduled_at;
        }
        self.tie_break < other.tie_break
    }
}

const ARITY: usize = 4;
/// Events that are kept in order.
const NEAR_LEN: usize = 32;
/// Room for them: they move to its beginning when they reach its end.
const NEAR_CAPACITY: usize = 2 * NEAR_LEN;

/// Pending events of a process, earliest first.
pub struct EventQueue {
    /// The earliest events in order, from `head` to `tail`. There are none only if there is no event at all.
    near: [EventKey; NEAR_CAPACITY],
    head: usize,
    tail: usize,
    /// A heap of the other events. Those of `near` are all before them.
    far: Vec<EventKey>,
    last_seq: u64,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        let key = EventKey::first_at(Time::ZERO);
        EventQueue { near: [key; NEAR_CAPACITY], head: 0, tail: 0, far: Vec::new(), last_seq: 0 }
    }
}

impl EventQueue {
    /// Adds `event` at `time`, which is scheduled `now`.
    #[inline]
    pub fn push(&mut self, time: Time, event: Event, now: Time) {
        let count = self.reserve_seq();
        self.push_reserved(time, event, now, count);
    }

    /// Takes a place in the order of what is scheduled now, for an event that becomes known later.
    #[inline]
    pub fn reserve_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// Adds an event at a place that was [reserved](Self::reserve) when it was `scheduled_at`.
    #[inline]
    pub fn push_reserved(&mut self, time: Time, event: Event, born: Time, count: u64) {
        self.insert(time, born, (count << WORD_BITS) | event.pack());
    }

    /// Adds an event that another process has scheduled when it was `scheduled_at`.
    #[inline]
    pub fn push_remote(&mut self, time: Time, event: Event, born: Time) {
        self.insert(time, born, REMOTE | event.pack());
    }

    /// Adds the event of a key. Its parts are passed in registers, here and to all that this calls: a key that was just
    /// written to memory part by part would be waited for when it is read as a whole.
    fn insert(&mut self, time: Time, born: Time, tie: u64) {
        let key = EventKey { time, scheduled_at: born, tie_break: tie };
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
        if self.tail == NEAR_CAPACITY && !self.compact_near(time, born, tie) {
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
    fn at(&self, index: usize) -> &EventKey {
        &self.near[index % NEAR_CAPACITY]
    }

    #[inline(always)]
    fn at_mut(&mut self, index: usize) -> &mut EventKey {
        &mut self.near[index % NEAR_CAPACITY]
    }

    /// Makes room for an event among the earliest. Returns false if there are enough of those that are before it: then it
    /// is among the others.
    #[cold]
    #[inline(never)]
    fn compact_near(&mut self, time: Time, born: Time, tie: u64) -> bool {
        self.near.copy_within(self.head..self.tail, 0);
        (self.head, self.tail) = (0, self.tail - self.head);
        while self.tail > NEAR_LEN {
            self.tail -= 1;
            let EventKey { time, scheduled_at: born, tie_break: tie } = self.near[self.tail];
            self.push_far(time, born, tie);
        }
        let key = EventKey { time, scheduled_at: born, tie_break: tie };
        let is_near = self.far.is_empty() || key.is_before(&self.near[self.tail - 1]);
        if !is_near {
            self.push_far(time, born, tie);
        }
        is_near
    }

    #[cold]
    #[inline(never)]
    fn push_far(&mut self, time: Time, born: Time, tie: u64) {
        let key = EventKey { time, scheduled_at: born, tie_break: tie };
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

    fn pop_far(&mut self) -> Option<EventKey> {
        let last = self.far.pop()?;
        let heap = self.far.as_mut_slice();
        let Some(first) = heap.first().copied() else { return Some(last) };
        let mut hole = 0;
        loop {
            let child = hole * ARITY + 1;
            let children = child..(child + ARITY).min(heap.len());
            let Some(min) = children.min_by(|&a, &b| heap[a].cmp(&heap[b])) else { break };
            if !heap[min].is_before(&last) {
                break;
            }
            heap[hole] = heap[min];
            hole = min;
        }
        heap[hole] = last;
        Some(first)
    }

    /// Puts the earliest of the other events in order, when none that is has been left.
    #[cold]
    #[inline(never)]
    fn refill(&mut self) {
        (self.head, self.tail) = (0, 0);
        while self.tail < NEAR_LEN
            && let Some(key) = self.pop_far()
        {
            self.near[self.tail] = key;
            self.tail += 1;
        }
    }

    /// The earliest event.
    #[inline]
    pub fn peek(&self) -> Option<&EventKey> {
        (self.head < self.tail).then(|| self.at(self.head))
    }

    /// The earliest event of those that `wanted` accepts. It looks at all of them.
    pub fn peek_matching(&self, wanted: impl Fn(Event) -> bool) -> Option<EventKey> {
        let there = self.near[self.head..self.tail].iter().chain(&self.far);
        there.filter(|key| wanted(key.event())).min().copied()
    }

    /// Takes the earliest event if it is before `end`.
    #[inline]
    pub fn pop_before(&mut self, end: &EventKey) -> Option<EventKey> {
        let first = *self.peek()?;
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

    const NEVER: EventKey = EventKey::first_at(Time::MAX);

    #[test]
    fn earliest_first_and_ties_in_order_of_scheduling() {
        let mut queue = EventQueue::default();
        // A small multiplicative generator: enough disorder, no dependency.
        let mut x = 1u64;
        let mut expected = Vec::new();
        for i in 0..5_000u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let time = Time::from_ps(x >> 55);
            queue.push(time, Event::HostTimer(i), Time::ZERO);
            expected.push((time, Event::HostTimer(i)));
        }
        expected.sort_by_key(|(time, _)| *time); // stable: ties keep their order
        let mut popped = Vec::new();
        while let Some(next) = queue.pop_before(&NEVER) {
            popped.push((next.time, next.event()));
            let following = expected.get(popped.len()).copied();
            assert_eq!(queue.peek().map(|key| (key.time, key.event())), following);
            assert_eq!(queue.peek_matching(|_| true).map(|key| (key.time, key.event())), following);
        }
        assert!(popped == expected);
    }

    #[test]
    fn every_event_survives_packing() {
        let events = [
            Event::Arrival(MAX_INDEX),
            Event::TxDone(7),
            Event::PfcArrival(0),
            Event::HostTimer(3),
            Event::Command,
            Event::FlowSchedule,
            Event::Sample,
            Event::ScheduledChange,
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
        assert_eq!(queue.peek(), None);
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
                    model.pop_first().map(|(time, i)| (time, Event::HostTimer(i)))
                );
            }
            for more in 0..x >> 50 & 3 {
                let (time, number) = (ps(x >> (54 + more)), i * 4 + more as u32);
                queue.push(time, Event::HostTimer(number), Time::ZERO);
                model.insert((time, number));
            }
            assert_eq!(queue.peek().map(|key| key.time), model.first().map(|(time, _)| *time));
        }
    }

    /// An event of another process takes its place by the time at which it was scheduled, however late it becomes known.
    #[test]
    fn frames_of_others_stand_where_they_were_sent() {
        let us = Time::from_us;
        let mut queue = EventQueue::default();
        queue.push(us(9), Event::HostTimer(1), us(3));
        let place = queue.reserve_seq();
        queue.push_remote(us(9), Event::Arrival(4), us(5));
        queue.push(us(9), Event::HostTimer(2), us(5));
        queue.push_remote(us(9), Event::Arrival(5), us(4));
        queue.push_remote(us(9), Event::Arrival(3), us(5));
        queue.push_reserved(us(9), Event::Arrival(7), us(3), place);
        assert_eq!(
            queue.peek_matching(|event| event != Event::HostTimer(1)).map(|key| key.event()),
            Some(Event::Arrival(7))
        );
        let mut order = Vec::new();
        while let Some(key) = queue.pop_before(&EventKey::first_at(us(10))) {
            order.push(key.event());
        }
        let [arrive, wake] = [Event::Arrival as fn(u32) -> Event, Event::HostTimer];
        assert_eq!(order, [wake(1), arrive(7), arrive(5), wake(2), arrive(3), arrive(4)]);
        queue.push(us(10), Event::TxDone(0), us(9));
        assert_eq!(queue.pop_before(&EventKey::first_at(us(10))), None);
    }
}
