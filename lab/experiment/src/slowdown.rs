//! The metric `first_slowdown_us`: the time at which the first flow yields to a flow that joins later (docs/summary.md).

use weir_units::{Bandwidth, Time};

/// A flow slows down when its rate falls below this share of its minimum rate in the window before the join.
const SLOWDOWN_RATIO: f64 = 0.9;
/// Length of the window before the join, in base RTTs. HPCC updates its reference window once per RTT, so four RTTs cover its
/// oscillation.
const WINDOW_RTTS: u64 = 4;

/// Finds the time at which the first flow slows down after another flow has joined.
#[derive(Clone, Copy, Debug)]
pub struct FirstSlowdown {
    join: Time,
    window: Time,
    /// Minimum rate in the window before the join.
    min_rate: Option<Bandwidth>,
    /// Time of the slowdown.
    time: Option<Time>,
}

impl FirstSlowdown {
    /// `join` is the time at which the other flow joins.
    pub fn new(join: Time, base_rtt: Time) -> FirstSlowdown {
        FirstSlowdown { join, window: base_rtt * WINDOW_RTTS, min_rate: None, time: None }
    }

    /// Adds a sample of the first flow's rate. Samples must be in order of time.
    pub fn observe(&mut self, now: Time, rate: Bandwidth) {
        if now <= self.join {
            if now + self.window >= self.join {
                self.min_rate = Some(self.min_rate.map_or(rate, |min_rate| min_rate.min(rate)));
            }
        } else if let (Some(min_rate), None) = (self.min_rate, self.time)
            && rate.as_bps_f64() < min_rate.as_bps_f64() * SLOWDOWN_RATIO
        {
            self.time = Some(now);
        }
    }

    /// Returns the time of the slowdown; `None` if the flow has not slowed down so far.
    pub fn time(&self) -> Option<Time> {
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slowdown_time(samples: &[(u64, u64)]) -> Option<Time> {
        let mut slowdown = FirstSlowdown::new(Time::from_us(100), Time::from_us(5));
        samples
            .iter()
            .for_each(|&(us, gbps)| slowdown.observe(Time::from_us(us), Bandwidth::from_gbps(gbps)));
        slowdown.time()
    }

    #[test]
    fn a_rate_a_tenth_below_the_minimum_before_the_join_is_a_slowdown() {
        assert_eq!(
            slowdown_time(&[(50, 10), (85, 100), (95, 90), (105, 82), (110, 80), (115, 10)]),
            Some(Time::from_us(110))
        );
    }

    #[test]
    fn without_a_sample_before_the_join_there_is_no_slowdown() {
        assert_eq!(slowdown_time(&[(50, 100), (105, 1)]), None);
    }
}
