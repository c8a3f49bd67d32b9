//! The priority queues of a port: data, EXPRESS, deflected packets and feedback.

/// Queue of all packets without a class of their own.
pub const DATA_PRIORITY: u8 = 0;
/// Queue of DATA with the flag EXPRESS, with [`PriorityTraffic::short_messages`].
pub const EXPRESS_PRIORITY: u8 = 1;
/// First queue of deflected packets, with [`PlanOptions::deflection`](super::PlanOptions::deflection); see
/// [`escape_classes`]. These queues are served before data and feedback: deflected packets are few and already delayed.
const FIRST_DETOUR_PRIORITY: u8 = 2;

/// Packets of Weir's protocol that share a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketClass {
    /// Kind in the Weir header.
    pub kind: u8,
    /// The flag EXPRESS is set.
    pub is_express: bool,
}

/// The queues of deflected packets, by number of remaining tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EscapeClass {
    /// Remaining deflections of the packet.
    pub tokens: u8,
    /// Queue of packets that were deflected at an earlier switch.
    pub escape: u8,
    /// Queue of packets that are deflected at this switch, for this one hop.
    pub detour: u8,
}

/// Returns the queues of packets that may be deflected `tokens` times, by remaining tokens from 0 to `tokens`.
///
/// The n-th deflection moves a packet to the n-th pair of queues. The first queue of a pair (`detour`) holds packets
/// for the hop to which they are deflected, which may lead up or down. The second (`escape`) holds them from the next
/// switch on, where paths lead up and then down as for data. A packet therefore waits only for packets of its own
/// queue, on up-down paths, or of later queues. [`verify_channels`](crate::verify_channels) proves this.
pub fn escape_classes(tokens: u8) -> impl Iterator<Item = EscapeClass> {
    let detour_of = |deflections: u8| FIRST_DETOUR_PRIORITY + 2 * (deflections - 1);
    (0..=tokens).map(move |remaining| {
        let deflections = tokens - remaining;
        let escape = if deflections == 0 { DATA_PRIORITY } else { detour_of(deflections) + 1 };
        let detour = if remaining == 0 { escape } else { detour_of(deflections + 1) };
        EscapeClass { tokens: remaining, escape, detour }
    })
}

/// Returns the highest queue used by packets that may be deflected `tokens` times.
pub fn last_escape_priority(tokens: u8) -> u8 {
    escape_classes(tokens).map(|class| class.escape.max(class.detour)).max().unwrap_or(DATA_PRIORITY)
}

/// Maximum number of weighted queues: eight queues, less queue 0 (unclassified) and the feedback queue.
pub const MAX_WEIGHTED_QUEUES: usize = 6;

/// Traffic that switches serve first, for [`PlanOptions::prioritise`](super::PlanOptions::prioritise).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriorityTraffic {
    /// DATA with the flag EXPRESS: messages that their hosts declare short (Dart's Pri-Q).
    pub short_messages: bool,
    /// Feedback: ACK, NACK, CNP, PROBE_REPLY, RATE and POLICY.
    pub feedback: bool,
    /// Number of weighted DATA queues, from queue 1 on; 0: none.
    pub weighted: u8,
}

impl PriorityTraffic {
    /// Returns the queue of feedback. It is above all queues of DATA, EXPRESS included: otherwise an incast of short
    /// messages would delay their ACKs.
    pub const fn feedback_queue(self) -> u8 {
        match self {
            PriorityTraffic { feedback: false, .. } => DATA_PRIORITY,
            PriorityTraffic { weighted: 1.., .. } => self.weighted + 1,
            PriorityTraffic { short_messages: true, .. } => EXPRESS_PRIORITY + 1,
            PriorityTraffic { short_messages: false, .. } => DATA_PRIORITY + 1,
        }
    }
}
