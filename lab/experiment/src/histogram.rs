//! Histogram of queue length samples, with the bins of HPCC's queue monitor
//! (docs/algorithms/methods.md#queue-monitor).

/// Width of a bin, in bytes.
const BIN: u64 = 1_000;

/// Number of samples per queue length.
#[derive(Clone, Debug, Default)]
pub struct QueueHistogram {
    /// `bins[i]` samples had `i * BIN <= bytes < (i + 1) * BIN`.
    bins: Vec<u64>,
    sum: u64,
    samples: u64,
    peak: u64,
}

impl QueueHistogram {
    /// Adds a sample.
    pub fn add(&mut self, bytes: u64) {
        let bin = (bytes / BIN) as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.sum += bytes;
        self.samples += 1;
        self.peak = self.peak.max(bytes);
    }

    /// Returns the mean of the samples, 0 if there are none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.samples.max(1) as f64
    }

    /// Returns the largest sample.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns the upper edge of the bin with the 99th percentile, or 0 if all samples are in the first bin.
    pub fn p99(&self) -> u64 {
        let mut seen = 0;
        for (i, count) in self.bins.iter().enumerate() {
            seen += count;
            if seen * 100 > self.samples * 99 {
                return if i == 0 && *count == self.samples { 0 } else { (i as u64 + 1) * BIN };
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a histogram of samples, given as pairs of a length in bytes and its number of occurrences.
    fn histogram(samples: &[(u64, u64)]) -> QueueHistogram {
        let mut result = QueueHistogram::default();
        samples.iter().for_each(|&(bytes, times)| (0..times).for_each(|_| result.add(bytes)));
        result
    }

    #[test]
    fn p99_is_the_upper_edge_of_its_bin() {
        assert_eq!(histogram(&[]).p99(), 0);
        assert_eq!(histogram(&[(999, 100)]).p99(), 0, "all samples are in the first bin");
        assert_eq!(histogram(&[(0, 99), (2_500, 1)]).p99(), 3_000);
        assert_eq!(histogram(&[(0, 995), (2_500, 5)]).p99(), 1_000);
    }

    #[test]
    fn mean_and_peak_are_exact() {
        let queue = histogram(&[(0, 3), (1_234, 1)]);
        assert_eq!((queue.mean(), queue.peak()), (308.5, 1_234));
        assert_eq!(histogram(&[]).mean(), 0.0);
    }
}
