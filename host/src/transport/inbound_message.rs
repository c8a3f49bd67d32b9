use super::control::ControlFrame;
use super::range_set::RangeSet;
use crate::scheme::MAX_SUBFLOWS;
use crate::stats::DropReason;
use weir_units::Time;

/// A message that is being received.
#[derive(Debug, Default)]
pub(super) struct InboundMessage {
    /// Bytes of the message that have arrived.
    pub data: RangeSet,
    /// Size of the message in bytes; `None` until a packet with END has arrived.
    size: Option<u64>,
    pub path_id: u16,
    first: InboundSubflow,
    others: Vec<InboundSubflow>,
    /// The byte that the last NACK asked for, and the time when that NACK was sent.
    pub last_nack: Option<(u64, Time)>,
    /// The last credit sent for the message; `None` until the sender has requested credits.
    pub credit: Option<ControlFrame>,
    /// True if the scheme has changed since the last credit was sent.
    pub scheme_changed: bool,
}

/// Receive state of one subflow.
#[derive(Debug, Default)]
pub(super) struct InboundSubflow {
    /// Bytes received in the subflow's own sequence space. Unused with go-back-N, where the only subflow shares the
    /// sequence space of the message.
    bytes: RangeSet,
    /// Packets accepted since the last ACK.
    pub unacked: u32,
    /// The ACK that is delayed until `ack_every` packets have arrived or `ack_deadline` has passed.
    pub delayed_ack: Option<ControlFrame>,
    pub ack_deadline: Option<Time>,
}

impl InboundSubflow {
    /// Resets the delayed-ACK state after an ACK of this subflow has been sent.
    pub fn on_ack_sent(&mut self) {
        (self.unacked, self.delayed_ack, self.ack_deadline) = (0, None, None);
    }
}

/// The offsets of a DATA packet in its subflow (`seq`) and in the message (`data`), and its payload length, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentOffsets {
    pub seq: u64,
    pub data: u64,
    pub len: u64,
    /// True if the packet has END, so that the message ends at `data + len`.
    pub is_end: bool,
}

/// The position of a DATA packet relative to the bytes received on its subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentOrder {
    /// The packet contains the next expected byte.
    InOrder,
    /// The packet lies behind a gap.
    OutOfOrder,
    /// All bytes of the packet had arrived before.
    Duplicate,
}

/// The result of accepting a DATA packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accepted {
    pub order: SegmentOrder,
    /// Bytes of the message that arrived for the first time.
    pub bytes: u64,
    /// Next byte expected on the subflow: the cumulative acknowledgement.
    pub rcv_nxt: u64,
    /// True if the packet is not behind a gap and the subflow had no gap before it. Otherwise an ACK is due at once.
    pub in_order: bool,
    pub completes_message: bool,
}

impl InboundMessage {
    /// Returns the state of subflow `index`, created on first use.
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

    /// Removes and returns the delayed ACKs of all subflows, in the order of the subflows.
    pub fn take_delayed_acks(&mut self) -> impl Iterator<Item = ControlFrame> {
        let subflows = std::iter::once(&mut self.first).chain(&mut self.others);
        subflows.filter_map(|subflow| subflow.delayed_ack.take())
    }

    /// Returns the next expected byte of each subflow, by index; 0 for a subflow that was never used.
    pub fn rcv_nxt_by_subflow(&self) -> [u64; MAX_SUBFLOWS as usize] {
        let mut rcv_nxt = [0; MAX_SUBFLOWS as usize];
        for (rcv_nxt, subflow) in rcv_nxt.iter_mut().zip(self.subflows()) {
            *rcv_nxt = subflow.bytes.prefix_end();
        }
        rcv_nxt
    }

    /// Returns the next expected byte of subflow `index`; 0 if it was never used.
    pub fn rcv_nxt(&self, index: usize) -> u64 {
        self.subflows().nth(index).map_or(0, |subflow| subflow.bytes.prefix_end())
    }

    /// Returns the number of ranges behind gaps, in the message and in all its subflows. Each one costs memory and
    /// counts against `max_reorder_ranges`.
    pub fn range_count(&self) -> usize {
        self.data.gap_ranges() + self.subflows().map(|subflow| subflow.bytes.gap_ranges()).sum::<usize>()
    }

    /// Accepts a packet under go-back-N: only the part that extends the contiguous prefix is recorded. A packet
    /// behind a gap is reported as [`SegmentOrder::OutOfOrder`] and must be sent again.
    pub fn accept_go_back_n(&mut self, offsets: SegmentOffsets) -> Accepted {
        let (rcv_nxt, end) = (self.data.prefix_end(), offsets.data + offsets.len);
        let order = if offsets.data > rcv_nxt {
            SegmentOrder::OutOfOrder
        } else if end <= rcv_nxt {
            SegmentOrder::Duplicate
        } else {
            SegmentOrder::InOrder
        };
        let is_next = order == SegmentOrder::InOrder;
        let bytes = if is_next { self.data.insert(rcv_nxt, end) } else { 0 };
        Accepted {
            order,
            bytes,
            rcv_nxt: self.data.prefix_end(),
            in_order: is_next,
            completes_message: is_next && offsets.is_end,
        }
    }

    /// Accepts a packet of subflow `index` under selective retransmission. `max_new_ranges` is the number of further
    /// ranges behind gaps that may be recorded; a packet that needs more is refused with [`DropReason::ReorderFull`].
    pub fn accept_selective(
        &mut self,
        index: usize,
        offsets: SegmentOffsets,
        max_new_ranges: usize,
    ) -> Result<Accepted, DropReason> {
        let SegmentOffsets { seq, data, len, is_end } = offsets;
        let (end, data_end) = (seq + len, data + len);
        if self.size.is_some_and(|size| data_end > size || is_end && data_end != size)
            || is_end && self.data.end() > data_end
        {
            return Err(DropReason::BeyondEnd);
        }
        let new_ranges = usize::from(self.subflow(index).bytes.adds_range(seq, end))
            + usize::from(self.data.adds_range(data, data_end));
        if new_ranges > max_new_ranges {
            return Err(DropReason::ReorderFull);
        }
        self.size = self.size.or(is_end.then_some(data_end));
        let bytes = self.data.insert(data, data_end);
        let completes_message = self.size == Some(self.data.prefix_end());
        let subflow = self.subflow(index);
        let rcv_nxt = subflow.bytes.prefix_end();
        let in_order = seq <= rcv_nxt && subflow.bytes.gap_ranges() == 0;
        let order = match subflow.bytes.insert(seq, end) {
            0 => SegmentOrder::Duplicate,
            _ if seq > rcv_nxt => SegmentOrder::OutOfOrder,
            _ => SegmentOrder::InOrder,
        };
        Ok(Accepted { order, bytes, rcv_nxt: subflow.bytes.prefix_end(), in_order, completes_message })
    }
}
