//! Two-rate three-colour meters in colour-blind mode (RFC 2698, with BMv2's details).

use super::api_types::MeterRates;

const GREEN: u64 = 0;
const YELLOW: u64 = 1;
const RED: u64 = 2;

/// A meter. Without rates every packet is green.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    rates: Option<MeterRates>,
    committed: Bucket,
    peak: Bucket,
}

/// A token bucket. One unit (byte or packet) is `ticks_per_second` tokens, so that refilling needs no division.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    tokens: u128,
    /// Time of the last refill in ticks.
    last_refill: u64,
}

impl Bucket {
    /// Refills the bucket and takes `cost` tokens. Returns `false` and takes none if there are fewer.
    fn take(&mut self, now: u64, rate: u64, burst: u64, cost: u128, ticks_per_second: u64) -> bool {
        let elapsed = now.saturating_sub(self.last_refill);
        self.last_refill = now;
        let full = u128::from(burst) * u128::from(ticks_per_second);
        self.tokens = (self.tokens + u128::from(elapsed) * u128::from(rate)).min(full);
        if self.tokens < cost {
            return false;
        }
        self.tokens -= cost;
        true
    }
}

impl Meter {
    pub(super) fn rates(&self) -> Option<MeterRates> {
        self.rates
    }

    /// Sets the rates and fills both buckets.
    pub(super) fn set_rates(&mut self, rates: Option<MeterRates>, ticks_per_second: u64) {
        // `last_refill` does not matter: a refill adds nothing to a full bucket.
        let full =
            |burst: u64| Bucket { tokens: u128::from(burst) * u128::from(ticks_per_second), last_refill: 0 };
        self.rates = rates;
        self.committed = full(rates.map_or(0, |rates| rates.cburst));
        self.peak = full(rates.map_or(0, |rates| rates.pburst));
    }

    /// Meters a packet and returns its colour. `units` is its length in bytes, or 1 if the meter counts packets.
    pub(super) fn execute(&mut self, now: u64, units: u64, ticks_per_second: u64) -> u64 {
        let Some(rates) = self.rates else { return GREEN };
        // RFC 2698: a red packet takes no tokens, a yellow one takes tokens of the peak bucket only.
        let cost = u128::from(units) * u128::from(ticks_per_second);
        if !self.peak.take(now, rates.pir, rates.pburst, cost, ticks_per_second) {
            RED
        } else if !self.committed.take(now, rates.cir, rates.cburst, cost, ticks_per_second) {
            YELLOW
        } else {
            GREEN
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_coloured_by_both_buckets() {
        const TICKS: u64 = 1_000_000;
        let mut meter = Meter::default();
        assert_eq!(meter.execute(0, 1_000_000, TICKS), GREEN);
        meter.set_rates(Some(MeterRates { cir: 1000, cburst: 100, pir: 2000, pburst: 200 }), TICKS);
        // The buckets are full: the committed burst is green, the rest of the peak burst yellow, all further
        // packets red.
        let mut colours = |now, units| meter.execute(now, units, TICKS);
        assert_eq!([colours(0, 100), colours(0, 100), colours(0, 100)], [GREEN, YELLOW, RED]);
        // 50 ms later the peak bucket has 100 tokens, the committed one 50.
        assert_eq!([colours(50_000, 50), colours(50_000, 50), colours(50_000, 1)], [GREEN, YELLOW, RED]);
        // A bucket never holds more than a burst.
        assert_eq!([colours(100 * TICKS, 100), colours(100 * TICKS, 1)], [GREEN, YELLOW]);
    }
}
