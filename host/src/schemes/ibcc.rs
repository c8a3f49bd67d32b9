//! InfiniBand's congestion control (InfiniBand Architecture Specification, volume 1, annex A10): each notification moves a
//! flow down a table of delays between packets, and a timer moves it up again.
//!
//! Ports mark every packet beyond the threshold; the receiver half thins marks out to one in `marking_rate` + 1, because
//! the entries of the program `ecn` have no constant probability (docs/algorithms/ibcc.md).

use super::dice::hash;
use super::pacing::{PacingConfig, RateLimits, WindowMode};
use crate::parameter::EnumParameter;
use crate::parameters;
use crate::scheme::{
    AckEvent, AckFields, DataEvent, Decision, EcnThresholds, FlowParams, GaugeReporter, Needs,
    QueueThreshold, Receiver, Scheme, Sender, SendingRate, SwitchProgram,
};
use crate::telemetry::TelemetryCounters;
use weir_units::{Bandwidth, Bytes, Time};

parameters! {
    /// The attributes of InfiniBand's congestion control, of switches and of channel adapters.
    pub(super) struct Ibcc {
        /// Weight of the queue beyond which ports mark: 1 the longest, 15 the shortest, 0 for no marks.
        threshold: u16 = MAX_WEIGHT => {
            in 0..=MAX_WEIGHT, symbol: "Threshold", range: "0 to 15",
            source: "MLNX_OFED's ccmgr: 0xf; Omni-Path's manager: 8",
        };
        /// Queue of weight 0. Ports mark beyond (16 - threshold) sixteenths of it.
        buffer: QueueThreshold = QueueThreshold {
            queue: Bytes::new(128 << 10),
            reference_rate: Bandwidth::from_gbps(40),
        } => {
            unit: "B", range: "a size/rate",
            source: "Weir's choice: the credits of a virtual lane cover 128 KiB; 40 Gbit/s is QDR",
        };
        /// Mean number of packets between two marked ones.
        marking_rate: u16 = 10 => {
            symbol: "Marking_Rate", unit: "packets", range: "0 to 65535",
            source: "MLNX_OFED's ccmgr: 0xa; Omni-Path's manager: 0",
        };
        /// Steps down the table for each notification.
        ccti_increase: u16 = 1 => {
            in 0..=255, symbol: "CCTI_Increase", range: "0 to 255",
            source: "MLNX_OFED's ccmgr; Omni-Path's manager: 5",
        };
        /// Last entry of the table.
        ccti_limit: u16 = 127 => {
            in 1..=16_319, symbol: "CCTI_Limit", range: "1 to 16319",
            source: "OpenSM's 128 entries; Omni-Path's manager",
        };
        /// First entry, at which flows start.
        ccti_min: u16 = 0 => {
            in 0..=255, symbol: "CCTI_Min", range: "0 to 255", source: "MLNX_OFED's ccmgr; Omni-Path's manager",
        };
        /// Interval between two steps up the table. Adapters have multiples of 1.024 us.
        ccti_timer: Time = Time::from_ns(153_600) => {
            symbol: "CCTI_Timer", unit: "s", range: "a time above 0",
            source: "LLNL's ib-cc-tester: 150 units, the shortest of ten; Omni-Path's manager: 10 units",
        };
        /// How delays grow along the table.
        cct: Shape = Shape::Square => {
            symbol: "CCT", range: "square or linear", source: "LLNL's tables for OpenSM; Omni-Path's manager: linear",
        };
        /// Delays are multiples of 1 / 2^shift packet times.
        cct_shift: u16 = MAX_SHIFT => {
            in 0..=MAX_SHIFT, symbol: "CCT_Shift", range: "0 to 3", source: "LLNL's table \"simula_optimal\"; its \"mellanox_default\": 0",
        };
        /// Delay of the last entry, in times of the packet before it.
        max_delay: f64 = 5.762 => {
            in 0.0..=2000.0, symbol: "CCT_Multiplier", unit: "packet times", range: "0 to 2000",
            source: "LLNL's table \"simula_optimal\"; its \"mellanox_default\": 57.39",
        };
    }
}

/// The largest weight of a threshold, which has 4 bits.
const MAX_WEIGHT: u16 = 15;
/// The largest shift of a delay, which has 2 bits.
const MAX_SHIFT: u16 = 3;
/// The largest multiplier of a delay, which has 14 bits.
const MAX_MULTIPLIER: f64 = 16_383.0;

/// How delays grow with the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Square,
    Linear,
}

impl EnumParameter for Shape {
    const NAMES: &'static [(&'static str, Self)] = &[("square", Shape::Square), ("linear", Shape::Linear)];
}

impl Ibcc {
    /// Returns the entry at which flows start.
    fn first_entry(&self) -> u16 {
        self.ccti_min.min(self.ccti_limit)
    }

    /// Returns the delay after a packet at an entry of the table, in times of that packet (A10.2.2.1.1).
    fn delay(&self, ccti: u16) -> f64 {
        let position = f64::from(ccti) / f64::from(self.ccti_limit);
        let share = match self.cct {
            Shape::Square => position * position,
            Shape::Linear => position,
        };
        let units = f64::from(1u32 << self.cct_shift);
        (self.max_delay * units * share).floor().min(MAX_MULTIPLIER) / units
    }
}

impl Scheme for Ibcc {
    const NAME: &'static str = "ibcc";
    const ABOUT: &'static str =
        "InfiniBand's congestion control: marks lengthen the delay between packets, a timer shortens it";
    fn needs(&self) -> Needs {
        let QueueThreshold { queue, reference_rate } = self.buffer;
        let sixteenths = u64::from(MAX_WEIGHT + 1 - self.threshold);
        let queue = Bytes::new(queue.get() * sixteenths / 16);
        Needs {
            ecn: (self.threshold > 0).then_some(EcnThresholds::step(queue, reference_rate)),
            ..Needs::of(SwitchProgram::Ecn)
        }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Box::new(Source {
            limits: RateLimits::new(&PacingConfig::new(WindowMode::Off), flow),
            ccti: self.first_entry(),
            step_at: None,
            config: self.clone(),
        })
    }
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(Destination { marking_rate: self.marking_rate, marks: 0 })
    }
}

/// The source channel adapter's state of a queue pair.
#[derive(Debug)]
struct Source {
    config: Ibcc,
    limits: RateLimits,
    /// Index into the table.
    ccti: u16,
    /// Time of the next step up the table; `None` at the first entry.
    step_at: Option<Time>,
}

impl Source {
    /// Returns the sending rate in bit/s at an entry of the table.
    fn rate(&self, ccti: u16) -> f64 {
        self.limits.line_rate() / (1.0 + self.config.delay(ccti))
    }

    /// Moves down the table. The timer runs from the first step to the return to the first entry; notifications do not
    /// restart it.
    fn step_down(&mut self, now: Time, steps: u16) {
        self.ccti = self.ccti.saturating_add(steps).min(self.config.ccti_limit);
        if self.ccti > self.config.first_entry() {
            self.step_at.get_or_insert(now.saturating_add(self.config.ccti_timer));
        }
    }
}

impl Sender for Source {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        // A repeated ACK repeats its notification.
        if ack.ecn_echo && ack.acked > Bytes::ZERO {
            self.step_down(ack.now, self.config.ccti_increase);
        }
        self.decision()
    }
    fn on_timer(&mut self, now: Time) -> Decision {
        while let Some(at) = self.step_at.filter(|&at| at <= now) {
            self.ccti -= 1; // above the first entry while the timer runs
            let is_back = self.ccti == self.config.first_entry();
            self.step_at = (!is_back).then(|| at.saturating_add(self.config.ccti_timer));
        }
        self.decision()
    }
    fn resume(&mut self, now: Time, from: &SendingRate) -> Decision {
        let entries = self.ccti..self.config.ccti_limit;
        let steps = entries.take_while(|&ccti| self.rate(ccti) > from.rate).count();
        self.step_down(now, u16::try_from(steps).unwrap_or(u16::MAX));
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.limits.decide(self.rate(self.ccti), self.step_at)
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("ccti", self.ccti.into());
    }
}

/// The destination channel adapter: answers marks with notifications on ACKs.
#[derive(Debug)]
struct Destination {
    marking_rate: u16,
    /// Number of marked packets.
    marks: u64,
}

impl Receiver for Destination {
    fn on_data(&mut self, data: &DataEvent<'_>, _checks: &mut TelemetryCounters) -> AckFields {
        if !data.is_marked {
            return AckFields::default();
        }
        self.marks = self.marks.wrapping_add(1);
        // Each packet by itself: every eleventh would be that of the same flow where eleven flows take turns. The number
        // of the mark, unlike its time, is the same in a scale model.
        let dice = hash(self.marks) >> 32;
        let is_answered = dice.is_multiple_of(u64::from(self.marking_rate) + 1);
        AckFields { suppress_ecn_echo: !is_answered, ..AckFields::default() }
    }
    fn wants_telemetry(&self) -> bool {
        false
    }
}
