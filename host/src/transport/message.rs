use super::range_set::RangeSet;
use super::requests::PacketRequests;
use super::seq::MAX_WINDOW;
use super::subflow::{AckOutcome, Departure, Segment, Subflow};
use crate::config::{HostConfig, ResolvedTransport};
use crate::event::{Announcement, FlowError, FlowInfo, FlowSpec, OpenError, SubflowInfo, subflow_port};
use crate::priority::Priority;
use crate::scheme::{Decision, MultipathSender, Needs, SendingRate};
use crate::wire::{Flags, FrameRepr, HEADERS_LEN, PacketKind, WeirRepr};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Bytes, Time};

/// One outgoing message over its subflows, 1 to [`MAX_SUBFLOWS`](crate::scheme::MAX_SUBFLOWS).
#[derive(Debug)]
pub(super) struct OutboundMessage {
    id: u32,
    peer: Ipv4Addr,
    priority: Priority,
    /// Payload bytes of a full packet.
    max_payload: u32,
    /// Size in bytes; [`UNBOUNDED`] for a message that has not been stopped.
    size: u64,
    /// First byte that is not yet assigned to a subflow.
    next_offset: u64,
    /// Ranges of the message that were acknowledged on any subflow.
    acked_ranges: RangeSet,
    /// Number of bytes in `acked_ranges`.
    acked_bytes: u64,
    /// Unacknowledged ranges of dead subflows, as (start, end), which other subflows send too. `trim_reinject` ensures
    /// that the first byte of the front range is not acknowledged.
    reinject: VecDeque<(u64, u64)>,
    pub requests: PacketRequests,
    /// The sender half of the scheme; one for a single subflow is wrapped.
    pub control: Box<dyn MultipathSender>,
    pub subflows: Box<[Subflow]>,
    /// Slot of the receiver in [`PeerPacers`](super::peers::PeerPacers); `None` unless the scheme limits all messages to
    /// it.
    pub peer_slot: Option<u32>,
    /// True if the scheme keeps some subflows from sending new data. Starts as true, so that subflows that have not
    /// joined yet do not count as suppressed.
    has_suppressed_subflows: bool,
    start: Time,
}

/// Size of a message that sends until it is stopped.
const UNBOUNDED: u64 = u64::MAX;

impl OutboundMessage {
    /// Creates the message of `spec`. `repr` contains the headers of its full DATA packets on the first subflow.
    pub(super) fn new(
        now: Time,
        spec: &FlowSpec,
        repr: FrameRepr,
        resolved: &ResolvedTransport,
        subflows: u8,
        requests: PacketRequests,
        control: Box<dyn MultipathSender>,
    ) -> OutboundMessage {
        let subflow = |index: u8| {
            let mut repr = FrameRepr { entropy_port: subflow_port(spec.entropy_port, index), ..repr };
            repr.weir.subflow = index;
            Subflow::new(now, repr, resolved, control.decision(usize::from(index)))
        };
        OutboundMessage {
            id: spec.message,
            peer: spec.peer,
            priority: Priority::of(repr.weir.flags),
            max_payload: resolved.max_payload,
            size: spec.size.map_or(UNBOUNDED, Bytes::get),
            next_offset: 0,
            acked_ranges: RangeSet::default(),
            acked_bytes: 0,
            reinject: VecDeque::new(),
            requests,
            subflows: (0..subflows).map(subflow).collect(),
            peer_slot: None,
            control,
            has_suppressed_subflows: true,
            start: now,
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }
    pub(super) fn peer(&self) -> Ipv4Addr {
        self.peer
    }
    pub(super) fn priority(&self) -> Priority {
        self.priority
    }
    pub(super) fn start(&self) -> Time {
        self.start
    }
    pub(super) fn size(&self) -> u64 {
        self.size
    }
    pub(super) fn retransmits(&self) -> u64 {
        self.subflows.iter().map(|subflow| subflow.retransmits).sum()
    }
    pub(super) fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }
    pub(super) fn is_finished(&self) -> bool {
        self.next_offset == self.size && self.acked_bytes == self.size
    }

    /// Ends the message early: its size becomes at most one full packet beyond the bytes assigned to subflows, so
    /// that one more new packet is sent, with END. No effect if the message would end sooner.
    pub(super) fn stop(&mut self) {
        self.size = self.size.min(self.next_offset.saturating_add(u64::from(self.max_payload)));
    }

    /// Announces the senders of an incast in the first packets. No effect with selective retransmission: subflows
    /// have no common first packet.
    pub(super) fn announce(
        &mut self,
        announcement: &Announcement,
        own_addr: Ipv4Addr,
    ) -> Result<(), OpenError> {
        if self.is_selective() {
            return Ok(());
        }
        self.requests.announce(announcement, own_addr, self.id, self.size, self.max_payload)
    }

    fn is_selective(&self) -> bool {
        self.subflows.iter().any(Subflow::is_selective)
    }

    /// Returns whether a subflow has a packet to send and may send it.
    pub(super) fn may_send(&self, index: usize) -> bool {
        let Some(subflow) = self.subflows.get(index).filter(|_| self.requests.allows_send()) else {
            return false;
        };
        if subflow.has_retransmission() {
            return true;
        }
        // The span of unacknowledged bytes of the message is bounded too, so that its 32-bit offsets on the wire stay
        // unambiguous.
        let has_data = !self.reinject.is_empty()
            || self.next_offset < self.size && self.next_offset - self.acked_ranges.prefix_end() < MAX_WINDOW;
        has_data && subflow.can_send_new() && self.is_active(index)
    }

    /// Returns whether a subflow may send data that is new to it: the scheme allows it, or every subflow that the
    /// scheme allows is dead.
    fn is_active(&self, index: usize) -> bool {
        if self.subflows.len() == 1 {
            return true;
        }
        let is_usable = |index: usize| self.control.is_active(index) && !self.subflows[index].is_dead();
        is_usable(index) || !self.subflows[index].is_dead() && !(0..self.subflows.len()).any(is_usable)
    }

    /// Handles an acknowledgement on subflow `index`, see [`Subflow::acknowledge`].
    pub(super) fn acknowledge(&mut self, index: usize, now: Time, wire_seq: u32, echo: u32) -> AckOutcome {
        let OutboundMessage { subflows, acked_ranges, acked_bytes, .. } = self;
        let subflow = &mut subflows[index];
        // Both subflows of a reinjected byte may acknowledge it; `insert` returns only the bytes that are new.
        let on_acked = |start, end| *acked_bytes += acked_ranges.insert(start, end);
        let outcome = subflow.acknowledge(now, wire_seq, echo, on_acked);
        if matches!(outcome, AckOutcome::Acked { new_bytes: 1.. }) {
            let waits_for_credits = self.requests.uses_credits() && subflow.nxt() < self.size;
            subflow.restart_timer(now, waits_for_credits);
        }
        self.trim_reinject();
        outcome
    }

    /// Handles the credit `number`. Returns whether the credit was accepted.
    pub(super) fn accept_credit(&mut self, number: u32) -> bool {
        let has_bytes_to_send = self.subflows[0].nxt() < self.size;
        self.requests.accept_credit(number, has_bytes_to_send)
    }

    /// Called when the retransmission timer of subflow `index` expires. Returns the reason to give up the message: the
    /// peer has lost it, or has acknowledged nothing on any subflow for `user_timeout`. `None` to go on.
    pub(super) fn failure_on_timeout(
        &self,
        index: usize,
        now: Time,
        user_timeout: Time,
    ) -> Option<FlowError> {
        if self.subflows[index].has_peer_lost_message() {
            return Some(FlowError::ForgottenByReceiver);
        }
        (self.give_up_at(user_timeout) <= now).then_some(FlowError::Unanswered { after: user_timeout })
    }

    /// Returns the time at which nothing will have been acknowledged on any subflow for `user_timeout`.
    fn give_up_at(&self, user_timeout: Time) -> Time {
        let since = self.subflows.iter().map(Subflow::waiting_since).max();
        since.unwrap_or(self.start).saturating_add(user_timeout)
    }

    /// Handles a retransmission timeout of subflow `index`; see [`Subflow::on_rto`] for the return value. If the path
    /// now counts as dead, the other subflows send its unacknowledged bytes too, as in MPTCP (RFC 8684 §3.3.6). The
    /// dead subflow goes on retransmitting.
    pub(super) fn on_rto(&mut self, index: usize, now: Time, user_timeout: Time) -> Option<u64> {
        let give_up_at = self.give_up_at(user_timeout);
        let has_others = self.subflows.len() > 1;
        let subflow = &mut self.subflows[index];
        let was_dead = subflow.is_dead();
        let snd_nxt = subflow.on_rto(now, give_up_at);
        if has_others && subflow.is_dead() && !was_dead {
            self.reinject.extend(subflow.unacknowledged());
            self.trim_reinject();
        }
        self.requests.on_rto();
        snd_nxt
    }

    /// Removes acknowledged bytes from the front of `reinject`.
    fn trim_reinject(&mut self) {
        while let Some((start, end)) = self.reinject.front_mut() {
            if let Some((first_missing, _)) = self.acked_ranges.first_missing(*start, *end) {
                *start = first_missing;
                break;
            }
            self.reinject.pop_front();
        }
    }

    /// Writes the headers of the next DATA packet of subflow `index`. Call only if [`may_send`](Self::may_send)
    /// returned true.
    pub(super) fn emit(
        &mut self,
        departure: &Departure,
        index: usize,
        out: &mut [u8; HEADERS_LEN],
    ) -> Option<Segment> {
        let subflow = self.subflows.get_mut(index)?;
        let mut segment = if subflow.has_retransmission() {
            subflow.next_retransmission(self.size)?
        } else if let Some((start, end)) = self.reinject.front_mut() {
            let until = self.acked_ranges.first_missing(*start, *end).map_or(*end, |(_, until)| until);
            let segment = subflow.next_new_segment(*start, until);
            *start = segment.end();
            subflow.retransmits += 1;
            Segment { is_retransmission: true, ..segment }
        } else {
            subflow.next_new_segment(self.next_offset, self.size)
        };
        self.next_offset = self.next_offset.max(segment.end());
        let request = self.requests.flags(subflow.una(), segment.seq, segment.payload);
        segment.flags |= request.flags;
        segment.requests_congested_only = request.is_congested_only;
        if segment.end() == self.size {
            segment.flags |= Flags::END;
        }
        // The grant field carries the offset in the message, or the number of the credit that the packet spends.
        let grant = match subflow.is_selective() {
            true => Some(segment.message_offset as u32),
            false => self.requests.spend_credit(),
        };
        subflow.emit(departure, &segment, grant, out);
        self.trim_reinject();
        Some(segment)
    }

    /// Writes the headers of a probe.
    pub(super) fn emit_probe(&mut self, now: Time, index: usize, out: &mut [u8; HEADERS_LEN]) {
        let subflow = &mut self.subflows[index];
        if self.requests.uses_credits() {
            subflow.arm_rto(now);
        }
        subflow.emit_probe(now, self.requests.start_probe(now), out);
    }

    /// Applies a scheme change. `control` is the new sender half; `None` keeps the present one, because the new scheme
    /// does not control several subflows. `previous_rtt` is the base RTT before the change.
    pub(super) fn reconfigure(
        &mut self,
        now: Time,
        previous_rtt: Time,
        needs: &Needs,
        resolved: &ResolvedTransport,
        control: Option<Box<dyn MultipathSender>>,
    ) {
        self.max_payload = resolved.max_payload;
        self.requests.update_for_scheme(needs.telemetry);
        for subflow in &mut self.subflows {
            subflow.update_for_scheme(needs, resolved);
        }
        let Some(control) = control else { return };
        self.control = control;
        for index in 0..self.subflows.len() {
            let previous = self.subflows[index].current_decision();
            let decision = self.control.resume(index, now, &SendingRate::of(&previous, previous_rtt));
            self.apply_decision(index, decision);
        }
    }

    /// Applies the scheme's decision for subflow `index`. Returns true if the scheme suppresses some subflows now and
    /// did not before.
    pub(super) fn apply_decision(&mut self, index: usize, decision: Decision) -> bool {
        if let Some(subflow) = self.subflows.get_mut(index) {
            subflow.apply(decision);
        }
        let is_suppressing =
            self.subflows.len() > 1 && (0..self.subflows.len()).any(|index| !self.control.is_active(index));
        let was_suppressing = std::mem::replace(&mut self.has_suppressed_subflows, is_suppressing);
        is_suppressing && !was_suppressing
    }

    /// Returns the sending rate that the windows of the active subflows allow. `base_rtt` stands for the RTT of a
    /// subflow without a sample.
    fn window_rate(&self, base_rtt: Time) -> Bandwidth {
        let active = (0..self.subflows.len()).filter(|&index| self.is_active(index));
        let rate = |index: usize| {
            let subflow = &self.subflows[index];
            // On a wire without delay a sample may be 0; the shortest RTT that the timestamps resolve is 1 ns.
            let rtt = subflow.rtt.unwrap_or(base_rtt).max(Time::from_ns(1));
            subflow.window() as f64 * 8.0 / rtt.as_secs_f64()
        };
        Bandwidth::from_bps_f64(active.map(rate).sum())
    }

    /// `base_rtt` is the RTT of subflows without a sample.
    pub(super) fn info(&self, base_rtt: Time) -> FlowInfo {
        let sum = |value: fn(&Subflow) -> u64| Bytes::new(self.subflows.iter().map(value).sum());
        let active = (0..self.subflows.len()).filter(|&index| self.is_active(index));
        let first = self.subflows.first();
        let rate = self.subflows.iter().map(Subflow::rate).max().unwrap_or(Bandwidth::ZERO);
        FlowInfo {
            message: self.id,
            peer: self.peer,
            start: self.start,
            size: (self.size != UNBOUNDED).then_some(Bytes::new(self.size)),
            rate,
            sending_rate: match self.control.is_window_based() {
                true => rate.min(self.window_rate(base_rtt)),
                false => rate,
            },
            window: Bytes::new(active.map(|index| self.subflows[index].window()).sum()),
            inflight: sum(Subflow::inflight),
            acked: Bytes::new(self.acked_bytes),
            sent: Bytes::new(self.next_offset),
            retransmits: self.retransmits(),
            rtt: first.and_then(|subflow| subflow.rtt),
            ack_path: first.map_or(0, |subflow| subflow.ack_path),
            data_path: first.and_then(|subflow| subflow.data_path),
            timeout: self.subflows.iter().filter_map(Subflow::rto_at).min(),
        }
    }

    pub(super) fn subflow_info(&self, index: usize) -> Option<SubflowInfo> {
        Some(self.subflows.get(index)?.info(self.is_active(index)))
    }
}

/// Returns the headers of the full DATA packets of a message, with `tokens` deflection tokens.
pub(super) fn data_repr(
    config: &HostConfig,
    spec: &FlowSpec,
    needs: &Needs,
    tokens: u8,
    payload_len: u32,
) -> FrameRepr {
    // A message of unknown size is not short.
    let is_at_most = |max_size| spec.size.is_some_and(|size| size <= max_size);
    let is_express = needs.express_max_size.is_some_and(is_at_most);
    FrameRepr {
        source_mac: config.mac,
        destination_mac: spec.next_hop_mac,
        source: config.addr,
        destination: spec.peer,
        dscp: config.data_class,
        ecn: needs.data_ecn(),
        entropy_port: spec.entropy_port,
        weir: WeirRepr {
            flags: if is_express { Flags::EXPRESS } else { Flags::NONE },
            tokens,
            format: needs.records,
            message: spec.message,
            ..WeirRepr::of(PacketKind::Data)
        },
        payload_len,
    }
}
