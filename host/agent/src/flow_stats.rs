//! Statistics of one flow: packets by path, round-trip times, range of the concurrency.

use super::results::{PathResult, RangeResult, RttResult};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use weir_units::Time;

/// Maximum number of paths recorded per flow. A flow has one path, or two after a link failure; the bound limits the
/// memory that packets with forged path ids can take.
const MAX_PATHS: usize = 16;

/// Number of packets by path, for the first [`MAX_PATHS`] paths.
#[derive(Clone, Debug, Default)]
pub(super) struct PathCounts(Vec<PathResult>);

impl PathCounts {
    pub(crate) fn add(&mut self, path_id: u16) {
        if let Some(path) = self.0.iter_mut().find(|path| path.path_id == path_id) {
            path.packets += 1;
        } else if self.0.len() < MAX_PATHS {
            self.0.push(PathResult { path_id, packets: 1 });
        }
    }
    pub(crate) fn result(&self) -> Vec<PathResult> {
        self.0.clone()
    }
}

/// Recognises replayed ACKs of a flow. An ACK that acknowledges no more than an earlier one is new only if it echoes the
/// timestamp of a later packet, as duplicate ACKs do.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplayFilter {
    /// The highest acknowledgement and the latest echo, by subflow.
    latest: BTreeMap<u8, (u32, u32)>,
}

/// What an ACK says about its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckNovelty {
    /// It acknowledges no more than an earlier one, and echoes no later packet.
    Replayed,
    /// It acknowledges more, but echoes an earlier packet than another ACK did: it was overtaken, or the receiver answered
    /// a replayed packet. The age of the echo is no round-trip time.
    EarlierEcho,
    /// It echoes the latest packet so far.
    LatestEcho,
}

impl ReplayFilter {
    pub(crate) fn accept(&mut self, subflow: u8, seq: u32, echo: u32) -> AckNovelty {
        // Both wrap (RFC 1982).
        let is_later = |a: u32, b: u32| a.wrapping_sub(b).cast_signed() > 0;
        let (last_seq, last_echo) = match self.latest.entry(subflow) {
            Entry::Vacant(entry) => {
                entry.insert((seq, echo));
                return AckNovelty::LatestEcho;
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        let novelty = match (is_later(seq, *last_seq), is_later(*last_echo, echo)) {
            (true, true) => AckNovelty::EarlierEcho,
            (true, false) => AckNovelty::LatestEcho,
            (false, _) if is_later(echo, *last_echo) => AckNovelty::LatestEcho,
            (false, _) => AckNovelty::Replayed,
        };
        for (latest, value) in [(last_seq, seq), (last_echo, echo)] {
            if is_later(value, *latest) {
                *latest = value;
            }
        }
        novelty
    }
}

/// Minimum, maximum and last of a series of numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinMaxLast(Option<RangeResult>);

impl MinMaxLast {
    pub(crate) fn add(&mut self, value: u16) {
        let range = self.0.get_or_insert(RangeResult { min: value, max: value, last: value });
        *range = RangeResult { min: range.min.min(value), max: range.max.max(value), last: value };
    }
    pub(crate) fn last(&self) -> u16 {
        self.0.map_or(0, |range| range.last)
    }
    pub(crate) fn result(&self) -> Option<RangeResult> {
        self.0
    }
}

/// Each doubling is divided into 2^4 bins, so the upper edge of a bin is at most 1/16 above any value in it.
const SUB_BIN_BITS: u32 = 4;
/// Number of bins up to 2^32 ns, the range of the timestamp in the header.
const BIN_COUNT: usize = (32 - SUB_BIN_BITS as usize + 1) << SUB_BIN_BITS;

/// Histogram of round-trip times.
#[derive(Clone, Debug, Default)]
pub(super) struct RttHistogram {
    count: u64,
    total_ns: u64,
    min_ns: u32,
    max_ns: u32,
    last_ns: u32,
    bins: Vec<u32>,
}

/// Returns the index of the bin for a value.
fn bin_of(ns: u32) -> usize {
    let doublings = ns.max(1).ilog2().saturating_sub(SUB_BIN_BITS);
    ((doublings << SUB_BIN_BITS) + (ns >> doublings)) as usize
}

/// Returns the largest value of a bin.
fn bin_upper_edge(bin: usize) -> u64 {
    let doublings = (bin >> SUB_BIN_BITS).saturating_sub(1);
    let low = (bin - (doublings << SUB_BIN_BITS)) as u64;
    ((low + 1) << doublings) - 1
}

impl RttHistogram {
    pub(crate) fn add(&mut self, ns: u32) {
        if self.count == 0 {
            self.bins = vec![0; BIN_COUNT];
            self.min_ns = ns;
        }
        self.count += 1;
        self.total_ns += u64::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.last_ns = ns;
        if let Some(count) = self.bins.get_mut(bin_of(ns)) {
            *count = count.saturating_add(1);
        }
    }
    pub(crate) fn last(&self) -> Time {
        Time::from_ns(u64::from(self.last_ns))
    }
    /// Returns the upper edge in ns of the bin that contains `quantile` (0 to 1), but at most the maximum.
    fn quantile_ns(&self, quantile: f64) -> u64 {
        let rank = (self.count as f64 * quantile).ceil() as u64;
        let mut cumulative = 0;
        for (bin, &count) in self.bins.iter().enumerate() {
            cumulative += u64::from(count);
            if cumulative >= rank {
                return bin_upper_edge(bin).min(u64::from(self.max_ns));
            }
        }
        u64::from(self.max_ns)
    }
    pub(crate) fn result(&self) -> Option<RttResult> {
        (self.count > 0).then(|| RttResult {
            count: self.count,
            min_ns: self.min_ns.into(),
            mean_ns: self.total_ns / self.count,
            p50_ns: self.quantile_ns(0.5),
            p99_ns: self.quantile_ns(0.99),
            max_ns: self.max_ns.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn replayed_acks_are_recognised() {
        let mut filter = ReplayFilter::default();
        let near_wrap = u32::MAX - 1;
        for (subflow, seq, echo, novelty) in [
            (0, 1_000, near_wrap, AckNovelty::LatestEcho),
            (0, 1_000, near_wrap, AckNovelty::Replayed),
            // A duplicate ACK for a later packet, after the timestamp has wrapped.
            (0, 1_000, 5, AckNovelty::LatestEcho),
            (0, 1_000, near_wrap, AckNovelty::Replayed),
            // Reordered, or the answer to a replayed packet, but it acknowledges more.
            (0, 2_000, near_wrap, AckNovelty::EarlierEcho),
            (0, 2_000, 5, AckNovelty::Replayed),
            (0, 3_000, 5, AckNovelty::LatestEcho),
            (1, 1_000, 5, AckNovelty::LatestEcho),
        ] {
            assert_eq!(filter.accept(subflow, seq, echo), novelty, "{subflow} {seq} {echo}");
        }
    }

    #[test]
    fn percentiles_are_upper_edges() {
        let mut rtts = RttHistogram::default();
        assert!(rtts.result().is_none());
        for us in 1..=100 {
            rtts.add(us * 1_000);
        }
        let result = rtts.result().unwrap();
        assert_eq!(
            (result.count, result.min_ns, result.mean_ns, result.max_ns),
            (100, 1_000, 50_500, 100_000)
        );
        assert!((50_000..53_200).contains(&result.p50_ns), "{result:?}");
        assert!((99_000..=100_000).contains(&result.p99_ns), "{result:?}");
    }

    #[test]
    fn forged_path_ids_take_bounded_memory() {
        let mut paths = PathCounts::default();
        for id in 0..4_096 {
            paths.add(id);
            paths.add(7);
        }
        assert_eq!(paths.result().len(), MAX_PATHS);
        assert!(paths.result().contains(&PathResult { path_id: 7, packets: 4_097 }));
    }

    proptest! {
        #[test]
        fn bins_contain_their_values(ns: u32) {
            let bin = bin_of(ns);
            prop_assert!(bin < BIN_COUNT);
            prop_assert!(bin_upper_edge(bin) >= u64::from(ns));
            prop_assert!(bin == 0 || bin_upper_edge(bin - 1) < u64::from(ns));
            prop_assert!(bin_upper_edge(bin) <= u64::from(ns) + u64::from(ns) / 16);
        }
    }
}
