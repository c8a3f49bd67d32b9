//! The agent: a [`Host`](weir_host::Host) on a raw socket and a clock, beside the kernel's own stack.
//!
//! It knows sockets and time, and a thin driver of the same
//! object that virtual time drives. One thread, one loop (`run`), one network interface:
//!
//! - `interface` and `netlink` find addresses, the MTU and the next hop where the kernel has them;
//! - `nic` sends and receives frames through pnet, paces them to the NIC's rate, and waits;
//! - `filter` keeps what is not ours away from us, `shield` keeps the kernel from answering what is;
//! - `recorder` watches flows for [`results`], [`Status`] is what is seen of them meanwhile;
//! - [`policy`]: what may be asked of a running agent.
//!
//! `docs/agent.md` says how it works and what it was measured to do.

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
pub use plan::{AgentConfig, DEFAULT_MAX_SPIN, FlowPlan, StopCondition};
pub use run::Agent;
pub use status::Status;
