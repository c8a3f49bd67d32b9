//! Keeps the switches of a fabric in their desired state while the controller runs.
//!
//! - One task per switch (`session_task`) holds the session, reconnects after a failure, and pushes the program to a
//!   switch that lacks it.
//! - One driver task (`run`) probes the links, and starts a rollout when a link has changed, a switch has reconnected
//!   or the tables are due for a check. [`weir_controller::watch::Watcher`] makes all decisions.
//! - A rollout (`rollout`) computes routes for the links that are up and writes the differences. There is one at a
//!   time; events during a rollout cause the next one.
//!
//! All queues between these tasks are bounded. Packet-ins that are not probes of this run are dropped and counted by
//! the session tasks.

mod event;
mod ports;
mod rollout;
mod run;
mod session_task;

pub use event::WatchEvent;
pub use run::{WatchOptions, watch};
pub use weir_controller::watch::{FabricPlan, RolloutReason};
