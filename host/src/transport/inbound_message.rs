use super::control::ControlFrame;
use super::range_set::RangeSet;
use crate::scheme::MAX_SUBFLOWS;
use crate::stats::DropReason;
use weir_units::Time;

/// A message that is arriving.
#[derive(Debug, Default)]
pub(super) struct InboundMessage {
    /// Bytes of the message that have arrived.
    pub data: RangeSet,
    /// Its size, known once its END has come.
    size: Option<u64>,
    pub path_id: u16,
    first: InboundSubflow,
    others: Vec<InboundSubflow>,
    /// The expected byte of the last NACK, and when that was sent.
    pub last_nack: Option<(u64, Time)>,
    /// The last credit for it, once it has requested credits.
    pub credit: Option<ControlFrame>,
    /// True if the scheme has changed since that credit.
    pub scheme_changed: bool,
}

/// The bytes of a message that have arrived by one subflow.
#[derive(Debug, Default)]
pub(super) struct InboundSubflow {
    /// Its bytes in its own sequence space; unused with go-back-N, whose only subflow has the message's.
    bytes: RangeSet,
    /// Packets taken and not acknowledged.
    pub unacked: u32,
    /// The ACK that waits for more packets, and until when.
    pub delayed_ack: Option<ControlFrame>,
    pub ack_deadline: Option<Time>,
}

impl InboundSubflow {
    /// Notes that an ACK is sent: none is held any more.
    pub fn ack_sent(&mut self) {
        (self.unacked, self.delayed_ack, self.ack_deadline) = (0, None, None);
    }
}

/// The place of a DATA packet: in its subflow, and in the message.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentOffsets {
    pub seq: u64,
    pub data: u64,
    pub len: u64,
    /// True if the message ends with it.
    pub is_end: bool,
}

/// The order of a DATA packet among those of its subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentOrder {
    /// It brought the bytes that were expected next.
    InOrder,
    /// It is behind a gap.
    OutOfOrder,
    /// All of its bytes had arrived.
    Duplicate,
}

/// The effect of a DATA packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    pub order: SegmentOrder,
    /// Bytes of the message that arrived for the first time.
    pub bytes: u64,
    /// Next byte expected of the subflow: what an ACK acknowledges.
    pub rcv_nxt: u64,
    /// True if nothing is missing in the subflow behind what was acknowledged before.
    pub in_order: bool,
    /// True if the packet completes the message.
    pub completes_message: bool,
}

impl InboundMessage {
    /// Returns a subflow.
    pub fn subflow(&mut self, index: usize) -> &mut InboundSubflow {
        let Some(other) = index.checked_sub(1) else { return &mut self.first };
        if self.others.len() <= other {
            self.others.resize_with(index, InboundSubflow::default);
        }
        &mut self.others[other]
    }

    fn subflows(&self) -> impl Iterator<Item = &InboundSubflow> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Takes the ACKs that are held, in the order of the subflows.
    pub fn take_held(&mut self) -> impl Iterator<Item = ControlFrame> {
        let subflows = std::iter::once(&mut self.first).chain(&mut self.others);
        subflows.filter_map(|subflow| subflow.delayed_ack.take())
    }

    /// Returns how far each subflow has delivered its own bytes.
    pub fn reached(&self) -> [u64; MAX_SUBFLOWS as usize] {
        let mut reached = [0; MAX_SUBFLOWS as usize];
        reached
            .iter_mut()
            .zip(self.subflows())
            .for_each(|(reached, subflow)| *reached = subflow.bytes.prefix_end());
        reached
    }

    /// Returns the next byte expected of a subflow.
    pub fn expected(&self, index: usize) -> u64 {
        self.subflows().nth(index).map_or(0, |subflow| subflow.bytes.prefix_end())
    }

    /// Returns the number of ranges behind gaps.
    pub fn range_count(&self) -> usize {
        self.data.gap_ranges() + self.subflows().map(|subflow| subflow.bytes.gap_ranges()).sum::<usize>()
    }

    /// Takes a packet with go-back-N: what is behind a gap is not kept.
    pub fn accept_go_back_n(&mut self, place: SegmentOffsets) -> Accepted {
        let (expected, end) = (self.data.prefix_end(), place.data + place.len);
        let order = if place.data > expected {
            SegmentOrder::OutOfOrder
        } else if end <= expected {
            SegmentOrder::Duplicate
        } else {
            SegmentOrder::InOrder
        };
        let is_next = order == SegmentOrder::InOrder;
        let bytes = if is_next { self.data.insert(expected, end) } else { 0 };
        Accepted {
            order,
            bytes,
            rcv_nxt: self.data.prefix_end(),
            in_order: is_next,
            completes_message: is_next && place.is_end,
        }
    }

    /// Takes a packet of a subflow with selective retransmission, if there is `room` for that many more ranges behind
    /// gaps.
    pub fn accept_selective(
        &mut self,
        index: usize,
        place: SegmentOffsets,
        room: usize,
    ) -> Result<Accepted, DropReason> {
        let SegmentOffsets { seq, data, len, is_end } = place;
        let (end, data_end) = (seq + len, data + len);
        if self.size.is_some_and(|size| data_end > size || is_end && data_end != size)
            || is_end && self.data.end() > data_end
        {
            return Err(DropReason::BeyondEnd);
        }
        let more = usize::from(self.subflow(index).bytes.adds_range(seq, end))
            + usize::from(self.data.adds_range(data, data_end));
        if more > 0 && more > room {
            return Err(DropReason::ReorderFull);
        }
        self.size = self.size.or(is_end.then_some(data_end));
        let bytes = self.data.insert(data, data_end);
        let is_whole = self.size == Some(self.data.prefix_end());
        let subflow = self.subflow(index);
        let expected = subflow.bytes.prefix_end();
        let in_order = seq <= expected && subflow.bytes.gap_ranges() == 0;
        let order = match subflow.bytes.insert(seq, end) {
            0 => SegmentOrder::Duplicate,
            _ if seq > expected => SegmentOrder::OutOfOrder,
            _ => SegmentOrder::InOrder,
        };
        Ok(Accepted {
            order,
            bytes,
            rcv_nxt: subflow.bytes.prefix_end(),
            in_order,
            completes_message: is_whole,
        })
    }
}
