//! Faults of one direction of a link: frames are lost, late, overtaken, doubled or damaged when they arrive.
//!
//! Everything random has the wire's own stream, and happens in the order in which frames arrive: it does not depend on
//! threads. The properties mean what those of an emulated link do (`weir_switch::link`).

use std::collections::BTreeMap;
use weir_experiment::file::Impairment;
use weir_experiment::rng::mix;
use weir_switch::packet::{Packet, PacketPool};
use weir_units::{Ratio, Time};

/// The faults of a wire.
pub struct Impairments {
    /// Number of reasons why it is down.
    pub down_count: u32,
    /// Time at which it last came up: what had left before is lost.
    last_up_at: Time,
    loss: Probability,
    duplicate: Probability,
    corrupt: Probability,
    reorder: Probability,
    reorder_by: Time,
    jitter: Time,
    /// The last arrival of a frame that keeps its place.
    last_in_order_arrival: Time,
    /// Late frames by arrival, each with the time at which it would have arrived.
    held: BTreeMap<(Time, u64), (Time, Box<Packet>)>,
    delay_seq: u64,
    /// The wire's own random numbers.
    stream: u64,
    rng_counter: u64,
}

/// A probability, in 2^-53.
#[derive(Clone, Copy, Default)]
struct Probability(u64);

impl From<Ratio> for Probability {
    fn from(ratio: Ratio) -> Probability {
        const ONE: f64 = (1u64 << 53) as f64;
        Probability((ratio.get() * ONE) as u64)
    }
}

/// A reason why a frame was lost on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDrop {
    /// The link was down.
    LinkDown,
    /// By chance.
    Chance,
}

impl LinkDrop {
    /// As it stands in the report.
    pub const fn name(self) -> &'static str {
        match self {
            LinkDrop::LinkDown => "link_down",
            LinkDrop::Chance => "link_loss",
        }
    }
}

impl Impairments {
    /// None, of a wire with these random numbers.
    pub fn new(stream: u64) -> Impairments {
        Impairments {
            down_count: 0,
            last_up_at: Time::ZERO,
            loss: Probability::default(),
            duplicate: Probability::default(),
            corrupt: Probability::default(),
            reorder: Probability::default(),
            reorder_by: Time::ZERO,
            jitter: Time::ZERO,
            last_in_order_arrival: Time::ZERO,
            held: BTreeMap::new(),
            delay_seq: 0,
            stream,
            rng_counter: 0,
        }
    }

    /// Changes what frames meet from now on.
    pub fn impair(&mut self, change: &Impairment) {
        let set = |chance: &mut Probability, ratio: Option<Ratio>| {
            ratio.into_iter().for_each(|ratio| *chance = ratio.into());
        };
        set(&mut self.loss, change.loss);
        set(&mut self.duplicate, change.duplicate);
        set(&mut self.corrupt, change.corrupt);
        set(&mut self.reorder, change.reorder.map(|(ratio, _)| ratio));
        self.reorder_by = change.reorder.map_or(self.reorder_by, |(_, by)| by);
        self.jitter = change.jitter.unwrap_or(self.jitter);
    }

    /// One thing less keeps it down.
    pub fn link_up(&mut self, now: Time) {
        self.down_count = self.down_count.saturating_sub(1);
        if self.down_count == 0 {
            (self.last_up_at, self.last_in_order_arrival) = (now, Time::ZERO);
        }
    }

    /// Returns whether a frame is lost because the link is down, or was since the frame left: it would have arrived at
    /// `reached`, after `delay` on the wire.
    pub fn drop_if_down(&self, reached: Time, delay: Time) -> Option<LinkDrop> {
        (self.down_count > 0 || reached < self.last_up_at + delay).then_some(LinkDrop::LinkDown)
    }

    /// Returns whether the next frame is lost by chance.
    pub fn random_drop(&mut self) -> Option<LinkDrop> {
        self.bernoulli(self.loss).then_some(LinkDrop::Chance)
    }

    /// Returns when a frame arrives that would arrive now.
    pub fn arrival_time(&mut self, now: Time) -> Time {
        if self.bernoulli(self.reorder) {
            return now + self.reorder_by;
        }
        let jitter = match self.jitter {
            Time::ZERO => Time::ZERO,
            max => Time::from_ps(self.uniform_below(max.as_ps() + 1)),
        };
        self.last_in_order_arrival = self.last_in_order_arrival.max(now + jitter);
        self.last_in_order_arrival
    }

    /// Inverts a bit of the frame, or does not. In a payload that is only a length it makes no difference.
    pub fn corrupt(&mut self, packet: &mut Packet) {
        if self.bernoulli(self.corrupt) {
            let bit = self.uniform_below(u64::from(packet.len()) * 8);
            packet.invert_bit(bit as usize);
        }
    }

    /// Returns a copy of a frame that arrives twice.
    pub fn duplicate(&mut self, packet: &Packet, pool: &mut PacketPool) -> Option<Box<Packet>> {
        self.bernoulli(self.duplicate).then(|| {
            let mut copy = pool.get();
            copy.copy_bytes_from(packet);
            copy
        })
    }

    /// Keeps a frame until `at`. [`Self::release`] must be called then.
    pub fn delay_until(&mut self, at: Time, now: Time, packet: Box<Packet>) {
        self.delay_seq += 1;
        self.held.insert((at, self.delay_seq), (now, packet));
    }

    /// Takes the next frame that is held, with the time at which it would have arrived.
    pub fn release(&mut self) -> Option<(Time, Box<Packet>)> {
        self.held.pop_first().map(|(_, held)| held)
    }

    /// Draws nothing unless it matters, so that one property does not change what another one does.
    fn bernoulli(&mut self, chance: Probability) -> bool {
        chance.0 > 0 && self.next_u64() >> 11 < chance.0
    }

    /// Returns a number below `bound`, uniformly.
    fn uniform_below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    fn next_u64(&mut self) -> u64 {
        self.rng_counter += 1;
        mix(self.stream ^ self.rng_counter)
    }
}
