//! Impairments of one link direction: loss, delay, reordering, duplication and corruption of frames on arrival.
//!
//! Each wire has its own stream of random numbers, consumed in the order in which frames arrive, so the results do
//! not depend on threads. The properties have the same meaning as those of an emulated link (`weir_switch::link`).

use std::collections::BTreeMap;
use weir_experiment::file::Impairment;
use weir_experiment::rng::mix;
use weir_switch::packet::{Packet, PacketPool};
use weir_units::{Ratio, Time};

/// The impairments of a wire.
pub struct Impairments {
    /// Number of reasons for which the wire is down (faults of the experiment, and changes by the user); 0 if it is up.
    pub down_count: u32,
    /// Time at which the wire last came up. Frames sent before that are dropped.
    last_up_at: Time,
    /// Probability that a frame is dropped; likewise for the next three.
    loss: Probability,
    duplicate: Probability,
    corrupt: Probability,
    reorder: Probability,
    /// Additional delay of a reordered frame.
    reorder_by: Time,
    /// Maximum random delay of the other frames.
    jitter: Time,
    /// Latest arrival time given to a frame that is not reordered.
    last_in_order_arrival: Time,
    /// Delayed frames by arrival time, then in the order in which they were delayed (`delay_seq`).
    held: BTreeMap<(Time, u64), HeldFrame>,
    delay_seq: u64,
    /// Seed of the wire's random numbers; `rng_counter` counts those drawn.
    stream: u64,
    rng_counter: u64,
}

/// A delayed frame.
pub struct HeldFrame {
    /// Time at which it would have arrived without the delay.
    pub undelayed_arrival: Time,
    pub packet: Box<Packet>,
}

/// A probability in units of 2^-53.
#[derive(Clone, Copy, Default)]
struct Probability(u64);

impl From<Ratio> for Probability {
    fn from(ratio: Ratio) -> Probability {
        const ONE: f64 = (1u64 << 53) as f64;
        Probability((ratio.get() * ONE) as u64)
    }
}

/// Reason for which a frame was dropped on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkDrop {
    /// The link was down on arrival, or had been down since the frame was sent.
    LinkDown,
    /// The impairments of the wire dropped it at random.
    RandomLoss,
}

impl LinkDrop {
    /// Name of the drop reason in reports.
    pub const fn name(self) -> &'static str {
        match self {
            LinkDrop::LinkDown => "link_down",
            LinkDrop::RandomLoss => "link_loss",
        }
    }
}

impl Impairments {
    /// Creates a wire without impairments; `stream` seeds its random numbers.
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

    /// Sets the properties that `change` contains; they apply to frames that arrive from now on.
    pub fn impair(&mut self, change: &Impairment) {
        let set = |probability: &mut Probability, ratio: Option<Ratio>| {
            ratio.into_iter().for_each(|ratio| *probability = ratio.into());
        };
        set(&mut self.loss, change.loss);
        set(&mut self.duplicate, change.duplicate);
        set(&mut self.corrupt, change.corrupt);
        set(&mut self.reorder, change.reorder.map(|(ratio, _)| ratio));
        self.reorder_by = change.reorder.map_or(self.reorder_by, |(_, by)| by);
        self.jitter = change.jitter.unwrap_or(self.jitter);
    }

    /// Removes one of the reasons for which the wire is down. If none is left, frames that were sent before `now` are
    /// dropped.
    pub fn link_up(&mut self, now: Time) {
        self.down_count = self.down_count.saturating_sub(1);
        if self.down_count == 0 {
            // Frames from before are dropped, so the order of arrivals begins anew.
            (self.last_up_at, self.last_in_order_arrival) = (now, Time::ZERO);
        }
    }

    /// Decides whether a frame is dropped because the link is down, or has been down since the frame was sent.
    /// `undelayed_arrival` is the frame's arrival time without impairments, `propagation_delay` that of the link.
    pub fn drop_if_down(&self, undelayed_arrival: Time, propagation_delay: Time) -> Option<LinkDrop> {
        // The last bit was sent one propagation delay before the arrival. If the link came up after that, the frame was
        // cut off.
        (self.down_count > 0 || undelayed_arrival < self.last_up_at + propagation_delay)
            .then_some(LinkDrop::LinkDown)
    }

    /// Decides whether the next frame is dropped at random.
    pub fn random_drop(&mut self) -> Option<LinkDrop> {
        self.bernoulli(self.loss).then_some(LinkDrop::RandomLoss)
    }

    /// Returns the arrival time of a frame that would arrive at `now` without impairments.
    pub fn arrival_time(&mut self, now: Time) -> Time {
        if self.bernoulli(self.reorder) {
            return now + self.reorder_by;
        }
        let jitter = match self.jitter {
            Time::ZERO => Time::ZERO,
            max => Time::from_ps(self.uniform_below(max.as_ps() + 1)),
        };
        // As on an emulated link, jitter delays frames but keeps their order. Only frames drawn for `reorder`, above,
        // are delayed past later frames, and they leave `last_in_order_arrival` unchanged.
        self.last_in_order_arrival = self.last_in_order_arrival.max(now + jitter);
        self.last_in_order_arrival
    }

    /// Inverts a random bit of the frame with the probability of corruption. In a virtual payload that has no effect.
    pub fn corrupt(&mut self, packet: &mut Packet) {
        if self.bernoulli(self.corrupt) {
            let bit = self.uniform_below(u64::from(packet.len()) * 8);
            packet.invert_bit(bit as usize);
        }
    }

    /// Returns a copy of the frame with the probability of duplication.
    pub fn duplicate(&mut self, packet: &Packet, pool: &mut PacketPool) -> Option<Box<Packet>> {
        self.bernoulli(self.duplicate).then(|| {
            let mut copy = pool.get();
            copy.copy_bytes_from(packet);
            copy
        })
    }

    /// Stores a frame that arrives now until the time `arrival`, when [`Self::release`] must be called.
    pub fn delay_until(&mut self, arrival: Time, now: Time, packet: Box<Packet>) {
        self.delay_seq += 1;
        self.held.insert((arrival, self.delay_seq), HeldFrame { undelayed_arrival: now, packet });
    }

    /// Removes and returns the earliest delayed frame.
    pub fn release(&mut self) -> Option<HeldFrame> {
        self.held.pop_first().map(|(_, held)| held)
    }

    /// Returns true with the given probability. Draws no random number if it is zero, so that setting one property
    /// does not change the outcomes of the others.
    fn bernoulli(&mut self, probability: Probability) -> bool {
        probability.0 > 0 && self.next_u64() >> 11 < probability.0
    }

    /// Returns a number uniform in `0..bound`.
    fn uniform_below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    fn next_u64(&mut self) -> u64 {
        self.rng_counter += 1;
        mix(self.stream ^ self.rng_counter)
    }
}
