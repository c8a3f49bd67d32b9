//! IOFD, Dart's in-order flow deflection (arXiv 1805.11158 §IV): the host's part. A switch may deflect a packet that
//! has a token left, and takes one for each deflection. The host gives tokens to packets of short messages only.
//!
//! The scheme `iofd` is IOFD alone, with rates controlled by DCQCN.

use super::dcqcn::{self, Dcqcn, NotificationPoint};
use crate::parameter::{KeywordOr, Off, ParameterInfo, ParameterValue};
use crate::parameters;
use crate::scheme::{
    Deflection, EcnThresholds, FlowParams, MARKING_RANGE, Needs, QueueThreshold, Receiver, Scheme, Sender,
    SwitchProgram,
};
use weir_units::{Bandwidth, Bytes, Time};

parameters! {
    /// The parameters of IOFD, nested in those of the schemes that use it.
    pub(super) struct Iofd {
        /// Deflections that a packet of a short message may have.
        tokens: Tokens = Tokens(1) => {
            unit: "times", range: "0 to 3",
            source: "Weir's choice: each takes two priority classes of a switch, and more do not help; Dart §VI: 4",
        };
        /// The longest message that gets tokens.
        short: Bytes = Bytes::from_kb(8) => {
            unit: "B", range: "a size above 0", source: "Dart §VI: short messages have 2 to 8 KB",
        };
        /// Queue length above which packets for a port are deflected.
        threshold: QueueThreshold = QueueThreshold { queue: Bytes::from_kb(15), reference_rate: DART_LINK_RATE } => {
            name: "deflect_above", unit: "B", range: "size/rate",
            source: "Dart §VI: 15 KB, below ECN's 22.5 KB; its link speed is lost",
        };
        /// Deflect from ports to hosts too.
        at_hosts: bool = false => {
            name: "deflect_at_hosts", range: "on or off",
            source: "Dart §IV-A: leaf switches deflect \"back to the network\"; §I: not what collides at the receiver",
        };
        /// A switch whose entries are all in use may reuse one that was idle for longer than this time.
        lifetime: KeywordOr<Off, Time> = KeywordOr::Value(Time::from_ms(100)) => {
            name: "entry_lifetime", unit: "s", range: "off or a time of at least `rto`, or of 100 ms if that is longer",
            source: "Weir's choice: the longest default of `rto`; Dart relies on losslessness, where no END gets lost",
        };
    }
}

/// A number of deflection tokens for which switches have priority classes.
#[derive(Clone, Copy, Debug)]
struct Tokens(u8);

impl ParameterValue for Tokens {
    fn parse(text: &str) -> Result<Self, String> {
        const MAX_TOKENS: u8 = 3;
        let tokens = text.parse().ok().filter(|&tokens| tokens <= MAX_TOKENS);
        tokens.map(Tokens).ok_or_else(|| format!("\"{text}\" is not a number up to {MAX_TOKENS}"))
    }
    fn to_text(self) -> String {
        self.0.to_string()
    }
}

/// The port rate to which Dart's thresholds apply. The paper's link speed is lost; 22.5 KB are a tenth of 225 KB, the
/// usual buffer per port at 10 Gbit/s.
const DART_LINK_RATE: Bandwidth = Bandwidth::from_gbps(10);

/// Returns Dart's ECN threshold, a step.
pub(super) fn dart_marking() -> EcnThresholds {
    EcnThresholds::step(Bytes::new(22_500), DART_LINK_RATE)
}

/// Description of the parameter `ecn` of schemes with Dart's threshold.
pub(super) const DART_ECN: ParameterInfo = ParameterInfo {
    name: "ecn",
    unit: "B",
    range: MARKING_RANGE,
    symbol: "-",
    source: "Dart §VI: 22.5 KB, a tenth of a port's buffer; its link speed is lost",
    help: "Queue thresholds at which switches mark, unless the experiment sets them.",
};

impl Iofd {
    pub(super) fn deflection(&self) -> Deflection {
        Deflection {
            tokens: self.tokens.0,
            max_short_size: self.short,
            threshold: self.threshold,
            at_hosts: self.at_hosts,
            lifetime: self.lifetime.value(),
        }
    }
}

parameters! {
    /// Parameters of the scheme `iofd`.
    pub(super) struct IofdOnly {
        iofd: Iofd = Iofd::default() => { part };
        ecn: EcnThresholds = dart_marking() => { info: DART_ECN };
        dcqcn: Dcqcn = Dcqcn::default() => { part: dcqcn::dart_parameters() };
    }
}

impl Scheme for IofdOnly {
    const NAME: &'static str = "iofd";
    const ABOUT: &'static str = "IOFD (Dart) alone: short messages deflected in order, DCQCN for the rates";
    fn needs(&self) -> Needs {
        Needs {
            ecn: Some(self.ecn),
            deflection: Some(self.iofd.deflection()),
            ..Needs::of(SwitchProgram::Dart)
        }
    }
    fn write_out_times(&mut self) {
        self.dcqcn.write_out_times();
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Scheme::sender(&self.dcqcn, flow)
    }
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(NotificationPoint::new(self.dcqcn.cnp_interval))
    }
}
