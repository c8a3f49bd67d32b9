use std::io;
use std::net::Ipv4Addr;
use weir_host::ConfigError;
use weir_host::policy::StateError;
use weir_units::Bytes;

/// An error that keeps an agent from starting.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("no network interface \"{name}\"; available: {known}")]
    NoInterface { name: String, known: String },
    #[error("{iface} is not an Ethernet interface (no MAC address)")]
    NoMac { iface: String },
    #[error("{iface} is down; bring it up with `ip link set {iface} up`")]
    InterfaceDown { iface: String },
    #[error("{iface} has no IPv4 address; add one with `ip addr add` or specify one with --addr")]
    NoAddress { iface: String },
    #[error("a raw socket on {iface} needs root or CAP_NET_RAW; run this with sudo")]
    NoPermission { iface: String },
    #[error(
        "mtu: frames of {mtu} exceed the maximum of {limit} of {iface}; lower --mtu or run `ip link set {iface} \
         mtu {needed}`"
    )]
    MtuAboveInterface {
        iface: String,
        mtu: Bytes,
        /// The interface's MTU plus the Ethernet header.
        limit: Bytes,
        /// The MTU that the interface would need.
        needed: u64,
    },
    /// The neighbour table has no MAC address of the next hop.
    #[error(
        "the kernel has no neighbour entry for {hop} on {iface} (next hop to {peer}); ping it once, run `ip neigh \
         add {hop} lladdr MAC dev {iface}`, or specify --peer-mac"
    )]
    NoNeighbour { peer: Ipv4Addr, hop: Ipv4Addr, iface: String },
    #[error("{peer} is this host's own address; a flow needs another host as peer")]
    OwnAddress { peer: Ipv4Addr },
    #[error("{peer} is not a unicast address")]
    NotUnicast { peer: Ipv4Addr },
    /// A flow without size and stop time in a run that ends only when its flows are finished.
    #[error("flow {index} to {peer} has neither size nor stop time, and nothing else ends the run")]
    Endless { index: usize, peer: Ipv4Addr },
    #[error("flow {index} to {peer}: the stop time must be after the start time")]
    StopsBeforeStart { index: usize, peer: Ipv4Addr },
    #[error("flow {index} to {peer}: invalid entropy port {port} (0 and 22341 are reserved)")]
    BadPort { index: usize, peer: Ipv4Addr, port: u16 },
    #[error(
        "flow {index} to {peer} announces {count} senders, but its packets have room for {max}; increase its size"
    )]
    TooManyAnnounced { index: usize, peer: Ipv4Addr, count: u64, max: u64 },
    #[error("flow {index} to {peer}: the size must be at least 1B")]
    Empty { index: usize, peer: Ipv4Addr },
    #[error(
        "UDP port {port} of {addr} is in use by another agent or program; the agent must bind it to keep the \
         kernel from answering packets with ICMP port unreachable"
    )]
    PortTaken { addr: Ipv4Addr, port: u16 },
    #[error("start time passed {late_ms} ms ago; allow more time for startup")]
    StartInPast { late_ms: u64 },
    /// The saved policy state is damaged, or belongs to another host or key.
    #[error("{0}")]
    PolicyState(#[from] StateError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A system call failed; `operation` says what the agent was doing.
    #[error("{operation}: {error}")]
    System { operation: String, error: io::Error },
}

impl AgentError {
    /// Returns a closure for `map_err` that adds the name of the operation to an I/O error.
    pub(super) fn system(operation: impl Into<String>) -> impl FnOnce(io::Error) -> AgentError {
        let operation = operation.into();
        move |error| AgentError::System { operation, error }
    }
}
