//! Computes what a fabric's tables should hold, and proves that it is correct.
//!
//! The steps from a description to a switch, one module each:
//!
//! 1. [`topology`]: a [`topology::TopologySpec`] (YAML) becomes a checked [`topology::Topology`]: names, ports,
//!    addresses, links.
//! 2. [`mod@routes`]: symmetric ECMP or spanning trees over it.
//! 3. [`mod@verify`]: a proof over every pair and every hash value that data and ACK take the same path
//!    in opposite directions, without loop or black hole.
//!    [`channels`]: a proof that no packets of a lossless fabric wait for each other in a cycle.
//!    [`flood`]: the tree along which POLICY packets go, and its proof.
//! 4. [`mod@plan`]: the table entries of each switch as P4Runtime updates.
//! 5. [`mod@reconcile`]: what a switch lacks of its plan, as updates in an order without black holes or loops.
//!
//! [`path`] tells what a packet will meet (switches, ports, base RTT, bottleneck), [`hash`] is the
//! Rust twin of the hash in `p4src/include`.
//!
//! [`import`] and [`runtime_json`] read and write other tools' files. This crate knows no congestion control scheme. It
//! opens no socket and reads no clock, but for the P4Runtime client behind the feature `client`; `sim` gives the same
//! updates to `weir_switch::control` in process. `docs/routing.md` and `docs/controller.md` explain the ideas.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod call;
pub mod channels;
mod compiled;
pub mod deflect;
pub mod export;
pub mod flood;
pub mod hash;
pub mod import;
pub mod path;
pub mod plan;
pub mod port_params;
pub mod pretty;
pub mod profile;
pub mod reconcile;
mod residue;
mod route_table;
pub mod routes;
pub mod runtime_json;
pub mod topology;
pub mod verify;
pub mod watch;

pub use channels::{ChannelCycle, ChannelProof, verify_channels};
pub use flood::{FloodConfig, FloodFault, FloodProof, verify_flood};
pub use path::{BaseRtt, Path, PathHop};
pub use plan::{PlanError, PlanOptions, plan};
pub use routes::{RouteError, Routes, RoutingMethod, reroute, routes};
pub use topology::{Topology, TopologyError, TopologySpec, build};
pub use verify::{Proof, Violation, verify};
