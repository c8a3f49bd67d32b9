//! Handles feedback to outgoing messages: ACKs, NACKs, CNPs, RATE packets, credits and replies to probes.

use super::frame_times::FrameTimes;
use super::message::OutboundMessage;
use super::outbound::Outbound;
use super::subflow::{AckOutcome, wire_timestamp};
use crate::event::HostEvent;
use crate::port_algorithm::GRANT_UNIT_BPS;
use crate::ring::Ring;
use crate::scheme::{
    AckEvent, CongestionPoint, Decision, LossEvent, LossKind, Needs, RateEvent, TelemetrySource,
};
use crate::stats::{DropReason, HostStats};
use crate::telemetry::{GatheredBy, Telemetry};
use crate::wire::{Flags, FrameView, INITIAL_TTL, PacketKind};
use weir_units::{Bandwidth, Bytes, Time};

impl Outbound {
    /// Handles a feedback packet. On error the message is unchanged.
    pub(crate) fn on_feedback(
        &mut self,
        times: FrameTimes,
        frame: &FrameView<'_>,
        stats: &mut HostStats,
        events: &mut Ring<HostEvent>,
    ) -> Result<(), DropReason> {
        let now = times.now;
        let weir = &frame.weir;
        let kind = weir.kind();
        if kind == PacketKind::Rate && self.needs.telemetry != TelemetrySource::RateNotifications {
            return Err(DropReason::UnexpectedKind);
        }
        let Some(&slot) = self.by_message.get(&weir.message()) else {
            if self.uses_credits && kind == PacketKind::ProbeReply {
                // The credit was in flight when its message finished. This is normal, so it is no drop.
                stats.stale_feedback += 1;
                return Ok(());
            }
            return Err(DropReason::UnknownFlow);
        };
        let message = self.messages.get_slot_mut(slot).ok_or(DropReason::UnknownFlow)?;
        let index = usize::from(weir.subflow());
        let subflow = message.subflows.get(index).ok_or(DropReason::WrongPeer)?;
        if frame.ip.source() != message.peer() || frame.entropy_port() != subflow.entropy_port() {
            return Err(DropReason::WrongPeer);
        }
        // Selective retransmission has no NACKs, probes or RATE packets.
        if subflow.is_selective() && !matches!(kind, PacketKind::Ack | PacketKind::Cnp) {
            return Err(DropReason::UnexpectedKind);
        }
        let decision = match kind {
            PacketKind::ProbeReply if self.uses_credits => {
                // In a credit `seq` is its number.
                match message.accept_credit(weir.seq()) {
                    true => stats.probe_replies_received += 1,
                    false => stats.stale_feedback += 1,
                }
                self.reschedule_all(now, slot);
                return Ok(());
            }
            PacketKind::ProbeReply => on_probe_reply(message, now, frame, stats),
            PacketKind::Cnp => {
                stats.cnps_received += 1;
                Some(message.control.on_cnp(index, now))
            }
            PacketKind::Rate => {
                stats.rates_received += 1;
                let rate = Bandwidth::from_bps(u64::from(weir.grant()) * GRANT_UNIT_BPS);
                // In a RATE packet `seq` is the port of the switch.
                let congestion_point = CongestionPoint { port: weir.seq(), path_id: weir.path_id() };
                let event = RateEvent { now, rate, congestion_point };
                Some(message.control.on_rate(index, &event))
            }
            _ => {
                let decision = on_ack(message, times, frame, &self.needs, stats)?;
                if message.is_finished() {
                    self.finish(now, slot, events);
                    return Ok(());
                }
                decision
            }
        };
        if let Some(decision) = decision {
            self.apply(now, slot, index, decision, stats);
        }
        Ok(())
    }

    /// Removes a message that is acknowledged in full and reports it to the driver.
    fn finish(&mut self, now: Time, slot: u32, events: &mut Ring<HostEvent>) {
        let Some((key, message)) = self.remove(slot) else { return };
        events.push_back(HostEvent::FlowFinished {
            flow: crate::FlowId(key),
            message: message.id(),
            peer: message.peer(),
            start: message.start(),
            end: now,
            bytes: Bytes::new(message.size()),
            retransmits: message.retransmits(),
        });
    }
}

/// Returns the number of switches that forwarded a frame; `None` if its TTL does not tell.
fn hops(frame: &FrameView<'_>) -> Option<u8> {
    INITIAL_TTL.checked_sub(frame.ip.ttl()).filter(|&hops| hops > 0)
}

/// Handles the reply to a probe. Returns the scheme's decision; `None` if the reply is stale.
fn on_probe_reply(
    message: &mut OutboundMessage,
    now: Time,
    frame: &FrameView<'_>,
    stats: &mut HostStats,
) -> Option<Decision> {
    let weir = &frame.weir;
    let Some(seq) = message.requests.accept_probe_reply(weir.seq()) else {
        stats.stale_feedback += 1;
        return None;
    };
    stats.probe_replies_received += 1;
    let ack = AckEvent {
        now,
        seq,
        acked: Bytes::ZERO,
        snd_nxt: seq,
        rtt: None,
        hops: hops(frame),
        ecn_echo: false,
        concurrency: weir.concurrency(),
        grant: 0,
        endpoint_delay: None,
        path_id: weir.echoed_path_id(),
        data_path: weir.echoed_path_id(),
        // Probes take the path of DATA and gather records as DATA does.
        telemetry: &Telemetry::from_wire(frame.records(), weir.format(), GatheredBy::Data),
    };
    let index = usize::from(weir.subflow());
    Some(message.control.on_ack(index, message.subflows[index].recovery(), &ack, &mut stats.telemetry))
}

/// Handles an ACK or a NACK. Returns the scheme's decision; `None` if the ACK is stale or finishes the message.
fn on_ack(
    message: &mut OutboundMessage,
    times: FrameTimes,
    frame: &FrameView<'_>,
    needs: &Needs,
    stats: &mut HostStats,
) -> Result<Option<Decision>, DropReason> {
    let now = times.now;
    let weir = &frame.weir;
    let index = usize::from(weir.subflow());
    let (new_bytes, is_loss_detected) = match message.acknowledge(index, now, weir.seq(), weir.timestamp()) {
        AckOutcome::Acked { new_bytes } => (new_bytes, false),
        AckOutcome::LossDetected => (0, true),
        AckOutcome::BeyondSent => return Err(DropReason::AckBeyondSent),
        AckOutcome::Stale => {
            stats.stale_feedback += 1;
            return Ok(None);
        }
    };
    // The echoed timestamp comes from the network: an RTT longer than the age of the message is implausible and
    // ignored.
    let rtt = Time::from_ns(u64::from(wire_timestamp(now).wrapping_sub(weir.timestamp())));
    let rtt = (rtt <= now.saturating_sub(message.start())).then_some(rtt);
    let data_path = weir.echoed_path_id();
    let subflow = &mut message.subflows[index];
    if let Some(rtt) = rtt {
        subflow.on_rtt_sample(rtt, new_bytes > 0);
    }
    subflow.ack_path = weir.path_id();
    subflow.data_path = needs.echoes_path_id().then_some(data_path);
    let (seq, snd_nxt, recovery) = (subflow.una(), subflow.nxt(), subflow.recovery());
    if message.is_finished() {
        stats.acks_received += 1;
        return Ok(None);
    }
    let (telemetry, path_id) = match needs.telemetry {
        TelemetrySource::None | TelemetrySource::Probes | TelemetrySource::RateNotifications => {
            (Telemetry::EMPTY, 0)
        }
        TelemetrySource::Data | TelemetrySource::DataOncePerRtt | TelemetrySource::DataOnCongestion => {
            (Telemetry::from_wire(frame.records(), weir.format(), GatheredBy::Data), data_path)
        }
        TelemetrySource::Acks => {
            (Telemetry::from_wire(frame.records(), weir.format(), GatheredBy::Ack), weir.path_id())
        }
    };
    // Only records that ACKs gather can describe another path than that of DATA.
    let paths_may_differ = needs.telemetry == TelemetrySource::Acks && needs.echoes_path_id();
    let ack = AckEvent {
        now,
        seq,
        acked: Bytes::new(new_bytes),
        snd_nxt,
        rtt,
        hops: hops(frame),
        ecn_echo: weir.flags().has(Flags::ECN_ECHO),
        concurrency: weir.concurrency(),
        grant: if needs.writes_grant { weir.grant() } else { 0 },
        endpoint_delay: needs.reports_endpoint_delay.then(|| {
            let at_receiver = Time::from_ns(u64::from(weir.grant()));
            at_receiver.saturating_add(now.saturating_sub(times.arrived_at))
        }),
        path_id,
        data_path: if paths_may_differ { data_path } else { path_id },
        telemetry: &telemetry,
    };
    let decision = message.control.on_ack(index, recovery, &ack, &mut stats.telemetry);
    let is_nack = weir.kind() == PacketKind::Nack;
    let counter = if is_nack { &mut stats.nacks_received } else { &mut stats.acks_received };
    *counter += 1;
    stats.fast_retransmits += u64::from(is_loss_detected);
    if is_loss_detected || is_nack && message.subflows[index].go_back(now) {
        let loss = LossEvent { now, kind: LossKind::Nack, seq, snd_nxt };
        return Ok(Some(message.control.on_loss(index, &loss)));
    }
    Ok(Some(decision))
}
