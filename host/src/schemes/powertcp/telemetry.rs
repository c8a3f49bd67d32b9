//! PowerTCP: power from HPCC's telemetry records.

use super::{PowerConfig, PowerWindow, Variant};
use crate::parameter::{KeywordOr, VariantDefault};
use crate::parameters;
use crate::scheme::{
    AckEvent, Decision, FlowParams, GaugeReporter, Needs, Scheme, Sender, SendingRate, SwitchProgram,
    TelemetrySource,
};
use crate::schemes::inflight::{PathRecord, Sample, is_partial};
use crate::telemetry::TelemetryCounters;
use weir_units::{Ratio, Time};

parameters! {
    /// PowerTCP's parameters.
    pub(in crate::schemes) struct PowerTcp {
        shared: PowerConfig = PowerConfig::default() => { part };
        /// Weight of the newest window.
        gamma: f64 = 0.9 => {
            in 0.01..=1.0, symbol: "gamma", range: "0.01 to 1", source: "PowerTCP: recommended; authors' simulator",
        };
        /// Power at which the window keeps its size.
        eta: KeywordOr<VariantDefault, Ratio> = KeywordOr::word() => {
            value in Ratio::limit(0.05)..=Ratio::ONE, symbol: "eta", range: "variant (paper 1, simulator 0.95) or 0.05 to 1",
            source: "PowerTCP Alg. 1 has none; authors' simulator U_TARGET",
        };
    }
}

impl Scheme for PowerTcp {
    const NAME: &'static str = "powertcp";
    const ABOUT: &'static str =
        "PowerTCP: the window follows arrivals times inflight bytes, by HPCC's telemetry";
    fn needs(&self) -> Needs {
        Needs { telemetry: TelemetrySource::Data, ..Needs::of(SwitchProgram::Hpcc) }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let eta = match self.shared.variant {
            Variant::Paper => 1.0,
            Variant::Simulator => SIMULATOR_ETA,
        };
        let eta = self.eta.value().map_or(eta, Ratio::get);
        let window = PowerWindow::new(&self.shared, self.gamma, flow);
        Box::new(PowerSender {
            path: PathRecord::new(window.tau(), 1.0, eta, flow.tick).with_records_on_data(flow),
            power: SmoothedPower::new(self.shared.min_current),
            window,
            eta,
        })
    }
}

/// U_TARGET of the authors' config-burst.txt.
const SIMULATOR_ETA: f64 = 0.95;

#[derive(Debug)]
struct PowerSender {
    path: PathRecord,
    power: SmoothedPower,
    window: PowerWindow,
    eta: f64,
}

impl Sender for PowerSender {
    /// PowerTCP Alg. 1, NEWACK.
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Decision {
        let is_partial = is_partial(ack);
        self.path.restart_if_changed(ack, checks);
        let measured = self.path.measure(ack, checks);
        if measured.samples().is_empty() {
            // The first ACK of a flow or path only records, as in HPCC (docs/algorithms/hpcc.md#first-ack).
            if measured.has_restarted && !is_partial {
                self.window.start_round(ack);
            }
        } else if self.power.average(measured.samples()) {
            let commit = self.window.is_new_round(ack) && !is_partial;
            self.window.update(self.power.smoothed / self.eta, commit);
            if commit {
                self.window.start_round(ack);
            }
        }
        self.window.decision()
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        self.power.smoothed = 1.0;
        self.window.resume(from);
        self.window.decision()
    }
    fn decision(&self) -> Decision {
        self.window.decision()
    }
    /// The smoothed power; 1 is a full link without a queue.
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("power", self.power.smoothed);
    }
}

/// `Gamma_smooth` of PowerTCP Alg. 1; 1 before the first sample.
#[derive(Debug)]
struct SmoothedPower {
    min_current: f64,
    smoothed: f64,
}

impl SmoothedPower {
    fn new(min_current: f64) -> SmoothedPower {
        SmoothedPower { min_current, smoothed: 1.0 }
    }

    /// PowerTCP Alg. 1, NORMPOWER: averages the largest power of an ACK.
    ///
    /// Returns whether the hop with the largest power has new data. If it has none, the caller must keep the window: the
    /// same sample would change it again.
    fn average(&mut self, samples: &[Sample]) -> bool {
        let powers = samples.iter().map(|sample| {
            let voltage = 1.0 + sample.queue;
            (sample.arrivals.max(self.min_current) * voltage, sample.tau)
        });
        match powers.reduce(|worst, hop| if hop.0 > worst.0 { hop } else { worst }) {
            Some((power, tau)) if tau > 0.0 => {
                self.smoothed += tau * (power - self.smoothed);
                true
            }
            _ => false,
        }
    }
}
