//! RCP (Dukkipati 2008): every port computes the rate that all its flows should have; the sender takes the least
//! of its path, from the ACK. The control law is [`RcpLaw`] (docs/algorithms/rcp.md).

use super::pacing::{Pacing, PacingConfig, Window};
use super::rocc::{OpenGrant, granted};
use crate::law::{PortLaw, RcpLaw};
use crate::parameter::{HostsOwn, OneOf, Or, ParameterInfo, ParameterOf, part};
use crate::scheme::{AckEvent, Decision, FlowParams, Needs, Pace, Receiver, Scheme, Sender, SwitchProgram};
use crate::telemetry::TelemetryChecks;
use weir_units::{Bytes, Time};

/// RCP's parameters.
#[derive(Clone, Debug)]
pub(super) struct Rcp {
    period: Or<HostsOwn, Time>,
    rtt: Or<HostsOwn, Time>,
    alpha: f64,
    beta: f64,
    target: f64,
    start: Start,
    pacing: PacingConfig,
}

/// The behaviour of a flow before it knows a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// Sends at line rate, as all flows here.
    Line,
    /// Sends one packet.
    Request,
}

impl OneOf for Start {
    const WORDS: &'static [(&'static str, Self)] = &[("line", Start::Line), ("request", Start::Request)];
}

impl Default for Rcp {
    fn default() -> Self {
        Rcp {
            period: Or::word(),
            rtt: Or::word(),
            alpha: 0.4,
            beta: 0.4,
            target: 0.95,
            start: Start::Line,
            pacing: PacingConfig::new(Window::Off),
        }
    }
}

/// The least rate of a port over its own. Ours, the same as a flow's; RCP's is a packet per round trip.
const FLOOR: f64 = 0.001;

impl Scheme for Rcp {
    const NAME: &'static str = "rcp";
    const ABOUT: &'static str =
        "RCP: every port computes the rate of all its flows, ACKs bring the least of the path";

    fn parameters() -> Vec<ParameterOf<Self>> {
        let own = [
            ParameterOf::new(
                ParameterInfo {
                    name: "period",
                    unit: "s",
                    range: "host (the host's base RTT) or a time above 0",
                    symbol: "T",
                    source: "RCP ns-2: min(d, upd_timeslot)",
                    help: "How often a port computes its rate.",
                },
                |c: &mut Rcp| &mut c.period,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "rtt",
                    unit: "s",
                    range: "host (the host's base RTT) or a time above 0",
                    symbol: "d",
                    source: "ours: RCP's routers average what packets say",
                    help: "The round-trip time that ports reckon with.",
                },
                |c: &mut Rcp| &mut c.rtt,
            ),
            ParameterOf::number(
                ParameterInfo {
                    name: "alpha",
                    unit: "-",
                    range: "0 to 10",
                    symbol: "alpha",
                    source: "RCP ns-2, rcp.cc; others have 0.1 to 1",
                    help: "Weight of the capacity that is unused.",
                },
                0.0..=10.0,
                |c: &mut Rcp| &mut c.alpha,
            ),
            ParameterOf::number(
                ParameterInfo {
                    name: "beta",
                    unit: "-",
                    range: "0 to 10",
                    symbol: "beta",
                    source: "RCP ns-2, rcp.cc; others have 0.2 to 1",
                    help: "Weight of the queue.",
                },
                0.0..=10.0,
                |c: &mut Rcp| &mut c.beta,
            ),
            ParameterOf::number(
                ParameterInfo {
                    name: "gamma",
                    unit: "-",
                    range: "0.05 to 1",
                    symbol: "gamma",
                    source: "RCP ns-2: PHI, 0.95",
                    help: "The share of a port's rate that is given out.",
                },
                0.05..=1.0,
                |c: &mut Rcp| &mut c.target,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "start",
                    unit: "-",
                    range: "line (line rate) or request (one packet, as RCP's SYN)",
                    symbol: "-",
                    source: "ours; RCP has a handshake",
                    help: "What a flow sends before it has a rate.",
                },
                |c: &mut Rcp| &mut c.start,
            ),
        ];
        let pacing = PacingConfig::parameters("RCP regulates a rate");
        own.into_iter().chain(part(pacing, |c: &mut Rcp| &mut c.pacing)).collect()
    }
    fn needs(&self) -> Needs {
        Needs { grant: true, ..Needs::of(SwitchProgram::Rcp) }
    }
    fn port_law(&self, base_rtt: Time) -> Option<PortLaw> {
        Some(PortLaw::Rcp(RcpLaw {
            period: self.period.or(base_rtt),
            rtt: self.rtt.or(base_rtt),
            alpha: self.alpha,
            beta: self.beta,
            target: self.target,
            floor: FLOOR,
        }))
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let pacing = Pacing::new(&self.pacing, flow);
        Box::new(RcpSender { pacing, rate: pacing.line(), asking: self.start == Start::Request })
    }
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(OpenGrant)
    }
}

#[derive(Debug)]
struct RcpSender {
    pacing: Pacing,
    rate: f64,
    /// No ACK has come yet, and the flow waits for it.
    asking: bool,
}

impl Sender for RcpSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryChecks) -> Decision {
        self.asking = false;
        if let Some(rate) = granted(ack) {
            self.rate = self.pacing.clamp(rate);
        }
        self.decision()
    }
    fn resume(&mut self, _now: Time, from: &Pace) -> Decision {
        self.asking = false;
        self.rate = self.pacing.clamp(from.rate);
        self.decision()
    }
    fn decision(&self) -> Decision {
        let decision = self.pacing.decide(self.rate, None);
        if self.asking { Decision { window: Bytes::new(1), ..decision } } else { decision }
    }
}
