//! The policy state of a host: the held policy, and whether the host runs it.

use super::policy_check::check_applicable;
use crate::config::HostConfig;
use crate::policy::{Policy, PolicyId, PolicyNode, PolicyRefusal};
use crate::wire::{
    Ecn, FrameRepr, HEADERS_LEN, POLICY_GROUP, POLICY_GROUP_MAC, PacketKind, WEIR_PORT, WeirRepr,
};
use weir_units::Time;

/// The policy state of a host. Absent if policies are disabled on the host.
#[derive(Debug)]
pub(super) struct HostPolicy {
    pub node: PolicyNode,
    /// The configuration with which the host was created, for which the switches are configured.
    pub base_config: HostConfig,
    /// As in [`PolicyStatus`].
    pub active: Option<PolicyId>,
    /// As in [`PolicyStatus`].
    pub refused: Option<PolicyRefusal>,
    /// Time at which the lifetime of the active policy ends.
    pub expires_at: Option<Time>,
    /// The last POLICY frame returned by [`Host::transmit`](crate::Host::transmit).
    pub frame: Vec<u8>,
}

/// A view of the policy state of a host, for the driver.
#[derive(Clone, Copy, Debug)]
pub struct PolicyStatus<'a> {
    /// The protocol state: held policy, history, counters and timer.
    pub node: &'a PolicyNode,
    /// The active policy; `None` if the host runs the configuration with which it was created.
    pub active: Option<PolicyId>,
    /// Why the held policy is not active; `None` if it is active, or none is held.
    pub refused: Option<PolicyRefusal>,
}

impl HostPolicy {
    pub(super) fn new(config: &HostConfig) -> Option<Box<HostPolicy>> {
        let policy = config.policy.as_ref()?;
        let max_packet_len = (config.mtu.get() as usize).saturating_sub(HEADERS_LEN);
        Some(Box::new(HostPolicy {
            node: PolicyNode::new(policy, config.addr, max_packet_len),
            base_config: config.clone(),
            active: None,
            refused: None,
            expires_at: None,
            frame: Vec::new(),
        }))
    }

    pub(super) fn next_wakeup(&self) -> Time {
        self.expires_at.unwrap_or(Time::MAX).min(self.node.next_wakeup())
    }

    /// Returns the configuration of the host under `policy`, or the reason why it cannot run that policy.
    pub(super) fn config_with(&self, policy: &Policy) -> Result<HostConfig, PolicyRefusal> {
        let scheme = policy.config(&self.base_config.registry).map_err(|_| PolicyRefusal::Unknown)?;
        let base_rtt = policy.base_rtt.unwrap_or(self.base_config.base_rtt);
        let mut new_config = HostConfig { scheme, base_rtt, ..self.base_config.clone() };
        if let Some(policy_config) = &mut new_config.policy {
            policy_config.trickle = policy.timer.apply_to(policy_config.trickle);
        }
        check_applicable(&self.base_config, &new_config, policy.ecn).map(|()| new_config)
    }

    /// Builds the POLICY frame that is due, in `self.frame`. Returns false if the frame would exceed IPv4's maximum
    /// length.
    pub(super) fn build_frame(&mut self, now: Time) -> bool {
        self.frame.clear();
        self.frame.resize(HEADERS_LEN, 0);
        self.node.transmit(now, &mut self.frame);
        let repr = FrameRepr {
            source_mac: self.base_config.mac,
            destination_mac: POLICY_GROUP_MAC,
            source: self.base_config.addr,
            destination: POLICY_GROUP,
            dscp: 0,
            ecn: Ecn::NotEct,
            entropy_port: WEIR_PORT,
            weir: WeirRepr::of(PacketKind::Policy),
            payload_len: (self.frame.len() - HEADERS_LEN) as u32,
        };
        repr.emit(&[], &mut self.frame[..HEADERS_LEN]).is_some()
    }
}
