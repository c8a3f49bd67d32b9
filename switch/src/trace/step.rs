//! The steps of a packet outside the pipeline, and the tracer that receives them.

use crate::drops::DropReason;
use crate::packet::Packet;
use crate::pipeline::{EgressMeta, EgressVerdict, IngressVerdict, NoTrace, Tracer};
use weir_units::Time;

/// A step of a packet outside the pipeline.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A frame arrived at the switch.
    Arrived { port: u16, packet: &'a Packet },
    /// A packet starts ingress again, after resubmission or recirculation.
    Reentered {
        /// The frame as the parser will read it.
        packet: &'a Packet,
    },
    /// The verdict of ingress.
    Ingress(IngressVerdict),
    /// A clone was created.
    Cloned { session: u16 },
    /// A packet or a copy of it is passed to a queue, which may refuse it.
    Queued {
        /// The egress port.
        port: u16,
        /// The priority of the queue.
        priority: u8,
        /// `standard_metadata.egress_rid`, which distinguishes copies of one packet.
        instance: u16,
        /// Packets in the queue before this one.
        depth: u32,
    },
    /// A packet was dequeued and starts egress.
    Dequeued {
        /// The intrinsic metadata for egress.
        meta: EgressMeta,
        /// Time that the packet spent in the queue.
        waited: Time,
    },
    /// The verdict of egress.
    Egress(EgressVerdict),
    /// A frame left the switch.
    Sent { port: u16, packet: &'a Packet },
    /// A packet was dropped.
    Dropped(DropReason),
}

/// Receives every step of a packet, inside and outside the pipeline.
pub trait SwitchTracer: Tracer {
    /// Called for each step outside the pipeline. Does nothing by default.
    #[allow(unused_variables)]
    fn step(&mut self, step: Step<'_>) {}
}

impl SwitchTracer for NoTrace {}
