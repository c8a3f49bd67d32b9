use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// Spaces the frames of a subflow at its sending rate.
#[derive(Debug)]
pub(super) struct Pacer {
    rate: Bandwidth,
    /// Time at which the last frame left.
    last_departure: Time,
    /// Length of that frame in bytes; 0 before the first, so that it leaves at once.
    last_frame_len: u32,
    /// Time by which that frame left later than its gap allowed; 0 without credit.
    lateness: Time,
    /// Part of a gap by which lateness shortens it at most.
    credit: Ratio,
    /// Time from which there has been something to send; the gap may have been over before.
    sendable_since: Time,
    next_departure: Time,
    is_blocked: bool,
}

impl Pacer {
    /// Creates a pacer that admits the first frame at once. `credit` is at most 1.
    pub(super) fn new(now: Time, credit: Ratio) -> Pacer {
        Pacer {
            rate: Bandwidth::ZERO,
            last_departure: now,
            last_frame_len: 0,
            lateness: Time::ZERO,
            credit,
            sendable_since: now,
            next_departure: now,
            is_blocked: false,
        }
    }

    pub(super) fn rate(&self) -> Bandwidth {
        self.rate
    }

    /// Returns the earliest time at which the next frame may leave.
    pub(super) fn next_departure(&self) -> Time {
        self.next_departure
    }

    /// Changes the rate. It applies to the gap behind the last frame too, as in HPCC's released code
    /// (rdma-hw.cc:600-612).
    pub(super) fn set_rate(&mut self, rate: Bandwidth) {
        // A rate of 0 would make the gap endless.
        let rate = rate.max(Bandwidth::from_bps(1));
        if rate != self.rate {
            self.rate = rate;
            self.update();
        }
    }

    /// Records that a frame of `frame_len` bytes leaves. The gap behind it begins at `at`: now, or earlier if the frame had
    /// to wait for the NIC.
    pub(super) fn on_sent(&mut self, at: Time, frame_len: u32) {
        // A flow's first frame is never late.
        let is_credited = self.credit > Ratio::default() && self.last_frame_len > 0;
        self.lateness = if is_credited { at.saturating_sub(self.next_departure) } else { Time::ZERO };
        (self.last_departure, self.last_frame_len) = (at, frame_len);
        self.update();
    }

    /// Records whether data or window are missing, so that no frame could leave even if its gap were over.
    pub(super) fn set_blocked(&mut self, now: Time, is_blocked: bool) {
        if std::mem::replace(&mut self.is_blocked, is_blocked) && !is_blocked {
            self.sendable_since = now;
            self.next_departure = self.next_departure.max(now);
        }
    }

    fn update(&mut self) {
        let gap = self.rate.tx_time(Bytes::new(u64::from(self.last_frame_len)));
        let credited = match self.lateness {
            Time::ZERO => Time::ZERO,
            lateness => lateness.min(Time::from_secs_f64(gap.as_secs_f64() * self.credit.get())),
        };
        let next = self.last_departure.saturating_add(gap - credited);
        self.next_departure = next.max(self.sendable_since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1,250 bytes at 10 Gbit/s take 1 us. Each frame leaves as late as `lateness` says, in ns; returns the gaps between the
    /// departures.
    fn gaps(credit: f64, lateness: &[u64]) -> Vec<u64> {
        let mut pacer = Pacer::new(Time::ZERO, Ratio::new(credit).unwrap());
        pacer.set_rate(Bandwidth::from_gbps(10));
        let departures: Vec<Time> = lateness
            .iter()
            .map(|&late| {
                let at = pacer.next_departure() + Time::from_ns(late);
                pacer.on_sent(at, 1_250);
                at
            })
            .collect();
        departures.windows(2).map(|pair| (pair[1] - pair[0]).as_ns()).collect()
    }

    #[test]
    fn lateness_shortens_the_next_gap_within_a_bound() {
        let late = [700, 0, 300, 900, 0, 0];
        assert_eq!(
            gaps(0.0, &late),
            [1_000, 1_300, 1_900, 1_000, 1_000],
            "HPCC's simulator: nothing is credited"
        );
        assert_eq!(gaps(0.5, &late), [1_000, 1_300, 1_600, 500, 1_000], "Linux: at most half of a gap");
        assert_eq!(gaps(1.0, &late), [1_000, 1_300, 1_600, 100, 1_000], "the rate is that of frames in time");
    }

    #[test]
    fn a_credit_follows_the_rate() {
        let mut pacer = Pacer::new(Time::ZERO, Ratio::new(0.5).unwrap());
        let us = Time::from_us;
        pacer.set_rate(Bandwidth::from_gbps(10));
        pacer.on_sent(us(0), 1_250);
        pacer.on_sent(us(9), 1_250);
        assert_eq!(pacer.next_departure(), us(9) + Time::from_ns(500), "8 us late");
        pacer.set_rate(Bandwidth::from_gbps(1));
        assert_eq!(pacer.next_departure(), us(14), "half of 10 us");
    }
}
