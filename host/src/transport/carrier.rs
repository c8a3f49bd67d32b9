use super::control::ControlQueue;
use super::outbound::Departure;
use super::{connection, inbound, outbound};
use crate::config::{HostConfig, Resolved};
use crate::event::{FlowSpec, FlowView, HostEvent, InboundView, OpenError, SubflowView};
use crate::lane::Lane;
use crate::scheme::Recovery;
use crate::slab::Key;
use crate::stats::{DropReason, HostStats};
use crate::wire::{FrameView, MAX_HEAD};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use weir_units::Time;

/// All outgoing messages, by whichever transport.
#[derive(Debug)]
pub(crate) enum Outbound {
    GoBackN(outbound::Outbound),
    Connections(connection::Outbound),
}

/// All incoming messages, by whichever transport.
#[derive(Debug)]
pub(crate) enum Inbound {
    GoBackN(inbound::Inbound),
    Connections(connection::Inbound),
}

/// The same call, whichever it is.
macro_rules! either {
    ($self:expr, $it:ident => $call:expr) => {
        match $self {
            Self::GoBackN($it) => $call,
            Self::Connections($it) => $call,
        }
    };
}

impl Outbound {
    pub fn new(config: &HostConfig, resolved: &Resolved) -> Outbound {
        match resolved.recovery {
            Recovery::GoBackN => Outbound::GoBackN(outbound::Outbound::new(config, resolved)),
            Recovery::Selective => Outbound::Connections(connection::Outbound::new(config, resolved)),
        }
    }
    pub fn open(
        &mut self,
        now: Time,
        spec: &FlowSpec,
        config: &HostConfig,
        resolved: &Resolved,
    ) -> Result<Key, OpenError> {
        either!(self, it => it.open(now, spec, config, resolved))
    }
    /// The scheme changes, and messages go on. The transport stays the same.
    pub fn adopt(&mut self, now: Time, from_rtt: Time, config: &HostConfig, resolved: &Resolved) {
        either!(self, it => it.adopt(now, from_rtt, config, resolved));
    }
    /// Connections have no first packet to announce anybody: senders are counted as they come.
    pub fn announce(&mut self, key: Key, senders: &[Ipv4Addr]) -> Result<(), OpenError> {
        match self {
            Outbound::GoBackN(it) => it.announce(key, senders),
            Outbound::Connections(_) => Ok(()),
        }
    }
    pub fn stop(&mut self, now: Time, key: Key) {
        either!(self, it => it.stop(now, key));
    }
    pub fn view(&self, key: Key) -> Option<FlowView> {
        either!(self, it => it.view(key))
    }
    pub fn subflow(&self, key: Key, index: usize) -> Option<SubflowView> {
        match self {
            Outbound::GoBackN(_) => None,
            Outbound::Connections(it) => it.subflow(key, index),
        }
    }
    pub fn len(&self) -> usize {
        either!(self, it => it.len())
    }
    pub fn transmit(
        &mut self,
        now: Time,
        is_paused: impl Fn(Lane) -> bool,
        out: &mut [u8; MAX_HEAD],
        stats: &mut HostStats,
    ) -> Option<Departure> {
        either!(self, it => it.transmit(now, is_paused, out, stats))
    }
    pub fn next_wakeup(&self) -> Option<Time> {
        either!(self, it => it.next_wakeup())
    }
    pub fn wakeup(&mut self, now: Time, stats: &mut HostStats) {
        either!(self, it => it.wakeup(now, stats));
    }
    pub fn feedback(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        stats: &mut HostStats,
        events: &mut VecDeque<HostEvent>,
    ) -> Result<(), DropReason> {
        either!(self, it => it.feedback(now, frame, stats, events))
    }
}

impl Inbound {
    pub fn new(config: &HostConfig, resolved: &Resolved) -> Inbound {
        match resolved.recovery {
            Recovery::GoBackN => Inbound::GoBackN(inbound::Inbound::new(config, resolved)),
            Recovery::Selective => Inbound::Connections(connection::Inbound::new(config, resolved)),
        }
    }
    pub fn view(&self, peer: Ipv4Addr, message: u32) -> Option<InboundView> {
        either!(self, it => it.view(peer, message))
    }
    /// The scheme changes, and messages go on. The transport stays the same.
    pub fn adopt(&mut self, config: &HostConfig, resolved: &Resolved) {
        either!(self, it => it.adopt(config, resolved));
    }
    pub fn active_flows(&mut self, now: Time) -> usize {
        either!(self, it => it.active_flows(now))
    }
    pub fn data(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
        events: &mut VecDeque<HostEvent>,
    ) -> Result<(), DropReason> {
        either!(self, it => it.data(now, frame, control, stats, events))
    }
    /// Connections ask for no telemetry, so that nobody probes them.
    pub fn probe(
        &mut self,
        now: Time,
        frame: &FrameView<'_>,
        control: &mut ControlQueue,
        stats: &mut HostStats,
    ) -> Result<(), DropReason> {
        match self {
            Inbound::GoBackN(it) => it.probe(now, frame, control, stats),
            Inbound::Connections(_) => Err(DropReason::UnexpectedKind),
        }
    }
    pub fn next_wakeup(&self) -> Option<Time> {
        either!(self, it => it.next_wakeup())
    }
    pub fn wakeup(&mut self, now: Time, control: &mut ControlQueue, stats: &mut HostStats) {
        either!(self, it => it.wakeup(now, control, stats));
    }
}
