//! The reasons for which a host drops received frames, and their names in reports.

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The reason why a host dropped a frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DropReason {
            /// All reasons, in the order of reports.
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
    /// The frame is shorter than its headers.
    Truncated = "truncated",
    /// The frame is not Ethernet with IPv4.
    NotIpv4 = "not_ipv4",
    /// The frame belongs to a VLAN. Agents serve the untagged interface; tags with VLAN 0 have a priority only.
    Vlan = "vlan",
    /// The Ethernet destination is not this host, or the source is a group address.
    WrongMac = "wrong_mac",
    /// The IPv4 source is no host's address, or this host's own (RFC 1122 section 3.2.1.3).
    BadSource = "bad_source",
    /// The UDP checksum is neither 0 nor correct.
    BadUdpChecksum = "udp_checksum",
    /// The IPv4 header has options or an invalid header length.
    BadIpHeader = "ip_header",
    /// The IPv4 checksum is wrong.
    BadIpChecksum = "ip_checksum",
    /// The packet is an IPv4 fragment.
    Fragment = "fragment",
    /// The lengths of frame, IPv4, UDP or announcement contradict each other.
    LengthMismatch = "length_mismatch",
    /// The destination address is not this host's.
    NotForUs = "not_for_us",
    /// The packet is not UDP to Weir's port.
    NotWeir = "not_weir",
    /// The Weir header has an unsupported version.
    BadVersion = "bad_version",
    /// The packet kind is undefined.
    BadKind = "bad_kind",
    /// The packet kind is not used with the host's scheme or transport.
    UnexpectedKind = "unexpected_kind",
    /// The packet claims more than eight telemetry records.
    TooManyHops = "too_many_hops",
    /// The length of the telemetry records does not match their number and format.
    RecordsLengthMismatch = "hops_length",
    /// DATA has no payload.
    EmptyData = "empty_data",
    /// The feedback is for a flow that does not exist or has finished.
    UnknownFlow = "unknown_flow",
    /// The feedback does not come from the flow's peer, or its UDP port or subflow is wrong.
    WrongPeer = "wrong_peer",
    /// The feedback acknowledges bytes that were never sent.
    AckBeyondSent = "ack_beyond_sent",
    /// DATA lies outside the message, or contradicts its known size.
    BeyondEnd = "beyond_end",
    /// DATA would open another gap, and the limit of ranges behind gaps is reached.
    ReorderFull = "reorder_full",
    /// The table of inbound messages is full of active ones.
    ReceiverFull = "receiver_full",
    /// The queue of control frames was full; its oldest frame was dropped.
    ControlQueueFull = "control_queue_full",
    /// Too many received frames waited for the transport, because of the NIC model.
    ReceiveRingFull = "receive_ring_full",
    /// A POLICY packet is not addressed to the policy group, by its IPv4 or by its Ethernet destination.
    PolicyUnicast = "policy_unicast",
    /// A POLICY packet is malformed.
    PolicyMalformed = "policy_malformed",
    /// A POLICY packet has an invalid signature: another key, or another source address than the signed one.
    PolicyForged = "policy_forged",
    /// A POLICY packet has a timestamp that is not later than the last one from the same sender.
    PolicyReplayed = "policy_replayed",
    /// A POLICY packet has a timestamp more than an hour ahead of this host's clock.
    PolicyFromFuture = "policy_ahead",
    /// A POLICY packet has this host's own source address.
    PolicyLoopback = "policy_echo",
    /// A POLICY packet comes from a new sender, and the replay table is full.
    PolicySenderTableFull = "policy_senders",
}
