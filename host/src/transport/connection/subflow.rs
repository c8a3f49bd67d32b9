use super::rto::Rto;
use crate::event::SubflowView;
use crate::scheme::{Decision, Needs, Repair};
use crate::transport::flow::stamp;
use crate::transport::{MAX_WINDOW, opening, unwrap_seq};
use crate::wire::{Flags, FrameRepr, HEADERS_LEN, patch_data, patch_grant};
use std::collections::VecDeque;
use weir_units::{Bandwidth, Bytes, Time};

/// Duplicate ACKs that tell of a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

/// Timeouts in a row that tell of a dead path: the first may be congestion, after which one packet is sent alone.
const DEAD: u32 = 2;

/// One outgoing subflow: NewReno (RFC 6582) over its own sequence space.
#[derive(Debug)]
pub(super) struct Subflow {
    /// Headers of its full DATA packets, and the same as bytes.
    repr: FrameRepr,
    head: [u8; HEADERS_LEN],

    /// First byte not acknowledged, next byte to send, first byte never sent.
    una: u64,
    nxt: u64,
    max: u64,
    /// Positions in the message of its bytes from `una` to `max`.
    runs: VecDeque<Run>,

    pub repair: Repair,
    /// End of the sent data when the last recovery began.
    recover: u64,
    /// Duplicate ACKs in a row.
    duplicates: u32,
    /// Bytes behind `una` that duplicate ACKs say have arrived.
    past: u64,
    /// The packet at `una` is to be sent again, whatever the window.
    resend: bool,
    /// The newest stamp that came back: a packet's ACK counts once, however often it comes.
    newest: Option<u32>,

    window: u64,
    rate: Bandwidth,
    scheme_timer: Option<Time>,
    paced_from: Time,
    last_frame: u32,
    next_avail: Time,

    rto: Rto,
    rto_at: Option<Time>,

    /// True if it waits in the ring of subflows that may send.
    pub queued: bool,

    pub retransmits: u64,
    pub rtt: Option<Time>,
    pub ack_path: u16,
    pub data_path: Option<u16>,
}

/// Bytes that stand together in the subflow and in the message.
#[derive(Clone, Copy, Debug)]
struct Run {
    seq: u64,
    data: u64,
    len: u64,
}

/// The effect of an acknowledgement.
pub(super) enum Acked {
    /// It is older than one already taken.
    Stale,
    /// It acknowledges what was never sent.
    BeyondSent,
    /// This number of new bytes, possibly 0.
    Bytes(u64),
    /// No new bytes, and it is the duplicate that says that packets were lost.
    Lost,
}

/// A packet that leaves.
pub(super) struct Segment {
    pub payload: u32,
    pub again: bool,
}

impl Subflow {
    pub fn new(now: Time, repr: FrameRepr, rto: Rto, decision: Decision) -> Subflow {
        let mut head = [0; HEADERS_LEN];
        // A full packet fits the MTU, which fits IPv4: HostConfig::check.
        let written = repr.emit(&[], &mut head);
        debug_assert_eq!(written, Some(HEADERS_LEN));
        let mut subflow = Subflow {
            repr,
            head,
            una: 0,
            nxt: 0,
            max: 0,
            runs: VecDeque::new(),
            repair: Repair::None,
            recover: 0,
            duplicates: 0,
            past: 0,
            resend: false,
            newest: None,
            window: 0,
            rate: Bandwidth::ZERO,
            scheme_timer: None,
            paced_from: now,
            last_frame: 0,
            next_avail: now,
            rto,
            rto_at: None,
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
        self.rate
    }
    pub fn next_avail(&self) -> Time {
        self.next_avail
    }

    /// Payload bytes in the network, as far as ACKs tell.
    pub fn inflight(&self) -> u64 {
        (self.nxt - self.una).saturating_sub(self.past)
    }

    /// Returns whether a packet that was sent before is to be sent again now.
    pub fn must_repeat(&self) -> bool {
        self.resend || self.nxt < self.max && self.inflight() < self.window
    }

    /// Returns whether the window has room for a new packet, all old ones sent: it is tested before the packet.
    pub fn has_room(&self) -> bool {
        self.nxt == self.max && self.inflight() < self.window
    }

    /// Returns whether nothing comes through any more.
    pub fn is_dead(&self) -> bool {
        self.rto.timeouts() >= DEAD
    }

    /// The bytes of the message that it has sent and that are not acknowledged, as ranges.
    pub fn unacknowledged(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|run| (run.data, run.data + run.len))
    }

    /// Returns the decision in force.
    pub fn held(&self) -> Decision {
        Decision { window: Bytes::new(self.window), rate: self.rate, timer: None }
    }

    /// Its packets look as another scheme wants them.
    pub fn adapt(&mut self, needs: &Needs, payload: u32) {
        opening::adapt(&mut self.repr, needs, payload);
        self.repr.emit(&[], &mut self.head);
    }

    pub fn apply(&mut self, decision: Decision) {
        self.window = decision.window.get().clamp(1, MAX_WINDOW);
        self.scheme_timer = decision.timer;
        let rate = decision.rate.max(Bandwidth::from_bps(1));
        if rate != self.rate {
            self.rate = rate;
            self.pace();
        }
    }

    fn pace(&mut self) {
        let gap = self.rate.tx_time(Bytes::new(u64::from(self.last_frame)));
        self.next_avail = self.paced_from.saturating_add(gap);
    }

    /// Writes the head of a packet that was sent before; the caller asked [`must_repeat`](Self::must_repeat).
    /// `message_end` is the size of the message.
    pub fn emit_again(
        &mut self,
        now: Time,
        message_end: u64,
        out: &mut [u8; HEADERS_LEN],
    ) -> Option<Segment> {
        let seq = if self.resend { self.una } else { self.nxt };
        let at = self.runs.partition_point(|run| run.seq + run.len <= seq);
        let run = *self.runs.get(at)?;
        let offset = seq - run.seq;
        let payload = (run.len - offset).min(u64::from(self.repr.payload_len)) as u32;
        self.resend = false;
        self.nxt = self.nxt.max(seq + u64::from(payload));
        self.retransmits += 1;
        self.write(now, seq, run.data + offset, payload, message_end, Flags::RETRANSMIT, out);
        Some(Segment { payload, again: true })
    }

    /// Writes the head of a packet that is new to this subflow, with the message's bytes from `data` on and before `until`.
    /// The caller asked [`has_room`](Self::has_room).
    pub fn emit_new(
        &mut self,
        now: Time,
        (data, until): (u64, u64),
        message_end: u64,
        out: &mut [u8; HEADERS_LEN],
    ) -> Segment {
        let payload = (until - data).min(u64::from(self.repr.payload_len)) as u32;
        let (seq, len) = (self.max, u64::from(payload));
        match self.runs.back_mut() {
            Some(run) if run.data + run.len == data => run.len += len,
            _ => self.runs.push_back(Run { seq, data, len }),
        }
        self.max += len;
        self.nxt = self.max;
        self.write(now, seq, data, payload, message_end, Flags::NONE, out);
        Segment { payload, again: false }
    }

    #[allow(clippy::too_many_arguments)] // What a packet is made of.
    fn write(
        &mut self,
        now: Time,
        seq: u64,
        data: u64,
        payload: u32,
        message_end: u64,
        mut flags: Flags,
        out: &mut [u8; HEADERS_LEN],
    ) {
        if payload == self.repr.payload_len {
            out.copy_from_slice(&self.head);
        } else {
            FrameRepr { payload_len: payload, ..self.repr }.emit(&[], out);
        }
        flags |= self.repr.weir.flags;
        if seq == 0 {
            flags |= Flags::START;
        }
        if data + u64::from(payload) == message_end {
            flags |= Flags::END;
        }
        patch_data(out, flags, seq as u32, stamp(now));
        patch_grant(out, data as u32);
        self.paced_from = now;
        self.last_frame = HEADERS_LEN as u32 + payload;
        self.pace();
        if self.rto_at.is_none() {
            self.arm(now);
        }
    }

    /// Takes an acknowledgement of everything before `wire_seq`, for the packet that left at `echo`, and tells `arrived`
    /// which bytes of the message that is.
    pub fn acknowledge(
        &mut self,
        now: Time,
        wire_seq: u32,
        echo: u32,
        arrived: impl FnMut(u64, u64),
    ) -> Acked {
        let Some(seq) = unwrap_seq(self.una, wire_seq).filter(|&seq| seq >= self.una) else {
            return Acked::Stale;
        };
        if seq > self.max {
            return Acked::BeyondSent;
        }
        let is_news = self.newest.is_none_or(|newest| echo.wrapping_sub(newest).cast_signed() > 0);
        if is_news {
            self.newest = Some(echo);
        }
        let new = seq - self.una;
        if new > 0 {
            self.advance(now, new, arrived);
            return Acked::Bytes(new);
        }
        if is_news && self.una < self.max && self.is_lost() { Acked::Lost } else { Acked::Bytes(0) }
    }

    fn advance(&mut self, now: Time, new: u64, mut arrived: impl FnMut(u64, u64)) {
        let full = u64::from(self.repr.payload_len);
        self.una += new;
        // After a timeout: the receiver had it all along.
        self.nxt = self.nxt.max(self.una);
        while let Some(run) = self.runs.front_mut() {
            let gone = self.una.saturating_sub(run.seq).min(run.len);
            arrived(run.data, run.data + gone);
            (run.seq, run.data, run.len) = (run.seq + gone, run.data + gone, run.len - gone);
            if run.len > 0 {
                break;
            }
            self.runs.pop_front();
        }
        self.rto.progress();
        self.duplicates = 0;
        self.resend = false;
        if self.repair == Repair::Fast && self.una < self.recover {
            // A partial ACK: what is there now was lost too, and of the rest all but the packet that filled the
            // gap had been counted as arrived (RFC 6582 §3.2, step 3).
            self.resend = true;
            self.past = self.past.saturating_sub(new.saturating_sub(full));
        } else {
            self.past = 0;
            if self.una >= self.recover {
                self.repair = Repair::None;
            }
        }
        if self.una == self.max {
            self.rto_at = None;
        } else {
            self.arm(now);
        }
    }

    /// A duplicate ACK came: whether it is the one that says that packets were lost.
    fn is_lost(&mut self) -> bool {
        let full = u64::from(self.repr.payload_len);
        match self.repair {
            Repair::Fast => self.past += full,
            Repair::Timeout => {}
            Repair::None => {
                self.duplicates += 1;
                if self.duplicates == DUPLICATES && self.una >= self.recover {
                    self.repair = Repair::Fast;
                    self.recover = self.max;
                    self.past = full * u64::from(DUPLICATES);
                    self.resend = true;
                    return true;
                }
            }
        }
        false
    }

    fn arm(&mut self, now: Time) {
        self.rto_at = Some(now.saturating_add(self.rto.get()));
    }

    pub fn sample(&mut self, rtt: Time) {
        self.rtt = Some(rtt);
        self.rto.sample(rtt);
    }

    /// Returns whether nothing was acknowledged for too long.
    pub fn is_timed_out(&self, now: Time) -> bool {
        self.rto_at.is_some_and(|at| at <= now)
    }

    /// Waits once more: the silence does not count against the path.
    pub fn wait_again(&mut self, now: Time) {
        self.arm(now);
    }

    /// Gives up waiting: everything in flight counts as lost. Returns what was to be sent next.
    pub fn time_out(&mut self, now: Time) -> u64 {
        let was = self.nxt;
        self.repair = Repair::Timeout;
        self.recover = self.max;
        self.nxt = self.una;
        (self.duplicates, self.past, self.resend) = (0, 0, false);
        self.rto.back_off();
        self.arm(now);
        was
    }

    /// Returns whether the scheme's timer expired; it does so once.
    pub fn take_scheme_timer(&mut self, now: Time) -> bool {
        self.scheme_timer.take_if(|at| *at <= now).is_some()
    }

    /// The next time this subflow has to be looked at.
    pub fn deadline(&self) -> Option<Time> {
        match (self.rto_at, self.scheme_timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    pub fn view(&self, active: bool) -> SubflowView {
        SubflowView {
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
