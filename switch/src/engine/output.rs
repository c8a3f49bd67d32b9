//! The interface from a switch to its driver: methods that the switch calls while it processes a packet.

use crate::packet::Packet;
use crate::pipeline::Digest;
use crate::tm::PauseQuanta;
use std::collections::BTreeSet;

/// Receives the side effects of a call to a switch. Every driver implements it: virtual time, raw sockets,
/// pcap files, STF.
pub trait SwitchOutput {
    /// The port has a packet to send, and had none before: call [`super::Switch::transmit`] when its
    /// transmitter is free.
    fn ready(&mut self, port: u16);
    /// The neighbour of this port must pause a priority for this time, or resume it: send it a PFC frame. After a pause
    /// query [`super::Switch::next_pause_deadline`].
    fn pause(&mut self, port: u16, priority: u8, quanta: PauseQuanta);
    /// A packet was dropped; its box can be used again.
    fn recycle(&mut self, packet: Box<Packet>);
    /// The program sent a digest message to its controller.
    fn digest(&mut self, digest: Digest);
    /// A packet waits to enter the pipeline again: call [`super::Switch::run_reentries`] soon. Called only if
    /// [`super::Switch::set_reentry_batch`] was called.
    fn reentry_deferred(&mut self) {}
    /// A loop of the program was stopped after milliseconds
    /// ([`DropReason::ParserLoop`](crate::drops::DropReason::ParserLoop),
    /// [`ActionLoop`](crate::drops::DropReason::ActionLoop)). A driver of several switches should run the others
    /// next.
    fn loop_stopped(&mut self) {}
    /// The program misbehaved for the first time in this way: log the message.
    fn warn(&mut self, _message: String) {}
}

/// Collects ready ports, for drivers that ignore all other output.
#[derive(Clone, Debug, Default)]
pub struct ReadyPorts(pub BTreeSet<u16>);

impl SwitchOutput for ReadyPorts {
    fn ready(&mut self, port: u16) {
        self.0.insert(port);
    }
    fn pause(&mut self, _: u16, _: u8, _: PauseQuanta) {}
    fn recycle(&mut self, _: Box<Packet>) {}
    fn digest(&mut self, _: Digest) {}
}
