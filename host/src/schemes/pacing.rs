//! Rate limits and the corresponding window, for schemes that control a rate.

use crate::parameter::{EnumParameter, ParameterInfo, RateSpec};
use crate::parameters;
use crate::scheme::{Decision, FlowParams};
use weir_units::{Bandwidth, Bytes, Time};

/// Minimum rate of a flow: a parameter of all schemes that set a rate or a window.
pub const MIN_RATE: ParameterInfo = ParameterInfo {
    name: "min_rate",
    unit: "bit/s",
    range: "a rate above 0, or nic/N",
    symbol: "-",
    source: "HPCC simulator config.txt: 100 Mbit/s at 100 Gbit/s",
    help: "Minimum rate of a flow.",
};

parameters! {
    /// The parameters of rate limits.
    #[derive(Copy)]
    pub struct PacingConfig {
        min_rate: RateSpec = RateSpec::NicOver(1000) => { info: MIN_RATE };
        /// Window that limits the data in flight, in addition to the rate.
        window: WindowMode = WindowMode::Off => {
            range: "off, fixed (line rate times T) or varying (rate times T)", source: "the scheme",
        };
    }
}

/// The window that limits a flow in addition to its rate (HPCC simulator HAS_WIN, VAR_WIN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowMode {
    /// No window.
    Off,
    /// Line rate times `T`.
    Fixed,
    /// The rate times `T`.
    Varying,
}

impl EnumParameter for WindowMode {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", WindowMode::Off), ("fixed", WindowMode::Fixed), ("varying", WindowMode::Varying)];
}

impl PacingConfig {
    /// Returns the default parameters with this window.
    pub fn new(window: WindowMode) -> PacingConfig {
        PacingConfig { window, ..PacingConfig::default() }
    }
}

/// The rate limits of a flow. Rates are `f64` bit/s.
#[derive(Clone, Copy, Debug)]
pub struct RateLimits {
    min_rate: f64,
    nic_rate: Bandwidth,
    window: WindowMode,
    base_rtt: Time,
}

impl RateLimits {
    /// Creates the limits of a flow.
    pub fn new(config: &PacingConfig, flow: &FlowParams) -> RateLimits {
        RateLimits::with(config.min_rate, config.window, flow)
    }

    /// Creates the limits of a flow from single parameters.
    pub fn with(min_rate: RateSpec, window: WindowMode, flow: &FlowParams) -> RateLimits {
        let line_rate = flow.nic_rate.as_bps_f64();
        // `max(1.0)`: `clamp` panics if its upper bound is below the lower one.
        let min_rate = min_rate.resolve(flow.nic_rate).as_bps_f64().clamp(1.0, line_rate.max(1.0));
        RateLimits { min_rate, nic_rate: flow.nic_rate, window, base_rtt: flow.base_rtt }
    }

    /// Replaces `T`, by which the window follows from the rate.
    pub fn set_base_rtt(&mut self, base_rtt: Time) {
        self.base_rtt = base_rtt;
    }

    /// Returns `T`.
    pub fn base_rtt(&self) -> Time {
        self.base_rtt
    }

    /// Returns the NIC's rate in bit/s.
    pub fn line_rate(&self) -> f64 {
        self.nic_rate.as_bps_f64()
    }

    /// Limits a rate in bit/s to the range between the minimum and the NIC's rate.
    pub fn clamp(&self, rate: f64) -> f64 {
        rate.max(self.min_rate).min(self.line_rate())
    }

    /// Returns the decision for a rate in bit/s that [`clamp`](Self::clamp) has limited.
    pub fn decide(&self, rate: f64, timer: Option<Time>) -> Decision {
        let rate = Bandwidth::from_bps_f64(rate).clamp(Bandwidth::from_bps(1), self.nic_rate);
        let window = match self.window {
            WindowMode::Off => Bytes::MAX,
            WindowMode::Fixed => self.nic_rate.bytes_in(self.base_rtt),
            WindowMode::Varying => rate.bytes_in(self.base_rtt),
        };
        Decision { window: window.max(Bytes::new(1)), rate, timer }
    }
}
