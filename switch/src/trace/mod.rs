//! One packet's way through a switch: what a watcher is told of it, and a trace that keeps and prints it.

mod packet_trace;
mod print;

pub use packet_trace::{Event, PacketTrace, Value};

use crate::drops::DropReason;
use crate::packet::Packet;
use crate::pipeline::{EgressMeta, EgressVerdict, NoTrace, Tracer, Verdict};
use weir_units::Time;

/// What the switch does with a packet outside its pipeline.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A frame arrived.
    Arrived {
        /// The port it came in by.
        port: u16,
        /// The frame.
        packet: &'a Packet,
    },
    /// A packet begins ingress again: it was resubmitted or recirculated.
    Again {
        /// The frame as the parser will see it.
        packet: &'a Packet,
    },
    /// Ingress decided.
    Ingress(Verdict),
    /// A clone was made.
    Cloned {
        /// Its clone session.
        session: u16,
    },
    /// A packet, or a copy of it, comes to a queue.
    Queued {
        /// The egress port.
        port: u16,
        /// The queue.
        priority: u8,
        /// Which copy it is.
        instance: u16,
        /// How many packets wait there already.
        depth: u32,
    },
    /// A packet comes out of its queue and begins egress.
    Dequeued {
        /// What egress is told.
        meta: EgressMeta,
        /// How long it waited.
        waited: Time,
    },
    /// Egress decided.
    Egress(EgressVerdict),
    /// A frame left.
    Sent {
        /// The port it went out by.
        port: u16,
        /// The frame.
        packet: &'a Packet,
    },
    /// A packet ends here.
    Dropped(DropReason),
}

/// Told what happens to a packet in the pipeline and around it.
pub trait SwitchTracer: Tracer {
    /// The switch did something with the packet.
    #[allow(unused_variables)]
    fn step(&mut self, step: Step<'_>) {}
}

impl SwitchTracer for NoTrace {}
