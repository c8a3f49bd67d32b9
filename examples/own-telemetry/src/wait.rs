//! AIMD on the time that packets waited in switches, which the records of `own_telemetry.p4` carry.

use weir_host::custom_record::RecordField;
use weir_host::scheme::{AckEvent, Decision, FlowParams, Needs, Scheme, Sender, SwitchProgram, TelemetrySource};
use weir_host::schemes::pacing::{RateLimits, PacingConfig, WindowMode};
use weir_host::telemetry::TelemetryCounters;
use weir_units::Time;

weir_host::parameters! {
    /// The scheme's parameters.
    pub struct Wait {
        /// Longest wait at which the rate still grows.
        target: Time = Time::from_us(1) => { unit: "s", range: "a time above 0", source: "this example" };
        /// Largest decrease of the rate in a round trip.
        beta: f64 = 0.5 => { in 0.01..=0.9, symbol: "beta", range: "0.01 to 0.9", source: "this example" };
        pacing: PacingConfig = PacingConfig::new(WindowMode::Varying) => {
            part, window from "this example: the window follows the rate"
        };
    }
}

impl Scheme for Wait {
    const NAME: &'static str = "wait";
    const ABOUT: &'static str = "Wait: AIMD on the longest time that a packet waited in a switch";

    fn needs(&self) -> Needs {
        Needs {
            telemetry: TelemetrySource::Data,
            custom_record_fields: Some(&["wait"]),
            ..Needs::of(SwitchProgram::Hpcc)
        }
    }

    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let pacing = RateLimits::new(&self.pacing, flow);
        Box::new(WaitSender {
            target: self.target.as_secs_f64() / flow.tick.as_secs_f64(),
            beta: self.beta,
            packet_per_rtt: flow.payload.as_f64() * 8.0 / flow.base_rtt.as_secs_f64(),
            wait: flow.record.get(0),
            rate: pacing.line_rate(),
            longest: 0,
            round_ends: 0,
            pacing,
        })
    }
}

/// One flow.
#[derive(Debug)]
struct WaitSender {
    pacing: RateLimits,
    /// In ticks.
    target: f64,
    beta: f64,
    /// Rate of one packet per base round trip, in bit/s.
    packet_per_rtt: f64,
    /// The field of the record.
    wait: RecordField,
    /// Sending rate in bit/s.
    rate: f64,
    /// Longest wait that this round trip's ACKs report, in ticks.
    longest: u64,
    /// The round trip ends when this byte is acknowledged.
    round_ends: u64,
}

impl Sender for WaitSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        let here = ack.telemetry.records().map(|record| self.wait.read(record)).max();
        self.longest = self.longest.max(here.unwrap_or(0));
        if ack.seq > self.round_ends {
            let excess = 1.0 - self.target / (self.longest as f64).max(1.0);
            let next = match excess > 0.0 {
                true => self.rate * (1.0 - self.beta * excess),
                false => self.rate + self.packet_per_rtt,
            };
            self.rate = self.pacing.clamp(next);
            self.longest = 0;
            self.round_ends = ack.snd_nxt;
        }
        self.decision()
    }

    fn decision(&self) -> Decision {
        self.pacing.decide(self.rate, None)
    }
}
