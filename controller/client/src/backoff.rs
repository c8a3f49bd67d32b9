use std::time::Duration;

/// Computes retry delays: each is twice the last up to a limit, less a random part, so that many clients of one server
/// that returned do not retry at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    /// The first wait.
    pub const INITIAL: Duration = Duration::from_millis(50);
    /// No wait is longer: a switch that returns is noticed within this.
    pub const MAX: Duration = Duration::from_millis(500);

    /// Returns the next wait. `random` is anything from 0 to 1.
    pub fn next_delay(&mut self, random: f64) -> Duration {
        let wait = self.next;
        self.next = (self.next * 2).min(Self::MAX);
        // From half of it to all of it.
        wait.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }

    /// After a success.
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
    fn waits_double_up_to_a_limit_and_start_again() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..7).map(|_| backoff.next_delay(0.0).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 500, 500, 500]);
        assert_eq!(backoff.next_delay(1.0).as_millis(), 250);
        backoff.reset();
        assert_eq!(backoff.next_delay(0.5).as_micros(), 37_500);
    }
}
