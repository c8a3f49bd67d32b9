//! The sender half of a scheme: the events that it receives, and its decisions.

use crate::custom_record::RecordFields;
use crate::telemetry::{Telemetry, TelemetryCounters};
use std::fmt;
use weir_units::{Bandwidth, Bytes, Time};

/// The parameters of a flow that are known when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowParams {
    /// Rate of the host's NIC, at which flows start.
    pub nic_rate: Bandwidth,
    /// `T`: the base round-trip time of the network.
    pub base_rtt: Time,
    /// Payload bytes of a full packet.
    pub payload: Bytes,
    /// Unit of telemetry timestamps.
    pub tick: Time,
    /// Positions in a record of the fields named by
    /// [`Needs::custom_record_fields`](super::Needs::custom_record_fields).
    pub record: RecordFields,
    /// Subflows of the message, if it has some already and changes its scheme; `None`: as many as the scheme needs.
    pub subflows: Option<u8>,
}

/// An ACK, or a NACK, which acknowledges everything before the gap; or the reply to a probe, for which `seq` and
/// `snd_nxt` count probes instead of bytes.
#[derive(Clone, Copy, Debug)]
pub struct AckEvent<'a> {
    /// Time of arrival.
    pub now: Time,
    /// Next byte that the receiver expects. Never greater than `snd_nxt`, never decreasing.
    pub seq: u64,
    /// Payload bytes that this ACK acknowledges for the first time.
    pub acked: Bytes,
    /// Next byte that the sender would send.
    pub snd_nxt: u64,
    /// Time since the acknowledged packet was sent; `None` if the echoed timestamp is implausible.
    pub rtt: Option<Time>,
    /// Number of switches that forwarded this packet, from its TTL; `None` if no switch decremented it, or it is above
    /// the TTL with which hosts send. Routes are symmetric, so DATA crosses as many switches, unless `data_path` differs
    /// from `path_id`.
    pub hops: Option<u8>,
    /// True if the acknowledged packet had an ECN mark.
    pub ecn_echo: bool,
    /// Number of active flows at the receiver; 0 if it does not report them.
    pub concurrency: u16,
    /// The grant field of the ACK; 0 unless [`Needs::writes_grant`](super::Needs::writes_grant) is set.
    pub grant: u32,
    /// The part of `rtt` that passed in the two hosts: at the receiver from the arrival of the packet to the departure of
    /// the ACK, and here from the arrival of the ACK to `now`. `None` unless
    /// [`Needs::reports_endpoint_delay`](super::Needs::reports_endpoint_delay) is set.
    pub endpoint_delay: Option<Time>,
    /// XOR of the switch ids on the path that the telemetry describes.
    pub path_id: u16,
    /// XOR of the switch ids on the path of the acknowledged DATA. Differs from `path_id` where ACKs gather telemetry
    /// and return by another path.
    pub data_path: u16,
    /// Telemetry of the path, first hop after the sender first; empty if the packet carries none.
    pub telemetry: &'a Telemetry<'a>,
}

impl AckEvent<'_> {
    /// Returns the time at which the NIC began to send the acknowledged packet, by this host's clock, in whole
    /// nanoseconds; `None` if `rtt` is. The other end's clock is not in the packet; a receiver half may write a time into
    /// `grant`.
    pub fn sent_at(&self) -> Option<Time> {
        Some(Time::from_ns(self.now.as_ns()).saturating_sub(self.rtt?))
    }
}

/// A RATE packet, by which a switch assigns a rate to the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateEvent {
    /// Time of arrival.
    pub now: Time,
    /// The rate. Not authenticated: may have any value.
    pub rate: Bandwidth,
    /// The port that computed the rate.
    pub congestion_point: CongestionPoint,
}

/// Identifies a port of a switch, as seen by a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionPoint {
    /// Number of the port at its switch.
    pub port: u32,
    /// XOR of the switch ids on the path from the switch to the sender.
    pub path_id: u16,
}

/// How a loss was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// A NACK or duplicate ACKs report a gap at the receiver.
    Nack,
    /// Nothing was acknowledged until the retransmission timeout.
    Timeout,
}

/// A loss. With go-back-N the transport goes back to `seq`; with selective retransmission it retransmits the missing
/// packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossEvent {
    /// Time of detection.
    pub now: Time,
    /// How the loss was detected.
    pub kind: LossKind,
    /// The first unacknowledged byte.
    pub seq: u64,
    /// Next byte that the sender would have sent before the loss was detected.
    pub snd_nxt: u64,
}

/// The limits under which a flow sends until the next decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Payload bytes in flight below which another packet may be sent. At least 1.
    pub window: Bytes,
    /// Pacing rate, counted in frame bytes. At least 1 bit/s.
    pub rate: Bandwidth,
    /// Time at which to call [`Sender::on_timer`]; `None` cancels the timer.
    pub timer: Option<Time>,
}

/// The sender half of a message with one subflow.
pub trait Sender: fmt::Debug + Send {
    /// Called for an ACK, a NACK or the reply to a probe. `checks` are the counters of implausible telemetry, which is
    /// ignored.
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Decision;
    /// Called when a loss is detected. Default: no reaction beyond the retransmission by the transport.
    fn on_loss(&mut self, _loss: &LossEvent) -> Decision {
        self.decision()
    }
    /// Called for a congestion notification packet.
    fn on_cnp(&mut self, _now: Time) -> Decision {
        self.decision()
    }
    /// Called for a RATE packet from a switch.
    fn on_rate(&mut self, _rate: &RateEvent) -> Decision {
        self.decision()
    }
    /// Called when the [`timer`](Decision::timer) of the last decision expires.
    fn on_timer(&mut self, _now: Time) -> Decision {
        self.decision()
    }
    /// Called once, before any event, when a policy replaces the scheme of a running flow: start from `from`, the
    /// effective rate that the previous scheme left, and not from line rate.
    fn resume(&mut self, _now: Time, _from: &SendingRate) -> Decision {
        self.decision()
    }
    /// Returns the decision in force. Before any event this is how the flow starts.
    fn decision(&self) -> Decision;
    /// Returns the limit of the rate of all messages of this host to the same receiver together, as of the last event.
    /// Only asked if [`Needs::limits_peers`](super::Needs::limits_peers) is set. Default: none.
    fn peer_rate(&self) -> Option<Bandwidth> {
        None
    }
    /// Returns whether the window limits the sending rate, and the rate of decisions is the NIC's. Results then show
    /// window over RTT as the sending rate, not the pacing rate. Default: false.
    fn is_window_based(&self) -> bool {
        false
    }
    /// Reports quantities of the scheme's own that `observe.sender` may record, such as `alpha`, by name. Called at
    /// samples, only if somebody records them. The names are the same in each call, and none of [`BUILTIN_GAUGES`]. The
    /// last word of a name is the unit: `target_rate` is in bit/s, `reference_window` in bytes, `fabric_delay` in
    /// microseconds; other quantities have none. Default: none.
    fn gauges(&self, _report: &mut GaugeReporter<'_>) {}
}

/// Callback for the name and the value of a gauge.
pub type GaugeReporter<'a> = dyn FnMut(&'static str, f64) + 'a;

/// Quantities that the transport knows of every sender: the last RTT sample in microseconds, the window in bytes, and
/// the sending rate in bit/s.
pub const BUILTIN_GAUGES: [&str; 3] = ["rtt", "window", "rate"];

/// Effective sending rate of a flow when its scheme changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SendingRate {
    /// Effective sending rate in bit/s: `min(rate, window / base_rtt)`.
    pub rate: f64,
    /// Bytes sent per base RTT at that rate; at least 1.
    pub window: f64,
}

impl SendingRate {
    /// Returns the sending rate that a decision allows on a fabric of this base RTT.
    pub fn of(decision: &Decision, base_rtt: Time) -> SendingRate {
        let rtt = base_rtt.as_secs_f64();
        let window_rate = decision.window.as_f64() * 8.0 / rtt;
        let rate = decision.rate.as_bps_f64().min(window_rate);
        SendingRate { rate, window: (rate * rtt / 8.0).max(1.0) }
    }
}

/// The state of a subflow's loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryState {
    /// Not in loss recovery.
    Open,
    /// Fast recovery, after duplicate ACKs signalled a loss.
    FastRecovery,
    /// After a retransmission timeout, until everything that was in flight at the timeout is acknowledged.
    Loss,
}

/// The sender half of a message with any number of subflows: one for all of them.
///
/// A decision applies to the subflow of the event. An event may also change which subflows may send new data.
pub trait MultipathSender: fmt::Debug + Send {
    /// Called for an ACK on subflow `subflow`, whose loss recovery is in state `recovery`.
    fn on_ack(
        &mut self,
        subflow: usize,
        recovery: RecoveryState,
        ack: &AckEvent<'_>,
        checks: &mut TelemetryCounters,
    ) -> Decision;
    /// Called when a loss is detected on a subflow.
    fn on_loss(&mut self, subflow: usize, loss: &LossEvent) -> Decision;
    /// Called for a congestion notification packet on a subflow.
    fn on_cnp(&mut self, subflow: usize, _now: Time) -> Decision {
        self.decision(subflow)
    }
    /// Called for a RATE packet on a subflow.
    fn on_rate(&mut self, subflow: usize, _rate: &RateEvent) -> Decision {
        self.decision(subflow)
    }
    /// Called when the `timer` of the subflow's last decision expires.
    fn on_timer(&mut self, subflow: usize, _now: Time) -> Decision {
        self.decision(subflow)
    }
    /// Returns the number of subflows that the sender half controls.
    fn subflows(&self) -> usize;
    /// As [`Sender::resume`]; called for each subflow in order.
    fn resume(&mut self, subflow: usize, _now: Time, _from: &SendingRate) -> Decision {
        self.decision(subflow)
    }
    /// Returns the decision in force for a subflow. Before any event this is how the subflow starts.
    fn decision(&self, subflow: usize) -> Decision;
    /// Returns whether the scheme allows a subflow to send new data. True for at least one subflow.
    fn is_active(&self, _subflow: usize) -> bool {
        true
    }
    /// As [`Sender::peer_rate`].
    fn peer_rate(&self) -> Option<Bandwidth> {
        None
    }
    /// As [`Sender::is_window_based`].
    fn is_window_based(&self) -> bool {
        false
    }
    /// As [`Sender::gauges`], for the whole message.
    fn gauges(&self, _report: &mut GaugeReporter<'_>) {}
}

/// A [`Sender`] as the sender half of a message with one subflow. The index and the state of loss recovery are
/// ignored.
impl MultipathSender for Box<dyn Sender> {
    fn on_ack(
        &mut self,
        _subflow: usize,
        _recovery: RecoveryState,
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
    fn subflows(&self) -> usize {
        1
    }
    fn resume(&mut self, _subflow: usize, now: Time, from: &SendingRate) -> Decision {
        self.as_mut().resume(now, from)
    }
    fn decision(&self, _subflow: usize) -> Decision {
        self.as_ref().decision()
    }
    fn peer_rate(&self) -> Option<Bandwidth> {
        self.as_ref().peer_rate()
    }
    fn is_window_based(&self) -> bool {
        self.as_ref().is_window_based()
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        self.as_ref().gauges(report);
    }
}
