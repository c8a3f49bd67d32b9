//! The configuration of a switch.

use crate::tm::{PfcConfig, PortConfig, TmConfig, TmConfigError};
use thiserror::Error;
use weir_units::{Bytes, Time};

/// The unit of the program's timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Nanoseconds, as in hardware; the default in virtual time.
    #[default]
    Ns,
    /// Microseconds, as in BMv2.
    Us,
}

impl Clock {
    /// Converts a time to ticks, rounded down.
    #[inline]
    pub fn ticks(self, time: Time) -> u64 {
        match self {
            Clock::Ns => time.as_ns(),
            Clock::Us => time.as_us(),
        }
    }
    /// Converts ticks to a time.
    pub fn time(self, ticks: u64) -> Time {
        match self {
            Clock::Ns => Time::from_ns(ticks.min(Time::MAX.as_ns())),
            Clock::Us => Time::from_us(ticks.min(Time::MAX.as_us())),
        }
    }
    /// Returns the number of ticks per second.
    pub(super) fn ticks_per_second(self) -> u64 {
        self.ticks(Time::from_secs(1))
    }
}

/// The configuration of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    pub ports: Vec<PortConfig>,
    /// Number of queues per port, one for each priority; the highest number is served first.
    pub priorities: u8,
    /// Weights of the queues 1, 2, ... of each port for deficit round robin; empty: strict priorities only
    /// ([`TmConfig::weights`]).
    pub weights: Vec<u16>,
    /// The packet buffer that all ports share.
    pub buffer: Bytes,
    /// Priority flow control; `None` if no class is lossless.
    pub pfc: Option<PfcConfig>,
    /// The unit of the program's timestamps.
    pub clock: Clock,
    /// The port of packet-ins and packet-outs. If it is not in `ports`, it is added without limits.
    pub cpu_port: Option<u16>,
    /// The value of `egress_spec` that means drop.
    pub drop_port: u16,
}

impl SwitchConfig {
    /// BMv2's drop port (simple_switch.h).
    pub const DROP_PORT: u16 = 511;
    /// The buffer of the HPCC simulator's switches (mix/config.txt, BUFFER_SIZE).
    pub const BUFFER: Bytes = Bytes::new(32 << 20);

    /// Creates a configuration with these ports, eight priorities, and no limits except the shared buffer.
    pub fn new(ports: impl IntoIterator<Item = u16>) -> SwitchConfig {
        SwitchConfig {
            ports: ports.into_iter().map(PortConfig::new).collect(),
            priorities: crate::tm::MAX_PRIORITIES,
            weights: Vec::new(),
            buffer: Self::BUFFER,
            pfc: None,
            clock: Clock::Ns,
            cpu_port: None,
            drop_port: Self::DROP_PORT,
        }
    }

    /// Returns the configuration of the traffic manager, including the CPU port.
    pub(super) fn tm_config(&self) -> Result<TmConfig, SwitchConfigError> {
        let mut ports = self.ports.clone();
        let cpu = self.cpu_port.filter(|&cpu| ports.iter().all(|port| port.port != cpu));
        ports.extend(cpu.map(PortConfig::new));
        if ports.iter().any(|port| port.port == self.drop_port) {
            return Err(SwitchConfigError::PortIsDropPort(self.drop_port));
        }
        Ok(TmConfig {
            ports,
            priorities: self.priorities,
            weights: self.weights.clone(),
            buffer: self.buffer,
            pfc: self.pfc,
        })
    }
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SwitchConfigError {
    #[error(transparent)]
    Queues(#[from] TmConfigError),
    #[error("port {0} is the drop port; give the port or the drop port another number")]
    PortIsDropPort(u16),
}
