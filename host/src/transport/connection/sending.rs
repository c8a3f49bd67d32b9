use super::intervals::Intervals;
use super::rto::Rto;
use super::subflow::{Acked, Segment, Subflow};
use crate::config::Resolved;
use crate::event::{FlowSpec, FlowView, SubflowView, subflow_port};
use crate::lane::Lane;
use crate::scheme::{Coupled, Decision, Needs, Pace};
use crate::transport::MAX_WINDOW;
use crate::wire::{FrameRepr, HEADERS_LEN};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Bytes, Time};

/// One outgoing message over its subflows.
#[derive(Debug)]
pub(super) struct Connection {
    message: u32,
    peer: Ipv4Addr,
    lane: Lane,
    full: u32,
    /// Payload bytes in all; [`ENDLESS`] until stopped.
    size: u64,
    /// First byte not given to a subflow.
    next: u64,
    /// Bytes that were acknowledged by any subflow.
    arrived: Intervals,
    acked: u64,
    /// Ranges that a dead subflow holds: any other may send them too. Those at the front are not acknowledged.
    held: VecDeque<(u64, u64)>,
    pub control: Box<dyn Coupled>,
    pub subflows: Box<[Subflow]>,
    /// True if some subflows may not send new data. At first they may not have joined.
    suppressed: bool,
    start: Time,
}

/// The size of a message that was not stopped yet.
const ENDLESS: u64 = u64::MAX;

impl Connection {
    /// `repr`: how its full DATA packets look on the first subflow.
    pub fn new(
        now: Time,
        spec: &FlowSpec,
        repr: FrameRepr,
        resolved: &Resolved,
        count: u8,
        control: Box<dyn Coupled>,
    ) -> Connection {
        let subflow = |index: u8| {
            let mut repr = FrameRepr { entropy_port: subflow_port(spec.entropy_port, index), ..repr };
            repr.weir.subflow = index;
            let rto = Rto::new(resolved.min_rto, resolved.initial_rto);
            Subflow::new(now, repr, rto, control.decision(usize::from(index)))
        };
        Connection {
            message: spec.message,
            peer: spec.peer,
            lane: Lane::of(repr.weir.flags),
            full: resolved.payload,
            size: spec.size.map_or(ENDLESS, Bytes::get),
            next: 0,
            arrived: Intervals::default(),
            acked: 0,
            held: VecDeque::new(),
            subflows: (0..count).map(subflow).collect(),
            control,
            suppressed: true,
            start: now,
        }
    }

    pub fn message(&self) -> u32 {
        self.message
    }
    pub fn peer(&self) -> Ipv4Addr {
        self.peer
    }
    pub fn lane(&self) -> Lane {
        self.lane
    }
    pub fn start(&self) -> Time {
        self.start
    }
    pub fn size(&self) -> u64 {
        self.size
    }
    pub fn acked(&self) -> u64 {
        self.acked
    }
    pub fn retransmits(&self) -> u64 {
        self.subflows.iter().map(|subflow| subflow.retransmits).sum()
    }
    pub fn is_finished(&self) -> bool {
        self.next == self.size && self.acked() == self.size
    }

    /// The next packet not sent before is the last, so that its END is sure to be sent.
    pub fn stop(&mut self) {
        self.size = self.size.min(self.next.saturating_add(u64::from(self.full)));
    }

    /// Returns whether a subflow has something to send and room for it. The bytes of the message on their way
    /// are bounded too, so that 32 bits on the wire are never ambiguous.
    pub fn may_send(&self, index: usize) -> bool {
        let Some(subflow) = self.subflows.get(index) else { return false };
        if subflow.must_repeat() {
            return true;
        }
        let has_data =
            !self.held.is_empty() || self.next < self.size && self.next - self.arrived.done() < MAX_WINDOW;
        has_data && subflow.has_room() && self.is_active(index)
    }

    /// Returns whether a subflow may send what is new to it: where the scheme lets it, or all that the scheme lets are dead.
    fn is_active(&self, index: usize) -> bool {
        let is_dead = |index: usize| self.subflows.len() > 1 && self.subflows[index].is_dead();
        let may = |index: usize| self.control.is_active(index) && !is_dead(index);
        may(index) || !is_dead(index) && !(0..self.subflows.len()).any(may)
    }

    /// Takes an acknowledgement on a subflow, as [`Subflow::acknowledge`] does.
    pub fn acknowledge(&mut self, index: usize, now: Time, wire_seq: u32, echo: u32) -> Acked {
        let Connection { subflows, arrived, acked, .. } = self;
        let taken =
            subflows[index].acknowledge(now, wire_seq, echo, |from, to| *acked += arrived.insert(from, to));
        self.skip_arrived();
        taken
    }

    /// A subflow timed out. If that tells that its path is dead, the others get what it holds, as in MPTCP
    /// (RFC 8684 §3.3.6); it goes on trying.
    pub fn time_out(&mut self, index: usize, now: Time) -> u64 {
        let others = self.subflows.len() > 1;
        let subflow = &mut self.subflows[index];
        let was_dead = subflow.is_dead();
        let snd_nxt = subflow.time_out(now);
        if others && subflow.is_dead() && !was_dead {
            self.held.extend(subflow.unacknowledged());
            self.skip_arrived();
        }
        snd_nxt
    }

    fn skip_arrived(&mut self) {
        while let Some((from, to)) = self.held.front_mut() {
            if let Some((missing, _)) = self.arrived.missing(*from, *to) {
                *from = missing;
                break;
            }
            self.held.pop_front();
        }
    }

    /// Writes the head of a subflow's next packet. There is one: the caller asked
    /// [`may_send`](Self::may_send).
    pub fn emit(&mut self, now: Time, index: usize, out: &mut [u8; HEADERS_LEN]) -> Option<Segment> {
        let subflow = self.subflows.get_mut(index)?;
        if subflow.must_repeat() {
            return subflow.emit_again(now, self.size, out);
        }
        if let Some((from, to)) = self.held.front_mut() {
            let (from, to) = (from, *to);
            let until = self.arrived.missing(*from, to).map_or(to, |(_, until)| until);
            let segment = subflow.emit_new(now, (*from, until), self.size, out);
            *from += u64::from(segment.payload);
            subflow.retransmits += 1;
            self.skip_arrived();
            return Some(Segment { again: true, ..segment });
        }
        let segment = subflow.emit_new(now, (self.next, self.size), self.size, out);
        self.next += u64::from(segment.payload);
        Some(segment)
    }

    /// Changes the scheme, with a coupled control law of its own if it has one for this number of subflows.
    pub fn adopt(
        &mut self,
        now: Time,
        from_rtt: Time,
        needs: &Needs,
        payload: u32,
        law: Option<Box<dyn Coupled>>,
    ) {
        self.full = payload;
        for subflow in &mut self.subflows {
            subflow.adapt(needs, payload);
        }
        let Some(law) = law else { return };
        self.control = law;
        for index in 0..self.subflows.len() {
            let held = self.subflows[index].held();
            let decision = self.control.resume(index, now, &Pace::of(&held, from_rtt));
            self.apply(index, decision);
        }
    }

    /// Takes over what the scheme decided for a subflow. Returns whether subflows were suppressed with it.
    pub fn apply(&mut self, index: usize, decision: Decision) -> bool {
        if let Some(subflow) = self.subflows.get_mut(index) {
            subflow.apply(decision);
        }
        let suppressed = (0..self.subflows.len()).any(|index| !self.control.is_active(index));
        std::mem::replace(&mut self.suppressed, suppressed) != suppressed && suppressed
    }

    fn active(&self) -> impl Iterator<Item = &Subflow> {
        let subflows = self.subflows.iter().enumerate();
        subflows.filter(|(index, _)| self.is_active(*index)).map(|(_, subflow)| subflow)
    }

    pub fn view(&self) -> FlowView {
        let sum = |of: fn(&Subflow) -> u64| Bytes::new(self.subflows.iter().map(of).sum());
        let newest = |of: fn(&Subflow) -> u16| self.subflows.first().map_or(0, of);
        FlowView {
            message: self.message,
            peer: self.peer,
            start: self.start,
            size: (self.size != ENDLESS).then_some(Bytes::new(self.size)),
            rate: self.subflows.iter().map(Subflow::rate).max().unwrap_or(Bandwidth::ZERO),
            window: Bytes::new(self.active().map(Subflow::window).sum()),
            inflight: sum(Subflow::inflight),
            acked: Bytes::new(self.acked),
            sent: Bytes::new(self.next),
            retransmits: self.retransmits(),
            rtt: self.subflows.first().and_then(|subflow| subflow.rtt),
            ack_path: newest(|subflow| subflow.ack_path),
            data_path: self.subflows.first().and_then(|subflow| subflow.data_path),
        }
    }

    pub fn subflow_view(&self, index: usize) -> Option<SubflowView> {
        Some(self.subflows.get(index)?.view(self.is_active(index)))
    }
}
