use super::pacer::Pacer;
use super::reno::NewReno;
use super::rto::Rto;
use super::seq::{MAX_WINDOW, unwrap_seq};
use crate::config::ResolvedTransport;
use crate::event::SubflowInfo;
use crate::scheme::{Decision, LossRecovery, Needs, RecoveryState};
use crate::wire::{Ecn, Flags, FrameRepr, HEADERS_LEN, PacketKind, RecordFormat, WeirRepr};
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
    /// Headers of full DATA packets.
    repr: FrameRepr,
    /// `repr` in wire format, copied for each full packet, which differs from it only in the Weir header.
    full_headers: [u8; HEADERS_LEN],

    /// First byte not acknowledged.
    una: u64,
    /// Next byte to send.
    nxt: u64,
    /// First byte never sent.
    snd_max: u64,
    /// State of selective retransmission; `None` with go-back-N.
    reno: Option<Box<NewReno>>,

    /// Window of the scheme's last decision, in payload bytes.
    window: u64,
    pacer: Pacer,
    /// Time at which the scheme wants to be called; `None` if it has set no timer.
    scheme_timer: Option<Time>,
    rto: Rto,
    /// Time of the retransmission timeout; `None` if nothing is in flight and no credit is awaited.
    rto_at: Option<Time>,
    /// Start of the current wait for an acknowledgement of new bytes. The user timeout counts from here.
    waiting_since: Time,
    /// True if the receiver has asked since `waiting_since` for bytes that it had acknowledged before.
    is_asked_for_acked_bytes: bool,

    /// True if the subflow is in the ready queue.
    pub is_queued: bool,
    // As in `SubflowInfo` and `FlowInfo`.
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
    /// The ACK is accepted and acknowledges `new_bytes` bytes, possibly 0, for the first time.
    Acked { new_bytes: u64 },
    /// No new bytes; the duplicate ACK that signals a loss.
    LossDetected,
}

/// A DATA packet to send.
pub(super) struct Segment {
    /// Offset in the subflow's sequence space.
    pub seq: u64,
    /// Offset in the message.
    pub message_offset: u64,
    /// Length of the payload in bytes.
    pub payload: u32,
    pub flags: Flags,
    /// True if the bytes have been sent before, on this subflow or on another.
    pub is_retransmission: bool,
    /// True if the packet requests telemetry records of congested ports only.
    pub requests_congested_only: bool,
}

/// A frame that leaves now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub now: Time,
    /// Time from which the gap behind the frame counts: earlier than `now` if the frame had to wait for the NIC and the
    /// scheme's packets are marked for that.
    pub due: Time,
    /// True if the frame waited long enough for an ECN mark.
    pub is_marked: bool,
}

impl Segment {
    /// Returns the offset in the message of the first byte after this packet.
    pub(super) fn end(&self) -> u64 {
        self.message_offset + u64::from(self.payload)
    }

    /// Returns the length of the frame in bytes.
    pub(super) fn frame_len(&self) -> u32 {
        HEADERS_LEN as u32 + self.payload
    }
}

impl Subflow {
    pub(super) fn new(
        now: Time,
        repr: FrameRepr,
        resolved: &ResolvedTransport,
        decision: Decision,
    ) -> Subflow {
        let mut full_headers = [0; HEADERS_LEN];
        // A full packet fits the MTU, and the MTU fits IPv4: `HostConfig::resolve` has checked both.
        let headers_len = repr.emit(&[], &mut full_headers);
        debug_assert_eq!(headers_len, Some(HEADERS_LEN));
        let mut subflow = Subflow {
            repr,
            full_headers,
            una: 0,
            nxt: 0,
            snd_max: 0,
            reno: (resolved.recovery == LossRecovery::Selective).then(|| Box::new(NewReno::new())),
            window: 0,
            pacer: Pacer::new(now, resolved.pacing_credit),
            scheme_timer: None,
            rto: Rto::new(resolved.rto),
            rto_at: None,
            waiting_since: now,
            is_asked_for_acked_bytes: false,
            is_queued: false,
            retransmits: 0,
            rtt: None,
            ack_path: 0,
            data_path: None,
        };
        subflow.apply(decision);
        subflow
    }

    pub(super) fn entropy_port(&self) -> u16 {
        self.repr.entropy_port
    }
    pub(super) fn una(&self) -> u64 {
        self.una
    }
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }
    pub(super) fn window(&self) -> u64 {
        self.window
    }
    pub(super) fn rate(&self) -> Bandwidth {
        self.pacer.rate()
    }
    pub(super) fn next_departure(&self) -> Time {
        self.pacer.next_departure()
    }
    /// See [`Pacer::set_blocked`].
    pub(super) fn set_blocked(&mut self, now: Time, is_blocked: bool) {
        self.pacer.set_blocked(now, is_blocked);
    }
    pub(super) fn is_selective(&self) -> bool {
        self.reno.is_some()
    }
    /// Returns the state of loss recovery to report to the scheme; always `Open` with go-back-N.
    pub(super) fn recovery(&self) -> RecoveryState {
        self.reno.as_ref().map_or(RecoveryState::Open, |reno| reno.state)
    }
    fn max_payload(&self) -> u32 {
        self.repr.payload_len
    }

    /// Returns the payload bytes in the network as inferred from ACKs: bytes behind duplicate ACKs are not counted.
    pub(super) fn inflight(&self) -> u64 {
        (self.nxt - self.una).saturating_sub(self.reno.as_ref().map_or(0, |reno| reno.dupacked_bytes))
    }

    /// Returns whether a packet that was sent before must be sent again now.
    pub(super) fn has_retransmission(&self) -> bool {
        self.must_retransmit_now() || self.nxt < self.snd_max && self.has_window()
    }

    /// Returns whether the window admits a new packet. False while packets remain to be retransmitted.
    pub(super) fn can_send_new(&self) -> bool {
        self.nxt == self.snd_max && self.has_window()
    }

    /// Returns whether the window admits a packet. It is compared with the bytes in flight before the packet
    /// (docs/algorithms/README.md#window-and-pacer), so inflight may exceed it by less than one packet.
    fn has_window(&self) -> bool {
        self.inflight() < self.window
    }

    fn must_retransmit_now(&self) -> bool {
        self.reno.as_ref().is_some_and(|reno| reno.retransmit_now)
    }

    /// Returns whether the path counts as dead after consecutive timeouts.
    pub(super) fn is_dead(&self) -> bool {
        self.rto.timeouts() >= DEAD_AFTER_TIMEOUTS
    }

    /// Returns the ranges of the message that this subflow has sent and that are not acknowledged; empty with
    /// go-back-N.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = (u64, u64)> {
        self.reno.iter().flat_map(|reno| reno.unacknowledged())
    }

    /// Returns the window and rate in force, without the scheme's timer.
    pub(super) fn current_decision(&self) -> Decision {
        Decision { window: Bytes::new(self.window), rate: self.rate(), timer: None }
    }

    /// Updates headers and timeouts after a scheme change. The headers fit, as in [`new`](Self::new). Tokens and class stay
    /// as they were when the message was opened: switches find the entry of a deflected message by its tokens, and packets
    /// in another class would overtake earlier ones.
    pub(super) fn update_for_scheme(&mut self, needs: &Needs, resolved: &ResolvedTransport) {
        self.repr.ecn = needs.data_ecn();
        self.repr.weir.format = needs.records;
        self.repr.payload_len = resolved.max_payload;
        self.repr.emit(&[], &mut self.full_headers);
        self.rto.set_bounds(resolved.rto);
    }

    /// Applies the scheme's decision.
    pub(super) fn apply(&mut self, decision: Decision) {
        // A window of 0 would stop the subflow for ever, because only an ACK can open it again.
        self.window = decision.window.get().clamp(1, MAX_WINDOW);
        self.scheme_timer = decision.timer;
        self.pacer.set_rate(decision.rate);
    }

    /// Produces the next retransmission. Call only if [`has_retransmission`](Self::has_retransmission) returned true.
    /// With go-back-N the packet is filled up with new bytes of the message, which ends at `size`.
    pub(super) fn next_retransmission(&mut self, size: u64) -> Option<Segment> {
        let (seq, (message_offset, until)) = match &mut self.reno {
            None => (self.nxt, (self.nxt, size)),
            Some(reno) => {
                let seq = if std::mem::take(&mut reno.retransmit_now) { self.una } else { self.nxt };
                (seq, reno.mapping_at(seq)?)
            }
        };
        let payload = (until - message_offset).min(u64::from(self.max_payload())) as u32;
        self.nxt = self.nxt.max(seq + u64::from(payload));
        self.snd_max = self.snd_max.max(self.nxt);
        self.retransmits += 1;
        Some(Segment {
            seq,
            message_offset,
            payload,
            flags: Flags::RETRANSMIT,
            is_retransmission: true,
            requests_congested_only: false,
        })
    }

    /// Produces a packet that is new to this subflow, with bytes of the message from `message_offset` up to `until`.
    /// Call only if [`can_send_new`](Self::can_send_new) returned true.
    pub(super) fn next_new_segment(&mut self, message_offset: u64, until: u64) -> Segment {
        let payload = (until - message_offset).min(u64::from(self.max_payload())) as u32;
        let seq = self.snd_max;
        if let Some(reno) = &mut self.reno {
            reno.append(seq, message_offset, u64::from(payload));
        }
        self.snd_max += u64::from(payload);
        self.nxt = self.snd_max;
        Segment {
            seq,
            message_offset,
            payload,
            flags: Flags::NONE,
            is_retransmission: false,
            requests_congested_only: false,
        }
    }

    /// Writes the headers of a packet, with `grant` in the grant field if given, and arms the retransmission timer.
    pub(super) fn emit(
        &mut self,
        departure: &Departure,
        segment: &Segment,
        grant: Option<u32>,
        out: &mut [u8; HEADERS_LEN],
    ) {
        let now = departure.now;
        let ecn = if departure.is_marked { Ecn::Ce } else { self.repr.ecn };
        let start = if segment.seq == 0 { Flags::START } else { Flags::NONE };
        let mut weir = WeirRepr {
            flags: self.repr.weir.flags | segment.flags | start,
            seq: segment.seq as u32,
            timestamp: wire_timestamp(now),
            grant: grant.unwrap_or(0),
            ..self.repr.weir
        };
        if segment.requests_congested_only {
            weir.format = weir.format.union(RecordFormat::CONGESTED);
        }
        if segment.payload == self.max_payload() && ecn == self.repr.ecn {
            // Full packets differ only in the Weir header: no checksum covers it.
            *out = self.full_headers;
            if let Some(weir_header) = out.last_chunk_mut() {
                weir.emit(weir_header);
            }
        } else {
            FrameRepr { payload_len: segment.payload, ecn, weir, ..self.repr }.emit(&[], out);
        }
        self.pacer.on_sent(departure.due, segment.frame_len());
        self.arm_rto(now);
    }

    /// Writes the headers of a probe with the sequence number `number`: a packet of this subflow without payload.
    /// Probes are paced like DATA.
    pub(super) fn emit_probe(&mut self, now: Time, number: u32, out: &mut [u8; HEADERS_LEN]) {
        let weir = WeirRepr {
            kind: PacketKind::Probe,
            flags: Flags::TELEMETRY,
            seq: number,
            timestamp: wire_timestamp(now),
            ..self.repr.weir
        };
        // Cannot fail: `out` has room for all headers.
        FrameRepr { payload_len: 0, weir, ..self.repr }.emit(&[], out);
        self.pacer.on_sent(now, HEADERS_LEN as u32);
    }

    /// Starts the retransmission timer unless it is running.
    pub(super) fn arm_rto(&mut self, now: Time) {
        if self.rto_at.is_none() {
            self.restart_wait_and_rto(now);
        }
    }

    /// Handles an acknowledgement of everything before `wire_seq` that echoes the timestamp `echo`. Calls `on_acked`
    /// with start and end of each range of the message that it acknowledges.
    pub(super) fn acknowledge(
        &mut self,
        now: Time,
        wire_seq: u32,
        echo: u32,
        mut on_acked: impl FnMut(u64, u64),
    ) -> AckOutcome {
        let Some(seq) = unwrap_seq(self.una, wire_seq).filter(|&seq| seq >= self.una) else {
            // The receiver had everything before `una` when the wait began. If it answers a packet sent since then with
            // less, it has lost its state. An older echo is just a reordered ACK.
            let age = Time::from_ns(u64::from(wire_timestamp(now).wrapping_sub(echo)));
            self.is_asked_for_acked_bytes |= age <= now.saturating_sub(self.waiting_since);
            return AckOutcome::Stale;
        };
        if seq > self.snd_max {
            return AckOutcome::BeyondSent;
        }
        let (una_before, max_payload) = (self.una, u64::from(self.max_payload()));
        let new_bytes = seq - una_before;
        self.una = seq;
        // The receiver may have bytes beyond the point to which go-back-N returned.
        self.nxt = self.nxt.max(seq);
        if new_bytes > 0 {
            self.rto.on_progress();
            self.is_asked_for_acked_bytes = false;
        }
        let Some(reno) = &mut self.reno else {
            if new_bytes > 0 {
                on_acked(una_before, seq);
            }
            return AckOutcome::Acked { new_bytes };
        };
        let is_newer_echo = reno.record_echo(echo);
        if new_bytes > 0 {
            reno.on_new_ack(seq, new_bytes, max_payload, on_acked);
        } else if is_newer_echo && seq < self.snd_max && reno.on_dup_ack(seq, self.snd_max, max_payload) {
            return AckOutcome::LossDetected;
        }
        AckOutcome::Acked { new_bytes }
    }

    /// Restarts the retransmission timer after new bytes were acknowledged, or stops it if nothing is in flight and
    /// the subflow does not wait for credits either.
    pub(super) fn restart_timer(&mut self, now: Time, waits_for_credits: bool) {
        let end = if self.is_selective() { self.snd_max } else { self.nxt };
        if self.una == end && !waits_for_credits {
            self.rto_at = None;
        } else {
            self.restart_wait_and_rto(now);
        }
    }

    /// Makes go-back-N continue from the first unacknowledged byte. Returns whether anything had been sent from
    /// there.
    pub(super) fn go_back(&mut self, now: Time) -> bool {
        let was_ahead = self.nxt > self.una;
        if was_ahead {
            self.nxt = self.una;
            self.restart_rto(now);
        }
        was_ahead
    }

    /// Records an RTT sample. With selective retransmission only an ACK of new bytes yields one (RFC 7323 §4.1).
    pub(super) fn on_rtt_sample(&mut self, rtt: Time, acks_new_bytes: bool) {
        if !self.is_selective() {
            self.rtt = Some(rtt);
        } else if acks_new_bytes {
            self.rtt = Some(rtt);
            self.rto.sample(rtt);
        }
    }

    /// Returns the time of the next retransmission timeout; `None` if the timer is not running.
    pub(super) fn rto_at(&self) -> Option<Time> {
        self.rto_at
    }

    /// Returns whether the retransmission timer has expired.
    pub(super) fn is_timed_out(&self, now: Time) -> bool {
        self.rto_at.is_some_and(|at| at <= now)
    }

    /// Restarts the retransmission timer; the user timeout goes on counting.
    fn restart_rto(&mut self, now: Time) {
        self.rto_at = Some(now.saturating_add(self.rto.current()));
    }

    /// Restarts the retransmission timer and the user timeout.
    pub(super) fn restart_wait_and_rto(&mut self, now: Time) {
        self.waiting_since = now;
        self.restart_rto(now);
    }

    /// Returns the start of the current wait for an acknowledgement of new bytes.
    pub(super) fn waiting_since(&self) -> Time {
        self.waiting_since
    }

    /// Returns whether the receiver asks for bytes that it had acknowledged, so it no longer has the message.
    pub(super) fn has_peer_lost_message(&self) -> bool {
        self.is_asked_for_acked_bytes
    }

    /// Handles a retransmission timeout: everything in flight counts as lost. The next timeout is no later than
    /// `limit`. Returns the value of `nxt` before the timeout; `None` if nothing was lost, because nothing had been
    /// sent since the sender last went back.
    pub(super) fn on_rto(&mut self, now: Time, limit: Time) -> Option<u64> {
        let snd_nxt = self.nxt;
        self.nxt = self.una;
        self.rto.back_off();
        self.rto_at = Some(now.saturating_add(self.rto.current()).min(limit));
        if let Some(reno) = &mut self.reno {
            reno.on_rto(self.snd_max);
            return Some(snd_nxt);
        }
        (snd_nxt > self.una).then_some(snd_nxt)
    }

    /// Returns whether the scheme's timer has expired, and disarms it.
    pub(super) fn take_scheme_timer(&mut self, now: Time) -> bool {
        self.scheme_timer.take_if(|at| *at <= now).is_some()
    }

    /// Returns the earlier of the retransmission timeout and the scheme's timer.
    pub(super) fn deadline(&self) -> Option<Time> {
        Time::earliest(self.rto_at, self.scheme_timer)
    }

    pub(super) fn info(&self, is_active: bool) -> SubflowInfo {
        SubflowInfo {
            entropy_port: self.entropy_port(),
            is_active,
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
pub(super) fn wire_timestamp(now: Time) -> u32 {
    now.as_ns() as u32
}
