//! The parameters of congestion control as something that hosts agree on without a server.
//!
//! - [`Policy`]: what is agreed on: a scheme and its parameters, `T`, ECN thresholds, a lifetime. A value, edited by name.
//! - `packet`: its one form on the wire, signed with a key that all hosts share.
//! - [`PolicyNode`]: the protocol: what a host holds, what it makes of what it hears, when it speaks
//!   ([`trickle`](crate::trickle)), what it remembers. It knows no flow and no frame.
//! - `fit`: whether a host may run a policy with the switches as they are.
//!
//! [`Host`](crate::Host) joins them: frames in and out, and what running flows get of it. The protocol is written down in
//! `docs/policy.md`.

mod content;
mod key;
mod node;
mod packet;
mod record;
mod refusal;
mod state;

pub use content::{Policy, PolicyError, TrickleOverrides};
pub use key::{KeyError, MIN_KEY_LEN, PolicyKey};
pub use node::{Comparison, HeldPolicy, MAX_SENDERS, MAX_STAMP_AHEAD_NS, PolicyNode, PolicyStats};
pub use packet::{Digest, MAX_POLICY_PACKET, PolicyId};
pub use record::{Origin, PolicyRecord};
pub use refusal::PolicyRefusal;
pub use state::StateError;

use crate::trickle::TrickleConfig;
use weir_units::Time;

/// Imin in base round trips, where it is not given. RFC 6206 §5 wants a multiple of the worst latency of a
/// transmission: a POLICY packet crosses the fabric in about half of `T`. Its example is 4; ours is 32 of those latencies,
/// since all hosts hear a change at once and reset together: of n hosts n/16 then speak before they can have heard each
/// other, and of 1,024 that is 64 packets rather than 512. §6.6's two to three times the time for k packets is far less.
pub const IMIN_RTTS: u64 = 16;
/// Imax in doublings, where it is not given: RFC 6206 §4.1's example. From 16 times 13 us that makes 13.6 s.
pub const DEFAULT_DOUBLINGS: u32 = 16;
/// k, where it is not given: RFC 6206 §6.5 has 1 to 5 as typical. With 2, the loss of one packet in an interval leaves
/// one that is heard.
pub const DEFAULT_REDUNDANCY: u32 = 2;
/// Policies that a host remembers, where it is not told otherwise. Ours.
pub const DEFAULT_HISTORY_LEN: usize = 32;

/// The configuration of a host that takes part in policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyConfig {
    /// The parameters of the host's Trickle timer.
    pub trickle: TrickleConfig,
    /// Shared by all hosts. Anyone who has it can set policies.
    pub key: PolicyKey,
    /// Time at which it begins to take part.
    pub start: Time,
    /// Of the random moments at which it speaks: another one for every host.
    pub seed: u64,
    /// Offset from the host's time to its stamps, in nanoseconds: the wall clock at time zero. It must make stamps of
    /// every run later than those of all earlier runs, including restarts. A packet whose stamp is not later than
    /// another one of its sender is a replay.
    pub epoch_ns: u64,
    /// Policies that it remembers.
    pub history: usize,
}

impl PolicyConfig {
    /// With the defaults for a fabric of this base round-trip time.
    pub fn new(key: PolicyKey, seed: u64, base_rtt: Time) -> PolicyConfig {
        PolicyConfig {
            trickle: default_trickle(base_rtt),
            key,
            start: Time::ZERO,
            seed,
            epoch_ns: 0,
            history: DEFAULT_HISTORY_LEN,
        }
    }
}

/// Returns the default timer for a fabric of this base round-trip time.
pub fn default_trickle(base_rtt: Time) -> TrickleConfig {
    let imin = Time::from_ps(base_rtt.as_ps().saturating_mul(IMIN_RTTS)).max(crate::trickle::MIN_IMIN);
    TrickleConfig { imin, doublings: DEFAULT_DOUBLINGS, k: std::num::NonZeroU32::new(DEFAULT_REDUNDANCY) }
}
