//! What a congestion control scheme is: a factory with knobs, a sender half and a receiver half.
//!
//! A scheme sees events and gives decisions. It never sees a frame, a clock or a timer, and it does
//! not know how telemetry travelled: [`Telemetry`] comes in data-path order, whichever packet
//! carried it.

use crate::knob::{Knob, KnobError};
use crate::telemetry::{Clock, Telemetry, TelemetryChecks};
use std::fmt;
use weir_units::{Bandwidth, Bytes, Time};

/// A scheme's configuration, which is also the factory of its two halves.
pub trait SchemeConfig: fmt::Debug + Send + Sync {
    /// The name experiments use.
    fn name(&self) -> &'static str;
    /// One sentence for the list of schemes.
    fn about(&self) -> &'static str;
    /// Everything that can be tuned.
    fn knobs(&self) -> Vec<&'static Knob>;
    /// The present value of a knob, as [`set`](Self::set) reads it.
    fn get(&self, knob: &str) -> Option<String>;
    /// Tunes one knob; on error nothing has changed.
    fn set(&mut self, knob: &str, value: &str) -> Result<(), KnobError>;
    /// What the scheme wants from the network.
    fn needs(&self) -> Needs;
    /// The sender half for one flow.
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender>;
    /// The receiver half for one host.
    fn receiver(&self) -> Box<dyn Receiver>;
}

/// Which packets gather telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetryOn {
    /// None.
    Nothing,
    /// DATA packets, whose records the receiver copies to the ACK (HPCC).
    Data,
    /// ACKs, on their way back (FNCC).
    Acks,
}

/// What a scheme wants from the network and from the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Which packets gather telemetry.
    pub telemetry: TelemetryOn,
    /// Whether DATA is sent ECN-capable.
    pub ecn: bool,
    /// Whether the scheme's receiver half writes the ACK's grant field. Where it does not, the
    /// transport echoes the path id of the DATA packet there.
    pub grant: bool,
}

/// What a sender half knows of its flow from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowParams {
    /// Rate of the host's NIC: flows start at it.
    pub nic_rate: Bandwidth,
    /// `T`, the base round-trip time of the fabric.
    pub base_rtt: Time,
    /// Payload of a full packet.
    pub payload: Bytes,
    /// Unit of the telemetry's timestamps.
    pub clock: Clock,
}

/// An ACK (or a NACK, which acknowledges what came before the gap) as the scheme sees it.
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
    /// Whether the acknowledged packet was marked.
    pub ecn_echo: bool,
    /// Flows at the receiver as it reported them; 0 if it does not report.
    pub concurrency: u16,
    /// The grant field, if [`Needs::grant`].
    pub grant: u32,
    /// XOR of switch ids on the path the telemetry describes.
    pub path_id: u16,
    /// What the switches reported, first hop after the sender first.
    pub telemetry: &'a Telemetry,
}

/// How a loss was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// The receiver saw a gap.
    Nack,
    /// Nothing was acknowledged for a retransmission timeout.
    Timeout,
}

/// Packets were lost; the transport goes back to the first unacknowledged byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossEvent {
    /// The time it was noticed.
    pub now: Time,
    /// How it was noticed.
    pub kind: LossKind,
    /// The byte the sender goes back to.
    pub seq: u64,
    /// Where it had been.
    pub snd_nxt: u64,
}

/// What a flow may do from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Payload bytes that may be in flight before another packet is sent. At least 1.
    pub window: Bytes,
    /// Rate at which frames leave. At least 1 bit/s.
    pub rate: Bandwidth,
    /// When to call [`Sender::on_timer`].
    pub timer: Option<Time>,
}

/// The sender half: one per flow.
pub trait Sender: fmt::Debug + Send {
    /// Feedback arrived. Telemetry that cannot be is left out and counted in `checks`.
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryChecks) -> Decision;
    /// Packets were lost. Schemes for lossless fabrics leave this to the transport.
    fn on_loss(&mut self, _loss: &LossEvent) -> Decision {
        self.decision()
    }
    /// A congestion notification packet arrived.
    fn on_cnp(&mut self, _now: Time) -> Decision {
        self.decision()
    }
    /// The decision's timer expired.
    fn on_timer(&mut self, _now: Time) -> Decision {
        self.decision()
    }
    /// What holds now; before any event, how the flow starts.
    fn decision(&self) -> Decision;
}

/// A DATA packet as the receiver half sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataEvent {
    /// The time it arrived.
    pub now: Time,
    /// Payload bytes.
    pub payload: Bytes,
    /// Whether it was marked.
    pub marked: bool,
    /// Flows active at this receiver, the packet's own included: at least 1.
    pub active_flows: u16,
}

/// What the receiver half adds to an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// The ACK's concurrency field.
    pub concurrency: u16,
    /// The ACK's grant field; used if [`Needs::grant`].
    pub grant: u32,
    /// Acknowledge at once, even if fewer than `ack_every` packets came.
    pub ack_now: bool,
}

/// The receiver half: one per host.
pub trait Receiver: fmt::Debug + Send {
    /// A DATA packet arrived.
    fn on_data(&mut self, data: &DataEvent) -> Feedback;
}
