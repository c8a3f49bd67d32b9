//! The sender half of a flow: the events that it gets, and its decisions.

use crate::custom_record::RecordFields;
use crate::telemetry::{Telemetry, TelemetryCounters};
use std::fmt;
use weir_units::{Bandwidth, Bytes, Time};

/// The facts about a flow that a sender half knows from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowParams {
    /// Rate of the host's NIC: flows start at it.
    pub nic_rate: Bandwidth,
    /// `T`, the base round-trip time of the fabric.
    pub base_rtt: Time,
    /// Payload of a full packet.
    pub payload: Bytes,
    /// Unit of the telemetry's timestamps.
    pub tick: Time,
    /// Positions, in a record, of the fields of [`Needs::own_record`](super::Needs::own_record).
    pub record: RecordFields,
}

/// An ACK (or a NACK, which acknowledges what came before the gap) as the scheme sees it; or the reply to
/// a probe, where `seq` and `snd_nxt` number probes.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent<'a> {
    /// The time it arrived.
    pub now: Time,
    /// Next byte the receiver expects; never beyond `snd_nxt`, never going back.
    pub seq: u64,
    /// Payload bytes this ACK acknowledged for the first time.
    pub acked: Bytes,
    /// Next byte the sender would send.
    pub snd_nxt: u64,
    /// Time from sending the acknowledged packet, if the echoed stamp can be one of ours.
    pub rtt: Option<Time>,
    /// True if the acknowledged packet was marked.
    pub ecn_echo: bool,
    /// Flows at the receiver as it reported them; 0 if it does not report.
    pub concurrency: u16,
    /// The grant field, if [`Needs::grant`](super::Needs::grant).
    pub grant: u32,
    /// XOR of switch ids on the path the telemetry describes.
    pub path_id: u16,
    /// XOR of switch ids on the path that the acknowledged DATA took. It differs from `path_id` where ACKs gather
    /// telemetry and return by another path.
    pub data_path: u16,
    /// Telemetry of the path, first hop after the sender first.
    pub telemetry: &'a Telemetry<'a>,
}

/// A RATE packet as the scheme sees it: a switch says how fast the flow may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateEvent {
    /// The time it arrived.
    pub now: Time,
    /// The rate; whatever a forger likes.
    pub rate: Bandwidth,
    /// Identifies the port: its number, and the XOR of the switch ids on the path from it.
    pub congestion_point: (u32, u16),
}

/// The evidence of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// The receiver saw a gap: it said so, or duplicate ACKs did.
    Nack,
    /// Nothing was acknowledged for a retransmission timeout.
    Timeout,
}

/// Packets were lost; the transport goes back to the first unacknowledged byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossEvent {
    /// The time it was noticed.
    pub now: Time,
    /// The evidence of the loss.
    pub kind: LossKind,
    /// The byte the sender goes back to.
    pub seq: u64,
    /// Next byte to be sent before the loss was detected.
    pub snd_nxt: u64,
}

/// The limits of a flow from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Payload bytes that may be in flight before another packet is sent. At least 1.
    pub window: Bytes,
    /// Rate at which frames leave. At least 1 bit/s.
    pub rate: Bandwidth,
    /// Time at which to call [`Sender::on_timer`].
    pub timer: Option<Time>,
}

/// The sender half of a message with one subflow.
pub trait Sender: fmt::Debug + Send {
    /// Feedback arrived. Telemetry that cannot be is left out and counted in `checks`.
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Decision;
    /// Packets were lost. Schemes for lossless fabrics leave this to the transport.
    fn on_loss(&mut self, _loss: &LossEvent) -> Decision {
        self.decision()
    }
    /// A congestion notification packet arrived.
    fn on_cnp(&mut self, _now: Time) -> Decision {
        self.decision()
    }
    /// A switch sent a rate.
    fn on_rate(&mut self, _rate: &RateEvent) -> Decision {
        self.decision()
    }
    /// The decision's timer expired.
    fn on_timer(&mut self, _now: Time) -> Decision {
        self.decision()
    }
    /// Before any event: the flow does not start, but goes on from what another law has left, and must not start again
    /// at line rate.
    fn resume(&mut self, _now: Time, _from: &SendingRate) -> Decision {
        self.decision()
    }
    /// Returns the decision in force; before any event, how the flow starts.
    fn decision(&self) -> Decision;
}

/// Effective sending rate of a flow when its scheme changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SendingRate {
    /// Effective sending rate in bit/s: `min(rate, window / base_rtt)`.
    pub rate: f64,
    /// The same per base round trip, in bytes; at least 1.
    pub window: f64,
}

impl SendingRate {
    /// Returns the sending rate that a decision allows on a fabric of this base RTT.
    pub fn of(decision: &Decision, base_rtt: Time) -> SendingRate {
        let t = base_rtt.as_secs_f64();
        let by_window = decision.window.as_f64() * 8.0 / t;
        let rate = decision.rate.as_bps_f64().min(by_window);
        SendingRate { rate, window: (rate * t / 8.0).max(1.0) }
    }
}

/// The state of a subflow's loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryState {
    /// It is not.
    Open,
    /// Fast recovery: duplicate ACKs told of the loss.
    FastRecovery,
    /// A timeout did, and what was in flight then is not acknowledged yet.
    Loss,
}

/// The sender half of a message: one for all its subflows, which it sees together.
///
/// An event changes what its own subflow may do, and whether any may send new data.
pub trait MultipathSender: fmt::Debug + Send {
    /// Feedback arrived on a subflow.
    fn on_ack(
        &mut self,
        subflow: usize,
        repair: RecoveryState,
        ack: &AckEvent<'_>,
        checks: &mut TelemetryCounters,
    ) -> Decision;
    /// Packets of a subflow were lost.
    fn on_loss(&mut self, subflow: usize, loss: &LossEvent) -> Decision;
    /// A congestion notification packet arrived on a subflow.
    fn on_cnp(&mut self, subflow: usize, _now: Time) -> Decision {
        self.decision(subflow)
    }
    /// A switch sent a rate for a subflow.
    fn on_rate(&mut self, subflow: usize, _rate: &RateEvent) -> Decision {
        self.decision(subflow)
    }
    /// Returns the timer of a subflow's decision expired.
    fn on_timer(&mut self, subflow: usize, _now: Time) -> Decision {
        self.decision(subflow)
    }
    /// As [`Sender::resume`], for one subflow after the other.
    fn resume(&mut self, subflow: usize, _now: Time, _from: &SendingRate) -> Decision {
        self.decision(subflow)
    }
    /// Returns the decision in force for a subflow; before any event, how it starts.
    fn decision(&self, subflow: usize) -> Decision;
    /// Returns whether a subflow may send new data. At least one may.
    fn is_active(&self, _subflow: usize) -> bool {
        true
    }
}

/// A sender half of one path is the sender half of a message with one subflow. Loss recovery is left to the transport.
impl MultipathSender for Box<dyn Sender> {
    fn on_ack(
        &mut self,
        _subflow: usize,
        _repair: RecoveryState,
        ack: &AckEvent<'_>,
        checks: &mut TelemetryCounters,
    ) -> Decision {
        self.as_mut().on_ack(ack, checks)
    }
    fn on_loss(&mut self, _subflow: usize, loss: &LossEvent) -> Decision {
        self.as_mut().on_loss(loss)
    }
    fn on_cnp(&mut self, _subflow: usize, now: Time) -> Decision {
        self.as_mut().on_cnp(now)
    }
    fn on_rate(&mut self, _subflow: usize, rate: &RateEvent) -> Decision {
        self.as_mut().on_rate(rate)
    }
    fn on_timer(&mut self, _subflow: usize, now: Time) -> Decision {
        self.as_mut().on_timer(now)
    }
    fn resume(&mut self, _subflow: usize, now: Time, from: &SendingRate) -> Decision {
        self.as_mut().resume(now, from)
    }
    fn decision(&self, _subflow: usize) -> Decision {
        self.as_ref().decision()
    }
}
