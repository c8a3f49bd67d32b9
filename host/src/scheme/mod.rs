//! Defines a congestion control scheme: a factory with parameters, a sender half and a receiver half.
//!
//! A scheme sees events and gives decisions. It never sees a frame, a clock or a timer, and it does not know how
//! telemetry travelled: [`Telemetry`](crate::telemetry::Telemetry) comes in data-path order, whichever packet carried
//! it.

mod needs;
mod receiver;
mod sender;

pub use needs::{
    Deflection, EcnThresholds, LossRecovery, MARKING_RANGE, MAX_SUBFLOWS, Needs, QueueThreshold,
    SwitchProgram, TelemetrySource, TransportNeeds,
};
pub use receiver::{AckFields, Credit, DataEvent, DefaultReceiver, Receiver};
pub use sender::{
    AckEvent, Decision, FlowParams, LossEvent, LossKind, MultipathSender, RateEvent, RecoveryState, Sender,
    SendingRate,
};

use crate::parameter::{Parameter, ParameterDef, ParameterError, Parameters};
use crate::port_algorithm::PortAlgorithm;
use std::fmt;
use weir_units::Time;

/// A scheme and the values of its parameters; makes the sender and receiver halves.
///
/// Implemented for every [`Scheme`], which is what a scheme's author writes.
pub trait SchemeConfig: fmt::Debug + Send + Sync {
    /// Returns the name that experiments use.
    fn name(&self) -> &'static str;
    /// Returns one sentence for the list of schemes.
    fn about(&self) -> &'static str;
    /// Returns every parameter.
    fn parameters(&self) -> Vec<Parameter>;
    /// Returns the value of a parameter as [`set`](Self::set) reads it; `Open` if there is no such parameter.
    fn get(&self, parameter: &str) -> Option<String>;
    /// Returns every parameter's name and value, in the order of declaration.
    fn values(&self) -> Vec<(&'static str, String)>;
    /// Sets a parameter. On error nothing has changed.
    ///
    /// # Errors
    ///
    /// If there is no such parameter, or it does not take the value.
    fn set(&mut self, parameter: &str, value: &str) -> Result<(), ParameterError>;
    /// Returns what the scheme wants from the network and from the transport.
    fn needs(&self) -> Needs;
    /// Returns what switches compute for each port, on a fabric of this base round-trip time.
    fn port_algorithm(&self, base_rtt: Time) -> Option<PortAlgorithm>;
    /// Makes the sender half of one flow.
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender>;
    /// Makes the sender half of one message with [`TransportNeeds::subflows`] subflows.
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender>;
    /// Makes the receiver half of one host, which gets the host's own values in place of a flow's.
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver>;
}

/// A congestion control scheme: its parameters, what it needs, and its sender half.
///
/// The type holds the values of the parameters; its `Default` has their defaults. [`SchemeConfig`] follows.
///
/// ```
/// use weir_host::scheme::{AckEvent, Decision, FlowParams, Needs, Scheme, Sender, SwitchProgram};
/// use weir_host::schemes::Registry;
/// use weir_host::telemetry::TelemetryChecks;
/// use weir_units::Bandwidth;
///
/// weir_host::parameters! {
///     /// Sends at a fixed fraction of the NIC's rate.
///     struct Fixed {
///         /// Fraction of the NIC's rate.
///         share: f64 = 0.5 => { in 0.01..=1.0, range: "0.01 to 1", source: "this example" };
///     }
/// }
///
/// impl Scheme for Fixed {
///     const NAME: &'static str = "fixed";
///     const ABOUT: &'static str = "Fixed: a constant fraction of the NIC's rate";
///
///     fn needs(&self) -> Needs {
///         Needs::of(SwitchProgram::Ecn)
///     }
///     fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
///         let rate = Bandwidth::from_bps_f64(flow.nic_rate.as_bps_f64() * self.share);
///         let window = flow.nic_rate.bytes_in(flow.base_rtt);
///         Box::new(FixedSender(Decision { window, rate, timer: None }))
///     }
/// }
///
/// #[derive(Debug)]
/// struct FixedSender(Decision);
///
/// impl Sender for FixedSender {
///     fn on_ack(&mut self, _ack: &AckEvent<'_>, _checks: &mut TelemetryChecks) -> Decision {
///         self.0
///     }
///     fn decision(&self) -> Decision {
///         self.0
///     }
/// }
///
/// let registry = Registry::builtin().with::<Fixed>();
/// let half = registry.make("fixed", &[("share", "25%")]).unwrap();
/// assert_eq!(half.get("share").as_deref(), Some("0.25"));
/// ```
pub trait Scheme: Parameters {
    /// The name that experiments use.
    const NAME: &'static str;
    /// One sentence for the list of schemes.
    const ABOUT: &'static str;
    /// Returns what the scheme wants from the network and from the transport.
    fn needs(&self) -> Needs;
    /// Returns what switches compute for each port, on a fabric of this base round-trip time. Default: nothing.
    fn port_law(&self, _base_rtt: Time) -> Option<PortAlgorithm> {
        None
    }
    /// Makes the sender half of one flow.
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender>;
    /// Makes the sender half of a message with [`TransportNeeds::subflows`] subflows. Default: one,
    /// [`sender`](Self::sender).
    fn coupled(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        Box::new(self.sender(flow))
    }
    /// Makes the receiver half of one host. Default: the transport's echoes are enough.
    fn receiver(&self, _host: &FlowParams) -> Box<dyn Receiver> {
        Box::new(DefaultReceiver)
    }
}

impl<S: Scheme> SchemeConfig for S {
    fn name(&self) -> &'static str {
        S::NAME
    }
    fn about(&self) -> &'static str {
        S::ABOUT
    }
    fn parameters(&self) -> Vec<Parameter> {
        let fresh = S::default();
        let with_default = |it: ParameterDef<S>| Parameter { info: it.info, default: it.get(&fresh) };
        S::parameters().into_iter().map(with_default).collect()
    }
    fn get(&self, name: &str) -> Option<String> {
        Some(parameter::<S>(name)?.get(self))
    }
    fn values(&self) -> Vec<(&'static str, String)> {
        S::parameters().into_iter().map(|it| (it.info.name, it.get(self))).collect()
    }
    fn set(&mut self, name: &str, value: &str) -> Result<(), ParameterError> {
        parameter::<S>(name)
            .ok_or_else(|| ParameterError::unknown(S::NAME, &SchemeConfig::parameters(self), name))?
            .set(self, value)
    }
    fn needs(&self) -> Needs {
        Scheme::needs(self)
    }
    fn port_algorithm(&self, base_rtt: Time) -> Option<PortAlgorithm> {
        Scheme::port_law(self, base_rtt)
    }
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        Scheme::coupled(self, flow)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Scheme::sender(self, flow)
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        Scheme::receiver(self, host)
    }
}

/// Returns the declaration of a scheme's parameter.
fn parameter<S: Scheme>(name: &str) -> Option<ParameterDef<S>> {
    S::parameters().into_iter().find(|it| it.info.name == name)
}
