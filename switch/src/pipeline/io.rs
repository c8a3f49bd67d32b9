//! The inputs and outputs of ingress and egress, except for the packet.

use crate::drops::DropReason;
use crate::packet::{Packet, PacketPool};

/// A packet's intrinsic metadata at the start of ingress, as simple_switch sets it.
#[derive(Clone, Copy, Debug, Default)]
pub struct IngressMeta {
    /// The ingress port. Ignored for a packet that was resubmitted or recirculated: as in BMv2, such a packet
    /// keeps only the metadata of its field list.
    pub port: u16,
    /// The switch's clock, in ticks. The program sees the low 48 bits.
    pub now: u64,
}

/// A packet's intrinsic metadata at the start of egress, as simple_switch sets it.
#[derive(Clone, Copy, Debug, Default)]
pub struct EgressMeta {
    /// The egress port.
    pub port: u16,
    /// The switch's clock, in ticks.
    pub now: u64,
    /// Time of enqueueing, in ticks.
    pub enq_timestamp: u64,
    /// Packets in the queue when the packet was enqueued.
    pub enq_qdepth: u32,
    /// Ticks that the packet spent in the queue.
    pub deq_timedelta: u64,
    /// Packets in the queue after the packet was dequeued.
    pub deq_qdepth: u32,
    /// The queue, which equals the priority.
    pub qid: u8,
    /// Replication id of a multicast copy; 0 for unicast.
    pub rid: u16,
}

/// The decision of ingress on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IngressVerdict {
    Drop,
    Unicast {
        port: u16,
        /// `standard_metadata.priority`, which selects the queue.
        priority: u8,
    },
    /// A copy goes to every port of the multicast group.
    Multicast {
        /// `standard_metadata.mcast_grp`, never 0.
        group: u16,
        /// `standard_metadata.priority`, which selects the queue.
        priority: u8,
    },
    /// The original packet runs ingress again. It is prepared for that: pass it to ingress.
    Resubmit,
    /// The packet is dropped because the program was stopped: [`DropReason::ParserLoop`], [`DropReason::ActionLoop`]
    /// or [`DropReason::AssertionFailed`].
    Abort(DropReason),
}

/// The decision of egress on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EgressVerdict {
    /// The packet is sent: [`Packet::bytes`] is the frame.
    Send,
    Drop,
    /// The deparsed packet runs ingress again. It is prepared for that: pass it to ingress.
    Recirculate,
    /// The packet is dropped because the program was stopped: [`DropReason::ActionLoop`] or
    /// [`DropReason::AssertionFailed`].
    Abort(DropReason),
}

/// A clone. Its clone session determines its destinations.
#[derive(Debug)]
pub struct ClonedPacket {
    pub session: u16,
    /// `standard_metadata.priority` of the clone, which selects the queue.
    pub priority: u8,
    /// The packet, ready for egress.
    pub packet: Box<Packet>,
}

/// One digest message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// Name of the learn list, as in the P4Info.
    pub list: String,
    /// Id of the learn list in the program's JSON.
    pub list_id: i64,
    /// The values in order: big-endian, each of ceil(width / 8) bytes.
    pub values: Vec<Vec<u8>>,
}

/// The outputs of ingress or egress, except for the verdict.
#[derive(Debug, Default)]
pub struct SideEffects {
    /// The pool from which clones are taken.
    pub pool: PacketPool,
    /// Clones in the order of their creation. The caller drains the list.
    pub clones: Vec<ClonedPacket>,
    /// Digests in the order of their creation. The caller drains the list.
    pub digests: Vec<Digest>,
}
