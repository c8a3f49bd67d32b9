use super::control::ControlFrame;
use super::range_set::RangeSet;
use crate::scheme::MAX_SUBFLOWS;
use crate::stats::DropReason;
use weir_units::Time;

/// A message that is being received.
#[derive(Debug, Default)]
pub(super) struct InboundMessage {
    /// Bytes of the message that have arrived.
    pub received: RangeSet,
    /// Size of the message in bytes; `None` until a packet with END has arrived.
    size: Option<u64>,
    /// Path id of the last packet.
    pub path_id: u16,
    /// Stored inline, so that a message with one subflow needs no allocation.
    first_subflow: InboundSubflow,
    other_subflows: Vec<InboundSubflow>,
    last_nack: Option<SentNack>,
    /// The last credit sent for the message; `None` until the sender has requested credits.
    pub credit: Option<ControlFrame>,
    /// True if the scheme has changed since the last credit was sent.
    pub has_scheme_changed: bool,
}

/// A NACK that was sent.
#[derive(Clone, Copy, Debug)]
struct SentNack {
    /// The byte that the NACK asked for.
    rcv_nxt: u64,
    sent_at: Time,
}

/// Receive state of one subflow.
#[derive(Debug, Default)]
pub(super) struct InboundSubflow {
    /// Bytes received in the subflow's own sequence space. Unused with go-back-N, where the only subflow shares the
    /// sequence space of the message.
    bytes: RangeSet,
    /// Packets accepted since the last ACK.
    pub unacked_packets: u32,
    /// The ACK that is delayed until `ack_every` packets have arrived or `ack_deadline` has passed.
    pub delayed_ack: Option<ControlFrame>,
    pub ack_deadline: Option<Time>,
}

impl InboundSubflow {
    /// Resets the delayed-ACK state after an ACK of this subflow has been sent.
    pub(super) fn on_ack_sent(&mut self) {
        (self.unacked_packets, self.delayed_ack, self.ack_deadline) = (0, None, None);
    }
}

/// The offsets of a DATA packet in its subflow (`seq`) and in the message, and its payload length, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentOffsets {
    pub seq: u64,
    pub message_offset: u64,
    pub len: u64,
    /// True if the packet has END, so that the message ends at `message_offset + len`.
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
pub(super) struct AcceptedSegment {
    pub order: SegmentOrder,
    /// Number of bytes of the message that arrived for the first time.
    pub new_bytes: u64,
    /// Next byte expected on the subflow: the cumulative acknowledgement.
    pub rcv_nxt: u64,
    /// True if the subflow had no gap before the packet and has none after it. Otherwise an ACK is due at once.
    pub is_gap_free: bool,
    pub completes_message: bool,
}

impl InboundMessage {
    /// Returns whether a NACK that asks for byte `rcv_nxt` is due, and remembers it as sent: none for the same byte has
    /// been sent for `interval`.
    pub(super) fn take_nack_turn(&mut self, now: Time, rcv_nxt: u64, interval: Time) -> bool {
        let is_nacked = self
            .last_nack
            .is_some_and(|nack| nack.rcv_nxt == rcv_nxt && now.saturating_sub(nack.sent_at) < interval);
        if !is_nacked {
            self.last_nack = Some(SentNack { rcv_nxt, sent_at: now });
        }
        !is_nacked
    }

    /// Returns the state of subflow `index`, created on first use.
    pub(super) fn subflow(&mut self, index: usize) -> &mut InboundSubflow {
        let Some(other) = index.checked_sub(1) else { return &mut self.first_subflow };
        if self.other_subflows.len() <= other {
            self.other_subflows.resize_with(index, InboundSubflow::default);
        }
        &mut self.other_subflows[other]
    }

    fn subflows(&self) -> impl Iterator<Item = &InboundSubflow> {
        std::iter::once(&self.first_subflow).chain(&self.other_subflows)
    }

    /// Removes and returns the delayed ACKs of all subflows, in the order of the subflows.
    pub(super) fn take_delayed_acks(&mut self) -> impl Iterator<Item = ControlFrame> {
        let subflows = std::iter::once(&mut self.first_subflow).chain(&mut self.other_subflows);
        subflows.filter_map(|subflow| subflow.delayed_ack.take())
    }

    /// Returns the next expected byte of each subflow, by index; 0 for a subflow that was never used.
    pub(super) fn rcv_nxt_by_subflow(&self) -> [u64; MAX_SUBFLOWS as usize] {
        let mut rcv_nxt = [0; MAX_SUBFLOWS as usize];
        for (rcv_nxt, subflow) in rcv_nxt.iter_mut().zip(self.subflows()) {
            *rcv_nxt = subflow.bytes.prefix_end();
        }
        rcv_nxt
    }

    /// Returns the next expected byte of subflow `index`; 0 if it was never used.
    pub(super) fn rcv_nxt(&self, index: usize) -> u64 {
        self.subflows().nth(index).map_or(0, |subflow| subflow.bytes.prefix_end())
    }

    /// Returns the number of ranges behind gaps, in the message and in all its subflows. Each one costs memory and
    /// counts against `max_reorder_ranges`.
    pub(super) fn reorder_range_count(&self) -> usize {
        self.received.reorder_range_count()
            + self.subflows().map(|subflow| subflow.bytes.reorder_range_count()).sum::<usize>()
    }

    /// Accepts a packet under go-back-N: only the part that extends the contiguous prefix is recorded. A packet
    /// behind a gap is reported as [`SegmentOrder::OutOfOrder`] and must be sent again.
    pub(super) fn accept_go_back_n(&mut self, offsets: SegmentOffsets) -> AcceptedSegment {
        let (rcv_nxt, end) = (self.received.prefix_end(), offsets.message_offset + offsets.len);
        let order = if offsets.message_offset > rcv_nxt {
            SegmentOrder::OutOfOrder
        } else if end <= rcv_nxt {
            SegmentOrder::Duplicate
        } else {
            SegmentOrder::InOrder
        };
        let is_in_order = order == SegmentOrder::InOrder;
        let new_bytes = if is_in_order { self.received.insert(rcv_nxt, end) } else { 0 };
        AcceptedSegment {
            order,
            new_bytes,
            rcv_nxt: self.received.prefix_end(),
            is_gap_free: order != SegmentOrder::OutOfOrder,
            completes_message: is_in_order && offsets.is_end,
        }
    }

    /// Accepts a packet of subflow `index` under selective retransmission. `max_new_ranges` is the number of further
    /// ranges behind gaps that may be recorded; a packet that needs more is refused with [`DropReason::ReorderFull`].
    pub(super) fn accept_selective(
        &mut self,
        index: usize,
        offsets: SegmentOffsets,
        max_new_ranges: usize,
    ) -> Result<AcceptedSegment, DropReason> {
        let SegmentOffsets { seq, message_offset, len, is_end } = offsets;
        let (seq_end, message_end) = (seq + len, message_offset + len);
        if self.size.is_some_and(|size| message_end > size || is_end && message_end != size)
            || is_end && self.received.end() > message_end
        {
            return Err(DropReason::BeyondEnd);
        }
        let new_ranges = usize::from(self.subflow(index).bytes.adds_range(seq, seq_end))
            + usize::from(self.received.adds_range(message_offset, message_end));
        if new_ranges > max_new_ranges {
            return Err(DropReason::ReorderFull);
        }
        self.size = self.size.or(is_end.then_some(message_end));
        let new_bytes = self.received.insert(message_offset, message_end);
        let completes_message = self.size == Some(self.received.prefix_end());
        let subflow = self.subflow(index);
        let rcv_nxt = subflow.bytes.prefix_end();
        let is_gap_free = seq <= rcv_nxt && subflow.bytes.reorder_range_count() == 0;
        let order = match subflow.bytes.insert(seq, seq_end) {
            0 => SegmentOrder::Duplicate,
            _ if seq > rcv_nxt => SegmentOrder::OutOfOrder,
            _ => SegmentOrder::InOrder,
        };
        Ok(AcceptedSegment {
            order,
            new_bytes,
            rcv_nxt: subflow.bytes.prefix_end(),
            is_gap_free,
            completes_message,
        })
    }
}
