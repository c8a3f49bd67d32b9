use crate::scheme::DataEvent;
use weir_units::Time;

/// State of the receiver (Dart §III-C, Figure 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CongestionState {
    /// No packet is marked.
    NoCongestion,
    /// As [`NoCongestion`](Self::NoCongestion), but the shares of the senders do not fill the receiver's link: some senders
    /// are limited elsewhere. Lasts until a packet is marked, or a sender comes or goes.
    Underused,
    /// Packets are marked, and the receiver's link is fully used: it is the bottleneck.
    Receiver,
    /// Packets are marked although the receiver's link has spare capacity: the bottleneck is elsewhere.
    NonReceiver,
}

/// Derives the state of the receiver from the marks and the throughput of its measurement windows.
#[derive(Debug)]
pub(super) struct CongestionDetector {
    /// Length of a measurement window.
    window: Time,
    /// The receiver's line rate in bit/s.
    line_rate: f64,
    /// Fraction of the line rate from which throughput counts as line rate.
    line_share: f64,
    window_start: Time,
    /// Bytes received in the present window.
    bytes: u64,
    /// True if a mark arrived in the present window.
    has_mark: bool,
    /// True if the last complete window was at line rate.
    is_at_line_rate: bool,
    /// Number of senders since the start of the window; `None` if it has changed, or announced senders are missing.
    senders: Option<u16>,
    state: CongestionState,
}

/// Amount by which throughput may fall below `line_share` and still count as line rate. Weir's choice.
const HYSTERESIS: f64 = 0.05;

impl CongestionDetector {
    pub(super) fn new(window: Time, line_rate: f64, line_share: f64) -> CongestionDetector {
        CongestionDetector {
            window,
            line_rate,
            line_share,
            window_start: Time::ZERO,
            bytes: 0,
            has_mark: false,
            is_at_line_rate: false,
            senders: None,
            state: CongestionState::NoCongestion,
        }
    }

    /// Measures a packet and returns the state after it. `senders` is the number of active senders, `None` while announced
    /// ones are missing.
    pub(super) fn on_data(&mut self, data: &DataEvent<'_>, senders: Option<u16>) -> CongestionState {
        if self.senders != senders {
            self.senders = None;
            if self.state == CongestionState::Underused {
                self.state = CongestionState::NoCongestion;
            }
        }
        let elapsed = data.now.saturating_sub(self.window_start);
        if elapsed >= self.window {
            let rate = self.bytes as f64 * 8.0 / elapsed.as_secs_f64();
            let min_share = self.line_share - if self.is_at_line_rate { HYSTERESIS } else { 0.0 };
            self.is_at_line_rate = rate >= self.line_rate * min_share;
            self.state = self.state_for(self.has_mark);
            (self.window_start, self.bytes, self.has_mark) = (data.now, 0, false);
            self.senders = senders;
        }
        self.bytes += data.frame.get();
        if data.is_marked && !self.has_mark {
            // The first mark takes effect at once, the absence of marks only at the end of the window.
            self.has_mark = true;
            self.state = self.state_for(true);
        }
        self.state
    }

    fn state_for(&self, has_mark: bool) -> CongestionState {
        match (has_mark, self.is_at_line_rate) {
            (false, false) if self.senders.is_some_and(|n| n > 1) => CongestionState::Underused,
            (false, _) if self.state == CongestionState::Underused => CongestionState::Underused,
            (false, _) => CongestionState::NoCongestion,
            (true, true) => CongestionState::Receiver,
            (true, false) => CongestionState::NonReceiver,
        }
    }
}
