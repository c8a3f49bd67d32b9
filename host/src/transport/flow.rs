use super::{MAX_WINDOW, opening};
use crate::config::{RTO_MAX_DOUBLINGS, Resolved};
use crate::event::{FlowSpec, FlowView, OpenError};
use crate::lane::Lane;
use crate::scheme::{Decision, Needs, Pace, Sender, TelemetryOn};
use crate::wire::{Flags, FrameRepr, HEADERS_LEN, Kind, MAX_ANNOUNCED, patch_data, patch_grant};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Bytes, Time};

/// One outgoing message: go-back-N, window and pacing.
#[derive(Debug)]
pub(super) struct Flow {
    /// Headers of its full DATA packets, and the same as bytes.
    repr: FrameRepr,
    head: [u8; HEADERS_LEN],
    /// Payload of a full packet.
    full: u32,
    /// Flags of every packet.
    flags: Flags,

    /// Payload bytes in all; [`ENDLESS`] until stopped.
    size: u64,
    /// First byte not acknowledged.
    una: u64,
    /// Next byte to send.
    nxt: u64,
    /// First byte never sent.
    max: u64,

    pub sender: Box<dyn Sender>,
    window: u64,
    rate: Bandwidth,
    /// Time at which the scheme's timer expires.
    scheme_timer: Option<Time>,
    /// Departure of the last packet, and its length: the next one may leave a frame time later.
    paced_from: Time,
    last_frame: u32,
    next_avail: Time,

    /// Time of the retransmission timeout; `None` with nothing in flight.
    rto_at: Option<Time>,
    timeouts: u32,

    /// True if it waits in the ring of flows that may send.
    pub queued: bool,

    start: Time,
    retransmits: u64,
    pub rtt: Option<Time>,
    pub ack_path: u16,
    pub data_path: Option<u16>,

    /// Hosts that the first packet announces, and whether that packet is being written.
    announces: Box<[u16]>,
    listing: bool,
    telemetry: TelemetryOn,
    /// First byte of the last packet that requested telemetry, if one per round trip does.
    asked: Option<u64>,
    /// The last probe: its number, when it left, whether its reply came.
    probe: Option<(u32, Time, bool)>,
    /// State for packets that need credits.
    credits: Option<Credits>,
}

/// Credits that were not used yet.
#[derive(Debug, Default)]
struct Credits {
    /// Their numbers.
    held: VecDeque<u32>,
    /// The newest.
    last: Option<u32>,
    /// None has been asked for, or what was asked for did not come.
    ask: bool,
}

/// Credits that may come out of order, or be lost in a row. Ours: half a millisecond of them at 100 Gbit/s, which is
/// how long one that is forged can make others seem old.
const NEAR_CREDITS: u32 = 4_096;
/// Credits a flow holds at most. Ours: several times what a switch lets pass at once.
const MOST_CREDITS: usize = 64;

/// The size of a flow that was not stopped yet.
const ENDLESS: u64 = u64::MAX;

/// The effect of an acknowledgement.
pub(super) enum Acked {
    /// It is older than one already taken.
    Stale,
    /// It acknowledges what was never sent.
    BeyondSent,
    /// This number of new bytes, possibly 0.
    Bytes(u64),
}

impl Flow {
    pub fn new(
        now: Time,
        spec: &FlowSpec,
        repr: FrameRepr,
        resolved: &Resolved,
        telemetry: TelemetryOn,
        credited: bool,
        sender: Box<dyn Sender>,
    ) -> Flow {
        let mut head = [0; HEADERS_LEN];
        // A full packet fits the MTU, which fits IPv4: HostConfig::check.
        let written = repr.emit(&[], &mut head);
        debug_assert_eq!(written, Some(HEADERS_LEN));
        let mut flow = Flow {
            repr,
            head,
            full: resolved.payload,
            flags: repr.weir.flags,
            size: spec.size.map_or(ENDLESS, Bytes::get),
            una: 0,
            nxt: 0,
            max: 0,
            window: 0,
            rate: Bandwidth::ZERO,
            scheme_timer: None,
            paced_from: now,
            last_frame: 0,
            next_avail: now,
            rto_at: None,
            timeouts: 0,
            queued: false,
            start: now,
            retransmits: 0,
            rtt: None,
            ack_path: 0,
            data_path: None,
            announces: Box::default(),
            listing: false,
            telemetry,
            asked: None,
            probe: None,
            credits: credited.then(|| Credits { ask: true, ..Credits::default() }),
            sender,
        };
        flow.apply(flow.sender.decision());
        flow
    }

    pub fn lane(&self) -> Lane {
        Lane::of(self.flags)
    }
    pub fn message(&self) -> u32 {
        self.repr.weir.message
    }
    pub fn peer(&self) -> Ipv4Addr {
        self.repr.destination
    }
    pub fn entropy_port(&self) -> u16 {
        self.repr.entropy_port
    }
    pub fn start(&self) -> Time {
        self.start
    }
    pub fn una(&self) -> u64 {
        self.una
    }
    pub fn nxt(&self) -> u64 {
        self.nxt
    }
    pub fn size(&self) -> u64 {
        self.size
    }
    pub fn retransmits(&self) -> u64 {
        self.retransmits
    }
    pub fn next_avail(&self) -> Time {
        self.next_avail
    }
    pub fn is_finished(&self) -> bool {
        self.una == self.size
    }

    /// The next packet not sent before is the last, so that its END is sure to be sent.
    pub fn stop(&mut self) {
        self.size = self.size.min(self.max.saturating_add(u64::from(self.full)));
    }

    /// Returns whether there is something to send and the window lets it: it is tested before the packet, on payload bytes
    /// (docs/algorithms/README.md#window-and-pacer), so inflight may exceed it by less than one packet.
    pub fn has_room(&self) -> bool {
        self.nxt < self.size
            && self.nxt - self.una < self.window
            && self.credits.as_ref().is_none_or(|credits| credits.ask || !credits.held.is_empty())
    }

    /// A credit came in. One that is a little older than the newest came before, and is worth nothing, nor is one that
    /// finds nothing to send. A number far off is a forger's, or all between were lost: it is worth a packet, and says
    /// nothing of the others.
    pub fn take_credit(&mut self, number: u32) -> bool {
        let (size, nxt) = (self.size, self.nxt);
        let Some(credits) = &mut self.credits else { return false };
        let ahead = number.wrapping_sub(credits.last.unwrap_or(number.wrapping_sub(1))).cast_signed();
        if ahead.unsigned_abs() < NEAR_CREDITS {
            if ahead <= 0 {
                return false;
            }
            credits.last = Some(number);
        }
        let wanted = nxt < size && credits.held.len() < MOST_CREDITS;
        if wanted {
            credits.held.push_back(number);
        }
        wanted
    }

    /// Returns whether packets need credits.
    pub fn is_credited(&self) -> bool {
        self.credits.is_some()
    }

    /// Another scheme takes over, from where this one has left it.
    pub fn adopt(&mut self, now: Time, from_rtt: Time, needs: &Needs, payload: u32, sender: Box<dyn Sender>) {
        opening::adapt(&mut self.repr, needs, payload);
        self.repr.emit(&[], &mut self.head);
        self.full = payload;
        if self.telemetry != needs.telemetry {
            (self.telemetry, self.asked) = (needs.telemetry, None);
        }
        let held = Decision { window: Bytes::new(self.window), rate: self.rate, timer: None };
        self.sender = sender;
        let decision = self.sender.resume(now, &Pace::of(&held, from_rtt));
        self.apply(decision);
    }

    /// Returns the flow's size, once it is known.
    pub fn known_size(&self) -> Option<Bytes> {
        (self.size != ENDLESS).then_some(Bytes::new(self.size))
    }

    /// Takes over what the scheme decided. A new rate holds for the packet before it as well, as in
    /// the released code (rdma-hw.cc:600-612).
    pub fn apply(&mut self, decision: Decision) {
        self.window = decision.window.get().clamp(1, MAX_WINDOW);
        self.scheme_timer = decision.timer;
        let rate = decision.rate.max(Bandwidth::from_bps(1));
        if rate != self.rate {
            self.rate = rate;
            self.pace();
        }
    }

    fn pace(&mut self) {
        let gap = self.rate.tx_time(Bytes::new(u64::from(self.last_frame)));
        self.next_avail = self.paced_from.saturating_add(gap);
    }

    /// Writes the head of the next packet and counts it as sent. Returns its payload and whether it
    /// had been sent before. There is one: the caller asked [`has_room`](Self::has_room).
    pub fn emit(&mut self, now: Time, rto: Time, out: &mut [u8; HEADERS_LEN]) -> (u32, bool) {
        let payload = (self.size - self.nxt).min(u64::from(self.full)) as u32;
        if payload == self.full {
            out.copy_from_slice(&self.head);
        } else {
            FrameRepr { payload_len: payload, ..self.repr }.emit(&[], out);
        }
        let again = self.nxt < self.max;
        let mut flags = self.flags;
        if self.nxt == 0 {
            flags |= Flags::START;
            self.listing = !self.announces.is_empty();
        }
        if self.listing {
            flags |= Flags::LOOKAHEAD;
        }
        if self.wants_records() {
            flags |= Flags::TELEMETRY;
            self.asked = Some(self.nxt);
        }
        if again {
            flags |= Flags::RETRANSMIT;
            self.retransmits += 1;
        }
        let seq = self.nxt as u32;
        self.nxt += u64::from(payload);
        if self.nxt == self.size {
            flags |= Flags::END;
        }
        self.max = self.max.max(self.nxt);
        patch_data(out, flags, seq, stamp(now));
        if let Some(number) = self.credits.as_mut().and_then(|credits| credits.held.pop_front()) {
            patch_grant(out, number);
        }
        self.paced_from = now;
        self.last_frame = HEADERS_LEN as u32 + payload;
        self.pace();
        if self.rto_at.is_none() {
            self.arm(now, rto);
        }
        (payload, again)
    }

    /// Notes the senders that the first packet announces.
    pub fn announce(&mut self, senders: &[Ipv4Addr]) -> Result<(), OpenError> {
        let first = self.size.min(u64::from(self.full)) as usize;
        let most = MAX_ANNOUNCED.min(first.saturating_sub(2) / 2);
        if senders.len() > most {
            return Err(OpenError::TooManyAnnounced { message: self.message(), count: senders.len(), most });
        }
        self.announces = senders.iter().map(|sender| u32::from(*sender) as u16).collect();
        Ok(())
    }

    /// Writes the list, which comes behind the head of the packet that was just emitted, if it is the one
    /// that has it. Returns how many bytes of its payload that are.
    pub fn list(&mut self, out: &mut [u8]) -> usize {
        if !std::mem::take(&mut self.listing) {
            return 0;
        }
        let count = self.announces.len() as u16;
        let words = [count].into_iter().chain(self.announces.iter().copied());
        let (places, _) = out.as_chunks_mut::<2>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        2 * (1 + self.announces.len())
    }

    /// Returns whether the next DATA packet asks for telemetry. If one per round trip does: the first, the first
    /// after the last that asked was acknowledged, and that one again if it is repeated.
    fn wants_records(&self) -> bool {
        match self.telemetry {
            TelemetryOn::Data | TelemetryOn::Notices => true,
            TelemetryOn::DataOncePerRtt => self.asked.is_none_or(|at| self.una > at || self.nxt <= at),
            TelemetryOn::Nothing | TelemetryOn::Probes | TelemetryOn::Acks => false,
        }
    }

    /// Returns whether a probe is due: a base round trip after the last, once its reply has come or will not.
    pub fn asks(&self, now: Time, base_rtt: Time, rto: Time) -> bool {
        if let Some(credits) = &self.credits {
            return credits.ask && credits.held.is_empty();
        }
        let since = |at: Time| now.saturating_sub(at);
        self.telemetry == TelemetryOn::Probes
            && self.probe.is_none_or(|(_, at, replied)| since(at) >= if replied { base_rtt } else { rto })
    }

    /// Writes a probe: a packet like any other of the flow, without payload.
    pub fn emit_probe(&mut self, now: Time, rto: Time, out: &mut [u8; HEADERS_LEN]) {
        if let Some(credits) = &mut self.credits {
            credits.ask = false;
            if self.rto_at.is_none() {
                self.arm(now, rto);
            }
        }
        let mut repr = FrameRepr { payload_len: 0, ..self.repr };
        repr.weir.kind = Kind::Probe;
        repr.emit(&[], out);
        let number = self.probe.map_or(0, |(number, ..)| number.wrapping_add(1));
        self.probe = Some((number, now, false));
        patch_data(out, Flags::TELEMETRY, number, stamp(now));
        self.paced_from = now;
        self.last_frame = HEADERS_LEN as u32;
        self.pace();
    }

    /// Takes the reply to the last probe, once. Returns what it acknowledges and what is next, counted
    /// in probes from 1.
    pub fn take_reply(&mut self, number: u32) -> Option<(u64, u64)> {
        let (last, _, replied) = self.probe.as_mut()?;
        if *last != number || *replied {
            return None;
        }
        *replied = true;
        let seq = u64::from(number) + 1;
        Some((seq, seq))
    }

    /// Takes an acknowledgement of everything before `wire_seq`.
    pub fn acknowledge(&mut self, now: Time, wire_seq: u32, rto: Time) -> Acked {
        let Some(seq) = super::unwrap_seq(self.una, wire_seq) else { return Acked::Stale };
        if seq < self.una {
            return Acked::Stale;
        }
        if seq > self.max {
            return Acked::BeyondSent;
        }
        let new = seq - self.una;
        self.una = seq;
        // After going back: the receiver had it all along.
        self.nxt = self.nxt.max(seq);
        if new > 0 {
            self.timeouts = 0;
            if self.una == self.nxt && (self.credits.is_none() || self.nxt == self.size) {
                self.rto_at = None;
            } else {
                self.arm(now, rto);
            }
        }
        Acked::Bytes(new)
    }

    /// Go-back-N. Returns where it had been, if it was ahead.
    pub fn go_back(&mut self) -> Option<u64> {
        let was = self.nxt;
        self.nxt = self.una;
        (was > self.una).then_some(was)
    }

    fn arm(&mut self, now: Time, rto: Time) {
        let backed_off = rto.as_ps().saturating_mul(1 << self.timeouts.min(RTO_MAX_DOUBLINGS));
        self.rto_at = Some(now.saturating_add(Time::from_ps(backed_off)));
    }

    /// Returns whether nothing was acknowledged for too long.
    pub fn is_timed_out(&self, now: Time) -> bool {
        self.rto_at.is_some_and(|at| at <= now)
    }

    /// Waits once more: longer if the silence counts against the path.
    pub fn wait_again(&mut self, now: Time, rto: Time, back_off: bool) {
        self.timeouts += u32::from(back_off);
        self.arm(now, rto);
        if back_off && let Some(credits) = &mut self.credits {
            credits.ask = true;
            credits.last = None;
        }
    }

    /// Returns whether the scheme's timer expired; it does so once.
    pub fn take_scheme_timer(&mut self, now: Time) -> bool {
        self.scheme_timer.take_if(|at| *at <= now).is_some()
    }

    /// The next time this flow has to be looked at.
    pub fn deadline(&self) -> Option<Time> {
        match (self.rto_at, self.scheme_timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub fn view(&self) -> FlowView {
        FlowView {
            message: self.message(),
            peer: self.peer(),
            start: self.start,
            size: self.known_size(),
            rate: self.rate,
            window: Bytes::new(self.window),
            inflight: Bytes::new(self.nxt - self.una),
            acked: Bytes::new(self.una),
            sent: Bytes::new(self.max),
            retransmits: self.retransmits,
            rtt: self.rtt,
            ack_path: self.ack_path,
            data_path: self.data_path,
        }
    }
}

/// The sender's clock as it stands in a packet: nanoseconds, 32 bits.
pub(super) fn stamp(now: Time) -> u32 {
    now.as_ns() as u32
}
