//! What schemes share that regulate a rate: its limits, and the window that goes with it.

use crate::knob::{Knob, KnobOf, OneOf, RateOf};
use crate::scheme::{Decision, FlowParams};
use weir_units::{Bandwidth, Bytes, Time};

/// The slowest that a scheme may make a flow: a knob of all schemes that set a rate or a window.
pub(super) const MIN_RATE: Knob = Knob {
    name: "min_rate",
    unit: "bit/s",
    default: "nic/1000",
    range: "a rate above 0, or nic/N",
    symbol: "-",
    source: "HPCC simulator config.txt: 100 Mbit/s at 100 Gbit/s",
    help: "A flow never gets slower than this.",
};

/// The knobs of a rate's limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacingConfig {
    min_rate: RateOf,
    window: Window,
}

/// What may be in flight beside the rate (HPCC simulator HAS_WIN, VAR_WIN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// Anything.
    Off,
    /// Line rate times `T`.
    Fixed,
    /// The rate times `T`.
    Varying,
}

impl OneOf for Window {
    const WORDS: &'static [(&'static str, Self)] =
        &[("off", Window::Off), ("fixed", Window::Fixed), ("varying", Window::Varying)];
}

impl PacingConfig {
    pub fn new(window: Window) -> PacingConfig {
        PacingConfig { min_rate: RateOf::NicOver(1000), window }
    }

    /// The knobs, with the default window and where it comes from.
    pub fn knobs(window: &'static str, source: &'static str) -> Vec<KnobOf<PacingConfig>> {
        vec![
            KnobOf::new(MIN_RATE, |c| &mut c.min_rate),
            KnobOf::new(
                Knob {
                    name: "window",
                    unit: "-",
                    default: window,
                    range: "off, fixed (line rate times T) or varying (rate times T)",
                    symbol: "-",
                    source,
                    help: "What may be in flight, beside the rate.",
                },
                |c| &mut c.window,
            ),
        ]
    }
}

/// A flow's limits. Rates are `f64` bit/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    min: f64,
    nic_rate: Bandwidth,
    window: Window,
    base_rtt: Time,
}

impl Pacing {
    pub fn new(config: &PacingConfig, flow: &FlowParams) -> Pacing {
        let line = flow.nic_rate.as_bps_f64();
        let min = config.min_rate.of(flow.nic_rate).as_bps_f64().clamp(1.0, line.max(1.0));
        Pacing { min, nic_rate: flow.nic_rate, window: config.window, base_rtt: flow.base_rtt }
    }

    /// Line rate.
    pub fn line(&self) -> f64 {
        self.nic_rate.as_bps_f64()
    }

    /// Between the minimum rate and line rate.
    pub fn clamp(&self, rate: f64) -> f64 {
        rate.max(self.min).min(self.line())
    }

    /// What the transport is told of a rate that was clamped.
    pub fn decide(&self, rate: f64, timer: Option<Time>) -> Decision {
        let rate = Bandwidth::from_bps_f64(rate).clamp(Bandwidth::from_bps(1), self.nic_rate);
        let window = match self.window {
            Window::Off => Bytes::MAX,
            Window::Fixed => self.nic_rate.bytes_in(self.base_rtt),
            Window::Varying => rate.bytes_in(self.base_rtt),
        };
        Decision { window: window.max(Bytes::new(1)), rate, timer }
    }
}
