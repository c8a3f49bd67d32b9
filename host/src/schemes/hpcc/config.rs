use super::super::pacing::MIN_RATE;
use super::{AverageOf, ControlParams, DEFAULT_W_AI};
use crate::parameter::{
    EnumParameter, HostDefault, KeywordOr, ParameterValue, RateSpec, Scale, parse_fraction,
};
use crate::parameters;
use crate::scheme::FlowParams;
use weir_units::{Bandwidth, Bytes, ParseUnitError, Time};

parameters! {
    /// The parameters that HPCC, HPCC++ and FNCC share.
    pub(in crate::schemes) struct HpccConfig {
        /// Target utilisation of the most congested link.
        eta: f64 = 0.95 => { in 0.05..=2.0, symbol: "eta", range: "0.05 to 2", source: "HPCC §3.3, FNCC §3.2.2" };
        /// Additive increases before a multiplicative one.
        max_stage: MaxStage = MaxStage::Simulator => {
            symbol: "maxStage", unit: "times", range: "simulator (0), paper (5) or a number",
            source: "HPCC authors' settings page: the paper's 5 is for the FPGA testbed only",
        };
        /// Time constant of the average U; off: each sample counts alone.
        average_over: AverageOver = AverageOver::PartOfT(1) => {
            range: "T, T/n, or off", source: "HPCC Alg. 1: T; FNCC Eq. 5 and 6 have no average",
        };
        /// Samples that are averaged.
        average_of: AverageOf = AverageOf::Largest => {
            range: "largest (the largest u' of each ACK) or hops (each hop's u', and U is the largest average)",
            source: "HPCC Alg. 1: largest; FNCC Eq. 5 and 6 have no average",
        };
        /// Additive increase of the window, which makes flows fair.
        w_ai: Increase = Increase::Window(Bytes::new(80)) => {
            symbol: "W_AI", unit: "B",
            range: "a size, a rate (times T), headroom/N for W_init*(1-eta)/N, or headroom/reported for B*T*(1-eta)/N at the receiver's link, with the N that it reports, and 80 B elsewhere",
            source: "HPCC §5.1 fn4",
        };
        /// Base round-trip time T, which relates windows to rates.
        base_rtt: KeywordOr<HostDefault, Time> = KeywordOr::word() => {
            symbol: "T", unit: "s", range: "host (the host's base RTT) or a time above 0",
            source: "HPCC §3.2: slightly above the largest propagation RTT",
        };
        /// React to every ACK, not only once per round trip.
        fast_react: bool = true => { range: "on or off", source: "HPCC §3.2, HPCC simulator FAST_REACT" };
        min_rate: RateSpec = RateSpec::NicOver(1000) => { info: MIN_RATE };
        /// Limit the bytes in flight to W; off: only the rate W/T limits a flow.
        window: bool = true => { range: "on or off", source: "HPCC §3.2; HPCC simulator HAS_WIN" };
    }
}

#[derive(Clone, Copy, Debug)]
enum MaxStage {
    Simulator,
    Paper,
    Times(u32),
}

/// The time constant of the average U.
#[derive(Clone, Copy, Debug)]
enum AverageOver {
    /// No average: each sample counts alone (FNCC Eq. 5 and 6).
    Off,
    /// `T` divided by this number (HPCC Alg. 1: `T`).
    PartOfT(u32),
}

impl EnumParameter for AverageOf {
    const NAMES: &'static [(&'static str, Self)] =
        &[("largest", AverageOf::Largest), ("hops", AverageOf::Hops)];
}

/// The additive increase, in the forms that the authors use.
#[derive(Clone, Copy, Debug)]
enum Increase {
    Window(Bytes),
    /// This rate times `T`.
    Rate(Bandwidth),
    /// `W_init * (1 - eta)` divided by this number of flows.
    Headroom {
        flows: u32,
    },
    /// The headroom of the receiver's link, `B*T * (1 - eta)`, divided by the number of flows that the receiver reports
    /// (HPCC++ draft §5), if that link is the bottleneck (§6.2); [`DEFAULT_W_AI`] otherwise.
    Reported,
}

/// The text form of [`Increase::Reported`].
const REPORTED: &str = "headroom/reported";

impl ParameterValue for MaxStage {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "simulator" => Ok(MaxStage::Simulator),
            "paper" => Ok(MaxStage::Paper),
            _ => text.parse().map(MaxStage::Times).map_err(|_| format!("\"{text}\" is not a count")),
        }
    }
    fn to_text(self) -> String {
        match self {
            MaxStage::Simulator => "simulator".to_owned(),
            MaxStage::Paper => "paper".to_owned(),
            MaxStage::Times(n) => n.to_string(),
        }
    }
}

impl ParameterValue for AverageOver {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(AverageOver::Off),
            "T" => Ok(AverageOver::PartOfT(1)),
            _ => parse_fraction(text, "T")
                .map(AverageOver::PartOfT)
                .ok_or_else(|| format!("\"{text}\" is not T, T/n or off")),
        }
    }
    fn to_text(self) -> String {
        match self {
            AverageOver::Off => "off".to_owned(),
            AverageOver::PartOfT(1) => "T".to_owned(),
            AverageOver::PartOfT(n) => format!("T/{n}"),
        }
    }
}

impl ParameterValue for Increase {
    fn parse(text: &str) -> Result<Self, String> {
        if text == REPORTED {
            Ok(Increase::Reported)
        } else if let Some(flows) = parse_fraction(text, "headroom") {
            Ok(Increase::Headroom { flows })
        } else if let Ok(rate) = text.parse() {
            Ok(Increase::Rate(rate))
        } else {
            text.parse().map(Increase::Window).map_err(|e: ParseUnitError| e.to_string())
        }
    }
    fn to_text(self) -> String {
        match self {
            Increase::Window(bytes) => bytes.to_string(),
            Increase::Rate(rate) => rate.to_string(),
            Increase::Headroom { flows } => format!("headroom/{flows}"),
            Increase::Reported => REPORTED.to_owned(),
        }
    }
    fn scaled(self, scale: &dyn Scale) -> Self {
        match self {
            Increase::Rate(rate) => Increase::Rate(scale.rate(rate)),
            other => other,
        }
    }
}

impl HpccConfig {
    /// Returns `T`.
    pub(in crate::schemes) fn base_rtt(&self, flow: &FlowParams) -> Time {
        self.base_rtt.or(flow.base_rtt)
    }

    /// Returns `T` divided by the time constant of the average: infinity without an average.
    pub(super) fn averages_in_t(&self) -> f64 {
        match self.average_over {
            AverageOver::Off => f64::INFINITY,
            AverageOver::PartOfT(n) => f64::from(n),
        }
    }

    pub(super) fn control_params(&self, flow: &FlowParams) -> ControlParams {
        let t = self.base_rtt(flow).as_secs_f64();
        let bytes_in_t = |rate: Bandwidth| rate.as_bytes_per_sec_f64() * t;
        let w_init = bytes_in_t(flow.nic_rate);
        let headroom_share = (1.0 - self.eta).max(0.0);
        ControlParams {
            eta: self.eta,
            max_stage: match self.max_stage {
                MaxStage::Simulator => 0,
                MaxStage::Paper => 5,
                MaxStage::Times(n) => n,
            },
            w_ai: match self.w_ai {
                Increase::Window(bytes) => bytes.as_f64(),
                Increase::Rate(rate) => bytes_in_t(rate),
                Increase::Headroom { flows } => w_init * headroom_share / f64::from(flows),
                Increase::Reported => DEFAULT_W_AI,
            },
            average_of: self.average_of,
            headroom_share: matches!(self.w_ai, Increase::Reported).then_some(headroom_share),
            // At most the window of line rate, and large enough that no division yields a permanent 0.
            w_min: bytes_in_t(self.min_rate.resolve(flow.nic_rate)).max(MIN_WINDOW).min(w_init),
            w_init,
            fast_react: self.fast_react,
            has_window: self.window,
            t,
            nic_rate: flow.nic_rate,
        }
    }
}

/// Lower bound of the window in bytes, if `min_rate` would allow a smaller one: 1 byte, as in the released code
/// (rdma-queue-pair.cc:125-137). A packet may still be sent whenever nothing is in flight.
const MIN_WINDOW: f64 = 1.0;

impl HpccConfig {
    /// Returns the defaults of FNCC. Its ACKs read hops at different times, about a packet apart, so that the units of
    /// `txBytes` are rounded differently at each hop: the largest of several `u'` is too high, and of the averages it
    /// is not.
    pub(in crate::schemes) fn fncc() -> HpccConfig {
        HpccConfig { average_of: AverageOf::Hops, ..HpccConfig::default() }
    }

    /// Returns the defaults of HPCC++: W_AI and maxStage of the draft.
    pub(in crate::schemes) fn hpcc_plus() -> HpccConfig {
        HpccConfig { w_ai: Increase::Reported, max_stage: MaxStage::Paper, ..HpccConfig::default() }
    }
}
