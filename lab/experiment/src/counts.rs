//! Sums the counters of switches and hosts under the names of `summary.json`, in the same way for all backends
//! (docs/summary.md).

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// P4 source with the drop reasons and events. Names and counter indices are read from it, so that they cannot differ from
/// the compiled programs.
const REASONS_P4: &str = include_str!("../assets/reasons.p4");

/// P4 counter of dropped packets, indexed by reason (`p4src/controls/drops.p4`).
pub const DROP_COUNTER: &str = "drops";
/// P4 counter of events of forwarded packets, indexed by event.
pub const EVENT_COUNTER: &str = "events";
/// Event counted in [`Counts::marks`].
const ECN_MARKED: &str = "ecn_marked";
/// Event counted in [`Counts::deflections`].
const DEFLECTED: &str = "deflected";

/// Drop reasons, in lower case, with their counter indices.
static DROPS: LazyLock<Vec<(String, u32)>> = LazyLock::new(|| constants("DROP_"));
/// Events, in lower case, with their counter indices.
static EVENTS: LazyLock<Vec<(String, u32)>> = LazyLock::new(|| constants("EVENT_"));

/// Counts of the whole fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Dropped packets by reason, without zeros. Reasons of hosts begin with `host_`.
    pub drops: BTreeMap<String, u64>,
    /// Packets that switches marked CE.
    pub marks: u64,
    pub deflections: u64,
    /// Retransmitted data packets.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fallbacks of a message from several subflows to one (AMP).
    pub suppressions: u64,
    /// What senders found wrong with telemetry, by check, without zeros.
    pub telemetry: BTreeMap<String, u64>,
}

impl Counts {
    /// Adds counters of a host, of which only those of telemetry count here.
    pub fn add_telemetry<'a>(&mut self, counters: impl IntoIterator<Item = (&'a str, u64)>) {
        for (name, count) in counters {
            if let Some(check) = name.strip_prefix("telemetry_").filter(|_| count > 0) {
                *self.telemetry.entry(check.to_owned()).or_default() += count;
            }
        }
    }

    /// Adds the drops, marks and deflections that switches counted before they restarted.
    pub fn add(&mut self, earlier: &Counts) {
        self.marks += earlier.marks;
        self.deflections += earlier.deflections;
        for (reason, packets) in &earlier.drops {
            *self.drops.entry(reason.clone()).or_default() += packets;
        }
    }
}

/// Adds the P4 counters of one switch. `read` returns the packet count of a counter cell, by counter name and index.
pub fn add_p4_counters(counts: &mut Counts, mut read: impl FnMut(&str, u32) -> u64) {
    for (name, index) in DROPS.iter().filter(|(_, index)| *index != 0) {
        let packets = read(DROP_COUNTER, *index);
        if packets > 0 {
            *counts.drops.entry(name.clone()).or_default() += packets;
        }
    }
    for (name, index) in EVENTS.iter() {
        match name.as_str() {
            ECN_MARKED => counts.marks += read(EVENT_COUNTER, *index),
            DEFLECTED => counts.deflections += read(EVENT_COUNTER, *index),
            _ => {}
        }
    }
}

/// Annotation in front of constants that some programs do not use.
const NO_UNUSED_WARNING: &str = "@noWarn(\"unused\") ";

/// Returns the constants whose names begin with `prefix`: the rest of the name in lower case, and the value.
fn constants(prefix: &str) -> Vec<(String, u32)> {
    REASONS_P4
        .lines()
        .filter_map(|line| {
            let line = line.strip_prefix(NO_UNUSED_WARNING).unwrap_or(line);
            let (declaration, value) = line.strip_prefix("const ")?.split_once('=')?;
            let name = declaration.split_whitespace().last()?.strip_prefix(prefix)?;
            let value = value.trim_start().split(';').next()?.trim().parse().ok()?;
            Some((name.to_ascii_lowercase(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telemetry_checks_are_summed_without_zeros() {
        let mut counts = Counts::default();
        counts.add_telemetry([("telemetry_too_fast", 0), ("telemetry_other_path", 2), ("timeouts", 5)]);
        counts.add_telemetry([("telemetry_other_path", 3)]);
        assert_eq!(counts.telemetry, BTreeMap::from([("other_path".to_owned(), 5)]));
    }

    #[test]
    fn all_constants_of_the_p4_file_are_found() {
        let declared =
            |prefix: &str| REASONS_P4.lines().filter(|l| l.contains("const ") && l.contains(prefix)).count();
        assert_eq!(DROPS.len(), declared(" DROP_"));
        assert_eq!(EVENTS.len(), declared(" EVENT_"));
        assert!(DROPS.contains(&("ttl_expired".to_owned(), 7)));
        for counted in [ECN_MARKED, DEFLECTED] {
            assert!(EVENTS.iter().any(|(name, _)| name == counted), "{counted}");
        }
        let mut indices: Vec<u32> = DROPS.iter().map(|(_, i)| *i).collect();
        indices.sort_unstable();
        indices.dedup();
        assert_eq!(indices.len(), DROPS.len(), "duplicate index");
    }
}
