//! Determines which links are up, by probes that the switches carry for the controller. This part has no socket and no
//! clock; `client::watch` drives it.
//!
//! A probe leaves the controller as a packet-out by one port of a switch; the switch at the other end hands it back as a
//! packet-in (`p4src/controls/packet_io.p4`). So every direction of every link between switches is tried, data
//! plane to data plane, several times a second.

mod contact;
mod monitor;
mod probe;

pub use contact::Loss;
pub use monitor::{LinkMonitor, MonitorConfig, Received, Round};
pub use probe::{ETHERTYPE, Probe};
