//! XMP (Cao et al., CoNEXT 2013), as described in AMP §2.2 and implemented in its code: the growth of each subflow
//! depends on the rates of all subflows in their last rounds.

use super::amp::BETA;
use super::windows::{ControlLaw, SubflowState, WindowsConfig};
use crate::parameters;
use crate::scheme::{FlowParams, MultipathSender, Needs, Scheme, Sender};

parameters! {
    /// XMP's parameters.
    pub(in crate::schemes) struct Xmp {
        beta: f64 = 4.0 => { in 2.0..=1000.0, info: BETA };
        /// Increase of all subflows together per round trip.
        gamma: f64 = 1.0 => {
            in 0.01..=100.0, symbol: "gamma", unit: "packets", range: "0.01 to 100",
            source: "XMP as in AMP's code",
        };
        windows: WindowsConfig = WindowsConfig::default() => { part };
    }
}

impl Scheme for Xmp {
    const NAME: &'static str = "xmp";
    const ABOUT: &'static str =
        "XMP: subflows that grow by their share of the rate and slow down by a constant";
    fn needs(&self) -> Needs {
        self.windows.needs()
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        self.windows.sender(XmpLaw::new(self), flow)
    }
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        self.windows.multipath_sender(XmpLaw::new(self), flow)
    }
}

#[derive(Debug)]
struct XmpLaw {
    beta: f64,
    gamma: f64,
    subflows: Vec<Subflow>,
}

/// The state of a subflow at the end of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Subflow {
    /// `x_r` in packets per second; `None` before the first round has ended.
    rate: Option<f64>,
    /// The window before the cut, used as the window of the round with the cut.
    window_before_cut: f64,
    /// Increase that has not yet reached a whole packet.
    pending_increase: f64,
}

impl XmpLaw {
    fn new(config: &Xmp) -> XmpLaw {
        XmpLaw { beta: config.beta, gamma: config.gamma, subflows: Vec::new() }
    }
    /// Returns the state of subflow `r`; the states are created on first use.
    fn subflow(&mut self, paths: &[SubflowState], r: usize) -> &mut Subflow {
        self.subflows.resize(paths.len(), Subflow::default());
        &mut self.subflows[r]
    }
    /// `delta_r = (T_r x_r) / (T_min * sum of x_i)`.
    fn delta(&self, paths: &[SubflowState], r: usize) -> f64 {
        let rates_and_rtts =
            || self.subflows.iter().zip(paths).filter_map(|(subflow, path)| Some((subflow.rate?, path.srtt)));
        let sum: f64 = rates_and_rtts().map(|(rate, _)| rate).sum();
        let t_min = rates_and_rtts().map(|(_, srtt)| srtt).fold(f64::INFINITY, f64::min);
        let rate = self.subflows[r].rate.unwrap_or(0.0);
        if sum > 0.0 { paths[r].srtt * rate / (t_min * sum) } else { 0.0 }
    }
}

impl ControlLaw for XmpLaw {
    /// Always 0: windows grow in `on_window_acked`, once per round.
    fn increase(&self, _paths: &[SubflowState], _r: usize) -> f64 {
        0.0
    }
    fn cut(&mut self, paths: &mut [SubflowState], r: usize, min: f64) {
        self.subflow(paths, r).window_before_cut = paths[r].w.floor();
        let path = &mut paths[r];
        if !path.in_slow_start() {
            let w = path.w.floor();
            path.w = (w - (w / self.beta).floor().max(1.0)).max(min);
        }
        path.ssthresh = path.ssthresh.min(path.w);
    }
    fn on_window_acked(&mut self, paths: &mut [SubflowState], r: usize, _min: f64) {
        let path = &paths[r];
        let (is_cut, srtt, w) = (path.cwr_end_seq.is_some(), path.srtt, path.w.floor());
        let subflow = self.subflow(paths, r);
        subflow.rate = Some(if is_cut { subflow.window_before_cut } else { w } / srtt);
        let delta = self.delta(paths, r);
        let path = &mut paths[r];
        if !is_cut && !path.in_slow_start() {
            let subflow = &mut self.subflows[r];
            subflow.pending_increase += delta * self.gamma;
            path.w += subflow.pending_increase.floor();
            subflow.pending_increase = subflow.pending_increase.fract();
        }
    }
    fn on_loss(&mut self, paths: &[SubflowState], r: usize) {
        self.subflow(paths, r).rate = Some(paths[r].w / paths[r].srtt);
    }
    fn grows_after_cut(&self) -> bool {
        false
    }
}
