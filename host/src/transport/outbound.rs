use super::deadlines::Deadlines;
use super::flow::{Acked, Flow, stamp};
use super::lanes::Lanes;
use super::{IdMap, echoed_path, opening};
use crate::config::{HostConfig, Resolved};
use crate::event::{FlowSpec, FlowView, HostEvent, OpenError};
use crate::lane::Lane;
use crate::law::{GRANT_UNIT_BPS, PortLaw};
use crate::scheme::{AckEvent, Deflection, FlowParams, LossEvent, LossKind, Needs, RateEvent, TelemetryOn};
use crate::slab::{Key, Slab};
use crate::stats::{DropReason, HostStats};
use crate::telemetry::Telemetry;
use crate::wire::{Flags, FrameView, HEADERS_LEN, Kind, MAX_HEAD};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Bytes, Time};

/// A frame that leaves: the bytes of its head that were written, and the zeros that follow.
#[derive(Debug)]
pub(crate) struct Departure {
    pub key: Key,
    pub lane: Lane,
    pub head_len: usize,
    pub payload: u32,
}

/// All outgoing messages.
///
/// A flow that may send now waits in `ready`, one that pacing holds back in `paced`, and one without
/// room in its window in neither: an ACK brings it back.
#[derive(Debug)]
pub(crate) struct Outbound {
    flows: Slab<Flow>,
    by_message: IdMap<u32, u32>,
    ready: Lanes<Key>,
    paced: Deadlines,
    /// Retransmission and scheme timers. A flow's entry is never later than its deadline, but may
    /// be earlier, so that an ACK need not touch it.
    timers: Deadlines,
    needs: Needs,
    deflection: Option<Deflection>,
    credited: bool,
    params: FlowParams,
    rto: Time,
}

impl Outbound {
    pub fn new(config: &HostConfig, resolved: &Resolved) -> Outbound {
        Outbound {
            flows: Slab::default(),
            by_message: IdMap::default(),
            ready: Lanes::new(),
            paced: Deadlines::default(),
            timers: Deadlines::default(),
            needs: config.scheme.needs(),
            deflection: config.scheme.needs().deflection,
            credited: matches!(config.scheme.port_law(config.base_rtt), Some(PortLaw::Credits(_))),
            params: config.flow_params(resolved.payload),
            rto: resolved.rto,
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
        let tokens = self.deflection.map_or(0, |it| it.tokens_of(spec.size));
        let repr = opening::data_repr(config, spec, &self.needs, tokens, resolved.payload);
        let sender = config.scheme.sender(&self.params);
        let key = self.flows.insert(Flow::new(
            now,
            spec,
            repr,
            resolved,
            self.needs.telemetry,
            self.credited,
            sender,
        ));
        self.by_message.insert(spec.message, key.slot);
        self.reschedule(now, key.slot);
        Ok(key)
    }

    /// Changes the scheme. Each running message continues at its present sending rate, converted with the base RTT so
    /// far.
    pub fn adopt(&mut self, now: Time, from_rtt: Time, config: &HostConfig, resolved: &Resolved) {
        self.needs = config.scheme.needs();
        self.deflection = config.scheme.needs().deflection;
        self.params = config.flow_params(resolved.payload);
        self.rto = resolved.rto;
        for slot in self.flows.slots() {
            let Some(flow) = self.flows.at_mut(slot) else { continue };
            let sender = config.scheme.sender(&self.params);
            flow.adopt(now, from_rtt, &self.needs, resolved.payload, sender);
            self.reschedule(now, slot);
        }
    }

    pub fn announce(&mut self, key: Key, senders: &[Ipv4Addr]) -> Result<(), OpenError> {
        self.flows.get_mut(key).map_or(Ok(()), |flow| flow.announce(senders))
    }

    pub fn stop(&mut self, now: Time, key: Key) {
        if let Some(flow) = self.flows.get_mut(key) {
            flow.stop();
            self.reschedule(now, key.slot);
        }
    }

    pub fn view(&self, key: Key) -> Option<FlowView> {
        self.flows.get(key).map(Flow::view)
    }

    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Puts a flow where it belongs after something about it changed.
    fn reschedule(&mut self, now: Time, slot: u32) {
        let Some(flow) = self.flows.at_mut(slot) else { return };
        if let Some(deadline) = flow.deadline()
            && self.timers.get(slot).is_none_or(|at| at > deadline)
        {
            self.timers.set(slot, deadline);
        }
        if flow.queued {
            // Looked at again when its turn comes.
            return;
        }
        if !flow.has_room() {
            self.paced.remove(slot);
        } else if flow.next_avail() <= now {
            flow.queued = true;
            self.paced.remove(slot);
            self.ready.push(flow.lane(), self.flows.key(slot));
        } else if self.paced.get(slot) != Some(flow.next_avail()) {
            self.paced.set(slot, flow.next_avail());
        }
    }

    /// Moves flows whose pacing gap is over to `ready`.
    fn release(&mut self, now: Time) {
        while let Some(slot) = self.paced.pop_due(now) {
            self.reschedule(now, slot);
        }
    }

    /// Writes the head of the next DATA packet, or of a probe where one is due: round robin over the
    /// flows that may send.
    pub fn transmit(
        &mut self,
        now: Time,
        is_paused: impl Fn(Lane) -> bool,
        out: &mut [u8; MAX_HEAD],
        stats: &mut HostStats,
    ) -> Option<Departure> {
        self.release(now);
        self.ready.pause(is_paused);
        let (out, list) = out.split_first_chunk_mut::<HEADERS_LEN>()?;
        while let Some(key) = self.ready.pop() {
            // A flow may have finished, or lost its room or its turn, since it was queued.
            let Some(flow) = self.flows.get_mut(key) else { continue };
            flow.queued = false;
            let lane = flow.lane();
            if !flow.has_room() || flow.next_avail() > now {
                self.reschedule(now, key.slot);
                continue;
            }
            if flow.asks(now, self.params.base_rtt, self.rto) {
                flow.emit_probe(now, self.rto, out);
                stats.probes_sent += 1;
                self.reschedule(now, key.slot);
                return Some(Departure { key, lane, head_len: HEADERS_LEN, payload: 0 });
            }
            let (payload, again) = flow.emit(now, self.rto, out);
            let listed = flow.list(list);
            stats.data_sent += 1;
            stats.payload_sent += u64::from(payload);
            stats.retransmits += u64::from(again);
            self.reschedule(now, key.slot);
            return Some(Departure {
                key,
                lane,
                head_len: HEADERS_LEN + listed,
                payload: payload - listed as u32,
            });
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

    /// Releases paced flows and does what timers are for.
    pub fn wakeup(&mut self, now: Time, stats: &mut HostStats) {
        self.release(now);
        while let Some(slot) = self.timers.pop_due(now) {
            let Some(flow) = self.flows.at_mut(slot) else { continue };
            if flow.is_timed_out(now) {
                // A pause is not a loss: nothing could leave, so nothing could be acknowledged.
                let paused = self.ready.is_paused(flow.lane());
                flow.wait_again(now, self.rto, !paused);
                if !paused && let Some(snd_nxt) = flow.go_back() {
                    stats.timeouts += 1;
                    let loss = LossEvent { now, kind: LossKind::Timeout, seq: flow.una(), snd_nxt };
                    let decision = flow.sender.on_loss(&loss);
                    flow.apply(decision);
                }
            }
            if flow.take_scheme_timer(now) {
                let decision = flow.sender.on_timer(now);
                flow.apply(decision);
            }
            self.reschedule(now, slot);
        }
    }

    /// An ACK, a NACK, a CNP, a rate or the reply to a probe came in. On error nothing has changed.
    pub fn feedback(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        stats: &mut HostStats,
        events: &mut VecDeque<HostEvent>,
    ) -> Result<(), DropReason> {
        let weir = &frame.weir;
        if weir.kind() == Kind::Rate && self.needs.telemetry != TelemetryOn::Notices {
            return Err(DropReason::UnexpectedKind);
        }
        if self.credited && weir.kind() == Kind::ProbeReply && !self.by_message.contains_key(&weir.message())
        {
            // The last credits of a message find it finished.
            stats.stale_feedback += 1;
            return Ok(());
        }
        let slot = *self.by_message.get(&weir.message()).ok_or(DropReason::UnknownFlow)?;
        let flow = self.flows.at_mut(slot).ok_or(DropReason::UnknownFlow)?;
        if frame.ip.source() != flow.peer() || frame.entropy_port() != flow.entropy_port() {
            return Err(DropReason::WrongPeer);
        }
        if weir.kind() == Kind::Cnp {
            stats.cnps_received += 1;
            let decision = flow.sender.on_cnp(now);
            flow.apply(decision);
            self.reschedule(now, slot);
            return Ok(());
        }
        if weir.kind() == Kind::Rate {
            stats.rates_received += 1;
            let rate = Bandwidth::from_bps(u64::from(weir.grant()) * GRANT_UNIT_BPS);
            let decision = flow.sender.on_rate(&RateEvent { now, rate, point: (weir.seq(), weir.path_id()) });
            flow.apply(decision);
            self.reschedule(now, slot);
            return Ok(());
        }
        if weir.kind() == Kind::ProbeReply && flow.is_credited() {
            match flow.take_credit(weir.seq()) {
                true => stats.probe_replies_received += 1,
                false => stats.stale_feedback += 1,
            }
            self.reschedule(now, slot);
            return Ok(());
        }
        if weir.kind() == Kind::ProbeReply {
            let Some((seq, snd_nxt)) = flow.take_reply(weir.seq()) else {
                stats.stale_feedback += 1;
                return Ok(());
            };
            stats.probe_replies_received += 1;
            let ack = AckEvent {
                now,
                seq,
                acked: Bytes::ZERO,
                snd_nxt,
                rtt: None,
                ecn_echo: false,
                concurrency: weir.concurrency(),
                grant: 0,
                path_id: echoed_path(weir.grant()),
                data_path: echoed_path(weir.grant()),
                telemetry: &Telemetry::from_wire(frame.records(), frame.weir.format(), true),
            };
            let decision = flow.sender.on_ack(&ack, &mut stats.telemetry);
            flow.apply(decision);
            self.reschedule(now, slot);
            return Ok(());
        }
        let acked = match flow.acknowledge(now, weir.seq(), self.rto) {
            Acked::Bytes(acked) => acked,
            Acked::BeyondSent => return Err(DropReason::AckBeyondSent),
            Acked::Stale => {
                stats.stale_feedback += 1;
                return Ok(());
            }
        };
        // The stamp is ours if the flow existed then.
        let rtt = Time::from_ns(u64::from(stamp(now).wrapping_sub(weir.stamp())));
        let rtt = (rtt <= now.saturating_sub(flow.start())).then_some(rtt);
        flow.rtt = rtt.or(flow.rtt);
        flow.ack_path = weir.path_id();
        let data_path = echoed_path(weir.grant());
        flow.data_path = (!self.needs.grant).then_some(data_path);
        if flow.is_finished() {
            stats.acks_received += 1;
            self.finish(now, slot, events);
            return Ok(());
        }
        let (telemetry, path_id) = match self.needs.telemetry {
            TelemetryOn::Nothing | TelemetryOn::Probes | TelemetryOn::Notices => (Telemetry::EMPTY, 0),
            TelemetryOn::Data | TelemetryOn::DataOncePerRtt => {
                (Telemetry::from_wire(frame.records(), weir.format(), true), data_path)
            }
            TelemetryOn::Acks => {
                (Telemetry::from_wire(frame.records(), weir.format(), false), weir.path_id())
            }
        };
        let by_acks = self.needs.telemetry == TelemetryOn::Acks && !self.needs.grant;
        let ack = AckEvent {
            now,
            seq: flow.una(),
            acked: Bytes::new(acked),
            snd_nxt: flow.nxt(),
            rtt,
            ecn_echo: weir.flags().has(Flags::ECN_ECHO),
            concurrency: weir.concurrency(),
            grant: if self.needs.grant { weir.grant() } else { 0 },
            path_id,
            data_path: if by_acks { data_path } else { path_id },
            telemetry: &telemetry,
        };
        let decision = flow.sender.on_ack(&ack, &mut stats.telemetry);
        flow.apply(decision);
        if weir.kind() == Kind::Nack {
            stats.nacks_received += 1;
            if let Some(snd_nxt) = flow.go_back() {
                flow.wait_again(now, self.rto, false);
                let loss = LossEvent { now, kind: LossKind::Nack, seq: flow.una(), snd_nxt };
                let decision = flow.sender.on_loss(&loss);
                flow.apply(decision);
            }
        } else {
            stats.acks_received += 1;
        }
        self.reschedule(now, slot);
        Ok(())
    }

    fn finish(&mut self, now: Time, slot: u32, events: &mut VecDeque<HostEvent>) {
        let key = self.flows.key(slot);
        let Some(flow) = self.flows.remove(slot) else { return };
        self.by_message.remove(&flow.message());
        self.paced.remove(slot);
        self.timers.remove(slot);
        events.push_back(HostEvent::FlowFinished {
            flow: crate::FlowId(key),
            message: flow.message(),
            peer: flow.peer(),
            start: flow.start(),
            end: now,
            bytes: Bytes::new(flow.size()),
            retransmits: flow.retransmits(),
        });
    }
}
