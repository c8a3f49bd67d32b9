//! The order of events in virtual time, and the queue of pending events.
//!
//! # The order
//!
//! A fabric is simulated by logical *processes* ([`crate::process`]), each with the events of some of its nodes. Events
//! run in the order of their [`EventKey`]s: by time, then by the time at which they were scheduled. If both are equal,
//! events with a sequence number come first, in the order in which the process scheduled them. Then follow events
//! without one, by index and kind: arrivals of frames, which often another process schedules. Sender and receiver know
//! these values alike, so the order does not depend on the timing of threads, as a counter over the whole fabric would.
//!
//! # The queue
//!
//! Each process has a queue. It stays small, because only the first packet on each wire has an entry; the others wait
//! in the wire's FIFO (see [`crate::link`]). The earliest events, usually all of them, are in a sorted array:
//! insertion from the nearer end takes fewer instructions than a heap. Later events are in a four-ary heap.

use weir_units::Time;

/// An event. The number is an index into a table of the process: `wires`, `transmitters` or `hosts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first packet on this incoming wire arrives.
    Arrival(u32),
    /// A transmitter has finished a frame and may send the next one.
    TxDone(u32),
    /// The first PFC frame on this incoming wire arrives.
    PfcArrival(u32),
    /// The host's next deadline: a pacing release or a timer.
    HostTimer(u32),
    /// The next command of the process: a flow starts or stops at a host.
    Command,
    /// A flow of the workload starts or stops; only in the queue of the run.
    FlowSchedule,
    /// A frame that the impairments of this wire delayed arrives.
    DelayedArrival(u32),
    /// A PFC pause of this transmitter expires, or a pause that it has sent must be refreshed.
    PauseTimer(u32),
    /// Queues and rates are sampled; only in the queue of the run.
    Sample,
    /// The next fault or policy change of the experiment is due; only in the queue of the run.
    ScheduledChange,
}

/// An event is packed into a word: index above kind.
const INDEX_BITS: u32 = 20;
const KIND_BITS: u32 = 4;
const WORD_BITS: u32 = INDEX_BITS + KIND_BITS;
/// The largest index that an event can carry.
pub const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;
/// Set in [`EventKey::tie_break`] if the event has no sequence number.
const UNSEQUENCED: u64 = 1 << 63;

impl Event {
    #[inline]
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
            Event::PauseTimer(i) => (9, i),
        };
        debug_assert!(index <= MAX_INDEX);
        (u64::from(index) << KIND_BITS) | kind
    }

    #[inline]
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
            9 => Event::PauseTimer(index),
            _ => Event::Command,
        }
    }
}

/// Sort key of an event. It also contains the event itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    /// The time at which the event is due.
    pub time: Time,
    /// The time at which the event was scheduled.
    pub scheduled_at: Time,
    /// From the top: [`UNSEQUENCED`] bit, sequence number (0 if the bit is set), index, kind.
    tie_break: u64,
}

impl EventKey {
    /// The smallest key at `time`. As an exclusive end it selects the events earlier than `time`.
    pub const fn first_at(time: Time) -> EventKey {
        EventKey { time, scheduled_at: Time::ZERO, tie_break: 0 }
    }

    #[inline]
    pub fn event(&self) -> Event {
        Event::unpack(self.tie_break)
    }

    /// Same as `<`, written out to avoid the function calls of the derived comparison.
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

/// Number of children of a node of the heap.
const ARITY: usize = 4;
/// Number of events that stay in the sorted array when it is compacted or refilled.
const NEAR_LEN: usize = 32;
/// Capacity of the sorted array. Twice [`NEAR_LEN`], so that two compactions are at least `NEAR_LEN` insertions apart.
const NEAR_CAPACITY: usize = 2 * NEAR_LEN;

/// Pending events of a process, or of the run, earliest first.
pub struct EventQueue {
    /// The earliest events, sorted, in `head..tail`. Empty only if no event is pending.
    near: [EventKey; NEAR_CAPACITY],
    head: usize,
    tail: usize,
    /// A heap of the remaining events. Every event in `near` is before every event in `far`.
    far: Vec<EventKey>,
    /// The last sequence number that was assigned or reserved.
    last_seq: u64,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        let key = EventKey::first_at(Time::ZERO);
        EventQueue { near: [key; NEAR_CAPACITY], head: 0, tail: 0, far: Vec::new(), last_seq: 0 }
    }
}

impl EventQueue {
    /// Schedules `event` for `time`; `now` is the present time.
    #[inline]
    pub fn push(&mut self, time: Time, event: Event, now: Time) {
        let seq = self.reserve_seq();
        self.push_reserved(time, event, now, seq);
    }

    /// Reserves the next sequence number, for an event that counts as scheduled now but becomes known later.
    #[inline]
    pub fn reserve_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    /// Schedules an event with the sequence number `seq` that was [reserved](Self::reserve_seq) at `scheduled_at`.
    #[inline]
    pub fn push_reserved(&mut self, time: Time, event: Event, scheduled_at: Time, seq: u64) {
        self.insert(time, scheduled_at, (seq << WORD_BITS) | event.pack());
    }

    /// Adds an event without a sequence number, which may have been scheduled at an earlier time, `scheduled_at`. Used
    /// for events from outside the process: the sequence number of the arrival of a frame would depend on the order in
    /// which threads hand over frames.
    #[inline]
    pub fn push_unsequenced(&mut self, time: Time, event: Event, scheduled_at: Time) {
        self.insert(time, scheduled_at, UNSEQUENCED | event.pack());
    }

    /// Inserts a key. Here and in the callees its parts are passed in registers: loading a whole key right after
    /// storing it in parts would fail store-to-load forwarding and stall.
    fn insert(&mut self, time: Time, scheduled_at: Time, tie_break: u64) {
        let key = EventKey { time, scheduled_at, tie_break };
        if !self.far.is_empty() && !key.is_before(self.at(self.tail - 1)) {
            return self.push_far(time, scheduled_at, tie_break);
        }
        // Popped events leave free slots before `head`. Transmissions and arrivals are due soon and belong near the
        // front, timers near the back, so insertion from the nearer end moves fewer keys. Without a free slot in
        // front, insert from the back.
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
        if self.tail == NEAR_CAPACITY && !self.compact_near(time, scheduled_at, tie_break) {
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

    /// Returns `near[index]`. The remainder never changes a valid index; it removes the bounds check.
    #[inline(always)]
    fn at(&self, index: usize) -> &EventKey {
        &self.near[index % NEAR_CAPACITY]
    }

    #[inline(always)]
    fn at_mut(&mut self, index: usize) -> &mut EventKey {
        &mut self.near[index % NEAR_CAPACITY]
    }

    /// Makes room in `near` by moving its events to the front, and all but the first [`NEAR_LEN`] to the heap.
    /// Returns false if the new event belongs behind those that remain: it has then been added to the heap.
    #[cold]
    #[inline(never)]
    fn compact_near(&mut self, time: Time, scheduled_at: Time, tie_break: u64) -> bool {
        self.near.copy_within(self.head..self.tail, 0);
        (self.head, self.tail) = (0, self.tail - self.head);
        while self.tail > NEAR_LEN {
            self.tail -= 1;
            let EventKey { time, scheduled_at, tie_break } = self.near[self.tail];
            self.push_far(time, scheduled_at, tie_break);
        }
        let key = EventKey { time, scheduled_at, tie_break };
        let is_near = self.far.is_empty() || key.is_before(&self.near[self.tail - 1]);
        if !is_near {
            self.push_far(time, scheduled_at, tie_break);
        }
        is_near
    }

    #[cold]
    #[inline(never)]
    fn push_far(&mut self, time: Time, scheduled_at: Time, tie_break: u64) {
        let key = EventKey { time, scheduled_at, tie_break };
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

    /// Removes and returns the earliest event of the heap.
    fn pop_far(&mut self) -> Option<EventKey> {
        let last = self.far.pop()?;
        let heap = self.far.as_mut_slice();
        let Some(first) = heap.first().copied() else { return Some(last) }; // `last` was the only one
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

    /// Moves up to [`NEAR_LEN`] events from the heap to `near`, which is empty.
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

    #[inline]
    pub fn peek(&self) -> Option<&EventKey> {
        (self.head < self.tail).then(|| self.at(self.head))
    }

    /// Returns the earliest event for which `is_wanted` returns true. Scans the whole queue.
    pub fn peek_matching(&self, is_wanted: impl Fn(Event) -> bool) -> Option<EventKey> {
        let pending = self.near[self.head..self.tail].iter().chain(&self.far);
        pending.filter(|key| is_wanted(key.event())).min().copied()
    }

    /// Removes and returns the earliest event if it is before `end`.
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
    fn events_run_by_time_and_ties_in_order_of_scheduling() {
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
            Event::DelayedArrival(1),
            Event::PauseTimer(2),
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

    /// Compares the queue with a sorted set while the number of pending events changes at random.
    #[test]
    fn events_are_in_order_as_the_queue_grows_and_shrinks() {
        let ps = Time::from_ps;
        let mut queue = EventQueue::default();
        let mut model = std::collections::BTreeSet::new();
        let mut x = 1u64;
        for i in 0..20_000u32 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let popped = (x >> 40 & 1 == 0).then(|| queue.pop_before(&NEVER));
            if let Some(popped) = popped {
                assert_eq!(
                    popped.map(|key| (key.time, key.event())),
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

    /// The position of an event of another process depends on when it was scheduled, not on when it was added.
    #[test]
    fn unsequenced_events_are_ordered_by_when_they_were_scheduled() {
        let us = Time::from_us;
        let mut queue = EventQueue::default();
        queue.push(us(9), Event::HostTimer(1), us(3));
        let seq = queue.reserve_seq();
        queue.push_unsequenced(us(9), Event::Arrival(4), us(5));
        queue.push(us(9), Event::HostTimer(2), us(5));
        queue.push_unsequenced(us(9), Event::Arrival(5), us(4));
        queue.push_unsequenced(us(9), Event::Arrival(3), us(5));
        queue.push_reserved(us(9), Event::Arrival(7), us(3), seq);
        assert_eq!(
            queue.peek_matching(|event| event != Event::HostTimer(1)).map(|key| key.event()),
            Some(Event::Arrival(7))
        );
        let mut order = Vec::new();
        while let Some(key) = queue.pop_before(&EventKey::first_at(us(10))) {
            order.push(key.event());
        }
        let [arrival, timer] = [Event::Arrival as fn(u32) -> Event, Event::HostTimer];
        assert_eq!(order, [timer(1), arrival(7), arrival(5), timer(2), arrival(3), arrival(4)]);
        queue.push(us(10), Event::TxDone(0), us(9));
        assert_eq!(queue.pop_before(&EventKey::first_at(us(10))), None);
    }
}
