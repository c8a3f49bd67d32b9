//! Counts arrivals at switches and frames lost on wires.

use super::events::{Arrival, Observer};
use std::collections::BTreeMap;
use weir_controller::topology::Node;
use weir_switch::link::LinkDrop;

#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Packets that arrived at a switch, including those that the switch dropped.
    pub packet_hops: u64,
    /// Frames dropped on wires and in restarted switches, by reason.
    pub link_drops: BTreeMap<&'static str, u64>,
}

impl Counters {
    /// Counts `packets` as dropped for `reason`.
    pub(crate) fn add_drops(&mut self, reason: &'static str, packets: u64) {
        *self.link_drops.entry(reason).or_default() += packets;
    }

    /// Returns the sums.
    pub(crate) fn merge<'o>(all: impl Iterator<Item = &'o Counters>) -> Counters {
        let mut sum = Counters::default();
        for counters in all {
            sum.packet_hops += counters.packet_hops;
            counters.link_drops.iter().for_each(|(&reason, &packets)| sum.add_drops(reason, packets));
        }
        sum
    }
}

impl Observer for Counters {
    #[inline(always)]
    fn on_arrival(&mut self, arrival: &Arrival<'_>) {
        self.packet_hops += u64::from(matches!(arrival.to, Node::Switch(_)));
    }

    fn on_loss(&mut self, reason: LinkDrop) {
        self.add_drops(reason.name(), 1);
    }
}
