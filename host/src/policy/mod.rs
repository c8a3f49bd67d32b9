//! Policies: the scheme and its parameters as a value that all hosts agree on without a server.
//!
//! - [`Policy`]: the content: a scheme and its parameters, `T`, ECN thresholds, a lifetime. A plain value, edited by
//!   the names of these.
//! - `packet`: the encoding on the wire, signed with a key that all hosts share.
//! - [`PolicyNode`]: the protocol at one host: the held policy (the newest one that the host knows), the comparison
//!   with received ones, the timer ([`trickle`](crate::trickle)) and the history. It has no notion of flows or frames.
//! - `state`: the state that a host saves for a restart.
//!
//! [`Host`](crate::Host) sends and receives the frames, checks whether it can run the held policy with the switches as
//! they are, and applies it to running flows: the policy is then active. `docs/policy.md` specifies the protocol.

mod config;
mod content;
mod key;
mod node;
mod packet;
mod record;
mod refusal;
mod state;

pub use config::{
    DEFAULT_DOUBLINGS, DEFAULT_HISTORY_LEN, DEFAULT_IMIN_RTTS, DEFAULT_REDUNDANCY, PolicyConfig,
    default_trickle,
};
pub use content::{Policy, PolicyError, TrickleOverrides};
pub use key::{KeyError, MIN_KEY_LEN, PolicyKey};
pub use node::{Comparison, HeldPolicy, MAX_SENDERS, MAX_STAMP_AHEAD_NS, PolicyNode, PolicyStats};
pub use packet::{Digest, MAX_POLICY_PACKET, PolicyId};
pub use record::{Origin, PolicyRecord};
pub use refusal::PolicyRefusal;
pub use state::StateError;
