use super::Law;
use crate::knob::{Knob, KnobOf, number_in, on_off, switch};
use crate::scheme::FlowParams;
use weir_units::{Bandwidth, Bytes, Time};

/// The knobs that HPCC and FNCC share.
#[derive(Clone, Debug)]
pub(in crate::schemes) struct InflightConfig {
    eta: f64,
    max_stage: MaxStage,
    w_ai: Increase,
    base_rtt: Option<Time>,
    fast_react: bool,
    min_rate: MinRate,
}

#[derive(Clone, Copy, Debug)]
enum MaxStage {
    Simulator,
    Paper,
    Times(u32),
}

/// The additive increase, in any of the forms the authors give it.
#[derive(Clone, Copy, Debug)]
enum Increase {
    Window(Bytes),
    Rate(Bandwidth),
    Headroom { flows: u32 },
}

#[derive(Clone, Copy, Debug)]
enum MinRate {
    Rate(Bandwidth),
    NicOver(u32),
}

impl Default for InflightConfig {
    fn default() -> Self {
        InflightConfig {
            eta: 0.95,
            max_stage: MaxStage::Simulator,
            w_ai: Increase::Window(Bytes::new(80)),
            base_rtt: None,
            fast_react: true,
            min_rate: MinRate::NicOver(1000),
        }
    }
}

impl InflightConfig {
    /// `T`.
    pub(super) fn base_rtt(&self, flow: &FlowParams) -> Time {
        self.base_rtt.unwrap_or(flow.base_rtt)
    }

    pub(super) fn law(&self, flow: &FlowParams) -> Law {
        let t = self.base_rtt(flow).as_secs_f64();
        let bytes_in_t = |rate: Bandwidth| rate.as_bytes_per_sec_f64() * t;
        let w_init = bytes_in_t(flow.nic_rate);
        let min_rate = match self.min_rate {
            MinRate::Rate(rate) => rate,
            MinRate::NicOver(n) => flow.nic_rate / u64::from(n),
        };
        Law {
            eta: self.eta,
            max_stage: match self.max_stage {
                MaxStage::Simulator => 0,
                MaxStage::Paper => 5,
                MaxStage::Times(n) => n,
            },
            w_ai: match self.w_ai {
                Increase::Window(bytes) => bytes.as_f64(),
                Increase::Rate(rate) => bytes_in_t(rate),
                Increase::Headroom { flows } => (w_init * (1.0 - self.eta) / f64::from(flows)).max(0.0),
            },
            // Never above line rate, and never so low that a division could give 0 for ever.
            w_min: bytes_in_t(min_rate).max(LEAST_WINDOW).min(w_init),
            w_init,
            fast_react: self.fast_react,
            t,
            nic_rate: flow.nic_rate,
        }
    }
}

/// The smallest window, where `min_rate` allows an even smaller one: the released code's 1 byte
/// (rdma-queue-pair.cc:125-137). A packet may still leave whenever nothing is in flight.
const LEAST_WINDOW: f64 = 1.0;

/// Reads `<word>/<count>`.
fn share(text: &str, word: &str) -> Option<u32> {
    text.strip_prefix(word)?.strip_prefix('/')?.parse().ok().filter(|&n| n > 0)
}

/// Knobs of [`InflightConfig`].
pub(in crate::schemes) static KNOBS: &[KnobOf<InflightConfig>] = &[
    KnobOf {
        knob: Knob {
            name: "eta",
            unit: "-",
            default: "0.95",
            range: "0.05 to 2",
            symbol: "eta",
            source: "HPCC §3.3, FNCC §3.2.2",
            help: "Target utilisation of the most congested link.",
        },
        get: |c| c.eta.to_string(),
        set: |c, text| number_in(text, 0.05, 2.0).map(|eta| c.eta = eta),
    },
    KnobOf {
        knob: Knob {
            name: "max_stage",
            unit: "times",
            default: "simulator",
            range: "simulator (0), paper (5) or a number",
            symbol: "maxStage",
            source: "HPCC authors' settings page: the paper's 5 is for the FPGA testbed only",
            help: "Additive increases before a multiplicative one.",
        },
        get: |c| match c.max_stage {
            MaxStage::Simulator => "simulator".to_owned(),
            MaxStage::Paper => "paper".to_owned(),
            MaxStage::Times(n) => n.to_string(),
        },
        set: |c, text| {
            c.max_stage = match text {
                "simulator" => MaxStage::Simulator,
                "paper" => MaxStage::Paper,
                _ => MaxStage::Times(text.parse().map_err(|_| format!("\"{text}\" is not a count"))?),
            };
            Ok(())
        },
    },
    KnobOf {
        knob: Knob {
            name: "w_ai",
            unit: "B",
            default: "80B",
            range: "a size, a rate (times T), or headroom/N for W_init*(1-eta)/N",
            symbol: "W_AI",
            source: "HPCC §5.1 fn4",
            help: "Additive increase of the window, which makes flows fair.",
        },
        get: |c| match c.w_ai {
            Increase::Window(bytes) => bytes.to_string(),
            Increase::Rate(rate) => rate.to_string(),
            Increase::Headroom { flows } => format!("headroom/{flows}"),
        },
        set: |c, text| {
            c.w_ai = if let Some(flows) = share(text, "headroom") {
                Increase::Headroom { flows }
            } else if let Ok(rate) = text.parse() {
                Increase::Rate(rate)
            } else {
                Increase::Window(text.parse().map_err(|e: weir_units::ParseUnitError| e.to_string())?)
            };
            Ok(())
        },
    },
    KnobOf {
        knob: Knob {
            name: "base_rtt",
            unit: "s",
            default: "host",
            range: "host (the host's base RTT) or a time above 0",
            symbol: "T",
            source: "HPCC §3.2: slightly above the largest propagation RTT",
            help: "The time windows and rates are tied by.",
        },
        get: |c| c.base_rtt.map_or_else(|| "host".to_owned(), |t| t.to_string()),
        set: |c, text| {
            c.base_rtt = match text {
                "host" => None,
                _ => match text.parse().map_err(|e: weir_units::ParseUnitError| e.to_string())? {
                    Time::ZERO => return Err("zero gives no window".to_owned()),
                    t => Some(t),
                },
            };
            Ok(())
        },
    },
    KnobOf {
        knob: Knob {
            name: "fast_react",
            unit: "-",
            default: "on",
            range: "on or off",
            symbol: "-",
            source: "HPCC §3.2, HPCC simulator FAST_REACT",
            help: "React to every ACK, not only once per round trip.",
        },
        get: |c| on_off(c.fast_react),
        set: |c, text| switch(text).map(|on| c.fast_react = on),
    },
    KnobOf {
        knob: Knob {
            name: "min_rate",
            unit: "bit/s",
            default: "nic/1000",
            range: "a rate above 0, or nic/N",
            symbol: "-",
            source: "HPCC simulator config.txt: 100 Mbit/s at 100 Gbit/s",
            help: "A flow never gets slower than this.",
        },
        get: |c| match c.min_rate {
            MinRate::Rate(rate) => rate.to_string(),
            MinRate::NicOver(n) => format!("nic/{n}"),
        },
        set: |c, text| {
            c.min_rate = if let Some(n) = share(text, "nic") {
                MinRate::NicOver(n)
            } else {
                match text.parse().map_err(|e: weir_units::ParseUnitError| e.to_string())? {
                    Bandwidth::ZERO => return Err("at rate zero a flow stands still for ever".to_owned()),
                    rate => MinRate::Rate(rate),
                }
            };
            Ok(())
        },
    },
];
