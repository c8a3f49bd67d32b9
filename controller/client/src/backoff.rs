//! Delays between attempts to reconnect.

use std::time::Duration;

/// Computes retry delays with jitter. Each delay is twice the previous one up to a limit, less a random part, so that
/// many clients of a server that comes back do not reconnect at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Next delay without the random part.
    next: Duration,
}

impl Backoff {
    /// The first delay.
    pub const INITIAL: Duration = Duration::from_millis(50);
    /// Upper bound of the delay, hence of the time to notice that a switch is back.
    pub const MAX: Duration = Duration::from_millis(500);

    /// Returns the next delay. `random` is a number from 0 to 1.
    pub fn next_delay(&mut self, random: f64) -> Duration {
        let nominal = self.next;
        self.next = (self.next * 2).min(Self::MAX);
        // Between half and all of the nominal delay.
        nominal.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }

    /// Resets the delay to the initial one; call after a successful connection.
    pub fn reset(&mut self) {
        *self = Backoff::default();
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { next: Self::INITIAL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit_and_start_again() {
        let mut backoff = Backoff::default();
        let delays: Vec<u128> = (0..7).map(|_| backoff.next_delay(0.0).as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 500, 500, 500]);
        assert_eq!(backoff.next_delay(1.0).as_millis(), 250);
        backoff.reset();
        assert_eq!(backoff.next_delay(0.5).as_micros(), 37_500);
    }
}
