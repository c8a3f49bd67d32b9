//! FNCC (arXiv 2405.07608): HPCC with telemetry put into the ACK on its return path, and last-hop
//! congestion speedup (LHCS) from the number of flows the receiver reports.

use super::inflight::{self, Adjust, Inflight, InflightConfig, Worst};
use crate::law::PortLaw;
use crate::parameter::{EveryDequeue, OneOf, Or, ParameterInfo, ParameterOf, part};
use crate::scheme::{
    AckEvent, DataEvent, Decision, Feedback, FlowParams, Needs, Pace, Receiver, Scheme, Sender,
    SwitchProgram, TelemetryOn,
};
use crate::telemetry::TelemetryChecks;
use weir_units::Time;

/// FNCC's parameters.
#[derive(Clone, Debug)]
pub struct Fncc {
    shared: InflightConfig,
    lhcs: Lhcs,
    alpha: f64,
    beta: f64,
    refresh: Or<EveryDequeue, Time>,
}

/// The action of LHCS (docs/algorithms/fncc.md#open-points, 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lhcs {
    /// It does not.
    Off,
    /// The window is set to the fair share, as FNCC's prose says.
    Direct,
    /// The reference is, and ComputeWind still divides it, as Alg. 3 lines 30-32 read.
    Literal,
}

impl Default for Fncc {
    fn default() -> Self {
        Fncc {
            shared: InflightConfig::default(),
            lhcs: Lhcs::Direct,
            alpha: 1.05,
            beta: 0.9,
            refresh: Or::word(),
        }
    }
}

impl OneOf for Lhcs {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Lhcs::Off), ("direct", Lhcs::Direct), ("literal", Lhcs::Literal)];
}

impl Scheme for Fncc {
    const NAME: &'static str = "fncc";
    const ABOUT: &'static str = "FNCC: telemetry on ACKs as they return, and the receiver's number of flows";

    fn parameters() -> Vec<ParameterOf<Self>> {
        let own = [
            ParameterOf::new(
                ParameterInfo {
                    name: "lhcs",
                    unit: "-",
                    range: "off, direct (sets the window) or literal (Alg. 3: sets Wc and still divides)",
                    symbol: "LHCS",
                    source: "FNCC §3.2.2: \"directly set to the final convergence value\"",
                    help: "Last-hop congestion speedup.",
                },
                |c: &mut Fncc| &mut c.lhcs,
            ),
            ParameterOf::number(
                ParameterInfo {
                    name: "alpha",
                    unit: "-",
                    range: "0 to 100",
                    symbol: "alpha",
                    source: "FNCC §3.2.2",
                    help: "LHCS fires if the last hop is the most congested one and its u' is above this.",
                },
                0.0..=100.0,
                |c| &mut c.alpha,
            ),
            ParameterOf::number(
                ParameterInfo {
                    name: "beta",
                    unit: "-",
                    range: "0.01 to 1",
                    symbol: "beta",
                    source: "FNCC §3.2.2",
                    help: "Part of the fair share that LHCS leaves, so that the queue drains.",
                },
                0.01..=1.0,
                |c| &mut c.beta,
            ),
            ParameterOf::new(
                ParameterInfo {
                    name: "refresh",
                    unit: "s",
                    range: "dequeue (whenever a packet leaves the port) or a time above 0",
                    symbol: "-",
                    source: "FNCC §3.2.1: \"periodically\", without a period; a dequeue is the ideal",
                    help: "How often a port's entry in the All_INT_Table is refreshed.",
                },
                |c| &mut c.refresh,
            ),
        ];
        part(inflight::parameters(&inflight::HPCC), |c: &mut Fncc| &mut c.shared).chain(own).collect()
    }
    fn needs(&self) -> Needs {
        Needs { telemetry: TelemetryOn::Acks, ..Needs::of(SwitchProgram::Fncc) }
    }
    fn port_law(&self, _base_rtt: Time) -> Option<PortLaw> {
        match self.refresh {
            Or::Word(_) => None,
            Or::Value(period) => Some(PortLaw::IntRefresh(period)),
        }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Box::new(FnccSender {
            core: Inflight::new(&self.shared, flow, false),
            lhcs: self.lhcs,
            alpha: self.alpha,
            beta: self.beta,
        })
    }
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(FnccReceiver)
    }
}

#[derive(Debug)]
struct FnccSender {
    core: Inflight,
    lhcs: Lhcs,
    alpha: f64,
    beta: f64,
}

impl Sender for FnccSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryChecks) -> Decision {
        let FnccSender { core, lhcs, alpha, beta } = self;
        // FNCC Alg. 2 lines 9-12, Alg. 3 lines 22-25. N counts at least the flow itself.
        core.on_ack(ack, checks, |worst: &Worst| {
            // Records of another path say nothing of the last hop that DATA takes.
            let other_path = ack.path_id != ack.data_path;
            if *lhcs == Lhcs::Off || other_path || !worst.is_last_hop || worst.u <= *alpha {
                return Adjust::Keep;
            }
            let share = worst.bdp * *beta / f64::from(ack.concurrency.max(1));
            match lhcs {
                Lhcs::Literal => Adjust::Reference(share),
                Lhcs::Off | Lhcs::Direct => Adjust::Window(share),
            }
        })
    }
    fn resume(&mut self, _now: Time, from: &Pace) -> Decision {
        self.core.resume(from)
    }
    fn decision(&self) -> Decision {
        self.core.decision()
    }
}

/// The receiver writes N (FNCC §3.2.3): flows that are active, not connections that exist
/// (docs/algorithms/fncc.md#receiver).
#[derive(Debug)]
struct FnccReceiver;

impl Receiver for FnccReceiver {
    fn on_data(&mut self, data: &DataEvent<'_>, _checks: &mut TelemetryChecks) -> Feedback {
        Feedback { concurrency: data.active_flows, ..Feedback::default() }
    }
}
