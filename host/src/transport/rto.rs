use crate::config::{MAX_RTO_DOUBLINGS, RtoBounds};
use weir_units::Time;

/// The retransmission timeout of one subflow (RFC 6298). Without RTT samples, as with go-back-N, it is constant
/// except for the exponential backoff.
#[derive(Debug)]
pub(super) struct Rto {
    bounds: RtoBounds,
    /// `None` before the first RTT sample.
    estimate: Option<RttEstimate>,
    /// Timeouts since new bytes were last acknowledged.
    timeouts: u32,
}

/// The RTT estimate of RFC 6298.
#[derive(Clone, Copy, Debug)]
struct RttEstimate {
    srtt: Time,
    rttvar: Time,
}

impl Rto {
    pub(super) fn new(bounds: RtoBounds) -> Rto {
        Rto { bounds, estimate: None, timeouts: 0 }
    }

    /// Changes the bounds, after a scheme change.
    pub(super) fn set_bounds(&mut self, bounds: RtoBounds) {
        self.bounds = bounds;
    }

    /// Adds an RTT sample, with alpha = 1/8 and beta = 1/4 (§2.3).
    pub(super) fn sample(&mut self, rtt: Time) {
        self.estimate = Some(match self.estimate {
            None => RttEstimate { srtt: rtt, rttvar: rtt / 2 },
            Some(RttEstimate { srtt, rttvar }) => {
                let deviation = srtt.max(rtt).saturating_sub(srtt.min(rtt));
                RttEstimate {
                    srtt: (srtt * 7).saturating_add(rtt) / 8,
                    rttvar: (rttvar * 3).saturating_add(deviation) / 4,
                }
            }
        });
    }

    /// Resets the backoff after new bytes were acknowledged.
    pub(super) fn on_progress(&mut self) {
        self.timeouts = 0;
    }

    /// Returns the number of timeouts since new bytes were last acknowledged.
    pub(super) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Doubles the timeout (§5.5).
    pub(super) fn back_off(&mut self) {
        self.timeouts += 1;
    }

    /// Returns the present timeout, including the backoff.
    pub(super) fn current(&self) -> Time {
        let RtoBounds { min, initial } = self.bounds;
        let base = match self.estimate {
            None => initial.max(min),
            Some(RttEstimate { srtt, rttvar }) => srtt.saturating_add(rttvar * 4).max(min),
        };
        Time::from_ps(base.as_ps().saturating_mul(1 << self.timeouts.min(MAX_RTO_DOUBLINGS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298() {
        let us = Time::from_us;
        let mut rto = Rto::new(RtoBounds { min: us(10), initial: us(1_000) });
        assert_eq!(rto.current(), us(1_000));
        rto.sample(us(100));
        assert_eq!(rto.current(), us(100 + 4 * 50));
        rto.sample(us(180));
        // SRTT 110 us; RTTVAR 3/4 * 50 + 1/4 * 80 = 57.5 us.
        assert_eq!(rto.current(), us(110 + 4 * 57) + us(2));
        rto.back_off();
        rto.back_off();
        assert_eq!(rto.current(), us(4 * 340));
        rto.on_progress();
        assert_eq!(rto.current(), us(340));
        for _ in 0..200 {
            rto.sample(us(1));
        }
        assert_eq!(rto.current(), us(10));
    }
}
