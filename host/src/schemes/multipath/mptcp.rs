//! MPTCP's linked increase (RFC 6356) with a constant cut on marks, as compared with DCM in AMP §4.1, or with
//! reaction to losses alone.

use super::amp::BETA;
use super::dcm::linked_increase;
use super::windows::{ControlLaw, SubflowState, WindowsConfig, cut_by};
use crate::parameters;
use crate::scheme::{FlowParams, MultipathSender, Needs, Scheme, Sender};

parameters! {
    /// MPTCP's parameters.
    pub(in crate::schemes) struct Mptcp {
        /// Send packets ECN-capable, and cut windows on marks.
        marks: bool = true => {
            range: "on or off", source: "AMP §4.1 (3); MPTCP itself, RFC 6356, knows losses only",
        };
        beta: f64 = 4.0 => { in 2.0..=1000.0, info: BETA };
        windows: WindowsConfig = WindowsConfig::default() => { part };
    }
}

impl Scheme for Mptcp {
    const NAME: &'static str = "mptcp";
    const ABOUT: &'static str = "MPTCP: linked increase of subflows, a constant cut on marks, half on losses";
    fn needs(&self) -> Needs {
        let needs = self.windows.needs();
        Needs { ecn: needs.ecn.filter(|_| self.marks), ..needs }
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        self.windows.sender(MptcpLaw { beta: self.beta }, flow)
    }
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        self.windows.multipath_sender(MptcpLaw { beta: self.beta }, flow)
    }
}

#[derive(Debug)]
struct MptcpLaw {
    beta: f64,
}

impl ControlLaw for MptcpLaw {
    fn increase(&self, paths: &[SubflowState], r: usize) -> f64 {
        linked_increase(paths, r)
    }
    fn cut(&mut self, paths: &mut [SubflowState], r: usize, min: f64) {
        cut_by(&mut paths[r], 1.0 - 1.0 / self.beta, min);
    }
}
