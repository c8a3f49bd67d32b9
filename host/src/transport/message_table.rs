use super::id_map::IdMap;
use super::lru::{Links, LruList};
use crate::slab::{Key, Slab};
use crate::stats::{DropReason, HostStats};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::Time;

/// The messages of a receiver: a `T` for each message in progress and an `E` (tombstone) for each completed one.
///
/// The table orders messages by their last packet and counts those within the active window. A full table evicts a
/// message whose source may be forged, else the one idle for longest.
#[derive(Debug)]
pub(super) struct MessageTable<T, E> {
    entries: Slab<Entry<T>>,
    /// Slots of the messages in progress, by message key ([`message_key`]).
    by_message_key: IdMap<u64, u32>,
    /// Links of `active` and `idle`, by slot.
    links: Vec<Links>,
    /// Messages with a packet within the active window, and all others; both sorted by the last packet, oldest first.
    active: LruList,
    idle: LruList,
    /// Messages without a packet at least a round trip after their first one, oldest first. Their source addresses may
    /// be forged: no packet shows yet that the source has received an answer.
    unverified: LruList,
    unverified_links: Vec<Links>,
    /// Completed messages, by message key.
    tombstones: IdMap<u64, E>,
    /// The keys of `tombstones`, oldest first.
    tombstone_order: VecDeque<u64>,
    active_window: Time,
    /// The base RTT.
    round_trip: Time,
    /// Number of times that the scheme has changed.
    scheme_generation: u32,
    max_entries: usize,
    max_tombstones: usize,
}

#[derive(Debug)]
struct Entry<T> {
    message_key: u64,
    /// Time of the last packet.
    last_seen: Time,
    /// True if the message is in `active`, false if it is in `idle`.
    is_active: bool,
    /// Time of the first packet; `None` once a packet has arrived at least a round trip later.
    unverified_since: Option<Time>,
    /// The generation of the last scheme that has seen the message; `None` before the first.
    seen_by: Option<u32>,
    value: T,
}

/// The state of a message at this receiver.
pub(super) enum MessageState<'a, E> {
    /// In progress, with its slot.
    InProgress(u32),
    /// Completed, with its tombstone.
    Completed(&'a E),
    /// Not seen yet, evicted, or completed so long ago that the tombstone is gone.
    Unknown,
}

/// Packs source address and message id, which together identify a message, into one number.
pub(super) fn message_key(peer: Ipv4Addr, message: u32) -> u64 {
    u64::from(u32::from(peer)) << 32 | u64::from(message)
}

impl<T, E> MessageTable<T, E> {
    pub(super) fn new(
        active_window: Time,
        round_trip: Time,
        max_entries: u32,
        max_tombstones: u32,
    ) -> MessageTable<T, E> {
        MessageTable {
            entries: Slab::default(),
            by_message_key: IdMap::default(),
            links: Vec::new(),
            active: LruList::new(),
            idle: LruList::new(),
            unverified: LruList::new(),
            unverified_links: Vec::new(),
            tombstones: IdMap::default(),
            tombstone_order: VecDeque::new(),
            active_window,
            round_trip,
            scheme_generation: 0,
            max_entries: max_entries as usize,
            max_tombstones: max_tombstones as usize,
        }
    }

    pub(super) fn find(&self, message_key: u64) -> MessageState<'_, E> {
        match self.by_message_key.get(&message_key) {
            Some(&slot) => MessageState::InProgress(slot),
            None => self.tombstones.get(&message_key).map_or(MessageState::Unknown, MessageState::Completed),
        }
    }

    pub(super) fn get_slot(&self, slot: u32) -> Option<&T> {
        self.entries.get_slot(slot).map(|entry| &entry.value)
    }
    pub(super) fn get_slot_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.entries.get_slot_mut(slot).map(|entry| &mut entry.value)
    }
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }
    /// Returns the slab key of the message in `slot`, which becomes invalid when the slot is reused.
    pub(super) fn slab_key(&self, slot: u32) -> Key {
        self.entries.key(slot)
    }
    /// Applies a scheme change: all messages are new to the new scheme.
    pub(super) fn change_scheme(&mut self, active_window: Time, round_trip: Time) {
        (self.active_window, self.round_trip) = (active_window, round_trip);
        self.scheme_generation = self.scheme_generation.wrapping_add(1);
    }
    /// Returns all messages in progress, in the order of their slots.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.values_mut().map(|entry| &mut entry.value)
    }
    /// Marks the message as seen by the present scheme. Returns true if the scheme had not seen it before.
    pub(super) fn mark_seen_by_scheme(&mut self, slot: u32) -> bool {
        let generation = Some(self.scheme_generation);
        self.entries
            .get_slot_mut(slot)
            .is_some_and(|entry| std::mem::replace(&mut entry.seen_by, generation) != generation)
    }
    pub(super) fn last_seen(&self, slot: u32) -> Option<Time> {
        self.entries.get_slot(slot).map(|entry| entry.last_seen)
    }

    /// Moves messages without a packet in the active window to the idle list and returns the number of those that
    /// remain active.
    pub(super) fn age_and_count_active(&mut self, now: Time) -> usize {
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

    /// Returns the slot of the message to evict for a new one: the oldest one whose source may be forged, else the one
    /// idle for longest; `None` if there is neither.
    fn victim(&mut self, now: Time) -> Option<u32> {
        let is_overdue = |&slot: &u32| {
            let first_packet_at = self.entries.get_slot(slot).and_then(|entry| entry.unverified_since);
            first_packet_at.is_some_and(|at| now.saturating_sub(at) >= self.round_trip)
        };
        self.unverified.oldest().filter(is_overdue).or_else(|| {
            self.age_and_count_active(now);
            self.idle.oldest()
        })
    }

    /// Inserts a message that is not in the table and returns its slot. Calls `on_evicted` with the message that is
    /// evicted to make room, if the table is full.
    ///
    /// Fails with `ReceiverFull` if the table is full of active messages.
    pub(super) fn insert(
        &mut self,
        now: Time,
        message_key: u64,
        value: T,
        stats: &mut HostStats,
        on_evicted: impl FnOnce(T),
    ) -> Result<u32, DropReason> {
        if self.entries.len() >= self.max_entries {
            let victim = self.victim(now).ok_or(DropReason::ReceiverFull)?;
            if let Some(value) = self.remove(victim) {
                on_evicted(value);
            }
            stats.inbound_evicted += 1;
        }
        let unverified_since = Some(now);
        let entry =
            Entry { message_key, last_seen: now, is_active: true, unverified_since, seen_by: None, value };
        let slot = self.entries.insert(entry).slot;
        self.by_message_key.insert(message_key, slot);
        self.unverified.push(&mut self.unverified_links, slot);
        self.active.push(&mut self.links, slot);
        Ok(slot)
    }

    /// Records that a packet of the message arrived at `now`.
    pub(super) fn touch(&mut self, now: Time, slot: u32) {
        let Some(entry) = self.entries.get_slot_mut(slot) else { return };
        entry.last_seen = now;
        if entry.unverified_since.take_if(|first| now.saturating_sub(*first) >= self.round_trip).is_some() {
            self.unverified.remove(&mut self.unverified_links, slot);
        }
        if entry.is_active && self.active.newest() == Some(slot) {
            // Fast path: the message that received the previous packet too.
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
        if entry.unverified_since.is_some() {
            self.unverified.remove(&mut self.unverified_links, slot);
        }
        self.by_message_key.remove(&entry.message_key);
        Some(entry.value)
    }

    /// Moves a message to the tombstones; `make_tombstone` makes the tombstone from its state. The oldest tombstone is
    /// dropped if there are `max_tombstones`.
    pub(super) fn finish(&mut self, slot: u32, make_tombstone: impl FnOnce(T) -> E) {
        let Some(message_key) = self.entries.get_slot(slot).map(|entry| entry.message_key) else { return };
        let Some(value) = self.remove(slot) else { return };
        while self.tombstone_order.len() >= self.max_tombstones {
            // No oldest one: `max_tombstones` is 0, and nothing is remembered.
            let Some(oldest) = self.tombstone_order.pop_front() else { return };
            self.tombstones.remove(&oldest);
        }
        self.tombstones.insert(message_key, make_tombstone(value));
        self.tombstone_order.push_back(message_key);
    }
}
