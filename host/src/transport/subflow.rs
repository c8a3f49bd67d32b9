use super::pacer::Pacer;
use super::reno::NewReno;
use super::rto::Rto;
use super::{MAX_WINDOW, open, unwrap_seq};
use crate::config::ResolvedTransport;
use crate::event::SubflowInfo;
use crate::scheme::{Decision, LossRecovery, Needs, RecoveryState};
use crate::wire::{
    Flags, FrameRepr, HEADERS_LEN, PacketKind, RecordFormat, patch_data, patch_format, patch_grant,
};
use weir_units::{Bandwidth, Bytes, Time};

/// Consecutive timeouts after which a path counts as dead. One is not enough: it may be congestion, and after it a
/// single packet is sent.
const DEAD_AFTER_TIMEOUTS: u32 = 2;

/// One outgoing subflow: a sequence space with its own window, pacing rate and retransmission timer.
///
/// Lost packets are retransmitted in one of two ways. Go-back-N sends everything again from the first unacknowledged
/// byte; a message then has one subflow, whose offsets are the message's. [`NewReno`] sends only what is missing.
#[derive(Debug)]
pub(super) struct Subflow {
    /// Headers of full DATA packets, and their encoding, which is copied for each packet.
    repr: FrameRepr,
    head: [u8; HEADERS_LEN],

    /// First byte not acknowledged.
    una: u64,
    /// Next byte to send.
    nxt: u64,
    /// First byte never sent.
    snd_max: u64,
    /// State of selective retransmission; `None` with go-back-N.
    reno: Option<Box<NewReno>>,

    window: u64,
    pacer: Pacer,
    scheme_timer: Option<Time>,
    rto: Rto,
    /// Time of the retransmission timeout; `None` if nothing is in flight and no credit is awaited.
    rto_at: Option<Time>,
    /// Time since which nothing new was acknowledged though an answer is expected.
    waiting_since: Time,
    /// True if the receiver has asked since then for bytes that it had acknowledged.
    lost_by_peer: bool,

    /// True if the subflow is in the ready queue.
    pub queued: bool,
    pub retransmits: u64,
    pub rtt: Option<Time>,
    pub ack_path: u16,
    pub data_path: Option<u16>,
}

/// The result of an acknowledgement.
pub(super) enum AckOutcome {
    /// The ACK acknowledges less than an earlier one.
    Stale,
    /// The ACK acknowledges bytes that were never sent.
    BeyondSent,
    /// The number of newly acknowledged bytes, possibly 0.
    Bytes(u64),
    /// No new bytes; the duplicate ACK that signals a loss.
    Lost,
}

/// A DATA packet to send.
pub(super) struct Segment {
    /// Offset in the subflow's sequence space.
    pub seq: u64,
    /// Offset in the message.
    pub message_offset: u64,
    pub payload: u32,
    pub flags: Flags,
    /// True if the bytes have been sent before, on this subflow or on another.
    pub is_retransmission: bool,
    /// True if the packet requests telemetry records of congested ports only.
    pub upon_congestion: bool,
}

impl Segment {
    /// Offset in the message of the first byte after this packet.
    pub fn end(&self) -> u64 {
        self.message_offset + u64::from(self.payload)
    }
}

impl Subflow {
    pub fn new(now: Time, repr: FrameRepr, resolved: &ResolvedTransport, decision: Decision) -> Subflow {
        let mut head = [0; HEADERS_LEN];
        // A full packet fits the MTU, and the MTU fits IPv4: `HostConfig::resolve` has checked both.
        let written = repr.emit(&[], &mut head);
        debug_assert_eq!(written, Some(HEADERS_LEN));
        let mut subflow = Subflow {
            repr,
            head,
            una: 0,
            nxt: 0,
            snd_max: 0,
            reno: (resolved.recovery == LossRecovery::Selective).then(|| Box::new(NewReno::new())),
            window: 0,
            pacer: Pacer::new(now),
            scheme_timer: None,
            rto: Rto::new(resolved.min_rto, resolved.initial_rto),
            rto_at: None,
            waiting_since: now,
            lost_by_peer: false,
            queued: false,
            retransmits: 0,
            rtt: None,
            ack_path: 0,
            data_path: None,
        };
        subflow.apply(decision);
        subflow
    }

    pub fn entropy_port(&self) -> u16 {
        self.repr.entropy_port
    }
    pub fn una(&self) -> u64 {
        self.una
    }
    pub fn nxt(&self) -> u64 {
        self.nxt
    }
    pub fn window(&self) -> u64 {
        self.window
    }
    pub fn rate(&self) -> Bandwidth {
        self.pacer.rate()
    }
    pub fn next_avail(&self) -> Time {
        self.pacer.next_departure()
    }
    pub fn is_selective(&self) -> bool {
        self.reno.is_some()
    }
    /// Returns the state of loss recovery for the scheme; always `Open` with go-back-N.
    pub fn repair(&self) -> RecoveryState {
        self.reno.as_ref().map_or(RecoveryState::Open, |reno| reno.repair)
    }
    fn full(&self) -> u32 {
        self.repr.payload_len
    }

    /// Returns the payload bytes in the network as inferred from ACKs: bytes behind duplicate ACKs are not counted.
    pub fn inflight(&self) -> u64 {
        (self.nxt - self.una).saturating_sub(self.reno.as_ref().map_or(0, |reno| reno.dupacked_bytes))
    }

    /// Returns whether a packet that was sent before must be sent again now.
    pub fn has_retransmission(&self) -> bool {
        self.resends() || self.nxt < self.snd_max && self.has_window()
    }

    /// Returns whether the window admits a new packet. False while packets remain to be retransmitted.
    pub fn can_send_new(&self) -> bool {
        self.nxt == self.snd_max && self.has_window()
    }

    /// Returns whether the window admits a packet. It is compared with the bytes in flight before the packet
    /// (docs/algorithms/README.md#window-and-pacer), so inflight may exceed it by less than one packet.
    fn has_window(&self) -> bool {
        self.inflight() < self.window
    }

    fn resends(&self) -> bool {
        self.reno.as_ref().is_some_and(|reno| reno.retransmit_now)
    }

    /// Returns whether the path counts as dead after consecutive timeouts.
    pub fn is_dead(&self) -> bool {
        self.rto.timeouts() >= DEAD_AFTER_TIMEOUTS
    }

    /// Returns the ranges of the message that this subflow has sent and that are not acknowledged; empty with
    /// go-back-N.
    pub fn unacknowledged(&self) -> impl Iterator<Item = (u64, u64)> {
        self.reno.iter().flat_map(|reno| reno.unacknowledged())
    }

    /// Returns the window and rate in force, without the scheme's timer.
    pub fn current_decision(&self) -> Decision {
        Decision { window: Bytes::new(self.window), rate: self.rate(), timer: None }
    }

    /// Updates headers and timeouts after a scheme change.
    pub fn adapt(&mut self, needs: &Needs, resolved: &ResolvedTransport) {
        open::update_for_scheme(&mut self.repr, needs, resolved.payload);
        self.repr.emit(&[], &mut self.head);
        self.rto.set_bounds(resolved.min_rto, resolved.initial_rto);
    }

    /// Applies the scheme's decision.
    pub fn apply(&mut self, decision: Decision) {
        // A window of 0 would stop the subflow for ever, because only an ACK can open it again.
        self.window = decision.window.get().clamp(1, MAX_WINDOW);
        self.scheme_timer = decision.timer;
        self.pacer.set_rate(decision.rate);
    }

    /// Produces the next retransmission. Call only if [`has_retransmission`](Self::has_retransmission) returned true.
    /// With go-back-N the packet is filled up with new bytes of the message, which ends at `size`.
    pub fn next_retransmission(&mut self, size: u64) -> Option<Segment> {
        let (seq, (data, until)) = match &mut self.reno {
            None => (self.nxt, (self.nxt, size)),
            Some(reno) => {
                let seq = if std::mem::take(&mut reno.retransmit_now) { self.una } else { self.nxt };
                (seq, reno.mapping_at(seq)?)
            }
        };
        let payload = (until - data).min(u64::from(self.full())) as u32;
        self.nxt = self.nxt.max(seq + u64::from(payload));
        self.snd_max = self.snd_max.max(self.nxt);
        self.retransmits += 1;
        Some(Segment {
            seq,
            message_offset: data,
            payload,
            flags: Flags::RETRANSMIT,
            is_retransmission: true,
            upon_congestion: false,
        })
    }

    /// Produces a packet that is new to this subflow, with the message's bytes from `data` on and before `until`.
    /// Call only if [`can_send_new`](Self::can_send_new) returned true.
    pub fn next_new_segment(&mut self, data: u64, until: u64) -> Segment {
        let payload = (until - data).min(u64::from(self.full())) as u32;
        let seq = self.snd_max;
        if let Some(reno) = &mut self.reno {
            reno.append(seq, data, u64::from(payload));
        }
        self.snd_max += u64::from(payload);
        self.nxt = self.snd_max;
        Segment {
            seq,
            message_offset: data,
            payload,
            flags: Flags::NONE,
            is_retransmission: false,
            upon_congestion: false,
        }
    }

    /// Writes the headers of a packet, with `grant` in the grant field if given, and arms the retransmission timer.
    pub fn emit(&mut self, now: Time, segment: &Segment, grant: Option<u32>, out: &mut [u8; HEADERS_LEN]) {
        if segment.payload == self.full() {
            *out = self.head;
        } else {
            FrameRepr { payload_len: segment.payload, ..self.repr }.emit(&[], out);
        }
        let start = if segment.seq == 0 { Flags::START } else { Flags::NONE };
        patch_data(out, self.repr.weir.flags | segment.flags | start, segment.seq as u32, stamp(now));
        if segment.upon_congestion {
            patch_format(out, self.repr.weir.format.union(RecordFormat::CONGESTED));
        }
        if let Some(grant) = grant {
            patch_grant(out, grant);
        }
        self.pacer.sent(now, HEADERS_LEN as u32 + segment.payload);
        self.arm_rto(now);
    }

    /// Writes the headers of a probe with the sequence number `number`: a packet of this subflow without payload.
    /// Probes are paced like DATA.
    pub fn emit_probe(&mut self, now: Time, number: u32, out: &mut [u8; HEADERS_LEN]) {
        let mut repr = FrameRepr { payload_len: 0, ..self.repr };
        repr.weir.kind = PacketKind::Probe;
        repr.emit(&[], out);
        patch_data(out, Flags::TELEMETRY, number, stamp(now));
        self.pacer.sent(now, HEADERS_LEN as u32);
    }

    /// Starts the retransmission timer unless it is running.
    pub fn arm_rto(&mut self, now: Time) {
        if self.rto_at.is_none() {
            self.restart_wait(now);
        }
    }

    /// Takes an acknowledgement of everything before `wire_seq`, for the packet that left at `echo`, and tells
    /// `arrived` which bytes of the message that is.
    pub fn acknowledge(
        &mut self,
        now: Time,
        wire_seq: u32,
        echo: u32,
        mut arrived: impl FnMut(u64, u64),
    ) -> AckOutcome {
        let Some(seq) = unwrap_seq(self.una, wire_seq).filter(|&seq| seq >= self.una) else {
            // A packet that left after the last on_progress finds a receiver that has all up to `una`, unless it has lost it.
            let age = Time::from_ns(u64::from(stamp(now).wrapping_sub(echo)));
            self.lost_by_peer |= age <= now.saturating_sub(self.waiting_since);
            return AckOutcome::Stale;
        };
        if seq > self.snd_max {
            return AckOutcome::BeyondSent;
        }
        let (before, full) = (self.una, u64::from(self.full()));
        let new = seq - before;
        self.una = seq;
        // The receiver may have bytes beyond the point to which go-back-N returned.
        self.nxt = self.nxt.max(seq);
        if new > 0 {
            self.rto.on_progress();
            self.lost_by_peer = false;
        }
        let Some(reno) = &mut self.reno else {
            if new > 0 {
                arrived(before, seq);
            }
            return AckOutcome::Bytes(new);
        };
        let is_news = reno.is_newer_echo(echo);
        if new > 0 {
            reno.on_new_ack(seq, new, full, arrived);
        } else if is_news && seq < self.snd_max && reno.on_dup_ack(seq, self.snd_max, full) {
            return AckOutcome::Lost;
        }
        AckOutcome::Bytes(new)
    }

    /// Restarts the retransmission timer after new bytes were acknowledged, or stops it if nothing is in flight and
    /// the subflow does not wait (`waits`) for credits.
    pub fn restart_timer(&mut self, now: Time, waits: bool) {
        let end = if self.is_selective() { self.snd_max } else { self.nxt };
        if self.una == end && !waits {
            self.rto_at = None;
        } else {
            self.restart_wait(now);
        }
    }

    /// Makes go-back-N continue from the first unacknowledged byte. Returns whether anything had been sent from
    /// there.
    pub fn go_back(&mut self, now: Time) -> bool {
        let was_ahead = self.nxt > self.una;
        if was_ahead {
            self.nxt = self.una;
            self.restart_rto(now);
        }
        was_ahead
    }

    /// Records an RTT sample. With selective retransmission only the ACK of new bytes (`is_news`) yields one (RFC
    /// 7323 §4.1).
    pub fn sample(&mut self, rtt: Time, is_news: bool) {
        if !self.is_selective() {
            self.rtt = Some(rtt);
        } else if is_news {
            self.rtt = Some(rtt);
            self.rto.sample(rtt);
        }
    }

    /// Returns the time of the retransmission timeout; `None` with nothing in flight.
    pub fn timeout(&self) -> Option<Time> {
        self.rto_at
    }

    /// Returns whether nothing was acknowledged for too long.
    pub fn is_timed_out(&self, now: Time) -> bool {
        self.rto_at.is_some_and(|at| at <= now)
    }

    /// Starts the retransmission timer anew. The silence so far does not count against the path.
    fn restart_rto(&mut self, now: Time) {
        self.rto_at = Some(now.saturating_add(self.rto.current()));
    }

    /// Starts the retransmission timer anew. The silence so far counts for nothing.
    pub fn restart_wait(&mut self, now: Time) {
        self.waiting_since = now;
        self.restart_rto(now);
    }

    /// Returns the time since which nothing new was acknowledged though an answer is expected.
    pub fn waiting_since(&self) -> Time {
        self.waiting_since
    }

    /// Returns whether the receiver asks for bytes that it had acknowledged.
    pub fn is_lost_by_peer(&self) -> bool {
        self.lost_by_peer
    }

    /// Gives up waiting: everything in flight counts as lost. The next timeout is no later than `limit`. Returns what was
    /// to be sent next; `None` if nothing was lost, because nothing had been sent since the sender last went back.
    pub fn time_out(&mut self, now: Time, limit: Time) -> Option<u64> {
        let was = self.nxt;
        self.nxt = self.una;
        self.rto.back_off();
        self.rto_at = Some(now.saturating_add(self.rto.current()).min(limit));
        if let Some(reno) = &mut self.reno {
            reno.time_out(self.snd_max);
            return Some(was);
        }
        (was > self.una).then_some(was)
    }

    /// Returns whether the scheme's timer has expired, and disarms it.
    pub fn take_scheme_timer(&mut self, now: Time) -> bool {
        self.scheme_timer.take_if(|at| *at <= now).is_some()
    }

    /// Returns the earlier of the retransmission timeout and the scheme's timer.
    pub fn deadline(&self) -> Option<Time> {
        match (self.rto_at, self.scheme_timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub fn view(&self, active: bool) -> SubflowInfo {
        SubflowInfo {
            entropy_port: self.entropy_port(),
            active,
            window: Bytes::new(self.window),
            inflight: Bytes::new(self.inflight()),
            acked: Bytes::new(self.una),
            retransmits: self.retransmits,
            rtt: self.rtt,
            data_path: self.data_path,
        }
    }
}

/// Returns the timestamp that a packet sent at `now` carries: nanoseconds modulo 2^32.
pub(super) fn stamp(now: Time) -> u32 {
    now.as_ns() as u32
}
