use std::io;
use std::net::Ipv4Addr;
use weir_host::ConfigError;
use weir_host::policy::StateError;
use weir_units::Bytes;

/// A reason why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There is no such interface.
    #[error("there is no interface \"{name}\" here, there are {known}")]
    NoInterface {
        /// As given.
        name: String,
        /// All there are.
        known: String,
    },
    /// The interface is not Ethernet.
    #[error("{iface} has no MAC address, the agent needs an Ethernet interface")]
    NoMac {
        /// Its name.
        iface: String,
    },
    /// The interface is down.
    #[error("{iface} is down, bring it up with `ip link set {iface} up`")]
    InterfaceDown {
        /// Its name.
        iface: String,
    },
    /// The interface has no IPv4 address.
    #[error("{iface} has no IPv4 address, give it one with `ip addr add` or name one with --addr")]
    NoAddress {
        /// Its name.
        iface: String,
    },
    /// Raw sockets are for root.
    #[error("a raw socket on {iface} needs root or CAP_NET_RAW: run this with sudo")]
    NoPermission {
        /// Its name.
        iface: String,
    },
    /// Frames longer than the interface takes.
    #[error(
        "mtu: frames of {mtu} do not fit {iface}, which takes {limit}; lower --mtu or run `ip link set {iface} \
         mtu {needed}`"
    )]
    MtuAboveInterface {
        /// Its name.
        iface: String,
        /// As given.
        mtu: Bytes,
        /// The interface's MTU with Ethernet header.
        limit: Bytes,
        /// The MTU that the interface would need.
        needed: u64,
    },
    /// Nobody knows the MAC address of the next hop.
    #[error(
        "the kernel has no neighbour entry for {hop} on {iface} (next hop to {peer}): ping it once, run `ip neigh \
         add {hop} lladdr MAC dev {iface}`, or give --peer-mac"
    )]
    NoNeighbour {
        /// The peer.
        peer: Ipv4Addr,
        /// Its next hop.
        hop: Ipv4Addr,
        /// Through which interface.
        iface: String,
    },
    /// The peer is this host.
    #[error("{peer} is this host's own address, a flow goes to another host")]
    OwnAddress {
        /// The peer.
        peer: Ipv4Addr,
    },
    /// The peer is not one host.
    #[error("{peer} is not the address of one host")]
    NotUnicast {
        /// The peer.
        peer: Ipv4Addr,
    },
    /// A flow without size and stop in a run that ends with its flows.
    #[error("flow {index} to {peer} has neither size nor stop time, and nothing else ends the run")]
    Endless {
        /// Index in the list.
        index: usize,
        /// The peer.
        peer: Ipv4Addr,
    },
    /// A flow that stops before it starts.
    #[error("flow {index} to {peer} stops before it starts")]
    StopsBeforeStart {
        /// Index in the list.
        index: usize,
        /// The peer.
        peer: Ipv4Addr,
    },
    /// Entropy port zero, or Weir's own.
    #[error("flow {index} to {peer}: {port} cannot be its entropy port, use another than 0 and 22341")]
    BadPort {
        /// Index in the list.
        index: usize,
        /// The peer.
        peer: Ipv4Addr,
        /// The port.
        port: u16,
    },
    /// A list of senders that the flow's packets have no room for.
    #[error(
        "flow {index} to {peer} announces {count} senders, its packets can list {max}: give it more bytes"
    )]
    TooManyAnnounced {
        /// Index in the list.
        index: usize,
        /// The peer.
        peer: Ipv4Addr,
        /// Number of senders.
        count: u64,
        /// Number of senders that fit.
        max: u64,
    },
    /// A flow without bytes.
    #[error("flow {index} to {peer} has a size of zero, a message has at least one byte")]
    Empty {
        /// Index in the list.
        index: usize,
        /// The peer.
        peer: Ipv4Addr,
    },
    /// A UDP port that must be held is taken.
    #[error(
        "UDP port {port} of {addr} is in use: another agent on this address, or another program; the agent \
         holds it so that the kernel does not refuse its packets"
    )]
    PortTaken {
        /// The host's address.
        addr: Ipv4Addr,
        /// The port.
        port: u16,
    },
    /// The start time is over.
    #[error("the start time is over since {late_ms} ms, give the processes more time to come up")]
    StartInPast {
        /// By how much.
        late_ms: u64,
    },
    /// The stored policy state is of another host or key.
    #[error("{0}")]
    PolicyState(#[from] StateError),
    /// The host's configuration cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// The operation.
        what: String,
        /// The system's error.
        error: io::Error,
    },
}

impl AgentError {
    /// Wraps an error of the system.
    pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> AgentError {
        let what = what.into();
        move |error| AgentError::System { what, error }
    }
}
