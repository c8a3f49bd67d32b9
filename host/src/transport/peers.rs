//! Limits that hold for all messages of this host to one receiver together (Dart's DASR): the messages take turns.

use super::deadlines::Deadlines;
use super::id_map::IdMap;
use super::pacer::Pacer;
use crate::ring::Ring;
use crate::slab::{Key, Slab};
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Ratio, Time};

/// The receivers with unfinished messages of this host, each with a pacer for all of them.
#[derive(Debug, Default)]
pub(super) struct PeerPacers {
    peers: Slab<Peer>,
    /// Slots of `peers`, by address.
    by_addr: IdMap<u32, u32>,
    /// Time of the next departure to each receiver for which subflows wait.
    due: Deadlines,
    /// [`TransportConfig::pacing_credit`](crate::config::TransportConfig::pacing_credit).
    credit: Ratio,
}

#[derive(Debug)]
struct Peer {
    addr: Ipv4Addr,
    pacer: Pacer,
    /// Number of unfinished messages.
    messages: u32,
    /// Messages and subflow indices that may send once it is the receiver's turn, in the order of their turns.
    waiting: Ring<(Key, u8)>,
}

impl PeerPacers {
    pub(super) fn new(credit: Ratio) -> PeerPacers {
        PeerPacers { credit, ..PeerPacers::default() }
    }

    /// Adds a message to `addr` and returns the receiver's slot. `rate` is the limit if it is the only message.
    pub(super) fn join(&mut self, now: Time, addr: Ipv4Addr, rate: Bandwidth) -> u32 {
        let (peers, credit) = (&mut self.peers, self.credit);
        let slot = *self.by_addr.entry(u32::from(addr)).or_insert_with(|| {
            let mut pacer = Pacer::new(now, credit);
            pacer.set_rate(rate);
            peers.insert(Peer { addr, pacer, messages: 0, waiting: Ring::new() }).slot
        });
        if let Some(peer) = self.peers.get_slot_mut(slot) {
            peer.messages += 1;
        }
        slot
    }

    /// Removes a message, whose turn it may have been. The receiver is forgotten with its last message.
    pub(super) fn leave(&mut self, slot: u32) {
        let Some(peer) = self.peers.get_slot_mut(slot) else { return };
        peer.messages -= 1;
        if peer.messages == 0 {
            self.by_addr.remove(&u32::from(peer.addr));
            self.due.remove(slot);
            self.peers.remove(slot);
        } else {
            self.pass_turn(slot);
        }
    }

    /// Returns the earliest time at which a frame to the receiver may leave.
    pub(super) fn next_departure(&self, slot: u32) -> Time {
        self.peers.get_slot(slot).map_or(Time::ZERO, |peer| peer.pacer.next_departure())
    }

    /// Returns whether a frame to the receiver may leave at `now`, and no subflow has waited for that before.
    pub(super) fn is_free(&self, slot: u32, now: Time) -> bool {
        let is_free = |peer: &Peer| peer.waiting.is_empty() && peer.pacer.next_departure() <= now;
        self.peers.get_slot(slot).is_none_or(is_free)
    }

    /// Returns the limit of all messages to the receiver.
    pub(super) fn rate(&self, slot: u32) -> Option<Bandwidth> {
        self.peers.get_slot(slot).map(|peer| peer.pacer.rate())
    }

    /// Lets a subflow wait for its turn.
    pub(super) fn wait(&mut self, slot: u32, subflow: (Key, u8)) {
        if let Some(peer) = self.peers.get_slot_mut(slot) {
            peer.waiting.push_back(subflow);
        }
        self.pass_turn(slot);
    }

    /// Sets the limit of all messages to the receiver.
    pub(super) fn set_rate(&mut self, slot: u32, rate: Bandwidth) {
        if let Some(peer) = self.peers.get_slot_mut(slot)
            && peer.pacer.rate() != rate
        {
            peer.pacer.set_rate(rate);
            self.pass_turn(slot);
        }
    }

    /// Records that a frame of `frame_len` bytes to the receiver was due at `due` and has left.
    pub(super) fn on_sent(&mut self, slot: u32, due: Time, frame_len: u32) {
        if let Some(peer) = self.peers.get_slot_mut(slot) {
            peer.pacer.on_sent(due, frame_len);
        }
        self.pass_turn(slot);
    }

    /// Gives the turn to the next waiting subflow: after a frame has left, or if the subflow whose turn it was has nothing
    /// to send.
    pub(super) fn pass_turn(&mut self, slot: u32) {
        let Some(peer) = self.peers.get_slot(slot).filter(|peer| !peer.waiting.is_empty()) else { return };
        let at = peer.pacer.next_departure();
        if self.due.get(slot) != Some(at) {
            self.due.set(slot, at);
        }
    }

    /// Returns a receiver to which a frame may leave at `now`, and removes the subflow whose turn it is.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(u32, (Key, u8))> {
        let slot = self.due.pop_due(now)?;
        let subflow = self.peers.get_slot_mut(slot)?.waiting.pop_front()?;
        Some((slot, subflow))
    }

    /// Returns the earliest time at which [`pop_due`](Self::pop_due) returns a subflow.
    pub(super) fn earliest(&self) -> Option<Time> {
        self.due.earliest()
    }

    /// Removes and returns all waiting subflows, in the order of their turns, and forgets all receivers.
    pub(super) fn clear(&mut self) -> Vec<(Key, u8)> {
        let mut peers = std::mem::replace(self, PeerPacers::new(self.credit)).peers;
        let waiting = |peer: &mut Peer| std::mem::take(&mut peer.waiting);
        let pop_all = |mut waiting: Ring<_>| std::iter::from_fn(move || waiting.pop_front());
        peers.values_mut().map(waiting).flat_map(pop_all).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,250 bytes at 10 Gbit/s take 1 us.
    #[test]
    fn credit_outlives_a_change_of_scheme() {
        let us = Time::from_us;
        let mut peers = PeerPacers::new(Ratio::new(0.5).unwrap());
        for start in [us(0), us(100)] {
            let slot = peers.join(start, Ipv4Addr::LOCALHOST, Bandwidth::from_gbps(10));
            peers.on_sent(slot, start, 1_250);
            peers.on_sent(slot, start + us(9), 1_250);
            assert_eq!(peers.next_departure(slot), start + us(9) + Time::from_ns(500));
            assert_eq!(peers.clear(), []);
        }
    }
}
