use crate::scheme::RecoveryState;
use std::collections::VecDeque;

/// Number of duplicate ACKs that signal a loss (RFC 5681 §3.2).
const DUP_ACK_THRESHOLD: u32 = 3;

/// Selective retransmission on one subflow: NewReno (RFC 6582).
///
/// The subflow has a sequence space of its own, so the state includes where its bytes are in the message.
#[derive(Debug)]
pub(super) struct NewReno {
    /// Mappings of the unacknowledged bytes to the message, in the order of `seq`.
    runs: VecDeque<DataMapping>,
    pub repair: RecoveryState,
    /// `snd_max` when the last recovery began; recovery ends when this byte is acknowledged.
    recover: u64,
    /// Consecutive duplicate ACKs outside of recovery.
    duplicates: u32,
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
    data: u64,
    len: u64,
}

impl NewReno {
    pub fn new() -> NewReno {
        NewReno {
            runs: VecDeque::new(),
            repair: RecoveryState::Open,
            recover: 0,
            duplicates: 0,
            dupacked_bytes: 0,
            retransmit_now: false,
            newest_echo: None,
        }
    }

    /// Records that the subflow sends `len` bytes of the message from `data` on at `seq`, the end of what it has sent
    /// so far.
    pub fn append(&mut self, seq: u64, data: u64, len: u64) {
        match self.runs.back_mut() {
            Some(run) if run.data + run.len == data => run.len += len,
            _ => self.runs.push_back(DataMapping { seq, data, len }),
        }
    }

    /// Returns the range of the message that is mapped from `seq` on contiguously; `None` if `seq` is acknowledged or
    /// was not sent.
    pub fn mapping_at(&self, seq: u64) -> Option<(u64, u64)> {
        let at = self.runs.partition_point(|run| run.seq + run.len <= seq);
        let run = self.runs.get(at)?;
        Some((run.data + (seq - run.seq), run.data + run.len))
    }

    /// Returns the ranges of the message that are sent and not acknowledged, in the order of `seq`.
    pub fn unacknowledged(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|run| (run.data, run.data + run.len))
    }

    /// Returns whether `echo` is newer than every timestamp echoed before, modulo 2^32.
    pub fn is_newer_echo(&mut self, echo: u32) -> bool {
        // The network may duplicate an ACK, and one loss would then look like several. The ACK of each packet echoes
        // another timestamp, so only a newer echo counts as evidence.
        let is_news = self.newest_echo.is_none_or(|newest| echo.wrapping_sub(newest).cast_signed() > 0);
        if is_news {
            self.newest_echo = Some(echo);
        }
        is_news
    }

    /// Handles the acknowledgement of `new` bytes up to `una`; a full packet has `full` bytes. Calls `arrived` with
    /// the ranges of the message that it covers.
    pub fn on_new_ack(&mut self, una: u64, new: u64, full: u64, mut arrived: impl FnMut(u64, u64)) {
        while let Some(run) = self.runs.front_mut() {
            let gone = una.saturating_sub(run.seq).min(run.len);
            arrived(run.data, run.data + gone);
            (run.seq, run.data, run.len) = (run.seq + gone, run.data + gone, run.len - gone);
            if run.len > 0 {
                break;
            }
            self.runs.pop_front();
        }
        self.duplicates = 0;
        self.retransmit_now = false;
        if self.repair == RecoveryState::FastRecovery && una < self.recover {
            // A partial ACK: the next unacknowledged packet was lost too. The ACK covers the retransmitted packet,
            // which was never counted in `dupacked_bytes`, and packets behind it, each of which was counted once (RFC
            // 6582 §3.2, step 3).
            self.retransmit_now = true;
            self.dupacked_bytes = self.dupacked_bytes.saturating_sub(new.saturating_sub(full));
        } else {
            self.dupacked_bytes = 0;
            if una >= self.recover {
                self.repair = RecoveryState::Open;
            }
        }
    }

    /// Handles a duplicate ACK. Returns true if it is the one that signals the loss of the packet at `una`; `max` is
    /// the end of what was sent.
    pub fn on_dup_ack(&mut self, una: u64, max: u64, full: u64) -> bool {
        match self.repair {
            RecoveryState::FastRecovery => self.dupacked_bytes += full,
            RecoveryState::Loss => {}
            RecoveryState::Open => {
                self.duplicates += 1;
                if self.duplicates == DUP_ACK_THRESHOLD && una >= self.recover {
                    self.repair = RecoveryState::FastRecovery;
                    self.recover = max;
                    self.dupacked_bytes = full * u64::from(DUP_ACK_THRESHOLD);
                    self.retransmit_now = true;
                    return true;
                }
            }
        }
        false
    }

    /// Enters loss recovery after a timeout: everything in flight, up to `max`, counts as lost.
    pub fn time_out(&mut self, max: u64) {
        self.repair = RecoveryState::Loss;
        self.recover = max;
        (self.duplicates, self.dupacked_bytes, self.retransmit_now) = (0, 0, false);
    }
}
