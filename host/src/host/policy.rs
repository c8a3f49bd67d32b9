//! The policy side of a host: receives and sends POLICY frames, and applies the held policy to the transport.

use super::Host;
use super::policy_state::PolicyStatus;
use crate::config::HostConfig;
use crate::event::{HostEvent, PolicyEvent, Transmit};
use crate::policy::{Comparison, Policy, PolicyError, PolicyId, StateError};
use crate::ring::Ring;
use crate::stats::DropReason;
use crate::wire::{FrameView, POLICY_GROUP, POLICY_GROUP_MAC, PacketKind};
use weir_units::Time;

impl Host {
    /// Handles a frame that is addressed to the policy group or has the kind POLICY. It is accepted only if both hold
    /// and the Ethernet destination is the group's.
    pub(super) fn receive_policy(&mut self, now: Time, frame: &FrameView<'_>) -> Result<(), DropReason> {
        let host_policy = self.policy.as_mut().ok_or(DropReason::UnexpectedKind)?;
        if frame.weir.kind() != PacketKind::Policy {
            return Err(DropReason::UnexpectedKind);
        }
        // A packet that reaches one host alone, by IP or by Ethernet address, could change that host without the
        // others noticing (RFC 6206 §9).
        if frame.ip.destination() != POLICY_GROUP || frame.ethernet.destination() != POLICY_GROUP_MAC {
            return Err(DropReason::PolicyUnicast);
        }
        let payload = frame.payload();
        if payload.len() != frame.payload_len() as usize || frame.weir.int_hops() > 0 {
            return Err(DropReason::PolicyMalformed);
        }
        let from = frame.ip.source();
        if let Comparison::Newer { superseded } = host_policy.node.on_packet(now, from, payload)? {
            let id = host_policy.node.held().id;
            push_event(&mut self.events, PolicyEvent::Received { id, from });
            if let Some(ours) = superseded {
                push_event(&mut self.events, PolicyEvent::Superseded { ours, by: id });
            }
            self.apply_held(now);
        } else if host_policy.active == Some(host_policy.node.held().id) {
            // A consistent packet may carry a larger age, which makes the lifetime end earlier.
            host_policy.expires_at = host_policy.node.held().expires_at();
        }
        Ok(())
    }

    /// Returns the POLICY frame that is due, unless its class is paused.
    pub(super) fn transmit_policy(&mut self, now: Time, paused: u8) -> Option<Transmit> {
        let class = self.config.control_class;
        let host_policy =
            self.policy.as_mut().filter(|policy| policy.node.is_due(now) && paused & 1 << class == 0)?;
        host_policy.build_frame(now).then_some(Transmit::Policy { class })
    }

    /// Runs the Trickle timer, and ends the active policy if its lifetime is over.
    pub(super) fn wakeup_policy(&mut self, now: Time) {
        let Some(host_policy) = &mut self.policy else { return };
        host_policy.node.wakeup(now);
        if host_policy.expires_at.is_some_and(|at| at <= now)
            && let Some(id) = host_policy.active
        {
            self.expire(now, id);
        }
    }

    /// Tries to activate the held policy: checks it against the configuration of the switches and, if it fits,
    /// reconfigures both halves of the transport; otherwise records the refusal. Called between two frames. Flows
    /// continue under the new scheme at their effective sending rate.
    fn apply_held(&mut self, now: Time) {
        let Some(host_policy) = &mut self.policy else { return };
        let held = host_policy.node.held();
        let (id, expires) = (held.id, held.expires_at());
        // Nothing to activate: no policy has ever been set.
        let Some(policy) = &held.policy else { return };
        if expires.is_some_and(|at| at <= now) {
            return self.expire(now, id);
        }
        let new_config = host_policy.config_with(policy);
        host_policy.refused = new_config.as_ref().err().copied();
        match new_config {
            Err(reason) => push_event(&mut self.events, PolicyEvent::Refused { id, reason }),
            Ok(new_config) => {
                (host_policy.active, host_policy.expires_at) = (Some(id), expires);
                push_event(&mut self.events, PolicyEvent::Activated { id });
                self.reconfigure(now, new_config);
            }
        }
    }

    /// Returns to the configuration with which the host was created.
    fn expire(&mut self, now: Time, id: PolicyId) {
        let Some(host_policy) = &mut self.policy else { return };
        (host_policy.active, host_policy.expires_at, host_policy.refused) = (None, None, None);
        let base_config = host_policy.base_config.clone();
        push_event(&mut self.events, PolicyEvent::Expired { id });
        self.reconfigure(now, base_config);
    }

    /// Changes both halves of the transport to the configuration `new_config`.
    fn reconfigure(&mut self, now: Time, new_config: HostConfig) {
        // Schemes are trait objects, which can be compared only by name and parameters.
        let is_same_scheme = Policy::of(&*new_config.scheme) == Policy::of(&*self.config.scheme);
        // A policy that changes neither the scheme nor the base RTT must not reset the state of flows. Its other
        // contents do not concern the transport: the node applies the Trickle parameters itself, and ECN thresholds
        // are parameters of the scheme.
        if is_same_scheme && new_config.base_rtt == self.config.base_rtt {
            return;
        }
        // Cannot fail: `check_applicable` or `Host::new` has resolved the same configuration before.
        let Ok(resolved) = new_config.resolve() else { return };
        let previous_rtt = self.config.base_rtt;
        self.outbound.reconfigure(now, previous_rtt, &new_config, &resolved);
        self.inbound.reconfigure(&new_config, &resolved);
        (self.config, self.resolved) = (new_config, resolved);
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
        let host_policy = self.policy.as_mut().ok_or(PolicyError::Disabled)?;
        let policy = host_policy
            .node
            .held()
            .policy
            .clone()
            .unwrap_or_else(|| Policy::of(&*host_policy.base_config.scheme));
        let policy = policy.edit(&host_policy.base_config.registry, edits)?;
        host_policy.config_with(&policy).map_err(PolicyError::Refused)?;
        let id = host_policy.node.set(now, policy)?;
        self.apply_held(now);
        Ok(id)
    }

    /// Returns the policy state of the host; `None` if policies are disabled on it.
    pub fn policy(&self) -> Option<PolicyStatus<'_>> {
        let host_policy = self.policy.as_deref()?;
        Some(PolicyStatus {
            node: &host_policy.node,
            active: host_policy.active,
            refused: host_policy.refused,
        })
    }

    /// Returns the frame of the last [`Transmit::Policy`]; empty before the first.
    pub fn policy_frame(&self) -> &[u8] {
        self.policy.as_deref().map_or(&[], |host_policy| &host_policy.frame)
    }

    /// Returns the state to save for a restart; `None` if policies are disabled on this host.
    pub fn export_policy(&self, now: Time) -> Option<Vec<u8>> {
        self.policy.as_deref().map(|host_policy| host_policy.node.export(now))
    }

    /// Restores the state that an earlier run of this host exported, and activates its policy. `downtime` is the time
    /// since the export, which counts as age of the policy. Call before any flow is opened.
    ///
    /// # Errors
    ///
    /// Policies are disabled on this host, or the state is damaged, another host's, or signed with another key.
    pub fn restore_policy(&mut self, now: Time, state: &[u8], downtime: Time) -> Result<(), StateError> {
        let host_policy = self.policy.as_mut().ok_or(StateError::Disabled)?;
        let id_before = host_policy.node.held().id;
        host_policy.node.restore(now, state, downtime)?;
        if host_policy.node.held().id != id_before {
            self.apply_held(now);
        }
        Ok(())
    }
}

/// Reports a change of the policy state to the driver.
fn push_event(events: &mut Ring<HostEvent>, event: PolicyEvent) {
    events.push_back(HostEvent::Policy(event));
}
