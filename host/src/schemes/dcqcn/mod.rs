//! DCQCN (SIGCOMM 2015): the receiver answers marks with congestion notification packets; the sender reduces its rate
//! for each and recovers by timer and byte counter.
//!
//! Variants (docs/algorithms/dcqcn.md): `paper`; and `simulator`, with which the authors of HPCC and FNCC compare:
//! marks return on ACKs, and three independent timers sample them.

mod config;
mod paper;
mod simulator;

pub(super) use config::{Dcqcn, dart_parameters};
pub(super) use paper::ReactionPoint;

use crate::parameter::KeywordOr;
use crate::scheme::{
    AckEvent, AckFields, DataEvent, Decision, DefaultReceiver, FlowParams, GaugeReporter, Needs, Receiver,
    Scheme, Sender, SendingRate, SwitchProgram,
};
use crate::telemetry::TelemetryCounters;
use config::Variant;
use simulator::Simulator;
use weir_units::Time;

impl Scheme for Dcqcn {
    const NAME: &'static str = "dcqcn";
    const ABOUT: &'static str =
        "DCQCN: congestion notification packets for marks, recovery by timer and bytes";
    fn needs(&self) -> Needs {
        Needs {
            ecn: Some(self.marking()),
            express_max_size: self.short_first.value(),
            ..Needs::of(SwitchProgram::Ecn)
        }
    }
    fn write_out_times(&mut self) {
        self.alpha_timer = KeywordOr::Value(self.alpha_timer());
        self.increase_timer = KeywordOr::Value(self.increase_timer());
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        match self.variant {
            Variant::Paper => Box::new(PaperSender(ReactionPoint::new(self, flow))),
            Variant::Simulator => Box::new(SimulatorSender(Simulator::new(self, flow))),
        }
    }
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        match self.variant {
            Variant::Paper => Box::new(NotificationPoint::new(self.cnp_interval)),
            Variant::Simulator => Box::new(DefaultReceiver),
        }
    }
}

#[derive(Debug)]
struct PaperSender(ReactionPoint);

impl Sender for PaperSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        self.0.on_bytes_acked(ack.acked);
        self.decision()
    }
    fn on_cnp(&mut self, now: Time) -> Decision {
        self.0.on_cnp(now);
        self.decision()
    }
    fn on_timer(&mut self, now: Time) -> Decision {
        self.0.on_timer(now);
        self.decision()
    }
    fn resume(&mut self, now: Time, from: &SendingRate) -> Decision {
        self.0.resume(now, from);
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.0.decision()
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        self.0.gauges(report);
    }
}

#[derive(Debug)]
struct SimulatorSender(Simulator);

impl Sender for SimulatorSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        if ack.ecn_echo {
            self.0.on_mark(ack.now);
        }
        self.decision()
    }
    fn on_timer(&mut self, now: Time) -> Decision {
        self.0.on_timer(now);
        self.decision()
    }
    fn resume(&mut self, now: Time, from: &SendingRate) -> Decision {
        self.0.resume(now, from);
        self.decision()
    }
    fn decision(&self) -> Decision {
        self.0.decision()
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        self.0.gauges(report);
    }
}

/// The notification point (DCQCN §3.2): answers a marked packet with a CNP unless the flow got one within the
/// interval.
#[derive(Debug)]
pub(super) struct NotificationPoint {
    interval: Time,
    /// Time of the last CNP to each flow, indexed by [`DataEvent::slot`]; `None` before the first.
    last_cnp: Vec<Option<Time>>,
}

impl NotificationPoint {
    pub(super) fn new(interval: Time) -> NotificationPoint {
        NotificationPoint { interval, last_cnp: Vec::new() }
    }

    /// Clears the entry of the slot's previous flow at the first packet of a new one.
    pub(super) fn reset_if_new(&mut self, data: &DataEvent<'_>) {
        if data.is_first
            && let Some(last_cnp) = data.slot.and_then(|slot| self.last_cnp.get_mut(slot as usize))
        {
            *last_cnp = None;
        }
    }

    /// Returns whether to answer this packet with a CNP, and if so starts the flow's interval.
    pub(super) fn should_send_cnp(&mut self, data: &DataEvent<'_>) -> bool {
        // A completed message has no slot, and no rate that a CNP could reduce.
        let Some(slot) = data.slot.map(|slot| slot as usize) else { return false };
        self.reset_if_new(data);
        if !data.is_marked {
            return false;
        }
        if self.last_cnp.len() <= slot {
            self.last_cnp.resize(slot + 1, None);
        }
        let is_due = self.last_cnp[slot].is_none_or(|last| data.now.saturating_sub(last) >= self.interval);
        if is_due {
            self.last_cnp[slot] = Some(data.now);
        }
        is_due
    }
}

impl Receiver for NotificationPoint {
    fn on_data(&mut self, data: &DataEvent<'_>, _checks: &mut TelemetryCounters) -> AckFields {
        AckFields { send_cnp: self.should_send_cnp(data), ..AckFields::default() }
    }
}
