use super::intervals::Intervals;
use crate::config::{HostConfig, Resolved};
use crate::event::{HostEvent, InboundView};
use crate::scheme::{DataEvent, Feedback, MAX_SUBFLOWS, Receiver};
use crate::slab::Key;
use crate::stats::{DropReason, HostStats};
use crate::telemetry::Telemetry;
use crate::transport::book::{Book, Known, id_of};
use crate::transport::control::{Control, ControlQueue, Records};
use crate::transport::unwrap_seq;
use crate::wire::{ETHERNET_LEN, Ecn, Flags, FrameView, Kind};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::{Bytes, Time};

/// All incoming messages, over one or several subflows each.
#[derive(Debug)]
pub(crate) struct Inbound {
    book: Book<Arriving, Ended>,
    /// Times at which held ACKs are due, and their subflows. If an ACK was sent meanwhile, the entry differs from its
    /// `ack_due`.
    delayed: VecDeque<(Time, Key, u8)>,
    receiver: Box<dyn Receiver>,
    ack_every: u32,
    ack_delay: Time,
    /// Stretches behind gaps, of all messages, and how many there may be.
    stretches: usize,
    max_stretches: usize,
}

/// The remaining state of a message that has arrived: its size, and how far each subflow had delivered its own bytes.
#[derive(Debug)]
struct Ended {
    size: u64,
    reached: Box<[u64]>,
}

/// A message that is arriving.
#[derive(Debug, Default)]
struct Arriving {
    subflows: Vec<Arrival>,
    /// Bytes of the message that have arrived.
    data: Intervals,
    /// Known once its END has come.
    size: Option<u64>,
    path_id: u16,
}

/// Bytes that have arrived by one subflow.
#[derive(Debug, Default)]
struct Arrival {
    bytes: Intervals,
    /// Packets taken and not acknowledged.
    unacked: u32,
    /// The ACK that waits for more packets, and until when.
    held: Option<Control>,
    ack_due: Option<Time>,
}

impl Arrival {
    fn ack_sent(&mut self) {
        (self.unacked, self.held, self.ack_due) = (0, None, None);
    }
}

impl Arriving {
    fn stretches(&self) -> usize {
        self.data.ahead() + self.subflows.iter().map(|subflow| subflow.bytes.ahead()).sum::<usize>()
    }
}

impl Inbound {
    pub fn new(config: &HostConfig, resolved: &Resolved) -> Inbound {
        let transport = &config.transport;
        Inbound {
            book: Book::new(resolved.active_window, transport.max_inbound, transport.tombstones),
            delayed: VecDeque::new(),
            receiver: config.scheme.receiver(&config.flow_params(resolved.payload)),
            ack_every: config.ack_every,
            ack_delay: resolved.ack_delay,
            stretches: 0,
            max_stretches: transport.max_stretches as usize,
        }
    }

    pub fn view(&self, peer: Ipv4Addr, message: u32) -> Option<InboundView> {
        let Known::Arriving(slot) = self.book.find(id_of(peer, message)) else { return None };
        let (message, last_seen) = (self.book.at(slot)?, self.book.last_seen(slot)?);
        Some(InboundView { received: Bytes::new(message.data.done()), last_seen, path_id: message.path_id })
    }

    /// The scheme changes, and messages go on.
    pub fn adopt(&mut self, config: &HostConfig, resolved: &Resolved) {
        self.receiver = config.scheme.receiver(&config.flow_params(resolved.payload));
        self.ack_delay = resolved.ack_delay;
        self.book.change_scheme(resolved.active_window);
    }

    /// Messages active at `now`.
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
        let weir = &frame.weir;
        let id = id_of(frame.ip.source(), weir.message());
        let slot = match self.book.find(id) {
            Known::Arriving(slot) => slot,
            Known::Ended(Ended { size, reached }) => {
                let reached = reached.get(usize::from(weir.subflow())).copied().unwrap_or(0);
                let (size, reached) = (*size, reached);
                return self.data_after_end(now, frame, size, reached, control, stats);
            }
            Known::Unknown => {
                let stretches = &mut self.stretches;
                let forget = |message: Arriving| *stretches -= message.stretches();
                self.book.insert(now, id, Arriving::default(), stats, forget)?
            }
        };
        self.book.touch(now, slot);
        let first = self.book.meet(slot);
        let index = usize::from(weir.subflow());
        debug_assert!(index < usize::from(MAX_SUBFLOWS), "four bits");
        let Some(message) = self.book.at_mut(slot) else { return Err(DropReason::ReceiverFull) };
        if message.subflows.len() <= index {
            message.subflows.resize_with(index + 1, Arrival::default);
        }
        let arrival = &message.subflows[index];
        // Before the first byte: as much a repetition as anything else that has arrived.
        let expected = arrival.bytes.done();
        let len = u64::from(frame.payload_len());
        let start = unwrap_seq(expected, weir.seq()).unwrap_or(0);
        let end = start + len;
        let data = unwrap_seq(message.data.done(), weir.grant()).ok_or(DropReason::BeyondEnd)?;
        let data_end = data + len;
        let is_end = weir.flags().has(Flags::END);
        if message.size.is_some_and(|size| data_end > size || is_end && data_end != size)
            || is_end && message.data.end() > data_end
        {
            return Err(DropReason::BeyondEnd);
        }
        let more = [(&arrival.bytes, start, end), (&message.data, data, data_end)];
        let more = more.iter().filter(|(bytes, start, end)| bytes.needs_room(*start, *end)).count();
        if more > 0 && self.stretches + more > self.max_stretches {
            return Err(DropReason::ReorderFull);
        }
        let before = message.stretches();
        let arrival = &mut message.subflows[index];
        let in_order = start <= expected && arrival.bytes.ahead() == 0;
        let new = arrival.bytes.insert(start, end);
        message.size = message.size.or(is_end.then_some(data_end));
        message.path_id = weir.path_id();
        let new_data = message.data.insert(data, data_end);
        let is_whole = message.size == Some(message.data.done());
        let reached = message.subflows[index].bytes.done();
        self.stretches = self.stretches + message.stretches() - before;

        let marked = frame.ip.ecn() == Ecn::Ce;
        stats.marked += u64::from(marked);
        let counter = match (new > 0, start > expected) {
            (false, _) => &mut stats.duplicates,
            (true, true) => &mut stats.out_of_order,
            (true, false) => &mut stats.data_received,
        };
        *counter += 1;
        stats.payload_received += new_data;
        let feedback = self.ask_scheme(now, frame, (Some(slot), first, is_whole), stats);
        let reply = Control { seq: reached as u32, ..reply(frame, &feedback) };
        if feedback.cnp {
            control.push(Control { kind: Kind::Cnp, flags: Flags::NONE, ..reply }, stats);
        }
        let key = self.book.key(slot);
        let Some(message) = self.book.at_mut(slot) else { return Err(DropReason::ReceiverFull) };
        let arrival = &mut message.subflows[index];
        arrival.unacked += 1;
        // What is not in order is acknowledged at once (RFC 5681 §4.2).
        let at_once = !in_order || new == 0 || is_whole || marked || feedback.ack_now;
        if at_once || arrival.unacked >= self.ack_every {
            if marked && let Some(held) = arrival.held {
                // The packets before were not marked: the sender counts marked bytes (RFC 8257 §3.2).
                control.push(held, stats);
            }
            arrival.ack_sent();
            control.push(reply, stats);
        } else {
            arrival.held = Some(reply);
            if arrival.ack_due.is_none() {
                let due = now.saturating_add(self.ack_delay);
                arrival.ack_due = Some(due);
                self.delayed.push_back((due, key, weir.subflow()));
            }
        }
        if is_whole {
            // Other subflows may have ACKs to wait for.
            message.subflows.iter_mut().filter_map(|arrival| arrival.held.take()).for_each(|held| {
                control.push(held, stats);
            });
            let size = message.data.done();
            let bytes = Bytes::new(size);
            self.stretches -= message.stretches();
            self.book.end(slot, |message| Ended {
                size,
                reached: message.subflows.iter().map(|subflow| subflow.bytes.done()).collect(),
            });
            let (peer, message) = (frame.ip.source(), weir.message());
            events.push_back(HostEvent::MessageReceived { peer, message, bytes, at: now });
        }
        Ok(())
    }

    fn ask_scheme(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        (slot, first, last): (Option<u32>, bool, bool),
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
            announced: &[],
            credit: 0,
            path_id: frame.weir.path_id(),
            telemetry: &Telemetry::EMPTY,
        };
        self.receiver.on_data(&data, &mut stats.telemetry)
    }

    /// The sender did not hear of the end. All bytes of the message are there, so that what its subflow lacks, another
    /// brought, and nothing more is needed of it.
    fn data_after_end(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        size: u64,
        reached: u64,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) -> Result<(), DropReason> {
        let len = u64::from(frame.payload_len());
        let data = unwrap_seq(size, frame.weir.grant()).ok_or(DropReason::BeyondEnd)?;
        if data + len > size {
            return Err(DropReason::BeyondEnd);
        }
        let start = unwrap_seq(reached, frame.weir.seq()).unwrap_or(0);
        stats.duplicates += 1;
        let feedback = self.ask_scheme(now, frame, (None, false, false), stats);
        let seq = reached.max(start + len) as u32;
        control.push(Control { seq, ..reply(frame, &feedback) }, stats);
        Ok(())
    }

    /// Returns the time at which [`wakeup`](Self::wakeup) is due.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.delayed.front().map(|&(due, ..)| due)
    }

    /// Sends the ACKs that waited long enough.
    pub fn wakeup(&mut self, now: Time, control: &mut ControlQueue, stats: &mut HostStats) {
        while let Some(&(due, key, index)) = self.delayed.front()
            && due <= now
        {
            self.delayed.pop_front();
            if let Some(message) = self.book.get_mut(key)
                && let Some(arrival) = message.subflows.get_mut(usize::from(index))
                && arrival.ack_due == Some(due)
                && let Some(reply) = arrival.held
            {
                arrival.ack_sent();
                control.push(reply, stats);
            }
        }
    }
}

/// An ACK of this packet; the caller says up to where.
fn reply(frame: &FrameView<'_>, feedback: &Feedback) -> Control {
    let weir = &frame.weir;
    let is_marked = frame.ip.ecn() == Ecn::Ce && !feedback.hide_mark;
    Control {
        kind: Kind::Ack,
        flags: if is_marked { Flags::ECN_ECHO } else { Flags::NONE },
        peer: frame.ip.source(),
        entropy_port: frame.entropy_port(),
        message: weir.message(),
        subflow: weir.subflow(),
        seq: 0,
        stamp: weir.stamp(),
        concurrency: feedback.concurrency,
        grant: u32::from(weir.path_id()),
        records: Records::NONE,
    }
}
