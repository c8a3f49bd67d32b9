//! Adapts a packet-rate limiter to a rate in bits per second.
//!
//! BMv2's rate-limited queues keep the same interval between any two packets, whatever their lengths
//! (`set_queue_rate`). A packet's departure is fixed when it is queued: one interval after the previous
//! departure, or now. A link of R bit/s needs the serialisation time of the previous packet instead.
//! [`PacketRateController`] computes both for each queued packet. Whenever they differ by more than the time of a full
//! frame, it corrects the packet rate: to the rate for the mean packet length, plus a term that removes the
//! difference.

use weir_units::{Bandwidth, Bytes, Time};

/// Number of packets over which the mean length is averaged, and over which a difference is removed.
const AVERAGING_PACKETS: i64 = 16;

/// A packet-by-packet model of BMv2's queue and of the link that it emulates.
#[derive(Clone, Debug)]
pub struct PacketRateController {
    rate: Bandwidth,
    /// The largest difference that is not corrected, in ps: the time of a full frame.
    tolerance_ps: i64,
    /// The mean serialisation time of a packet, in ps.
    mean_tx_ps: i64,
    /// The time at which the link becomes idle, in ps.
    link_free_at_ps: i64,
    /// The time at which the limiter releases the last packet, in ps.
    last_departure_ps: i64,
    packets_per_second: u64,
}

impl PacketRateController {
    /// Creates the controller for a link with this rate and maximum frame length. The first packet rate assumes
    /// full frames.
    pub fn new(rate: Bandwidth, max_frame: Bytes) -> PacketRateController {
        let max_tx_ps = ps(rate.tx_time(max_frame));
        PacketRateController {
            rate,
            tolerance_ps: max_tx_ps,
            mean_tx_ps: max_tx_ps,
            link_free_at_ps: 0,
            last_departure_ps: 0,
            packets_per_second: per_second(max_tx_ps),
        }
    }

    /// Returns the current packet rate for the limiter.
    pub fn packets_per_second(&self) -> u64 {
        self.packets_per_second
    }

    /// Accounts for a packet that is queued at `now`. Returns the new packet rate if it changes.
    pub fn on_enqueue(&mut self, now: Time, len: u32) -> Option<u64> {
        let (now, tx_ps) = (ps(now), ps(self.rate.tx_time(Bytes::new(u64::from(len)))));
        self.last_departure_ps = now.max(self.last_departure_ps + self.interval_ps());
        self.link_free_at_ps = now.max(self.link_free_at_ps) + tx_ps;
        self.mean_tx_ps += (tx_ps - self.mean_tx_ps) / AVERAGING_PACKETS;
        // How much later than the link the limiter is ready for the next packet.
        let late_ps = self.last_departure_ps + self.interval_ps() - self.link_free_at_ps;
        if late_ps.abs() <= self.tolerance_ps {
            return None;
        }
        // The bounds keep the rate sensible when the difference is large, for example after the lengths changed.
        let interval_ps = (self.mean_tx_ps - late_ps / AVERAGING_PACKETS)
            .clamp(self.mean_tx_ps / 4, self.tolerance_ps.max(self.mean_tx_ps) * 2);
        let rate = per_second(interval_ps);
        let changes = rate != self.packets_per_second;
        self.packets_per_second = rate;
        changes.then_some(rate)
    }

    /// Returns the interval that the limiter keeps between packets, in ps.
    fn interval_ps(&self) -> i64 {
        PS_PER_SECOND / i64::try_from(self.packets_per_second).unwrap_or(i64::MAX).max(1)
    }
}

const PS_PER_SECOND: i64 = Time::from_secs(1).as_ps() as i64;

/// Returns a time in ps, limited so that the sum of two times does not overflow.
fn ps(time: Time) -> i64 {
    i64::try_from(time.as_ps()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

/// Returns packets per second for an interval in ps: at least 1, since 0 means unlimited.
fn per_second(interval_ps: i64) -> u64 {
    ((PS_PER_SECOND as f64 / interval_ps.max(1) as f64).round() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Bytes = Bytes::new(1_518);
    const MBPS: Bandwidth = Bandwidth::from_mbps(1);

    #[derive(PartialEq)]
    enum RateMode {
        /// The first packet rate is kept.
        Fixed,
        /// The packet rate follows the controller.
        Adaptive,
    }

    /// Queues packets in a model of BMv2's limiter. Returns the last departure, and the time at which an ideal link
    /// would be idle.
    fn departures(lengths: &[u32], rate_mode: RateMode) -> (Time, Time) {
        let mut limiter = PacketRateController::new(MBPS, FULL);
        let mut interval = Time::from_ps(Time::from_secs(1).as_ps() / limiter.packets_per_second());
        let (mut last, mut free) = (Time::ZERO, Time::ZERO);
        for (i, &len) in lengths.iter().enumerate() {
            let now = Time::from_us(i as u64); // all at once: the queue is never empty
            last = now.max(last + interval);
            free = free.max(now) + MBPS.tx_time(Bytes::new(u64::from(len)));
            if let Some(rate) = limiter.on_enqueue(now, len).filter(|_| rate_mode == RateMode::Adaptive) {
                interval = Time::from_ps(Time::from_secs(1).as_ps() / rate);
            }
        }
        (last, free)
    }

    #[test]
    fn a_mix_of_lengths_leaves_at_the_rate_of_the_link() {
        let difference = |(a, b): (Time, Time)| a.as_secs_f64() - b.as_secs_f64();
        let frame = MBPS.tx_time(FULL).as_secs_f64();
        let mixed: Vec<u32> = (0..400).map(|i| if i % 2 == 0 { 1_518 } else { 90 }).collect();
        assert!(
            difference(departures(&mixed, RateMode::Fixed)) > 150.0 * frame,
            "a fixed rate is nearly half too slow"
        );
        assert!(
            difference(departures(&mixed, RateMode::Adaptive)).abs() < 10.0 * frame,
            "{}",
            difference(departures(&mixed, RateMode::Adaptive)) / frame
        );
        // The mix changes: first data alone, then ACKs alone.
        let changing: Vec<u32> = (0..400).map(|i| if i < 200 { 1_518 } else { 90 }).collect();
        assert!(
            difference(departures(&changing, RateMode::Adaptive)).abs() < 10.0 * frame,
            "{}",
            difference(departures(&changing, RateMode::Adaptive)) / frame
        );
    }

    #[test]
    fn the_rounding_of_packets_per_second_is_compensated() {
        // 82.3 full frames a second: neither 82 nor 83 fills the link for long.
        let (last, free) = departures(&[1_518; 2_000], RateMode::Adaptive);
        assert!((last.as_secs_f64() - free.as_secs_f64()).abs() < 3.0 * MBPS.tx_time(FULL).as_secs_f64());
    }

    #[test]
    fn a_steady_mix_needs_few_changes() {
        let mut limiter = PacketRateController::new(MBPS, FULL);
        let changes = (0..1_000u64)
            .filter(|i| limiter.on_enqueue(Time::from_us(*i), if i % 2 == 0 { 1_518 } else { 90 }).is_some());
        assert!(changes.count() < 150);
    }
}
