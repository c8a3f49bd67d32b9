//! The driver's side of a switch: calls that it makes while it works.

use crate::packet::Packet;
use crate::pipeline::Digest;

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
