//! The driver's side of a switch: calls that it makes while it works.

use crate::packet::Packet;
use crate::pipeline::Digest;
use std::collections::BTreeSet;

/// Receives the consequences of a call to a switch. Implemented by drivers: virtual time, raw sockets, pcap
/// files, STF.
pub trait SwitchOutput {
    /// Called when a port had nothing that it could send, and has now: call [`super::Switch::transmit`] when
    /// its transmitter is free.
    fn ready(&mut self, port: u16);
    /// Called when the neighbour of this port is to stop a priority (`on`), or to resume it.
    fn pause(&mut self, port: u16, priority: u8, on: bool);
    /// Called with a packet that is done; its box can be used again.
    fn recycle(&mut self, packet: Box<Packet>);
    /// Called with a message of the program for its controller.
    fn digest(&mut self, digest: Digest);
}

/// Ports with something to send, for drivers that need nothing else of what a call makes.
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
