//! The events that the event loop reports, and the trait of those to whom it reports them.

use crate::link::{PfcFrame, Transmitter};
use crate::messages::HostReportKind;
use crate::nodes::FrameSource;
use weir_controller::topology::{HostIx, Node, SwitchIx};
use weir_host::Host;
use weir_switch::link::LinkDrop;
use weir_switch::packet::Packet;
use weir_units::Time;

/// A frame reaches the node at the end of a wire; the impairments of the wire have not dropped it.
pub struct Arrival<'p> {
    pub time: Time,
    /// Index of the wire in the process.
    pub wire: u32,
    pub to: Node,
    pub packet: &'p Packet,
}

/// A node starts to serialise a frame.
pub struct Departure<'p> {
    pub time: Time,
    pub from: Node,
    pub transmitter: &'p Transmitter,
    pub packet: &'p Packet,
    pub source: FrameSource,
}

/// A switch sends a PFC frame.
pub struct PfcEvent {
    pub time: Time,
    pub switch: SwitchIx,
    pub port: u16,
    pub frame: PfcFrame,
}

/// A PFC frame pauses or resumes a class of a transmitter, or a fault of its link resumes it.
pub struct PauseEvent {
    pub time: Time,
    /// Number of the transmitter's link direction.
    pub direction: u32,
    pub class: u8,
    /// When the pause expires unless it is extended before; `None` for a resume.
    pub until: Option<Time>,
}

/// Records the events of one process. Methods are called in the order of events; an observer implements those that it
/// needs. The event loop is generic over it, so an event that nobody observes costs nothing.
pub trait Observer {
    #[inline(always)]
    fn on_arrival(&mut self, _: &Arrival<'_>) {}
    #[inline(always)]
    fn on_departure(&mut self, _: &Departure<'_>) {}
    /// A frame was dropped on a wire.
    #[inline(always)]
    fn on_loss(&mut self, _: LinkDrop) {}
    #[inline(always)]
    fn on_pfc(&mut self, _: &PfcEvent) {}
    #[inline(always)]
    fn on_pause(&mut self, _: &PauseEvent) {}
    #[inline(always)]
    fn on_host_event(&mut self, _: HostIx, _: &HostReportKind) {}
    /// A host has been called, and its events have been reported.
    #[inline(always)]
    fn on_host_call(&mut self, _: Time, _: HostIx, _: &Host) {}
}
