use super::rto::Rto;
use super::subflow::{Segment, Subflow};
use crate::config::Resolved;
use crate::event::{FlowSpec, FlowView, SubflowView, subflow_port};
use crate::scheme::{Coupled, Decision, Needs, Pace};
use crate::transport::{Lane, MAX_WINDOW};
use crate::wire::{FrameRepr, HEADERS_LEN};
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Bytes, Time};

/// One message on its way out over its subflows.
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
    pub control: Box<dyn Coupled>,
    pub subflows: Box<[Subflow]>,
    /// Whether some subflows may not send new data. At first they may not have joined.
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
        self.subflows.iter().map(Subflow::una).sum()
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

    /// Whether a subflow has something to send and room for it. The bytes of the message on their way
    /// are bounded too, so that 32 bits on the wire are never ambiguous.
    pub fn may_send(&self, index: usize) -> bool {
        let Some(subflow) = self.subflows.get(index) else { return false };
        if subflow.must_repeat() {
            return true;
        }
        let first = || self.subflows.iter().filter_map(Subflow::first_data).min();
        self.next < self.size
            && subflow.has_room()
            && self.control.is_active(index)
            && self.next - first().unwrap_or(self.next) < MAX_WINDOW
    }

    /// Writes the head of a subflow's next packet. There is one: the caller asked
    /// [`may_send`](Self::may_send).
    pub fn emit(&mut self, now: Time, index: usize, out: &mut [u8; HEADERS_LEN]) -> Option<Segment> {
        let subflow = self.subflows.get_mut(index)?;
        if subflow.must_repeat() {
            return subflow.emit_again(now, self.size, out);
        }
        let segment = subflow.emit_new(now, self.next, self.size, out);
        self.next += u64::from(segment.payload);
        Some(segment)
    }

    /// Another scheme takes over, with a law of its own if it has one for so many subflows.
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
        subflows.filter(|(index, _)| self.control.is_active(*index)).map(|(_, subflow)| subflow)
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
            acked: sum(Subflow::una),
            sent: Bytes::new(self.next),
            retransmits: self.retransmits(),
            rtt: self.subflows.first().and_then(|subflow| subflow.rtt),
            ack_path: newest(|subflow| subflow.ack_path),
            data_path: self.subflows.first().and_then(|subflow| subflow.data_path),
        }
    }

    pub fn subflow_view(&self, index: usize) -> Option<SubflowView> {
        Some(self.subflows.get(index)?.view(self.control.is_active(index)))
    }
}
