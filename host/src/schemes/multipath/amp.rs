//! AMP (arXiv 1707.00322): one packet per round trip over all subflows, a constant cut, and only one subflow
//! while all of them struggle.

use super::{ControlLaw, SubflowState, WindowsConfig, cut_to};
use crate::parameter::ParameterInfo;
use crate::parameters;
use crate::scheme::{FlowParams, MultipathSender, Needs, RecoveryState, Scheme, Sender};

/// `beta`: what part of a window a mark takes.
pub(super) const BETA: ParameterInfo = ParameterInfo {
    name: "beta",
    unit: "-",
    range: "2 to 1000",
    symbol: "beta",
    source: "AMP §5, XMP; at least 1 + BDP/K, so that a cut does not drain the queue (AMP §4.2)",
    help: "A mark reduces a window by the fraction 1/beta.",
};

parameters! {
    /// The parameters.
    pub(in crate::schemes) struct Amp {
        beta: f64 = 4.0 => { in 2.0..=1000.0, info: BETA };
        /// Time with all windows at their minimum after which only the first subflow sends.
        suppress_after: u32 = 2 => {
            symbol: "S", unit: "round trips", range: "a count above 0",
            source: "AMP §1: 1 to 3; the default of §5.1 is lost, its code has 10",
        };
        /// Time without a mark on the first subflow after which the others resume.
        release_after: u32 = 8 => {
            symbol: "E", unit: "round trips", range: "a count above 0", source: "AMP §1: 8; its code too",
        };
        /// Subflow suppression and release.
        ssr: bool = true => { symbol: "SSR", range: "on or off", source: "AMP §4.2" };
        windows: WindowsConfig = WindowsConfig::default() => { part };
    }
}

impl Scheme for Amp {
    const NAME: &'static str = "amp";
    const ABOUT: &'static str =
        "AMP: subflows that add one packet per round trip together, and fall back to one in an incast";
    fn needs(&self) -> Needs {
        self.windows.needs()
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        self.windows.sender(AmpLaw::new(self), flow)
    }
    fn coupled(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        self.windows.coupled(AmpLaw::new(self), flow)
    }
}

#[derive(Debug)]
struct AmpLaw {
    beta: f64,
    suppress_after: u32,
    release_after: u32,
    ssr: bool,
    suppressed: bool,
    /// Windows of data of the first subflow in a row that called for the other state.
    streak: u32,
}

impl AmpLaw {
    fn new(config: &Amp) -> AmpLaw {
        let Amp { beta, suppress_after, release_after, ssr, .. } = *config;
        AmpLaw { beta, suppress_after, release_after, ssr, suppressed: false, streak: 0 }
    }
}

/// Returns whether a window is at its minimum, which no loss has brought it to.
fn is_at_minimum(path: &SubflowState, min: f64) -> bool {
    path.established && path.w.floor() == min.floor() && path.repair == RecoveryState::Open
}

/// Returns whether a path has been free, and its window has grown.
fn is_free(path: &SubflowState, min: f64) -> bool {
    path.w.floor() > min.floor() && path.share == 0.0 && path.repair == RecoveryState::Open
}

impl ControlLaw for AmpLaw {
    fn increase(&self, paths: &[SubflowState], _r: usize) -> f64 {
        // After a timeout of the first subflow the others may send for it.
        let alone = self.suppressed && paths[0].repair != RecoveryState::Loss;
        let total: f64 = if alone { paths[0].w } else { paths.iter().map(|path| path.w).sum() };
        1.0 / total
    }
    fn cut(&mut self, paths: &mut [SubflowState], r: usize, min: f64) {
        cut_to(&mut paths[r], 1.0 - 1.0 / self.beta, min);
    }
    /// Once per window of data of the first subflow (AMP's code, `CheckIncast`).
    fn on_window_acked(&mut self, paths: &mut [SubflowState], r: usize, min: f64) {
        if r != 0 || paths.len() < 2 || !self.ssr {
            return;
        }
        let (change, after) = match self.suppressed {
            false => (paths.iter().all(|path| is_at_minimum(path, min)), self.suppress_after),
            true => (is_free(&paths[0], min), self.release_after),
        };
        self.streak = if change { self.streak + 1 } else { 0 };
        if self.streak >= after {
            self.suppressed = !self.suppressed;
            self.streak = 0;
        }
    }
    fn is_active(&self, r: usize) -> bool {
        r == 0 || !self.suppressed
    }
}
