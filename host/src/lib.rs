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

pub mod abilities;
mod config;
mod drops;
mod event;
mod host;
pub mod law;
pub mod nearest;
pub mod offer;
pub mod own_record;
pub mod parameter;
pub mod policy;
mod priority;
pub mod ring;
pub mod scheme;
pub mod schemes;
mod slab;
mod stats;
pub mod telemetry;
mod transport;
pub mod trickle;
pub mod wire;

pub use config::{
    ACTIVE_FRAMES, ACTIVE_RTTS, CONTROL_QUEUE, ConfigError, DEFAULT_MTU, HostConfig, INITIAL_RTO,
    MAX_INBOUND, MAX_STRETCHES, MIN_RTO, NACK_INTERVAL, NACK_RTTS, RTO_FLOOR, RTO_RTTS, TOMBSTONES,
    TransportConfig,
};
pub use event::{
    Announcement, FlowId, FlowSpec, FlowView, HostEvent, InboundView, OpenError, PolicyEvent, SubflowView,
    Transmit, subflow_port,
};
pub use host::{Host, PolicyView};
pub use stats::{DropReason, Drops, HostStats};
