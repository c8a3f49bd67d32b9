//! AIMD on ECN marks: one packet more per round trip, and a fixed cut in a round trip with a mark.

use weir_host::scheme::{
    AckEvent, Decision, FlowParams, MARKING_RANGE, EcnThresholds, Needs, Scheme, Sender, SwitchProgram,
};
use weir_host::schemes::pacing::{RateLimits, PacingConfig, WindowMode};
use weir_host::telemetry::TelemetryCounters;
use weir_units::{Bandwidth, Bytes};

weir_host::parameters! {
    /// The scheme's parameters.
    pub struct Aimd {
        /// Multiplicative decrease factor.
        beta: f64 = 0.25 => { in 0.01..=0.9, symbol: "beta", range: "0.01 to 0.9", source: "this example" };
        /// Queue above which switches mark, unless the experiment says otherwise.
        ecn: EcnThresholds = EcnThresholds::step(Bytes::from_kb(4), Bandwidth::from_gbps(10)) => {
            symbol: "K", unit: "B", range: MARKING_RANGE,
            source: "this example: 40 KB at 100 Gbit/s, half a window",
        };
        pacing: PacingConfig = PacingConfig::new(WindowMode::Varying) => {
            part, window from "this example: the window follows the rate"
        };
    }
}

impl Scheme for Aimd {
    const NAME: &'static str = "aimd";
    const ABOUT: &'static str =
        "AIMD: additive increase, and a fixed decrease in round trips with an ECN mark";

    fn needs(&self) -> Needs {
        Needs { ecn: Some(self.ecn), ..Needs::of(SwitchProgram::Ecn) }
    }

    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let pacing = RateLimits::new(&self.pacing, flow);
        let packet_per_rtt = flow.payload.as_f64() * 8.0 / flow.base_rtt.as_secs_f64();
        let rate = pacing.line_rate();
        Box::new(AimdSender { pacing, beta: self.beta, packet_per_rtt, rate, marked: false, round_ends: 0 })
    }
}

/// One flow.
#[derive(Debug)]
struct AimdSender {
    pacing: RateLimits,
    beta: f64,
    /// Rate of one packet per base round trip, in bit/s.
    packet_per_rtt: f64,
    /// Sending rate in bit/s.
    rate: f64,
    /// True if an ACK of this round trip carried a mark.
    marked: bool,
    /// The round trip ends when this byte is acknowledged.
    round_ends: u64,
}

impl Sender for AimdSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        self.marked |= ack.ecn_echo;
        if ack.seq > self.round_ends {
            let next =
                if self.marked { self.rate * (1.0 - self.beta) } else { self.rate + self.packet_per_rtt };
            self.rate = self.pacing.clamp(next);
            self.marked = false;
            self.round_ends = ack.snd_nxt;
        }
        self.decision()
    }

    fn decision(&self) -> Decision {
        self.pacing.decide(self.rate, None)
    }
}
