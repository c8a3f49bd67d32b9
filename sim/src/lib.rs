//! Virtual time: the fabric of an experiment as events.
//!
//! - [`experiment`]: reads, checks and resolves an experiment file.
//! - [`assemble`](mod@assemble): makes the fabric of one scheme: switches with the compiled P4 and the controller's
//!   table entries, hosts with the scheme, links.
//! - [`network`], [`link`], [`events`]: the event loop. A thin driver of `weir_host` and
//!   `weir_switch`, which the drivers on real sockets run as well.
//! - [`deadlock`]: finds ports that wait for each other for good.
//! - [`workload`]: the flows that nobody lists, made as time goes on.
//! - [`medium`]: policies by Trickle without a fabric.
//! - [`run()`]: one experiment, all schemes; [`recorder`], [`fct`], [`arrivals`] and [`tally`] turn what happened
//!   into [`results`].
//!
//! This crate does not depend on any protocol, scheme or P4 program, and neither prints nor writes files. The only clock it reads is for `wall_s`.

pub mod arrivals;
pub mod artifacts;
pub mod assemble;
pub mod catalogue;
pub mod classes;
pub mod deadlock;
pub mod doubling;
pub mod events;
pub mod experiment;
pub mod fct;
mod flows;
mod happen;
pub mod histogram;
pub mod laws;
pub mod link;
pub mod medium;
pub mod network;
mod observe;
mod parallel;
pub mod paths;
pub mod recorder;
pub mod results;
pub mod rng;
pub mod run;
mod scalar;
mod schema;
pub mod slowdown;
pub mod tally;
pub mod topologies;
pub mod workload;
pub mod yaml;

pub use catalogue::Catalogue;
pub use observe::{Observer, Progress, RunError};
pub use run::{run, run_on};
/// For the schemas of the keys of own workloads and topologies.
pub use schemars;
