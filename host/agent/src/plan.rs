use super::{AgentError, Interface, StartAt};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use weir_host::wire::{ETHERNET_LEN, MacAddr, WEIR_PORT, max_announced};
use weir_host::{Announcement, HostConfig, subflow_port};
use weir_units::{Bytes, Time};

/// Longest spin before a point in time, by default. Ours: what an idle core here takes to wake up
/// is below it in 99 of 100 cases (docs/agent.md).
pub const DEFAULT_MAX_SPIN: Time = Time::from_us(60);

/// Everything an agent is made from.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The network interface.
    pub interface: Interface,
    /// The host on it. Its address and MAC address are taken from the interface.
    pub host: HostConfig,
    /// Flows to send.
    pub flows: Vec<FlowPlan>,
    /// Start of the run, from which the flows' times count.
    pub start: StartAt,
    /// End of the run.
    pub until: StopCondition,
    /// Distance of samples, if any are to be taken.
    pub sample: Option<Time>,
    /// Longest spin before a point in time; zero never spins.
    pub spin: Time,
    /// Message id of the first flow; the others follow. Peers remember ids of earlier runs for a
    /// while, so it should differ from run to run.
    pub first_message: u32,
}

/// A flow to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// The receiver's address.
    pub peer: Ipv4Addr,
    /// MAC address of the next hop; the kernel's if absent.
    pub peer_mac: Option<MacAddr>,
    /// The UDP port that spreads flows over paths.
    pub entropy_port: u16,
    /// Time at which it starts.
    pub start: Time,
    /// Time at which it stops, if it is not finished sooner.
    pub stop: Option<Time>,
    /// Bytes to send; absent: until it is stopped.
    pub size: Option<Bytes>,
    /// The senders of an incast that its first packets announce to the receiver.
    pub announces: Option<Announcement>,
}

/// The end of a run; an interrupt ends it in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopCondition {
    /// True if the run ends when all flows are finished.
    pub flows_finished: bool,
    /// At this time after the start.
    pub deadline: Option<Time>,
}

impl AgentConfig {
    /// Refuses what cannot be, before anything was opened.
    pub(super) fn check(&self) -> Result<(), AgentError> {
        let (interface, mtu) = (&self.interface, self.host.mtu);
        if mtu > interface.max_frame {
            return Err(AgentError::MtuAboveInterface {
                iface: interface.name.clone(),
                mtu,
                limit: interface.max_frame,
                needed: mtu.get() - ETHERNET_LEN as u64,
            });
        }
        for (index, flow) in self.flows.iter().enumerate() {
            let FlowPlan { peer, entropy_port: port, .. } = *flow;
            let (count, max) = self.announcement_sizes(flow);
            if count > max {
                return Err(AgentError::TooManyAnnounced { index, peer, count, max });
            }
            if port == 0 || port == WEIR_PORT {
                return Err(AgentError::BadPort { index, peer, port });
            }
            if flow.size == Some(Bytes::ZERO) {
                return Err(AgentError::Empty { index, peer });
            }
            if flow.stop.is_some_and(|stop| stop <= flow.start) {
                return Err(AgentError::StopsBeforeStart { index, peer });
            }
            let endless = flow.size.is_none() && flow.stop.is_none();
            if endless && self.until.flows_finished && self.until.deadline.is_none() {
                return Err(AgentError::Endless { index, peer });
            }
        }
        Ok(())
    }

    /// Returns how many senders a flow announces, and how many its packets can list.
    fn announcement_sizes(&self, flow: &FlowPlan) -> (u64, u64) {
        let count = flow.announces.as_ref().map_or(0, |it| it.senders.len() as u64);
        let payload = self.host.max_payload().map_or(1, Bytes::get);
        (count, max_announced(flow.size.map_or(u64::MAX, Bytes::get), payload))
    }

    /// UDP ports at which packets reach this host.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        let subflows = self.host.scheme.needs().transport.subflows;
        let ports = |flow: &FlowPlan| {
            let first = flow.entropy_port;
            (0..subflows).map(move |subflow| subflow_port(first, subflow))
        };
        let own = self.flows.iter().flat_map(ports);
        own.chain([WEIR_PORT]).collect()
    }
}
