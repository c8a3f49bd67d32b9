//! The errors of starting and controlling a data plane.

use std::io;
use thiserror::Error;

/// The error of starting a data plane.
#[derive(Debug, Error)]
pub enum StartError {
    /// A thread, socket or event queue could not be created.
    #[error("cannot start the data plane: {0}")]
    System(#[from] io::Error),
    #[error(transparent)]
    Dataplane(#[from] DataplaneError),
}

/// The error of a command to the data plane.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DataplaneError {
    /// The thread has ended.
    #[error("the data plane has stopped")]
    Stopped,
    /// No program is installed.
    #[error("the switch has no program yet; set a forwarding pipeline first")]
    NoProgram,
    /// The closure panicked. The switch continues, with the changes that the closure had made before.
    #[error("a control operation panicked; see the log")]
    Panicked,
    /// The switch has no CPU port at which a packet could be injected.
    #[error("the switch has no CPU port; start it with --cpu-port")]
    NoCpuPort,
    /// The command queue is full.
    #[error("the data plane's command queue is full; retry later")]
    Busy,
    /// The port cannot be added or removed.
    #[error("port {port}: {reason}")]
    Port { port: u16, reason: String },
}
