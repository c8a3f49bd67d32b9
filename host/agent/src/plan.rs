use super::{AgentError, Interface, StartAt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use weir_host::wire::{ETHERNET_LEN, MacAddr, WEIR_PORT, max_announced};
use weir_host::{Announcement, HostConfig, subflow_port};
use weir_units::{Bytes, Time};

/// Default of [`AgentConfig::max_spin`]. Weir's choice: 99 % of the wake-ups of an idle core took less (docs/agent.md).
pub const DEFAULT_MAX_SPIN: Time = Time::from_us(60);

/// Configuration of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    pub interface: Interface,
    /// Configuration of the host; its IP and MAC addresses are replaced by those of the interface.
    pub host: HostConfig,
    pub flows: Vec<FlowPlan>,
    /// Start of the run; the times of flows are relative to it.
    pub start: StartAt,
    pub until: StopCondition,
    /// Time between two samples; `None` takes no samples.
    pub sample_interval: Option<Time>,
    /// Maximum time to spin before a deadline; 0 disables spinning.
    pub max_spin: Time,
    /// Message id of the first flow; the others have consecutive ids. Peers remember ids of earlier runs for a while,
    /// so choose a different one for each run.
    pub first_message: u32,
}

/// A flow that the agent will send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    pub peer: Ipv4Addr,
    /// MAC address of the next hop; `None` looks it up in the kernel's route and neighbour tables.
    pub peer_mac: Option<MacAddr>,
    /// UDP port that differs by flow, so that ECMP spreads flows over paths.
    pub entropy_port: u16,
    /// Start of the flow, relative to the start of the run.
    pub start: Time,
    /// Time to stop the flow, relative to the start of the run; `None` if it ends only by its size.
    pub stop: Option<Time>,
    /// Bytes to send; `None` sends until the flow is stopped.
    pub size: Option<Bytes>,
    /// The senders of an incast, which the first packets announce to the receiver.
    pub announcement: Option<Announcement>,
}

/// A flow in a list, with values not yet parsed: what a user or the testbed writes for `weir host run`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowEntry {
    /// IPv4 address of the receiver.
    pub peer: String,
    /// Bytes to send, such as `1MB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// UDP port of the flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// MAC address of the next hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// Addresses of the senders that the flow's first packets announce to the receiver, separated by spaces or commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announces: Option<String>,
    /// Number of the incast that the announced senders belong to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incast: Option<u32>,
}

/// When a run ends. An interrupt always ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopCondition {
    /// Ends the run when all flows are finished.
    pub flows_finished: bool,
    /// Ends the run at this time after its start.
    pub deadline: Option<Time>,
}

impl AgentConfig {
    /// Checks the configuration before any socket is opened.
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
            let is_endless = flow.size.is_none() && flow.stop.is_none();
            if is_endless && self.until.flows_finished && self.until.deadline.is_none() {
                return Err(AgentError::Endless { index, peer });
            }
        }
        Ok(())
    }

    /// Returns the number of senders that a flow announces, and the maximum that its packets have room for.
    fn announcement_sizes(&self, flow: &FlowPlan) -> (u64, u64) {
        let count = flow.announcement.as_ref().map_or(0, |announcement| announcement.senders.len() as u64);
        // `Host::new` refuses an MTU without room for payload; 1 avoids a division by zero until then.
        let payload = self.host.max_payload().map_or(1, Bytes::get);
        (count, max_announced(flow.size.map_or(u64::MAX, Bytes::get), payload))
    }

    /// Returns the UDP ports at which packets reach this host: Weir's, and the entropy ports of all subflows.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        let subflows = self.host.scheme.needs().transport.subflows;
        let entropy_ports = self.flows.iter().flat_map(|flow| {
            let first = flow.entropy_port;
            (0..subflows).map(move |subflow| subflow_port(first, subflow))
        });
        entropy_ports.chain([WEIR_PORT]).collect()
    }
}
