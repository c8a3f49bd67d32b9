//! Keeps the tables of a fabric's switches as planned and reroutes around failed links, without I/O or a clock.
//! `weir_client::watch` drives it with sockets, and `lab/sim/tests/it/control_plane/` in virtual time.
//!
//! [`Watcher`] receives events with the current time and returns actions: which links to probe, when to update which
//! switches, and when to abandon an update. [`LinkMonitor`] decides which links are up, and [`FabricIntent`] is what
//! the tables should hold then.
//!
//! The controller sends a probe as a packet-out through a port of one switch, and the switch at the other end returns
//! it as a packet-in (`p4src/controls/packet_io.p4`). This tests each direction of every link between switches, data
//! plane to data plane, several times a second.

mod control_channel;
mod intent;
mod monitor;
mod probe;
mod watcher;

pub use control_channel::ControlLoss;
pub use intent::{FabricCondition, FabricIntent, FabricPlan};
pub use monitor::{LinkMonitor, MonitorConfig, OutgoingProbe, PacketInKind, ProbeRound};
pub use probe::{ETHERTYPE, LinkProbe};
pub use watcher::{ActualState, LinkChange, Rollout, RolloutReason, RolloutSummary, SwitchOutcome, Watcher};
