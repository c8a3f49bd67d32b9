//! The windows of a message's subflows: slow start, the end of a window of data, and the reaction to loss.

use crate::parameter::ParameterValue;
use crate::parameters;
use crate::scheme::{
    AckEvent, Decision, EcnThresholds, FlowParams, GaugeReporter, LossEvent, LossKind, LossRecovery,
    MARKING_RANGE, MAX_SUBFLOWS, MultipathSender, Needs, RecoveryState, Sender, SendingRate, SwitchProgram,
    TransportNeeds,
};
use crate::telemetry::TelemetryCounters;
use std::fmt;
use weir_units::{Bandwidth, Bytes, Time};

/// Window after a timeout, which is also the minimum window, in packets (RFC 5681).
const LOSS_WINDOW: f64 = 1.0;
/// Minimum of the slow start threshold after a loss, in packets (RFC 5681 §3.1).
const MIN_SSTHRESH: f64 = 2.0;
/// Share of a window that must be in flight for it to grow (RFC 7661 §4.3).
const MIN_USED_SHARE: f64 = 0.5;
/// Weight of a new RTT sample in the smoothed RTT (RFC 6298).
const RTT_GAIN: f64 = 0.125;

/// A number of subflows, 1 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schemes) struct Subflows(u8);

impl ParameterValue for Subflows {
    fn parse(text: &str) -> Result<Self, String> {
        let count = text.parse().ok().filter(|count| (1..=MAX_SUBFLOWS).contains(count));
        count.map(Subflows).ok_or_else(|| format!("\"{text}\" is not a number from 1 to 16"))
    }
    fn to_text(self) -> String {
        self.0.to_string()
    }
}

parameters! {
    /// The parameters that all multipath schemes share.
    #[derive(Copy)]
    pub(in crate::schemes) struct WindowsConfig {
        /// Subflows of a message, each with a UDP port of its own.
        subflows: Subflows = Subflows(4) => { range: "1 to 16", source: "AMP §5: 4, up to 8 are safe" };
        /// Queue thresholds at which switches mark, unless the experiment sets them.
        ecn: EcnThresholds = EcnThresholds::step(Bytes::from_kb(15), Bandwidth::from_gbps(10)) => {
            symbol: "K", unit: "B", range: MARKING_RANGE, source: "AMP §5: 10 packets at 10 Gbit/s",
        };
        /// Minimum window after a mark.
        min_window: f64 = 2.0 => {
            in 1.0..=1000.0, symbol: "cwnd_min", unit: "packets", range: "1 to 1000",
            source: "AMP §3.2, §5; its code has 1",
        };
        /// Initial window of slow start.
        initial_window: f64 = 1.0 => {
            in 1.0..=1000.0, symbol: "IW", unit: "packets", range: "1 to 1000", source: "AMP's code; RFC 6928 has 10",
        };
    }
}

impl WindowsConfig {
    /// Returns the default parameters with one subflow.
    pub(crate) fn single() -> WindowsConfig {
        WindowsConfig { subflows: Subflows(1), ..WindowsConfig::default() }
    }

    pub(crate) fn transport(&self) -> TransportNeeds {
        TransportNeeds { recovery: LossRecovery::Selective, subflows: self.subflows.0, uses_slow_start: true }
    }

    pub(crate) fn needs(&self) -> Needs {
        Needs { ecn: Some(self.ecn), transport: self.transport(), ..Needs::of(SwitchProgram::Ecn) }
    }

    /// Returns the sender half of a message with its number of subflows, if it has some already, or the configured one.
    pub(crate) fn multipath_sender<L: ControlLaw + 'static>(
        &self,
        law: L,
        flow: &FlowParams,
    ) -> Box<dyn MultipathSender> {
        Box::new(WindowController::new(self, law, flow.subflows.unwrap_or(self.subflows.0), flow))
    }

    /// Returns the sender half of a message with one subflow.
    pub(crate) fn sender<L: ControlLaw + 'static>(&self, law: L, flow: &FlowParams) -> Box<dyn Sender> {
        Box::new(SinglePath(WindowController::new(self, law, 1, flow)))
    }
}

/// The state of a subflow, as visible to the control law. Windows are in packets, times in seconds. A *window of data*
/// is what is in flight at one time: it ends when all of it is acknowledged, about a round trip later.
#[derive(Clone, Debug)]
pub(in crate::schemes) struct SubflowState {
    /// Congestion window.
    pub w: f64,
    pub ssthresh: f64,
    pub srtt: f64,
    /// True once anything was acknowledged.
    pub is_established: bool,
    pub recovery: RecoveryState,
    /// `snd_nxt` at the last decrease. No further decrease until an ACK passes it (CWR state).
    pub cwr_end_seq: Option<u64>,
    /// `snd_nxt` when the present window of data began; `None` before the first ACK.
    round_end_seq: Option<u64>,
    /// Bytes acknowledged in this window of data.
    acked_bytes: u64,
    /// The part of `acked_bytes` that was marked.
    marked_bytes: u64,
    /// Share of marked bytes in the previous window of data.
    pub marked_share: f64,
}

impl SubflowState {
    pub(crate) fn in_slow_start(&self) -> bool {
        self.w < self.ssthresh
    }
}

/// The control law of a scheme.
pub(in crate::schemes) trait ControlLaw: fmt::Debug + Send {
    /// Returns the increase per acknowledged packet on subflow `r` after slow start, in packets. `paths` are all
    /// subflows, as in RFC 6356.
    fn increase(&self, paths: &[SubflowState], r: usize) -> f64;
    /// Called at the first mark in a window of data: reduces window and threshold of subflow `r`, to at least `min`
    /// packets.
    fn cut(&mut self, paths: &mut [SubflowState], r: usize, min: f64);
    /// Called when a window of data on `r` was acknowledged.
    fn on_window_acked(&mut self, _paths: &mut [SubflowState], _r: usize, _min: f64) {}
    /// Called after a loss on `r` has set its window.
    fn on_loss(&mut self, _paths: &[SubflowState], _r: usize) {}
    /// Returns whether a window grows between a cut and the end of its window of data, and by the ACK that causes the
    /// cut.
    fn grows_after_cut(&self) -> bool {
        true
    }
    /// Returns whether `r` may send new data.
    fn is_active(&self, _r: usize) -> bool {
        true
    }
    /// As [`MultipathSender::gauges`].
    fn gauges(&self, _report: &mut GaugeReporter<'_>) {}
}

/// Multiplies a window by `factor`, limited to at least `min` packets, and leaves slow start (AMP's code, `SlowDown`).
pub(super) fn cut_by(path: &mut SubflowState, factor: f64, min: f64) {
    path.w = (path.w * factor).max(min);
    path.ssthresh = path.w;
}

/// The sender half of a message: the windows of its subflows under the control law `L`.
#[derive(Debug)]
struct WindowController<L> {
    law: L,
    paths: Box<[SubflowState]>,
    /// Minimum window after a mark, in packets.
    min_window: f64,
    /// Payload bytes of a full packet.
    max_payload: f64,
    nic_rate: Bandwidth,
}

impl<L: ControlLaw> WindowController<L> {
    fn new(config: &WindowsConfig, law: L, subflows: u8, flow: &FlowParams) -> WindowController<L> {
        let path = SubflowState {
            w: config.initial_window,
            ssthresh: f64::INFINITY,
            srtt: flow.base_rtt.as_secs_f64(),
            is_established: false,
            recovery: RecoveryState::Open,
            cwr_end_seq: None,
            round_end_seq: None,
            acked_bytes: 0,
            marked_bytes: 0,
            marked_share: 0.0,
        };
        WindowController {
            law,
            paths: vec![path; usize::from(subflows)].into(),
            min_window: config.min_window,
            max_payload: flow.payload.as_f64(),
            nic_rate: flow.nic_rate,
        }
    }

    /// Increases the window for the acknowledged bytes, unless the window was not used.
    fn grow(&mut self, r: usize, ack: &AckEvent<'_>) {
        let path = &self.paths[r];
        let outstanding = (ack.snd_nxt.saturating_sub(ack.seq) + ack.acked.get()) as f64;
        // If most of the window is unused, the message or other subflows were the limit, and the ACK says nothing
        // about the path. Half a window in flight suffices: in slow start ACKs arrive as fast as the NIC sends, so the
        // window doubles before the NIC has filled it.
        let is_used = outstanding + self.max_payload > path.w.floor() * self.max_payload * MIN_USED_SHARE;
        let is_frozen = path.cwr_end_seq.is_some() && !self.law.grows_after_cut();
        if !is_used || is_frozen || path.recovery == RecoveryState::FastRecovery {
            return;
        }
        // An ACK that fills a gap acknowledges bytes that left the network earlier.
        let max_packets = if path.recovery == RecoveryState::Open { f64::INFINITY } else { 1.0 };
        let packets = (ack.acked.as_f64() / self.max_payload).min(max_packets);
        let per_packet = if path.in_slow_start() { 1.0 } else { self.law.increase(&self.paths, r) };
        self.paths[r].w += packets * per_packet;
    }

    /// Cuts the window at the first mark of a window of data.
    fn cut(&mut self, r: usize, ack: &AckEvent<'_>) {
        let path = &self.paths[r];
        if ack.ecn_echo && path.cwr_end_seq.is_none() && path.recovery != RecoveryState::FastRecovery {
            self.law.cut(&mut self.paths, r, self.min_window);
            self.paths[r].cwr_end_seq = Some(ack.snd_nxt);
        }
    }

    /// Counts acknowledged and marked bytes. Returns true if a window of data ended with this ACK.
    fn end_of_window(&mut self, r: usize, ack: &AckEvent<'_>) -> bool {
        let path = &mut self.paths[r];
        path.acked_bytes += ack.acked.get();
        path.marked_bytes += if ack.ecn_echo { ack.acked.get() } else { 0 };
        if path.round_end_seq.is_some_and(|end| ack.seq <= end) {
            return false;
        }
        let is_first = path.round_end_seq.replace(ack.snd_nxt).is_none();
        if is_first || path.acked_bytes == 0 {
            return false;
        }
        path.marked_share = path.marked_bytes as f64 / path.acked_bytes as f64;
        (path.acked_bytes, path.marked_bytes) = (0, 0);
        true
    }
}

impl<L: ControlLaw> MultipathSender for WindowController<L> {
    /// The order is that of AMP's code: end of a window of data, growth, cut; with XMP the cut comes first.
    fn on_ack(
        &mut self,
        r: usize,
        recovery: RecoveryState,
        ack: &AckEvent<'_>,
        _checks: &mut TelemetryCounters,
    ) -> Decision {
        let Some(path) = self.paths.get_mut(r) else { return self.decision(0) };
        path.recovery = recovery;
        path.is_established |= ack.acked > Bytes::ZERO;
        if let Some(rtt) = ack.rtt.filter(|&rtt| rtt > Time::ZERO && ack.acked > Bytes::ZERO) {
            let rtt = rtt.as_secs_f64();
            path.srtt =
                if path.round_end_seq.is_none() { rtt } else { path.srtt + RTT_GAIN * (rtt - path.srtt) };
        }
        path.cwr_end_seq.take_if(|end| ack.seq > *end);
        if !self.law.grows_after_cut() {
            self.cut(r, ack);
        }
        if self.end_of_window(r, ack) {
            self.law.on_window_acked(&mut self.paths, r, self.min_window);
        }
        if ack.acked > Bytes::ZERO {
            self.grow(r, ack);
        }
        if self.law.grows_after_cut() {
            self.cut(r, ack);
        }
        self.decision(r)
    }

    /// RFC 5681 §3.1 and §3.2, as in AMP's code (`ReduceCWND`, `Retransmit`).
    fn on_loss(&mut self, r: usize, loss: &LossEvent) -> Decision {
        let Some(path) = self.paths.get_mut(r) else { return self.decision(0) };
        let flight_packets = (loss.snd_nxt.saturating_sub(loss.seq) as f64 / self.max_payload).min(path.w);
        let halved = (flight_packets / 2.0).max(MIN_SSTHRESH);
        match loss.kind {
            LossKind::Nack => (path.ssthresh, path.w) = (halved, halved),
            LossKind::Timeout => {
                let in_recovery = path.recovery == RecoveryState::FastRecovery;
                path.ssthresh = if in_recovery { (path.ssthresh / 2.0).max(LOSS_WINDOW) } else { halved };
                path.w = LOSS_WINDOW;
                path.recovery = RecoveryState::Loss;
                (path.round_end_seq, path.cwr_end_seq) = (Some(loss.seq), Some(loss.seq));
                (path.acked_bytes, path.marked_bytes) = (0, 0);
            }
        }
        self.law.on_loss(&self.paths, r);
        self.decision(r)
    }

    fn subflows(&self) -> usize {
        self.paths.len()
    }

    fn resume(&mut self, r: usize, _now: Time, from: &SendingRate) -> Decision {
        if let Some(path) = self.paths.get_mut(r) {
            path.w = (from.window / self.max_payload).max(LOSS_WINDOW);
            path.ssthresh = path.w;
            path.is_established = true;
        }
        self.decision(r)
    }

    fn decision(&self, r: usize) -> Decision {
        let w = self.paths.get(r).map_or(LOSS_WINDOW, |path| path.w).floor().max(LOSS_WINDOW);
        Decision { window: Bytes::new((w * self.max_payload) as u64), rate: self.nic_rate, timer: None }
    }

    /// The other subflows join when the peer has answered on the first (RFC 8684 §3.2), not in the first burst.
    fn is_active(&self, r: usize) -> bool {
        r == 0 || self.paths[0].is_established && self.law.is_active(r)
    }

    fn is_window_based(&self) -> bool {
        true
    }

    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        self.law.gauges(report);
    }
}

/// The sender half of a message with one subflow. The control law does not see the state of loss recovery.
#[derive(Debug)]
struct SinglePath<L>(WindowController<L>);

impl<L: ControlLaw> Sender for SinglePath<L> {
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Decision {
        self.0.on_ack(0, RecoveryState::Open, ack, checks)
    }
    fn on_loss(&mut self, loss: &LossEvent) -> Decision {
        self.0.on_loss(0, loss)
    }
    fn resume(&mut self, now: Time, from: &SendingRate) -> Decision {
        self.0.resume(0, now, from)
    }
    fn decision(&self) -> Decision {
        self.0.decision(0)
    }
    fn is_window_based(&self) -> bool {
        true
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        MultipathSender::gauges(&self.0, report);
    }
}
