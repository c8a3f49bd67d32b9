//! Weir's own scheme: a combination of FNCC and Dart's IOFD, on `weir.p4`.
//!
//! FNCC keeps queues short by telemetry on returning ACKs, HPCC's control law of the window, and an immediate fair
//! share where the receiver's link is the bottleneck. It cannot control messages that end before their first ACK.
//! IOFD deflects these around ports that are congested nevertheless.

use super::fncc::Fncc;
use super::iofd::Iofd;
use crate::parameters;
use crate::port_algorithm::PortAlgorithm;
use crate::scheme::{FlowParams, Needs, Receiver, Scheme, Sender, SwitchProgram};
use weir_units::Time;

parameters! {
    /// The parameters of FNCC and IOFD.
    pub(super) struct Weir {
        fncc: Fncc = Fncc::default() => { part };
        iofd: Iofd = Iofd::default() => { part };
    }
}

impl Scheme for Weir {
    const NAME: &'static str = "weir";
    const ABOUT: &'static str = "Weir: FNCC, and short messages deflected in order (IOFD)";
    fn needs(&self) -> Needs {
        let deflection = Some(self.iofd.deflection());
        Needs { program: SwitchProgram::Weir, deflection, ..Scheme::needs(&self.fncc) }
    }
    fn port_algorithm(&self, base_rtt: Time) -> Option<PortAlgorithm> {
        Scheme::port_algorithm(&self.fncc, base_rtt)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Scheme::sender(&self.fncc, flow)
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        Scheme::receiver(&self.fncc, host)
    }
}
