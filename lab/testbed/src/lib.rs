//! Runs experiments in real time: hosts and links in Mininet, P4 switches as processes, and agents on raw sockets.
//! Experiment file, topology, routes, table entries, schemes and report are the same as in virtual time. The backend is
//! [`Mininet`].
//!
//! - `mininet_process`: the Python process (`mininet/weir_mininet`) that drives Mininet, and cleans up at the end.
//! - `plan`: the description of the fabric that it builds.
//! - `p4runtime`: programs, table entries and counters of all switches.
//! - `agents`: commands and results of the hosts' agents.
//! - [`host_setup`]: what an agent is told about its host.
//! - `faults`: link faults during the run.
//! - [`links`]: requests to the process that emulates the links.
//! - [`control`]: the protocol of control sockets.
//! - `queue_sampler`: queue lengths and link loads during the run.
//! - `results`: computes the results of a run from all measurements.
//! - `facts`: facts that only a run on real interfaces has, such as ping RTTs.
//! - `run`: runs an experiment, scheme by scheme.
//! - `tutorial`: networks of the p4 tutorials.

mod agents;
pub mod control;
mod facts;
mod faults;
pub mod host_setup;
pub mod links;
mod mininet_process;
mod p4runtime;
mod plan;
mod queue_sampler;
mod results;
mod run;
mod tutorial;

pub use mininet_process::{Signals, clean};
pub use plan::{
    Plan, PlannedLink, PlannedSwitch, SwitchKind, device_id, grpc_port, link_names, thrift_address,
};
pub use run::Mininet;
pub use tutorial::{Tutorial, TutorialSwitches};
