/// A set of half-open byte ranges in one sequence space: a contiguous prefix from 0 and ranges behind gaps. Stores
/// positions only, no payload.
#[derive(Debug, Default)]
pub(super) struct RangeSet {
    done: u64,
    /// Ranges behind `done`, sorted, neither overlapping nor adjacent.
    ahead: Vec<(u64, u64)>,
}

impl RangeSet {
    /// Returns the end of the contiguous prefix, which is the first missing byte.
    pub fn prefix_end(&self) -> u64 {
        self.done
    }

    /// Returns the number of ranges behind the first gap.
    pub fn gap_ranges(&self) -> usize {
        self.ahead.len()
    }

    /// Returns the end of the highest range.
    pub fn end(&self) -> u64 {
        self.ahead.last().map_or(self.done, |&(_, end)| end)
    }

    /// Returns whether inserting `start..end` would add a range behind a gap, and not only extend existing ones.
    pub fn adds_range(&self, start: u64, end: u64) -> bool {
        let after = self.ahead.partition_point(|&(_, to)| to < start);
        start > self.done && self.ahead.get(after).is_none_or(|&(from, _)| from > end)
    }

    /// Returns the first missing part of `start..end`.
    pub fn first_missing(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let mut from = start.max(self.done);
        let behind = self.ahead.partition_point(|&(_, to)| to <= from);
        for &(next, to) in &self.ahead[behind..] {
            if next > from {
                return (from < end).then_some((from, end.min(next)));
            }
            from = to;
        }
        (from < end).then_some((from, end))
    }

    /// Inserts `start..end` and returns the number of bytes that were missing.
    pub fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start <= self.done && self.ahead.is_empty() {
            // Fast path: nothing is behind a gap, and the range extends the prefix.
            let new = end.saturating_sub(self.done);
            self.done += new;
            return new;
        }
        let (mut from, mut to) = (start.max(self.done), end);
        if to <= from {
            return 0;
        }
        // Adjacent ranges are merged too, hence `<` here and `<=` below.
        let first = self.ahead.partition_point(|&(_, end)| end < from);
        let last = self.ahead.partition_point(|&(start, _)| start <= to);
        let mut known = 0;
        for &(start, end) in &self.ahead[first..last] {
            known += end.min(to).saturating_sub(start.max(from));
        }
        let new = to - from - known;
        if let Some(&(start, _)) = self.ahead[first..last].first() {
            from = from.min(start);
        }
        if let Some(&(_, end)) = self.ahead[first..last].last() {
            to = to.max(end);
        }
        if from <= self.done {
            self.done = to;
            self.ahead.drain(..last);
        } else {
            self.ahead.splice(first..last, [(from, to)]);
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
        /// Against a set of bytes.
        #[test]
        fn agree_with_a_set(steps in prop::collection::vec((0u64..60, 0u64..15), 0..60)) {
            let mut intervals = RangeSet::default();
            let mut model = BTreeSet::new();
            for (start, len) in steps {
                let (needs, ahead) = (intervals.adds_range(start, start + len), intervals.gap_ranges());
                let before = model.clone();
                let new = (start..start + len).filter(|&byte| model.insert(byte)).count() as u64;
                let mut missing: Vec<u64> = Vec::new();
                while let Some((from, to)) = intervals.first_missing(missing.last().map_or(start, |last| last + 1), start + len) {
                    missing.extend(from..to);
                }
                prop_assert_eq!(missing, (start..start + len).filter(|byte| !before.contains(byte)).collect::<Vec<_>>());
                prop_assert_eq!(intervals.insert(start, start + len), new);
                let done = (0..).find(|byte| !model.contains(byte)).unwrap_or(0);
                prop_assert_eq!(intervals.prefix_end(), done);
                prop_assert_eq!(intervals.end(), model.last().map_or(0, |last| last + 1));
                let stretches = model.range(done..).filter(|&&byte| !model.contains(&(byte - 1)));
                prop_assert_eq!(intervals.gap_ranges(), stretches.count());
                prop_assert!(needs || len == 0 || intervals.gap_ranges() <= ahead);
                prop_assert!(!needs || len == 0 || intervals.gap_ranges() == ahead + 1);
            }
        }
    }
}
