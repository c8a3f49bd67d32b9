use super::control::{ControlFrame, ControlQueue, RecordBuf};
use super::deadlines::Deadlines;
use super::inbound_message::{Accepted, InboundMessage, SegmentOffsets, SegmentOrder};
use super::message_table::{MessageState, MessageTable, message_key};
use super::unwrap_seq;
use crate::config::{HostConfig, ResolvedTransport};
use crate::event::{HostEvent, InboundInfo};
use crate::port_algorithm::PortAlgorithm;
use crate::ring::Ring;
use crate::scheme::{AckFields, DataEvent, LossRecovery, MAX_SUBFLOWS, Receiver, TelemetrySource};
use crate::slab::Key;
use crate::stats::{DropReason, HostStats};
use crate::telemetry::Telemetry;
use crate::wire::{ETHERNET_LEN, Ecn, Flags, FrameView, MAX_LIST_ENTRIES, PacketKind};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::{Bytes, Time};

/// The receiving half of a host's transport: all incoming messages.
#[derive(Debug)]
pub(crate) struct Inbound {
    pub(super) messages: MessageTable<InboundMessage, Tombstone>,
    /// Deadlines of delayed ACKs with the message key and the subflow index, in the order in which they were set. An
    /// entry whose time differs from the subflow's `ack_deadline` is stale: an ACK has been sent since.
    delayed_acks: VecDeque<(Time, Key, u8)>,
    pub(super) receiver: Box<dyn Receiver>,
    pub(super) is_selective: bool,
    ack_every: u32,
    ack_flags: Flags,
    scheme_grants: bool,
    telemetry: TelemetrySource,
    nack_interval: Time,
    ack_delay: Time,
    /// Deadlines of the next credit by message slot. Empty unless the scheme uses credits.
    pub(super) credits: Deadlines,
    pub(super) uses_credits: bool,
    pub(super) active_window: Time,
    /// Number of ranges behind gaps in all messages, and its limit.
    stretches: usize,
    max_stretches: usize,
}

/// The state kept of a completed message, so that late packets of it are acknowledged and not taken for a new
/// message.
#[derive(Debug)]
pub(super) struct Tombstone {
    pub size: u64,
    /// By subflow, the next expected byte at the end of the message; `None` with go-back-N.
    reached: Option<Box<[u64; MAX_SUBFLOWS as usize]>>,
}

/// Returns the flags of an ACK that requests telemetry from switches on the return path, if the scheme needs that.
fn ack_flags(telemetry: TelemetrySource) -> Flags {
    match telemetry {
        TelemetrySource::Acks => Flags::TELEMETRY,
        _ => Flags::NONE,
    }
}

/// What a [`DataEvent`] says about the message of the packet.
struct PacketContext<'a> {
    slot: Option<u32>,
    first: bool,
    last: bool,
    listed: AnnouncedSenders<'a>,
}

/// The announcement in a packet with LOOKAHEAD: the number of the incast and the low 16 bits of each sender's
/// address.
#[derive(Clone, Copy, Default)]
struct AnnouncedSenders<'a> {
    incast: u32,
    senders: &'a [[u8; 2]],
}

/// Parses the announcement of a packet; empty if the packet has no LOOKAHEAD flag, `None` if the list is truncated or
/// longer than [`MAX_LIST_ENTRIES`].
fn parse_announcement<'a>(frame: &FrameView<'a>) -> Option<AnnouncedSenders<'a>> {
    if !frame.weir.flags().has(Flags::LOOKAHEAD) {
        return Some(AnnouncedSenders::default());
    }
    let (count, rest) = frame.payload().split_first_chunk()?;
    let (incast, ids) = rest.split_first_chunk()?;
    let count = usize::from(u16::from_be_bytes(*count));
    if count > MAX_LIST_ENTRIES {
        return None;
    }
    Some(AnnouncedSenders { incast: u32::from_be_bytes(*incast), senders: ids.as_chunks().0.get(..count)? })
}

impl Inbound {
    pub fn new(config: &HostConfig, resolved: &ResolvedTransport) -> Inbound {
        let (needs, transport) = (config.scheme.needs(), &config.transport);
        Inbound {
            messages: MessageTable::new(
                resolved.active_window,
                config.base_rtt,
                transport.max_inbound,
                transport.tombstones,
            ),
            delayed_acks: VecDeque::new(),
            receiver: config.scheme.receiver(&config.flow_params(resolved.payload)),
            is_selective: resolved.recovery == LossRecovery::Selective,
            ack_every: config.ack_every,
            ack_flags: ack_flags(needs.telemetry),
            scheme_grants: needs.grant,
            telemetry: needs.telemetry,
            nack_interval: resolved.nack_interval,
            ack_delay: resolved.ack_delay,
            credits: Deadlines::default(),
            uses_credits: matches!(
                config.scheme.port_algorithm(config.base_rtt),
                Some(PortAlgorithm::Credits(_))
            ),
            active_window: resolved.active_window,
            stretches: 0,
            max_stretches: transport.max_reorder_ranges as usize,
        }
    }

    pub fn view(&self, peer: Ipv4Addr, message: u32) -> Option<InboundInfo> {
        let MessageState::Arriving(slot) = self.messages.find(message_key(peer, message)) else {
            return None;
        };
        let (message, last_seen) = (self.messages.at(slot)?, self.messages.last_seen(slot)?);
        Some(InboundInfo {
            received: Bytes::new(message.data.prefix_end()),
            last_seen,
            path_id: message.path_id,
        })
    }

    /// Applies a scheme change. Messages in progress continue; the receiver half of the new scheme sees each of them
    /// as new.
    pub fn adopt(&mut self, config: &HostConfig, resolved: &ResolvedTransport) {
        let needs = config.scheme.needs();
        self.receiver = config.scheme.receiver(&config.flow_params(resolved.payload));
        self.ack_flags = ack_flags(needs.telemetry);
        self.scheme_grants = needs.grant;
        self.telemetry = needs.telemetry;
        (self.nack_interval, self.ack_delay) = (resolved.nack_interval, resolved.ack_delay);
        self.active_window = resolved.active_window;
        self.messages.change_scheme(resolved.active_window, config.base_rtt);
        self.messages.arriving_mut().for_each(|message| message.scheme_changed = message.credit.is_some());
    }

    /// Returns the number of messages that received a packet within the active window before `now`.
    pub fn active_flows(&mut self, now: Time) -> usize {
        self.messages.age_and_count_active(now)
    }

    /// Inserts a message that is not in the table and returns its slot. May evict the message that has been idle
    /// longest.
    pub(super) fn insert_message(
        &mut self,
        now: Time,
        id: u64,
        stats: &mut HostStats,
    ) -> Result<u32, DropReason> {
        let stretches = &mut self.stretches;
        let forget = |message: InboundMessage| *stretches -= message.range_count();
        self.messages.insert(now, id, InboundMessage::default(), stats, forget)
    }

    /// Returns the offsets of a packet. `reached` is the next expected byte of its subflow and `done` that of the
    /// message: 32-bit offsets on the wire are unwrapped near them. An offset before the first byte of a subflow
    /// counts as 0, which makes the packet a duplicate.
    fn segment_offsets(
        &self,
        frame: &FrameView<'_>,
        reached: u64,
        done: u64,
    ) -> Result<SegmentOffsets, DropReason> {
        let weir = &frame.weir;
        let seq = unwrap_seq(reached, weir.seq()).unwrap_or(0);
        let data = match self.is_selective {
            true => unwrap_seq(done, weir.grant()).ok_or(DropReason::BeyondEnd)?,
            false => seq,
        };
        Ok(SegmentOffsets {
            seq,
            data,
            len: u64::from(frame.payload_len()),
            is_end: weir.flags().has(Flags::END),
        })
    }

    /// Handles a DATA packet. A packet that is refused after the lookup (`BeyondEnd`, `ReorderFull`) still creates
    /// its message and counts as activity of it.
    pub fn on_data(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
        events: &mut Ring<HostEvent>,
    ) -> Result<(), DropReason> {
        if frame.payload_len() == 0 {
            return Err(DropReason::EmptyData);
        }
        let listed = parse_announcement(frame).ok_or(DropReason::LengthMismatch)?;
        let weir = &frame.weir;
        let index = if self.is_selective { usize::from(weir.subflow()) } else { 0 };
        let id = message_key(frame.ip.source(), weir.message());
        let slot = match self.messages.find(id) {
            MessageState::Arriving(slot) => slot,
            MessageState::Ended(Tombstone { size, reached }) => {
                let (size, reached) = (*size, reached.as_ref().map(|reached| reached[index]));
                return self.data_after_end(now, frame, size, reached, control, stats);
            }
            MessageState::Unknown => self.insert_message(now, id, stats)?,
        };
        self.messages.touch(now, slot);
        let first = self.messages.introduce_to_scheme(slot);
        let key = self.messages.key(slot);
        let Some(message) = self.messages.at(slot) else { return Err(DropReason::ReceiverFull) };
        let done = message.data.prefix_end();
        let reached = if self.is_selective { message.expected(index) } else { done };
        let place = self.segment_offsets(frame, reached, done)?;
        let taken = self.accept(slot, index, place)?;
        // An announcement counts only in a packet that extends the prefix, and therefore once, however often the
        // packet is repeated.
        let counts = place.seq == reached;
        let context = PacketContext {
            slot: Some(slot),
            first,
            last: taken.completes_message,
            listed: if counts { listed } else { AnnouncedSenders::default() },
        };
        let feedback = self.run_receiver(now, frame, context, stats);
        let mut reply = self.reply(frame, &feedback);
        if feedback.cnp {
            let cnp = ControlFrame {
                kind: PacketKind::Cnp,
                flags: Flags::NONE,
                records: RecordBuf::NONE,
                ..reply.clone()
            };
            control.push(cnp, stats);
        }
        reply.seq = taken.rcv_nxt as u32;
        let marked = frame.ip.ecn() == Ecn::Ce;
        stats.marked += u64::from(marked);
        let counter = match taken.order {
            SegmentOrder::InOrder => &mut stats.data_received,
            SegmentOrder::OutOfOrder => &mut stats.out_of_order,
            SegmentOrder::Duplicate => &mut stats.duplicates,
        };
        *counter += 1;
        stats.payload_received += taken.bytes;
        let Some(message) = self.messages.at_mut(slot) else { return Err(DropReason::ReceiverFull) };
        message.path_id = weir.path_id();
        if taken.order == SegmentOrder::OutOfOrder && !self.is_selective {
            let asked = message.last_nack.is_some_and(|(expected, at)| {
                expected == reached && now.saturating_sub(at) < self.nack_interval
            });
            if !asked {
                message.last_nack = Some((reached, now));
                message.subflow(index).ack_sent();
                control.push(ControlFrame { kind: PacketKind::Nack, ..reply }, stats);
            }
            return Ok(());
        }
        let arrival = message.subflow(index);
        arrival.unacked += 1;
        // Where only some packets carry records, each of them is answered at once, so that no record is lost to a
        // delayed ACK.
        let few =
            [TelemetrySource::DataOncePerRtt, TelemetrySource::DataOnCongestion].contains(&self.telemetry);
        let answers_telemetry = few && !frame.records().is_empty();
        // RFC 5681 §4.2: a packet out of order is acknowledged at once. So is a duplicate, because the sender has not
        // received the ACK of the original.
        let at_once = !taken.in_order || taken.order == SegmentOrder::Duplicate || taken.completes_message;
        if at_once || marked || answers_telemetry || feedback.ack_now || arrival.unacked >= self.ack_every {
            // The packets covered by the delayed ACK were not marked. They are acknowledged separately because the
            // sender counts marked bytes (RFC 8257 §3.2).
            if marked
                && (self.is_selective || taken.order == SegmentOrder::InOrder)
                && let Some(held) = arrival.delayed_ack.take()
            {
                control.push(held, stats);
            }
            arrival.ack_sent();
            control.push(reply, stats);
        } else {
            arrival.delayed_ack = Some(reply);
            if arrival.ack_deadline.is_none() {
                let due = now.saturating_add(self.ack_delay);
                arrival.ack_deadline = Some(due);
                self.delayed_acks.push_back((due, key, index as u8));
            }
        }
        if taken.completes_message {
            // Delayed ACKs of the other subflows would otherwise be lost with the message.
            message.take_held().for_each(|held| control.push(held, stats));
            let size = message.data.prefix_end();
            self.stretches -= message.range_count();
            self.credits.remove(slot);
            let is_selective = self.is_selective;
            self.messages.finish(slot, |message| Tombstone {
                size,
                reached: is_selective.then(|| Box::new(message.reached())),
            });
            let (peer, message) = (frame.ip.source(), weir.message());
            events.push_back(HostEvent::MessageReceived { peer, message, bytes: Bytes::new(size), at: now });
        }
        Ok(())
    }

    /// Records the bytes of a packet and updates the number of ranges behind gaps.
    fn accept(&mut self, slot: u32, index: usize, place: SegmentOffsets) -> Result<Accepted, DropReason> {
        let Some(message) = self.messages.at_mut(slot) else { return Err(DropReason::ReceiverFull) };
        if !self.is_selective {
            return Ok(message.accept_go_back_n(place));
        }
        let before = message.range_count();
        let taken =
            message.accept_selective(index, place, self.max_stretches.saturating_sub(self.stretches))?;
        self.stretches = self.stretches + message.range_count() - before;
        Ok(taken)
    }

    fn run_receiver(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        PacketContext { slot, first, last, listed }: PacketContext<'_>,
        stats: &mut HostStats,
    ) -> AckFields {
        let active_flows = u16::try_from(self.active_flows(now)).unwrap_or(u16::MAX).max(1);
        let records;
        let telemetry = if self.receiver.wants_telemetry() {
            records = Telemetry::from_wire(frame.records(), frame.weir.format(), true);
            &records
        } else {
            const { &Telemetry::EMPTY }
        };
        let data = DataEvent {
            now,
            source: frame.ip.source(),
            payload: Bytes::new(u64::from(frame.payload_len())),
            frame: Bytes::new((ETHERNET_LEN + usize::from(frame.ip.total_length())) as u64),
            marked: frame.ip.ecn() == Ecn::Ce,
            slot,
            first,
            last,
            active_flows,
            announced: listed.senders,
            incast: listed.incast,
            credit: if self.uses_credits { frame.weir.grant() } else { 0 },
            path_id: frame.weir.path_id(),
            telemetry,
        };
        self.receiver.on_data(&data, &mut stats.telemetry)
    }

    /// Builds the ACK that answers this packet, with `seq` 0: the caller sets the cumulative acknowledgement. The ACK
    /// echoes the timestamp, the ECN mark (unless the receiver half suppresses it) and, unless the scheme owns the
    /// grant field, path id and telemetry records.
    pub(super) fn reply(&self, frame: &FrameView<'_>, feedback: &AckFields) -> ControlFrame {
        let weir = &frame.weir;
        let mut flags = self.ack_flags;
        if frame.ip.ecn() == Ecn::Ce && !feedback.suppress_ecn_echo {
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
            stamp: weir.stamp(),
            concurrency: feedback.concurrency,
            grant: if self.scheme_grants { feedback.grant } else { u32::from(weir.path_id()) },
            // A receiver half that computes the grant has consumed the records; the sender does not need them.
            records: match self.scheme_grants {
                true => RecordBuf::NONE,
                false => RecordBuf::copy(frame.records(), weir.format()),
            },
        }
    }

    /// Acknowledges a packet of a completed message again: the last ACK was lost or is still in flight. Every byte of
    /// the message has arrived, by whichever subflow, so the whole packet is acknowledged.
    fn data_after_end(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        size: u64,
        reached: Option<u64>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) -> Result<(), DropReason> {
        let reached = if self.is_selective { reached.unwrap_or(0) } else { size };
        let place = self.segment_offsets(frame, reached, size)?;
        if place.data + place.len > size {
            return Err(DropReason::BeyondEnd);
        }
        stats.duplicates += 1;
        let context =
            PacketContext { slot: None, first: false, last: false, listed: AnnouncedSenders::default() };
        let feedback = self.run_receiver(now, frame, context, stats);
        let seq = reached.max(place.seq + place.len) as u32;
        control.push(ControlFrame { seq, ..self.reply(frame, &feedback) }, stats);
        Ok(())
    }

    /// Returns the time at which to call [`wakeup`](Self::wakeup) next; `None` if no ACK is delayed and no credit is
    /// due.
    pub fn next_wakeup(&self) -> Option<Time> {
        let delayed = self.delayed_acks.front().map(|&(due, ..)| due);
        match (delayed, self.credits.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Queues the delayed ACKs and the credits whose deadline has come.
    pub fn wakeup(&mut self, now: Time, control: &mut ControlQueue, stats: &mut HostStats) {
        while let Some(slot) = self.credits.pop_due(now) {
            self.grant_credit(now, slot, false, control, stats);
        }
        while let Some(&(due, key, index)) = self.delayed_acks.front()
            && due <= now
        {
            self.delayed_acks.pop_front();
            if let Some(message) = self.messages.get_mut(key)
                && let arrival = message.subflow(usize::from(index))
                && arrival.ack_deadline == Some(due)
                && let Some(reply) = arrival.delayed_ack.take()
            {
                arrival.ack_sent();
                control.push(reply, stats);
            }
        }
    }
}
