//! The metrics that `weir controller watch` exports to Prometheus.

use crate::metrics::Page;
use std::collections::{BTreeMap, BTreeSet};
use weir_client::watch::{RolloutReason, WatchEvent};

/// Counters and states accumulated from all events of the watcher.
pub(super) struct Totals {
    /// Every switch of the fabric, with true if this controller is its primary client.
    is_primary: BTreeMap<String, bool>,
    /// The links that are down.
    links_down: BTreeSet<String>,
    /// Entries held by the switches that the last rollout wrote.
    entries: u64,
    /// By reason.
    rollouts: BTreeMap<&'static str, u64>,
    /// By kind: insert, modify or delete.
    updates: BTreeMap<&'static str, u64>,
    program_pushes: u64,
    /// By switch.
    rejections: BTreeMap<String, u64>,
    unknown_packet_ins: u64,
}

impl Totals {
    /// Starts with all switches disconnected and all counters at zero.
    pub(super) fn new(switches: impl IntoIterator<Item = String>) -> Totals {
        Totals {
            is_primary: switches.into_iter().map(|name| (name, false)).collect(),
            links_down: BTreeSet::new(),
            entries: 0,
            rollouts: ["started", "rerouted", "refilled", "repaired"].map(|reason| (reason, 0)).into(),
            updates: ["insert", "modify", "delete"].map(|kind| (kind, 0)).into(),
            program_pushes: 0,
            rejections: BTreeMap::new(),
            unknown_packet_ins: 0,
        }
    }

    /// Updates the counters and states with one event.
    pub(super) fn record(&mut self, event: &WatchEvent) {
        match event {
            WatchEvent::Connected { switch, pushed } => {
                self.is_primary.insert(switch.clone(), true);
                self.program_pushes += u64::from(*pushed);
            }
            WatchEvent::Standby { switch } | WatchEvent::Lost { switch, .. } => {
                self.is_primary.insert(switch.clone(), false);
            }
            WatchEvent::Link { link, is_up: true } => {
                self.links_down.remove(link);
            }
            WatchEvent::Link { link, is_up: false } => {
                self.links_down.insert(link.clone());
            }
            WatchEvent::RolledOut { reason, applied, .. } => {
                let reason = match reason {
                    RolloutReason::Start => "started",
                    RolloutReason::Links => "rerouted",
                    RolloutReason::SwitchReady => "refilled",
                    RolloutReason::Drift => "repaired",
                };
                *self.rollouts.entry(reason).or_default() += 1;
                let updates =
                    [("insert", applied.inserted), ("modify", applied.modified), ("delete", applied.deleted)];
                for (kind, count) in updates {
                    *self.updates.entry(kind).or_default() += count as u64;
                }
                self.entries = (applied.inserted + applied.modified + applied.unchanged) as u64;
            }
            WatchEvent::SwitchFailed { switch, .. } => {
                *self.rejections.entry(switch.clone()).or_default() += 1
            }
            WatchEvent::UnknownPacketIns(count) => self.unknown_packet_ins += count,
            WatchEvent::ProbesLost { .. } | WatchEvent::NoRoutes(_) => {}
        }
    }

    /// Returns the metrics page.
    pub(super) fn page(&self) -> Page {
        let mut page = Page::default();
        for (switch, &is_primary) in &self.is_primary {
            let help = "1 if this controller is the switch's primary client.";
            page.gauge("weir_controller_connected", help, &[("switch", switch)], is_primary.into());
        }
        let help = "Links between switches that are down.";
        page.gauge("weir_controller_links_down", help, &[], self.links_down.len() as u64);
        let help = "Table entries in the switches written by the last rollout.";
        page.gauge("weir_controller_entries", help, &[], self.entries);
        for (reason, &count) in &self.rollouts {
            let help = "Rollouts, by reason.";
            page.counter("weir_controller_rollouts_total", help, &[("reason", reason)], count);
        }
        for (kind, &count) in &self.updates {
            let help = "Updates written to switches.";
            page.counter("weir_controller_updates_total", help, &[("kind", kind)], count);
        }
        let help = "Programs pushed to switches.";
        page.counter("weir_controller_programs_total", help, &[], self.program_pushes);
        for (switch, &count) in &self.rejections {
            let help = "Number of times that a switch rejected entries.";
            page.counter("weir_controller_refusals_total", help, &[("switch", switch)], count);
        }
        let help = "Packet-ins that are not probes of this controller.";
        page.counter("weir_controller_unknown_packet_ins_total", help, &[], self.unknown_packet_ins);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weir_client::fleet::ApplySummary;

    #[test]
    fn events_are_counted() {
        let mut totals = Totals::new(["s1".to_owned(), "s2".to_owned()]);
        totals.record(&WatchEvent::Connected { switch: "s1".into(), pushed: true });
        let applied = ApplySummary { inserted: 5, modified: 1, unchanged: 7, ..ApplySummary::default() };
        totals.record(&WatchEvent::RolledOut {
            reason: RolloutReason::Links,
            switches: 2,
            applied,
            down_links: 1,
            duration: Duration::from_millis(3),
        });
        for is_up in [false, true, false] {
            totals.record(&WatchEvent::Link { link: "s1:3 - s2:1".into(), is_up });
        }
        let page = totals.page().to_string();
        for line in [
            "weir_controller_connected{switch=\"s1\"} 1",
            "weir_controller_connected{switch=\"s2\"} 0",
            "weir_controller_links_down 1",
            "weir_controller_entries 13",
            "weir_controller_rollouts_total{reason=\"rerouted\"} 1",
            "weir_controller_updates_total{kind=\"insert\"} 5",
            "weir_controller_programs_total 1",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line}: {page}");
        }
    }
}
