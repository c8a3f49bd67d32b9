use super::announced::{AnnouncedSenders, parse_announcement};
use super::control::{ControlFrame, ControlQueue, RecordBuf};
use super::deadlines::Deadlines;
use super::frame_times::FrameTimes;
use super::inbound_message::{AcceptedSegment, InboundMessage, SegmentOffsets, SegmentOrder};
use super::message_table::{MessageState, MessageTable, message_key};
use super::seq::unwrap_seq;
use crate::config::{HostConfig, ResolvedTransport};
use crate::event::{HostEvent, InboundInfo};
use crate::port_algorithm::PortAlgorithm;
use crate::ring::Ring;
use crate::scheme::{AckFields, DataEvent, LossRecovery, MAX_SUBFLOWS, Receiver, TelemetrySource};
use crate::slab::Key;
use crate::stats::{DropReason, HostStats};
use crate::telemetry::{GatheredBy, Telemetry};
use crate::wire::{ETHERNET_LEN, Ecn, Flags, FrameView, PacketKind};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::{Bytes, Time};

/// The receiving half of a host's transport: all incoming messages.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(super) messages: MessageTable<InboundMessage, Tombstone>,
    /// Deadlines of delayed ACKs, in the order in which they were set.
    delayed_acks: VecDeque<AckDeadline>,
    /// The receiver half of the scheme.
    pub(super) receiver: Box<dyn Receiver>,
    /// True with selective retransmission, false with go-back-N.
    pub(super) is_selective: bool,
    /// [`HostConfig::ack_every`].
    ack_every: u32,
    /// Flags of all ACKs.
    ack_flags: Flags,
    /// True if the receiver half writes the grant field of ACKs ([`Needs::writes_grant`](crate::scheme::Needs)).
    scheme_writes_grant: bool,
    /// [`Needs::reports_endpoint_delay`](crate::scheme::Needs).
    reports_endpoint_delay: bool,
    telemetry: TelemetrySource,
    nack_interval: Time,
    ack_delay: Time,
    /// Deadline of the next credit, by message slot. Empty unless the scheme uses credits.
    pub(super) credit_deadlines: Deadlines,
    pub(super) uses_credits: bool,
    pub(super) active_window: Time,
    /// Number of ranges behind gaps in all messages together.
    reorder_range_count: usize,
    /// Upper bound of `reorder_range_count`.
    max_reorder_ranges: usize,
}

/// The deadline of a delayed ACK. It is stale if it differs from the subflow's `ack_deadline`: an ACK has been sent
/// since.
#[derive(Clone, Copy, Debug)]
struct AckDeadline {
    time: Time,
    message: Key,
    subflow: u8,
}

/// The reason why a credit is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CreditTrigger {
    /// The sender has requested credits, and no credit is scheduled.
    Request,
    /// The time has come that the scheme chose with the previous credit.
    Deadline,
}

/// The state kept of a completed message, so that late packets of it are acknowledged and not taken for a new
/// message.
#[derive(Debug)]
pub(super) struct Tombstone {
    /// Size of the message in bytes.
    pub size: u64,
    /// Next expected byte of each subflow at the end of the message; `None` with go-back-N.
    rcv_nxt: Option<Box<[u64; MAX_SUBFLOWS as usize]>>,
}

/// Returns the flags of an ACK that requests telemetry from switches on the return path, if the scheme needs that.
fn ack_flags(telemetry: TelemetrySource) -> Flags {
    match telemetry {
        TelemetrySource::Acks => Flags::TELEMETRY,
        _ => Flags::NONE,
    }
}

/// The fields of a [`DataEvent`] that depend on the state of the message.
struct PacketContext<'a> {
    /// Slot of the message; `None` if it is complete.
    slot: Option<u32>,
    /// True if this is the first packet of the message that the scheme sees.
    is_first: bool,
    completes_message: bool,
    announced: AnnouncedSenders<'a>,
}

impl Inbound {
    pub(crate) fn new(config: &HostConfig, resolved: &ResolvedTransport) -> Inbound {
        let (needs, transport) = (config.scheme.needs(), &config.transport);
        Inbound {
            messages: MessageTable::new(
                resolved.active_window,
                config.base_rtt,
                transport.max_inbound,
                transport.tombstones,
            ),
            delayed_acks: VecDeque::new(),
            receiver: config.scheme.receiver(&config.flow_params(resolved.max_payload)),
            is_selective: resolved.recovery == LossRecovery::Selective,
            ack_every: config.ack_every,
            ack_flags: ack_flags(needs.telemetry),
            scheme_writes_grant: needs.writes_grant,
            reports_endpoint_delay: needs.reports_endpoint_delay,
            telemetry: needs.telemetry,
            nack_interval: resolved.nack_interval,
            ack_delay: resolved.ack_delay,
            credit_deadlines: Deadlines::default(),
            uses_credits: matches!(
                config.scheme.port_algorithm(config.base_rtt),
                Some(PortAlgorithm::Credits(_))
            ),
            active_window: resolved.active_window,
            reorder_range_count: 0,
            max_reorder_ranges: transport.max_reorder_ranges as usize,
        }
    }

    pub(crate) fn info(&self, peer: Ipv4Addr, message_id: u32) -> Option<InboundInfo> {
        let MessageState::InProgress(slot) = self.messages.find(message_key(peer, message_id)) else {
            return None;
        };
        let (message, last_seen) = (self.messages.get_slot(slot)?, self.messages.last_seen(slot)?);
        Some(InboundInfo {
            received: Bytes::new(message.received.prefix_end()),
            last_seen,
            path_id: message.path_id,
        })
    }

    /// Applies a scheme change. Messages in progress continue; the receiver half of the new scheme sees each of them
    /// as new.
    pub(crate) fn reconfigure(&mut self, config: &HostConfig, resolved: &ResolvedTransport) {
        // The other fields stay as they are: `check_applicable` refuses a policy with another kind of loss recovery or
        // another port algorithm (`is_selective`, `uses_credits`), and the limits are not part of a policy.
        let needs = config.scheme.needs();
        self.receiver = config.scheme.receiver(&config.flow_params(resolved.max_payload));
        self.ack_flags = ack_flags(needs.telemetry);
        self.scheme_writes_grant = needs.writes_grant;
        self.reports_endpoint_delay = needs.reports_endpoint_delay;
        self.telemetry = needs.telemetry;
        (self.nack_interval, self.ack_delay) = (resolved.nack_interval, resolved.ack_delay);
        self.active_window = resolved.active_window;
        self.messages.change_scheme(resolved.active_window, config.base_rtt);
        // Messages that already use credits: the new scheme starts afresh, but continues the numbers of the credits.
        self.messages.values_mut().for_each(|message| message.has_scheme_changed = message.credit.is_some());
    }

    /// Returns the number of messages that received a packet within the active window before `now`, and marks the
    /// others as idle.
    pub(crate) fn age_and_count_active(&mut self, now: Time) -> usize {
        self.messages.age_and_count_active(now)
    }

    /// Inserts a message that is not in the table and returns its slot. May evict another message.
    pub(super) fn insert_message(
        &mut self,
        now: Time,
        message_key: u64,
        stats: &mut HostStats,
    ) -> Result<u32, DropReason> {
        let count = &mut self.reorder_range_count;
        let on_evicted = |message: InboundMessage| *count -= message.reorder_range_count();
        self.messages.insert(now, message_key, InboundMessage::default(), stats, on_evicted)
    }

    /// Returns the offsets of a packet. `rcv_nxt` is the next expected byte of its subflow and `message_rcv_nxt` that
    /// of the message: 32-bit offsets on the wire are unwrapped near them. An offset before the first byte of a subflow
    /// counts as 0, which makes the packet a duplicate.
    fn segment_offsets(
        &self,
        frame: &FrameView<'_>,
        rcv_nxt: u64,
        message_rcv_nxt: u64,
    ) -> Result<SegmentOffsets, DropReason> {
        let weir = &frame.weir;
        let seq = unwrap_seq(rcv_nxt, weir.seq()).unwrap_or(0);
        let message_offset = match self.is_selective {
            true => unwrap_seq(message_rcv_nxt, weir.message_offset()).ok_or(DropReason::BeyondEnd)?,
            false => seq,
        };
        Ok(SegmentOffsets {
            seq,
            message_offset,
            len: u64::from(frame.payload_len()),
            is_end: weir.flags().has(Flags::END),
        })
    }

    /// Handles a DATA packet. A packet that is refused after the lookup (`BeyondEnd`, `ReorderFull`) still creates
    /// its message and counts as activity of it.
    pub(crate) fn on_data(
        &mut self,
        times: FrameTimes,
        frame: &FrameView<'_>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
        events: &mut Ring<HostEvent>,
    ) -> Result<(), DropReason> {
        let now = times.now;
        if frame.payload_len() == 0 {
            return Err(DropReason::EmptyData);
        }
        let announced = parse_announcement(frame).ok_or(DropReason::LengthMismatch)?;
        let weir = &frame.weir;
        // With go-back-N a message has one subflow, and the index in the header is ignored.
        let index = if self.is_selective { usize::from(weir.subflow()) } else { 0 };
        let message_key = message_key(frame.ip.source(), weir.message());
        let slot = match self.messages.find(message_key) {
            MessageState::InProgress(slot) => slot,
            MessageState::Completed(Tombstone { size, rcv_nxt }) => {
                let (size, rcv_nxt) = (*size, rcv_nxt.as_ref().map(|rcv_nxt| rcv_nxt[index]));
                return self.on_data_of_completed_message(times, frame, size, rcv_nxt, control, stats);
            }
            MessageState::Unknown => self.insert_message(now, message_key, stats)?,
        };
        self.messages.touch(now, slot);
        let is_first = self.messages.mark_seen_by_scheme(slot);
        let slab_key = self.messages.slab_key(slot);
        let message = self.messages.get_slot(slot).expect("the slot was found or inserted above");
        let message_rcv_nxt = message.received.prefix_end();
        let rcv_nxt = if self.is_selective { message.rcv_nxt(index) } else { message_rcv_nxt };
        let offsets = self.segment_offsets(frame, rcv_nxt, message_rcv_nxt)?;
        let accepted = self.accept(slot, index, offsets)?;
        // An announcement counts only in the next expected packet, and therefore once, however often that packet is
        // retransmitted.
        let is_next_expected = offsets.seq == rcv_nxt;
        let context = PacketContext {
            slot: Some(slot),
            is_first,
            completes_message: accepted.completes_message,
            announced: if is_next_expected { announced } else { AnnouncedSenders::default() },
        };
        let ack_fields = self.run_receiver(now, frame, context, stats);
        let mut ack = self.ack_for(times, frame, &ack_fields);
        if ack_fields.send_cnp {
            control.push(now, cnp_beside(&ack), stats);
        }
        ack.seq = accepted.rcv_nxt as u32;
        let is_marked = frame.ip.ecn() == Ecn::Ce;
        stats.marked += u64::from(is_marked);
        let counter = match accepted.order {
            SegmentOrder::InOrder => &mut stats.data_received,
            SegmentOrder::OutOfOrder => &mut stats.out_of_order,
            SegmentOrder::Duplicate => &mut stats.duplicates,
        };
        *counter += 1;
        stats.payload_received += accepted.new_bytes;
        let message = self.messages.get_slot_mut(slot).expect("the slot was found or inserted above");
        message.path_id = weir.path_id();
        if accepted.order == SegmentOrder::OutOfOrder && !self.is_selective {
            if message.take_nack_turn(now, rcv_nxt, self.nack_interval) {
                message.subflow(index).on_ack_sent();
                control.push(now, ControlFrame { kind: PacketKind::Nack, ..ack }, stats);
            }
            return Ok(());
        }
        let subflow = message.subflow(index);
        subflow.unacked_packets += 1;
        // Where only some packets carry records, each of them is acknowledged at once: a delayed ACK would carry only
        // the records of the last packet.
        let records_are_sparse =
            [TelemetrySource::DataOncePerRtt, TelemetrySource::DataOnCongestion].contains(&self.telemetry);
        let returns_sparse_records = records_are_sparse && !frame.records().is_empty();
        // RFC 5681 §4.2: a packet that opens a gap, arrives while there is one, or fills one is acknowledged at once. So
        // is a duplicate, because the sender has not received the ACK of the original.
        let ack_now = !accepted.is_gap_free
            || accepted.order == SegmentOrder::Duplicate
            || accepted.completes_message
            || is_marked
            || returns_sparse_records
            || ack_fields.ack_now;
        if ack_now || subflow.unacked_packets >= self.ack_every {
            // The packets covered by the delayed ACK were not marked. They are acknowledged separately because the
            // sender counts marked bytes (RFC 8257 §3.2).
            if is_marked
                && (self.is_selective || accepted.order == SegmentOrder::InOrder)
                && let Some(delayed_ack) = subflow.delayed_ack.take()
            {
                control.push(now, delayed_ack, stats);
            }
            subflow.on_ack_sent();
            control.push(now, ack, stats);
        } else {
            subflow.delayed_ack = Some(ack);
            if subflow.ack_deadline.is_none() {
                let deadline = now.saturating_add(self.ack_delay);
                subflow.ack_deadline = Some(deadline);
                let entry = AckDeadline { time: deadline, message: slab_key, subflow: index as u8 };
                self.delayed_acks.push_back(entry);
            }
        }
        if accepted.completes_message {
            let bytes = self.complete(now, slot, control, stats);
            let (peer, message) = (frame.ip.source(), weir.message());
            events.push_back(HostEvent::MessageReceived { peer, message, bytes, at: now });
        }
        Ok(())
    }

    /// Replaces a message that has arrived by a tombstone. Returns its size.
    fn complete(&mut self, now: Time, slot: u32, control: &mut ControlQueue, stats: &mut HostStats) -> Bytes {
        let message =
            self.messages.get_slot_mut(slot).expect("the last packet of the message has just arrived");
        // Delayed ACKs of the other subflows would otherwise be lost with the message.
        message.take_delayed_acks().for_each(|ack| control.push(now, ack, stats));
        let size = message.received.prefix_end();
        self.reorder_range_count -= message.reorder_range_count();
        self.credit_deadlines.remove(slot);
        let is_selective = self.is_selective;
        self.messages.finish(slot, |message| Tombstone {
            size,
            rcv_nxt: is_selective.then(|| Box::new(message.rcv_nxt_by_subflow())),
        });
        Bytes::new(size)
    }

    /// Records the bytes of a packet and updates the number of ranges behind gaps.
    fn accept(
        &mut self,
        slot: u32,
        index: usize,
        offsets: SegmentOffsets,
    ) -> Result<AcceptedSegment, DropReason> {
        let message = self.messages.get_slot_mut(slot).expect("the slot holds the packet's message");
        if !self.is_selective {
            return Ok(message.accept_go_back_n(offsets));
        }
        let count_before = message.reorder_range_count();
        let max_new_ranges = self.max_reorder_ranges.saturating_sub(self.reorder_range_count);
        let accepted = message.accept_selective(index, offsets, max_new_ranges)?;
        self.reorder_range_count = self.reorder_range_count + message.reorder_range_count() - count_before;
        Ok(accepted)
    }

    /// Passes a packet to the receiver half of the scheme, and returns its answer.
    fn run_receiver(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        PacketContext { slot, is_first, completes_message, announced }: PacketContext<'_>,
        stats: &mut HostStats,
    ) -> AckFields {
        // At least 1, because a packet of a completed message belongs to no message in the table.
        let active_flows = u16::try_from(self.age_and_count_active(now)).unwrap_or(u16::MAX).max(1);
        let parsed;
        let telemetry = if self.receiver.wants_telemetry() {
            parsed = Telemetry::from_wire(frame.records(), frame.weir.format(), GatheredBy::Data);
            &parsed
        } else {
            const { &Telemetry::EMPTY }
        };
        let data = DataEvent {
            now,
            source: frame.ip.source(),
            payload: Bytes::new(u64::from(frame.payload_len())),
            frame: Bytes::new((ETHERNET_LEN + usize::from(frame.ip.total_length())) as u64),
            is_marked: frame.ip.ecn() == Ecn::Ce,
            slot,
            is_first,
            completes_message,
            active_flows,
            announced: announced.senders,
            incast: announced.incast,
            credit: if self.uses_credits { frame.weir.credit_number() } else { 0 },
            path_id: frame.weir.path_id(),
            telemetry,
        };
        self.receiver.on_data(&data, &mut stats.telemetry)
    }

    /// Builds the ACK that answers this packet. Its `seq` is 0; the caller sets the cumulative acknowledgement.
    ///
    /// The ACK always echoes the timestamp, and the ECN mark unless the receiver half suppresses it. It also echoes the
    /// telemetry records and, in the grant field, the path id, unless the receiver half writes the grant field. If the
    /// scheme wants the endpoint delay, the path id is overwritten when the ACK leaves.
    pub(super) fn ack_for(
        &self,
        times: FrameTimes,
        frame: &FrameView<'_>,
        ack_fields: &AckFields,
    ) -> ControlFrame {
        let weir = &frame.weir;
        let mut flags = self.ack_flags;
        if frame.ip.ecn() == Ecn::Ce && !ack_fields.suppress_ecn_echo {
            flags |= Flags::ECN_ECHO;
        }
        ControlFrame {
            kind: PacketKind::Ack,
            flags,
            peer: frame.ip.source(),
            entropy_port: frame.entropy_port(),
            message: weir.message(),
            subflow: weir.subflow(),
            seq: 0,
            timestamp: weir.timestamp(),
            arrived_at: self.reports_endpoint_delay.then_some(times.arrived_at),
            concurrency: ack_fields.concurrency,
            grant: if self.scheme_writes_grant { ack_fields.grant } else { u32::from(weir.path_id()) },
            // A receiver half that computes the grant has consumed the records; the sender does not need them.
            records: match self.scheme_writes_grant {
                true => RecordBuf::NONE,
                false => RecordBuf::copy(frame.records(), weir.format()),
            },
        }
    }

    /// Acknowledges a packet of a completed message again: the last ACK was lost or is still in flight. Every byte of
    /// the message has arrived, by whichever subflow, so the whole packet is acknowledged.
    fn on_data_of_completed_message(
        &mut self,
        times: FrameTimes,
        frame: &FrameView<'_>,
        size: u64,
        rcv_nxt: Option<u64>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) -> Result<(), DropReason> {
        let rcv_nxt = if self.is_selective { rcv_nxt.unwrap_or(0) } else { size };
        let offsets = self.segment_offsets(frame, rcv_nxt, size)?;
        if offsets.message_offset + offsets.len > size {
            return Err(DropReason::BeyondEnd);
        }
        stats.duplicates += 1;
        let context = PacketContext {
            slot: None,
            is_first: false,
            completes_message: false,
            announced: AnnouncedSenders::default(),
        };
        let ack_fields = self.run_receiver(times.now, frame, context, stats);
        // The packet may lie beyond `rcv_nxt` of its subflow if its bytes arrived on another subflow.
        let seq = rcv_nxt.max(offsets.seq + offsets.len) as u32;
        control.push(times.now, ControlFrame { seq, ..self.ack_for(times, frame, &ack_fields) }, stats);
        Ok(())
    }

    /// Returns the time at which to call [`wakeup`](Self::wakeup) next; `None` if no ACK is delayed and no credit is
    /// due.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        let delayed_ack = self.delayed_acks.front().map(|deadline| deadline.time);
        Time::earliest(delayed_ack, self.credit_deadlines.earliest())
    }

    /// Queues the delayed ACKs and the credits whose deadline has come.
    pub(crate) fn wakeup(&mut self, now: Time, control: &mut ControlQueue, stats: &mut HostStats) {
        while let Some(slot) = self.credit_deadlines.pop_due(now) {
            self.grant_credit(now, slot, CreditTrigger::Deadline, control, stats);
        }
        while let Some(&AckDeadline { time, message, subflow }) = self.delayed_acks.front()
            && time <= now
        {
            self.delayed_acks.pop_front();
            if let Some(message) = self.messages.get_mut(message)
                && let subflow = message.subflow(usize::from(subflow))
                && subflow.ack_deadline == Some(time)
                && let Some(ack) = subflow.delayed_ack.take()
            {
                subflow.on_ack_sent();
                control.push(now, ack, stats);
            }
        }
    }
}

/// Returns the CNP for the packet that `ack` acknowledges.
fn cnp_beside(ack: &ControlFrame) -> ControlFrame {
    ControlFrame {
        kind: PacketKind::Cnp,
        flags: Flags::NONE,
        records: RecordBuf::NONE,
        arrived_at: None,
        ..ack.clone()
    }
}
