use super::{Digest, Policy, PolicyId};
use std::net::Ipv4Addr;
use weir_units::Time;

/// How a policy reached a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The policy was set at this host.
    Local,
    /// The policy was received from this host, which need not be the one where it was set.
    Received(Ipv4Addr),
    /// The policy was restored from saved state.
    Restored,
}

/// An entry of the history of a host: a policy that it held or holds.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRecord {
    /// Host time at which the host began to hold the policy.
    pub at: Time,
    /// The policy's id.
    pub id: PolicyId,
    /// Digest of the policy.
    pub digest: Digest,
    /// The content; `None` if no policy had been set.
    pub policy: Option<Policy>,
    /// How the policy reached the host.
    pub origin: Origin,
    /// True if the policy was set at this host and then superseded by a concurrent one.
    pub superseded: bool,
}
