//! Virtual time: the fabric of an experiment as events.
//!
//! - [`assemble`](mod@assemble): makes the fabric of one scheme: switches with the compiled P4 and the controller's
//!   table entries, hosts with the scheme, links.
//! - [`network`], [`process`], [`link`], [`events`]: the event loop of logical processes, on any number of threads. A thin
//!   driver of `weir_host` and `weir_switch`, which the drivers on real sockets run as well.
//! - [`forecast`]: what a run would take on more cores.
//! - [`deadlock`]: finds ports that wait for each other for good.
//! - [`medium`]: policies by Trickle without a fabric.
//! - [`run()`]: one experiment, all schemes, and [`Simulation`], the same as a backend; [`recorder`], [`arrivals`],
//!   [`packets`] and [`tally`] turn what happened into results.
//!
//! This crate does not depend on any protocol, scheme or P4 program, and neither prints nor writes files. The only
//! clock it reads is for `wall_s`.

mod bipartition;
pub mod counters;
pub mod deadlock;
pub mod doubling_histogram;
pub mod events;
pub mod fabric_builder;
mod fault;
mod flows;
pub mod forecast;
pub mod link;
mod locality_order;
pub mod medium;
pub mod messages;
pub mod network;
mod parallel_schemes;
pub mod path_trace;
pub mod process;
pub mod recorder;
pub mod run;
pub mod rx_stats;
mod scheduled_changes;
mod thread_buffers;
mod worker_pool;

pub use run::{Simulation, run, run_on};
