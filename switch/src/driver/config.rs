//! The configuration of a data plane.

use super::capture::CaptureConfig;
use super::port_link::PortLinkConfig;
use crate::engine::{Clock, SwitchConfig};
use crate::tm::{MAX_PORT, PortConfig, QueueLimits};
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_units::{Bandwidth, Bytes, Time};

/// The source and sink of a data plane's frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FrameSource {
    /// Network interfaces.
    #[default]
    Interfaces,
    /// `<name>_in.pcap` and `<name>_out.pcap`.
    Files {
        /// The directory of the pcap files.
        directory: PathBuf,
        /// Delay between the start and the first frame that is read, so that a controller can set up the switch.
        wait: Time,
    },
}

/// A data plane.
#[derive(Clone, Debug, PartialEq)]
pub struct DataplaneConfig {
    /// The source and sink of frames.
    pub frames: FrameSource,
    /// The unit of the program's timestamps.
    pub clock: Clock,
    /// Strict priorities of each port.
    pub priorities: u8,
    /// The capacity of each queue.
    pub limits: QueueLimits,
    /// The controller's port, if it has one.
    pub cpu_port: Option<u16>,
    /// The egress_spec that means drop.
    pub drop_port: u16,
    /// Links at ports, by number: the ports behave like cables.
    pub port_links: BTreeMap<u16, PortLinkConfig>,
    /// Rates of ports without a wire, in bits of frames per second, by number.
    pub port_rates: BTreeMap<u16, Bandwidth>,
    /// The most interfaces.
    pub max_ports: usize,
    /// Memory for the frames that wait at each interface. At MTU 1500 a frame takes 2 KiB of it.
    pub ring_bytes: usize,
    /// Captures all frames in files.
    pub capture: Option<CaptureConfig>,
    /// Bytes of each frame that are logged, at level info; 0 for none.
    pub dump_bytes: usize,
    /// Every packet's path through the program is logged, at level trace.
    pub trace: bool,
}

impl DataplaneConfig {
    /// BMv2's `--max-port-count` (options_parse.h).
    pub const MAX_PORTS: usize = 512;
    /// 4,096 full frames: 22 ms at 180,000 packets a second, which outlasts a few time slices of others.
    const MAX_RING: usize = 8 << 20;
    /// A quarter of BMv2's libpcap default (2 MiB): enough at the rates that many ports on one machine leave.
    const MIN_RING: usize = 512 << 10;
    /// Memory for all rings of a switch, in bytes. The kernel cannot swap it.
    const ALL_RINGS: usize = 32 << 20;

    /// Memory for each ring of a switch with this many ports.
    pub fn ring_bytes_for(ports: usize) -> usize {
        (Self::ALL_RINGS / ports.max(1)).clamp(Self::MIN_RING, Self::MAX_RING)
    }

    /// Returns whether every packet is logged.
    #[inline]
    pub(super) fn is_logged(&self) -> bool {
        self.dump_bytes > 0 || self.trace
    }

    /// Returns the configuration of the switch behind the ports. As in BMv2 every port number has queues, whether an
    /// interface is attached or not, so that one can be attached later.
    pub fn switch_config(&self) -> SwitchConfig {
        let ports = (0..=MAX_PORT).filter(|&port| port != self.drop_port);
        SwitchConfig {
            ports: ports.map(|port| PortConfig { limits: self.limits, ..PortConfig::new(port) }).collect(),
            priorities: self.priorities,
            weights: Vec::new(),
            buffer: Bytes::MAX,
            pfc: None,
            clock: self.clock,
            cpu_port: self.cpu_port,
            drop_port: self.drop_port,
        }
    }
}

impl Default for DataplaneConfig {
    /// As simple_switch starts: microseconds, one queue of 64 packets a port.
    fn default() -> DataplaneConfig {
        DataplaneConfig {
            frames: FrameSource::Interfaces,
            clock: Clock::Us,
            priorities: 1,
            limits: QueueLimits::BMV2,
            cpu_port: None,
            drop_port: SwitchConfig::DROP_PORT,
            port_links: BTreeMap::new(),
            port_rates: BTreeMap::new(),
            max_ports: Self::MAX_PORTS,
            ring_bytes: Self::MAX_RING,
            capture: None,
            dump_bytes: 0,
            trace: false,
        }
    }
}
