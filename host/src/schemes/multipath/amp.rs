//! AMP (arXiv 1707.00322): the subflows together add one packet per round trip, marks cut a window by a constant
//! factor, and only one subflow sends while all windows are at their minimum.

use super::windows::{ControlLaw, SubflowState, WindowsConfig, cut_by};
use crate::parameter::ParameterInfo;
use crate::parameters;
use crate::scheme::{FlowParams, MultipathSender, Needs, RecoveryState, Scheme, Sender};

/// Description of `beta`, the divisor of a cut.
pub(super) const BETA: ParameterInfo = ParameterInfo {
    name: "beta",
    unit: "-",
    range: "2 to 1000",
    symbol: "beta",
    source: "AMP §5, XMP; at least 1 + BDP/K, so that a cut does not drain the queue (AMP §4.2)",
    help: "A mark reduces a window by the fraction 1/beta.",
};

parameters! {
    /// AMP's parameters.
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
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        self.windows.multipath_sender(AmpLaw::new(self), flow)
    }
}

#[derive(Debug)]
struct AmpLaw {
    beta: f64,
    suppress_after: u32,
    release_after: u32,
    /// Subflow suppression and release: whether `is_suppressed` may change.
    ssr: bool,
    /// True while only the first subflow sends new data.
    is_suppressed: bool,
    /// Number of consecutive windows of data of the first subflow that met the condition for changing `is_suppressed`.
    streak: u32,
}

impl AmpLaw {
    fn new(config: &Amp) -> AmpLaw {
        let Amp { beta, suppress_after, release_after, ssr, .. } = *config;
        AmpLaw { beta, suppress_after, release_after, ssr, is_suppressed: false, streak: 0 }
    }
}

/// Returns whether the window is at its minimum while the subflow is not recovering from a loss.
fn is_at_minimum(path: &SubflowState, min: f64) -> bool {
    path.is_established && path.w.floor() == min.floor() && path.recovery == RecoveryState::Open
}

/// Returns whether the subflow had no marks in its last window of data and its window is above the minimum.
fn is_unmarked(path: &SubflowState, min: f64) -> bool {
    path.w.floor() > min.floor() && path.marked_share == 0.0 && path.recovery == RecoveryState::Open
}

impl ControlLaw for AmpLaw {
    fn increase(&self, paths: &[SubflowState], _r: usize) -> f64 {
        // After a timeout of the first subflow the others send as well.
        let only_first_sends = self.is_suppressed && paths[0].recovery != RecoveryState::Loss;
        let total: f64 = if only_first_sends { paths[0].w } else { paths.iter().map(|path| path.w).sum() };
        1.0 / total
    }
    fn cut(&mut self, paths: &mut [SubflowState], r: usize, min: f64) {
        cut_by(&mut paths[r], 1.0 - 1.0 / self.beta, min);
    }
    /// Runs once per window of data of the first subflow (AMP's code, `CheckIncast`).
    fn on_window_acked(&mut self, paths: &mut [SubflowState], r: usize, min: f64) {
        if r != 0 || paths.len() < 2 || !self.ssr {
            return;
        }
        let (is_met, rounds) = match self.is_suppressed {
            false => (paths.iter().all(|path| is_at_minimum(path, min)), self.suppress_after),
            true => (is_unmarked(&paths[0], min), self.release_after),
        };
        self.streak = if is_met { self.streak + 1 } else { 0 };
        if self.streak >= rounds {
            self.is_suppressed = !self.is_suppressed;
            self.streak = 0;
        }
    }
    fn is_active(&self, r: usize) -> bool {
        r == 0 || !self.is_suppressed
    }
}
