//! Weir's own scheme: what the papers have each by itself, together, on `weir.p4`.
//!
//! FNCC keeps queues short for everybody: telemetry on ACKs as they return, HPCC's window law, and the fair share at once
//! where the receiver's link is what is crowded. What is over before the first ACK it cannot help: such messages have
//! Dart's IOFD, and go round the ports that are crowded nevertheless.

use super::fncc::Fncc;
use super::iofd::{self, Iofd};
use crate::knob::{KnobOf, part};
use crate::law::PortLaw;
use crate::scheme::{Conduct, Deflection, FlowParams, Needs, Receiver, Scheme, Sender, SwitchProgram};
use weir_units::Time;

/// Its knobs are those of its parts.
#[derive(Clone, Debug, Default)]
pub(super) struct Weir {
    fncc: Fncc,
    iofd: Iofd,
}

impl Scheme for Weir {
    const NAME: &'static str = "weir";
    const ABOUT: &'static str = "Weir: FNCC, and short messages deflected in order (IOFD)";

    fn knobs() -> Vec<KnobOf<Self>> {
        let fncc = part(<Fncc as Scheme>::knobs(), |c: &mut Weir| &mut c.fncc);
        fncc.chain(part(iofd::knobs(), |c: &mut Weir| &mut c.iofd)).collect()
    }
    fn needs(&self) -> Needs {
        Needs { program: SwitchProgram::Weir, ..Scheme::needs(&self.fncc) }
    }
    fn port_law(&self, base_rtt: Time) -> Option<PortLaw> {
        Scheme::port_law(&self.fncc, base_rtt)
    }
    fn deflection(&self) -> Option<Deflection> {
        Some(self.iofd.deflection())
    }
    fn conduct(&self) -> Conduct {
        Scheme::conduct(&self.fncc)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Scheme::sender(&self.fncc, flow)
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        Scheme::receiver(&self.fncc, host)
    }
}
