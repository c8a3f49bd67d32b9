mod nic;
mod policy;
mod policy_check;
mod policy_state;

pub use policy_state::PolicyStatus;

use crate::config::{ConfigError, HostConfig, ResolvedTransport};
use crate::event::{
    Announcement, FlowId, FlowInfo, FlowSpec, HostEvent, InboundInfo, OpenError, SubflowInfo, Transmit,
};
use crate::nic::{ReceivePath, SendPath};
use crate::ring::Ring;
use crate::scheme::GaugeReporter;
use crate::stats::{DropReason, HostStats};
use crate::transport::{ControlQueue, FrameTimes, Inbound, Outbound, TxFrame};
use crate::wire::{FrameView, MAX_HEADER_LEN, POLICY_GROUP, PacketKind};
use policy_state::HostPolicy;
use std::net::Ipv4Addr;
use weir_units::Time;

/// A host with one NIC: all messages that it sends and receives.
///
/// The contract with the driver:
///
/// - Times never decrease from one call to the next.
/// - When the NIC is free, the driver calls [`transmit`](Self::transmit) until it returns [`Transmit::Nothing`];
///   there is no queue below the host. The driver calls again after a frame was received, after [`open`](Self::open)
///   and [`stop`](Self::stop), after a class was resumed, and after [`wakeup`](Self::wakeup).
/// - The driver calls `wakeup` at [`next_wakeup`](Self::next_wakeup), which may change with any call.
/// - The driver drains [`poll_event`](Self::poll_event) at any time; events accumulate until then.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    resolved: ResolvedTransport,
    outbound: Outbound,
    inbound: Inbound,
    control: ControlQueue,
    /// `None` unless the NIC model affects reception.
    receive_path: Option<Box<ReceivePath>>,
    /// `None` unless the NIC model affects sending.
    send_path: Option<Box<SendPath<Option<FlowId>>>>,
    policy: Option<Box<HostPolicy>>,
    events: Ring<HostEvent>,
    stats: HostStats,
}

impl Host {
    /// Creates a host without flows.
    ///
    /// # Errors
    ///
    /// The configuration is invalid, for example an MTU without room for payload.
    pub fn new(config: HostConfig) -> Result<Host, ConfigError> {
        let resolved = config.resolve()?;
        Ok(Host {
            outbound: Outbound::new(&config, &resolved),
            inbound: Inbound::new(&config, &resolved),
            control: ControlQueue::new(config.transport.control_queue, &config.nic),
            receive_path: ReceivePath::new(&config.nic),
            send_path: SendPath::new(&config.nic, config.nic_rate, config.mtu),
            policy: HostPolicy::new(&config),
            events: Ring::new(),
            stats: HostStats::default(),
            resolved,
            config,
        })
    }

    /// Returns the configuration in force: the one the host was created with, changed by the active policy.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Starts sending a message. A message id must not be used again while the peer may still hold state for it.
    ///
    /// # Errors
    ///
    /// The message is empty, or its id is in use by another message of this host.
    pub fn open(&mut self, now: Time, spec: FlowSpec) -> Result<FlowId, OpenError> {
        self.outbound.open(now, &spec, &self.config, &self.resolved).map(FlowId)
    }

    /// Announces the senders of an incast to the receiver in the first packets of the flow (Dart §III-D). Each flow
    /// of the incast should do so. No effect on packets that were sent already, on finished flows, and with selective
    /// retransmission.
    ///
    /// # Errors
    ///
    /// The list does not fit the flow's packets.
    pub fn announce(&mut self, flow: FlowId, announcement: &Announcement) -> Result<(), OpenError> {
        self.outbound.announce(flow.0, announcement, self.config.addr)
    }

    /// Ends the flow early: one more packet of new data is sent, with END. No effect if the flow has finished or
    /// would end sooner.
    pub fn stop(&mut self, now: Time, flow: FlowId) {
        self.outbound.stop(now, flow.0);
    }

    /// Handles a received frame: `frame`, followed by `virtual_payload` zero bytes that are not stored in it. Accepts
    /// any bytes; a frame that is not accepted is counted under its [`DropReason`].
    pub fn receive(&mut self, now: Time, frame: &[u8], virtual_payload: u32) {
        if self.receive_path.is_some() {
            return self.receive_through_nic(now, frame, virtual_payload);
        }
        self.handle(FrameTimes { arrived_at: now, now }, frame, virtual_payload);
    }

    /// Passes a frame to the transport.
    fn handle(&mut self, times: FrameTimes, frame: &[u8], virtual_payload: u32) {
        if let Err(reason) = self.try_handle(times, frame, virtual_payload) {
            self.stats.drops.count(reason);
        }
    }

    /// Counts a frame that the driver has dropped for the host.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.stats.drops.count(reason);
    }

    fn try_handle(
        &mut self,
        times: FrameTimes,
        frame: &[u8],
        virtual_payload: u32,
    ) -> Result<(), DropReason> {
        let frame = FrameView::new(frame, virtual_payload)?;
        let is_to_group = self.policy.is_some() && frame.ip.destination() == POLICY_GROUP;
        if frame.ip.destination() != self.config.addr && !is_to_group {
            return Err(DropReason::NotForUs);
        }
        if is_to_group || frame.weir.kind() == PacketKind::Policy {
            return self.receive_policy(times.now, &frame);
        }
        let Host { inbound, outbound, control, stats, events, .. } = self;
        match frame.weir.kind() {
            PacketKind::Data => inbound.on_data(times, &frame, control, stats, events),
            PacketKind::Probe => inbound.on_probe(times, &frame, control, stats),
            PacketKind::Ack
            | PacketKind::Nack
            | PacketKind::Cnp
            | PacketKind::Rate
            | PacketKind::ProbeReply => outbound.on_feedback(times, &frame, stats, events),
            // Unreachable: `receive_policy` has handled it.
            PacketKind::Policy => Err(DropReason::UnexpectedKind),
        }
    }

    /// Returns the next frame to send and writes its headers to `head`. Control frames come first, then POLICY, then
    /// DATA. If bit `c` of `paused` is set, PFC pauses class `c` and no frame of it is returned.
    ///
    /// # Panics
    ///
    /// `head` is shorter than [`MAX_HEADER_LEN`].
    pub fn transmit(&mut self, now: Time, paused: u8, head: &mut [u8]) -> Transmit {
        assert!(
            head.len() >= MAX_HEADER_LEN,
            "header buffer must have at least {MAX_HEADER_LEN} bytes, got {}",
            head.len()
        );
        if self.send_path.is_some() {
            return self.transmit_through_nic(now, paused, head);
        }
        self.next_frame(now, paused, head)
    }

    /// Returns the next frame of the transport, as [`transmit`](Self::transmit) does.
    fn next_frame(&mut self, now: Time, paused: u8, head: &mut [u8]) -> Transmit {
        let control_class = self.config.control_class;
        if !self.control.is_empty()
            && paused & 1 << control_class == 0
            && let Some(head_len) = self.control.pop().and_then(|frame| frame.emit(now, &self.config, head))
        {
            return Transmit::Frame { head_len, payload: 0, class: control_class, flow: None };
        }
        if let Some(policy) = self.transmit_policy(now, paused) {
            return policy;
        }
        // Cannot fail: the length was checked above.
        let Some(head) = head.first_chunk_mut::<MAX_HEADER_LEN>() else { return Transmit::Nothing };
        let config = &self.config;
        let is_paused = |priority| paused & 1 << config.class_of(priority) != 0;
        match self.outbound.transmit(now, is_paused, head, &mut self.stats) {
            Some(TxFrame { key, priority, head_len, payload_len }) => Transmit::Frame {
                head_len,
                payload: payload_len,
                class: config.class_of(priority),
                flow: Some(FlowId(key)),
            },
            None => Transmit::Nothing,
        }
    }

    /// Returns the time at which to call [`wakeup`](Self::wakeup); `None` if no timer is armed.
    pub fn next_wakeup(&self) -> Option<Time> {
        let policy = self.policy.as_deref().map(HostPolicy::next_wakeup);
        let transport = Time::earliest(self.outbound.next_wakeup(), self.inbound.next_wakeup());
        Time::earliest(Time::earliest(transport, policy), self.next_nic_wakeup())
    }

    /// Runs every timer that is due at `now`: pacing releases, retransmission timeouts, scheme timers, credits,
    /// delayed ACKs, the Trickle timer, the end of a policy's lifetime, and those of the NIC model. Call [`transmit`](Self::transmit)
    /// afterwards.
    pub fn wakeup(&mut self, now: Time) {
        self.wakeup_nic(now);
        self.outbound.wakeup(now, &mut self.stats, &mut self.events);
        self.inbound.wakeup(now, &mut self.control, &mut self.stats);
        self.wakeup_policy(now);
    }

    /// Removes and returns the oldest event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    /// Returns the state of a flow; `None` once it has finished.
    pub fn flow(&self, flow: FlowId) -> Option<FlowInfo> {
        self.outbound.info(flow.0)
    }

    /// Returns the state of subflow `index` of a flow; `None` once the flow has finished, or if it has fewer
    /// subflows.
    pub fn subflow(&self, flow: FlowId, index: usize) -> Option<SubflowInfo> {
        self.outbound.subflow_info(flow.0, index)
    }

    /// Reports the [gauges](crate::scheme::Sender::gauges) of a flow's scheme; none once the flow has finished.
    pub fn gauges(&self, flow: FlowId, report: &mut GaugeReporter<'_>) {
        self.outbound.gauges(flow.0, report);
    }

    /// Returns the number of outgoing messages that are not acknowledged in full.
    pub fn flow_count(&self) -> usize {
        self.outbound.len()
    }

    /// Returns the state of an incoming message; `None` before its first packet and once it is complete.
    pub fn inbound(&self, peer: Ipv4Addr, message: u32) -> Option<InboundInfo> {
        self.inbound.info(peer, message)
    }

    /// Returns the number of active flows at this receiver: `N` in the concurrency field of ACKs. Marks flows without a
    /// recent packet as idle, hence `&mut self`.
    pub fn active_inbound(&mut self, now: Time) -> usize {
        self.inbound.age_and_count_active(now)
    }

    /// Returns the counters since the host was created.
    pub fn stats(&self) -> &HostStats {
        &self.stats
    }
}
