/// A set of half-open byte ranges in one sequence space: a contiguous prefix from 0 and ranges behind gaps. Stores
/// positions only, no payload.
#[derive(Debug, Default)]
pub(super) struct RangeSet {
    prefix_end: u64,
    /// Ranges behind the first gap as (start, end), sorted, neither overlapping nor adjacent.
    behind_gaps: Vec<(u64, u64)>,
}

impl RangeSet {
    /// Returns the end of the contiguous prefix, which is the first missing byte.
    pub(super) fn prefix_end(&self) -> u64 {
        self.prefix_end
    }

    /// Returns the number of ranges behind the first gap.
    pub(super) fn reorder_range_count(&self) -> usize {
        self.behind_gaps.len()
    }

    /// Returns the end of the highest range.
    pub(super) fn end(&self) -> u64 {
        self.behind_gaps.last().map_or(self.prefix_end, |&(_, end)| end)
    }

    /// Returns whether inserting `start..end` would add a range behind a gap, and not only extend existing ones.
    pub(super) fn adds_range(&self, start: u64, end: u64) -> bool {
        let next = self.behind_gaps.partition_point(|&(_, next_end)| next_end < start);
        start > self.prefix_end && self.behind_gaps.get(next).is_none_or(|&(next_start, _)| next_start > end)
    }

    /// Returns the first missing part of `start..end` as (start, end); `None` if nothing is missing.
    pub(super) fn first_missing(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let mut from = start.max(self.prefix_end);
        let first = self.behind_gaps.partition_point(|&(_, range_end)| range_end <= from);
        for &(range_start, range_end) in &self.behind_gaps[first..] {
            if range_start > from {
                return (from < end).then_some((from, end.min(range_start)));
            }
            from = range_end;
        }
        (from < end).then_some((from, end))
    }

    /// Inserts `start..end` and returns the number of bytes that were missing.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start <= self.prefix_end && self.behind_gaps.is_empty() {
            // Fast path: nothing is behind a gap, and the range extends the prefix.
            let new = end.saturating_sub(self.prefix_end);
            self.prefix_end += new;
            return new;
        }
        let (mut from, mut to) = (start.max(self.prefix_end), end);
        if to <= from {
            return 0;
        }
        // Adjacent ranges are merged too, hence `<` here and `<=` below.
        let first = self.behind_gaps.partition_point(|&(_, end)| end < from);
        let last = self.behind_gaps.partition_point(|&(start, _)| start <= to);
        let mut present = 0;
        for &(start, end) in &self.behind_gaps[first..last] {
            present += end.min(to).saturating_sub(start.max(from));
        }
        let new = to - from - present;
        if let Some(&(start, _)) = self.behind_gaps[first..last].first() {
            from = from.min(start);
        }
        if let Some(&(_, end)) = self.behind_gaps[first..last].last() {
            to = to.max(end);
        }
        if from <= self.prefix_end {
            self.prefix_end = to;
            self.behind_gaps.drain(..last);
        } else {
            self.behind_gaps.splice(first..last, [(from, to)]);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// Compares every operation with a plain set of byte offsets.
        #[test]
        fn agrees_with_a_set_of_bytes(steps in prop::collection::vec((0u64..60, 0u64..15), 0..60)) {
            let mut ranges = RangeSet::default();
            let mut model = BTreeSet::new();
            for (start, len) in steps {
                let adds_range = ranges.adds_range(start, start + len);
                let count_before = ranges.reorder_range_count();
                let before = model.clone();
                let new = (start..start + len).filter(|&byte| model.insert(byte)).count() as u64;
                let mut missing: Vec<u64> = Vec::new();
                while let Some((from, to)) = ranges.first_missing(missing.last().map_or(start, |last| last + 1), start + len) {
                    missing.extend(from..to);
                }
                prop_assert_eq!(missing, (start..start + len).filter(|byte| !before.contains(byte)).collect::<Vec<_>>());
                prop_assert_eq!(ranges.insert(start, start + len), new);
                let prefix_end = (0..).find(|byte| !model.contains(byte)).unwrap_or(0);
                prop_assert_eq!(ranges.prefix_end(), prefix_end);
                prop_assert_eq!(ranges.end(), model.last().map_or(0, |last| last + 1));
                let range_starts = model.range(prefix_end..).filter(|&&byte| !model.contains(&(byte - 1)));
                prop_assert_eq!(ranges.reorder_range_count(), range_starts.count());
                prop_assert!(adds_range || len == 0 || ranges.reorder_range_count() <= count_before);
                prop_assert!(!adds_range || len == 0 || ranges.reorder_range_count() == count_before + 1);
            }
        }
    }
}
