//! RCP (Dukkipati 2008): every port computes one rate for all its flows; the sender takes the minimum of its path
//! from the ACK. The control law of the port has the parameters [`RcpParams`] (docs/algorithms/rcp.md).

use super::pacing::{PacingConfig, RateLimits, WindowMode};
use super::rocc::{UnlimitedGrantReceiver, granted_rate};
use crate::parameter::{EnumParameter, HostDefault, KeywordOr};
use crate::parameters;
use crate::port_algorithm::{PortAlgorithm, RcpParams};
use crate::scheme::{
    AckEvent, Decision, FlowParams, Needs, Receiver, Scheme, Sender, SendingRate, SwitchProgram,
};
use crate::telemetry::TelemetryCounters;
use weir_units::{Bytes, Time};

parameters! {
    /// RCP's parameters.
    pub(super) struct Rcp {
        /// Interval at which a port computes its rate.
        period: KeywordOr<HostDefault, Time> = KeywordOr::word() => {
            symbol: "T", unit: "s", range: "host (the host's base RTT) or a time above 0",
            source: "RCP ns-2: min(d, upd_timeslot)",
        };
        /// Round-trip time that ports assume.
        rtt: KeywordOr<HostDefault, Time> = KeywordOr::word() => {
            symbol: "d", unit: "s", range: "host (the host's base RTT) or a time above 0",
            source: "Weir's choice: RCP's routers average what packets say",
        };
        /// Gain of the unused capacity.
        alpha: f64 = 0.4 => {
            in 0.0..=10.0, symbol: "alpha", range: "0 to 10", source: "RCP ns-2, rcp.cc; others have 0.1 to 1",
        };
        /// Gain of the queue.
        beta: f64 = 0.4 => {
            in 0.0..=10.0, symbol: "beta", range: "0 to 10", source: "RCP ns-2, rcp.cc; others have 0.2 to 1",
        };
        /// Target utilisation of a port.
        target: f64 = 0.95 => {
            in 0.05..=1.0, name: "gamma", symbol: "gamma", range: "0.05 to 1", source: "RCP ns-2: PHI, 0.95",
        };
        /// Rate of a flow before its port has granted one.
        start: Start = Start::Line => {
            range: "line (line rate) or request (one packet, as RCP's SYN)", source: "Weir's choice; RCP has a handshake",
        };
        pacing: PacingConfig = PacingConfig::new(WindowMode::Off) => { part, window from "RCP regulates a rate" };
    }
}

/// The behaviour of a flow before it receives a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Sends at line rate, as with most schemes.
    Line,
    /// Sends one packet.
    Request,
}

impl EnumParameter for Start {
    const NAMES: &'static [(&'static str, Self)] = &[("line", Start::Line), ("request", Start::Request)];
}

/// Minimum rate of a port over the port's own rate. Weir's choice, the same as a flow's minimum; RCP's is a packet
/// per round trip.
const MIN_RATE_SHARE: f64 = 0.001;

impl Scheme for Rcp {
    const NAME: &'static str = "rcp";
    const ABOUT: &'static str =
        "RCP: every port computes one rate for all its flows, ACKs carry the minimum of the path";
    fn needs(&self) -> Needs {
        Needs { writes_grant: true, ..Needs::of(SwitchProgram::Rcp) }
    }
    fn port_algorithm(&self, base_rtt: Time) -> Option<PortAlgorithm> {
        Some(PortAlgorithm::Rcp(RcpParams {
            period: self.period.or(base_rtt),
            rtt: self.rtt.or(base_rtt),
            alpha: self.alpha,
            beta: self.beta,
            target: self.target,
            min_share: MIN_RATE_SHARE,
        }))
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let pacing = RateLimits::new(&self.pacing, flow);
        Box::new(RcpSender {
            pacing,
            rate: pacing.line_rate(),
            is_awaiting_first_ack: self.start == Start::Request,
        })
    }
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(UnlimitedGrantReceiver)
    }
}

#[derive(Debug)]
struct RcpSender {
    pacing: RateLimits,
    /// Sending rate in bit/s.
    rate: f64,
    /// True until the first ACK if the flow started with a single packet.
    is_awaiting_first_ack: bool,
}

impl Sender for RcpSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        self.is_awaiting_first_ack = false;
        if let Some(rate) = granted_rate(ack) {
            self.rate = self.pacing.clamp(rate);
        }
        self.decision()
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        self.is_awaiting_first_ack = false;
        self.rate = self.pacing.clamp(from.rate);
        self.decision()
    }
    fn decision(&self) -> Decision {
        let decision = self.pacing.decide(self.rate, None);
        if self.is_awaiting_first_ack { Decision { window: Bytes::new(1), ..decision } } else { decision }
    }
}
