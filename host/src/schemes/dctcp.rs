//! DCTCP (SIGCOMM 2010): reduces the rate in proportion to the share of marked bytes per round trip.
//!
//! The form `rate` is the HPCC simulator's (`rdma-hw.cc:998-1050`): a message starts at line rate, without slow
//! start, and the window is the rate times `T`. The form `window` is TCP's (RFC 8257), for networks that lose
//! packets.

use super::multipath::{DctcpLaw, WindowsConfig};
use super::pacing::{PacingConfig, RateLimits, WindowMode};
use crate::parameter::{EnumParameter, ParameterValue, Scale, without};
use crate::parameters;
use crate::scheme::{
    AckEvent, Decision, EcnThresholds, FlowParams, GaugeReporter, LossEvent, MARKING_RANGE, MultipathSender,
    Needs, Scheme, Sender, SendingRate, SwitchProgram, TransportNeeds,
};
use crate::telemetry::TelemetryCounters;
use weir_units::{Bandwidth, Bytes, ParseUnitError, Time};

parameters! {
    /// DCTCP's parameters.
    pub(super) struct Dctcp {
        /// Quantity that the algorithm controls.
        form: Form = Form::Rate => {
            range: "rate or window (TCP's, with slow start, over a network that loses packets)",
            source: "HPCC simulator; RFC 8257",
        };
        /// Weight of the newest round trip in alpha, the average share of marked bytes.
        g: f64 = 0.0625 => { in 0.0001..=1.0, symbol: "g", range: "0.0001 to 1", source: "DCTCP §3.3: 1/16" };
        /// Additive increase per round trip without marks.
        increase: Increase = Increase::Packet => {
            symbol: "AI", unit: "B", range: "packet, a size (over T) or a rate",
            source: "DCTCP §3.3: one segment per round trip; HPCC simulator: 615 Mbit/s, 1 KB in 13 us",
        };
        /// Queue thresholds at which switches mark, unless the experiment sets them.
        ecn: EcnThresholds = EcnThresholds::step(Bytes::from_kb(30), Bandwidth::from_gbps(10)) => {
            symbol: "K", unit: "B", range: MARKING_RANGE, source: "HPCC §5.1",
        };
        pacing: PacingConfig = PacingConfig::new(WindowMode::Varying) => {
            part, window from "HPCC simulator: BDP times rate over line rate"
        };
        windows: WindowsConfig = WindowsConfig::single() => {
            part: without(WindowsConfig::parameters(), &["subflows", "ecn"])
        };
    }
}

/// The quantity that the algorithm controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Rate,
    Window,
}

impl EnumParameter for Form {
    const NAMES: &'static [(&'static str, Self)] = &[("rate", Form::Rate), ("window", Form::Window)];
}

/// The increase after a round trip without marks.
#[derive(Clone, Copy, Debug)]
enum Increase {
    /// One more packet in flight.
    Packet,
    /// This many more bytes in flight.
    Window(Bytes),
    /// This much more rate.
    Rate(Bandwidth),
}

impl Increase {
    /// Returns the increase of the rate in bit/s.
    fn resolve(self, flow: &FlowParams) -> f64 {
        let rate = |bytes: Bytes| bytes.as_f64() * 8.0 / flow.base_rtt.as_secs_f64();
        match self {
            Increase::Packet => rate(flow.payload),
            Increase::Window(bytes) => rate(bytes),
            Increase::Rate(rate) => rate.as_bps_f64(),
        }
    }
}

impl ParameterValue for Increase {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "packet" {
            return Ok(Increase::Packet);
        }
        let rate = text.parse().map(Increase::Rate);
        rate.or_else(|_| text.parse().map(Increase::Window)).map_err(|e: ParseUnitError| e.to_string())
    }
    fn to_text(self) -> String {
        match self {
            Increase::Packet => "packet".to_owned(),
            Increase::Window(bytes) => bytes.to_string(),
            Increase::Rate(rate) => rate.to_string(),
        }
    }
    fn scaled(self, scale: &dyn Scale) -> Self {
        match self {
            Increase::Rate(rate) => Increase::Rate(scale.rate(rate)),
            other => other,
        }
    }
}

impl Scheme for Dctcp {
    const NAME: &'static str = "dctcp";
    const ABOUT: &'static str = "DCTCP: slows down by the share of bytes that were marked in a round trip";
    fn needs(&self) -> Needs {
        Needs {
            ecn: Some(self.ecn),
            transport: match self.form {
                Form::Rate => TransportNeeds::default(),
                Form::Window => self.windows.transport(),
            },
            ..Needs::of(SwitchProgram::Ecn)
        }
    }
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        match self.form {
            Form::Rate => Box::new(self.sender(flow)),
            Form::Window => self.windows.multipath_sender(DctcpLaw::new(self.g), flow),
        }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        if self.form == Form::Window {
            return self.windows.sender(DctcpLaw::new(self.g), flow);
        }
        let pacing = RateLimits::new(&self.pacing, flow);
        Box::new(DctcpSender {
            pacing,
            g: self.g,
            increase: self.increase.resolve(flow),
            rate: pacing.line_rate(),
            alpha: 1.0,
            round_end_seq: None,
            acked_bytes: 0,
            marked_bytes: 0,
            cwr_end_seq: None,
        })
    }
}

#[derive(Debug)]
struct DctcpSender {
    pacing: RateLimits,
    g: f64,
    /// Additive increase in bit/s.
    increase: f64,
    /// Sending rate in bit/s.
    rate: f64,
    alpha: f64,
    /// `snd_nxt` when the present round trip began; `None` before the first ACK. The first round trip does not change
    /// alpha.
    round_end_seq: Option<u64>,
    /// Bytes acknowledged in the present round trip.
    acked_bytes: u64,
    /// The part of `acked_bytes` that was marked.
    marked_bytes: u64,
    /// `snd_nxt` at the last decrease. No further decrease until it is acknowledged (CWR state).
    cwr_end_seq: Option<u64>,
}

impl DctcpSender {
    /// Multiplies the rate by `factor` and enters CWR state.
    fn cut(&mut self, factor: f64, snd_nxt: u64) {
        self.rate = self.pacing.clamp(self.rate * factor);
        self.cwr_end_seq = Some(snd_nxt);
    }
}

impl Sender for DctcpSender {
    /// The order is that of the HPCC simulator: alpha, end of CWR state, decrease, increase.
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        self.acked_bytes += ack.acked.get();
        self.marked_bytes += if ack.ecn_echo { ack.acked.get() } else { 0 };
        let is_round_over = self.round_end_seq.is_none_or(|end| ack.seq > end);
        if is_round_over && self.round_end_seq.replace(ack.snd_nxt).is_some() && self.acked_bytes > 0 {
            let marked_share = self.marked_bytes as f64 / self.acked_bytes as f64;
            self.alpha = (1.0 - self.g) * self.alpha + self.g * marked_share;
            (self.acked_bytes, self.marked_bytes) = (0, 0);
        }
        self.cwr_end_seq.take_if(|end| ack.seq > *end);
        if self.cwr_end_seq.is_none() {
            if ack.ecn_echo {
                self.cut(1.0 - self.alpha / 2.0, ack.snd_nxt);
            } else if is_round_over {
                self.rate = self.pacing.clamp(self.rate + self.increase);
            }
        }
        self.decision()
    }
    /// DCTCP reacts to loss as TCP does (RFC 8257 §3.5), at most once per round trip.
    fn on_loss(&mut self, loss: &LossEvent) -> Decision {
        if self.cwr_end_seq.is_none_or(|end| loss.seq >= end) {
            self.cut(0.5, loss.snd_nxt);
        }
        self.decision()
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        self.rate = self.pacing.clamp(from.rate);
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.pacing.decide(self.rate, None)
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("alpha", self.alpha);
    }
}
