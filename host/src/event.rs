//! The types at the host's boundary: flows in, events and frames out.

use crate::policy::{PolicyId, PolicyRefusal};
use crate::slab::Key;
use crate::wire::MacAddr;
use std::net::Ipv4Addr;
use weir_units::{Bandwidth, Bytes, Time};

/// A flow of this host, until it is finished. Never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(crate) Key);

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// The receiver's address.
    pub peer: Ipv4Addr,
    /// Destination MAC of its DATA.
    pub next_hop_mac: MacAddr,
    /// The UDP port that spreads flows over paths; of a message with subflows that of the first, from which
    /// the others follow ([`subflow_port`]).
    pub entropy_port: u16,
    /// Bytes to send; `Open`: until [`Host::stop`](crate::Host::stop).
    pub size: Option<Bytes>,
    /// Its id, unique among this host's messages.
    pub message: u32,
}

/// First of the dynamic ports (RFC 6335), and their number: a power of two.
const FIRST_DYNAMIC_PORT: u16 = 49_152;
const DYNAMIC_PORT_COUNT: u16 = 16_384;
/// Distance of the ports of consecutive subflows: [`DYNAMIC_PORT_COUNT`] times the golden ratio, odd, so that sixteen of them are
/// different and far apart. A CRC maps neighbouring ports to few values.
const SUBFLOW_PORT_STRIDE: u16 = 10_125;

/// Returns the UDP port of a subflow of a message whose first subflow has the port `first`.
pub fn subflow_port(first: u16, subflow: u8) -> u16 {
    if subflow == 0 {
        return first;
    }
    let place = first.wrapping_add(u16::from(subflow).wrapping_mul(SUBFLOW_PORT_STRIDE)) % DYNAMIC_PORT_COUNT;
    FIRST_DYNAMIC_PORT + place
}

/// A reason why a message cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The id is taken.
    #[error("message {message} is still being sent, message ids are unique per source host")]
    MessageInUse {
        /// As given.
        message: u32,
    },
    /// Nothing to send.
    #[error("message {message} is empty, a message has at least one byte")]
    Empty {
        /// As given.
        message: u32,
    },
    /// The list of senders does not fit.
    #[error("message {message} cannot announce {count} senders: at most {max} fit its packets")]
    TooManyAnnounced {
        /// As given.
        message: u32,
        /// Number of senders given.
        count: usize,
        /// Number of senders that fit.
        max: u64,
    },
}

/// The senders of an incast, which each of its messages announces to their receiver (Dart's look-ahead).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// The incast's number, by which the receiver knows that lists are of the same incast: none adds a sender again that
    /// another has named. 0: the list is of no numbered incast and counts by itself.
    ///
    /// The incasts of a tenant to one receiver need numbers that differ within `soft_state`, 2 s.
    pub incast: u32,
    /// All senders. Receivers identify them by the low 16 bits of their addresses; the other bits are those of the
    /// message's own sender.
    pub senders: Vec<Ipv4Addr>,
}

/// Something the driver may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// The last byte of a flow was acknowledged; its state is gone. The flow completion time is
    /// `end - start`.
    FlowFinished {
        /// The flow that has finished.
        flow: FlowId,
        /// Its message id.
        message: u32,
        /// The receiver's address.
        peer: Ipv4Addr,
        /// Time at which it was opened.
        start: Time,
        /// Time of the last ACK.
        end: Time,
        /// Payload bytes.
        bytes: Bytes,
        /// Packets sent more than once.
        retransmits: u64,
    },
    /// A flow was given up; its state is gone.
    FlowFailed {
        /// The flow that has failed.
        flow: FlowId,
        /// Its message id.
        message: u32,
        /// Time at which it was given up.
        end: Time,
        /// Payload bytes that were acknowledged.
        acked: Bytes,
        /// Packets sent more than once.
        retransmits: u64,
        /// The reason.
        error: FlowError,
    },
    /// The last byte of a peer's message arrived.
    MessageReceived {
        /// The sender's address.
        peer: Ipv4Addr,
        /// Its message id.
        message: u32,
        /// Payload bytes.
        bytes: Bytes,
        /// Time at which the last byte came.
        at: Time,
    },
    /// Something about policies.
    Policy(PolicyEvent),
}

/// A reason why a flow was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// The receiver asks for bytes again that it had acknowledged: it was restarted, or others took the message's place.
    #[error("the receiver has lost the message")]
    ForgottenByReceiver,
    /// Nothing new was acknowledged for the user timeout.
    #[error("nothing was acknowledged for {after}")]
    Unanswered {
        /// [`TransportConfig::user_timeout`](crate::TransportConfig::user_timeout).
        after: Time,
    },
}

/// The fate of a policy at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyEvent {
    /// The host received a newer policy and holds it now.
    Received {
        /// The policy.
        id: PolicyId,
        /// The host that sent it, which need not be the one where it was set.
        from: Ipv4Addr,
    },
    /// The host runs the policy, on all its flows.
    Activated {
        /// The policy.
        id: PolicyId,
    },
    /// The host holds the policy and forwards it, but continues with the configuration that it ran before.
    Refused {
        /// The policy.
        id: PolicyId,
        /// The reason.
        reason: PolicyRefusal,
    },
    /// A policy that was set at this host was superseded by a concurrent one, not derived from it.
    Superseded {
        /// The policy that was set at this host.
        ours: PolicyId,
        /// The policy that superseded it.
        by: PolicyId,
    },
    /// The lifetime of the policy has ended: the host returns to its own configuration.
    Expired {
        /// The policy.
        id: PolicyId,
    },
}

/// The answer to a NIC that asks for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// A frame: the head was written, the payload is only counted.
    Frame {
        /// Bytes written to the head.
        head_len: usize,
        /// Payload bytes behind it; they are zeros.
        payload: u32,
        /// Its priority class.
        class: u8,
        /// The flow, if it is DATA.
        flow: Option<FlowId>,
    },
    /// A POLICY packet, whose payload matters: nothing was written, the frame is whole in
    /// [`Host::policy_frame`](crate::Host::policy_frame) until the next call.
    Policy {
        /// Its priority class.
        class: u8,
    },
    /// Nothing may leave now: ask again at the next wakeup, after a frame came, or after a resume.
    Nothing,
}

/// A flow as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowInfo {
    /// Its message id.
    pub message: u32,
    /// The receiver's address.
    pub peer: Ipv4Addr,
    /// Time at which it was opened.
    pub start: Time,
    /// Bytes to send; `Open` until the flow is stopped.
    pub size: Option<Bytes>,
    /// Pacing rate.
    pub rate: Bandwidth,
    /// Window in payload bytes.
    pub window: Bytes,
    /// Payload bytes sent and not acknowledged.
    pub inflight: Bytes,
    /// Payload bytes acknowledged.
    pub acked: Bytes,
    /// Payload bytes sent, each counted once.
    pub sent: Bytes,
    /// Packets sent more than once.
    pub retransmits: u64,
    /// The newest round-trip time.
    pub rtt: Option<Time>,
    /// XOR of the switch ids on the path of the newest ACK.
    pub ack_path: u16,
    /// XOR of the switch ids on the path of the DATA packet it acknowledged, unless the scheme uses the
    /// field that echoes it.
    pub data_path: Option<u16>,
    /// The next retransmission timeout, before which the flow cannot fail; `Open` if no answer is expected.
    pub timeout: Option<Time>,
}

/// A message that is arriving, as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InboundInfo {
    /// Payload bytes received in order.
    pub received: Bytes,
    /// Time at which its last packet came.
    pub last_seen: Time,
    /// XOR of the switch ids on the path of its last DATA packet.
    pub path_id: u16,
}

/// A subflow of a message as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowInfo {
    /// Its UDP port.
    pub entropy_port: u16,
    /// True if it may send data that was not sent before.
    pub active: bool,
    /// Window in payload bytes.
    pub window: Bytes,
    /// Payload bytes in the network, as far as ACKs tell.
    pub inflight: Bytes,
    /// Payload bytes acknowledged.
    pub acked: Bytes,
    /// Packets sent more than once.
    pub retransmits: u64,
    /// The newest round-trip time.
    pub rtt: Option<Time>,
    /// XOR of the switch ids on the path of the DATA packet that was acknowledged last.
    pub data_path: Option<u16>,
}
