//! A host of a datacenter fabric (the network of switches between hosts), sans-IO: wire formats, message transport and
//! congestion control.
//!
//! The layers, from the bottom, and what each does *not* do:
//!
//! - [`wire`]: frames as checked views and values. It has no notion of flows.
//! - [`telemetry`]: the records of switches, in data-path order and in plain units. It has no notion of schemes.
//! - [`Host`]: one per NIC: messages, subflows, loss recovery, window and pacing, ACKs and NACKs, count of active
//!   flows. It sets no rate.
//! - [`scheme`]: the interface of congestion control schemes; [`schemes`]: the built-in ones. They receive events and
//!   return decisions; they handle no frames and own no timers.
//!
//! The crate `weir-agent` drives a host on a raw socket and a real clock.
//!
//! The crate reads no clock, opens no socket, writes no log and uses no global random generator: times, seeds and
//! frames are arguments, and the caller polls for frames and events. The contract is documented at [`Host`].

#![warn(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod capabilities;
mod config;
pub mod custom_record;
mod drops;
mod event;
mod host;
mod nic;
pub mod parameter;
pub mod policy;
pub mod port_algorithm;
mod priority;
pub mod ring;
pub mod scheme;
pub mod schemes;
mod slab;
mod stats;
pub mod suggest;
pub mod switch_profile;
pub mod telemetry;
mod transport;
pub mod trickle;
pub mod wire;

pub use config::{
    ConfigError, DEFAULT_ACTIVE_FRAMES, DEFAULT_ACTIVE_RTTS, DEFAULT_CONTROL_QUEUE_LEN,
    DEFAULT_GO_BACK_N_RTO_RTTS, DEFAULT_INITIAL_RTO, DEFAULT_MAX_INBOUND, DEFAULT_MAX_REORDER_RANGES,
    DEFAULT_MIN_RTO, DEFAULT_MTU, DEFAULT_NACK_RTTS, DEFAULT_TOMBSTONES, DEFAULT_USER_TIMEOUT,
    GO_BACK_N_RTO_BYTES, HostConfig, MAX_GO_BACK_N_DRAIN, MIN_NACK_INTERVAL, TransportConfig,
};
pub use event::{
    Announcement, FlowError, FlowId, FlowInfo, FlowSpec, HostEvent, InboundInfo, OpenError, PolicyEvent,
    SubflowInfo, Transmit, subflow_port,
};
pub use host::{Host, PolicyStatus};
pub use nic::{NicConfig, NicError};
pub use stats::{DropReason, Drops, HostStats};
