//! What the fabric's tables should hold, and a proof that it is right.
//!
//! The way from a description to a switch, one module a step:
//!
//! 1. [`topology`]: a [`topology::TopologySpec`] (YAML) becomes a checked [`topology::Topology`]: names, ports,
//!    addresses, links.
//! 2. [`mod@routes`]: symmetric ECMP or spanning trees over it.
//! 3. [`mod@verify`]: a proof over every pair and every hash value that data and ACK take the same path
//!    in opposite directions, without loop or black hole.
//! 4. [`mod@plan`]: the table entries of each switch as P4Runtime updates.
//!
//! [`path`] tells what a packet will meet (switches, ports, base RTT, bottleneck), [`hash`] is the
//! Rust twin of the hash in `p4src/include`.
//!
//! This crate knows no congestion control scheme, opens no socket and reads no clock. Nothing here
//! talks to a switch: `weir_switch::control` takes the updates in process. `docs/routing.md` explains
//! the ideas.

mod compiled;
pub mod hash;
pub mod path;
pub mod plan;
pub mod profile;
pub mod rate;
mod residue;
pub mod routes;
pub mod topology;
pub mod verify;
mod walk;

pub use path::{BaseRtt, Path, PathHop};
pub use plan::{PlanError, PlanOptions, plan};
pub use routes::{Method, RouteError, Routes, routes};
pub use topology::{Topology, TopologyError, TopologySpec, build};
pub use verify::{Proof, Violation, verify};
