//! Virtual time: the fabric of an experiment as events.
//!
//! - [`assemble`](mod@assemble): makes the fabric of one scheme: switches with the compiled P4 and the controller's
//!   table entries, hosts with the scheme, links.
//! - [`network`], [`process`], [`link`], [`events`]: the event loop of logical processes, on any number of threads. A thin
//!   driver of `weir_host` and `weir_switch`, which the drivers on real sockets run as well.
//! - [`forecast`]: what a run would take on more cores.
//! - [`deadlock`]: finds ports that wait for each other for good.
//! - [`medium`]: policies by Trickle without a fabric.
//! - [`run()`]: one experiment, all schemes, and [`VirtualTime`], the same as a backend; [`recorder`], [`arrivals`],
//!   [`packets`] and [`tally`] turn what happened into results.
//!
//! This crate does not depend on any protocol, scheme or P4 program, and neither prints nor writes files. The only
//! clock it reads is for `wall_s`.

pub mod arrivals;
pub mod assemble;
mod changes;
mod crew;
pub mod deadlock;
pub mod doubling;
pub mod events;
mod fault;
mod flows;
pub mod forecast;
pub mod link;
pub mod medium;
pub mod network;
pub mod news;
pub mod packets;
mod parallel;
pub mod process;
pub mod recorder;
pub mod run;
mod sides;
pub mod tally;
mod tour;
mod worker;

pub use run::{VirtualTime, run, run_on};
