//! The reasons for which a host drops frames.

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A reason why a host threw a frame away.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All reasons, in the order of the report.
            pub const ALL: &[DropReason] = &[$(DropReason::$variant),+];

            /// Returns the name of the reason in reports and `summary.json`.
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
    BadIpHeader = "ip_header",
    /// The IPv4 checksum is wrong.
    BadIpChecksum = "ip_checksum",
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
    RecordsLengthMismatch = "hops_length",
    /// DATA without payload.
    EmptyData = "empty_data",
    /// Feedback for a flow we do not have (any more).
    UnknownFlow = "unknown_flow",
    /// Feedback from a host that is not the flow's peer.
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
    /// A POLICY packet that is not signed with our key by the host that it names as its source.
    PolicyForged = "policy_forged",
    /// A POLICY packet no later than another of its sender.
    PolicyReplayed = "policy_replayed",
    /// A POLICY packet whose stamp is more than an hour ahead of our clock.
    PolicyFromFuture = "policy_ahead",
    /// A POLICY packet with our own address.
    PolicyLoopback = "policy_echo",
    /// A POLICY packet from more senders than are kept account of.
    PolicySenderTableFull = "policy_senders",
}
