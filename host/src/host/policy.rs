//! The policy side of a host: receives and sends POLICY frames, and applies the held policy to the transport.

use super::Host;
use super::policy_check::check_applicable;
use crate::config::HostConfig;
use crate::event::{HostEvent, PolicyEvent, Transmit};
use crate::policy::{Comparison, Policy, PolicyError, PolicyId, PolicyNode, PolicyRefusal, StateError};
use crate::ring::Ring;
use crate::stats::DropReason;
use crate::wire::{
    Ecn, FrameRepr, FrameView, HEADERS_LEN, POLICY_GROUP, POLICY_GROUP_MAC, PacketKind, WEIR_PORT, WeirRepr,
};
use weir_units::Time;

/// The policy state of a host. Absent if policies are disabled on the host.
#[derive(Debug)]
pub(super) struct HostPolicy {
    node: PolicyNode,
    /// The configuration with which the host was created, for which the switches are configured.
    base_config: HostConfig,
    active: Option<PolicyId>,
    refused: Option<PolicyRefusal>,
    /// Time at which the lifetime of the active policy ends.
    expires_at: Option<Time>,
    /// The last POLICY frame returned by [`Host::transmit`].
    frame: Vec<u8>,
}

/// The policy state of a host.
#[derive(Clone, Copy, Debug)]
pub struct PolicyStatus<'a> {
    /// The protocol state: held policy, history, counters and timer.
    pub node: &'a PolicyNode,
    /// The active policy; `None` if the host runs the configuration with which it was created.
    pub runs: Option<PolicyId>,
    /// Why the held policy is not active; `None` if it is active, or none is held.
    pub refused: Option<PolicyRefusal>,
}

impl HostPolicy {
    pub fn new(config: &HostConfig) -> Option<Box<HostPolicy>> {
        let policy = config.policy.as_ref()?;
        let max = (config.mtu.get() as usize).saturating_sub(HEADERS_LEN);
        Some(Box::new(HostPolicy {
            node: PolicyNode::new(policy, config.addr, max),
            base_config: config.clone(),
            active: None,
            refused: None,
            expires_at: None,
            frame: Vec::new(),
        }))
    }

    pub fn next_wakeup(&self) -> Time {
        self.expires_at.map_or(Time::MAX, |at| at).min(self.node.next_wakeup())
    }

    /// Returns the configuration of the host under `policy`, or the reason why it cannot run that policy.
    fn config_with(&self, policy: &Policy) -> Result<HostConfig, PolicyRefusal> {
        let scheme = policy.config(&self.base_config.registry).map_err(|_| PolicyRefusal::Unknown)?;
        let base_rtt = policy.base_rtt.unwrap_or(self.base_config.base_rtt);
        let mut wanted = HostConfig { scheme, base_rtt, ..self.base_config.clone() };
        if let Some(own) = &mut wanted.policy {
            own.trickle = policy.timer.apply_to(own.trickle);
        }
        check_applicable(&self.base_config, &wanted).map(|()| wanted)
    }

    /// Builds the POLICY frame that is due in `self.frame`.
    fn build_frame(&mut self, now: Time) -> bool {
        self.frame.clear();
        self.frame.resize(HEADERS_LEN, 0);
        self.node.transmit(now, &mut self.frame);
        let head = FrameRepr {
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
        head.emit(&[], &mut self.frame[..HEADERS_LEN]).is_some()
    }
}

impl Host {
    /// Handles a frame that is addressed to the policy group or has the kind POLICY. It is accepted only if both hold
    /// and the Ethernet destination is the group's.
    pub(super) fn receive_policy(&mut self, now: Time, frame: &FrameView<'_>) -> Result<(), DropReason> {
        let part = self.policy.as_mut().ok_or(DropReason::UnexpectedKind)?;
        if frame.weir.kind() != PacketKind::Policy {
            return Err(DropReason::UnexpectedKind);
        }
        // A packet that reaches one host alone, by IP or by Ethernet address, could change that host without the
        // others noticing (RFC 6206 section 9).
        if frame.ip.destination() != POLICY_GROUP || frame.ethernet.destination() != POLICY_GROUP_MAC {
            return Err(DropReason::PolicyUnicast);
        }
        let payload = frame.payload();
        if payload.len() != frame.payload_len() as usize || frame.weir.int_hops() > 0 {
            return Err(DropReason::PolicyMalformed);
        }
        let from = frame.ip.source();
        if let Comparison::Newer { lost } = part.node.on_packet(now, from, payload)? {
            let id = part.node.held().id;
            emit(&mut self.events, PolicyEvent::Received { id, from });
            if let Some(ours) = lost {
                emit(&mut self.events, PolicyEvent::Superseded { ours, by: id });
            }
            self.apply_held(now);
        } else if part.active == Some(part.node.held().id) {
            // A consistent packet may carry a larger age, which makes the lifetime end earlier.
            part.expires_at = part.node.held().expires();
        }
        Ok(())
    }

    /// Returns the POLICY frame that is due, unless its class is paused.
    pub(super) fn transmit_policy(&mut self, now: Time, paused: u8) -> Option<Transmit> {
        let class = self.config.control_class;
        let part = self.policy.as_mut().filter(|part| part.node.is_due(now) && paused & 1 << class == 0)?;
        part.build_frame(now).then_some(Transmit::Policy { class })
    }

    pub(super) fn wakeup_policy(&mut self, now: Time) {
        let Some(part) = &mut self.policy else { return };
        part.node.wakeup(now);
        if part.expires_at.is_some_and(|at| at <= now)
            && let Some(id) = part.active
        {
            self.expire(now, id);
        }
    }

    /// Tries to activate the held policy: checks it against the configuration of the switches and, if it fits,
    /// reconfigures both halves of the transport; otherwise records the refusal. Called between two frames. Flows
    /// continue under the new scheme at their effective sending rate.
    fn apply_held(&mut self, now: Time) {
        let Some(part) = &mut self.policy else { return };
        let held = part.node.held();
        let (id, expires) = (held.id, held.expires());
        let Some(policy) = &held.policy else { return };
        if expires.is_some_and(|at| at <= now) {
            return self.expire(now, id);
        }
        let wanted = part.config_with(policy);
        part.refused = wanted.as_ref().err().copied();
        match wanted {
            Err(reason) => emit(&mut self.events, PolicyEvent::Refused { id, reason }),
            Ok(wanted) => {
                (part.active, part.expires_at) = (Some(id), expires);
                emit(&mut self.events, PolicyEvent::Activated { id });
                self.reconfigure(now, wanted);
            }
        }
    }

    /// Returns to the configuration with which the host was created.
    fn expire(&mut self, now: Time, id: PolicyId) {
        let Some(part) = &mut self.policy else { return };
        (part.active, part.expires_at, part.refused) = (None, None, None);
        let base_config = part.base_config.clone();
        emit(&mut self.events, PolicyEvent::Expired { id });
        self.reconfigure(now, base_config);
    }

    fn reconfigure(&mut self, now: Time, wanted: HostConfig) {
        let same = Policy::of(&*wanted.scheme) == Policy::of(&*self.config.scheme);
        // Nothing else of a policy reaches the transport: the node applies the Trickle parameters itself, and ECN
        // thresholds are parameters of the scheme. Flows keep their state.
        if same && wanted.base_rtt == self.config.base_rtt {
            return;
        }
        // `check_applicable` has resolved the configuration before.
        let Ok(resolved) = wanted.resolve() else { return };
        let from_rtt = self.config.base_rtt;
        self.outbound.adopt(now, from_rtt, &wanted, &resolved);
        self.inbound.adopt(&wanted, &resolved);
        (self.config, self.resolved) = (wanted, resolved);
    }

    /// Sets a policy for all hosts: the held one with some keys changed ([`Policy::edit`]). This host activates it at
    /// once and sends it within two Imin.
    ///
    /// # Errors
    ///
    /// Policies are disabled on this host, an edit is invalid ([`Policy::edit`]), this host cannot run the result,
    /// the result does not fit a packet, or no higher version exists.
    pub fn set_policy<K: AsRef<str>, V: AsRef<str>>(
        &mut self,
        now: Time,
        edits: &[(K, V)],
    ) -> Result<PolicyId, PolicyError> {
        let part = self.policy.as_mut().ok_or(PolicyError::Off)?;
        let policy = part.node.held().policy.clone().unwrap_or_else(|| Policy::of(&*part.base_config.scheme));
        let policy = policy.edit(&part.base_config.registry, edits)?;
        part.config_with(&policy).map_err(PolicyError::Refused)?;
        let id = part.node.set(now, policy)?;
        self.apply_held(now);
        Ok(id)
    }

    /// Returns the policy state of the host; `None` if policies are disabled on it.
    pub fn policy(&self) -> Option<PolicyStatus<'_>> {
        let part = self.policy.as_deref()?;
        Some(PolicyStatus { node: &part.node, runs: part.active, refused: part.refused })
    }

    /// Returns the frame of the last [`Transmit::Policy`]; empty before the first.
    pub fn policy_frame(&self) -> &[u8] {
        self.policy.as_deref().map_or(&[], |part| &part.frame)
    }

    /// Returns the state to save for a restart; `None` if policies are disabled on this host.
    pub fn export_policy(&self, now: Time) -> Option<Vec<u8>> {
        self.policy.as_deref().map(|part| part.node.export(now))
    }

    /// Restores the state that an earlier run of this host exported, and activates its policy. `downtime` is the time
    /// since the export, which counts as age of the policy. Call before any flow is opened.
    ///
    /// # Errors
    ///
    /// Policies are disabled on this host, or the state is damaged, another host's, or signed with another key.
    pub fn restore_policy(&mut self, now: Time, state: &[u8], downtime: Time) -> Result<(), StateError> {
        let part = self.policy.as_mut().ok_or(StateError::Disabled)?;
        let before = part.node.held().id;
        part.node.restore(now, state, downtime)?;
        if part.node.held().id != before {
            self.apply_held(now);
        }
        Ok(())
    }
}

fn emit(events: &mut Ring<HostEvent>, event: PolicyEvent) {
    events.push_back(HostEvent::Policy(event));
}
