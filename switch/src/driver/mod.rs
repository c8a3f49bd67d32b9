//! Runs switches in real time, on network interfaces or pcap files.
//!
//! This module is a thin driver of the sans-IO [`Switch`], and the only module of this crate with a clock, sockets,
//! threads and a log. One thread owns the switch and moves all frames ([`Dataplane`]), or all switches of a
//! fabric ([`FabricDataplane`]). Other threads use a [`DataplaneHandle`]: the P4Runtime and Thrift servers
//! run closures on the switch, receive packet-ins and digests, inject packet-outs, set rates and add ports.
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
//! `docs/switch.md` describes its cost and design decisions. All `unsafe` code of the driver is in
//! [`af_packet`].

pub mod af_packet;
mod capture;
mod clock;
mod commands;
mod config;
mod emulator;
mod error;
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
pub use config::{DataplaneConfig, FabricMember, FabricPort, FrameSource};
pub use emulator::{
    EmulatedLink, LinkEmulator, LinkEmulatorHandle, LinkEmulatorStats, LinkObserver, LinkStatus,
};
pub use error::{DataplaneError, StartError};
pub use event::{DataplaneEvent, Delivery};
pub use fabric::FabricDataplane;
pub use handle::DataplaneHandle;
pub use oneshot::Reply;
pub use pcap::{PcapError, PcapReader, PcapWriter};
pub use port_link::{DirectionStatus, PortLink, PortLinkConfig, SwitchLinks};
pub use stats::{DataplaneStats, IoDrop, IoDrops, PortCounters, PortStatus};

use crate::engine::Switch;

/// A running data plane of one switch. Dropping it stops its thread and waits for it.
#[derive(Debug)]
pub struct Dataplane(FabricDataplane);

impl Dataplane {
    /// Starts the thread in the caller's network namespace and attaches all ports, or none on an error. No
    /// frame moves before all ports are attached. Without `switch` the data plane drops all frames until
    /// [`DataplaneHandle::install`].
    ///
    /// # Errors
    ///
    /// A port cannot be attached, or the thread or its sockets cannot be created.
    pub fn start(
        config: DataplaneConfig,
        switch: Option<Box<Switch>>,
        ports: &[(u16, String)],
    ) -> Result<Dataplane, StartError> {
        let member = FabricMember { config, switch, ports: ports.to_vec(), internal_ports: Vec::new() };
        FabricDataplane::start(vec![member]).map(Dataplane)
    }

    /// Returns a handle for any thread. After the data plane has stopped, its calls return
    /// [`DataplaneError::Stopped`].
    pub fn handle(&self) -> DataplaneHandle {
        self.0.handles()[0].clone()
    }

    /// Returns whether the thread runs. It ends after [`Self::stop`], or if it panics.
    pub fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// Stops the thread and returns the final counters.
    ///
    /// # Panics
    ///
    /// If the thread panicked.
    pub fn stop(self) -> DataplaneStats {
        self.0.stop().pop().expect("a data plane has one switch")
    }
}
