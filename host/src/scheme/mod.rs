//! The interface of congestion control schemes: a factory with parameters, a sender half and a receiver half.
//!
//! A scheme receives events and returns decisions. It handles no frames, reads no clock and owns no timer: every
//! event carries the time, and a decision may request a timer, whose expiry is an event. A scheme does not know how
//! telemetry travelled: [`Telemetry`](crate::telemetry::Telemetry) is in data-path order, whichever packet carried
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
    AckEvent, BUILTIN_GAUGES, CongestionPoint, Decision, FlowParams, GaugeReporter, LossEvent, LossKind,
    MultipathSender, RateEvent, RecoveryState, Sender, SendingRate,
};

use crate::custom_record::RecordFields;
use crate::parameter::{Parameter, ParameterDef, ParameterError, Parameters, Scale};
use crate::port_algorithm::PortAlgorithm;
use std::fmt;
use weir_units::{Bandwidth, Bytes, Time};

/// A scheme with the values of its parameters; the factory of its sender and receiver halves.
///
/// Implemented for every [`Scheme`], which is the trait that a new scheme implements.
pub trait SchemeConfig: fmt::Debug + Send + Sync {
    /// Returns the name of the scheme in experiment files.
    fn name(&self) -> &'static str;
    /// Returns a one-sentence description for the list of schemes.
    fn about(&self) -> &'static str;
    /// Returns the declarations of all parameters.
    fn parameters(&self) -> Vec<Parameter>;
    /// Returns the value of a parameter in the form that [`set`](Self::set) accepts; `None` if there is no such
    /// parameter.
    fn get(&self, parameter: &str) -> Option<String>;
    /// Returns the names and values of all parameters, in the order of declaration.
    fn values(&self) -> Vec<(&'static str, String)>;
    /// Sets a parameter. On error the scheme is unchanged.
    ///
    /// # Errors
    ///
    /// The parameter does not exist, or the value is invalid.
    fn set(&mut self, parameter: &str, value: &str) -> Result<(), ParameterError>;
    /// Returns the names and values of all parameters in a scale model, in the order of declaration.
    fn scaled_values(&self, scale: &dyn Scale) -> Vec<(&'static str, String)>;
    /// Returns what the scheme requires of the switches and of the transport.
    fn needs(&self) -> Needs;
    /// Returns the algorithm that switches run for each port, on a fabric of this base RTT; `None` if they run none.
    fn port_algorithm(&self, base_rtt: Time) -> Option<PortAlgorithm>;
    /// Creates the sender half of a message with one subflow.
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender>;
    /// Creates the sender half of a message with [`TransportNeeds::subflows`] subflows.
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender>;
    /// Creates the receiver half of a host. The parameters describe the host itself.
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver>;
    /// Returns the names of the gauges that senders report ([`Sender::gauges`]).
    fn gauges(&self) -> Vec<&'static str>;
}

/// A congestion control scheme: its parameters, its needs and its sender half.
///
/// The type holds the values of the parameters, and its `Default` the default values. Every `Scheme` is a
/// [`SchemeConfig`].
///
/// ```
/// use weir_host::scheme::{AckEvent, Decision, FlowParams, Needs, Scheme, Sender, SwitchProgram};
/// use weir_host::schemes::Registry;
/// use weir_host::telemetry::TelemetryCounters;
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
///     fn on_ack(&mut self, _ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
///         self.0
///     }
///     fn decision(&self) -> Decision {
///         self.0
///     }
/// }
///
/// let registry = Registry::builtin().with::<Fixed>();
/// let scheme = registry.make("fixed", &[("share", "25%")]).unwrap();
/// assert_eq!(scheme.get("share").as_deref(), Some("0.25"));
/// ```
pub trait Scheme: Parameters {
    /// Name of the scheme in experiment files.
    const NAME: &'static str;
    /// One-sentence description for the list of schemes.
    const ABOUT: &'static str;
    /// Returns what the scheme requires of the switches and of the transport.
    fn needs(&self) -> Needs;
    /// Replaces parameters whose value is a word for a fixed time or rate by that time or rate, which a scale model can then
    /// scale. Default: there is none.
    fn write_out_times(&mut self) {}
    /// Returns the algorithm that switches run for each port, on a fabric of this base RTT. Default: none.
    fn port_algorithm(&self, _base_rtt: Time) -> Option<PortAlgorithm> {
        None
    }
    /// Creates the sender half of a message with one subflow.
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender>;
    /// Creates the sender half of a message with [`TransportNeeds::subflows`] subflows. Default:
    /// [`sender`](Self::sender), for schemes with one subflow.
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        Box::new(self.sender(flow))
    }
    /// Creates the receiver half of a host. Default: one that adds nothing to what the transport echoes.
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
        let defaults = S::default();
        let with_default = |def: ParameterDef<S>| Parameter {
            info: def.info,
            default: def.get(&defaults),
            syntax: def.syntax,
        };
        S::parameters().into_iter().map(with_default).collect()
    }
    fn get(&self, name: &str) -> Option<String> {
        Some(parameter::<S>(name)?.get(self))
    }
    fn values(&self) -> Vec<(&'static str, String)> {
        S::parameters().into_iter().map(|def| (def.info.name, def.get(self))).collect()
    }
    fn scaled_values(&self, scale: &dyn Scale) -> Vec<(&'static str, String)> {
        let mut model = self.clone();
        model.write_out_times();
        let parameters = S::parameters();
        parameters.iter().for_each(|def| def.apply_scale(&mut model, scale));
        parameters.into_iter().map(|def| (def.info.name, def.get(&model))).collect()
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
        Scheme::port_algorithm(self, base_rtt)
    }
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        Scheme::multipath_sender(self, flow)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Scheme::sender(self, flow)
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        Scheme::receiver(self, host)
    }
    fn gauges(&self) -> Vec<&'static str> {
        // The names do not depend on the flow, so any valid one will do.
        let flow = FlowParams {
            nic_rate: Bandwidth::from_gbps(100),
            base_rtt: Time::from_us(10),
            payload: Bytes::from_kb(1),
            tick: Time::from_ns(1),
            record: RecordFields::default(),
            subflows: None,
        };
        let mut names = Vec::new();
        Scheme::multipath_sender(self, &flow).gauges(&mut |name, _| names.push(name));
        names
    }
}

/// Returns the declaration of a scheme's parameter.
fn parameter<S: Scheme>(name: &str) -> Option<ParameterDef<S>> {
    S::parameters().into_iter().find(|def| def.info.name == name)
}
