//! Runs experiments in virtual time, as a parallel discrete-event simulation of the fabric.
//!
//! - [`run()`] runs all schemes of an experiment; [`Simulation`] is the same as a backend.
//! - [`fabric_builder`] builds the fabric of one scheme: switches with the compiled P4 program and the controller's
//!   table entries, hosts with the scheme, links.
//! - [`network`], [`process`], [`link`] and [`events`] are the event loop. It is split into logical processes, which
//!   run on any number of threads. It drives `weir_host` and `weir_switch`, the same code that runs on real sockets.
//! - [`observers`] record what happens in the event loop, [`recorder`] samples queues and rates, and [`counts`] reads
//!   the counters of switches and hosts.
//! - [`deadlock`] detects PFC deadlocks.
//! - [`forecast`] predicts the duration of a run on more cores.
//! - [`medium`] runs policy dissemination by Trickle without a fabric.
//!
//! This crate does not depend on any protocol, scheme or P4 program, and neither prints nor writes files. It reads the
//! wall clock only for `wall_s`, and the CPU clock of its threads only for [`forecast`].

mod bipartition;
pub mod counts;
pub mod deadlock;
pub mod events;
pub mod fabric_builder;
mod fault;
mod flows;
pub mod forecast;
mod layout;
pub mod link;
mod locality_order;
pub mod medium;
pub mod messages;
pub mod network;
pub mod nodes;
pub mod observers;
mod parallel_schemes;
pub mod process;
pub mod recorder;
pub mod run;
mod scheduled_changes;
mod thread_buffers;
mod view;
mod worker_pool;

pub use run::{Simulation, run, run_on};
