//! The receiver half of a scheme: the events that it receives, and its answers.

use crate::telemetry::{Telemetry, TelemetryCounters};
use std::fmt;
use std::net::Ipv4Addr;
use weir_units::{Bytes, Time};

/// An accepted DATA packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataEvent<'a> {
    /// Time of arrival.
    pub now: Time,
    /// The sender's address.
    pub source: Ipv4Addr,
    /// Payload bytes.
    pub payload: Bytes,
    /// Frame length in bytes, with the Ethernet header and without FCS.
    pub frame: Bytes,
    /// True if the packet has an ECN mark (CE).
    pub is_marked: bool,
    /// Index of the flow at this host, stable while the host holds state for the flow, so that per-flow state may lie
    /// in an array. `None` if the message is complete.
    pub slot: Option<u32>,
    /// True if this is the first packet of the flow that this receiver half sees. State stored under `slot` before
    /// belongs to another flow.
    pub is_first: bool,
    /// True if the packet completes its message.
    pub completes_message: bool,
    /// Number of active flows at this host, including this one: at least 1.
    pub active_flows: u16,
    /// The low 16 bits of the addresses of the senders that the packet announces (Dart's look-ahead). Empty if the
    /// packet is not the next one in order, so that each announcement is seen once.
    pub announced: &'a [[u8; 2]],
    /// The number of the incast that the announcement describes; 0 if it has none.
    pub incast: u32,
    /// The number of the credit for which the packet was sent; 0 if the scheme uses no credits.
    pub credit: u32,
    /// XOR of the switch ids on the path of the packet.
    pub path_id: u16,
    /// Telemetry of the packet's path, first hop after the sender first; empty if the receiver [does not want
    /// it](Receiver::wants_telemetry).
    pub telemetry: &'a Telemetry<'a>,
}

/// What the receiver half adds to the answer to a DATA packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckFields {
    /// The concurrency field of the ACK.
    pub concurrency: u16,
    /// The grant field of the ACK; ignored unless [`Needs::writes_grant`](super::Needs::writes_grant) is set.
    pub grant: u32,
    /// Send the ACK at once, even if fewer than `ack_every` packets have arrived.
    pub ack_now: bool,
    /// Send a congestion notification packet, ahead of the ACK.
    pub send_cnp: bool,
    /// Do not echo the ECN mark to the sender.
    pub suppress_ecn_echo: bool,
}

/// A credit that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The credit's number; `None` if the host drops the credit itself.
    pub number: Option<u32>,
    /// Time at which the flow's next credit is due.
    pub next_at: Time,
}

/// The receiver half of a scheme: one per host, for all flows to it.
pub trait Receiver: fmt::Debug + Send {
    /// Called for every accepted DATA packet. `checks` are the counters of implausible telemetry, which is ignored.
    fn on_data(&mut self, data: &DataEvent<'_>, checks: &mut TelemetryCounters) -> AckFields;
    /// Returns whether [`DataEvent::telemetry`] must be filled; if false, records are not parsed.
    fn wants_telemetry(&self) -> bool {
        true
    }
    /// Called after a scheme change, before the next [`credit`](Self::credit): the previous scheme's last credit for
    /// the flow in `slot` had the number `last_number`, so numbering continues above it.
    fn resume_credits(&mut self, _slot: u32, _last_number: u32) {}
    /// Called when the flow in `slot` is due for a credit. `is_first` is true for the first credit after a request
    /// (PROBE) or a scheme change; the flow's credit state then starts afresh. `None` if the scheme uses no credits.
    fn credit(&mut self, _now: Time, _slot: u32, _is_first: bool) -> Option<Credit> {
        None
    }
}

/// The receiver half of schemes that add nothing to what the transport echoes.
#[derive(Debug)]
pub struct DefaultReceiver;

impl Receiver for DefaultReceiver {
    fn on_data(&mut self, _data: &DataEvent<'_>, _checks: &mut TelemetryCounters) -> AckFields {
        AckFields::default()
    }
    fn wants_telemetry(&self) -> bool {
        false
    }
}
