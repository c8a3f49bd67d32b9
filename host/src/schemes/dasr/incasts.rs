//! The senders that the announcements of each incast have named.
//!
//! Every message of an incast announces all senders of the incast. The first announcement counts those that have not
//! started yet; a later one must not count a sender again that has already finished.

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use weir_units::Time;

/// Maximum number of named senders over all incasts. Beyond it the oldest are forgotten, and further announcements of
/// their incasts count them again. Weir's choice: more than a host of Dart's simulations receives in two seconds at
/// 40 % load.
const MAX_ENTRIES: usize = 32_768;

/// The set of named senders.
#[derive(Debug)]
pub(super) struct NamedSenders {
    /// Time for which a named sender is remembered.
    lifetime: Time,
    entries: BTreeSet<IncastSender>,
    /// The entries with the time of their first announcement, oldest first.
    by_age: VecDeque<(Time, IncastSender)>,
}

/// A sender of an incast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IncastSender {
    tenant: u32,
    /// Number of the incast within the tenant.
    incast: u32,
    sender: Ipv4Addr,
}

impl NamedSenders {
    pub(super) fn new(lifetime: Time) -> NamedSenders {
        NamedSenders { lifetime, entries: BTreeSet::new(), by_age: VecDeque::new() }
    }

    /// Records that an announcement of a tenant's incast names `sender`. Returns whether it is the first one of this
    /// incast to do so; always true for an incast without a number.
    pub(super) fn mark_named(&mut self, now: Time, tenant: u32, incast: u32, sender: Ipv4Addr) -> bool {
        if incast == 0 {
            return true;
        }
        self.forget_old(now);
        let entry = IncastSender { tenant, incast, sender };
        let is_new = self.entries.insert(entry);
        if is_new {
            self.by_age.push_back((now, entry));
        }
        is_new
    }

    /// Removes entries that are older than `lifetime`, and the oldest ones to make room for another.
    fn forget_old(&mut self, now: Time) {
        while let Some((named_at, entry)) = self.by_age.front()
            && (now.saturating_sub(*named_at) > self.lifetime || self.by_age.len() >= MAX_ENTRIES)
        {
            self.entries.remove(entry);
            self.by_age.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forgotten_after_their_lifetime_and_beyond_the_maximum() {
        let mut named = NamedSenders::new(Time::from_ms(1));
        let host = |n: u32| Ipv4Addr::from(0x0a00_0000 + n);
        assert!(named.mark_named(Time::ZERO, 1, 7, host(1)));
        assert!(!named.mark_named(Time::from_ms(1), 1, 7, host(1)));
        assert!(named.mark_named(Time::from_ms(1), 2, 7, host(1)), "another tenant's");
        assert!(named.mark_named(Time::from_ms(1), 1, 8, host(1)), "another incast");
        assert!(named.mark_named(Time::from_us(1_001), 1, 7, host(1)), "the lifetime is over");
        for n in 0..2 * MAX_ENTRIES as u32 {
            assert!(named.mark_named(Time::from_us(1_002), 1, 9, host(n)));
            assert!(named.by_age.len() <= MAX_ENTRIES && named.entries.len() == named.by_age.len());
        }
        assert!(named.mark_named(Time::from_us(1_002), 1, 9, host(0)), "the oldest is forgotten");
        assert!(!named.mark_named(Time::from_us(1_002), 1, 9, host(2 * MAX_ENTRIES as u32 - 1)));
    }
}
