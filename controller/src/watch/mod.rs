//! Keeps a fabric as planned, without a socket or a clock. `weir_client::watch` drives it, and so do the simulations of
//! the control plane in `lab/sim/tests/it/control_plane/`.
//!
//! [`Watcher`] is told what happens and what time it is, and says what to do: which links to probe, when to bring which
//! switches in line, and when to give that up. [`LinkMonitor`] says which links are up, [`FabricIntent`] what the tables should
//! hold then.
//!
//! A probe leaves the controller as a packet-out by one port of a switch; the switch at the other end hands it back as a
//! packet-in (`p4src/controls/packet_io.p4`). So every direction of every link between switches is tried, data
//! plane to data plane, several times a second.

mod control_channel;
mod intent;
mod monitor;
mod probe;
mod watcher;

pub use control_channel::ControlLoss;
pub use intent::{FabricCondition, FabricIntent, FabricPlan};
pub use monitor::{LinkMonitor, MonitorConfig, PacketInKind, ProbeRound};
pub use probe::{ETHERTYPE, LinkProbe};
pub use watcher::{ActualState, Rollout, RolloutReason, RolloutSummary, SwitchOutcome, Watcher};
