//! Swift (SIGCOMM 2020): additive increase and multiplicative decrease towards a target of the delay, for the fabric and
//! for the end hosts apart. docs/algorithms/swift.md has the rules and their sources.

use crate::parameter::{KeywordOr, Off};
use crate::parameters;
use crate::scheme::{
    AckEvent, Decision, FlowParams, GaugeReporter, LossEvent, LossKind, Needs, Scheme, Sender, SendingRate,
    SwitchProgram,
};
use crate::telemetry::TelemetryCounters;
use crate::wire::HEADERS_LEN;
use weir_units::{Bandwidth, Bytes, Time};

parameters! {
    /// Swift's parameters. Windows are in packets.
    pub(super) struct Swift {
        /// Target of the fabric delay, without the scaling by hops and windows.
        base_target: Time = Time::from_us(25) => {
            symbol: "base_target", unit: "s", range: "a time above 0",
            source: "Bolt's and Falcon's simulators; csg-htsim has 20 us",
        };
        /// Increase of the target per switch of the path.
        hop_scaling: KeywordOr<Off, Time> = KeywordOr::Value(Time::from_us(1)) => {
            symbol: "h", unit: "s", range: "off or a time above 0", source: "Bolt's and Falcon's simulators",
        };
        /// Largest increase of the target for flows with small windows.
        fs_range: KeywordOr<Off, Time> = KeywordOr::Value(Time::from_us(100)) => {
            symbol: "fs_range", unit: "s", range: "off or a time above 0",
            source: "Bolt's and Falcon's simulators: 4 base targets; csg-htsim has 5",
        };
        /// Window below which the increase of the target is fs_range.
        fs_min_cwnd: f64 = 0.1 => {
            in 0.001..=1.0, symbol: "fs_min_cwnd", unit: "packets", range: "0.001 to 1",
            source: "Bolt's and Falcon's simulators, csg-htsim",
        };
        /// Window above which the target is not increased.
        fs_max_cwnd: f64 = 256.0 => {
            in 2.0..=100_000.0, symbol: "fs_max_cwnd", unit: "packets", range: "2 to 100000",
            source: "Bolt's and Falcon's simulators; csg-htsim has 100",
        };
        /// Additive increase per round trip.
        ai: f64 = 1.0 => {
            in 0.001..=1000.0, symbol: "ai", unit: "packets", range: "0.001 to 1000",
            source: "Bolt's and Falcon's simulators, csg-htsim",
        };
        /// Multiplicative decrease constant.
        beta: f64 = 0.8 => {
            in 0.01..=1.0, symbol: "beta", range: "0.01 to 1", source: "Bolt's and Falcon's simulators, csg-htsim",
        };
        /// Largest share of the window by which one decrease reduces it.
        max_mdf: f64 = 0.5 => {
            in 0.01..=0.99, symbol: "max_mdf", range: "0.01 to 0.99",
            source: "Bolt's and Falcon's simulators, csg-htsim",
        };
        /// Smallest window.
        min_cwnd: f64 = 0.01 => {
            in 0.0001..=1.0, symbol: "min_cwnd", unit: "packets", range: "0.0001 to 1",
            source: "Bolt's and Falcon's simulators",
        };
        /// Largest window, but at least line rate times base RTT.
        max_cwnd: f64 = 256.0 => {
            in 1.0..=100_000.0, symbol: "max_cwnd", unit: "packets", range: "1 to 100000",
            source: "Bolt's and Falcon's simulators; csg-htsim has 1000",
        };
        /// Consecutive timeouts after which the window is the smallest one.
        retx_reset: u32 = 3 => {
            symbol: "RETX_RESET_THRESHOLD", unit: "times", range: "a count above 0",
            source: "Falcon's simulator; csg-htsim has 5",
        };
        /// Target of the delay in the end hosts.
        endpoint_target: Time = Time::from_us(100) => {
            unit: "s", range: "a time above 0", source: "Weir's choice: public code has no such delay",
        };
        /// Weight of a new sample in the average of the delay in the end hosts.
        endpoint_gain: f64 = 0.25 => {
            in 0.001..=1.0, range: "0.001 to 1",
            source: "the weight of RTT samples in Bolt's and Falcon's simulators",
        };
    }
}

impl Scheme for Swift {
    const NAME: &'static str = "swift";
    const ABOUT: &'static str = "Swift: keeps the delays of fabric and end hosts at targets";

    fn needs(&self) -> Needs {
        Needs { reports_endpoint_delay: true, ..Needs::of(SwitchProgram::Ecn) }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        // A flow starts at line rate (docs/algorithms/README.md), as in Bolt's simulator.
        let payload = flow.payload.as_f64().max(1.0);
        let start = (flow.nic_rate.bytes_in(flow.base_rtt).as_f64() / payload).ceil().max(1.0);
        let limits = Limits { min: self.min_cwnd, max: self.max_cwnd.max(start) };
        Box::new(SwiftSender {
            target: DelayTarget::new(self),
            fabric: Aimd::new(start),
            endpoint: Aimd::new(limits.max),
            config: self.clone(),
            limits,
            payload,
            nic_rate: flow.nic_rate,
            hops: 0,
            rtt: flow.base_rtt.as_secs_f64(),
            fabric_delay: 0.0,
            endpoint_delay: None,
            timeouts: 0,
        })
    }
}

/// The target of the fabric delay (docs/algorithms/swift.md#target). Times are in seconds.
#[derive(Clone, Copy, Debug)]
struct DelayTarget {
    base: f64,
    per_hop: f64,
    fs_range: f64,
    /// `alpha` and `beta` of flow scaling.
    fs_slope: f64,
    fs_offset: f64,
}

impl DelayTarget {
    fn new(config: &Swift) -> DelayTarget {
        let seconds = |time: KeywordOr<Off, Time>| time.or(Time::ZERO).as_secs_f64();
        let fs_range = seconds(config.fs_range);
        let inverse_root = |cwnd: f64| 1.0 / cwnd.sqrt();
        // Positive: the ranges of the two parameters do not overlap.
        let span = inverse_root(config.fs_min_cwnd) - inverse_root(config.fs_max_cwnd);
        let fs_slope = fs_range / span;
        DelayTarget {
            base: config.base_target.as_secs_f64(),
            per_hop: seconds(config.hop_scaling),
            fs_range,
            fs_slope,
            fs_offset: -fs_slope * inverse_root(config.fs_max_cwnd),
        }
    }

    /// Returns the target of a flow with this window, over a path with `hops` switches.
    fn of(&self, hops: u8, cwnd: f64) -> f64 {
        let flow_scaling = (self.fs_slope / cwnd.sqrt() + self.fs_offset).clamp(0.0, self.fs_range);
        self.base + f64::from(hops) * self.per_hop + flow_scaling
    }
}

/// The bounds of a window, in packets.
#[derive(Clone, Copy, Debug)]
struct Limits {
    min: f64,
    max: f64,
}

/// A window that follows a delay (Swift Algorithm 1).
#[derive(Clone, Copy, Debug)]
struct Aimd {
    /// Window in packets.
    cwnd: f64,
    /// Time of the last decrease; `None` before the first.
    decreased_at: Option<Time>,
}

impl Aimd {
    fn new(cwnd: f64) -> Aimd {
        Aimd { cwnd, decreased_at: None }
    }

    /// Returns whether a round trip of `rtt` seconds has passed since the last decrease.
    fn can_decrease(&self, now: Time, rtt: f64) -> bool {
        self.decreased_at.is_none_or(|at| now.saturating_sub(at).as_secs_f64() >= rtt)
    }

    fn set(&mut self, now: Time, cwnd: f64, limits: Limits) {
        let before = std::mem::replace(&mut self.cwnd, cwnd.clamp(limits.min, limits.max));
        if self.cwnd < before {
            self.decreased_at = Some(now);
        }
    }

    /// Handles an ACK of `packets` packets that measured `delay` seconds.
    fn on_ack(&mut self, ack: &Feedback, delay: f64, target: f64, config: &Swift, limits: Limits) {
        if delay < target {
            let per_packet = if self.cwnd >= 1.0 { config.ai / self.cwnd } else { config.ai };
            self.set(ack.now, self.cwnd + per_packet * ack.packets, limits);
        } else if self.can_decrease(ack.now, ack.rtt) {
            let cut = (config.beta * (delay - target) / delay).min(config.max_mdf);
            self.set(ack.now, self.cwnd * (1.0 - cut), limits);
        }
    }
}

/// What an ACK tells both windows.
struct Feedback {
    now: Time,
    /// RTT in seconds.
    rtt: f64,
    packets: f64,
}

#[derive(Debug)]
struct SwiftSender {
    config: Swift,
    target: DelayTarget,
    limits: Limits,
    /// Payload bytes of a full packet.
    payload: f64,
    nic_rate: Bandwidth,
    /// `fcwnd`: the window that follows the fabric delay.
    fabric: Aimd,
    /// `ecwnd`: the window that follows the delay in the end hosts.
    endpoint: Aimd,
    /// Switches of the path, from the last ACK that told them.
    hops: u8,
    /// The last RTT sample in seconds; the base RTT before the first.
    rtt: f64,
    /// The last sample of the fabric delay in seconds.
    fabric_delay: f64,
    /// Average delay in the end hosts in seconds; `None` before the first sample.
    endpoint_delay: Option<f64>,
    /// Timeouts since the last ACK.
    timeouts: u32,
}

impl SwiftSender {
    /// Returns the window in force, in packets.
    fn cwnd(&self) -> f64 {
        self.fabric.cwnd.min(self.endpoint.cwnd)
    }

    /// Cuts the fabric window by `max_mdf`, at most once per round trip.
    fn cut(&mut self, now: Time) {
        if self.fabric.can_decrease(now, self.rtt) {
            self.fabric.set(now, self.fabric.cwnd * (1.0 - self.config.max_mdf), self.limits);
        }
    }
}

impl Sender for SwiftSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        self.timeouts = 0;
        self.hops = ack.hops.unwrap_or(self.hops);
        let Some(rtt) = ack.rtt.filter(|&rtt| rtt > Time::ZERO) else { return self.decision() };
        // The receiver's part is not authenticated: more than the RTT is impossible.
        let endpoint_delay = ack.endpoint_delay.unwrap_or(Time::ZERO).min(rtt);
        self.rtt = rtt.as_secs_f64();
        self.fabric_delay = rtt.saturating_sub(endpoint_delay).as_secs_f64();
        let sample = endpoint_delay.as_secs_f64();
        let average =
            self.endpoint_delay.map_or(sample, |old| old + self.config.endpoint_gain * (sample - old));
        self.endpoint_delay = Some(average);
        let feedback = Feedback { now: ack.now, rtt: self.rtt, packets: ack.acked.as_f64() / self.payload };
        let target = self.target.of(self.hops, self.fabric.cwnd);
        self.fabric.on_ack(&feedback, self.fabric_delay, target, &self.config, self.limits);
        let target = self.config.endpoint_target.as_secs_f64();
        self.endpoint.on_ack(&feedback, average, target, &self.config, self.limits);
        self.decision()
    }

    fn on_loss(&mut self, loss: &LossEvent) -> Decision {
        match loss.kind {
            LossKind::Nack => {
                self.timeouts = 0;
                self.cut(loss.now);
            }
            LossKind::Timeout => {
                self.timeouts = self.timeouts.saturating_add(1);
                if self.timeouts >= self.config.retx_reset {
                    self.fabric.set(loss.now, self.limits.min, self.limits);
                } else {
                    self.cut(loss.now);
                }
            }
        }
        self.decision()
    }

    fn resume(&mut self, now: Time, from: &SendingRate) -> Decision {
        self.fabric.set(now, from.window / self.payload, self.limits);
        self.decision()
    }

    fn decision(&self) -> Decision {
        let cwnd = self.cwnd();
        // Below one packet the window is one packet, and the pacer waits for rtt / cwnd after each.
        let rate = if cwnd < 1.0 {
            let frame_bits = (self.payload + HEADERS_LEN as f64) * 8.0;
            Bandwidth::from_bps_f64(frame_bits * cwnd / self.rtt).min(self.nic_rate)
        } else {
            self.nic_rate
        };
        let window = Bytes::new((cwnd.floor().max(1.0) * self.payload) as u64);
        Decision { window, rate: rate.max(Bandwidth::from_bps(1)), timer: None }
    }

    fn is_window_based(&self) -> bool {
        true
    }

    /// The target of the fabric delay and the two delays, in microseconds; the two windows, in packets.
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("target_delay", self.target.of(self.hops, self.fabric.cwnd) * 1e6);
        report("fabric_delay", self.fabric_delay * 1e6);
        report("endpoint_delay", self.endpoint_delay.unwrap_or(0.0) * 1e6);
        report("fcwnd", self.fabric.cwnd);
        report("ecwnd", self.endpoint.cwnd);
    }
}
