//! RoCC (CoNEXT 2020): switches compute a fair rate per port and send it to the sources, whose rate limiters apply
//! it.
//!
//! The switch's controller has the parameters [`RoccParams`], which this file derives from the scheme's. It also
//! defines the source, which applies a rate that is lower than its own or comes from the port that limits it already,
//! and doubles its rate when no rate arrives (docs/algorithms/rocc.md#host).

use super::pacing::{PacingConfig, RateLimits, WindowMode};
use crate::parameter::EnumParameter;
use crate::parameters;
use crate::port_algorithm::{GRANT_UNIT_BPS, PortAlgorithm, RoccParams, UNLIMITED_GRANT};
use crate::scheme::{
    AckEvent, AckFields, CongestionPoint, DataEvent, Decision, DefaultReceiver, FlowParams, Needs, RateEvent,
    Receiver, Scheme, Sender, SendingRate, SwitchProgram, TelemetrySource,
};
use crate::telemetry::TelemetryCounters;
use weir_units::Time;

parameters! {
    /// RoCC's parameters.
    pub(super) struct Rocc {
        /// Packets that carry a port's rate to the source.
        feedback: RateFeedback = RateFeedback::RatePackets => {
            range: "rate (RATE packets from the switch) or ack (the least rate of the path, on ACKs)",
            source: "RoCC; the rate on ACKs is Weir's choice",
        };
        /// Time without a rate from a switch after which the rate doubles.
        recovery: Time = Time::from_us(200) => {
            unit: "s", range: "a time above 0", source: "Weir's choice: five periods; RoCC gives none",
        };
        /// Interval at which a port computes its rate.
        period: Time = Time::from_us(40) => {
            symbol: "T", unit: "s", range: "a time above 0", source: "RoCC, which advises 1 to 2 round trips",
        };
        /// Target queue, relative to what the port sends in a period.
        q_ref: f64 = 0.6 => {
            in 0.01..=100.0, symbol: "Qref", range: "0.01 to 100",
            source: "RoCC: 300, 600, 660 KB at 100 Gbit/s and 40 us",
        };
        /// Queue growth in a period from which the rate is halved, in the same unit.
        q_mid: f64 = 1.2 => {
            in 0.01..=100.0, symbol: "Qmid", range: "0.01 to 100",
            source: "RoCC: 300, 600, 660 KB at 100 Gbit/s and 40 us",
        };
        /// Queue from which the rate falls to its minimum, in the same unit.
        q_max: f64 = 1.32 => {
            in 0.01..=100.0, symbol: "Qmax", range: "0.01 to 100",
            source: "RoCC: 300, 600, 660 KB at 100 Gbit/s and 40 us",
        };
        /// Gain of the queue's distance from Qref.
        alpha: f64 = 0.45 => {
            in 0.0..=100.0, symbol: "alpha", range: "0 to 100", source: "RoCC, at 100 Gbit/s; 0.3 and 1.5 at 40",
        };
        /// Gain of the queue's growth.
        beta: f64 = 2.25 => {
            in 0.0..=100.0, symbol: "beta", range: "0 to 100", source: "RoCC, at 100 Gbit/s; 0.3 and 1.5 at 40",
        };
        /// Lowest rate that a port computes, relative to its own.
        f_min: f64 = 0.001 => {
            in 0.000_001..=0.5, symbol: "Fmin", range: "0.000001 to 0.5",
            source: "RoCC: 100 Mbit/s, at 100 Gbit/s; 0.0025 at 40",
        };
        pacing: PacingConfig = PacingConfig::new(WindowMode::Off) => { part, window from "RoCC regulates a rate" };
    }
}

/// How a switch's rate reaches the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateFeedback {
    /// RATE packets from the switch.
    RatePackets,
    /// The grant field of ACKs.
    Acks,
}

impl EnumParameter for RateFeedback {
    const NAMES: &'static [(&'static str, Self)] =
        &[("rate", RateFeedback::RatePackets), ("ack", RateFeedback::Acks)];
}

impl Scheme for Rocc {
    const NAME: &'static str = "rocc";
    const ABOUT: &'static str = "RoCC: switches compute a fair rate per port and send it to the sources";
    fn needs(&self) -> Needs {
        match self.feedback {
            RateFeedback::RatePackets => {
                Needs { telemetry: TelemetrySource::RateNotifications, ..Needs::of(SwitchProgram::Rocc) }
            }
            RateFeedback::Acks => Needs { writes_grant: true, ..Needs::of(SwitchProgram::Rocc) },
        }
    }
    fn port_algorithm(&self, _base_rtt: Time) -> Option<PortAlgorithm> {
        let Rocc { period, q_ref, q_mid, q_max, alpha, beta, f_min: min_share, .. } = *self;
        Some(PortAlgorithm::Rocc(RoccParams { period, q_ref, q_mid, q_max, alpha, beta, min_share }))
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let pacing = RateLimits::new(&self.pacing, flow);
        let rate = pacing.line_rate();
        Box::new(RoccSender {
            pacing,
            recovery_interval: self.recovery,
            rate,
            congestion_point: None,
            double_at: None,
        })
    }
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        match self.feedback {
            RateFeedback::RatePackets => Box::new(DefaultReceiver),
            RateFeedback::Acks => Box::new(UnlimitedGrantReceiver),
        }
    }
}

/// A receiver half that sends ACKs with an unlimited grant, for switches to lower.
#[derive(Debug)]
pub(super) struct UnlimitedGrantReceiver;

impl Receiver for UnlimitedGrantReceiver {
    fn on_data(&mut self, _data: &DataEvent<'_>, _checks: &mut TelemetryCounters) -> AckFields {
        AckFields { grant: UNLIMITED_GRANT, ..AckFields::default() }
    }
}

/// Returns the rate in bit/s in the ACK's grant field; `None` if no port on the path has set one.
pub(super) fn granted_rate(ack: &AckEvent<'_>) -> Option<f64> {
    (ack.grant != 0 && ack.grant != UNLIMITED_GRANT).then(|| f64::from(ack.grant) * GRANT_UNIT_BPS as f64)
}

#[derive(Debug)]
struct RoccSender {
    pacing: RateLimits,
    /// Time without a rate from a switch after which the rate doubles.
    recovery_interval: Time,
    /// Sending rate in bit/s.
    rate: f64,
    /// The port that limits the flow; `None` before the first RATE packet, and once the flow is at line rate again.
    congestion_point: Option<CongestionPoint>,
    /// Time at which the rate doubles; `None` at line rate.
    double_at: Option<Time>,
}

impl RoccSender {
    /// Sets the rate and restarts the recovery timer.
    fn apply_rate(&mut self, now: Time, rate: f64) {
        self.rate = self.pacing.clamp(rate);
        self.double_at = Some(now.saturating_add(self.recovery_interval));
    }
}

impl Sender for RoccSender {
    /// The ACK carries the minimum rate of the path, so congestion points need not be distinguished.
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        if let Some(rate) = granted_rate(ack) {
            self.apply_rate(ack.now, rate);
        }
        self.decision()
    }
    fn on_rate(&mut self, event: &RateEvent) -> Decision {
        let rate = event.rate.as_bps_f64();
        if rate <= self.rate || self.congestion_point == Some(event.congestion_point) {
            self.apply_rate(event.now, rate);
            self.congestion_point = Some(event.congestion_point);
        }
        self.decision()
    }
    fn on_timer(&mut self, now: Time) -> Decision {
        if self.rate >= self.pacing.line_rate() {
            self.congestion_point = None;
            self.double_at = None;
        } else {
            self.apply_rate(now, 2.0 * self.rate);
        }
        self.decision()
    }
    fn resume(&mut self, now: Time, from: &SendingRate) -> Decision {
        self.apply_rate(now, from.rate);
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.pacing.decide(self.rate, self.double_at)
    }
}
