//! Answers probes: with the telemetry that they gathered, or with credits if the scheme uses credits.

use super::control::{ControlFrame, ControlQueue, RecordBuf};
use super::frame_times::FrameTimes;
use super::inbound::{CreditTrigger, Inbound};
use super::message_table::{MessageState, message_key};
use crate::scheme::{AckFields, Credit};
use crate::stats::{DropReason, HostStats};
use crate::wire::{Flags, FrameView, PacketKind};
use weir_units::Time;

impl Inbound {
    /// Handles a probe: returns its records at once, or treats it as a request for credits. A probe for telemetry
    /// belongs to no message and creates none. With selective retransmission schemes use no telemetry, so probes are
    /// unexpected.
    pub(crate) fn on_probe(
        &mut self,
        times: FrameTimes,
        frame: &FrameView<'_>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) -> Result<(), DropReason> {
        if self.is_selective {
            return Err(DropReason::UnexpectedKind);
        }
        if frame.payload_len() > 0 {
            return Err(DropReason::LengthMismatch);
        }
        if self.uses_credits {
            return self.on_credit_request(times, frame, control, stats);
        }
        let concurrency = u16::try_from(self.age_and_count_active(times.now)).unwrap_or(u16::MAX);
        let ack = self.ack_for(times, frame, &AckFields { concurrency, ..AckFields::default() });
        // `ack_for` leaves the grant field to schemes that write it; a reply to a probe always echoes the path id.
        let grant = u32::from(frame.weir.path_id());
        let seq = frame.weir.seq();
        let reply = ControlFrame {
            kind: PacketKind::ProbeReply,
            flags: Flags::NONE,
            seq,
            grant,
            arrived_at: None,
            ..ack
        };
        control.push(times.now, reply, stats);
        Ok(())
    }

    /// Handles a request for credits. The message may be new, in progress with its credits lost, or complete without
    /// the sender knowing. In the last case the answer is an ACK of the whole message.
    fn on_credit_request(
        &mut self,
        times: FrameTimes,
        frame: &FrameView<'_>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) -> Result<(), DropReason> {
        let now = times.now;
        let ack = self.ack_for(times, frame, &AckFields::default());
        let message_key = message_key(frame.ip.source(), frame.weir.message());
        let slot = match self.messages.find(message_key) {
            MessageState::InProgress(slot) => slot,
            MessageState::Completed(tombstone) => {
                control.push(now, ControlFrame { seq: tombstone.size as u32, ..ack }, stats);
                return Ok(());
            }
            MessageState::Unknown => self.insert_message(now, message_key, stats)?,
        };
        self.messages.touch(now, slot);
        let message = self.messages.get_slot_mut(slot).expect("the slot was found or inserted above");
        let credit = ControlFrame {
            kind: PacketKind::ProbeReply,
            flags: Flags::NONE,
            records: RecordBuf::NONE,
            arrived_at: None,
            ..ack
        };
        // After a repeated request the credit numbers continue, and granting starts again only if it had stopped.
        let last_number = message.credit.as_ref().map_or(0, |last| last.seq);
        let is_first_request = message.credit.replace(ControlFrame { seq: last_number, ..credit }).is_none();
        if is_first_request || self.credit_deadlines.get(slot).is_none() {
            self.grant_credit(now, slot, CreditTrigger::Request, control, stats);
        }
        Ok(())
    }

    /// Sends the next credit of the message in `slot` and sets the deadline of the one after it.
    pub(super) fn grant_credit(
        &mut self,
        now: Time,
        slot: u32,
        trigger: CreditTrigger,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) {
        // Stop if nothing has arrived within the active window: the sender requests credits again after its
        // retransmission timeout.
        let is_active = self
            .messages
            .last_seen(slot)
            .is_some_and(|last_seen| now.saturating_sub(last_seen) <= self.active_window);
        let Some(message) = self.messages.get_slot_mut(slot).filter(|_| is_active) else { return };
        let Some(credit) = &mut message.credit else { return };
        let has_scheme_changed = std::mem::take(&mut message.has_scheme_changed);
        if has_scheme_changed {
            self.receiver.resume_credits(slot, credit.seq);
        }
        let is_first = trigger == CreditTrigger::Request || has_scheme_changed;
        let Some(Credit { number, next_at }) = self.receiver.credit(now, slot, is_first) else { return };
        self.credit_deadlines.set(slot, next_at);
        if let Some(seq) = number {
            credit.seq = seq;
            control.push(now, credit.clone(), stats);
        }
    }
}
