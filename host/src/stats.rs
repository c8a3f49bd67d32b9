//! Counters, every drop under its reason.

use crate::telemetry::TelemetryChecks;
use std::fmt;

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why a host threw a frame away.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All reasons, in the order of the report.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant),+];

            /// As it stands in the report.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DropReason::$variant => $name,)+
                }
            }
        }
    };
}

drop_reasons! {
    /// Shorter than its headers.
    Truncated = "truncated",
    /// Not IPv4 in Ethernet.
    NotIpv4 = "not_ipv4",
    /// IPv4 with options, or with a header length that cannot be.
    IpHeader = "ip_header",
    /// The IPv4 checksum is wrong.
    IpChecksum = "ip_checksum",
    /// A fragment.
    Fragment = "fragment",
    /// Lengths of frame, IPv4 and UDP do not fit each other.
    LengthMismatch = "length_mismatch",
    /// Another host's address.
    NotForUs = "not_for_us",
    /// Not UDP on Weir's port.
    NotWeir = "not_weir",
    /// A Weir version we do not speak.
    BadVersion = "bad_version",
    /// A kind that does not exist.
    BadKind = "bad_kind",
    /// A kind hosts of this scheme do not take.
    UnexpectedKind = "unexpected_kind",
    /// More than eight telemetry records.
    TooManyHops = "too_many_hops",
    /// Telemetry records and length do not fit each other.
    HopsLength = "hops_length",
    /// DATA without payload.
    EmptyData = "empty_data",
    /// Feedback for a flow we do not have (any more).
    UnknownFlow = "unknown_flow",
    /// Feedback from somebody who is not the flow's peer.
    WrongPeer = "wrong_peer",
    /// Feedback that acknowledges what was never sent.
    AckBeyondSent = "ack_beyond_sent",
    /// DATA beyond the message's end.
    BeyondEnd = "beyond_end",
    /// DATA behind a gap, and too many gaps are open already.
    ReorderFull = "reorder_full",
    /// No room for another inbound flow.
    ReceiverFull = "receiver_full",
    /// A control frame for which the queue had no room.
    ControlQueueFull = "control_queue_full",
    /// A POLICY packet to this host alone.
    PolicyUnicast = "policy_unicast",
    /// A POLICY packet that has not the form of any.
    PolicyMalformed = "policy_malformed",
    /// A POLICY packet that is not signed with our key by who it says it is from.
    PolicyForged = "policy_forged",
    /// A POLICY packet no later than another of its sender.
    PolicyReplayed = "policy_replayed",
    /// A POLICY packet whose stamp is more than an hour ahead of our clock.
    PolicyAhead = "policy_ahead",
    /// A POLICY packet with our own address.
    PolicyEcho = "policy_echo",
    /// A POLICY packet from more senders than are kept account of.
    PolicySenders = "policy_senders",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Drops by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; DropReason::ALL.len()]);

impl Drops {
    pub(crate) fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }
    /// How many for this reason.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }
    /// How many in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
    /// Reasons that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.get(reason))).filter(|&(_, n)| n > 0)
    }
}

/// What a host counted since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Frames thrown away.
    pub drops: Drops,
    /// Telemetry records left out.
    pub telemetry: TelemetryChecks,
    /// DATA packets sent, repeated ones included.
    pub data_sent: u64,
    /// Payload bytes sent, repeated ones included.
    pub payload_sent: u64,
    /// DATA packets sent more than once.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Losses that duplicate ACKs told of.
    pub fast_retransmits: u64,
    /// How often a message fell back from several subflows to fewer (AMP).
    pub suppressions: u64,
    /// DATA packets taken in order.
    pub data_received: u64,
    /// Payload bytes taken in order.
    pub payload_received: u64,
    /// DATA packets that had been received before.
    pub duplicates: u64,
    /// DATA packets behind a gap.
    pub out_of_order: u64,
    /// DATA packets that arrived marked.
    pub marked: u64,
    /// ACKs sent.
    pub acks_sent: u64,
    /// NACKs sent.
    pub nacks_sent: u64,
    /// Congestion notification packets sent.
    pub cnps_sent: u64,
    /// Probes sent.
    pub probes_sent: u64,
    /// Replies to probes sent.
    pub probe_replies_sent: u64,
    /// ACKs that were taken.
    pub acks_received: u64,
    /// NACKs that were taken.
    pub nacks_received: u64,
    /// Congestion notification packets that were taken.
    pub cnps_received: u64,
    /// Rates from switches that were taken.
    pub rates_received: u64,
    /// Replies to probes that were taken.
    pub probe_replies_received: u64,
    /// ACKs, NACKs and replies older than one already taken.
    pub stale_feedback: u64,
    /// Inbound flows forgotten to make room for newer ones.
    pub inbound_evicted: u64,
}
