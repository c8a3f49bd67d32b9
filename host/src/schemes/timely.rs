//! TIMELY (SIGCOMM 2015): controls the rate by the gradient of the round-trip time, which indicates whether queues
//! grow.
//!
//! Variants (docs/algorithms/timely.md): `patched` (Zhu et al., CoNEXT 2016), which has a fixed point; `paper` and
//! `simulator` (HPCC's), which have none.

use super::pacing::{PacingConfig, RateLimits, WindowMode};
use crate::parameter::{EnumParameter, HostDefault, KeywordOr, RateSpec, VariantDefault};
use crate::parameters;
use crate::scheme::{
    AckEvent, Decision, FlowParams, GaugeReporter, Needs, Scheme, Sender, SendingRate, SwitchProgram,
};
use crate::telemetry::TelemetryCounters;
use weir_units::{Bytes, Ratio, Time};

parameters! {
    /// TIMELY's parameters.
    pub(super) struct Timely {
        /// Form of the control law: with an error term, as published, or once per round trip.
        variant: Variant = Variant::Patched => {
            range: "patched, paper or simulator",
            source: "Zhu et al., CoNEXT 2016: the paper's law has no fixed point",
        };
        /// Weight of the newest difference of round-trip times.
        ewma: KeywordOr<VariantDefault, Ratio> = KeywordOr::word() => {
            value in Ratio::limit(0.001)..=Ratio::ONE, symbol: "alpha",
            range: "variant (patched 0.875, paper 0.02, simulator 0.875) or 0.001 to 1",
            source: "TIMELY authors' snippet (the paper gives none); HPCC simulator; eRPC has 0.46",
        };
        /// Multiplicative decrease factor.
        beta: f64 = 0.8 => { in 0.01..=1.0, symbol: "beta", range: "0.01 to 1", source: "TIMELY §6" };
        /// Multiplicative decrease factor between the thresholds (patched variant).
        patch_beta: f64 = 0.008 => {
            in 0.0001..=1.0, symbol: "beta", range: "0.0001 to 1",
            source: "Zhu et al., CoNEXT 2016, as others' simulators have it; eRPC has 0.26",
        };
        /// Below this round-trip time the rate always rises.
        t_low: Time = Time::from_us(50) => {
            symbol: "T_low", unit: "s", range: "a time above 0", source: "TIMELY §6",
        };
        /// Above this round-trip time the rate always falls.
        t_high: Time = Time::from_us(500) => {
            symbol: "T_high", unit: "s", range: "a time above 0", source: "TIMELY §6",
        };
        /// Round-trip time by which the gradient is divided.
        min_rtt: KeywordOr<HostDefault, Time> = KeywordOr::word() => {
            symbol: "minRTT", unit: "s", range: "host (the host's base RTT) or a time above 0",
            source: "TIMELY §4.3; 20 us there and in the HPCC simulator",
        };
        /// Additive increase.
        delta: RateSpec = RateSpec::NicOver(1000) => {
            symbol: "delta", unit: "bit/s", range: "a rate above 0, or nic/N",
            source: "TIMELY §6: 10 Mbit/s at 10 Gbit/s; HPCC simulator run.py the same per rate",
        };
        /// Bytes acknowledged per RTT sample (not in the simulator variant).
        segment: Bytes = Bytes::from_kb(16) => { unit: "B", range: "a size above 0", source: "TIMELY §6" };
        /// After this many good samples in a row the rate rises by 5 delta.
        hai_after: u32 = 5 => { symbol: "N", unit: "times", range: "a count above 0", source: "TIMELY §4.3" };
        pacing: PacingConfig = PacingConfig::new(WindowMode::Off) => { part, window from "TIMELY §5 regulates a rate" };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    /// Zhu et al., CoNEXT 2016.
    Patched,
    /// TIMELY Alg. 1.
    Paper,
    /// The HPCC simulator's.
    Simulator,
}

impl EnumParameter for Variant {
    const NAMES: &'static [(&'static str, Self)] =
        &[("patched", Variant::Patched), ("paper", Variant::Paper), ("simulator", Variant::Simulator)];
}

impl Scheme for Timely {
    const NAME: &'static str = "timely";
    const ABOUT: &'static str = "TIMELY: follows the gradient of the round-trip time";

    fn needs(&self) -> Needs {
        Needs::of(SwitchProgram::Ecn)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let pacing = RateLimits::new(&self.pacing, flow);
        // Both are valid ratios, so the fallback below is never used.
        let ewma = Ratio::new(if self.variant == Variant::Paper { 0.02 } else { 0.875 });
        Box::new(TimelySender {
            pacing,
            ewma: self.ewma.or(ewma.unwrap_or(Ratio::ONE)).get(),
            min_rtt: self.min_rtt.or(flow.base_rtt).as_secs_f64(),
            delta: self.delta.resolve(flow.nic_rate).as_bps_f64(),
            config: self.clone(),
            rate: pacing.line_rate(),
            previous_rtt: None,
            rtt_diff: 0.0,
            good_samples: 0,
            acked: Bytes::ZERO,
            round_end_seq: 0,
            updated_at: Time::ZERO,
        })
    }
}

/// Number of increments in a hyperactive increase (TIMELY §4.3; HPCC simulator: RHAI is 5 RAI).
const HAI_FACTOR: f64 = 5.0;
/// Lower bound of the factor by which an update multiplies the rate (TIMELY authors' snippet).
const MIN_CUT_FACTOR: f64 = 0.5;

#[derive(Debug)]
struct TimelySender {
    config: Timely,
    pacing: RateLimits,
    /// Weight of the newest difference in `rtt_diff`.
    ewma: f64,
    /// Minimum RTT in seconds.
    min_rtt: f64,
    /// Additive increase in bit/s.
    delta: f64,
    /// Sending rate in bit/s.
    rate: f64,
    /// The previous RTT sample in seconds.
    previous_rtt: Option<f64>,
    /// Average difference of consecutive RTT samples, in seconds.
    rtt_diff: f64,
    /// Consecutive good samples, for hyperactive increase.
    good_samples: u32,
    /// Bytes acknowledged in the present segment.
    acked: Bytes,
    /// `snd_nxt` at the last update.
    round_end_seq: u64,
    /// Time of the last update.
    updated_at: Time,
}

impl TimelySender {
    /// TIMELY Alg. 1, for an RTT in seconds. `scale` is the time since the last update divided by the minimum RTT,
    /// at most 1.
    fn update(&mut self, rtt: f64, scale: f64) {
        // The gradient needs two samples.
        let Some(previous) = self.previous_rtt.replace(rtt) else { return };
        self.rtt_diff = (1.0 - self.ewma) * self.rtt_diff + self.ewma * (rtt - previous);
        let gradient = self.rtt_diff / self.min_rtt;
        let (low, high) = (self.config.t_low.as_secs_f64(), self.config.t_high.as_secs_f64());
        if self.config.variant == Variant::Patched {
            return self.update_patched(rtt, gradient, scale, low, high);
        }
        if rtt >= low && (rtt > high || gradient > 0.0) {
            self.good_samples = 0;
            let cut = if rtt > high { 1.0 - high / rtt } else { gradient };
            self.rate *= (1.0 - self.config.beta * cut).max(0.0);
            return;
        }
        let is_hyper = if self.config.variant == Variant::Simulator {
            // Every increase counts; the first `hai_after` are small.
            self.good_samples = self.good_samples.saturating_add(1);
            self.good_samples > self.config.hai_after
        } else {
            // Only samples with a falling RTT count.
            self.good_samples = if gradient < 0.0 { self.good_samples.saturating_add(1) } else { 0 };
            rtt >= low && self.good_samples >= self.config.hai_after
        };
        self.rate += if is_hyper { HAI_FACTOR * self.delta } else { self.delta };
    }

    /// Zhu et al.: between the thresholds the rate also follows the distance from T_low, weighted by the gradient.
    fn update_patched(&mut self, rtt: f64, gradient: f64, scale: f64, low: f64, high: f64) {
        let increase = self.delta * scale;
        let factor = |beta: f64, cut: f64| (1.0 - beta * scale * cut).max(MIN_CUT_FACTOR);
        if rtt < low {
            self.rate += increase;
        } else if rtt > high {
            self.rate *= factor(self.config.beta, 1.0 - high / rtt);
        } else {
            let weight = (2.0 * gradient + 0.5).clamp(0.0, 1.0);
            let error = (rtt - low) / low;
            self.rate =
                self.rate * factor(self.config.patch_beta, weight * error) + increase * (1.0 - weight);
        }
    }
}

impl Sender for TimelySender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        self.acked += ack.acked;
        let Some(rtt) = ack.rtt.filter(|&rtt| rtt > Time::ZERO) else { return self.decision() };
        let is_due = match self.config.variant {
            Variant::Patched | Variant::Paper => self.acked >= self.config.segment,
            Variant::Simulator => ack.seq > self.round_end_seq,
        };
        if is_due {
            let elapsed = ack.now.saturating_sub(self.updated_at).as_secs_f64();
            self.update(rtt.as_secs_f64(), (elapsed / self.min_rtt).min(1.0));
            self.rate = self.pacing.clamp(self.rate);
            (self.acked, self.round_end_seq, self.updated_at) = (Bytes::ZERO, ack.snd_nxt, ack.now);
        }
        self.decision()
    }
    fn resume(&mut self, now: Time, from: &SendingRate) -> Decision {
        self.rate = self.pacing.clamp(from.rate);
        self.updated_at = now;
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.pacing.decide(self.rate, None)
    }
    /// The normalised gradient of the RTT.
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("gradient", self.rtt_diff / self.min_rtt);
    }
}
