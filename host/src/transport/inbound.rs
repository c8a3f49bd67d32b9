use super::book::{Book, Known, id_of};
use super::control::{Control, ControlQueue, Records};
use super::deadlines::Deadlines;
use super::unwrap_seq;
use crate::config::{HostConfig, Resolved};
use crate::event::{HostEvent, InboundView};
use crate::law::PortLaw;
use crate::scheme::{Credit, DataEvent, Feedback, Receiver, TelemetryOn};
use crate::slab::Key;
use crate::stats::{DropReason, HostStats};
use crate::telemetry::Telemetry;
use crate::wire::{ETHERNET_LEN, Ecn, Flags, FrameView, Kind, MAX_ANNOUNCED};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::{Bytes, Time};

/// All incoming messages.
#[derive(Debug)]
pub(crate) struct Inbound {
    /// Of ended messages their sizes.
    book: Book<Arriving, u64>,
    /// Times at which held ACKs are due. If an ACK was sent meanwhile, the entry differs from its flow's `ack_due`.
    delayed: VecDeque<(Time, Key)>,
    receiver: Box<dyn Receiver>,
    ack_every: u32,
    ack_flags: Flags,
    scheme_grants: bool,
    telemetry: TelemetryOn,
    nack_interval: Time,
    ack_delay: Time,
    /// Times at which messages are due for a credit, by slot, where packets need credits.
    credits: Deadlines,
    credited: bool,
    active_window: Time,
}

/// A message that is arriving.
#[derive(Debug, Default)]
struct Arriving {
    /// Next byte expected.
    expected: u64,
    /// Packets taken and not acknowledged.
    unacked: u32,
    /// The ACK that waits for more packets, and until when.
    held: Option<Control>,
    ack_due: Option<Time>,
    /// The expected byte that was last asked for, and when.
    nacked: Option<(u64, Time)>,
    path_id: u16,
    /// The last credit for it, once it has requested credits.
    credit: Option<Control>,
    /// The scheme has changed since.
    resumes: bool,
}

/// Returns the flags by which ACKs request telemetry of switches.
fn ack_flags(telemetry: TelemetryOn) -> Flags {
    match telemetry {
        TelemetryOn::Acks => Flags::TELEMETRY,
        _ => Flags::NONE,
    }
}

/// The position of a packet in its message, for the scheme.
struct Place<'a> {
    slot: Option<u32>,
    first: bool,
    last: bool,
    announced: &'a [[u8; 2]],
}

/// Returns the hosts that a packet with LOOKAHEAD announces; `None` if the list is incomplete.
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

impl Inbound {
    pub fn new(config: &HostConfig, resolved: &Resolved) -> Inbound {
        let needs = config.scheme.needs();
        Inbound {
            book: Book::new(
                resolved.active_window,
                config.transport.max_inbound,
                config.transport.tombstones,
            ),
            delayed: VecDeque::new(),
            receiver: config.scheme.receiver(&config.flow_params(resolved.payload)),
            ack_every: config.ack_every,
            ack_flags: ack_flags(needs.telemetry),
            scheme_grants: needs.grant,
            telemetry: needs.telemetry,
            nack_interval: resolved.nack_interval,
            ack_delay: resolved.ack_delay,
            credits: Deadlines::default(),
            credited: matches!(config.scheme.port_law(config.base_rtt), Some(PortLaw::Credits(_))),
            active_window: resolved.active_window,
        }
    }

    pub fn view(&self, peer: Ipv4Addr, message: u32) -> Option<InboundView> {
        let Known::Arriving(slot) = self.book.find(id_of(peer, message)) else { return None };
        let (flow, last_seen) = (self.book.at(slot)?, self.book.last_seen(slot)?);
        Some(InboundView { received: Bytes::new(flow.expected), last_seen, path_id: flow.path_id })
    }

    /// The scheme changes, and messages go on.
    pub fn adopt(&mut self, config: &HostConfig, resolved: &Resolved) {
        let needs = config.scheme.needs();
        self.receiver = config.scheme.receiver(&config.flow_params(resolved.payload));
        self.ack_flags = ack_flags(needs.telemetry);
        self.scheme_grants = needs.grant;
        self.telemetry = needs.telemetry;
        (self.nack_interval, self.ack_delay) = (resolved.nack_interval, resolved.ack_delay);
        self.active_window = resolved.active_window;
        self.book.change_scheme(resolved.active_window);
        self.book.arriving_mut().for_each(|flow| flow.resumes = flow.credit.is_some());
    }

    /// Flows active at `now`.
    pub fn active_flows(&mut self, now: Time) -> usize {
        self.book.active(now)
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
        let slot = match self.book.find(id) {
            Known::Arriving(slot) => slot,
            Known::Ended(&size) => return self.data_after_end(now, frame, size, control, stats),
            Known::Unknown => self.book.insert(now, id, Arriving::default(), stats, drop)?,
        };
        self.book.touch(now, slot);
        let first = self.book.meet(slot);
        let Some(expected) = self.book.at(slot).map(|flow| flow.expected) else {
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
        let Some(flow) = self.book.at_mut(slot) else { return Err(DropReason::ReceiverFull) };
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
                self.delayed.push_back((due, self.book.key(slot)));
            }
        }
        if ended {
            self.credits.remove(slot);
            self.book.end(slot, |_| end);
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
            credit: frame.weir.grant(),
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
        if self.credited {
            return self.request(now, frame, control, stats);
        }
        let concurrency = u16::try_from(self.active_flows(now)).unwrap_or(u16::MAX);
        let reply = self.reply(frame, &Feedback { concurrency, ..Feedback::default() });
        let grant = u32::from(frame.weir.path_id());
        let seq = frame.weir.seq();
        control.push(Control { kind: Kind::ProbeReply, flags: Flags::NONE, seq, grant, ..reply }, stats);
        Ok(())
    }

    /// A sender asks for credits: its message begins, goes on where credits were lost, or has ended unheard of.
    fn request(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) -> Result<(), DropReason> {
        let reply = self.reply(frame, &Feedback::default());
        let id = id_of(frame.ip.source(), frame.weir.message());
        let slot = match self.book.find(id) {
            Known::Arriving(slot) => slot,
            Known::Ended(&size) => {
                control.push(Control { seq: size as u32, ..reply }, stats);
                return Ok(());
            }
            Known::Unknown => self.book.insert(now, id, Arriving::default(), stats, drop)?,
        };
        self.book.touch(now, slot);
        let Some(flow) = self.book.at_mut(slot) else { return Err(DropReason::ReceiverFull) };
        let credit = Control { kind: Kind::ProbeReply, flags: Flags::NONE, records: Records::NONE, ..reply };
        let last = flow.credit.map_or(0, |last| last.seq);
        let begins = flow.credit.replace(Control { seq: last, ..credit }).is_none()
            || self.credits.get(slot).is_none();
        if begins {
            self.grant_credit(now, slot, true, control, stats);
        }
        Ok(())
    }

    /// Sends a message its next credit, and notes when the one after it is due.
    fn grant_credit(
        &mut self,
        now: Time,
        slot: u32,
        begins: bool,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) {
        // A sender that has been silent for so long asks again.
        let heard = self.book.last_seen(slot).is_some_and(|at| now.saturating_sub(at) <= self.active_window);
        let Some(flow) = self.book.at_mut(slot).filter(|_| heard) else { return };
        let Some(credit) = &mut flow.credit else { return };
        let resumes = std::mem::take(&mut flow.resumes);
        if resumes {
            self.receiver.resume_credits(slot, credit.seq);
        }
        let Some(Credit { number, next }) = self.receiver.credit(now, slot, begins || resumes) else {
            return;
        };
        self.credits.set(slot, next);
        if let Some(seq) = number {
            credit.seq = seq;
            control.push(*credit, stats);
        }
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
            subflow: weir.subflow(),
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

    /// Returns the time at which [`wakeup`](Self::wakeup) is due.
    pub fn next_wakeup(&self) -> Option<Time> {
        let delayed = self.delayed.front().map(|&(due, _)| due);
        match (delayed, self.credits.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Sends the ACKs that waited long enough, and the credits that are due.
    pub fn wakeup(&mut self, now: Time, control: &mut ControlQueue, stats: &mut HostStats) {
        while let Some(slot) = self.credits.pop_due(now) {
            self.grant_credit(now, slot, false, control, stats);
        }
        while let Some(&(due, key)) = self.delayed.front()
            && due <= now
        {
            self.delayed.pop_front();
            if let Some(flow) = self.book.get_mut(key)
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
