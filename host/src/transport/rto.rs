use crate::config::RTO_MAX_DOUBLINGS;
use weir_units::Time;

/// The retransmission timeout of one subflow (RFC 6298). Without RTT samples, as with go-back-N, it is constant
/// except for the exponential backoff.
#[derive(Debug)]
pub(super) struct Rto {
    min: Time,
    /// The timeout before the first RTT sample.
    initial: Time,
    /// SRTT and RTTVAR; `None` before the first RTT sample.
    srtt_rttvar: Option<(Time, Time)>,
    /// Timeouts since the last progress.
    timeouts: u32,
}

impl Rto {
    pub fn new(min: Time, initial: Time) -> Rto {
        Rto { min, initial, srtt_rttvar: None, timeouts: 0 }
    }

    /// Changes the bounds, after a scheme change.
    pub fn set_bounds(&mut self, min: Time, initial: Time) {
        (self.min, self.initial) = (min, initial);
    }

    /// Adds an RTT sample, with alpha = 1/8 and beta = 1/4 (§2.3).
    pub fn sample(&mut self, rtt: Time) {
        self.srtt_rttvar = Some(match self.srtt_rttvar {
            None => (rtt, rtt / 2),
            Some((srtt, rttvar)) => {
                let deviation = srtt.max(rtt).saturating_sub(srtt.min(rtt));
                ((srtt * 7).saturating_add(rtt) / 8, (rttvar * 3).saturating_add(deviation) / 4)
            }
        });
    }

    /// Resets the backoff after new bytes were acknowledged.
    pub fn on_progress(&mut self) {
        self.timeouts = 0;
    }

    /// Returns the number of timeouts since the last progress.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Doubles the timeout (§5.5).
    pub fn back_off(&mut self) {
        self.timeouts += 1;
    }

    /// Returns the present timeout, including the backoff.
    pub fn current(&self) -> Time {
        let base = match self.srtt_rttvar {
            None => self.initial.max(self.min),
            Some((srtt, rttvar)) => srtt.saturating_add(rttvar * 4).max(self.min),
        };
        Time::from_ps(base.as_ps().saturating_mul(1 << self.timeouts.min(RTO_MAX_DOUBLINGS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298() {
        let us = Time::from_us;
        let mut rto = Rto::new(us(10), us(1_000));
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
