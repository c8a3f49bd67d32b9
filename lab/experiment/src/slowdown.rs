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
    floor: Option<Bandwidth>,
    at: Option<Time>,
}

impl FirstSlowdown {
    /// `join` is the time at which the other flow joins.
    pub fn new(join: Time, base_rtt: Time) -> FirstSlowdown {
        FirstSlowdown { join, window: base_rtt * WINDOW_RTTS, floor: None, at: None }
    }

    /// Adds a sample of the first flow's rate. Samples must be in order of time.
    pub fn observe(&mut self, now: Time, rate: Bandwidth) {
        if now <= self.join {
            if now + self.window >= self.join {
                self.floor = Some(self.floor.map_or(rate, |floor| floor.min(rate)));
            }
        } else if let (Some(floor), None) = (self.floor, self.at)
            && rate.as_bps_f64() < floor.as_bps_f64() * SLOWDOWN_RATIO
        {
            self.at = Some(now);
        }
    }

    /// Returns the time of the slowdown; `None` if the flow has not slowed down so far.
    pub fn at(&self) -> Option<Time> {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(samples: &[(u64, u64)]) -> Option<Time> {
        let mut slowdown = FirstSlowdown::new(Time::from_us(100), Time::from_us(5));
        samples
            .iter()
            .for_each(|&(us, gbps)| slowdown.observe(Time::from_us(us), Bandwidth::from_gbps(gbps)));
        slowdown.at()
    }

    #[test]
    fn a_tenth_below_the_least_rate_before_the_join_counts() {
        assert_eq!(
            found(&[(50, 10), (85, 100), (95, 90), (105, 82), (110, 80), (115, 10)]),
            Some(Time::from_us(110))
        );
    }

    #[test]
    fn without_a_rate_before_the_join_nothing_is_compared() {
        assert_eq!(found(&[(50, 100), (105, 1)]), None);
    }
}
