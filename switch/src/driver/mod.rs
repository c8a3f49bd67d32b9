//! The switch in real time, on network interfaces or pcap files.
//!
//! Only this module and the servers beside it have a clock, sockets, threads and a log: a thin driver of the sans-IO
//! [`Switch`]. One thread owns the switch and moves all frames ([`Dataplane`]), or all switches of a fabric
//! ([`FabricDataplane`]); everything else speaks to it through a [`DataplaneHandle`]: the P4Runtime and Thrift
//! servers run closures on the switch, take packet-ins and digests, inject packet-outs, set rates, add ports.
//!
//! ```no_run
//! # use weir_switch::{Program, Switch, driver::*};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = DataplaneConfig::default();
//! let program = Program::from_json(&std::fs::read_to_string("l3.json")?)?;
//! let switch = Box::new(Switch::new(program, config.switch_config(), 1)?);
//! let ports = [(1, "veth0".into()), (2, "veth1".into())];
//! let dataplane = Dataplane::start(config, Some(switch), &ports)?;
//! let handle = dataplane.handle();
//! let dropped = handle.with(|switch, _now| switch.drops().total())?;
//! println!("{dropped:?}\n{}", dataplane.stop());
//! # Ok(()) }
//! ```
//!
//! Its cost and design decisions are described in `docs/switch.md`. All `unsafe` code is in [`af_packet`].

pub mod af_packet;
mod capture;
mod clock;
mod commands;
mod config;
mod emulator;
mod event;
mod event_loop;
mod fabric;
mod handle;
mod oneshot;
mod packet_log;
mod pcap;
mod poll;
mod port;
mod port_link;
mod replay;
mod stats;
mod switch_runtime;
mod timers;

pub use capture::CaptureConfig;
pub use config::{DataplaneConfig, FrameSource};
pub use emulator::{
    EmulatedLink, LinkEmulator, LinkEmulatorHandle, LinkEmulatorStats, LinkObserver, LinkStatus,
};
pub use event::{DataplaneEvent, Delivery};
pub use fabric::{FabricDataplane, FabricMember, FabricPort};
pub use handle::{DataplaneError, DataplaneHandle};
pub use oneshot::Reply;
pub use pcap::{PcapError, PcapReader, PcapWriter};
pub use port_link::{DirectionStatus, PortLink, PortLinkConfig, SwitchLinks};
pub use stats::{DataplaneStats, IoDrop, IoDrops, PortCounters, PortStatus};

use crate::engine::Switch;
use std::io;
use thiserror::Error;

/// The reason why a data plane did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The system refused a thread or an event queue.
    #[error("cannot start the data plane: {0}")]
    System(#[from] io::Error),
    /// A port could not be attached.
    #[error(transparent)]
    Dataplane(#[from] DataplaneError),
}

/// A running data plane of one switch. Dropping it stops its thread and waits for it.
#[derive(Debug)]
pub struct Dataplane(FabricDataplane);

impl Dataplane {
    /// Starts the thread in the network namespace of the caller, with a switch if there is a program already, and
    /// attaches all ports or none. No frame moves before all ports are attached.
    ///
    /// # Errors
    ///
    /// A port cannot be attached, or the thread or its sockets cannot be created.
    pub fn start(
        config: DataplaneConfig,
        switch: Option<Box<Switch>>,
        ports: &[(u16, String)],
    ) -> Result<Dataplane, StartError> {
        let member = FabricMember { config, switch, ports: ports.to_vec(), inner: Vec::new() };
        FabricDataplane::start(vec![member]).map(Dataplane)
    }

    /// Returns a handle on it, for any thread. It outlives the data plane, and then says so.
    pub fn handle(&self) -> DataplaneHandle {
        self.0.handles()[0].clone()
    }

    /// Returns whether its thread runs. It ends after [`Self::stop`], or if it panics.
    pub fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// Stops the thread and returns the final counters.
    ///
    /// # Panics
    ///
    /// If the thread panicked.
    pub fn stop(self) -> DataplaneStats {
        self.0.stop().pop().expect("it has one switch")
    }
}
