use weir_units::{Bandwidth, Bytes, Time};

/// Spaces the frames of a subflow at its sending rate.
#[derive(Debug)]
pub(super) struct Pacer {
    rate: Bandwidth,
    /// Time at which the last frame left.
    last_departure: Time,
    /// Length of that frame in bytes; 0 before the first, so that it leaves at once.
    last_frame_len: u32,
    next_departure: Time,
}

impl Pacer {
    /// Creates a pacer that admits the first frame at once.
    pub(super) fn new(now: Time) -> Pacer {
        Pacer { rate: Bandwidth::ZERO, last_departure: now, last_frame_len: 0, next_departure: now }
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

    /// Records that a frame of `frame_len` bytes leaves at `now`.
    pub(super) fn on_sent(&mut self, now: Time, frame_len: u32) {
        (self.last_departure, self.last_frame_len) = (now, frame_len);
        self.update();
    }

    fn update(&mut self) {
        let gap = self.rate.tx_time(Bytes::new(u64::from(self.last_frame_len)));
        self.next_departure = self.last_departure.saturating_add(gap);
    }
}
