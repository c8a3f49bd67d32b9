//! HPCC (SIGCOMM 2019): DATA gathers telemetry, the ACK brings it back, inflight bytes are held
//! just below every link's bandwidth-delay product.
//!
//! The algorithm is the shared core's; this file says what HPCC wants from the network.

use super::inflight::{self, Adjust, Inflight, InflightConfig};
use crate::knob::{self, Knob, KnobError, KnobOf, on_off, switch};
use crate::scheme::{
    AckEvent, DataEvent, Decision, Feedback, FlowParams, Needs, Receiver, SchemeConfig, Sender, TelemetryOn,
};
use crate::telemetry::TelemetryChecks;

/// HPCC's knobs.
#[derive(Clone, Debug, Default)]
pub struct Hpcc {
    shared: InflightConfig,
    multi_rate: bool,
}

static KNOBS: &[KnobOf<Hpcc>] = &[KnobOf {
    knob: Knob {
        name: "multi_rate",
        unit: "-",
        default: "off",
        range: "on or off",
        symbol: "-",
        source: "HPCC App. A.3, HPCC simulator MULTI_RATE",
        help: "A reference window per hop; the smallest holds.",
    },
    get: |c| on_off(c.multi_rate),
    set: |c, text| switch(text).map(|on| c.multi_rate = on),
}];

impl SchemeConfig for Hpcc {
    fn name(&self) -> &'static str {
        "hpcc"
    }
    fn about(&self) -> &'static str {
        "HPCC: telemetry on data packets, echoed by the receiver"
    }
    fn knobs(&self) -> Vec<&'static Knob> {
        inflight::KNOBS.iter().map(|k| &k.knob).chain(KNOBS.iter().map(|k| &k.knob)).collect()
    }
    fn get(&self, name: &str) -> Option<String> {
        knob::get(KNOBS, self, name).or_else(|| knob::get(inflight::KNOBS, &self.shared, name))
    }
    fn set(&mut self, name: &str, value: &str) -> Result<(), KnobError> {
        knob::set(KNOBS, self, name, value)
            .or_else(|| knob::set(inflight::KNOBS, &mut self.shared, name, value))
            .unwrap_or_else(|| Err(KnobError::unknown(self, name)))
    }
    fn needs(&self) -> Needs {
        Needs { telemetry: TelemetryOn::Data, ecn: false, grant: false }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Box::new(HpccSender(Inflight::new(&self.shared, flow, self.multi_rate)))
    }
    fn receiver(&self) -> Box<dyn Receiver> {
        Box::new(HpccReceiver)
    }
}

#[derive(Debug)]
struct HpccSender(Inflight);

impl Sender for HpccSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryChecks) -> Decision {
        self.0.on_ack(ack, checks, |_| Adjust::Keep)
    }
    fn decision(&self) -> Decision {
        self.0.decision()
    }
}

/// The receiver adds nothing to the telemetry it echoes.
#[derive(Debug)]
struct HpccReceiver;

impl Receiver for HpccReceiver {
    fn on_data(&mut self, _data: &DataEvent) -> Feedback {
        Feedback::default()
    }
}
