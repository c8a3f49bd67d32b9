use crate::scheme::DataEvent;
use weir_units::Time;

/// State of the receiver (Dart §III-C, Figure 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CongestionState {
    NoCongestion,
    Receiver,
    NonReceiver,
}

#[derive(Debug)]
pub(super) struct CongestionDetector {
    window: Time,
    line: f64,
    line_share: f64,
    began: Time,
    bytes: u64,
    marked: bool,
    /// True if the last complete window was at line rate.
    at_line: bool,
    state: CongestionState,
}

/// Amount by which throughput may fall below `line_share` and still count as line rate. Weir's choice.
const HYSTERESIS: f64 = 0.05;

impl CongestionDetector {
    pub fn new(window: Time, line: f64, line_share: f64) -> CongestionDetector {
        CongestionDetector {
            window,
            line,
            line_share,
            began: Time::ZERO,
            bytes: 0,
            marked: false,
            at_line: false,
            state: CongestionState::NoCongestion,
        }
    }

    pub fn next(&mut self, data: &DataEvent<'_>) -> CongestionState {
        let passed = data.now.saturating_sub(self.began);
        if passed >= self.window {
            let rate = self.bytes as f64 * 8.0 / passed.as_secs_f64();
            let min = self.line_share - if self.at_line { HYSTERESIS } else { 0.0 };
            self.at_line = rate >= self.line * min;
            self.state = self.congestion(self.marked);
            (self.began, self.bytes, self.marked) = (data.now, 0, false);
        }
        self.bytes += data.frame.get();
        if data.marked && !self.marked {
            // The first mark takes effect at once, the absence of marks only at the end of the window.
            self.marked = true;
            self.state = self.congestion(true);
        }
        self.state
    }

    fn congestion(&self, marked: bool) -> CongestionState {
        match (marked, self.at_line) {
            (false, _) => CongestionState::NoCongestion,
            (true, true) => CongestionState::Receiver,
            (true, false) => CongestionState::NonReceiver,
        }
    }
}
