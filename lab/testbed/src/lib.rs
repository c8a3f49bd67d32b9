//! An experiment in real time: Mininet's hosts and links, P4 switches in a process or in one each, agents on raw
//! sockets. The same file, topology, routes, table entries, schemes and report as in virtual time.
//! [`Mininet`] is the backend.
//!
//! - `bridge`: the Python side (`mininet/weir_mininet`), which owns everything that must be cleaned up.
//! - `plan`: what it is told to build.
//! - `p4runtime`: the switches' server.
//! - `agents`: what runs in the hosts, and what they saw.
//! - `faults`: links that fail while traffic flows.
//! - [`links`]: the process that carries the links, asked on its control socket.
//! - [`talk`]: a request on a control socket, and its answer.
//! - `probe`: queues and links, sampled while traffic flows.
//! - `merge`: all of it as the results of a run.
//! - `run`: one experiment, all schemes.
//! - `tutorial`: networks of the p4 tutorials.

mod agents;
pub mod control;
mod facts;
mod faults;
pub mod links;
mod mininet_process;
mod p4runtime;
mod plan;
mod queue_sampler;
mod results;
mod run;
mod tutorial;

pub use mininet_process::clean;
pub use plan::{
    Plan, PlannedLink, PlannedSwitch, SwitchKind, device_id, grpc_port, link_names, thrift_address,
};
pub use run::Mininet;
pub use tutorial::{Tutorial, TutorialSwitches};

/// Hooks of the calling program: cancellation of a run, and the owner of Ctrl-C.
#[derive(Clone, Copy, Debug)]
pub struct Signals {
    /// Returns whether the run is to end at its next step.
    pub is_cancelled: fn() -> bool,
    /// Called with `true` before a child gets the terminal and Ctrl-C with it, with `false` after that.
    pub lend_terminal: fn(bool),
}
