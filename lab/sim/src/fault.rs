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
pub struct Fault {
    /// Number of reasons why it is down.
    pub down: u32,
    /// Time at which it last came up: what had left before is lost.
    up_since: Time,
    loss: Chance,
    duplicate: Chance,
    corrupt: Chance,
    reorder: Chance,
    reorder_by: Time,
    jitter: Time,
    /// The last arrival of a frame that keeps its place.
    latest: Time,
    /// Late frames by arrival, each with the time at which it would have arrived.
    held: BTreeMap<(Time, u64), (Time, Box<Packet>)>,
    holds: u64,
    /// The wire's own random numbers.
    stream: u64,
    drawn: u64,
}

/// A probability, in 2^-53.
#[derive(Clone, Copy, Default)]
struct Chance(u64);

impl From<Ratio> for Chance {
    fn from(ratio: Ratio) -> Chance {
        const ONE: f64 = (1u64 << 53) as f64;
        Chance((ratio.get() * ONE) as u64)
    }
}

/// A reason why a frame was lost on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The link was down.
    LinkDown,
    /// By chance.
    Chance,
}

impl Lost {
    /// As it stands in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Lost::LinkDown => "link_down",
            Lost::Chance => "link_loss",
        }
    }
}

impl Fault {
    /// None, of a wire with these random numbers.
    pub fn none(stream: u64) -> Fault {
        Fault {
            down: 0,
            up_since: Time::ZERO,
            loss: Chance::default(),
            duplicate: Chance::default(),
            corrupt: Chance::default(),
            reorder: Chance::default(),
            reorder_by: Time::ZERO,
            jitter: Time::ZERO,
            latest: Time::ZERO,
            held: BTreeMap::new(),
            holds: 0,
            stream,
            drawn: 0,
        }
    }

    /// Changes what frames meet from now on.
    pub fn impair(&mut self, change: &Impairment) {
        let set = |chance: &mut Chance, ratio: Option<Ratio>| {
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
    pub fn mend(&mut self, now: Time) {
        self.down = self.down.saturating_sub(1);
        if self.down == 0 {
            (self.up_since, self.latest) = (now, Time::ZERO);
        }
    }

    /// Returns whether a frame is lost because the link is down, or was since the frame left: it would have arrived at
    /// `reached`, after `delay` on the wire.
    pub fn loss_when_down(&self, reached: Time, delay: Time) -> Option<Lost> {
        (self.down > 0 || reached < self.up_since + delay).then_some(Lost::LinkDown)
    }

    /// Returns whether the next frame is lost by chance.
    pub fn loss_by_chance(&mut self) -> Option<Lost> {
        self.happens(self.loss).then_some(Lost::Chance)
    }

    /// Returns when a frame arrives that would arrive now.
    pub fn arrival(&mut self, now: Time) -> Time {
        if self.happens(self.reorder) {
            return now + self.reorder_by;
        }
        let jitter = match self.jitter {
            Time::ZERO => Time::ZERO,
            most => Time::from_ps(self.below(most.as_ps() + 1)),
        };
        self.latest = self.latest.max(now + jitter);
        self.latest
    }

    /// Inverts a bit of the frame, or does not. In a payload that is only a length it makes no difference.
    pub fn corrupt(&mut self, packet: &mut Packet) {
        if self.happens(self.corrupt) {
            let bit = self.below(u64::from(packet.len()) * 8);
            packet.invert_bit(bit as usize);
        }
    }

    /// Returns a copy of a frame that arrives twice.
    pub fn duplicate(&mut self, packet: &Packet, pool: &mut PacketPool) -> Option<Box<Packet>> {
        self.happens(self.duplicate).then(|| {
            let mut copy = pool.get();
            copy.copy_bytes_from(packet);
            copy
        })
    }

    /// Keeps a frame until `at`. [`Self::release`] must be called then.
    pub fn hold(&mut self, at: Time, now: Time, packet: Box<Packet>) {
        self.holds += 1;
        self.held.insert((at, self.holds), (now, packet));
    }

    /// Takes the next frame that is held, with the time at which it would have arrived.
    pub fn release(&mut self) -> Option<(Time, Box<Packet>)> {
        self.held.pop_first().map(|(_, held)| held)
    }

    /// Draws nothing unless it matters, so that one property does not change what another one does.
    fn happens(&mut self, chance: Chance) -> bool {
        chance.0 > 0 && self.draw() >> 11 < chance.0
    }

    /// Returns a number below `bound`, uniformly.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.stream ^ self.drawn)
    }
}
