//! DCM (AMP §2.1): MPTCP's linked increase (RFC 6356) with DCTCP's cut on each subflow.

use super::uncoupled::{Alphas, G};
use super::windows::{ControlLaw, SubflowState, WindowsConfig, cut_by};
use crate::parameters;
use crate::scheme::{FlowParams, MultipathSender, Needs, Scheme, Sender};

parameters! {
    /// DCM's parameters.
    pub(in crate::schemes) struct Dcm {
        g: f64 = 1.0 / 16.0 => { in 0.0001..=1.0, info: G };
        windows: WindowsConfig = WindowsConfig::default() => { part };
    }
}

impl Scheme for Dcm {
    const NAME: &'static str = "dcm";
    const ABOUT: &'static str = "DCM: subflows that grow together as MPTCP's and slow down as DCTCP flows";
    fn needs(&self) -> Needs {
        self.windows.needs()
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        self.windows.sender(DcmLaw { g: self.g, alphas: Alphas::default() }, flow)
    }
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        self.windows.multipath_sender(DcmLaw { g: self.g, alphas: Alphas::default() }, flow)
    }
}

#[derive(Debug)]
struct DcmLaw {
    g: f64,
    alphas: Alphas,
}

/// Returns the increase per acknowledged packet of RFC 6356 §3: `min(a/w_total, 1/w_r)` with `a = w_total *
/// max(w_i/T_i^2) / (sum of w_i/T_i)^2`.
pub(super) fn linked_increase(paths: &[SubflowState], r: usize) -> f64 {
    let max = paths.iter().map(|path| path.w / (path.srtt * path.srtt)).fold(0.0, f64::max);
    let sum: f64 = paths.iter().map(|path| path.w / path.srtt).sum();
    // This is a/w_total.
    let linked = max / (sum * sum);
    linked.min(1.0 / paths[r].w)
}

impl ControlLaw for DcmLaw {
    fn increase(&self, paths: &[SubflowState], r: usize) -> f64 {
        linked_increase(paths, r)
    }
    fn cut(&mut self, paths: &mut [SubflowState], r: usize, min: f64) {
        cut_by(&mut paths[r], 1.0 - self.alphas.get(r) / 2.0, min);
    }
    fn on_window_acked(&mut self, paths: &mut [SubflowState], r: usize, _min: f64) {
        self.alphas.update(self.g, paths, r);
    }
}
