//! The agent: runs a [`Host`](weir_host::Host) on a raw socket and a clock, next to the kernel's own network stack.
//!
//! The agent handles sockets and time, and is a thin driver of the same object that the simulator drives. It has one
//! thread, one loop (`run`) and one network interface:
//!
//! - `interface` and `netlink` read addresses, the MTU and the next hop from the kernel;
//! - `nic` sends and receives frames through pnet and paces them to the NIC's rate;
//! - `sleeper` waits for frames and deadlines;
//! - `filter` selects Weir's packets, `port_guard` keeps the kernel from answering them;
//! - `recorder` collects the [`results`] of flows; [`Status`] shows their progress during the run;
//! - [`policy`] answers requests about the policy of a running agent.
//!
//! `docs/agent.md` describes the design and the measurements.

mod admission;
mod clock;
mod counters;
mod error;
mod filter;
mod flow_stats;
mod interface;
mod netlink;
mod nic;
mod plan;
pub mod policy;
mod port_guard;
mod recorder;
pub mod results;
mod run;
mod sleeper;
mod status;

pub use clock::{Clock, StartAt, StartAtError};
pub use error::AgentError;
pub use interface::Interface;
pub use plan::{AgentConfig, DEFAULT_MAX_SPIN, FlowEntry, FlowPlan, StopCondition};
pub use run::Agent;
pub use status::Status;
