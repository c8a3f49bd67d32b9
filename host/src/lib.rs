//! A host of the fabric: wire formats, message transport and congestion control, sans-IO.
//!
//! The layers, from the bottom, and what each does *not* do:
//!
//! - [`wire`]: frames as checked views and values. Knows no flow.
//! - [`telemetry`]: the records of switches, in data-path order and plain units. Knows no scheme.
//! - [`Host`]: one per NIC. Messages, repeating what was lost, subflows, window and pacing, ACKs and NACKs, N. It decides
//!   no rate.
//! - [`scheme`]: the interface of congestion control schemes; [`schemes`]: Weir's own. They receive events and return
//!   decisions; they handle no frame and no timer.
//!
//! The crate `weir-agent` drives a host on a raw socket and a real clock.
//!
//! Nothing here reads a clock, opens a socket, logs or draws random numbers: time and frames come in as arguments, frames
//! and events are asked for. The contract is on [`Host`].

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod capabilities;
mod config;
pub mod custom_record;
mod drops;
mod event;
mod host;
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
    ConfigError, DEFAULT_ACTIVE_FRAMES, DEFAULT_ACTIVE_RTTS, DEFAULT_CONTROL_QUEUE_LEN, DEFAULT_INITIAL_RTO,
    DEFAULT_MAX_INBOUND, DEFAULT_MAX_REORDER_RANGES, DEFAULT_MIN_RTO, DEFAULT_MTU, DEFAULT_NACK_INTERVAL,
    DEFAULT_NACK_RTTS, DEFAULT_TOMBSTONES, DEFAULT_USER_TIMEOUT, GO_BACK_N_RTO_RTTS, HostConfig,
    MIN_GO_BACK_N_RTO, TransportConfig,
};
pub use event::{
    Announcement, FlowError, FlowId, FlowInfo, FlowSpec, HostEvent, InboundInfo, OpenError, PolicyEvent,
    SubflowInfo, Transmit, subflow_port,
};
pub use host::{Host, PolicyStatus};
pub use stats::{DropReason, Drops, HostStats};
