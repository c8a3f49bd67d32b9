//! HPCC (SIGCOMM 2019): DATA gathers telemetry, the ACK returns it, and the sender keeps inflight bytes just below
//! the bandwidth-delay product of every link. HPCC++ and FNCC share its control law, [`HpccController`], which computes
//! the window from what `inflight` measures.
//!
//! Symbols are those of HPCC Algorithm 1: `U` normalised inflight bytes, `W` window, `Wc` reference window, `L`
//! recorded telemetry. Windows are `f64` bytes; the rate is always `W/T`, so the released code, which controls rates,
//! and the paper, which controls windows, have the same control law (docs/algorithms/hpcc.md#rates-and-windows).

mod config;

pub(super) use config::HpccConfig;

use super::inflight::{Measurement, PathRecord, Sample, is_partial};
use crate::parameters;
use crate::scheme::{
    AckEvent, Decision, FlowParams, GaugeReporter, Needs, Scheme, Sender, SendingRate, SwitchProgram,
    TelemetrySource,
};
use crate::telemetry::TelemetryCounters;
use crate::wire::MAX_HOPS;
use weir_units::{Bandwidth, Bytes, Time};

parameters! {
    /// HPCC's parameters.
    pub(super) struct Hpcc {
        // The parameters that HPCC++ and FNCC have, too.
        shared: HpccConfig = HpccConfig::default() => { part };
        /// Keep a reference window per hop and use the smallest.
        multi_rate: bool = false => {
            range: "on or off", source: "HPCC App. A.3, HPCC simulator MULTI_RATE",
        };
    }
}

impl Scheme for Hpcc {
    const NAME: &'static str = "hpcc";
    const ABOUT: &'static str = "HPCC: telemetry on data packets, echoed by the receiver";
    fn needs(&self) -> Needs {
        Needs { telemetry: TelemetrySource::Data, ..Needs::of(SwitchProgram::Hpcc) }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        let windows = if self.multi_rate { ReferenceWindows::PerHop } else { ReferenceWindows::Single };
        Box::new(HpccSender(HpccController::new(&self.shared, flow, windows).with_records_on_data(flow)))
    }
}

#[derive(Debug)]
struct HpccSender(HpccController);

impl Sender for HpccSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, checks: &mut TelemetryCounters) -> Decision {
        self.0.on_ack(ack, checks, |_| ReferenceUpdate::Keep)
    }
    fn resume(&mut self, _now: Time, from: &SendingRate) -> Decision {
        self.0.resume(from)
    }
    fn decision(&self) -> Decision {
        self.0.decision()
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        self.0.gauges(report);
    }
}

/// The samples that are averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AverageOf {
    /// The largest `u'` of each ACK (HPCC Alg. 1).
    Largest,
    /// The `u'` of each hop; `U` is the largest average.
    Hops,
}

/// The constants of the control law for one flow. Windows are in bytes.
#[derive(Clone, Copy, Debug)]
struct ControlParams {
    eta: f64,
    max_stage: u32,
    w_ai: f64,
    /// `1 - eta`, the headroom of a link over its `B*T`; `None` unless W_AI is the headroom over the reported number of flows.
    headroom_share: Option<f64>,
    average_of: AverageOf,
    w_min: f64,
    w_init: f64,
    fast_react: bool,
    /// False if only the rate limits the flow.
    has_window: bool,
    /// `T` in seconds.
    t: f64,
    nic_rate: Bandwidth,
}

/// The reference window and the stage, which change at most once per round trip, with the window computed from them.
#[derive(Clone, Copy, Debug)]
struct Reference {
    wc: f64,
    stage: u32,
    /// The window computed last.
    w: f64,
}

impl Reference {
    fn starting_at(w: f64) -> Reference {
        Reference { wc: w, stage: 0, w }
    }

    /// HPCC Alg. 1, ComputeWind. `u` of 0 gives an infinite window, which is clamped to `w_init`.
    fn compute_wind(&mut self, params: &ControlParams, u: f64, commit: bool) {
        let is_multiplicative = u >= params.eta || self.stage >= params.max_stage;
        let w =
            if is_multiplicative { self.wc / (u / params.eta) + params.w_ai } else { self.wc + params.w_ai };
        // The released code clamps before it commits (rdma-hw.cc:839-842).
        self.w = params.clamp(w);
        if commit {
            self.stage = if is_multiplicative { 0 } else { self.stage.saturating_add(1) };
            self.wc = self.w;
        }
    }
}

impl ControlParams {
    fn clamp(&self, w: f64) -> f64 {
        w.max(self.w_min).min(self.w_init)
    }

    fn decide(&self, w: f64) -> Decision {
        let rate = Bandwidth::from_bps_f64(w * 8.0 / self.t);
        Decision {
            window: if self.has_window { whole_bytes(w) } else { Bytes::MAX },
            rate: rate.clamp(Bandwidth::from_bps(1), self.nic_rate),
            timer: None,
        }
    }
}

/// Returns a window in bytes, at least 1.
fn whole_bytes(w: f64) -> Bytes {
    Bytes::new((w as u64).max(1))
}

/// The change that a scheme makes to the reference window before ComputeWind.
pub(super) enum ReferenceUpdate {
    /// No change (HPCC).
    Keep,
    /// Sets `Wc` to this value; the window follows from the control law.
    Reference(f64),
    /// Sets `Wc` and the window to this value.
    Window(f64),
}

/// The most congested hop of an ACK.
pub(super) struct Bottleneck {
    /// Instantaneous `u'`, with txRate limited to the link's rate. A switch counts whole frames, so over a short
    /// interval txRate seems up to a frame too high. The average `U` must include that, because the next sample is
    /// too low by as much; a threshold on a single sample must not.
    pub u: f64,
    /// True if the hop is the last one before the receiver.
    pub is_last_hop: bool,
    /// Bytes that the link carries in `T`.
    pub bdp: f64,
}

/// W_AI in bytes if N flows share the headroom and N is not known for the bottleneck (HPCC §5.1 fn4: 80 B).
const DEFAULT_W_AI: f64 = 80.0;

/// The number of reference windows of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferenceWindows {
    /// One for the whole path.
    Single,
    /// One for each hop, of which the smallest is used (HPCC App. A.3, MULTI_RATE).
    PerHop,
}

/// HPCC's sender for one flow.
#[derive(Debug)]
pub(super) struct HpccController {
    params: ControlParams,
    path: PathRecord,
    /// `U` of the most congested hop.
    u: f64,
    /// `U` of each hop.
    hop_u: [f64; MAX_HOPS],
    reference: Reference,
    /// With [`ReferenceWindows::PerHop`]; `None` otherwise.
    per_hop: Option<Box<[Reference; MAX_HOPS]>>,
    /// `lastUpdateSeq`: `snd_nxt` at the last commit.
    last_update_seq: u64,
    decision: Decision,
}

impl HpccController {
    /// Creates the state of a flow that starts at line rate.
    pub(super) fn new(config: &HpccConfig, flow: &FlowParams, windows: ReferenceWindows) -> HpccController {
        let params = config.control_params(flow);
        let reference = Reference::starting_at(params.w_init);
        HpccController {
            params,
            path: PathRecord::new(config.base_rtt(flow), config.averages_in_t(), params.eta, flow.tick),
            u: 1.0,
            hop_u: [1.0; MAX_HOPS],
            reference,
            per_hop: (windows == ReferenceWindows::PerHop).then(|| Box::new([reference; MAX_HOPS])),
            last_update_seq: 0,
            decision: params.decide(params.w_init),
        }
    }

    /// As [`PathRecord::with_records_on_data`].
    pub(super) fn with_records_on_data(self, flow: &FlowParams) -> HpccController {
        HpccController { path: self.path.with_records_on_data(flow), ..self }
    }

    pub(super) fn decision(&self) -> Decision {
        self.decision
    }

    /// Returns `W` as of the last ACK, also if it does not limit the flow.
    pub(super) fn window(&self) -> Bytes {
        whole_bytes(self.reference.w)
    }

    /// Reports `U` of the most congested hop and the reference window in bytes, the smallest of all hops.
    pub(super) fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("u", self.u);
        let smallest = |hops: &[Reference; MAX_HOPS]| hops.iter().map(|r| r.wc).fold(f64::INFINITY, f64::min);
        report("reference_window", self.per_hop.as_deref().map_or(self.reference.wc, smallest));
    }

    /// Continues a running flow at the rate left by another scheme.
    pub(super) fn resume(&mut self, from: &SendingRate) -> Decision {
        self.reference = Reference::starting_at(self.params.clamp(from.window));
        (self.u, self.hop_u) = (1.0, [1.0; MAX_HOPS]);
        if let Some(per_hop) = &mut self.per_hop {
            **per_hop = [self.reference; MAX_HOPS];
        }
        self.decision = self.params.decide(self.reference.w);
        self.decision
    }

    /// Applies a window that was computed elsewhere.
    pub(super) fn set_window(&mut self, window: Bytes) -> Decision {
        self.decision = self.params.decide(self.params.clamp(window.as_f64()));
        self.decision
    }

    /// HPCC Alg. 1, NewACK. `adjust` is called after the measurement and before the computation of the window (FNCC's
    /// LHCS).
    pub(super) fn on_ack(
        &mut self,
        ack: &AckEvent<'_>,
        checks: &mut TelemetryCounters,
        adjust: impl FnOnce(&Bottleneck) -> ReferenceUpdate,
    ) -> Decision {
        // An ACK with records of congested ports only is a warning between two complete measurements and does not
        // commit.
        let is_partial = is_partial(ack);
        let commit = ack.seq > self.last_update_seq && !is_partial;
        if !commit && !self.params.fast_react && self.path.is_known() {
            return self.decision;
        }
        if self.path.restart_if_changed(ack, checks) {
            self.hop_u = [self.u; MAX_HOPS];
            if let Some(per_hop) = &mut self.per_hop {
                // The links are new: start them from the present window and not from line rate.
                **per_hop = [Reference::starting_at(self.reference.w); MAX_HOPS];
            }
        }
        let measured = self.path.measure(ack, checks);
        let Some(worst) = measured.worst() else {
            // The first ACK of a flow or path, or one after too long a gap, only records
            // (docs/algorithms/hpcc.md#first-ack).
            if measured.has_restarted && !is_partial {
                self.last_update_seq = self.last_update_seq.max(ack.snd_nxt);
            }
            return self.decision;
        };
        let Some(congested_hop) = self.average(&measured, worst) else {
            return self.decision;
        };
        let last_hop = self.path.len() - 1;
        if let Some(share) = self.params.headroom_share {
            // HPCC++ draft §5: N * W_AI should not exceed the headroom of the link, whatever the rates of the NICs. The
            // receiver's N counts the flows on its own link (§6.2). Whether that link is the bottleneck
            // is decided by averages: one reading of the fastest of several flows is often largest at its last hop, and
            // it would take the increase that the others need.
            self.params.w_ai = match ack.concurrency {
                n if n > 0 && congested_hop == last_hop => self.path.bdp(last_hop) * share / f64::from(n),
                _ => DEFAULT_W_AI,
            };
        }
        if let Some(per_hop) = &mut self.per_hop {
            for sample in measured.samples() {
                per_hop[sample.hop].compute_wind(&self.params, self.hop_u[sample.hop], commit);
            }
            self.reference.w = per_hop[..=last_hop].iter().map(|r| r.w).fold(self.params.w_init, f64::min);
        } else {
            let u = worst.queued + (worst.u - worst.queued).min(1.0);
            let bottleneck =
                Bottleneck { u, is_last_hop: worst.hop == last_hop, bdp: self.path.bdp(worst.hop) };
            match adjust(&bottleneck) {
                ReferenceUpdate::Keep => self.reference.compute_wind(&self.params, self.u, commit),
                ReferenceUpdate::Reference(wc) => {
                    self.reference.wc = self.params.clamp(wc);
                    self.reference.compute_wind(&self.params, self.u, commit);
                }
                ReferenceUpdate::Window(w) => {
                    self.reference.wc = self.params.clamp(w);
                    self.reference.w = self.reference.wc;
                    self.reference.stage = 0;
                }
            }
        }
        if commit {
            self.last_update_seq = self.last_update_seq.max(ack.snd_nxt);
        }
        self.decision = self.params.decide(self.reference.w);
        self.decision
    }

    /// HPCC Alg. 1, end of MeasureInflight: updates `U` and the average of each hop.
    ///
    /// Returns the most congested hop by its average, or `None` if the hop that sets `U` has no new data. Then the caller must
    /// keep the window: the same sample would change it again.
    fn average(&mut self, measured: &Measurement, worst: &Sample) -> Option<usize> {
        let mut congested = *worst;
        let mut largest = f64::NEG_INFINITY;
        for sample in measured.samples() {
            let u = &mut self.hop_u[sample.hop];
            *u += sample.tau * (sample.u - *u);
            if *u > largest {
                (largest, congested) = (*u, *sample);
            }
        }
        let is_new = match self.params.average_of {
            AverageOf::Largest => {
                self.u += worst.tau * (worst.u - self.u);
                true
            }
            AverageOf::Hops => {
                self.u = largest;
                congested.tau > 0.0
            }
        };
        is_new.then_some(congested.hop)
    }
}
