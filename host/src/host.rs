use crate::config::{ConfigError, HostConfig};
use crate::event::{FlowId, FlowSpec, FlowView, HostEvent, InboundView, OpenError, Transmit};
use crate::stats::HostStats;
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
    stats: HostStats,
}

impl Host {
    /// A host without flows.
    pub fn new(config: HostConfig) -> Result<Host, ConfigError> {
        config.check()?;
        Ok(Host { config, stats: HostStats::default() })
    }
    /// What it was made from.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }
    /// Starts to send a message, at line rate.
    pub fn open(&mut self, _now: Time, spec: FlowSpec) -> Result<FlowId, OpenError> {
        Err(OpenError::Empty { message: spec.message })
    }
    /// The flow ends with the next packet that was not sent before. Nothing happens if it is
    /// finished or would end sooner.
    pub fn stop(&mut self, _now: Time, _flow: FlowId) {}
    /// A frame came in: `frame` and, behind it, `virtual_payload` zeros.
    pub fn receive(&mut self, _now: Time, _frame: &[u8], _virtual_payload: u32) {}
    /// The NIC is free: writes the next frame's head. Bit `c` of `paused` pauses class `c`.
    ///
    /// # Panics
    ///
    /// If `head` is shorter than [`MAX_HEAD`](crate::wire::MAX_HEAD).
    pub fn transmit(&mut self, _now: Time, _paused: u8, _head: &mut [u8]) -> Transmit {
        Transmit::Nothing
    }
    /// When to call [`wakeup`](Self::wakeup), if ever.
    pub fn next_wakeup(&self) -> Option<Time> {
        None
    }
    /// Does what is due: pacing releases, retransmission timeouts, delayed ACKs, schemes' timers.
    pub fn wakeup(&mut self, _now: Time) {}
    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        None
    }
    /// A flow as it is now; `None` once it is finished.
    pub fn flow(&self, _flow: FlowId) -> Option<FlowView> {
        None
    }
    /// A message that is arriving; `None` before its first packet and once it is received.
    pub fn inbound(&self, _peer: Ipv4Addr, _message: u32) -> Option<InboundView> {
        None
    }
    /// Counters since the host was made.
    pub fn stats(&self) -> &HostStats {
        &self.stats
    }
}
