//! Computes the table entries of a fabric's switches, and proves that the routes are correct.
//!
//! The steps from a topology description to the switches, one module each:
//!
//! 1. [`topology`]: a [`topology::TopologySpec`] (YAML) becomes a checked [`topology::Topology`]: names, ports,
//!    addresses, links.
//! 2. [`mod@routes`]: symmetric ECMP or spanning trees over it.
//! 3. [`mod@verify`]: a proof, over every pair of hosts and every hash value, that data and ACKs take the same path in
//!    opposite directions, without loops or black holes.
//!    [`channels`]: a proof that PFC cannot deadlock.
//!    [`flood`]: the tree along which POLICY packets are flooded, and its proof.
//! 4. [`mod@plan`]: the table entries of each switch as P4Runtime updates.
//! 5. [`mod@reconcile`]: the differences between a switch and its plan, as updates in an order without black holes or
//!    loops.
//!
//! [`path`] returns the switches, ports, base RTT and bottleneck of a packet's path. [`hash`] is the Rust
//! implementation of the hash in `p4src/include`. [`watch`] detects link failures and reroutes.
//!
//! [`import`] and [`runtime_json`] read and write files of other tools. The crate knows no congestion control scheme,
//! opens no socket and reads no clock: the P4Runtime client is a crate of its own, and the simulator passes the same
//! updates to the embedded switch in process. `docs/routing.md` and `docs/controller.md` explain the algorithms.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

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
pub mod reconcile;
mod residue;
mod route_table;
pub mod routes;
pub mod runtime_json;
mod split_mix;
pub mod thresholds;
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
