//! The configuration of a data plane.

use super::capture::CaptureConfig;
use super::port_link::PortLinkConfig;
use crate::engine::{Clock, Switch, SwitchConfig};
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
    /// Pcap files: frames are read from `<name>_in.pcap` and written to `<name>_out.pcap`.
    Files {
        /// The directory of the files.
        directory: PathBuf,
        /// Delay between the start and the first frame, so that a controller can set up the switch.
        wait: Time,
    },
}

/// The configuration of a data plane.
#[derive(Clone, Debug, PartialEq)]
pub struct DataplaneConfig {
    pub frames: FrameSource,
    /// The unit of the program's timestamps.
    pub clock: Clock,
    /// Number of queues per port, served by strict priority.
    pub priorities: u8,
    /// The capacity of each queue.
    pub limits: QueueLimits,
    /// The port of packet-ins and packet-outs; `None` disables both.
    pub cpu_port: Option<u16>,
    /// The value of `egress_spec` that means drop.
    pub drop_port: u16,
    /// Emulated links, by port number.
    pub port_links: BTreeMap<u16, PortLinkConfig>,
    /// Rates of ports without an emulated link, by port number. They count the bits of frames only.
    pub port_rates: BTreeMap<u16, Bandwidth>,
    /// Maximum number of interfaces.
    pub max_ports: usize,
    /// Receive ring of each interface in bytes. At MTU 1500 a frame takes 2 KiB of it.
    pub ring_bytes: usize,
    /// Where to capture all frames; `None` for no capture.
    pub capture: Option<CaptureConfig>,
    /// Number of bytes of each frame to log, at level info; 0 for none.
    pub dump_bytes: usize,
    /// Logs every packet's path through the program, at level trace.
    pub trace: bool,
}

impl DataplaneConfig {
    /// BMv2's default of `--max-port-count` (options_parse.h).
    pub const MAX_PORTS: usize = 512;
    /// Maximum ring per port in bytes: 4,096 full frames, which are 22 ms at 180,000 packets per second. Other
    /// processes may take a few time slices meanwhile.
    const MAX_RING_BYTES: usize = 8 << 20;
    /// Minimum ring per port in bytes: a quarter of libpcap's default in BMv2 (2 MiB), enough for the rate per port
    /// when one machine has many ports.
    const MIN_RING_BYTES: usize = 512 << 10;
    /// Memory for all rings of a switch, in bytes. The kernel cannot swap it out.
    const MAX_TOTAL_RING_BYTES: usize = 32 << 20;

    /// Returns the ring size in bytes for each port of a switch with this many ports.
    pub fn ring_bytes_for(ports: usize) -> usize {
        (Self::MAX_TOTAL_RING_BYTES / ports.max(1)).clamp(Self::MIN_RING_BYTES, Self::MAX_RING_BYTES)
    }

    /// Returns whether every packet is logged.
    #[inline]
    pub(super) fn is_logged(&self) -> bool {
        self.dump_bytes > 0 || self.trace
    }

    /// Returns the configuration of the switch. As in BMv2, every port number has queues, whether an
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
    /// The defaults of simple_switch: microseconds, and one queue of 64 packets per port.
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
            ring_bytes: Self::MAX_RING_BYTES,
            capture: None,
            dump_bytes: 0,
            trace: false,
        }
    }
}

/// A switch of a fabric.
pub struct FabricMember {
    /// Every port of [`Self::internal_ports`] must have its rate and delay in
    /// [`port_links`](DataplaneConfig::port_links).
    pub config: DataplaneConfig,
    /// The switch; `None` if no program is installed yet.
    pub switch: Option<Box<Switch>>,
    /// Ports on interfaces: port number and interface name.
    pub ports: Vec<(u16, String)>,
    /// Ports that are connected to other switches of the fabric.
    pub internal_ports: Vec<FabricPort>,
}

/// One end of a link between two switches of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricPort {
    pub port: u16,
    /// A name for reports, in place of an interface name.
    pub name: String,
    /// The port at the other end: index of the switch in the fabric, and port number.
    pub peer: (u16, u16),
}
