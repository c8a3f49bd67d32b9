//! The senders that the lists of each incast have named.
//!
//! Every message of an incast lists all its senders. The first list counts for those that have not begun yet; a later one
//! must not add a sender again that is done.

use std::collections::{BTreeSet, VecDeque};
use std::net::Ipv4Addr;
use weir_units::Time;

/// Senders that are remembered, over all incasts. Beyond it the oldest are forgotten, and lists of their incasts count
/// anew. Ours: more than a host of Dart's simulations takes in two seconds at 40 % load.
const MAX_NAMED: usize = 32_768;

/// The senders that lists have named.
#[derive(Debug)]
pub(super) struct NamedSenders {
    /// Time for which they are remembered.
    lifetime: Time,
    named: BTreeSet<Named>,
    /// The same, each with the time at which it was first named, oldest first.
    order: VecDeque<(Time, Named)>,
}

/// Tenant, number of the incast, sender.
type Named = (u32, u32, Ipv4Addr);

impl NamedSenders {
    pub fn new(lifetime: Time) -> NamedSenders {
        NamedSenders { lifetime, named: BTreeSet::new(), order: VecDeque::new() }
    }

    /// Notes that a list of a tenant's incast names a sender. Returns whether no list of the incast has named it before:
    /// always, if the incast has no number.
    pub fn mark_named(&mut self, now: Time, tenant: u32, incast: u32, sender: Ipv4Addr) -> bool {
        if incast == 0 {
            return true;
        }
        self.forget(now);
        let named = (tenant, incast, sender);
        let is_new = self.named.insert(named);
        if is_new {
            self.order.push_back((now, named));
        }
        is_new
    }

    fn forget(&mut self, now: Time) {
        while let Some((at, named)) = self.order.front()
            && (now.saturating_sub(*at) > self.lifetime || self.order.len() >= MAX_NAMED)
        {
            self.named.remove(named);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_forgotten_after_their_time_and_beyond_their_number() {
        let mut incasts = NamedSenders::new(Time::from_ms(1));
        let host = |n: u32| Ipv4Addr::from(0x0a00_0000 + n);
        assert!(incasts.mark_named(Time::ZERO, 1, 7, host(1)));
        assert!(!incasts.mark_named(Time::from_ms(1), 1, 7, host(1)));
        assert!(incasts.mark_named(Time::from_ms(1), 2, 7, host(1)), "another tenant's");
        assert!(incasts.mark_named(Time::from_ms(1), 1, 8, host(1)), "another incast");
        assert!(incasts.mark_named(Time::from_us(1_001), 1, 7, host(1)), "its time is over");
        for n in 0..2 * MAX_NAMED as u32 {
            assert!(incasts.mark_named(Time::from_us(1_002), 1, 9, host(n)));
            assert!(incasts.order.len() <= MAX_NAMED && incasts.named.len() == incasts.order.len());
        }
        assert!(incasts.mark_named(Time::from_us(1_002), 1, 9, host(0)), "the oldest is forgotten");
        assert!(!incasts.mark_named(Time::from_us(1_002), 1, 9, host(2 * MAX_NAMED as u32 - 1)));
    }
}
