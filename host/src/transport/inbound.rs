use super::control::{Control, ControlQueue, Records};
use super::lru::{Links, List};
use super::slab::{Key, Slab};
use super::{IdMap, unwrap_seq};
use crate::config::{HostConfig, Resolved};
use crate::event::{HostEvent, InboundView};
use crate::scheme::{DataEvent, Feedback, Receiver, TelemetryOn};
use crate::stats::{DropReason, HostStats};
use crate::telemetry::Telemetry;
use crate::wire::{ETHERNET_LEN, Ecn, Flags, FrameView, Kind, MAX_ANNOUNCED};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::{Bytes, Time};

/// All messages on their way in.
#[derive(Debug)]
pub(crate) struct Inbound {
    flows: Slab<Arriving>,
    by_id: IdMap<u64, u32>,
    links: Vec<Links>,
    /// Flows heard of within the active window, and the others, both longest unheard first.
    active: List,
    idle: List,
    /// Ended messages and their sizes, and the same in the order they ended.
    ended: IdMap<u64, u64>,
    ended_order: VecDeque<u64>,
    /// When held ACKs are due. One that was sent meanwhile is no longer its flow's `ack_due`.
    delayed: VecDeque<(Time, Key)>,
    receiver: Box<dyn Receiver>,
    ack_every: u32,
    ack_flags: Flags,
    scheme_grants: bool,
    telemetry: TelemetryOn,
    nack_interval: Time,
    ack_delay: Time,
    active_window: Time,
    max_flows: usize,
    max_ended: usize,
}

/// A message that is arriving.
#[derive(Debug)]
struct Arriving {
    id: u64,
    /// Next byte expected.
    expected: u64,
    /// Packets taken and not acknowledged.
    unacked: u32,
    /// The ACK that waits for more packets, and until when.
    held: Option<Control>,
    ack_due: Option<Time>,
    /// The expected byte that was last asked for, and when.
    nacked: Option<(u64, Time)>,
    last_seen: Time,
    path_id: u16,
    is_active: bool,
}

/// Where a packet stands in its message, for the scheme.
struct Place<'a> {
    slot: Option<u32>,
    first: bool,
    last: bool,
    announced: &'a [[u8; 2]],
}

/// Whom a packet with LOOKAHEAD announces; `None` if the list is not whole.
fn announced<'a>(frame: &FrameView<'a>) -> Option<&'a [[u8; 2]]> {
    if !frame.weir.flags().has(Flags::LOOKAHEAD) {
        return Some(&[]);
    }
    let (count, ids) = frame.payload().split_first_chunk()?;
    let count = usize::from(u16::from_be_bytes(*count));
    if count > MAX_ANNOUNCED {
        return None;
    }
    ids.as_chunks().0.get(..count)
}

/// A flow is (source address, message).
fn id_of(peer: Ipv4Addr, message: u32) -> u64 {
    u64::from(u32::from(peer)) << 32 | u64::from(message)
}

/// The path id of the acknowledged DATA packet, as the receiver puts it in the grant field of
/// schemes that do not use it. The ACK's own path id is that of the way back.
pub(super) fn echoed_path(grant: u32) -> u16 {
    (grant & 0xfff) as u16
}

impl Inbound {
    pub fn new(config: &HostConfig, resolved: &Resolved) -> Inbound {
        let needs = config.scheme.needs();
        Inbound {
            flows: Slab::default(),
            by_id: IdMap::default(),
            links: Vec::new(),
            active: List::new(),
            idle: List::new(),
            ended: IdMap::default(),
            ended_order: VecDeque::new(),
            delayed: VecDeque::new(),
            receiver: config.scheme.receiver(&config.flow_params(resolved.payload)),
            ack_every: config.ack_every,
            ack_flags: match needs.telemetry {
                TelemetryOn::Acks => Flags::TELEMETRY,
                _ => Flags::NONE,
            },
            scheme_grants: needs.grant,
            telemetry: needs.telemetry,
            nack_interval: resolved.nack_interval,
            ack_delay: resolved.ack_delay,
            active_window: resolved.active_window,
            max_flows: config.transport.max_inbound as usize,
            max_ended: config.transport.tombstones as usize,
        }
    }

    pub fn view(&self, peer: Ipv4Addr, message: u32) -> Option<InboundView> {
        let flow = self.flows.at(*self.by_id.get(&id_of(peer, message))?)?;
        Some(InboundView {
            received: Bytes::new(flow.expected),
            last_seen: flow.last_seen,
            path_id: flow.path_id,
        })
    }

    /// Flows active at `now`.
    pub fn active_flows(&mut self, now: Time) -> usize {
        while let Some(slot) = self.active.oldest() {
            let Some(flow) = self.flows.at_mut(slot) else { break };
            if now.saturating_sub(flow.last_seen) <= self.active_window {
                break;
            }
            flow.is_active = false;
            self.active.remove(&mut self.links, slot);
            self.idle.push(&mut self.links, slot);
        }
        self.active.len()
    }

    /// A DATA packet came in.
    pub fn data(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
        events: &mut VecDeque<HostEvent>,
    ) -> Result<(), DropReason> {
        if frame.payload_len() == 0 {
            return Err(DropReason::EmptyData);
        }
        let announced = announced(frame).ok_or(DropReason::LengthMismatch)?;
        let weir = &frame.weir;
        let id = id_of(frame.ip.source(), weir.message());
        let (slot, first) = match self.by_id.get(&id) {
            Some(&slot) => (slot, false),
            None => match self.ended.get(&id) {
                Some(&size) => return self.data_after_end(now, frame, size, control, stats),
                None => (self.insert(now, id, stats)?, true),
            },
        };
        self.touch(now, slot);
        let Some(expected) = self.flows.at(slot).map(|flow| flow.expected) else {
            return Err(DropReason::ReceiverFull);
        };
        // Before the first byte: as much a repetition as anything else below what is expected.
        let start = unwrap_seq(expected, weir.seq()).unwrap_or(0);
        let end = start + u64::from(frame.payload_len());
        let ended = weir.flags().has(Flags::END) && start <= expected && end > expected;
        // A list counts when its packet is taken, and so once.
        let announced = if start == 0 && start == expected { announced } else { &[] };
        let place = Place { slot: Some(slot), first, last: ended, announced };
        let feedback = self.ask_scheme(now, frame, place, stats);
        let mut reply = self.reply(frame, &feedback);
        if feedback.cnp {
            let cnp = Control { kind: Kind::Cnp, flags: Flags::NONE, records: Records::NONE, ..reply };
            control.push(cnp, stats);
        }
        let Some(flow) = self.flows.at_mut(slot) else { return Err(DropReason::ReceiverFull) };
        flow.path_id = weir.path_id();
        let marked = frame.ip.ecn() == Ecn::Ce;
        stats.marked += u64::from(marked);
        if start > flow.expected {
            stats.out_of_order += 1;
            let asked = flow.nacked.is_some_and(|(expected, at)| {
                expected == flow.expected && now.saturating_sub(at) < self.nack_interval
            });
            if !asked {
                flow.nacked = Some((flow.expected, now));
                flow.ack_sent();
                reply.kind = Kind::Nack;
                reply.seq = flow.expected as u32;
                control.push(reply, stats);
            }
            return Ok(());
        }
        if end <= flow.expected {
            // The sender does not know: tell it at once.
            stats.duplicates += 1;
            flow.ack_sent();
            reply.seq = flow.expected as u32;
            control.push(reply, stats);
            return Ok(());
        }
        stats.data_received += 1;
        stats.payload_received += end - flow.expected;
        flow.expected = end;
        flow.unacked += 1;
        reply.seq = end as u32;
        // Where few packets carry records, each of them is answered.
        let told = self.telemetry == TelemetryOn::DataOncePerRtt && !frame.records().is_empty();
        if flow.unacked >= self.ack_every || ended || marked || told || feedback.ack_now {
            if marked && let Some(held) = flow.held {
                // The packets before were not marked: the sender counts marked bytes (RFC 8257 §3.2).
                control.push(held, stats);
            }
            flow.ack_sent();
            control.push(reply, stats);
        } else {
            flow.held = Some(reply);
            if flow.ack_due.is_none() {
                let due = now.saturating_add(self.ack_delay);
                flow.ack_due = Some(due);
                self.delayed.push_back((due, self.flows.key(slot)));
            }
        }
        if ended {
            self.end(slot, id, end);
            let (peer, message) = (frame.ip.source(), weir.message());
            events.push_back(HostEvent::MessageReceived { peer, message, bytes: Bytes::new(end), at: now });
        }
        Ok(())
    }

    fn ask_scheme(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        Place { slot, first, last, announced }: Place<'_>,
        stats: &mut HostStats,
    ) -> Feedback {
        let active_flows = u16::try_from(self.active_flows(now)).unwrap_or(u16::MAX).max(1);
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
            announced,
            path_id: frame.weir.path_id(),
            telemetry: &Telemetry::from_wire(frame.records(), frame.weir.format(), true),
        };
        self.receiver.on_data(&data, &mut stats.telemetry)
    }

    /// A probe came in: its records go back at once. It is of no message yet, and makes none.
    pub fn probe(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) -> Result<(), DropReason> {
        if frame.payload_len() > 0 {
            return Err(DropReason::LengthMismatch);
        }
        let concurrency = u16::try_from(self.active_flows(now)).unwrap_or(u16::MAX);
        let reply = self.reply(frame, &Feedback { concurrency, ..Feedback::default() });
        let grant = u32::from(frame.weir.path_id());
        let seq = frame.weir.seq();
        control.push(Control { kind: Kind::ProbeReply, flags: Flags::NONE, seq, grant, ..reply }, stats);
        Ok(())
    }

    /// An ACK of this packet; the caller says up to where.
    fn reply(&self, frame: &FrameView<'_>, feedback: &Feedback) -> Control {
        let weir = &frame.weir;
        let mut flags = self.ack_flags;
        if frame.ip.ecn() == Ecn::Ce && !feedback.hide_mark {
            flags |= Flags::ECN_ECHO;
        }
        Control {
            kind: Kind::Ack,
            flags,
            peer: frame.ip.source(),
            entropy_port: frame.entropy_port(),
            message: weir.message(),
            seq: 0,
            stamp: weir.stamp(),
            concurrency: feedback.concurrency,
            grant: if self.scheme_grants { feedback.grant } else { u32::from(weir.path_id()) },
            // A receiver that computes the window has used them up.
            records: match self.scheme_grants {
                true => Records::NONE,
                false => Records::copy(frame.records(), weir.format()),
            },
        }
    }

    /// The sender did not hear of the end.
    fn data_after_end(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        size: u64,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) -> Result<(), DropReason> {
        let start = unwrap_seq(size, frame.weir.seq()).unwrap_or(0);
        if start + u64::from(frame.payload_len()) > size {
            return Err(DropReason::BeyondEnd);
        }
        stats.duplicates += 1;
        let place = Place { slot: None, first: false, last: false, announced: &[] };
        let feedback = self.ask_scheme(now, frame, place, stats);
        let reply = Control { seq: size as u32, ..self.reply(frame, &feedback) };
        control.push(reply, stats);
        Ok(())
    }

    fn insert(&mut self, now: Time, id: u64, stats: &mut HostStats) -> Result<u32, DropReason> {
        if self.flows.len() >= self.max_flows {
            self.active_flows(now);
            let oldest = self.idle.oldest().ok_or(DropReason::ReceiverFull)?;
            self.remove(oldest);
            stats.inbound_evicted += 1;
        }
        let key = self.flows.insert(Arriving {
            id,
            expected: 0,
            unacked: 0,
            held: None,
            ack_due: None,
            nacked: None,
            last_seen: now,
            path_id: 0,
            is_active: true,
        });
        self.by_id.insert(id, key.slot);
        self.active.push(&mut self.links, key.slot);
        Ok(key.slot)
    }

    /// The flow was heard of now.
    fn touch(&mut self, now: Time, slot: u32) {
        let Some(flow) = self.flows.at_mut(slot) else { return };
        flow.last_seen = now;
        if flow.is_active && self.active.newest() == Some(slot) {
            return;
        }
        let list = if flow.is_active { &mut self.active } else { &mut self.idle };
        list.remove(&mut self.links, slot);
        flow.is_active = true;
        self.active.push(&mut self.links, slot);
    }

    fn remove(&mut self, slot: u32) {
        let Some(flow) = self.flows.remove(slot) else { return };
        let list = if flow.is_active { &mut self.active } else { &mut self.idle };
        list.remove(&mut self.links, slot);
        self.by_id.remove(&flow.id);
    }

    fn end(&mut self, slot: u32, id: u64, size: u64) {
        self.remove(slot);
        while self.ended_order.len() >= self.max_ended {
            let Some(oldest) = self.ended_order.pop_front() else { return };
            self.ended.remove(&oldest);
        }
        self.ended.insert(id, size);
        self.ended_order.push_back(id);
    }

    /// When [`wakeup`](Self::wakeup) is due.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.delayed.front().map(|&(due, _)| due)
    }

    /// Sends the ACKs that waited long enough.
    pub fn wakeup(&mut self, now: Time, control: &mut ControlQueue, stats: &mut HostStats) {
        while let Some(&(due, key)) = self.delayed.front()
            && due <= now
        {
            self.delayed.pop_front();
            if let Some(flow) = self.flows.get_mut(key)
                && flow.ack_due == Some(due)
                && let Some(reply) = flow.held
            {
                flow.ack_sent();
                control.push(reply, stats);
            }
        }
    }
}

impl Arriving {
    fn ack_sent(&mut self) {
        self.unacked = 0;
        self.held = None;
        self.ack_due = None;
    }
}
