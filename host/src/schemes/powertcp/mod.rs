//! PowerTCP and theta-PowerTCP (NSDI 2022): the window follows power, the product of the rate of arrivals at the
//! bottleneck ("current") and the bytes that its queue and the path hold ("voltage").
//!
//! This file has the parameters and the control law that both share. `telemetry.rs` measures power from HPCC's
//! records, `theta.rs` from round-trip times. Rules, sources and deviations: docs/algorithms/powertcp.md.

mod telemetry;
mod theta;

pub(super) use telemetry::PowerTcp;
pub(super) use theta::ThetaPowerTcp;

use super::pacing::{MIN_RATE, RateLimits, WindowMode};
use crate::parameter::{EnumParameter, HostDefault, KeywordOr, RateSpec};
use crate::parameters;
use crate::scheme::{AckEvent, Decision, FlowParams, SendingRate};
use weir_units::Time;

parameters! {
    /// The parameters that both schemes share.
    struct PowerConfig {
        /// Form of the control law: as published, or as in the authors' simulator.
        variant: Variant = Variant::Paper => {
            range: "paper or simulator", source: "PowerTCP Alg. 1 and 2; authors' simulator rdma-hw.cc:980-1097",
        };
        /// Additive increase of the rate.
        beta: RateSpec = RateSpec::NicOver(167) => {
            symbol: "beta/tau", unit: "bit/s", range: "a rate above 0, or nic/N",
            source: "authors' simulator: 150 Mbit/s at 25 Gbit/s; PowerTCP: nic/N with N flows at the NIC, N open",
        };
        /// Smallest rate of arrivals that counts, over the link's rate.
        min_current: f64 = 0.5 => {
            in 0.0..=1.0, range: "0 to 1", source: "authors' simulator; the paper has none",
        };
        /// Base round-trip time, which relates windows to rates.
        base_rtt: KeywordOr<HostDefault, Time> = KeywordOr::word() => {
            symbol: "tau", unit: "s", range: "host (the host's base RTT) or a time above 0", source: "PowerTCP Alg. 1",
        };
        min_rate: RateSpec = RateSpec::NicOver(1000) => { info: MIN_RATE };
    }
}

/// Where the control law differs (docs/algorithms/powertcp.md#variant-simulator).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Paper,
    Simulator,
}

impl EnumParameter for Variant {
    const NAMES: &'static [(&'static str, Self)] =
        &[("paper", Variant::Paper), ("simulator", Variant::Simulator)];
}

/// Smallest power by which a window is divided; keeps the window finite if `min_current` is 0.
const MIN_POWER: f64 = 1e-6;

/// The control law for one flow. It keeps rates in bit/s, which are windows over `tau`.
#[derive(Debug)]
struct PowerWindow {
    /// The limits of the rate, and `tau`, the base round-trip time.
    limits: RateLimits,
    variant: Variant,
    gamma: f64,
    /// Additive increase in bit/s.
    beta: f64,
    rate: f64,
    /// `cwnd_old` over `tau`, which changes once per round trip.
    old_rate: f64,
    /// `snd_nxt` at the last commit.
    last_update_seq: u64,
}

impl PowerWindow {
    /// Creates the state of a flow that starts at line rate.
    fn new(config: &PowerConfig, gamma: f64, flow: &FlowParams) -> PowerWindow {
        // PowerTCP Alg. 1: the pacing rate is the window over `tau`.
        let mut limits = RateLimits::with(config.min_rate, WindowMode::Varying, flow);
        limits.set_base_rtt(config.base_rtt.or(flow.base_rtt));
        PowerWindow {
            limits,
            variant: config.variant,
            gamma,
            beta: config.beta.resolve(flow.nic_rate).as_bps_f64(),
            rate: limits.line_rate(),
            old_rate: limits.line_rate(),
            last_update_seq: 0,
        }
    }

    /// Returns `tau`.
    fn tau(&self) -> Time {
        self.limits.base_rtt()
    }

    /// Returns whether the ACK confirms data that was sent after the last commit.
    fn is_new_round(&self, ack: &AckEvent<'_>) -> bool {
        ack.seq > self.last_update_seq
    }

    /// Starts a round trip that ends when the data sent so far is acknowledged.
    fn start_round(&mut self, ack: &AckEvent<'_>) {
        self.last_update_seq = self.last_update_seq.max(ack.snd_nxt);
    }

    /// PowerTCP Alg. 1, UPDATEWINDOW and UPDATEOLD. `commit` remembers the new window for the next round trip.
    fn update(&mut self, power: f64, commit: bool) {
        let smoothed_from = match self.variant {
            Variant::Paper => self.rate,
            Variant::Simulator => self.old_rate,
        };
        let target = self.old_rate / power.max(MIN_POWER) + self.beta;
        self.rate = self.limits.clamp(self.gamma * target + (1.0 - self.gamma) * smoothed_from);
        if commit {
            self.old_rate = self.rate;
        }
    }

    /// Continues a running flow at the rate left by another scheme.
    fn resume(&mut self, from: &SendingRate) {
        self.rate = self.limits.clamp(from.rate);
        self.old_rate = self.rate;
    }

    fn decision(&self) -> Decision {
        self.limits.decide(self.rate, None)
    }
}
