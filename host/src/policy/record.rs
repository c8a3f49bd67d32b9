use super::{Digest, Policy, PolicyId};
use std::net::Ipv4Addr;
use weir_units::Time;

/// The event by which a policy reached a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was set here.
    Local,
    /// It came from this neighbour, which need not be where it was set.
    Received(Ipv4Addr),
    /// It was kept over a restart.
    Restored,
}

/// A policy that a host held, or holds.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyRecord {
    /// Since when.
    pub at: Time,
    /// The policy's id.
    pub id: PolicyId,
    /// Its digest.
    pub digest: Digest,
    /// The content; `Open` only before the first policy.
    pub policy: Option<Policy>,
    /// The event by which it reached the host.
    pub origin: Origin,
    /// It was set here, and another one that was set at the same time has won.
    pub lost: bool,
}
