use super::super::pacing::{PacingConfig, WindowMode};
use crate::parameter::{
    EnumParameter, KeywordOr, Off, ParameterDef, Parameters, RateSpec, VariantDefault, without,
};
use crate::parameters;
use crate::scheme::EcnThresholds;
use weir_units::{Bandwidth, Bytes, Ratio, Time};

parameters! {
    /// DCQCN's parameters. The value `variant` is resolved when it is used, so that parameters may be set in any
    /// order.
    pub(in crate::schemes) struct Dcqcn {
        /// Form of the algorithm: CNPs, timer and byte counter; or marks on ACKs, sampled by timers.
        pub(super) variant: Variant = Variant::Paper => {
            range: "paper or simulator", source: "DCQCN §3; HPCC simulator rdma-hw.cc:618-739",
        };
        /// Weight of the newest sample in alpha.
        pub(super) g: f64 = 0.003_906_25 => {
            in 0.0..=1.0, symbol: "g", range: "0 to 1", source: "DCQCN §5: 1/256; HPCC simulator run.py",
        };
        /// Interval between two decays of alpha.
        pub(super) alpha_timer: KeywordOr<VariantDefault, Time> = KeywordOr::word() => {
            symbol: "K", unit: "s", range: "variant (paper 55us, simulator 1us) or a time above 0",
            source: "DCQCN §5; HPCC simulator run.py",
        };
        /// Interval at which marks are evaluated (simulator variant).
        pub(super) decrease_timer: Time = Time::from_us(4) => {
            symbol: "t_dec", unit: "s", range: "a time above 0", source: "HPCC simulator run.py",
        };
        /// Interval between two increases of the rate.
        pub(super) increase_timer: KeywordOr<VariantDefault, Time> = KeywordOr::word() => {
            symbol: "T", unit: "s", range: "variant (paper 55us, simulator 300us) or a time above 0",
            source: "DCQCN §5; HPCC simulator run.py",
        };
        /// Bytes after which the rate increases too (paper variant).
        pub(super) byte_counter: Bytes = Bytes::from_kb(10_000) => {
            symbol: "B", unit: "B", range: "a size above 0", source: "DCQCN §5",
        };
        /// Increases that halve the distance to the target before the target itself increases.
        stages: KeywordOr<VariantDefault, u32> = KeywordOr::word() => {
            symbol: "F", unit: "times", range: "variant (paper 5, simulator 1) or a count above 0",
            source: "DCQCN §3.3; HPCC simulator run.py",
        };
        /// Additive increase of the target.
        r_ai: KeywordOr<VariantDefault, RateSpec> = KeywordOr::word() => {
            symbol: "R_AI", unit: "bit/s",
            range: "variant (paper nic/1000, simulator nic/5000), a rate above 0, or nic/N",
            source: "DCQCN §5: 40 Mbit/s at 40 Gbit/s; HPCC simulator run.py: 20 Mbit/s at 100 Gbit/s",
        };
        /// Hyper increase of the target.
        r_hai: KeywordOr<VariantDefault, RateSpec> = KeywordOr::word() => {
            symbol: "R_HAI", unit: "bit/s",
            range: "variant (paper nic/200, simulator nic/500), a rate above 0, or nic/N",
            source: "DCQCN authors' ns-3: 200 Mbit/s at 40 Gbit/s; HPCC simulator run.py: 200 Mbit/s at 100 Gbit/s",
        };
        /// Lower the target at every cut, also at one that follows another (simulator variant).
        pub(super) clamp_target: bool = false => {
            symbol: "CLAMP_TARGET_RATE", range: "on or off", source: "HPCC simulator config.txt",
        };
        /// The receiver sends a flow at most one CNP in this time (paper variant).
        pub(in crate::schemes) cnp_interval: Time = Time::from_us(50) => {
            symbol: "N", unit: "s", range: "a time above 0", source: "DCQCN §3.2",
        };
        /// Queue thresholds at which switches mark, unless the experiment sets them.
        ecn: KeywordOr<VariantDefault, EcnThresholds> = KeywordOr::word() => {
            symbol: "Kmin, Kmax, Pmax", unit: "B", range: MARKING_OR_VARIANT, source: "DCQCN §5; HPCC §5.1",
        };
        /// Messages up to this size are sent before longer ones, at the NIC and in switches.
        pub(super) short_first: KeywordOr<Off, Bytes> = KeywordOr::word() => {
            symbol: "Pri-Q", unit: "B", range: "off or a size above 0",
            source: "Dart §VI-B: two priority levels, short flows over long ones",
        };
        pub(super) pacing: PacingConfig = PacingConfig::new(WindowMode::Off) => {
            part, window from "DCQCN §3.3 regulates a rate; HPCC simulator's *_vwin: varying"
        };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Paper,
    Simulator,
}

impl EnumParameter for Variant {
    const NAMES: &'static [(&'static str, Self)] =
        &[("paper", Variant::Paper), ("simulator", Variant::Simulator)];
}

impl Dcqcn {
    /// Returns the value of the present variant.
    pub(super) fn by_variant<T>(&self, paper: T, simulator: T) -> T {
        match self.variant {
            Variant::Paper => paper,
            Variant::Simulator => simulator,
        }
    }

    pub(super) fn alpha_timer(&self) -> Time {
        self.alpha_timer.or(self.by_variant(Time::from_us(55), Time::from_us(1)))
    }
    pub(super) fn increase_timer(&self) -> Time {
        self.increase_timer.or(self.by_variant(Time::from_us(55), Time::from_us(300)))
    }
    pub(super) fn stages(&self) -> u32 {
        self.stages.or(self.by_variant(5, 1))
    }
    /// Returns R_AI in bit/s: 40 Mbit/s at the paper's 40 Gbit/s, 20 Mbit/s at the simulator's 100 Gbit/s.
    pub(super) fn r_ai(&self, nic: Bandwidth) -> f64 {
        self.r_ai
            .or(self.by_variant(RateSpec::NicOver(1000), RateSpec::NicOver(5000)))
            .resolve(nic)
            .as_bps_f64()
    }
    /// Returns R_HAI in bit/s: 200 Mbit/s in both variants at their NIC rates.
    pub(super) fn r_hai(&self, nic: Bandwidth) -> f64 {
        self.r_hai
            .or(self.by_variant(RateSpec::NicOver(200), RateSpec::NicOver(500)))
            .resolve(nic)
            .as_bps_f64()
    }
    /// Returns the ECN thresholds.
    pub(in crate::schemes) fn marking(&self) -> EcnThresholds {
        let marking = |kmin, kmax, pmax, gbps| EcnThresholds {
            kmin: Bytes::from_kb(kmin),
            kmax: Bytes::from_kb(kmax),
            // Both values below are valid ratios.
            pmax: Ratio::new(pmax).unwrap_or(Ratio::ONE),
            reference_rate: Bandwidth::from_gbps(gbps),
        };
        self.ecn.or(self.by_variant(marking(5, 200, 0.01, 40), marking(100, 400, 0.2, 25)))
    }
}

/// Returns the parameters of DCQCN as part of Dart: those of the paper's variant, without marking, which Dart
/// defines.
pub(in crate::schemes) fn dart_parameters() -> Vec<ParameterDef<Dcqcn>> {
    let excluded = ["variant", "decrease_timer", "clamp_target", "ecn", "short_first"];
    let mut parameters = without(Dcqcn::parameters(), &excluded);
    for parameter in &mut parameters {
        let info = &mut parameter.info;
        info.range = match info.name {
            "alpha_timer" | "increase_timer" => "variant (DCQCN's 55us) or a time above 0",
            "stages" => "variant (DCQCN's 5) or a count above 0",
            "r_ai" => "variant (DCQCN's nic/1000), a rate above 0, or nic/N",
            "r_hai" => "variant (DCQCN's nic/200), a rate above 0, or nic/N",
            _ => info.range,
        };
    }
    parameters
}

const MARKING_OR_VARIANT: &str = "variant (paper 5KB-200KB:0.01/40Gbps, simulator 100KB-400KB:0.2/25Gbps), \
                                  K/rate for a step, or Kmin-Kmax:Pmax/rate";
