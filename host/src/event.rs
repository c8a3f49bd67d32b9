//! The types of the host's interface: flows, events, and frames to send.

use crate::policy::{PolicyId, PolicyRefusal};
use crate::slab::Key;
use crate::wire::MacAddr;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Bytes, Time};

/// Identifies a flow of this host. Ids are not reused; the id of a finished flow finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(crate) Key);

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Address of the receiver.
    pub peer: Ipv4Addr,
    /// Destination MAC address of DATA: the peer's, or the gateway's on a routed path.
    pub next_hop_mac: MacAddr,
    /// UDP source port of the first subflow; those of the others are derived from it ([`subflow_port`]). Switches hash
    /// it to choose a path.
    pub entropy_port: u16,
    /// Bytes to send; `None` to send until [`Host::stop`](crate::Host::stop).
    pub size: Option<Bytes>,
    /// Message id, unique among the messages that this host sends.
    pub message: u32,
}

/// First dynamic port (RFC 6335).
const FIRST_DYNAMIC_PORT: u16 = 49_152;
/// Number of dynamic ports, a power of two.
const DYNAMIC_PORT_COUNT: u16 = 16_384;
/// Distance between the ports of consecutive subflows: [`DYNAMIC_PORT_COUNT`] times the golden ratio, rounded to an
/// odd number, so that sixteen ports are distinct and far apart. CRC hashes in switches map neighbouring ports to few
/// values.
const SUBFLOW_PORT_STRIDE: u16 = 10_125;

/// Returns the UDP port of subflow `subflow` of a message whose first subflow has the port `first_port`.
pub fn subflow_port(first_port: u16, subflow: u8) -> u16 {
    if subflow == 0 {
        // The caller chose this port, possibly outside the dynamic range.
        return first_port;
    }
    // Wrapping at 2^16 is harmless, because 2^16 is a multiple of `DYNAMIC_PORT_COUNT`.
    let index =
        first_port.wrapping_add(u16::from(subflow).wrapping_mul(SUBFLOW_PORT_STRIDE)) % DYNAMIC_PORT_COUNT;
    FIRST_DYNAMIC_PORT + index
}

/// The reason why a message cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The id is in use by a message of this host.
    #[error("message id {message} is in use; ids must be unique per source host")]
    MessageInUse {
        /// The message id.
        message: u32,
    },
    /// The size is 0.
    #[error("message {message} is empty; a message must have at least one byte")]
    Empty {
        /// The message id.
        message: u32,
    },
    /// The announced senders do not fit the message's packets.
    #[error("message {message} cannot announce {count} senders; its packets have room for {max}")]
    TooManyAnnounced {
        /// The message id.
        message: u32,
        /// Number of senders to announce.
        count: usize,
        /// Number of senders that fit.
        max: u64,
    },
}

/// The senders of an incast, which each of its messages announces to the common receiver (Dart's look-ahead).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// Number of the incast. A receiver counts a sender once per incast, however many of the incast's messages
    /// announce it. 0: no number; the receiver does not match the message's list with others.
    ///
    /// Incasts of one tenant (hosts with a common address prefix, DASR's `tenant_bits`) to one receiver need different
    /// numbers if they occur within DASR's `soft_state` (default 2 s) of each other.
    pub incast: u32,
    /// All senders of the incast. Receivers identify them by the low 16 bits of their addresses; the other bits are
    /// those of the message's own sender.
    pub senders: Vec<Ipv4Addr>,
}

/// An event that the host reports to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The last byte of a flow was acknowledged, and the flow's state was removed. The flow completion time is `end -
    /// start`.
    FlowFinished {
        /// Id of the finished flow.
        flow: FlowId,
        /// Message id.
        message: u32,
        /// Address of the receiver.
        peer: Ipv4Addr,
        /// Time at which the flow was opened.
        start: Time,
        /// Time at which the last ACK arrived.
        end: Time,
        /// Payload bytes.
        bytes: Bytes,
        /// Number of packets sent again.
        retransmits: u64,
    },
    /// The host gave up a flow and removed its state.
    FlowFailed {
        /// Id of the failed flow.
        flow: FlowId,
        /// Message id.
        message: u32,
        /// Time at which the host gave up.
        end: Time,
        /// Payload bytes acknowledged until then.
        acked: Bytes,
        /// Number of packets sent again.
        retransmits: u64,
        /// Why the host gave up.
        error: FlowError,
    },
    /// The last byte of a peer's message arrived.
    MessageReceived {
        /// Address of the sender.
        peer: Ipv4Addr,
        /// Message id.
        message: u32,
        /// Payload bytes.
        bytes: Bytes,
        /// Time at which the last byte arrived.
        at: Time,
    },
    /// A change of the host's policy state.
    Policy(PolicyEvent),
}

/// The reason why a host gave up a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// The receiver requests bytes that it has acknowledged before: it has restarted, or has evicted the message.
    #[error("the receiver has lost the message")]
    ForgottenByReceiver,
    /// Nothing new was acknowledged for the user timeout.
    #[error("nothing was acknowledged for {after}")]
    Unanswered {
        /// [`TransportConfig::user_timeout`](crate::TransportConfig::user_timeout).
        after: Time,
    },
}

/// A change of the policy state of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyEvent {
    /// The host received a newer policy and holds it now.
    Received {
        /// Id of the policy.
        id: PolicyId,
        /// The host that sent it, which need not be the one where it was set.
        from: Ipv4Addr,
    },
    /// The host applied the policy to all its flows.
    Activated {
        /// Id of the policy.
        id: PolicyId,
    },
    /// The host holds the policy and forwards it, but continues with the configuration that it ran before.
    Refused {
        /// Id of the policy.
        id: PolicyId,
        /// Why the host does not run the policy.
        reason: PolicyRefusal,
    },
    /// A policy set at this host was superseded by a concurrent one that does not derive from it.
    Superseded {
        /// The policy that was set at this host.
        ours: PolicyId,
        /// The policy that superseded it.
        by: PolicyId,
    },
    /// The lifetime of the policy has ended: the host returns to its own configuration.
    Expired {
        /// Id of the policy.
        id: PolicyId,
    },
}

/// The result of [`Host::transmit`](crate::Host::transmit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// A frame to send. Its headers were written; its payload consists of zeros and is only counted.
    Frame {
        /// Number of bytes written.
        head_len: usize,
        /// Number of zero bytes that follow.
        payload: u32,
        /// Priority class, 0 to 7.
        class: u8,
        /// The flow of a DATA packet or probe; `None` for control frames.
        flow: Option<FlowId>,
    },
    /// A POLICY packet. Nothing was written: the complete frame, whose payload matters, is in
    /// [`Host::policy_frame`](crate::Host::policy_frame) until the next call.
    Policy {
        /// Priority class, 0 to 7.
        class: u8,
    },
    /// Nothing may be sent now. Call again after the next wakeup, a received frame, a new flow, or the resume of a
    /// class.
    Nothing,
}

/// Upper bound of a subflow's window: that of a scheme which limits its rate only.
pub(crate) const MAX_WINDOW: Bytes = Bytes::new(1 << 30);

/// The state of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowInfo {
    /// Message id.
    pub message: u32,
    /// Address of the receiver.
    pub peer: Ipv4Addr,
    /// Time at which the flow was opened.
    pub start: Time,
    /// Bytes to send; `None` while unbounded.
    pub size: Option<Bytes>,
    /// Pacing rate; the largest of the subflows.
    pub rate: Bandwidth,
    /// Sending rate that the scheme allows: the pacing rate; of a window-based scheme
    /// ([`Sender::is_window_based`](crate::scheme::Sender::is_window_based)), windows over last RTT samples, summed over
    /// the active subflows, if that is less. Before its first sample a subflow counts with the base RTT.
    pub sending_rate: Bandwidth,
    /// Window in payload bytes, summed over the active subflows; see [`window_limit`](Self::window_limit).
    pub window: Bytes,
    /// Payload bytes in flight, summed over the subflows. With selective retransmission, bytes beyond
    /// the first gap that duplicate ACKs show to have arrived are not counted.
    pub inflight: Bytes,
    /// Payload bytes acknowledged.
    pub acked: Bytes,
    /// Payload bytes sent at least once.
    pub sent: Bytes,
    /// Number of packets sent again.
    pub retransmits: u64,
    /// The last RTT sample of the first subflow; `None` before the first sample.
    pub rtt: Option<Time>,
    /// XOR of the switch ids on the path of the newest ACK of the first subflow.
    pub ack_path: u16,
    /// XOR of the switch ids on the path of the DATA packet that this ACK acknowledged; `None` if the scheme uses the
    /// header field that would echo it.
    pub data_path: Option<u16>,
    /// The next retransmission timeout, before which the flow cannot fail; `None` if no answer is expected.
    pub timeout: Option<Time>,
}

impl FlowInfo {
    /// Returns a [`window`](Self::window) that limits the flow; `None` for one of a scheme that limits its rate only.
    #[must_use]
    pub fn window_limit(window: Bytes) -> Option<Bytes> {
        (window < MAX_WINDOW).then_some(window)
    }
}

/// The state of an incoming message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundInfo {
    /// Length of the contiguous prefix that was received, in bytes.
    pub received: Bytes,
    /// Time at which the last packet arrived.
    pub last_seen: Time,
    /// XOR of the switch ids on the path of the last DATA packet.
    pub path_id: u16,
}

/// The state of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowInfo {
    /// UDP source port.
    pub entropy_port: u16,
    /// True if the subflow may send new data.
    pub is_active: bool,
    /// Window in payload bytes.
    pub window: Bytes,
    /// Payload bytes in flight as inferred from ACKs.
    pub inflight: Bytes,
    /// Payload bytes acknowledged.
    pub acked: Bytes,
    /// Number of packets sent again.
    pub retransmits: u64,
    /// The last RTT sample; `None` before the first.
    pub rtt: Option<Time>,
    /// XOR of the switch ids on the path of the DATA packet acknowledged last; `None` if it is not echoed.
    pub data_path: Option<u16>,
}
