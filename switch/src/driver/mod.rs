//! The switch in real time, on network interfaces or pcap files.
//!
//! Only this module and the servers beside it have a clock, sockets, threads and a log: a thin driver of the sans-IO
//! [`Switch`]. One thread owns the switch and moves all frames ([`Dataplane`]);
//! everything else speaks to it through a [`DataplaneHandle`]: the P4Runtime and Thrift servers run
//! closures on the switch, take packet-ins and digests, inject packet-outs, set rates, add ports.
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
//! What it costs, and why it is built so, is in `docs/switch.md`; [`af_packet`] has the one `unsafe` corner.

pub mod af_packet;
mod capture;
mod clock;
mod config;
mod control;
mod handle;
mod notice;
mod pcap;
mod poll;
mod port;
mod replay;
mod reply;
mod runtime;
mod stats;
mod watch;
mod wire;

pub use capture::CaptureConfig;
pub use config::{DataplaneConfig, Frames};
pub use handle::{DataplaneError, DataplaneHandle};
pub use notice::{Delivery, Notice};
pub use pcap::{PcapError, PcapReader, PcapWriter};
pub use reply::Reply;
pub use stats::{DataplaneStats, IoDrop, IoDrops, PortCounters, PortStatus};
pub use wire::Wire;

use crate::engine::Switch;
use handle::MAX_COMMANDS;
use poll::Poll;
use runtime::Runtime;
use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use thiserror::Error;

/// Why a data plane did not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The system refused a thread or an event queue.
    #[error("cannot start the data plane: {0}")]
    System(#[from] io::Error),
    /// A port could not be attached.
    #[error(transparent)]
    Dataplane(#[from] DataplaneError),
}

/// A running data plane. Dropping it stops its thread and waits for it.
#[derive(Debug)]
pub struct Dataplane {
    handle: DataplaneHandle,
    thread: Option<JoinHandle<DataplaneStats>>,
}

impl Dataplane {
    /// Starts the thread, in the network namespace of the caller, with a switch if there is a program
    /// already, and attaches the ports: all or none. No frame moves before all of it stands.
    pub fn start(
        config: DataplaneConfig,
        switch: Option<Box<Switch>>,
        ports: &[(u16, String)],
    ) -> Result<Dataplane, StartError> {
        let poll = Poll::new()?;
        let (commands, receiver) = sync_channel(MAX_COMMANDS);
        let handle = DataplaneHandle { commands, wake: poll.wake(), cpu_port: config.cpu_port };
        let thread = std::thread::Builder::new().name("dataplane".into()).spawn(move || {
            // Without it, timers may be 50 us late (prctl(2), PR_SET_TIMERSLACK), which shaping would show.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let mut runtime = Runtime::new(config, poll, receiver);
            runtime.run();
            runtime.stats()
        })?;
        let dataplane = Dataplane { handle, thread: Some(thread) };
        dataplane.handle.begin(switch, ports.to_vec()).wait()?;
        Ok(dataplane)
    }

    /// A handle on it, for any thread. It outlives the data plane, and then says so.
    pub fn handle(&self) -> DataplaneHandle {
        self.handle.clone()
    }

    /// Whether its thread runs: it ends by [`Self::stop`] only, or by a bug.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the thread and gives the last counts.
    pub fn stop(mut self) -> DataplaneStats {
        let thread = self.thread.take().expect("taken here and in drop only");
        self.handle.stop();
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Dataplane {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handle.stop();
            // A panic of the thread was reported on stderr; this may run while another one unwinds.
            let _ = thread.join();
        }
    }
}
