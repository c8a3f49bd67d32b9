use crate::scheme::RecoveryState;
use std::collections::VecDeque;

/// Number of duplicate ACKs that signal a loss (RFC 5681 §3.2).
const DUP_ACK_THRESHOLD: u32 = 3;

/// Selective retransmission on one subflow: NewReno (RFC 6582).
///
/// The subflow has a sequence space of its own, so the state also maps its bytes to those of the message.
#[derive(Debug)]
pub(super) struct NewReno {
    /// Mappings of the unacknowledged bytes to the message, in the order of `seq`.
    mappings: VecDeque<DataMapping>,
    pub state: RecoveryState,
    /// RFC 6582's `recover`: `snd_max` when the last recovery began; recovery ends when this byte is acknowledged.
    recover: u64,
    /// Consecutive duplicate ACKs outside of recovery.
    dup_acks: u32,
    /// Bytes beyond the first gap that have left the network, inferred from duplicate ACKs (one full packet each).
    /// Subtracted from the bytes in flight.
    pub dupacked_bytes: u64,
    /// True if the first unacknowledged packet must be sent again regardless of the window.
    pub retransmit_now: bool,
    /// The newest echoed timestamp.
    newest_echo: Option<u32>,
}

/// A range of bytes that is contiguous both in the subflow and in the message.
#[derive(Clone, Copy, Debug)]
struct DataMapping {
    seq: u64,
    message_offset: u64,
    len: u64,
}

impl NewReno {
    pub(super) fn new() -> NewReno {
        NewReno {
            mappings: VecDeque::new(),
            state: RecoveryState::Open,
            recover: 0,
            dup_acks: 0,
            dupacked_bytes: 0,
            retransmit_now: false,
            newest_echo: None,
        }
    }

    /// Records that the subflow sends `len` bytes of the message, from `message_offset` on, at `seq`: the end of what
    /// it has sent so far.
    pub(super) fn append(&mut self, seq: u64, message_offset: u64, len: u64) {
        match self.mappings.back_mut() {
            Some(mapping) if mapping.message_offset + mapping.len == message_offset => mapping.len += len,
            _ => self.mappings.push_back(DataMapping { seq, message_offset, len }),
        }
    }

    /// Returns the range of the message that is mapped from `seq` on contiguously, as (start, end); `None` if `seq` is
    /// acknowledged or was not sent.
    pub(super) fn mapping_at(&self, seq: u64) -> Option<(u64, u64)> {
        let index = self.mappings.partition_point(|mapping| mapping.seq + mapping.len <= seq);
        let mapping = self.mappings.get(index)?;
        Some((mapping.message_offset + (seq - mapping.seq), mapping.message_offset + mapping.len))
    }

    /// Returns the ranges of the message that are sent and not acknowledged, as (start, end), in the order of `seq`.
    pub(super) fn unacknowledged(&self) -> impl Iterator<Item = (u64, u64)> {
        self.mappings.iter().map(|mapping| (mapping.message_offset, mapping.message_offset + mapping.len))
    }

    /// Records the echoed timestamp `echo`. Returns whether it is newer than all earlier ones, modulo 2^32.
    pub(super) fn record_echo(&mut self, echo: u32) -> bool {
        // The network may duplicate an ACK, and one loss would then look like several. The ACK of each packet echoes
        // another timestamp, so only a newer echo counts as evidence.
        let is_newer = self.newest_echo.is_none_or(|newest| echo.wrapping_sub(newest).cast_signed() > 0);
        if is_newer {
            self.newest_echo = Some(echo);
        }
        is_newer
    }

    /// Handles the acknowledgement of `new_bytes` bytes up to `una`; a full packet has `max_payload` bytes. Calls
    /// `on_acked` with start and end of each range of the message that it covers.
    pub(super) fn on_new_ack(
        &mut self,
        una: u64,
        new_bytes: u64,
        max_payload: u64,
        mut on_acked: impl FnMut(u64, u64),
    ) {
        while let Some(mapping) = self.mappings.front_mut() {
            let acked = una.saturating_sub(mapping.seq).min(mapping.len);
            on_acked(mapping.message_offset, mapping.message_offset + acked);
            mapping.seq += acked;
            mapping.message_offset += acked;
            mapping.len -= acked;
            if mapping.len > 0 {
                break;
            }
            self.mappings.pop_front();
        }
        self.dup_acks = 0;
        self.retransmit_now = false;
        if self.state == RecoveryState::FastRecovery && una < self.recover {
            // A partial ACK: the next unacknowledged packet was lost too. The ACK covers the retransmitted packet,
            // which was never counted in `dupacked_bytes`, and packets behind it, each of which was counted once (RFC
            // 6582 §3.2, step 3).
            self.retransmit_now = true;
            self.dupacked_bytes = self.dupacked_bytes.saturating_sub(new_bytes.saturating_sub(max_payload));
        } else {
            self.dupacked_bytes = 0;
            if una >= self.recover {
                self.state = RecoveryState::Open;
            }
        }
    }

    /// Handles a duplicate ACK. Returns true if it is the one that signals the loss of the packet at `una`. `snd_max`
    /// is the first byte never sent.
    pub(super) fn on_dup_ack(&mut self, una: u64, snd_max: u64, max_payload: u64) -> bool {
        match self.state {
            RecoveryState::FastRecovery => self.dupacked_bytes += max_payload,
            RecoveryState::Loss => {}
            RecoveryState::Open => {
                self.dup_acks += 1;
                if self.dup_acks == DUP_ACK_THRESHOLD && una >= self.recover {
                    self.state = RecoveryState::FastRecovery;
                    self.recover = snd_max;
                    self.dupacked_bytes = max_payload * u64::from(DUP_ACK_THRESHOLD);
                    self.retransmit_now = true;
                    return true;
                }
            }
        }
        false
    }

    /// Enters loss recovery after a timeout: everything in flight, up to `snd_max`, counts as lost.
    pub(super) fn on_rto(&mut self, snd_max: u64) {
        self.state = RecoveryState::Loss;
        self.recover = snd_max;
        (self.dup_acks, self.dupacked_bytes, self.retransmit_now) = (0, 0, false);
    }
}
