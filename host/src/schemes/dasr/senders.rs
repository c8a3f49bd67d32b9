use crate::scheme::DataEvent;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use weir_units::Time;

/// AUSS, the active unique senders' set (Dart §III-B), and those that are announced (§III-D).
#[derive(Debug)]
pub(super) struct Senders {
    /// Leading bits of an address that name its tenant; `None` if no announcement counts.
    tenant_bits: Option<u32>,
    soft_state: Time,
    announced_for: Time,
    known: BTreeMap<Ipv4Addr, Sender>,
    /// Those of `known` that have sent, whatever their tenant.
    active: u16,
    /// Those that have not, by tenant: they count for their own tenant only.
    expected: BTreeMap<u32, u16>,
    /// When each was announced, oldest first.
    announced: VecDeque<(Time, Ipv4Addr)>,
    swept: Time,
}

#[derive(Debug)]
struct Sender {
    messages: u32,
    last: Time,
    /// It was announced and has not sent yet: its first message is counted already.
    expected: bool,
}

/// Senders that are counted, at most: what Dart's simulations have hosts. Forged ones cannot slow the others
/// down further than that. As many may be announced.
const MAX_SENDERS: u16 = 1_024;
/// Looks for dead senders in each soft-state time.
const SWEEPS: u64 = 8;
/// A list has two bytes of each address: the others are those of who sends it.
const LISTED_BITS: u32 = 0xffff;

impl Senders {
    pub fn new(soft_state: Time, tenant_bits: Option<u32>, announced_for: Time) -> Senders {
        Senders {
            tenant_bits,
            soft_state,
            announced_for,
            announced: VecDeque::new(),
            known: BTreeMap::new(),
            active: 0,
            expected: BTreeMap::new(),
            swept: Time::ZERO,
        }
    }

    /// Takes note of a packet and returns n for who sent it.
    pub fn count(&mut self, data: &DataEvent<'_>) -> u16 {
        self.sweep(data.now);
        self.stop_expecting(data.now);
        if let Some(sender) = self.known.get_mut(&data.source) {
            sender.last = data.now;
            let arrives = data.first && std::mem::take(&mut sender.expected);
            sender.messages = sender.messages.saturating_add(u32::from(data.first && !arrives));
            if arrives {
                self.active += 1;
                self.no_longer_expected(data.source);
            }
        } else if data.slot.is_some() && self.active < MAX_SENDERS {
            // Also one that was taken for dead and goes on with its message.
            self.known.insert(data.source, Sender { messages: 1, last: data.now, expected: false });
            self.active += 1;
        }
        self.expect(data);
        if data.last
            && let Some(sender) = self.known.get_mut(&data.source)
        {
            sender.messages -= 1;
            if sender.messages == 0 {
                self.known.remove(&data.source);
                self.active -= 1;
            }
        }
        let expected = self.tenant(data.source).and_then(|tenant| self.expected.get(&tenant));
        // At least the one that reads it.
        (self.active + expected.copied().unwrap_or(0)).max(1)
    }

    /// §III-D: a flow begins when it is announced. Who is counted already stays counted once; a list of
    /// another tenant's senders says nothing.
    fn expect(&mut self, data: &DataEvent<'_>) {
        let Some(tenant) = self.tenant(data.source) else { return };
        for id in data.announced {
            let low = u32::from(u16::from_be_bytes(*id));
            let sender = Ipv4Addr::from(u32::from(data.source) & !LISTED_BITS | low);
            let expected = self.expected.values().sum::<u16>();
            if self.tenant(sender) == Some(tenant)
                && expected < MAX_SENDERS
                && !self.known.contains_key(&sender)
            {
                self.known.insert(sender, Sender { messages: 1, last: data.now, expected: true });
                *self.expected.entry(tenant).or_default() += 1;
                self.announced.push_back((data.now, sender));
            }
        }
    }

    /// Drops who was announced and has not come: a message of one packet can be over when the list that names its sender
    /// arrives.
    fn stop_expecting(&mut self, now: Time) {
        while let Some(&(at, sender)) = self.announced.front()
            && now.saturating_sub(at) > self.announced_for
        {
            self.announced.pop_front();
            // It may have come, gone and been announced again since.
            if self.known.get(&sender).is_some_and(|it| it.expected && it.last == at) {
                self.known.remove(&sender);
                self.no_longer_expected(sender);
            }
        }
    }

    /// Drops who was silent for longer than the soft-state time.
    fn sweep(&mut self, now: Time) {
        if now.saturating_sub(self.swept) < self.soft_state / SWEEPS {
            return;
        }
        self.swept = now;
        let is_dead = |sender: &Sender| !sender.expected && now.saturating_sub(sender.last) > self.soft_state;
        let dead: Vec<_> =
            self.known.iter().filter(|(_, sender)| is_dead(sender)).map(|(&at, _)| at).collect();
        for address in dead {
            self.known.remove(&address);
            self.active -= 1;
        }
    }

    fn no_longer_expected(&mut self, address: Ipv4Addr) {
        let Some(tenant) = self.tenant(address) else { return };
        if let Some(expected) = self.expected.get_mut(&tenant) {
            *expected -= 1;
            if *expected == 0 {
                self.expected.remove(&tenant);
            }
        }
    }

    /// Whose sender it is; `None` if no list counts anyway.
    fn tenant(&self, address: Ipv4Addr) -> Option<u32> {
        Some(u32::from(address).checked_shr(32 - self.tenant_bits?).unwrap_or(0))
    }
}
