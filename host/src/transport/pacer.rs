use weir_units::{Bandwidth, Bytes, Time};

/// Spaces the frames of a subflow at its sending rate.
#[derive(Debug)]
pub(super) struct Pacer {
    rate: Bandwidth,
    /// Time and length in bytes of the last frame.
    last: Time,
    last_frame: u32,
    next: Time,
}

impl Pacer {
    /// Creates a pacer that admits the first frame at once.
    pub fn new(now: Time) -> Pacer {
        Pacer { rate: Bandwidth::ZERO, last: now, last_frame: 0, next: now }
    }

    pub fn rate(&self) -> Bandwidth {
        self.rate
    }

    /// Returns the earliest time at which the next frame may leave.
    pub fn next_departure(&self) -> Time {
        self.next
    }

    /// Changes the rate. It applies to the gap behind the last frame too, as in HPCC's released code
    /// (rdma-hw.cc:600-612).
    pub fn set_rate(&mut self, rate: Bandwidth) {
        // A rate of 0 would make the gap endless.
        let rate = rate.max(Bandwidth::from_bps(1));
        if rate != self.rate {
            self.rate = rate;
            self.update();
        }
    }

    /// Records that a frame of `frame` bytes leaves at `now`.
    pub fn sent(&mut self, now: Time, frame: u32) {
        (self.last, self.last_frame) = (now, frame);
        self.update();
    }

    fn update(&mut self) {
        let gap = self.rate.tx_time(Bytes::new(u64::from(self.last_frame)));
        self.next = self.last.saturating_add(gap);
    }
}
