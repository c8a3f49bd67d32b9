//! The driver's side of a switch: methods that the switch calls while it processes a packet.

use crate::packet::Packet;
use crate::pipeline::Digest;
use std::collections::BTreeSet;

/// Receives the side effects of a call to a switch. Every driver implements it: virtual time, raw sockets,
/// pcap files, STF.
pub trait SwitchOutput {
    /// The port has a packet to send, and had none before: call [`super::Switch::transmit`] when its
    /// transmitter is free.
    fn ready(&mut self, port: u16);
    /// The neighbour of this port must pause (`on`) or resume a priority: send it a PFC frame.
    fn pause(&mut self, port: u16, priority: u8, on: bool);
    /// A packet was dropped; its box can be used again.
    fn recycle(&mut self, packet: Box<Packet>);
    /// The program sent a digest message to its controller.
    fn digest(&mut self, digest: Digest);
    /// A packet waits for its next pass: call [`super::Switch::run_waiting`] soon. Only called after
    /// [`super::Switch::set_reentry_portion`].
    fn waiting(&mut self) {}
    /// A loop of the program was stopped ([`DropReason::ParserLoop`](crate::drops::DropReason::ParserLoop),
    /// [`ActionLoop`](crate::drops::DropReason::ActionLoop)), so that this call took milliseconds: a driver of several
    /// switches lets the others run.
    fn overran(&mut self) {}
}

/// Collects ready ports, for drivers that ignore all other output.
#[derive(Clone, Debug, Default)]
pub struct ReadyPorts(pub BTreeSet<u16>);

impl SwitchOutput for ReadyPorts {
    fn ready(&mut self, port: u16) {
        self.0.insert(port);
    }
    fn pause(&mut self, _: u16, _: u8, _: bool) {}
    fn recycle(&mut self, _: Box<Packet>) {}
    fn digest(&mut self, _: Digest) {}
}
