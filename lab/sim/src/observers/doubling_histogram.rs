//! A histogram of event times whose bins double in length, as Trickle's intervals do.

use weir_units::Time;

/// Number of events by time since a start. Each bin is twice as long as the one before, so the memory grows only with
/// the logarithm of the duration.
#[derive(Clone, Debug)]
pub struct DoublingHistogram {
    from: Time,
    /// Length of the first bin.
    first: Time,
    counts: Vec<u64>,
}

/// A bin: the number of events later than `from` and up to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramBin {
    pub from: Time,
    pub to: Time,
    pub count: u64,
}

impl DoublingHistogram {
    /// The first bin starts at `from` and has the length `first`, at least 1 ps.
    pub fn new(from: Time, first: Time) -> DoublingHistogram {
        DoublingHistogram { from, first: first.max(Time::from_ps(1)), counts: Vec::new() }
    }

    /// Discards all counts and starts again at `from`.
    pub fn restart(&mut self, from: Time) {
        *self = DoublingHistogram::new(from, self.first);
    }

    /// Counts an event; ignores events at or before the start.
    pub fn count(&mut self, at: Time) {
        let Some(since) = at.checked_sub(self.from).filter(|since| *since > Time::ZERO) else { return };
        // Bin i ends at (2^(i + 1) - 1) times the length of the first bin. The end belongs to the bin, hence -1.
        let passed = (since.as_ps() - 1) / self.first.as_ps();
        let index = (passed + 1).ilog2() as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
    }

    /// Adds the counts of `other`, which must have the same start and the same first bin.
    pub fn merge(&mut self, other: &DoublingHistogram) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Returns the bins that end by `now`.
    pub fn bins_until(&self, now: Time) -> Vec<HistogramBin> {
        let (mut from, mut length, mut bins) = (self.from, self.first, Vec::new());
        while from + length <= now {
            let to = from + length;
            let count = self.counts.get(bins.len()).copied().unwrap_or(0);
            bins.push(HistogramBin { from, to, count });
            (from, length) = (to, length * 2);
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_counts_events_after_its_start_up_to_its_end() {
        let us = Time::from_us;
        let mut histogram = DoublingHistogram::new(us(10), us(5));
        // The bins end at 15, 25 and 45 us.
        for at in [9, 10, 11, 15, 16, 25, 26, 45, 46] {
            histogram.count(us(at));
        }
        let counts = |now| histogram.bins_until(us(now)).iter().map(|bin| bin.count).collect::<Vec<_>>();
        assert_eq!((counts(14), counts(15), counts(45)), (vec![], vec![2], vec![2, 2, 2]));
        let mut twice = DoublingHistogram::new(us(10), us(5));
        twice.merge(&histogram);
        twice.merge(&histogram);
        assert_eq!(twice.bins_until(us(45)).iter().map(|bin| bin.count).collect::<Vec<_>>(), [4, 4, 4]);
        assert_eq!(histogram.bins_until(us(44))[1], HistogramBin { from: us(15), to: us(25), count: 2 });
        histogram.restart(us(30));
        assert_eq!(histogram.bins_until(us(35)), [HistogramBin { from: us(30), to: us(35), count: 0 }]);
    }
}
