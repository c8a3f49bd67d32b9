//! One packet's path through a switch: the steps that a watcher is told, and a trace that keeps and prints them.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod packet_trace;
mod print;

pub use packet_trace::{Event, NamedValue, PacketTrace};

use crate::drops::DropReason;
use crate::packet::Packet;
use crate::pipeline::{EgressMeta, EgressVerdict, IngressVerdict, NoTrace, Tracer};
use weir_units::Time;

/// A step of a packet outside the pipeline.
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
    Ingress(IngressVerdict),
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
        /// Distinguishes copies of one packet (`egress_rid`).
        instance: u16,
        /// Packets that wait there already.
        depth: u32,
    },
    /// A packet comes out of its queue and begins egress.
    Dequeued {
        /// The intrinsic metadata that egress reads.
        meta: EgressMeta,
        /// Time that the packet waited.
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

/// Receives every step of a packet, in the pipeline and around it.
pub trait SwitchTracer: Tracer {
    /// Called for each step outside the pipeline. Does nothing by default.
    #[allow(unused_variables)]
    fn step(&mut self, step: Step<'_>) {}
}

impl SwitchTracer for NoTrace {}
