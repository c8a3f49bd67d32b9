//! FNCC (arXiv 2405.07608): HPCC with telemetry added to the ACK on its return path, and last-hop congestion speedup
//! (LHCS) by the number of flows that the receiver reports.

use super::hpcc::{Bottleneck, HpccConfig, HpccController, ReferenceUpdate, ReferenceWindows};
use crate::parameter::{EnumParameter, KeywordOr, OnDequeue};
use crate::parameters;
use crate::port_algorithm::PortAlgorithm;
use crate::scheme::{
    AckEvent, AckFields, DataEvent, Decision, FlowParams, GaugeReporter, Needs, Receiver, Scheme, Sender,
    SendingRate, SwitchProgram, TelemetrySource,
};
use crate::telemetry::TelemetryCounters;
use weir_units::Time;

parameters! {
    /// FNCC's parameters.
    pub(super) struct Fncc {
        shared: HpccConfig = HpccConfig::fncc() => {
            part, average_of from "FNCC Eq. 5 and 6 have no average: docs/algorithms/fncc.md#average"
        };
        /// Last-hop congestion speedup.
        lhcs: Lhcs = Lhcs::Direct => {
            symbol: "LHCS",
            range: "off, direct (sets the window) or literal (Alg. 3: sets Wc and still divides)",
            source: "FNCC §3.2.2: \"directly set to the final convergence value\"",
        };
        /// LHCS fires if the last hop is the most congested one and its u' is above this.
        alpha: f64 = 1.05 => { in 0.0..=100.0, symbol: "alpha", range: "0 to 100", source: "FNCC §3.2.2" };
        /// Fraction of the fair share that LHCS assigns, so that the queue drains.
        beta: f64 = 0.9 => { in 0.01..=1.0, symbol: "beta", range: "0.01 to 1", source: "FNCC §3.2.2" };
        /// Interval at which a port's entry in the All_INT_Table is refreshed.
        refresh: KeywordOr<OnDequeue, Time> = KeywordOr::word() => {
            unit: "s", range: "dequeue (whenever a packet leaves the port) or a time above 0",
            source: "FNCC §3.2.1: \"periodically\", without a period; a dequeue is the ideal",
        };
    }
}

/// The variants of LHCS (docs/algorithms/fncc.md#open-points, 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lhcs {
    /// No LHCS.
    Off,
    /// Sets the window to the fair share, as FNCC's prose says.
    Direct,
    /// Sets the reference window to the fair share, which ComputeWind then still divides, as Alg. 3 lines 30-32 say.
    Literal,
}

impl EnumParameter for Lhcs {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", Lhcs::Off), ("direct", Lhcs::Direct), ("literal", Lhcs::Literal)];
}

impl Scheme for Fncc {
    const NAME: &'static str = "fncc";
    const ABOUT: &'static str = "FNCC: telemetry on ACKs as they return, and the receiver's number of flows";
    fn needs(&self) -> Needs {
        Needs { telemetry: TelemetrySource::Acks, ..Needs::of(SwitchProgram::Fncc) }
    }
    fn port_algorithm(&self, _base_rtt: Time) -> Option<PortAlgorithm> {
        match self.refresh {
            KeywordOr::Word(_) => None,
            KeywordOr::Value(period) => Some(PortAlgorithm::IntRefresh(period)),
        }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Box::new(FnccSender {
            core: HpccController::new(&self.shared, flow, ReferenceWindows::Single),
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
    core: HpccController,
    lhcs: Lhcs,
    alpha: f64,
    beta: f64,
}

impl Sender for FnccSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Decision {
        let FnccSender { core, lhcs, alpha, beta } = self;
        // FNCC Alg. 2 lines 9-12, Alg. 3 lines 22-25. N includes the flow itself, so it is at least 1.
        core.on_ack(ack, checks, |worst: &Bottleneck| {
            // Records of another path do not describe the last hop of DATA.
            let other_path = ack.path_id != ack.data_path;
            if *lhcs == Lhcs::Off || other_path || !worst.is_last_hop || worst.u <= *alpha {
                return ReferenceUpdate::Keep;
            }
            let share = worst.bdp * *beta / f64::from(ack.concurrency.max(1));
            match lhcs {
                Lhcs::Literal => ReferenceUpdate::Reference(share),
                // `Off` has returned above.
                Lhcs::Off | Lhcs::Direct => ReferenceUpdate::Window(share),
            }
        })
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        self.core.resume(from)
    }
    fn decision(&self) -> Decision {
        self.core.decision()
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        self.core.gauges(report);
    }
}

/// Reports N (FNCC §3.2.3): the number of active flows, not of existing connections
/// (docs/algorithms/fncc.md#receiver).
#[derive(Debug)]
struct FnccReceiver;

impl Receiver for FnccReceiver {
    fn on_data(&mut self, data: &DataEvent<'_>, _checks: &mut TelemetryCounters) -> AckFields {
        AckFields { concurrency: data.active_flows, ..AckFields::default() }
    }
}
