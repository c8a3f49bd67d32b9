//! Keeps the switches of a fabric as they should be, for as long as it runs.
//!
//! - A task for each switch (`keeper`) holds its session, comes back when it is lost, and puts the program on a
//!   switch that lacks it.
//! - One task (`run`) probes the links, and starts a rollout when a link changed, a switch came back, or the tables
//!   were to be looked at again. All of that is decided by [`weir_controller::watch::Watcher`].
//! - A rollout (`rollout`) computes routes for the links that are up and writes the difference. There is one at a
//!   time; what happens meanwhile makes the next one.
//!
//! Queues between them have bounds. Packet-ins that are no probes of ours end in the keeper and are counted.

mod event;
mod ports;
mod rollout;
mod run;
mod session_task;

pub use event::WatchEvent;
pub(super) use rollout::Member;
pub use run::{WatchOptions, watch};
pub use weir_controller::watch::{FabricPlan, RolloutReason};
