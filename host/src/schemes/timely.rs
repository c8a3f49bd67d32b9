//! TIMELY (SIGCOMM 2015): the gradient of the round-trip time says whether the queue grows.
//!
//! Three variants (docs/algorithms/timely.md): `patched` (Zhu et al., CoNEXT 2016), which has a fixed point, `paper`
//! and `simulator` (HPCC's), which have none.

use super::pacing::{Pacing, PacingConfig, Window};
use crate::parameter::{
    HostsOwn, OneOf, Or, ParameterInfo, ParameterOf, ParameterValue, RateOf, Variants, part,
};
use crate::scheme::{AckEvent, Decision, FlowParams, Needs, Pace, Scheme, Sender, SwitchProgram};
use crate::telemetry::TelemetryChecks;
use weir_units::{Bytes, Time};

/// TIMELY's parameters.
#[derive(Clone, Debug)]
pub(super) struct Timely {
    variant: Variant,
    ewma: Or<Variants, Weight>,
    beta: f64,
    patch_beta: f64,
    t_low: Time,
    t_high: Time,
    min_rtt: Or<HostsOwn, Time>,
    delta: RateOf,
    segment: Bytes,
    hai_after: u32,
    pacing: PacingConfig,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Patched,
    Paper,
    Simulator,
}

impl OneOf for Variant {
    const WORDS: &'static [(&'static str, Self)] =
        &[("patched", Variant::Patched), ("paper", Variant::Paper), ("simulator", Variant::Simulator)];
}

/// A number from 0 to 1.
#[derive(Clone, Copy, Debug)]
struct Weight(f64);

impl ParameterValue for Weight {
    fn read(text: &str) -> Result<Self, String> {
        crate::parameter::number_in(text, &(0.0..=1.0)).map(Weight)
    }
    fn write(self) -> String {
        self.0.to_string()
    }
}

impl Default for Timely {
    fn default() -> Self {
        Timely {
            variant: Variant::Patched,
            ewma: Or::word(),
            beta: 0.8,
            patch_beta: 0.008,
            t_low: Time::from_us(50),
            t_high: Time::from_us(500),
            min_rtt: Or::word(),
            delta: RateOf::NicOver(1000),
            segment: Bytes::from_kb(16),
            hai_after: 5,
            pacing: PacingConfig::new(Window::Off),
        }
    }
}

impl Timely {
    fn pick<T>(&self, patched: T, paper: T, simulator: T) -> T {
        match self.variant {
            Variant::Patched => patched,
            Variant::Paper => paper,
            Variant::Simulator => simulator,
        }
    }

    fn law(&self, flow: &FlowParams) -> Law {
        Law {
            variant: self.variant,
            ewma: self.ewma.or(Weight(self.pick(0.875, 0.02, 0.875))).0,
            beta: self.beta,
            patch_beta: self.patch_beta,
            t_low: self.t_low.as_secs_f64(),
            t_high: self.t_high.as_secs_f64(),
            min_rtt: self.min_rtt.or(flow.base_rtt).as_secs_f64(),
            delta: self.delta.of(flow.nic_rate).as_bps_f64(),
            hai_after: self.hai_after,
        }
    }
}

impl Scheme for Timely {
    const NAME: &'static str = "timely";
    const ABOUT: &'static str = "TIMELY: follows the gradient of the round-trip time";

    fn parameters() -> Vec<ParameterOf<Self>> {
        let own = vec![
            ParameterOf::new(
                ParameterInfo {
                    name: "variant",
                    unit: "-",
                    range: "patched, paper or simulator",
                    symbol: "-",
                    source: "Zhu et al., CoNEXT 2016: the paper's law has no fixed point",
                    help: "With an error term; as published; or once per round trip.",
                },
                |c: &mut Timely| &mut c.variant,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "ewma",
                    unit: "-",
                    range: "variant (patched 0.875, paper 0.02, simulator 0.875) or 0 to 1",
                    symbol: "alpha",
                    source: "TIMELY authors' snippet (the paper gives none); HPCC simulator; eRPC has 0.46",
                    help: "Weight of the newest difference of round-trip times.",
                },
                |c| &mut c.ewma,
            ),
            ParameterOf::number(
                ParameterInfo {
                    name: "beta",
                    unit: "-",
                    range: "0 to 1",
                    symbol: "beta",
                    source: "TIMELY §6",
                    help: "How far a rate falls.",
                },
                0.0..=1.0,
                |c| &mut c.beta,
            ),
            ParameterOf::number(
                ParameterInfo {
                    name: "patch_beta",
                    unit: "-",
                    range: "0 to 1",
                    symbol: "beta",
                    source: "Zhu et al., CoNEXT 2016, as others' simulators have it; eRPC has 0.26",
                    help: "The same between the thresholds (patched variant).",
                },
                0.0..=1.0,
                |c| &mut c.patch_beta,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "t_low",
                    unit: "s",
                    range: "a time above 0",
                    symbol: "T_low",
                    source: "TIMELY §6",
                    help: "Below this round-trip time the rate always rises.",
                },
                |c| &mut c.t_low,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "t_high",
                    unit: "s",
                    range: "a time above 0",
                    symbol: "T_high",
                    source: "TIMELY §6",
                    help: "Above this round-trip time the rate always falls.",
                },
                |c| &mut c.t_high,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "min_rtt",
                    unit: "s",
                    range: "host (the host's base RTT) or a time above 0",
                    symbol: "minRTT",
                    source: "TIMELY §4.3; 20 us there and in the HPCC simulator",
                    help: "What the gradient is relative to.",
                },
                |c| &mut c.min_rtt,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "delta",
                    unit: "bit/s",
                    range: "a rate above 0, or nic/N",
                    symbol: "delta",
                    source: "TIMELY §6: 10 Mbit/s at 10 Gbit/s; HPCC simulator run.py the same per rate",
                    help: "Additive increase.",
                },
                |c| &mut c.delta,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "segment",
                    unit: "B",
                    range: "a size above 0",
                    symbol: "-",
                    source: "TIMELY §6",
                    help: "Bytes to a completion, each one sample (not in the simulator variant).",
                },
                |c| &mut c.segment,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "hai_after",
                    unit: "times",
                    range: "a count above 0",
                    symbol: "N",
                    source: "TIMELY §4.3",
                    help: "After this many good samples in a row the rate rises by 5 delta.",
                },
                |c| &mut c.hai_after,
            ),
        ];
        let pacing = PacingConfig::parameters("TIMELY §5 regulates a rate");
        own.into_iter().chain(part(pacing, |c: &mut Timely| &mut c.pacing)).collect()
    }
    fn needs(&self) -> Needs {
        Needs::of(SwitchProgram::Ecn)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let pacing = Pacing::new(&self.pacing, flow);
        Box::new(TimelySender {
            pacing,
            law: self.law(flow),
            segment: self.segment.get(),
            state: State { rate: pacing.line(), prev: None, diff: 0.0, good: 0 },
            acked: 0,
            round_ends: 0,
            updated: Time::ZERO,
        })
    }
}

/// Times in seconds, rates in bit/s.
#[derive(Clone, Copy, Debug)]
struct Law {
    variant: Variant,
    ewma: f64,
    beta: f64,
    patch_beta: f64,
    t_low: f64,
    t_high: f64,
    min_rtt: f64,
    delta: f64,
    hai_after: u32,
}

/// Hyperactive increase: this many deltas at once (TIMELY §4.3; HPCC simulator's RHAI is 5 RAI too).
const HAI: f64 = 5.0;
/// No update leaves less than this share of a rate (TIMELY authors' snippet).
const DEEPEST_CUT: f64 = 0.5;

#[derive(Clone, Copy, Debug)]
struct State {
    rate: f64,
    prev: Option<f64>,
    /// `rtt_diff`.
    diff: f64,
    /// Good samples in a row.
    good: u32,
}

impl State {
    /// TIMELY Alg. 1. `scale` is how much of a minimum round trip has passed since the last update.
    fn update(&mut self, law: &Law, rtt: f64, scale: f64) {
        // The first one is only something to compare with.
        let Some(prev) = self.prev.replace(rtt) else { return };
        self.diff = (1.0 - law.ewma) * self.diff + law.ewma * (rtt - prev);
        let gradient = self.diff / law.min_rtt;
        match law.variant {
            Variant::Patched => self.patched(law, rtt, gradient, scale),
            Variant::Paper | Variant::Simulator => {
                let good = rtt < law.t_low || (rtt <= law.t_high && gradient <= 0.0);
                if !good {
                    self.good = 0;
                    let cut = if rtt > law.t_high { 1.0 - law.t_high / rtt } else { gradient };
                    self.rate *= (1.0 - law.beta * cut).max(0.0);
                } else if law.variant == Variant::Simulator {
                    // Every increase counts, the first `hai_after` of them are small.
                    let hyper = self.good >= law.hai_after;
                    self.good = self.good.saturating_add(1);
                    self.rate += if hyper { HAI * law.delta } else { law.delta };
                } else {
                    // Completions with a falling round-trip time count.
                    self.good = if gradient < 0.0 { self.good.saturating_add(1) } else { 0 };
                    let hyper = rtt >= law.t_low && self.good >= law.hai_after;
                    self.rate += if hyper { HAI * law.delta } else { law.delta };
                }
            }
        }
    }

    /// Zhu et al.: between the thresholds the rate follows the distance from T_low as well, weighted by
    /// the gradient.
    fn patched(&mut self, law: &Law, rtt: f64, gradient: f64, scale: f64) {
        let ai = law.delta * scale;
        let factor = |beta: f64, cut: f64| (1.0 - beta * scale * cut).max(DEEPEST_CUT);
        if rtt < law.t_low {
            self.rate += ai;
        } else if rtt > law.t_high {
            self.rate *= factor(law.beta, 1.0 - law.t_high / rtt);
        } else {
            let weight = (2.0 * gradient + 0.5).clamp(0.0, 1.0);
            let error = (rtt - law.t_low) / law.t_low;
            self.rate = self.rate * factor(law.patch_beta, weight * error) + ai * (1.0 - weight);
        }
    }
}

#[derive(Debug)]
struct TimelySender {
    pacing: Pacing,
    law: Law,
    segment: u64,
    state: State,
    /// Bytes of the present segment.
    acked: u64,
    /// Next byte to be sent at the last update.
    round_ends: u64,
    updated: Time,
}

impl Sender for TimelySender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryChecks) -> Decision {
        self.acked += ack.acked.get();
        let Some(rtt) = ack.rtt.filter(|&rtt| rtt > Time::ZERO) else { return self.decision() };
        let rtt = rtt.as_secs_f64();
        let due = match self.law.variant {
            Variant::Patched | Variant::Paper => self.acked >= self.segment,
            Variant::Simulator => ack.seq > self.round_ends,
        };
        if due {
            let since = ack.now.saturating_sub(self.updated).as_secs_f64();
            self.state.update(&self.law, rtt, (since / self.law.min_rtt).min(1.0));
            self.state.rate = self.pacing.clamp(self.state.rate);
            (self.acked, self.round_ends, self.updated) = (0, ack.snd_nxt, ack.now);
        }
        self.decision()
    }
    fn resume(&mut self, now: Time, from: &Pace) -> Decision {
        self.state.rate = self.pacing.clamp(from.rate);
        self.updated = now;
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.pacing.decide(self.state.rate, None)
    }
}
