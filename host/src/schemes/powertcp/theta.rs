//! theta-PowerTCP: power from round-trip times, without support of switches.

use super::{PowerConfig, PowerWindow, Variant};
use crate::parameter::{KeywordOr, VariantDefault};
use crate::parameters;
use crate::scheme::{
    AckEvent, Decision, FlowParams, GaugeReporter, Needs, Scheme, Sender, SendingRate, SwitchProgram,
};
use crate::telemetry::TelemetryCounters;
use weir_units::{Ratio, Time};

parameters! {
    /// theta-PowerTCP's parameters.
    pub(in crate::schemes) struct ThetaPowerTcp {
        shared: PowerConfig = PowerConfig::default() => { part };
        /// Weight of the newest window.
        gamma: KeywordOr<VariantDefault, Ratio> = KeywordOr::word() => {
            value in Ratio::limit(0.01)..=Ratio::ONE, symbol: "gamma",
            range: "variant (paper 0.9, simulator 0.7) or 0.01 to 1",
            source: "PowerTCP: recommended; authors' simulator rdma-hw.cc:1066",
        };
        /// Factor on the base round-trip time, below which an RTT is not taken for a queue.
        rtt_margin: f64 = 1.05 => {
            in 1.0..=2.0, range: "1 to 2", source: "authors' simulator; the paper has none",
        };
    }
}

impl Scheme for ThetaPowerTcp {
    const NAME: &'static str = "theta-powertcp";
    const ABOUT: &'static str = "theta-PowerTCP: power estimated from round-trip times, without telemetry";
    fn needs(&self) -> Needs {
        Needs::of(SwitchProgram::Ecn)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let gamma = match self.shared.variant {
            Variant::Paper => 0.9,
            Variant::Simulator => 0.7,
        };
        let gamma = self.gamma.value().map_or(gamma, Ratio::get);
        let window = PowerWindow::new(&self.shared, gamma, flow);
        Box::new(ThetaSender {
            max_tau: window.tau(),
            hops: None,
            window,
            min_current: self.shared.min_current,
            rtt_margin: self.rtt_margin,
            power: 1.0,
            previous: None,
        })
    }
}

/// A sample of the round-trip time.
#[derive(Clone, Copy, Debug)]
struct RttSample {
    rtt: Time,
    at: Time,
}

#[derive(Debug)]
struct ThetaSender {
    window: PowerWindow,
    min_current: f64,
    rtt_margin: f64,
    /// `Gamma_smooth`.
    power: f64,
    /// The sample before; `None` before the first one.
    previous: Option<RttSample>,
    /// Upper bound of `tau`: the host's or the parameter.
    max_tau: Time,
    /// Switches of the path, from the last ACK that told them.
    hops: Option<u8>,
}

impl ThetaSender {
    /// PowerTCP Alg. 2, NORMPOWER. Returns false if `sample` is the first one or no time has passed since the one before.
    fn measure(&mut self, sample: RttSample) -> bool {
        let Some(previous) = self.previous else {
            self.previous = Some(sample);
            return false;
        };
        let elapsed = sample.at.saturating_sub(previous.at).as_secs_f64();
        if elapsed <= 0.0 {
            return false;
        }
        self.previous = Some(sample);
        let (rtt, tau) = (sample.rtt.as_secs_f64(), self.window.tau().as_secs_f64());
        let gradient = (rtt - previous.rtt.as_secs_f64()) / elapsed;
        let power = (gradient + 1.0).max(self.min_current) * rtt / (tau * self.rtt_margin);
        self.power += (elapsed / tau).min(1.0) * (power - self.power);
        true
    }
}

impl Sender for ThetaSender {
    /// PowerTCP Alg. 2, NEWACK.
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        let Some(rtt) = ack.rtt.filter(|&rtt| rtt > Time::ZERO) else { return self.decision() };
        // Deviation: the paper has one known tau. Within a rack round trips are shorter, and a queue would not count
        // until they have that length. The authors' simulator takes the smallest RTT, too.
        if ack.hops.is_some() && ack.hops != self.hops {
            // The smallest RTT of another path is none of this one's.
            self.window.limits.set_base_rtt(self.max_tau);
            self.hops = ack.hops;
        }
        self.window.limits.set_base_rtt(self.window.tau().min(rtt));
        let is_first = self.previous.is_none();
        let is_measured = self.measure(RttSample { rtt, at: ack.now });
        let commit = self.window.is_new_round(ack);
        // Alg. 2 updates the window once per round trip, the authors' simulator with each ACK.
        if is_measured && (commit || self.window.variant == Variant::Simulator) {
            self.window.update(self.power, commit);
        }
        if is_first || (is_measured && commit) {
            self.window.start_round(ack);
        }
        self.decision()
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        (self.power, self.previous) = (1.0, None);
        self.window.resume(from);
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.window.decision()
    }
    /// The smoothed power; 1 is a full link without a queue.
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("power", self.power);
    }
}
