//! The receiver half of a host.

use crate::telemetry::{Telemetry, TelemetryCounters};
use std::fmt;
use std::net::Ipv4Addr;
use weir_units::{Bytes, Time};

/// A DATA packet as the receiver half sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataEvent<'a> {
    /// The time it arrived.
    pub now: Time,
    /// The sender's address.
    pub source: Ipv4Addr,
    /// Payload bytes.
    pub payload: Bytes,
    /// Bytes of its frame.
    pub frame: Bytes,
    /// True if it was marked.
    pub marked: bool,
    /// A small number that is this flow's as long as the host knows it, so that state per flow may
    /// lie in an array; `Open` if the flow has ended before.
    pub slot: Option<u32>,
    /// True if this is the flow's first packet here: earlier content of the slot belongs to another flow.
    pub first: bool,
    /// True if the packet completes its message.
    pub last: bool,
    /// Flows active at this receiver, the packet's own included: at least 1.
    pub active_flows: u16,
    /// The low 16 bits of the addresses of those that it announces (Dart's look-ahead); in order and
    /// for the first time.
    pub announced: &'a [[u8; 2]],
    /// The number of the incast that this list is of; 0: it has none.
    pub incast: u32,
    /// The number of the credit that it was sent for, where there are credits.
    pub credit: u32,
    /// XOR of the switch ids on its path.
    pub path_id: u16,
    /// Telemetry of the packet's path, first hop after the sender first; none if the receiver
    /// [does not read it](Receiver::reads_records).
    pub telemetry: &'a Telemetry<'a>,
}

/// The fields that the receiver half adds to an ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckFields {
    /// The ACK's concurrency field.
    pub concurrency: u16,
    /// The ACK's grant field; used if [`Needs::grant`](super::Needs::grant).
    pub grant: u32,
    /// Acknowledge at once, even if fewer than `ack_every` packets came.
    pub ack_now: bool,
    /// Send a congestion notification packet, ahead of the ACK.
    pub cnp: bool,
    /// Do not tell the sender of the mark.
    pub suppress_ecn_echo: bool,
}

/// A credit that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Its number; `Open` if it is lost at the host already.
    pub number: Option<u32>,
    /// Time at which the flow's next credit is due.
    pub next: Time,
}

/// The receiver half: one per host.
pub trait Receiver: fmt::Debug + Send {
    /// A DATA packet arrived. Telemetry that cannot be is left out and counted in `checks`.
    fn on_data(&mut self, data: &DataEvent<'_>, checks: &mut TelemetryCounters) -> AckFields;
    /// Returns whether [`DataEvent::telemetry`] has the records of the packet: false if the receiver does not read them,
    /// which saves parsing them.
    fn wants_telemetry(&self) -> bool {
        true
    }
    /// The flow in this slot has had credits up to this number from the scheme before: numbers go on.
    fn resume_credits(&mut self, _slot: u32, _last: u32) {}
    /// The flow in this slot is due for a credit; it `begins` with its request. `Open`: there are no credits.
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
