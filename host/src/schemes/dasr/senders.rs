//! Dart's active unique senders' set, AUSS (section III-B), with the senders that look-ahead announces (section
//! III-D).
//!
//! ```text
//!             announced                 packet of an unfinished message
//!   (absent) -----------> Announced --------------------------------------> Active ---+
//!     ^  ^                    |                                              |  ^     | first packet of
//!     |  |                    | no mark, silent for `announced_for`          |  |     | another message
//!     |  +--------------------+                                              |  +-----+
//!     |                                                                      |
//!     +----------------------------------------------------------------------+
//!        last packet of the last message, or silent for `soft_state`
//! ```
//!
//! A packet of an unfinished message makes an absent sender active too. The number of counted senders depends on their
//! states alone: [`SenderStates::set`] is the only function that changes a state, and it updates the totals.

#[cfg(test)]
mod tests;

use super::incasts::NamedSenders;
use crate::scheme::DataEvent;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use weir_units::Time;

/// The active-sender set of one receiver.
#[derive(Debug)]
pub(super) struct ActiveSenders {
    /// Time after which a silent sender is removed. Soft state, in Dart's words: it ends unless packets refresh it.
    soft_state: Time,
    /// Time after which an announced sender is removed if no packet of it has arrived. Time until the last marked packet does
    /// not count: meanwhile the sender's packets may be queued.
    announced_for: Time,
    states: SenderStates,
    /// Times at which senders were announced, oldest first. An entry is stale unless its sender is still
    /// [`SenderState::Announced`] since that time.
    announcements: VecDeque<(Time, Ipv4Addr)>,
    named: NamedSenders,
    /// Time of the last marked packet.
    marked_at: Time,
    /// Time of the last sweep.
    swept_at: Time,
}

/// The state of one sender at the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SenderState {
    /// The sender was announced at this time, and no packet has arrived since. It counts for its tenant only.
    Announced { at: Time },
    /// The sender has this many unfinished messages, at least one; its last packet arrived at `last_seen`. It counts
    /// for every tenant.
    Active { messages: u32, last_seen: Time },
}

/// Maximum number of active senders, and separately of announced ones, which bounds the effect of forged packets. The
/// number of hosts in Dart's simulations.
const MAX_SENDERS: u16 = 1_024;
/// Number of sweeps for silent senders per soft-state time.
const SWEEPS_PER_SOFT_STATE: u64 = 8;
/// An announcement carries the low two bytes of each address; the other bits are those of the announcing sender.
const LISTED_ADDR_MASK: u32 = 0xffff;

impl ActiveSenders {
    pub(super) fn new(soft_state: Time, tenant_bits: Option<u32>, announced_for: Time) -> ActiveSenders {
        ActiveSenders {
            soft_state,
            announced_for,
            states: SenderStates { tenant_bits, ..SenderStates::default() },
            announcements: VecDeque::new(),
            named: NamedSenders::new(soft_state),
            marked_at: Time::ZERO,
            swept_at: Time::ZERO,
        }
    }

    /// Processes a packet and returns n for its sender: the number of senders that share the receiver's line with it,
    /// as [`SenderStates::count_for`] counts them; at least 1.
    pub(super) fn on_data(&mut self, data: &DataEvent<'_>) -> u16 {
        if data.is_marked {
            self.marked_at = data.now;
        }
        self.remove_silent(data.now);
        self.remove_unstarted(data.now);
        self.activate_or_refresh(data);
        self.on_announcement(data);
        if data.completes_message {
            self.on_message_end(data.source);
        }
        self.states.count_for(data.source)
    }

    /// Returns the number of active senders; `None` while announced ones are missing.
    pub(super) fn started(&self) -> Option<u16> {
        (self.states.announced_count == 0).then_some(self.states.active_count)
    }

    /// A packet of an unfinished message makes its sender active. A packet of a finished one only refreshes a sender
    /// that is active.
    fn activate_or_refresh(&mut self, data: &DataEvent<'_>) {
        let (is_unfinished, last_seen) = (data.slot.is_some(), data.now);
        match self.states.get(data.source) {
            Some(SenderState::Active { messages, .. }) => {
                let messages = messages.saturating_add(u32::from(data.is_first));
                self.states.set(data.source, Some(SenderState::Active { messages, last_seen }));
            }
            // An absent sender may have been removed after a silence and continue its message.
            Some(SenderState::Announced { .. }) | None => {
                if is_unfinished && self.states.active_count < MAX_SENDERS {
                    self.states.set(data.source, Some(SenderState::Active { messages: 1, last_seen }));
                }
            }
        }
    }

    /// Adds the senders that a packet announces, unless they are counted already or another announcement of the same
    /// incast has named them. Senders of another tenant are ignored.
    fn on_announcement(&mut self, data: &DataEvent<'_>) {
        let Some(tenant) = self.states.tenant(data.source) else { return };
        if !data.announced.is_empty() {
            // The sender has started, whether its own list names it or not: a later list must not add it again.
            self.named.mark_named(data.now, tenant, data.incast, data.source);
        }
        for low_bytes in data.announced {
            let low_bits = u32::from(u16::from_be_bytes(*low_bytes));
            let sender = Ipv4Addr::from(u32::from(data.source) & !LISTED_ADDR_MASK | low_bits);
            if self.states.tenant(sender) != Some(tenant) {
                continue;
            }
            let is_new = self.named.mark_named(data.now, tenant, data.incast, sender);
            if is_new && self.states.announced_count < MAX_SENDERS && self.states.get(sender).is_none() {
                self.states.set(sender, Some(SenderState::Announced { at: data.now }));
                self.announcements.push_back((data.now, sender));
            }
        }
    }

    /// Handles the completion of one message of `sender`.
    fn on_message_end(&mut self, sender: Ipv4Addr) {
        if let Some(SenderState::Active { messages, last_seen }) = self.states.get(sender) {
            let remaining = (messages > 1).then(|| SenderState::Active { messages: messages - 1, last_seen });
            self.states.set(sender, remaining);
        }
    }

    /// Removes announced senders that have not started in time. Some never will: without a number of the incast, a message
    /// of one packet may complete before the announcement of its sender arrives.
    fn remove_unstarted(&mut self, now: Time) {
        while let Some(&(at, sender)) = self.announcements.front()
            && (now.saturating_sub(at.max(self.marked_at)) > self.announced_for
                || now.saturating_sub(at) > self.soft_state)
        {
            self.announcements.pop_front();
            if self.states.get(sender) == Some(SenderState::Announced { at }) {
                self.states.set(sender, None);
            }
        }
    }

    /// Removes active senders from which no packet has arrived for longer than the soft-state time.
    fn remove_silent(&mut self, now: Time) {
        if now.saturating_sub(self.swept_at) < self.soft_state / SWEEPS_PER_SOFT_STATE {
            return;
        }
        self.swept_at = now;
        let soft_state = self.soft_state;
        let is_silent = |state: &SenderState| match *state {
            SenderState::Active { last_seen, .. } => now.saturating_sub(last_seen) > soft_state,
            SenderState::Announced { .. } => false,
        };
        let by_sender = self.states.by_sender.iter();
        let silent: Vec<_> =
            by_sender.filter(|(_, state)| is_silent(state)).map(|(&sender, _)| sender).collect();
        silent.into_iter().for_each(|sender| self.states.set(sender, None));
    }
}

/// The states of all senders, and totals derived from them.
#[derive(Debug, Default)]
struct SenderStates {
    /// Number of leading address bits that identify the tenant; `None` disables announcements.
    tenant_bits: Option<u32>,
    by_sender: BTreeMap<Ipv4Addr, SenderState>,
    active_count: u16,
    announced_count: u16,
    /// Number of announced senders by tenant; entries are never 0.
    announced_by_tenant: BTreeMap<u32, u16>,
}

impl SenderStates {
    fn get(&self, sender: Ipv4Addr) -> Option<SenderState> {
        self.by_sender.get(&sender).copied()
    }

    /// Sets the state of a sender, `None` to remove it, and updates the totals.
    fn set(&mut self, sender: Ipv4Addr, state: Option<SenderState>) {
        let before = match state {
            Some(state) => self.by_sender.insert(sender, state),
            None => self.by_sender.remove(&sender),
        };
        let count_active =
            |state: Option<SenderState>| u16::from(matches!(state, Some(SenderState::Active { .. })));
        let count_announced =
            |state: Option<SenderState>| u16::from(matches!(state, Some(SenderState::Announced { .. })));
        self.active_count = self.active_count + count_active(state) - count_active(before);
        let (added, removed) = (count_announced(state), count_announced(before));
        self.announced_count = self.announced_count + added - removed;
        if added != removed
            && let Some(tenant) = self.tenant(sender)
        {
            let count = self.announced_by_tenant.entry(tenant).or_default();
            *count = *count + added - removed;
            if *count == 0 {
                self.announced_by_tenant.remove(&tenant);
            }
        }
    }

    /// Returns n for this sender: all active senders, and the announced ones of its tenant; at least 1.
    fn count_for(&self, sender: Ipv4Addr) -> u16 {
        let announced = self.tenant(sender).and_then(|tenant| self.announced_by_tenant.get(&tenant));
        (self.active_count + announced.copied().unwrap_or(0)).max(1)
    }

    /// Returns the tenant of a host; `None` if announcements are disabled.
    fn tenant(&self, host: Ipv4Addr) -> Option<u32> {
        // `tenant_bits` is 16 to 32, so the shift is always in range.
        Some(u32::from(host).checked_shr(32 - self.tenant_bits?).unwrap_or(0))
    }
}
