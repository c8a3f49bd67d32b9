//! Independent subflows: each is a DCTCP flow (RFC 8257) with its own window.

use super::windows::{ControlLaw, SubflowState, WindowsConfig, cut_by};
use crate::parameter::ParameterInfo;
use crate::parameters;
use crate::scheme::{FlowParams, GaugeReporter, MultipathSender, Needs, Scheme, Sender};

/// Description of `g`, the weight of the newest window of data in alpha.
pub(in crate::schemes) const G: ParameterInfo = ParameterInfo {
    name: "g",
    unit: "-",
    range: "0.0001 to 1",
    symbol: "g",
    source: "DCTCP §3.3: 1/16",
    help: "Weight of the newest round trip in alpha, the average share of marked bytes.",
};

parameters! {
    /// Parameters of uncoupled subflows.
    pub(in crate::schemes) struct Uncoupled {
        g: f64 = 1.0 / 16.0 => { in 0.0001..=1.0, info: G };
        windows: WindowsConfig = WindowsConfig::default() => { part };
    }
}

impl Scheme for Uncoupled {
    const NAME: &'static str = "uncoupled";
    const ABOUT: &'static str = "subflows that are independent DCTCP flows: the baseline for coupled ones";
    fn needs(&self) -> Needs {
        self.windows.needs()
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        self.windows.sender(DctcpLaw::new(self.g), flow)
    }
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        self.windows.multipath_sender(DctcpLaw::new(self.g), flow)
    }
}

/// DCTCP's control law, with one alpha per subflow.
#[derive(Debug)]
pub(in crate::schemes) struct DctcpLaw {
    g: f64,
    alphas: Alphas,
}

impl DctcpLaw {
    pub(crate) fn new(g: f64) -> DctcpLaw {
        DctcpLaw { g, alphas: Alphas::default() }
    }
}

/// DCTCP's alpha of each subflow, the average share of marked bytes; initially 1 (RFC 8257 §3.3).
#[derive(Debug, Default)]
pub(super) struct Alphas(Vec<f64>);

impl Alphas {
    pub(super) fn update(&mut self, g: f64, paths: &[SubflowState], r: usize) {
        self.0.resize(paths.len(), 1.0);
        self.0[r] = (1.0 - g) * self.0[r] + g * paths[r].marked_share;
    }
    pub(super) fn get(&self, r: usize) -> f64 {
        self.0.get(r).copied().unwrap_or(1.0)
    }
}

impl ControlLaw for DctcpLaw {
    fn increase(&self, paths: &[SubflowState], r: usize) -> f64 {
        1.0 / paths[r].w
    }
    fn cut(&mut self, paths: &mut [SubflowState], r: usize, min: f64) {
        cut_by(&mut paths[r], 1.0 - self.alphas.get(r) / 2.0, min);
    }
    fn on_window_acked(&mut self, paths: &mut [SubflowState], r: usize, _min: f64) {
        self.alphas.update(self.g, paths, r);
    }
    /// Of the first subflow.
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("alpha", self.alphas.get(0));
    }
}
