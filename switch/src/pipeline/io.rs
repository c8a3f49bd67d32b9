//! The input of a run of the pipeline beside the packet, and its output.

use crate::drops::DropReason;
use crate::packet::{Packet, PacketPool};

/// A packet's intrinsic metadata at the start of ingress, as simple_switch sets it.
#[derive(Clone, Copy, Debug, Default)]
pub struct IngressMeta {
    /// The port it came in by. Not used for a packet that was resubmitted or recirculated: as in BMv2, those keep
    /// only what their field list names.
    pub port: u16,
    /// The switch's clock, in ticks of whatever unit it has; 48 bits reach the program.
    pub now: u64,
}

/// A packet's intrinsic metadata at the start of egress, as simple_switch sets it.
#[derive(Clone, Copy, Debug, Default)]
pub struct EgressMeta {
    /// The port it goes out by.
    pub port: u16,
    /// The switch's clock, in ticks.
    pub now: u64,
    /// Time at which it was enqueued, in ticks.
    pub enq_timestamp: u64,
    /// Packets in its queue when it was enqueued.
    pub enq_qdepth: u32,
    /// Ticks it spent in the queue.
    pub deq_timedelta: u64,
    /// Packets left in its queue when it was dequeued.
    pub deq_qdepth: u32,
    /// The queue it waited in, which is its priority.
    pub qid: u8,
    /// Number of the copy of a multicast packet; 0 for unicast.
    pub rid: u16,
}

/// Ingress's decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngressVerdict {
    /// It is dropped.
    Drop,
    /// It goes to one port.
    Unicast {
        /// Egress port.
        port: u16,
        /// `standard_metadata.priority`: which queue.
        priority: u8,
    },
    /// It goes to every port of a multicast group.
    Multicast {
        /// `standard_metadata.mcast_grp`, never 0.
        group: u16,
        /// `standard_metadata.priority`: which queue.
        priority: u8,
    },
    /// It runs ingress again, as it came in. The packet is prepared: give it to ingress.
    Resubmit,
    /// A loop of the program does not end, so the packet is dropped: [`DropReason::ParserLoop`] or
    /// [`DropReason::ActionLoop`].
    Abort(DropReason),
}

/// Egress's decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressVerdict {
    /// It is sent: [`Packet::bytes`] is the frame.
    Send,
    /// It is dropped.
    Drop,
    /// It runs ingress again, as it would have gone out. The packet is prepared: give it to ingress.
    Recirculate,
    /// A loop of the program does not end, so the packet is dropped: [`DropReason::ActionLoop`].
    Abort(DropReason),
}

/// A clone that waits to be sent where its clone session says.
#[derive(Debug)]
pub struct ClonedPacket {
    /// The clone session.
    pub session: u16,
    /// `standard_metadata.priority` of the clone: which queue.
    pub priority: u8,
    /// The clone, ready for egress.
    pub packet: Box<Packet>,
}

/// One message of a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Name of the learn list, as P4Info has it.
    pub list: String,
    /// The values in order, big-endian, as many bytes as their widths take.
    pub values: Vec<Vec<u8>>,
}

/// The outputs of a run of the pipeline beside its verdict.
#[derive(Debug, Default)]
pub struct SideEffects {
    /// The pool from which copies are taken.
    pub pool: PacketPool,
    /// Clones, in the order they were made. The driver of the pipeline takes them out.
    pub clones: Vec<ClonedPacket>,
    /// Digests, in the order they were made. The driver of the pipeline takes them out.
    pub digests: Vec<Digest>,
}
