//! Collects the counters of all switches and hosts of a simulated fabric.

use crate::network::View;
use weir_experiment::counts::{Counts, add_p4_counters};
use weir_switch::drops::DropReason;
use weir_switch::engine::Switch;

/// Returns all counters of `network`. Drops at hosts are counted under `host_<reason>`.
pub fn collect_counts(network: &View<'_>) -> Counts {
    let mut counts = Counts::default();
    for (reason, packets) in network.counters().link_drops {
        *counts.drops.entry(reason.to_owned()).or_default() += packets;
    }
    for node in network.switches() {
        add_switch_counts(&mut counts, &node.switch);
    }
    for node in network.hosts() {
        let stats = node.host.stats();
        counts.retransmits += stats.retransmits;
        counts.timeouts += stats.timeouts;
        counts.suppressions += stats.suppressions;
        counts.add_telemetry(stats.telemetry.by_name());
        for (reason, packets) in stats.drops.iter() {
            *counts.drops.entry(format!("host_{}", reason.name())).or_default() += packets;
        }
    }
    counts
}

/// Adds the counters of a switch to `counts`.
pub fn add_switch_counts(counts: &mut Counts, switch: &Switch) {
    let read = |counter: &str, index: u32| {
        switch.pipeline().counter_read(counter, index as usize).map_or(0, |value| value.packets)
    };
    add_p4_counters(counts, read);
    for (reason, count) in switch.drops().iter() {
        // `add_p4_counters` has counted the drops of the program already, by the program's own reasons.
        if reason != DropReason::IngressDrop {
            *counts.drops.entry(reason.name().to_owned()).or_default() += count.packets;
        }
    }
}
