mod policy;
mod policy_check;

pub use policy::PolicyStatus;

use crate::config::{ConfigError, HostConfig, ResolvedTransport};
use crate::event::{
    Announcement, FlowId, FlowInfo, FlowSpec, HostEvent, InboundInfo, OpenError, SubflowInfo, Transmit,
};
use crate::ring::Ring;
use crate::stats::{DropReason, HostStats};
use crate::transport::{ControlQueue, Inbound, Outbound, TxFrame};
use crate::wire::{FrameView, MAX_HEADER_LEN, POLICY_GROUP, PacketKind};
use policy::HostPolicy;
use std::net::Ipv4Addr;
use weir_units::Time;

/// All flows of one NIC.
///
/// The driver's contract:
///
/// - Time never goes back from one call to the next.
/// - When the NIC is free, the driver calls [`transmit`](Self::transmit) until it gives nothing;
///   there is no queue behind the host. It asks again after a frame was received, after
///   [`open`](Self::open) and [`stop`](Self::stop), after a class was resumed, and after
///   [`wakeup`](Self::wakeup).
/// - It calls `wakeup` at [`next_wakeup`](Self::next_wakeup), which may move after any call.
/// - It drains [`poll_event`](Self::poll_event) when it likes.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    resolved: ResolvedTransport,
    outbound: Outbound,
    inbound: Inbound,
    control: ControlQueue,
    policy: Option<Box<HostPolicy>>,
    events: Ring<HostEvent>,
    stats: HostStats,
}

impl Host {
    /// Creates a host without flows.
    ///
    /// # Errors
    ///
    /// The configuration cannot work, such as an MTU without room for payload; the error says which value and
    /// what to use instead.
    pub fn new(config: HostConfig) -> Result<Host, ConfigError> {
        let resolved = config.resolve()?;
        Ok(Host {
            outbound: Outbound::new(&config, &resolved),
            inbound: Inbound::new(&config, &resolved),
            control: ControlQueue::new(config.transport.control_queue),
            policy: HostPolicy::new(&config),
            events: Ring::new(),
            stats: HostStats::default(),
            resolved,
            config,
        })
    }

    /// Returns the configuration from which the host was created.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Starts to send a message, at line rate. A message id must not be used again while the peer may still
    /// remember it.
    ///
    /// # Errors
    ///
    /// The message is empty, or its id is that of a message still being sent.
    pub fn open(&mut self, now: Time, spec: FlowSpec) -> Result<FlowId, OpenError> {
        self.outbound.open(now, &spec, &self.config, &self.resolved).map(FlowId)
    }

    /// Lets the first packets of the flow tell the receiver which hosts are about to send to it too (Dart §III-D). Each
    /// flow of an incast should. Packets that have left already, and flows that have ended, tell nothing.
    ///
    /// # Errors
    ///
    /// If the list does not fit into the flow's packets.
    pub fn announce(&mut self, flow: FlowId, announcement: &Announcement) -> Result<(), OpenError> {
        self.outbound.announce(flow.0, announcement)
    }

    /// Stops the flow. One further packet of new data is sent, carrying END. No effect if the flow has
    /// finished or would end sooner.
    pub fn stop(&mut self, now: Time, flow: FlowId) {
        self.outbound.stop(now, flow.0);
    }

    /// A frame came in: `frame` and, behind it, `virtual_payload` zeros. Whatever the bytes are, a
    /// frame is taken or dropped and counted under its reason.
    pub fn receive(&mut self, now: Time, frame: &[u8], virtual_payload: u32) {
        if let Err(reason) = self.try_receive(now, frame, virtual_payload) {
            self.stats.drops.count(reason);
        }
    }

    fn try_receive(&mut self, now: Time, frame: &[u8], virtual_payload: u32) -> Result<(), DropReason> {
        let frame = FrameView::new(frame, virtual_payload)?;
        let for_all = self.policy.is_some() && frame.ip.destination() == POLICY_GROUP;
        if frame.ip.destination() != self.config.addr && !for_all {
            return Err(DropReason::NotForUs);
        }
        if for_all || frame.weir.kind() == PacketKind::Policy {
            return self.receive_policy(now, &frame);
        }
        let Host { inbound, outbound, control, stats, events, .. } = self;
        match frame.weir.kind() {
            PacketKind::Data => inbound.on_data(now, &frame, control, stats, events),
            PacketKind::Probe => inbound.on_probe(now, &frame, control, stats),
            PacketKind::Ack
            | PacketKind::Nack
            | PacketKind::Cnp
            | PacketKind::Rate
            | PacketKind::ProbeReply => outbound.on_feedback(now, &frame, stats, events),
            PacketKind::Policy => Err(DropReason::UnexpectedKind),
        }
    }

    /// The NIC is free: writes the next frame's head, control frames before DATA. Bit `c` of
    /// `paused` pauses class `c`.
    ///
    /// # Panics
    ///
    /// If `head` is shorter than [`MAX_HEADER_LEN`].
    pub fn transmit(&mut self, now: Time, paused: u8, head: &mut [u8]) -> Transmit {
        assert!(
            head.len() >= MAX_HEADER_LEN,
            "a header may have up to {MAX_HEADER_LEN} bytes, got {}",
            head.len()
        );
        let control_class = self.config.control_class;
        if !self.control.is_empty()
            && paused & 1 << control_class == 0
            && let Some(head_len) = self.control.pop().and_then(|frame| frame.emit(&self.config, head))
        {
            return Transmit::Frame { head_len, payload: 0, class: control_class, flow: None };
        }
        if let Some(policy) = self.transmit_policy(now, paused) {
            return policy;
        }
        let Some(head) = head.first_chunk_mut::<MAX_HEADER_LEN>() else { return Transmit::Nothing };
        let config = &self.config;
        let is_paused = |priority| paused & 1 << config.class_of(priority) != 0;
        match self.outbound.transmit(now, is_paused, head, &mut self.stats) {
            Some(TxFrame { key, priority, head_len, payload }) => Transmit::Frame {
                head_len,
                payload,
                class: config.class_of(priority),
                flow: Some(FlowId(key)),
            },
            None => Transmit::Nothing,
        }
    }

    /// Returns the time at which to call [`wakeup`](Self::wakeup), if ever.
    pub fn next_wakeup(&self) -> Option<Time> {
        let policy = self.policy.as_deref().map(HostPolicy::next_wakeup);
        earliest(earliest(self.outbound.next_wakeup(), self.inbound.next_wakeup()), policy)
    }

    /// Does what is due: pacing releases, retransmission timeouts, delayed ACKs, schemes' timers.
    pub fn wakeup(&mut self, now: Time) {
        self.outbound.wakeup(now, &mut self.stats, &mut self.events);
        self.inbound.wakeup(now, &mut self.control, &mut self.stats);
        self.wakeup_policy(now);
    }

    /// Returns the next event, oldest first.
    #[inline]
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    /// Returns a flow as it is now; `Open` once it is finished.
    pub fn flow(&self, flow: FlowId) -> Option<FlowInfo> {
        self.outbound.view(flow.0)
    }

    /// Returns a subflow of a message as it is now; `Open` once the message is finished, or if it has fewer.
    pub fn subflow(&self, flow: FlowId, index: usize) -> Option<SubflowInfo> {
        self.outbound.subflow(flow.0, index)
    }

    /// Returns flows that are not finished.
    pub fn flow_count(&self) -> usize {
        self.outbound.len()
    }

    /// Returns a message that is arriving; `Open` before its first packet and once it is received.
    pub fn inbound(&self, peer: Ipv4Addr, message: u32) -> Option<InboundInfo> {
        self.inbound.view(peer, message)
    }

    /// N: flows active at this receiver.
    pub fn active_inbound(&mut self, now: Time) -> usize {
        self.inbound.active_flows(now)
    }

    /// Counters since the host was made.
    pub fn stats(&self) -> &HostStats {
        &self.stats
    }
}

/// Returns the earlier of two times that may not come.
#[inline]
pub(crate) fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
