//! ExpressPass (SIGCOMM 2017): the receiver sends credits, the sender sends one packet per credit, and switches drop
//! the credits whose data would exceed a link. The receiver paces the credits of each flow and adapts their rate to
//! credit loss.
//!
//! The feedback control follows the authors' ns-2 agent (`xpass.cc`, `credit_feedback_control`).

use super::dice::hash;
use super::pacing::{PacingConfig, RateLimits, WindowMode};
use crate::parameters;
use crate::port_algorithm::{CREDIT_BYTES, CreditLimit, PortAlgorithm};
use crate::scheme::{
    AckEvent, AckFields, Credit, DataEvent, Decision, FlowParams, Needs, Receiver, Scheme, Sender,
    SwitchProgram,
};
use crate::telemetry::TelemetryCounters;
use weir_units::{Bandwidth, Time};

parameters! {
    /// ExpressPass' parameters.
    pub(super) struct ExpressPass {
        /// Fraction of a link's rate that credits may use.
        share: f64 = 0.04 => {
            in 0.001..=0.5, name: "credit_share", range: "0.001 to 0.5",
            source: "ExpressPass: 84 B of 84 + 1,538; here 66 B of 1,518 and twice 66, for the ACK",
        };
        /// Largest number of credits that may leave a port at once.
        burst: u32 = 8 => {
            unit: "credits", range: "a count above 0", source: "ExpressPass: a credit queue of 8",
        };
        /// Initial credit rate of a flow, as a fraction of the maximum.
        start: f64 = 0.5 => {
            in 0.001..=1.0, symbol: "alpha", range: "0.001 to 1",
            source: "ExpressPass authors' ns-2 script for a fat tree; 1/16 in others",
        };
        /// Initial weight of the maximum rate in an increase.
        weight: f64 = 0.5 => {
            in 0.001..=MAX_WEIGHT, symbol: "w_init", range: "0.001 to 0.5",
            source: "ExpressPass authors' ns-2 script for a fat tree; 1/16 in others",
        };
        /// Minimum of that weight.
        min_weight: f64 = 0.01 => {
            in 0.001..=MAX_WEIGHT, name: "least_weight", symbol: "w_min", range: "0.001 to 0.5", source: "ExpressPass",
        };
        /// Share of credits that a slow flow may lose without reducing its rate; falls to 0 at the maximum rate.
        target_loss: f64 = 0.125 => {
            in 0.0..=0.9, range: "0 to 0.9",
            source: "ExpressPass authors' ns-2: target_loss_scaling; the paper has 0.1 for all rates",
        };
        /// Fraction by which the gap between credits varies, so that flows lose credits evenly.
        jitter: f64 = 0.1 => {
            in 0.0..=0.5, range: "0 to 0.5", source: "ExpressPass authors' ns-2; the paper advises jitter and gives none",
        };
    }
}

/// Upper bound of the weight (`xpass.cc`).
const MAX_WEIGHT: f64 = 0.5;
/// Increment of the weight (`xpass.cc`).
const WEIGHT_STEP: f64 = 0.05;

impl Scheme for ExpressPass {
    const NAME: &'static str = "expresspass";
    const ABOUT: &'static str = "ExpressPass: receivers send credits, switches drop those that exceed a rate";
    fn needs(&self) -> Needs {
        Needs::of(SwitchProgram::Xpass)
    }
    fn port_algorithm(&self, _base_rtt: Time) -> Option<PortAlgorithm> {
        Some(PortAlgorithm::Credits(CreditLimit { share: self.share, burst: self.burst }))
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Box::new(CreditedSender(RateLimits::new(&PacingConfig::new(WindowMode::Off), flow)))
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        let interval = CreditLimit { share: self.share, burst: self.burst }.interval(host.nic_rate);
        Box::new(CreditReceiver {
            config: self.clone(),
            interval,
            rtt: host.base_rtt,
            next_admission: Time::ZERO,
            flows: Vec::new(),
        })
    }
}

/// A sender at line rate: only credits limit it.
#[derive(Debug)]
struct CreditedSender(RateLimits);

impl Sender for CreditedSender {
    fn on_ack(&mut self, _ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.0.decide(self.0.line_rate(), None)
    }
}

/// The receiver half of a host.
#[derive(Debug)]
struct CreditReceiver {
    config: ExpressPass,
    /// Interval between credits at the maximum rate.
    interval: Time,
    rtt: Time,
    /// Time at which the host's own link admits the next credit. The host limits credits as a switch does.
    next_admission: Time,
    /// Indexed by [`DataEvent::slot`].
    flows: Vec<CreditFlow>,
}

/// Credit state of one flow. Rates are relative to the maximum credit rate.
#[derive(Clone, Copy, Debug, Default)]
struct CreditFlow {
    rate: f64,
    weight: f64,
    /// True if the last update was an increase.
    is_rising: bool,
    /// Number of the next credit. Numbers wrap.
    next_number: u32,
    /// Highest credit number echoed by DATA.
    highest_credit: u32,
    /// Credits up to `highest_credit` since the last update of the rate.
    total_credits: u32,
    /// The part of `total_credits` that brought no data.
    lost_credits: u32,
    /// Time of the last update of the rate.
    updated_at: Time,
}

impl CreditReceiver {
    /// Updates the credit rate of a flow from its credit loss (`credit_feedback_control`).
    fn update_rate(&mut self, now: Time, slot: usize) {
        let ExpressPass { target_loss, min_weight, .. } = self.config;
        let Some(flow) = self.flows.get_mut(slot) else { return };
        // At most one update per round trip.
        let elapsed = now.saturating_sub(flow.updated_at);
        if elapsed < self.rtt || flow.total_credits == 0 {
            return;
        }
        let target = (1.0 - flow.rate) * target_loss; // share of credits
        if f64::from(flow.lost_credits) > target * f64::from(flow.total_credits) {
            // Rate of the credits that brought data.
            let goodput = f64::from(flow.total_credits - flow.lost_credits) * self.interval.as_secs_f64()
                / elapsed.as_secs_f64();
            flow.rate = flow.rate.min(goodput * (1.0 + target));
            flow.weight = min_weight.max(flow.weight / 2.0);
            flow.is_rising = false;
        } else {
            if flow.is_rising {
                flow.weight = MAX_WEIGHT.min(flow.weight + WEIGHT_STEP);
            }
            flow.is_rising = true;
            flow.rate = flow.weight + (1.0 - flow.weight) * flow.rate;
        }
        // The minimum is one credit per round trip.
        let min_rate = self.interval.as_secs_f64() / self.rtt.as_secs_f64();
        flow.rate = flow.rate.max(min_rate.min(1.0)).min(1.0);
        (flow.total_credits, flow.lost_credits, flow.updated_at) = (0, 0, now);
    }
}

/// Returns a pseudo-random number in [-1, 1).
fn jitter_unit(seed: u64) -> f64 {
    (hash(seed) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

impl Receiver for CreditReceiver {
    fn resume_credits(&mut self, slot: u32, last_number: u32) {
        let index = slot as usize;
        if self.flows.len() <= index {
            self.flows.resize(index + 1, CreditFlow::default());
        }
        // `credit` starts one above `next_number` for the first credit.
        self.flows[index].next_number = last_number;
    }

    fn credit(&mut self, now: Time, slot: u32, is_first: bool) -> Option<Credit> {
        let index = slot as usize;
        if self.flows.len() <= index {
            self.flows.resize(index + 1, CreditFlow::default());
        }
        if is_first {
            let ExpressPass { start: rate, weight, .. } = self.config;
            // Numbering continues, so that a sender that requests credits again does not mistake new credits for old
            // ones.
            let next_number = self.flows[index].next_number.wrapping_add(1);
            let previous = next_number.wrapping_sub(1);
            self.flows[index] = CreditFlow {
                rate,
                weight,
                next_number,
                highest_credit: previous,
                updated_at: now,
                ..CreditFlow::default()
            };
        }
        let flow = &mut self.flows[index];
        let number = flow.next_number;
        flow.next_number = flow.next_number.wrapping_add(1);
        let jitter =
            1.0 + self.config.jitter * jitter_unit(now.as_ps() ^ u64::from(number) << 32 ^ u64::from(slot));
        let gap =
            Time::from_ps((self.interval.as_ps() as f64 / flow.rate * jitter) as u64).max(Time::from_ps(1));
        // A token bucket (GCRA) of the host's own link with depth `burst`. A credit that the bucket drops uses up its
        // number, so that loss measurement counts it like a credit dropped by a switch.
        let burst = self.interval * u64::from(self.config.burst.saturating_sub(1));
        let is_sent = self.next_admission <= now.saturating_add(burst);
        if is_sent {
            self.next_admission = self.next_admission.max(now).saturating_add(self.interval);
        }
        Some(Credit { number: is_sent.then_some(number), next_at: now.saturating_add(gap) })
    }

    fn on_data(&mut self, data: &DataEvent<'_>, _checks: &mut TelemetryCounters) -> AckFields {
        if let Some(slot) = data.slot.map(|slot| slot as usize)
            && let Some(flow) = self.flows.get_mut(slot)
        {
            // Only numbers of sent credits above the highest one so far count, so that forged numbers have no effect.
            let advance = data.credit.wrapping_sub(flow.highest_credit);
            if advance > 0 && advance < flow.next_number.wrapping_sub(flow.highest_credit) {
                flow.total_credits = flow.total_credits.saturating_add(advance);
                flow.lost_credits = flow.lost_credits.saturating_add(advance - 1);
                flow.highest_credit = data.credit;
                self.update_rate(data.now, slot);
            }
        }
        AckFields::default()
    }
}

impl CreditLimit {
    /// Returns the interval between credits at the maximum rate on a port of rate `line`.
    pub fn interval(&self, line: Bandwidth) -> Time {
        // 8 bits per byte, 10^12 ps per second.
        Time::from_ps((CREDIT_BYTES as f64 * 8e12 / (self.share * line.as_bps_f64())) as u64)
            .max(Time::from_ps(1))
    }
}
