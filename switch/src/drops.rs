//! The reasons for which the switch drops a packet, with counters.
//!
//! Drops that a P4 program decides (no route, TTL expired) are counted by the program; the switch counts them as
//! [`DropReason::IngressDrop`] or [`DropReason::EgressDrop`].

use std::ops;

/// A number of packets and the sum of their lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCount {
    pub packets: u64,
    /// Bytes including the Ethernet header, without preamble, inter-packet gap and FCS.
    pub bytes: u64,
}

impl PacketCount {
    /// Counts one packet of `len` bytes.
    pub(crate) fn count(&mut self, len: u32) {
        self.packets += 1;
        self.bytes += u64::from(len);
    }
}

impl ops::Add for PacketCount {
    type Output = PacketCount;
    fn add(self, other: PacketCount) -> PacketCount {
        PacketCount { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}
impl ops::AddAssign for PacketCount {
    fn add_assign(&mut self, other: PacketCount) {
        *self = *self + other;
    }
}
impl std::iter::Sum for PacketCount {
    fn sum<I: Iterator<Item = PacketCount>>(iter: I) -> PacketCount {
        iter.fold(PacketCount::default(), ops::Add::add)
    }
}

/// Declares each reason once: its description, variant and name in reports.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The reason why the switch dropped a packet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DropReason {
            $($(#[doc = $doc])+ $variant,)+
        }
        impl DropReason {
            /// All reasons, in the order of reports.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)+];
            /// Returns whether the switch stopped the program for this packet: a loop did not end, an assertion failed,
            /// or the packet ran again without end.
            pub const fn is_stopped_program(self) -> bool {
                use DropReason::{ActionLoop, AssertionFailed, ParserLoop, RecirculateLimit, ResubmitLimit};
                matches!(self, ParserLoop | ActionLoop | AssertionFailed | ResubmitLimit | RecirculateLimit)
            }
            /// Returns the name of the reason in reports (`summary.json`).
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)+ }
            }
        }
    };
}

reasons! {
    /// Ingress marked the packet to drop: `egress_spec` was the drop port.
    IngressDrop = "ingress_drop",
    /// Egress marked the packet to drop.
    EgressDrop = "egress_drop",
    /// The queue was at its packet or byte limit.
    TailDrop = "tail_drop",
    /// The shared packet buffer was full.
    BufferFull = "buffer_full",
    /// A lossless class exceeded its headroom and its share of the buffer: the neighbour did not react to the
    /// pause in time.
    PfcHeadroom = "pfc_headroom",
    /// The program chose a port that the switch does not have.
    NoSuchPort = "no_such_port",
    /// The program chose a priority that has no queue.
    NoSuchPriority = "no_such_priority",
    /// The multicast group or clone session is not configured or has no replicas.
    NoReplicas = "no_replicas",
    /// The parser was stopped after 2^20 operations, more than any packet needs.
    ParserLoop = "parser_loop",
    /// An action was stopped after its loops had repeated 2^20 operations, more than any packet needs.
    ActionLoop = "action_loop",
    /// An `assert` or `assume` of the program failed.
    AssertionFailed = "assertion_failed",
    /// The program resubmitted the packet 65,535 times, or resubmits and recirculates packets without end.
    ResubmitLimit = "resubmit_limit",
    /// The program recirculated the packet, or cloned its clones in egress, 65,535 times, or does so without end.
    RecirculateLimit = "recirculate_limit",
}

/// One count per [`DropReason`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops([PacketCount; DropReason::ALL.len()]);

impl Default for Drops {
    fn default() -> Drops {
        Drops([PacketCount::default(); DropReason::ALL.len()])
    }
}

impl Drops {
    /// Counts one packet of `len` bytes.
    pub(crate) fn count(&mut self, reason: DropReason, len: u32) {
        self.0[reason as usize].count(len);
    }
    /// Returns the packets and bytes dropped for `reason`.
    pub fn get(&self, reason: DropReason) -> PacketCount {
        self.0[reason as usize]
    }
    /// Returns the packets and bytes dropped for any reason.
    pub fn total(&self) -> PacketCount {
        self.0.iter().copied().sum()
    }
    /// Returns the reasons with a count above 0.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, PacketCount)> + '_ {
        DropReason::ALL
            .iter()
            .map(|&reason| (reason, self.get(reason)))
            .filter(|(_, count)| count.packets > 0)
    }
}

impl ops::AddAssign<&Drops> for Drops {
    fn add_assign(&mut self, other: &Drops) {
        for (count, other) in self.0.iter_mut().zip(&other.0) {
            *count += *other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_distinct_names_and_their_own_counts() {
        let mut drops = Drops::default();
        for (index, &reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason as usize, index);
            drops.count(reason, index as u32 + 1);
        }
        let names: std::collections::BTreeSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::ALL.len());
        assert_eq!(drops.get(DropReason::TailDrop), PacketCount { packets: 1, bytes: 3 });
        let n = DropReason::ALL.len() as u64;
        assert_eq!(drops.total(), PacketCount { packets: n, bytes: n * (n + 1) / 2 });
    }
}
