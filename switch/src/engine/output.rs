//! What a switch tells the world around it.

use crate::packet::Packet;
use crate::pipeline::Digest;

/// What a switch tells its driver while it works. Drivers: virtual time, raw sockets, pcap files, STF.
pub trait SwitchOutput {
    /// The port had nothing it could send, and has now: call [`super::Switch::transmit`] when its
    /// transmitter is free.
    fn ready(&mut self, port: u16);
    /// Tell the neighbour of this port to stop a priority, or to go on.
    fn pause(&mut self, port: u16, priority: u8, on: bool);
    /// The packet is done; its box can be used again.
    fn recycle(&mut self, packet: Box<Packet>);
    /// The program has a message for its controller.
    fn digest(&mut self, digest: Digest);
}
