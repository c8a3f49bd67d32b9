use super::sending::Connection;
use super::subflow::Acked;
use crate::config::{HostConfig, Resolved};
use crate::event::{FlowSpec, FlowView, HostEvent, OpenError, SubflowView};
use crate::lane::Lane;
use crate::scheme::{AckEvent, FlowParams, LossEvent, LossKind, MAX_SUBFLOWS, Needs};
use crate::slab::{Key, Slab};
use crate::stats::{DropReason, HostStats};
use crate::telemetry::Telemetry;
use crate::transport::deadlines::Deadlines;
use crate::transport::flow::stamp;
use crate::transport::lanes::Lanes;
use crate::transport::{Departure, IdMap, echoed_path, opening};
use crate::wire::{Flags, FrameView, HEADERS_LEN, Kind, MAX_HEAD};
use std::collections::VecDeque;
use weir_units::{Bytes, Time};

/// All outgoing messages, over one or several subflows each.
///
/// A subflow that may send now waits in `ready`, one that pacing holds back in `paced`, and one without
/// room in its window, or without anything to send, in neither. The subflow whose turn it is takes the next bytes
/// of its message: round robin over the subflows with room (AMP-CODE, `getSubflowToUse`).
#[derive(Debug)]
pub(crate) struct Outbound {
    connections: Slab<Connection>,
    by_message: IdMap<u32, u32>,
    ready: Lanes<(Key, u8)>,
    paced: Deadlines,
    /// Retransmission and scheme timers, never later than a subflow's deadline, but maybe earlier.
    timers: Deadlines,
    needs: Needs,
    params: FlowParams,
    subflows: u8,
}

/// A subflow among all of them, for [`Deadlines`].
fn place(slot: u32, index: usize) -> u32 {
    slot * u32::from(MAX_SUBFLOWS) + index as u32
}

fn subflow_at(place: u32) -> (u32, usize) {
    (place / u32::from(MAX_SUBFLOWS), (place % u32::from(MAX_SUBFLOWS)) as usize)
}

impl Outbound {
    pub fn new(config: &HostConfig, resolved: &Resolved) -> Outbound {
        Outbound {
            connections: Slab::default(),
            by_message: IdMap::default(),
            ready: Lanes::new(),
            paced: Deadlines::default(),
            timers: Deadlines::default(),
            needs: config.scheme.needs(),
            params: config.flow_params(resolved.payload),
            subflows: config.scheme.needs().transport.subflows,
        }
    }

    pub fn open(
        &mut self,
        now: Time,
        spec: &FlowSpec,
        config: &HostConfig,
        resolved: &Resolved,
    ) -> Result<Key, OpenError> {
        opening::check(spec, &self.by_message)?;
        let repr = opening::data_repr(config, spec, &self.needs, 0, resolved.payload);
        let control = config.scheme.coupled(&self.params);
        let connection = Connection::new(now, spec, repr, resolved, self.subflows, control);
        let key = self.connections.insert(connection);
        self.by_message.insert(spec.message, key.slot);
        self.reschedule_all(now, key.slot);
        Ok(key)
    }

    /// Changes the scheme. Each subflow of a running message continues at its present sending rate. A message keeps its
    /// number of subflows, and its control law if the new one needs another number of them.
    pub fn adopt(&mut self, now: Time, from_rtt: Time, config: &HostConfig, resolved: &Resolved) {
        self.needs = config.scheme.needs();
        self.params = config.flow_params(resolved.payload);
        self.subflows = config.scheme.needs().transport.subflows;
        for slot in self.connections.slots() {
            let Some(connection) = self.connections.at_mut(slot) else { continue };
            let law = (connection.subflows.len() == usize::from(self.subflows))
                .then(|| config.scheme.coupled(&self.params));
            connection.adopt(now, from_rtt, &self.needs, resolved.payload, law);
            self.reschedule_all(now, slot);
        }
    }

    pub fn stop(&mut self, now: Time, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.stop();
            self.reschedule_all(now, key.slot);
        }
    }

    pub fn view(&self, key: Key) -> Option<FlowView> {
        self.connections.get(key).map(Connection::view)
    }

    pub fn subflow(&self, key: Key, index: usize) -> Option<SubflowView> {
        self.connections.get(key)?.subflow_view(index)
    }

    pub fn len(&self) -> usize {
        self.connections.len()
    }

    fn reschedule_all(&mut self, now: Time, slot: u32) {
        let count = self.connections.at(slot).map_or(0, |connection| connection.subflows.len());
        for index in 0..count {
            self.reschedule(now, slot, index);
        }
    }

    /// Puts a subflow where it belongs after something about it changed.
    fn reschedule(&mut self, now: Time, slot: u32, index: usize) {
        let Some(connection) = self.connections.at_mut(slot) else { return };
        let (may_send, lane) = (connection.may_send(index), connection.lane());
        let Some(subflow) = connection.subflows.get_mut(index) else { return };
        let place = place(slot, index);
        if let Some(deadline) = subflow.deadline()
            && self.timers.get(place).is_none_or(|at| at > deadline)
        {
            self.timers.set(place, deadline);
        }
        if subflow.queued {
            // Looked at again when its turn comes.
            return;
        }
        if !may_send {
            self.paced.remove(place);
        } else if subflow.next_avail() <= now {
            subflow.queued = true;
            self.paced.remove(place);
            self.ready.push(lane, (self.connections.key(slot), index as u8));
        } else if self.paced.get(place) != Some(subflow.next_avail()) {
            self.paced.set(place, subflow.next_avail());
        }
    }

    /// Moves subflows whose pacing gap is over to `ready`.
    fn release(&mut self, now: Time) {
        while let Some(place) = self.paced.pop_due(now) {
            let (slot, index) = subflow_at(place);
            self.reschedule(now, slot, index);
        }
    }

    /// Writes the head of the next DATA packet.
    pub fn transmit(
        &mut self,
        now: Time,
        is_paused: impl Fn(Lane) -> bool,
        out: &mut [u8; MAX_HEAD],
        stats: &mut HostStats,
    ) -> Option<Departure> {
        self.release(now);
        self.ready.pause(is_paused);
        let out = out.first_chunk_mut::<HEADERS_LEN>()?;
        while let Some((key, index)) = self.ready.pop() {
            let index = usize::from(index);
            // A connection may have finished, or a subflow lost its room or its turn, since it was queued.
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let (may_send, lane) = (connection.may_send(index), connection.lane());
            let Some(subflow) = connection.subflows.get_mut(index) else { continue };
            subflow.queued = false;
            if may_send
                && subflow.next_avail() <= now
                && let Some(segment) = connection.emit(now, index, out)
            {
                stats.data_sent += 1;
                stats.payload_sent += u64::from(segment.payload);
                stats.retransmits += u64::from(segment.again);
                self.reschedule(now, key.slot, index);
                return Some(Departure { key, lane, head_len: HEADERS_LEN, payload: segment.payload });
            }
            self.reschedule(now, key.slot, index);
        }
        None
    }

    /// Returns the time at which [`wakeup`](Self::wakeup) is due.
    pub fn next_wakeup(&self) -> Option<Time> {
        match (self.paced.next(), self.timers.next()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Releases paced subflows and does what timers are for.
    pub fn wakeup(&mut self, now: Time, stats: &mut HostStats) {
        self.release(now);
        while let Some(place) = self.timers.pop_due(now) {
            let (slot, index) = subflow_at(place);
            let Some(connection) = self.connections.at_mut(slot) else { continue };
            let lane = connection.lane();
            let Some(subflow) = connection.subflows.get_mut(index) else { continue };
            let mut changed = None;
            if subflow.is_timed_out(now) {
                if self.ready.is_paused(lane) {
                    // A pause is not a loss: nothing could leave, so nothing could be acknowledged.
                    subflow.wait_again(now);
                } else {
                    let seq = subflow.una();
                    let snd_nxt = connection.time_out(index, now);
                    stats.timeouts += 1;
                    let loss = LossEvent { now, kind: LossKind::Timeout, seq, snd_nxt };
                    changed = Some(connection.control.on_loss(index, &loss));
                }
            }
            if connection.subflows[index].take_scheme_timer(now) {
                changed = Some(connection.control.on_timer(index, now));
            }
            if let Some(decision) = changed {
                stats.suppressions += u64::from(connection.apply(index, decision));
            }
            self.reschedule_all(now, slot);
        }
    }

    /// An ACK or a CNP came in. On error nothing has changed.
    pub fn feedback(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        stats: &mut HostStats,
        events: &mut VecDeque<HostEvent>,
    ) -> Result<(), DropReason> {
        let weir = &frame.weir;
        let slot = *self.by_message.get(&weir.message()).ok_or(DropReason::UnknownFlow)?;
        let connection = self.connections.at_mut(slot).ok_or(DropReason::UnknownFlow)?;
        let index = usize::from(weir.subflow());
        let start = connection.start();
        let is_peer = frame.ip.source() == connection.peer();
        let Some(subflow) = connection.subflows.get(index) else { return Err(DropReason::WrongPeer) };
        if !is_peer || frame.entropy_port() != subflow.entropy_port() {
            return Err(DropReason::WrongPeer);
        }
        let decision = match weir.kind() {
            Kind::Cnp => {
                stats.cnps_received += 1;
                connection.control.on_cnp(index, now)
            }
            Kind::Ack => {
                let acked = connection.acknowledge(index, now, weir.seq(), weir.stamp());
                let subflow = &mut connection.subflows[index];
                let (acked, lost) = match acked {
                    Acked::Bytes(acked) => (acked, false),
                    Acked::Lost => (0, true),
                    Acked::BeyondSent => return Err(DropReason::AckBeyondSent),
                    Acked::Stale => {
                        stats.stale_feedback += 1;
                        return Ok(());
                    }
                };
                stats.acks_received += 1;
                // The stamp is ours if the flow existed then.
                let rtt = Time::from_ns(u64::from(stamp(now).wrapping_sub(weir.stamp())));
                let rtt = (rtt <= now.saturating_sub(start)).then_some(rtt);
                if let Some(rtt) = rtt.filter(|_| acked > 0) {
                    subflow.sample(rtt);
                }
                let data_path = echoed_path(weir.grant());
                subflow.ack_path = weir.path_id();
                subflow.data_path = (!self.needs.grant).then_some(data_path);
                let (seq, snd_nxt, repair) = (subflow.una(), subflow.nxt(), subflow.repair);
                if connection.is_finished() {
                    self.finish(now, slot, events);
                    return Ok(());
                }
                let ack = AckEvent {
                    now,
                    seq,
                    acked: Bytes::new(acked),
                    snd_nxt,
                    rtt,
                    ecn_echo: weir.flags().has(Flags::ECN_ECHO),
                    concurrency: weir.concurrency(),
                    grant: weir.grant(),
                    path_id: 0,
                    data_path: 0,
                    telemetry: &Telemetry::EMPTY,
                };
                let decision = connection.control.on_ack(index, repair, &ack, &mut stats.telemetry);
                if lost {
                    stats.fast_retransmits += 1;
                    let loss = LossEvent { now, kind: LossKind::Nack, seq, snd_nxt };
                    connection.control.on_loss(index, &loss)
                } else {
                    decision
                }
            }
            _ => return Err(DropReason::UnexpectedKind),
        };
        stats.suppressions += u64::from(connection.apply(index, decision));
        self.reschedule_all(now, slot);
        Ok(())
    }

    fn finish(&mut self, now: Time, slot: u32, events: &mut VecDeque<HostEvent>) {
        let key = self.connections.key(slot);
        let Some(connection) = self.connections.remove(slot) else { return };
        self.by_message.remove(&connection.message());
        for index in 0..connection.subflows.len() {
            self.paced.remove(place(slot, index));
            self.timers.remove(place(slot, index));
        }
        events.push_back(HostEvent::FlowFinished {
            flow: crate::FlowId(key),
            message: connection.message(),
            peer: connection.peer(),
            start: connection.start(),
            end: now,
            bytes: Bytes::new(connection.size()),
            retransmits: connection.retransmits(),
        });
    }
}
