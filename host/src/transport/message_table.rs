use super::IdMap;
use super::lru::{Links, LruList};
use crate::slab::{Key, Slab};
use crate::stats::{DropReason, HostStats};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::Time;

/// The messages of a receiver: a `T` for each message in progress and an `E` (tombstone) for each completed one.
///
/// The table orders messages by their last packet, counts those within the active window, and evicts the message that
/// has been idle longest when it is full.
#[derive(Debug)]
pub(super) struct MessageTable<T, E> {
    entries: Slab<Entry<T>>,
    by_id: IdMap<u64, u32>,
    links: Vec<Links>,
    /// Messages with a packet within the active window, and all others; both sorted by the last packet, oldest first.
    active: LruList,
    idle: LruList,
    /// Messages that were not heard again a round trip after their first packet, oldest first. Their sources may be made up:
    /// nobody there has shown to hear our answers.
    unproven: LruList,
    unproven_links: Vec<Links>,
    /// Ended messages, and the same in the order they ended.
    ended: IdMap<u64, E>,
    ended_order: VecDeque<u64>,
    active_window: Time,
    round_trip: Time,
    /// Number of times that the scheme has changed.
    generation: u32,
    max_entries: usize,
    max_ended: usize,
}

#[derive(Debug)]
struct Entry<T> {
    id: u64,
    last_seen: Time,
    is_active: bool,
    /// Time of its first packet; `None` once it was heard a round trip later.
    unproven_since: Option<Time>,
    /// The generation of the scheme that knows of the message.
    introduced: Option<u32>,
    value: T,
}

/// State of a message key at this receiver.
pub(super) enum MessageState<'a, E> {
    /// In progress, with its slot.
    Arriving(u32),
    /// Completed, with its tombstone.
    Ended(&'a E),
    /// Not seen yet, evicted, or completed so long ago that the tombstone is gone.
    Unknown,
}

/// Packs source address and message id, which together identify a message, into one key.
pub(super) fn message_key(peer: Ipv4Addr, message: u32) -> u64 {
    u64::from(u32::from(peer)) << 32 | u64::from(message)
}

impl<T, E> MessageTable<T, E> {
    pub fn new(
        active_window: Time,
        round_trip: Time,
        max_entries: u32,
        max_ended: u32,
    ) -> MessageTable<T, E> {
        MessageTable {
            entries: Slab::default(),
            by_id: IdMap::default(),
            links: Vec::new(),
            active: LruList::new(),
            idle: LruList::new(),
            unproven: LruList::new(),
            unproven_links: Vec::new(),
            ended: IdMap::default(),
            ended_order: VecDeque::new(),
            active_window,
            round_trip,
            generation: 0,
            max_entries: max_entries as usize,
            max_ended: max_ended as usize,
        }
    }

    pub fn find(&self, id: u64) -> MessageState<'_, E> {
        match self.by_id.get(&id) {
            Some(&slot) => MessageState::Arriving(slot),
            None => self.ended.get(&id).map_or(MessageState::Unknown, MessageState::Ended),
        }
    }

    pub fn at(&self, slot: u32) -> Option<&T> {
        self.entries.get_slot(slot).map(|entry| &entry.value)
    }
    pub fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_slot_mut(slot).map(|entry| &mut entry.value)
    }
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }
    pub fn key(&self, slot: u32) -> Key {
        self.entries.key(slot)
    }
    /// Another scheme takes over, which knows of no message yet.
    pub fn change_scheme(&mut self, active_window: Time, round_trip: Time) {
        (self.active_window, self.round_trip) = (active_window, round_trip);
        self.generation = self.generation.wrapping_add(1);
    }
    /// Returns all messages in progress, in the order of their slots.
    pub fn arriving_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.values_mut().map(|entry| &mut entry.value)
    }
    /// Returns true the first time that the present scheme sees the message, and marks it as seen; false afterwards.
    /// A scheme change makes every message new again.
    pub fn introduce_to_scheme(&mut self, slot: u32) -> bool {
        let generation = Some(self.generation);
        self.entries
            .get_slot_mut(slot)
            .is_some_and(|entry| std::mem::replace(&mut entry.introduced, generation) != generation)
    }
    pub fn last_seen(&self, slot: u32) -> Option<Time> {
        self.entries.get_slot(slot).map(|entry| entry.last_seen)
    }

    /// Moves messages without a packet in the active window to the idle list and returns the number of those that
    /// remain active.
    pub fn age_and_count_active(&mut self, now: Time) -> usize {
        // `touch` moves a message to the newest end, so the list is sorted by `last_seen` and ageing stops at the
        // first recent message.
        while let Some(slot) = self.active.oldest() {
            let Some(entry) = self.entries.get_slot_mut(slot) else { break };
            if now.saturating_sub(entry.last_seen) <= self.active_window {
                break;
            }
            entry.is_active = false;
            self.active.remove(&mut self.links, slot);
            self.idle.push(&mut self.links, slot);
        }
        self.active.len()
    }

    /// Returns the message that makes room for a new one: the oldest one whose source may be made up, else the longest
    /// idle one.
    fn victim(&mut self, now: Time) -> Option<u32> {
        let is_due = |&slot: &u32| {
            let first = self.entries.get_slot(slot).and_then(|entry| entry.unproven_since);
            first.is_some_and(|first| now.saturating_sub(first) >= self.round_trip)
        };
        self.unproven.oldest().filter(is_due).or_else(|| {
            self.age_and_count_active(now);
            self.idle.oldest()
        })
    }

    /// Takes in a message that is not known; `forgotten` gets the one that made room, if one had to.
    pub fn insert(
        &mut self,
        now: Time,
        id: u64,
        value: T,
        stats: &mut HostStats,
        forgotten: impl FnOnce(T),
    ) -> Result<u32, DropReason> {
        if self.entries.len() >= self.max_entries {
            let victim = self.victim(now).ok_or(DropReason::ReceiverFull)?;
            if let Some(value) = self.remove(victim) {
                forgotten(value);
            }
            stats.inbound_evicted += 1;
        }
        let unproven_since = Some(now);
        let entry = Entry { id, last_seen: now, is_active: true, unproven_since, introduced: None, value };
        let key = self.entries.insert(entry);
        self.by_id.insert(id, key.slot);
        self.unproven.push(&mut self.unproven_links, key.slot);
        self.active.push(&mut self.links, key.slot);
        Ok(key.slot)
    }

    /// Records that a packet of the message arrived at `now`.
    pub fn touch(&mut self, now: Time, slot: u32) {
        let Some(entry) = self.entries.get_slot_mut(slot) else { return };
        entry.last_seen = now;
        if entry.unproven_since.take_if(|first| now.saturating_sub(*first) >= self.round_trip).is_some() {
            self.unproven.remove(&mut self.unproven_links, slot);
        }
        if entry.is_active && self.active.newest() == Some(slot) {
            return;
        }
        let list = if entry.is_active { &mut self.active } else { &mut self.idle };
        list.remove(&mut self.links, slot);
        entry.is_active = true;
        self.active.push(&mut self.links, slot);
    }

    fn remove(&mut self, slot: u32) -> Option<T> {
        let entry = self.entries.remove(slot)?;
        let list = if entry.is_active { &mut self.active } else { &mut self.idle };
        list.remove(&mut self.links, slot);
        if entry.unproven_since.is_some() {
            self.unproven.remove(&mut self.unproven_links, slot);
        }
        self.by_id.remove(&entry.id);
        Some(entry.value)
    }

    /// Moves a message to the tombstones; `remember` makes the tombstone from its state. The oldest tombstone is
    /// dropped if there are `max_ended`.
    pub fn finish(&mut self, slot: u32, remember: impl FnOnce(T) -> E) {
        let Some(id) = self.entries.get_slot(slot).map(|entry| entry.id) else { return };
        let Some(value) = self.remove(slot) else { return };
        while self.ended_order.len() >= self.max_ended {
            let Some(oldest) = self.ended_order.pop_front() else { return };
            self.ended.remove(&oldest);
        }
        self.ended.insert(id, remember(value));
        self.ended_order.push_back(id);
    }
}
