//! HPCC (SIGCOMM 2019): DATA gathers telemetry, the ACK returns it, and the sender keeps inflight bytes just below
//! the bandwidth-delay product of every link.
//!
//! The algorithm is in the shared core (`inflight`); this file defines the parameters and needs of HPCC.

use super::inflight::{HpccController, InflightConfig, ReferenceUpdate, ReferenceWindows};
use crate::parameters;
use crate::scheme::{
    AckEvent, Decision, FlowParams, GaugeReporter, Needs, Scheme, Sender, SendingRate, SwitchProgram,
    TelemetrySource,
};
use crate::telemetry::TelemetryCounters;
use weir_units::Time;

parameters! {
    /// HPCC's parameters.
    pub(super) struct Hpcc {
        shared: InflightConfig = InflightConfig::default() => { part };
        /// Keep a reference window per hop and use the smallest.
        multi_rate: bool = false => {
            range: "on or off", source: "HPCC App. A.3, HPCC simulator MULTI_RATE",
        };
    }
}

impl Scheme for Hpcc {
    const NAME: &'static str = "hpcc";
    const ABOUT: &'static str = "HPCC: telemetry on data packets, echoed by the receiver";
    fn needs(&self) -> Needs {
        Needs { telemetry: TelemetrySource::Data, ..Needs::of(SwitchProgram::Hpcc) }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let windows = if self.multi_rate { ReferenceWindows::PerHop } else { ReferenceWindows::Single };
        Box::new(HpccSender(HpccController::new(&self.shared, flow, windows).with_records_on_data(flow)))
    }
}

#[derive(Debug)]
struct HpccSender(HpccController);

impl Sender for HpccSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Decision {
        self.0.on_ack(ack, checks, |_| ReferenceUpdate::Keep)
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        self.0.resume(from)
    }
    fn decision(&self) -> Decision {
        self.0.decision()
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        self.0.gauges(report);
    }
}
