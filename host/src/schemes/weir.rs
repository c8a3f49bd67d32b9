//! Weir's own scheme: what the papers have each by itself, together, on `weir.p4`.
//!
//! FNCC keeps queues short: telemetry on returning ACKs, HPCC's control law of the window, and the fair share at once
//! where the receiver's link is the congested one. It cannot help messages that end before their first ACK. Dart's IOFD
//! takes those around the ports that are congested nevertheless.

use super::fncc::Fncc;
use super::iofd::{self, Iofd};
use crate::law::PortLaw;
use crate::parameter::{ParameterOf, part};
use crate::scheme::{FlowParams, Needs, Receiver, Scheme, Sender, SwitchProgram};
use weir_units::Time;

/// Its parameters are those of its parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Weir {
    fncc: Fncc,
    iofd: Iofd,
}

impl Scheme for Weir {
    const NAME: &'static str = "weir";
    const ABOUT: &'static str = "Weir: FNCC, and short messages deflected in order (IOFD)";

    fn parameters() -> Vec<ParameterOf<Self>> {
        let fncc = part(<Fncc as Scheme>::parameters(), |c: &mut Weir| &mut c.fncc);
        fncc.chain(part(iofd::parameters(), |c: &mut Weir| &mut c.iofd)).collect()
    }
    fn needs(&self) -> Needs {
        let deflection = Some(self.iofd.deflection());
        Needs { program: SwitchProgram::Weir, deflection, ..Scheme::needs(&self.fncc) }
    }
    fn port_law(&self, base_rtt: Time) -> Option<PortLaw> {
        Scheme::port_law(&self.fncc, base_rtt)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Scheme::sender(&self.fncc, flow)
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        Scheme::receiver(&self.fncc, host)
    }
}
