use super::deadlines::Deadlines;
use super::id_map::IdMap;
use super::message::{OutboundMessage, data_repr};
use super::peers::PeerPacers;
use super::ready::ReadyQueues;
use super::requests::PacketRequests;
use super::subflow::Departure;
use crate::FlowId;
use crate::config::{HostConfig, ResolvedTransport};
use crate::event::{Announcement, FlowInfo, FlowSpec, HostEvent, OpenError, SubflowInfo};
use crate::port_algorithm::PortAlgorithm;
use crate::priority::Priority;
use crate::ring::Ring;
use crate::scheme::{
    Decision, Deflection, FlowParams, GaugeReporter, LossEvent, LossKind, LossRecovery, MAX_SUBFLOWS, Needs,
};
use crate::slab::{Key, Slab};
use crate::stats::HostStats;
use crate::wire::{HEADERS_LEN, MAX_HEADER_LEN};
use std::net::Ipv4Addr;
use weir_units::{Bytes, Time};

/// A frame to transmit: `head_len` bytes that were written to the buffer, followed by `payload_len` zero bytes.
#[derive(Debug)]
pub(crate) struct TxFrame {
    pub key: Key,
    pub priority: Priority,
    pub head_len: usize,
    pub payload_len: u32,
}

/// Length of the NIC's queue at most, in waits from which on packets are marked. Dart VI-A: packets are marked from a tenth of
/// the buffer on.
const MAX_BACKLOG: u64 = 10;

/// The sending half of a host's transport: all outgoing messages.
///
/// A subflow is in `ready`, or in `peers` until it is its turn, exactly if its `is_queued` flag is set. It is in `paced`
/// only if it may send but its pacing gap is not over. Otherwise it is in none, until an ACK, a credit or a timeout calls
/// [`reschedule`](Self::reschedule). Subflows in `ready` are served round robin, and each takes the next bytes of its
/// message (AMP's code, `getSubflowToUse`).
#[derive(Debug)]
pub(crate) struct Outbound {
    pub(super) messages: Slab<OutboundMessage>,
    /// Slots of the messages, by message id.
    pub(super) by_message: IdMap<u32, u32>,
    /// Messages and subflow indices that may send now.
    ready: ReadyQueues<(Key, u8)>,
    /// Ends of pacing gaps.
    paced: Deadlines,
    /// Receivers, if the scheme limits all messages to one of them.
    peers: PeerPacers,
    /// Retransmission and scheme timers. An entry is never later than the subflow's deadline but may be earlier:
    /// entries are only moved forward, so that an ACK costs no heap operation.
    timers: Deadlines,
    pub(super) needs: Needs,
    deflection: Option<Deflection>,
    pub(super) uses_credits: bool,
    params: FlowParams,
    /// Number of low bits of a timer id (`timer_id`) that hold the subflow's index; the other bits are the message's
    /// slot.
    index_bits: u32,
    /// Number of subflows of new messages.
    subflows: u8,
    /// Time after which an unanswered probe is sent again.
    probe_timeout: Time,
    user_timeout: Time,
}

impl Outbound {
    pub(crate) fn new(config: &HostConfig, resolved: &ResolvedTransport) -> Outbound {
        let needs = config.needs();
        Outbound {
            messages: Slab::default(),
            by_message: IdMap::default(),
            ready: ReadyQueues::new(),
            paced: Deadlines::default(),
            peers: PeerPacers::new(resolved.pacing_credit),
            timers: Deadlines::default(),
            needs,
            deflection: needs.deflection,
            uses_credits: matches!(
                config.scheme.port_algorithm(config.base_rtt),
                Some(PortAlgorithm::Credits(_))
            ),
            params: config.flow_params(resolved.max_payload),
            index_bits: match resolved.recovery {
                LossRecovery::GoBackN => 0,
                LossRecovery::Selective => MAX_SUBFLOWS.ilog2(),
            },
            subflows: needs.transport.subflows,
            probe_timeout: resolved.rto.initial,
            user_timeout: resolved.user_timeout,
        }
    }

    pub(crate) fn open(
        &mut self,
        now: Time,
        spec: &FlowSpec,
        config: &HostConfig,
        resolved: &ResolvedTransport,
    ) -> Result<Key, OpenError> {
        if self.by_message.contains_key(&spec.message) {
            return Err(OpenError::MessageInUse { message: spec.message });
        }
        if spec.size == Some(Bytes::ZERO) {
            return Err(OpenError::Empty { message: spec.message });
        }
        let tokens = self.deflection.map_or(0, |deflection| deflection.tokens_of(spec.size));
        let repr = data_repr(config, spec, &self.needs, tokens, resolved.max_payload);
        let requests = PacketRequests::new(self.needs.telemetry, self.uses_credits);
        let control = config.scheme.multipath_sender(&self.params);
        let message = OutboundMessage::new(now, spec, repr, resolved, self.subflows, requests, control);
        let key = self.messages.insert(message);
        self.by_message.insert(spec.message, key.slot);
        self.join_peer(now, key.slot);
        self.reschedule_all(now, key.slot);
        Ok(key)
    }

    /// Makes a message share the limit of its receiver, if the scheme has one.
    fn join_peer(&mut self, now: Time, slot: u32) {
        let Some(message) = self.messages.get_slot_mut(slot) else { return };
        message.peer_slot = self.needs.limits_peers.then(|| {
            let rate = message.control.peer_rate().unwrap_or(self.params.nic_rate);
            self.peers.join(now, message.peer(), rate)
        });
    }

    /// Applies the scheme's decision for a subflow after an event.
    pub(super) fn apply(
        &mut self,
        now: Time,
        slot: u32,
        index: usize,
        decision: Decision,
        stats: &mut HostStats,
    ) {
        let Some(message) = self.messages.get_slot_mut(slot) else { return };
        stats.suppressions += u64::from(message.apply_decision(index, decision));
        if let Some(peer) = message.peer_slot
            && let Some(rate) = message.control.peer_rate()
        {
            self.peers.set_rate(peer, rate);
        }
        self.reschedule_all(now, slot);
    }

    /// Applies a scheme change. Each subflow of a message in progress continues at its effective sending rate, computed
    /// with the previous base RTT. A message keeps its number of subflows. It keeps its sender half only if that has
    /// several and the new scheme controls a single one. A policy that would change loss recovery or the use of credits is refused before
    /// (`check_applicable`), so the fields for these stay.
    pub(crate) fn reconfigure(
        &mut self,
        now: Time,
        previous_rtt: Time,
        config: &HostConfig,
        resolved: &ResolvedTransport,
    ) {
        self.needs = config.needs();
        self.deflection = self.needs.deflection;
        self.params = config.flow_params(resolved.max_payload);
        self.subflows = self.needs.transport.subflows;
        self.probe_timeout = resolved.rto.initial;
        for (key, index) in self.peers.clear() {
            if let Some(message) = self.messages.get(key) {
                self.ready.push(message.priority(), (key, index));
            }
        }
        for slot in self.messages.slots() {
            let Some(message) = self.messages.get_slot_mut(slot) else { continue };
            let subflows = message.subflows.len();
            let params = FlowParams { subflows: Some(subflows as u8), ..self.params };
            let control = Some(config.scheme.multipath_sender(&params));
            let control = control.filter(|control| control.subflows() == subflows);
            message.reconfigure(now, previous_rtt, &self.needs, resolved, control);
            self.join_peer(now, slot);
            self.reschedule_all(now, slot);
        }
    }

    pub(crate) fn announce(
        &mut self,
        key: Key,
        announcement: &Announcement,
        own_addr: Ipv4Addr,
    ) -> Result<(), OpenError> {
        self.messages.get_mut(key).map_or(Ok(()), |message| message.announce(announcement, own_addr))
    }

    pub(crate) fn stop(&mut self, now: Time, key: Key) {
        if let Some(message) = self.messages.get_mut(key) {
            message.stop();
            self.reschedule_all(now, key.slot);
        }
    }

    pub(crate) fn info(&self, key: Key) -> Option<FlowInfo> {
        let message = self.messages.get(key)?;
        let info = message.info(self.params.base_rtt);
        let limit = message.peer_slot.and_then(|peer| self.peers.rate(peer)).unwrap_or(info.rate);
        Some(FlowInfo { rate: info.rate.min(limit), sending_rate: info.sending_rate.min(limit), ..info })
    }

    pub(crate) fn subflow_info(&self, key: Key, index: usize) -> Option<SubflowInfo> {
        self.messages.get(key)?.subflow_info(index)
    }

    pub(crate) fn gauges(&self, key: Key, report: &mut GaugeReporter<'_>) {
        if let Some(message) = self.messages.get(key) {
            message.control.gauges(report);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the id of a subflow in `paced` and `timers`.
    fn timer_id(&self, slot: u32, index: usize) -> u32 {
        slot << self.index_bits | index as u32
    }

    /// Returns the message slot and the subflow index of a timer id.
    fn subflow_of_timer(&self, timer_id: u32) -> (u32, usize) {
        let slot = timer_id >> self.index_bits;
        (slot, (timer_id ^ slot << self.index_bits) as usize)
    }

    /// Calls [`reschedule`](Self::reschedule) for all subflows of a message.
    pub(super) fn reschedule_all(&mut self, now: Time, slot: u32) {
        let count = self.messages.get_slot(slot).map_or(0, |message| message.subflows.len());
        for index in 0..count {
            self.reschedule(now, slot, index);
        }
    }

    /// Updates timers and queues of a subflow. Called after anything that may change whether or when it may send.
    fn reschedule(&mut self, now: Time, slot: u32, index: usize) {
        let timer_id = self.timer_id(slot, index);
        let Some(message) = self.messages.get_slot_mut(slot) else { return };
        let (may_send, priority) = (message.may_send(index), message.priority());
        let Some(subflow) = message.subflows.get_mut(index) else { return };
        if let Some(deadline) = subflow.deadline()
            && self.timers.get(timer_id).is_none_or(|at| at > deadline)
        {
            self.timers.set(timer_id, deadline);
        }
        if subflow.is_queued {
            // `transmit` checks the subflow again when it is popped.
            return;
        }
        subflow.set_blocked(now, !may_send);
        if !may_send {
            self.paced.remove(timer_id);
        } else if subflow.next_departure() <= now {
            subflow.is_queued = true;
            self.paced.remove(timer_id);
            let peer = message.peer_slot.filter(|&peer| !self.peers.is_free(peer, now));
            let entry = (self.messages.key(slot), index as u8);
            match peer {
                Some(peer) => self.peers.wait(peer, entry),
                None => self.ready.push(priority, entry),
            }
        } else if self.paced.get(timer_id) != Some(subflow.next_departure()) {
            self.paced.set(timer_id, subflow.next_departure());
        }
    }

    /// Moves the subflows whose pacing gap is over to `ready`.
    fn release_paced(&mut self, now: Time) {
        while let Some(timer_id) = self.paced.pop_due(now) {
            let (slot, index) = self.subflow_of_timer(timer_id);
            self.reschedule(now, slot, index);
        }
        if self.needs.limits_peers {
            self.release_peers(now);
        }
    }

    /// Moves the subflows whose turn to a receiver has come to `ready`.
    fn release_peers(&mut self, now: Time) {
        while let Some((peer, (key, index))) = self.peers.pop_due(now) {
            match self.messages.get(key) {
                Some(message) => self.ready.push(message.priority(), (key, index)),
                None => self.peers.pass_turn(peer),
            }
        }
    }

    /// Writes the headers of the next DATA packet or probe, and its announcement if it carries one. Returns `None` if
    /// no subflow may send now.
    pub(crate) fn transmit(
        &mut self,
        now: Time,
        is_paused: impl Fn(Priority) -> bool,
        out: &mut [u8; MAX_HEADER_LEN],
        stats: &mut HostStats,
    ) -> Option<TxFrame> {
        self.release_paced(now);
        self.ready.set_paused(is_paused);
        let (out, announcement_out) = out.split_first_chunk_mut::<HEADERS_LEN>()?;
        while let Some((key, index)) = self.ready.pop() {
            let index = usize::from(index);
            // Entries are not removed from `ready`: since it was queued, the message may have finished, or the
            // subflow lost its window or its permission to send.
            let Some(message) = self.messages.get_mut(key) else { continue };
            let (may_send, priority) = (message.may_send(index), message.priority());
            let Some(subflow) = message.subflows.get_mut(index) else { continue };
            subflow.is_queued = false;
            let peer_slot = message.peer_slot;
            let peer_free_at = peer_slot.map_or(Time::ZERO, |peer| self.peers.next_departure(peer));
            let free_at = subflow.next_departure().max(peer_free_at);
            let mut frame = None;
            if may_send && free_at <= now {
                let departure = departure(now, free_at, self.needs.source_marking);
                if message.requests.is_probe_due(now, self.params.base_rtt, self.probe_timeout) {
                    message.emit_probe(now, index, out);
                    stats.probes_sent += 1;
                    frame = Some(TxFrame { key, priority, head_len: HEADERS_LEN, payload_len: 0 });
                } else if let Some(segment) = message.emit(&departure, index, out) {
                    let requests = &message.requests;
                    let announcement_len =
                        requests.write_announcement(segment.seq, segment.payload, announcement_out);
                    stats.data_sent += 1;
                    stats.payload_sent += u64::from(segment.payload);
                    stats.retransmits += u64::from(segment.is_retransmission);
                    if let Some(peer) = peer_slot {
                        self.peers.on_sent(peer, departure.due, segment.frame_len());
                    }
                    let head_len = HEADERS_LEN + announcement_len;
                    // The announcement is the start of the payload, but is written like a header.
                    let payload_len = segment.payload - announcement_len as u32;
                    frame = Some(TxFrame { key, priority, head_len, payload_len });
                }
            }
            self.reschedule(now, key.slot, index);
            if frame.is_some() {
                return frame;
            }
            if let Some(peer) = peer_slot {
                self.peers.pass_turn(peer);
            }
        }
        None
    }

    /// Returns the time at which to call [`wakeup`](Self::wakeup) next; `None` if no timer is armed.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        let own = Time::earliest(self.paced.earliest(), self.timers.earliest());
        if self.needs.limits_peers { Time::earliest(own, self.peers.earliest()) } else { own }
    }

    /// Releases paced subflows and handles the timers that expired.
    pub(crate) fn wakeup(&mut self, now: Time, stats: &mut HostStats, events: &mut Ring<HostEvent>) {
        self.release_paced(now);
        // The entry may be earlier than the real deadline: `is_timed_out` and `take_scheme_timer` check, and
        // `reschedule_all` sets the later one.
        while let Some(timer_id) = self.timers.pop_due(now) {
            let (slot, index) = self.subflow_of_timer(timer_id);
            let Some(message) = self.messages.get_slot_mut(slot) else { continue };
            let priority = message.priority();
            let Some(subflow) = message.subflows.get_mut(index) else { continue };
            let seq = subflow.una();
            if subflow.is_timed_out(now) {
                if self.ready.is_paused(priority) {
                    // A pause is not a loss: nothing could leave, so nothing could be acknowledged.
                    subflow.restart_wait_and_rto(now);
                } else if let Some(error) = message.failure_on_timeout(index, now, self.user_timeout) {
                    let Some((key, message)) = self.remove(slot) else { continue };
                    events.push_back(HostEvent::FlowFailed {
                        flow: FlowId(key),
                        message: message.id(),
                        end: now,
                        acked: Bytes::new(message.acked_bytes()),
                        retransmits: message.retransmits(),
                        error,
                    });
                    continue;
                } else if let Some(snd_nxt) = message.on_rto(index, now, self.user_timeout) {
                    stats.timeouts += 1;
                    let loss = LossEvent { now, kind: LossKind::Timeout, seq, snd_nxt };
                    let decision = message.control.on_loss(index, &loss);
                    stats.suppressions += u64::from(message.apply_decision(index, decision));
                }
            }
            if message.subflows[index].take_scheme_timer(now) {
                let decision = message.control.on_timer(index, now);
                stats.suppressions += u64::from(message.apply_decision(index, decision));
            }
            self.reschedule_all(now, slot);
        }
    }

    /// Removes a message and its timers.
    pub(super) fn remove(&mut self, slot: u32) -> Option<(Key, OutboundMessage)> {
        let key = self.messages.key(slot);
        let message = self.messages.remove(slot)?;
        self.by_message.remove(&message.id());
        if let Some(peer) = message.peer_slot {
            self.peers.leave(peer);
        }
        for index in 0..message.subflows.len() {
            let timer_id = self.timer_id(slot, index);
            self.paced.remove(timer_id);
            self.timers.remove(timer_id);
        }
        Some((key, message))
    }
}

/// Returns how a frame departs that could have left at `free_at` if the NIC had been idle. Hosts that mark
/// ([`Needs::source_marking`]) behave as if the frame had waited in a queue of the NIC: the gap behind it began when it was
/// due, so its successor may make up for the wait.
fn departure(now: Time, free_at: Time, source_marking: Option<Time>) -> Departure {
    let Some(max_wait) = source_marking else { return Departure { now, due: now, is_marked: false } };
    let wait = now.saturating_sub(free_at);
    Departure { now, due: now.saturating_sub(wait.min(max_wait * MAX_BACKLOG)), is_marked: wait >= max_wait }
}
