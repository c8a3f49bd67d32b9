use super::super::pacing::{PacingConfig, Window};
use crate::parameter::{Off, OneOf, Or, ParameterInfo, ParameterOf, RateOf, Variants, part};
use crate::scheme::Marking;
use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// DCQCN's parameters. What is `variant` here is filled in when it is used, so that parameters may come in any order.
#[derive(Clone, Debug)]
pub(in crate::schemes) struct Dcqcn {
    pub(super) variant: Variant,
    pub(super) g: f64,
    alpha_timer: Or<Variants, Time>,
    pub(super) decrease_timer: Time,
    increase_timer: Or<Variants, Time>,
    pub(super) byte_counter: Bytes,
    stages: Or<Variants, u32>,
    r_ai: Or<Variants, RateOf>,
    r_hai: Or<Variants, RateOf>,
    pub(super) clamp_target: bool,
    pub(in crate::schemes) cnp_interval: Time,
    ecn: Or<Variants, Marking>,
    pub(super) short_first: Or<Off, Bytes>,
    pub(super) pacing: PacingConfig,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Paper,
    Simulator,
}

impl OneOf for Variant {
    const WORDS: &'static [(&'static str, Self)] =
        &[("paper", Variant::Paper), ("simulator", Variant::Simulator)];
}

impl Default for Dcqcn {
    fn default() -> Self {
        Dcqcn {
            variant: Variant::Paper,
            g: 0.003_906_25,
            alpha_timer: Or::word(),
            decrease_timer: Time::from_us(4),
            increase_timer: Or::word(),
            byte_counter: Bytes::from_kb(10_000),
            stages: Or::word(),
            r_ai: Or::word(),
            r_hai: Or::word(),
            clamp_target: false,
            cnp_interval: Time::from_us(50),
            ecn: Or::word(),
            short_first: Or::word(),
            pacing: PacingConfig::new(Window::Off),
        }
    }
}

impl Dcqcn {
    pub(super) fn pick<T>(&self, paper: T, simulator: T) -> T {
        match self.variant {
            Variant::Paper => paper,
            Variant::Simulator => simulator,
        }
    }

    pub(super) fn alpha_timer(&self) -> Time {
        self.alpha_timer.or(self.pick(Time::from_us(55), Time::from_us(1)))
    }
    pub(super) fn increase_timer(&self) -> Time {
        self.increase_timer.or(self.pick(Time::from_us(55), Time::from_us(300)))
    }
    pub(super) fn stages(&self) -> u32 {
        self.stages.or(self.pick(5, 1))
    }
    /// 40 Mbit/s at the paper's 40 Gbit/s, 20 Mbit/s at the simulator's 100.
    pub(super) fn r_ai(&self, nic: Bandwidth) -> f64 {
        self.r_ai.or(self.pick(RateOf::NicOver(1000), RateOf::NicOver(5000))).of(nic).as_bps_f64()
    }
    /// 200 Mbit/s in both.
    pub(super) fn r_hai(&self, nic: Bandwidth) -> f64 {
        self.r_hai.or(self.pick(RateOf::NicOver(200), RateOf::NicOver(500))).of(nic).as_bps_f64()
    }
    /// Returns the thresholds at which switches mark.
    pub(in crate::schemes) fn marking(&self) -> Marking {
        let marking = |kmin, kmax, pmax, gbps| Marking {
            kmin: Bytes::from_kb(kmin),
            kmax: Bytes::from_kb(kmax),
            pmax: Ratio::new(pmax).unwrap_or(Ratio::ONE),
            per: Bandwidth::from_gbps(gbps),
        };
        self.ecn.or(self.pick(marking(5, 200, 0.01, 40), marking(100, 400, 0.2, 25)))
    }
}

pub(super) fn parameters() -> Vec<ParameterOf<Dcqcn>> {
    let own = vec![
        ParameterOf::new(
            ParameterInfo {
                name: "variant",
                unit: "-",
                range: "paper or simulator",
                symbol: "-",
                source: "DCQCN §3; HPCC simulator rdma-hw.cc:618-739",
                help: "CNPs, timer and byte counter; or marks on ACKs, sampled by a timer.",
            },
            |c: &mut Dcqcn| &mut c.variant,
        ),
        ParameterOf::number(
            ParameterInfo {
                name: "g",
                unit: "-",
                range: "0 to 1",
                symbol: "g",
                source: "DCQCN §5: 1/256; HPCC simulator run.py",
                help: "Weight of the newest sample in alpha.",
            },
            0.0..=1.0,
            |c| &mut c.g,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "alpha_timer",
                unit: "s",
                range: "variant (paper 55us, simulator 1us) or a time above 0",
                symbol: "K",
                source: "DCQCN §5; HPCC simulator run.py",
                help: "How often alpha decays.",
            },
            |c| &mut c.alpha_timer,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "decrease_timer",
                unit: "s",
                range: "a time above 0",
                symbol: "t_dec",
                source: "HPCC simulator run.py",
                help: "How often marks are looked at (simulator variant).",
            },
            |c| &mut c.decrease_timer,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "increase_timer",
                unit: "s",
                range: "variant (paper 55us, simulator 300us) or a time above 0",
                symbol: "T",
                source: "DCQCN §5; HPCC simulator run.py",
                help: "How often the rate rises.",
            },
            |c| &mut c.increase_timer,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "byte_counter",
                unit: "B",
                range: "a size above 0",
                symbol: "B",
                source: "DCQCN §5",
                help: "Bytes after which the rate rises too (paper variant).",
            },
            |c| &mut c.byte_counter,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "stages",
                unit: "times",
                range: "variant (paper 5, simulator 1) or a count above 0",
                symbol: "F",
                source: "DCQCN §3.3; HPCC simulator run.py",
                help: "Rises that halve the way to the target before the target itself rises.",
            },
            |c| &mut c.stages,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "r_ai",
                unit: "bit/s",
                range: "variant (paper nic/1000, simulator nic/5000), a rate above 0, or nic/N",
                symbol: "R_AI",
                source: "DCQCN §5: 40 Mbit/s at 40 Gbit/s; HPCC simulator run.py: 20 Mbit/s at 100 Gbit/s",
                help: "Additive increase of the target.",
            },
            |c| &mut c.r_ai,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "r_hai",
                unit: "bit/s",
                range: "variant (paper nic/200, simulator nic/500), a rate above 0, or nic/N",
                symbol: "R_HAI",
                source: "DCQCN authors' ns-3: 200 Mbit/s at 40 Gbit/s; HPCC simulator run.py: 200 Mbit/s at 100 Gbit/s",
                help: "Hyper increase of the target.",
            },
            |c| &mut c.r_hai,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "clamp_target",
                unit: "-",
                range: "on or off",
                symbol: "CLAMP_TARGET_RATE",
                source: "HPCC simulator config.txt",
                help: "Lower the target at every cut, also at one that follows another (simulator variant).",
            },
            |c| &mut c.clamp_target,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "cnp_interval",
                unit: "s",
                range: "a time above 0",
                symbol: "N",
                source: "DCQCN §3.2",
                help: "The receiver sends a flow at most one CNP in this time (paper variant).",
            },
            |c| &mut c.cnp_interval,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "ecn",
                unit: "B",
                range: MARKING_OR_VARIANT,
                symbol: "Kmin, Kmax, Pmax",
                source: "DCQCN §5; HPCC §5.1",
                help: "Where switches mark, unless the experiment says.",
            },
            |c| &mut c.ecn,
        ),
        ParameterOf::new(
            ParameterInfo {
                name: "short_first",
                unit: "B",
                range: "off or a size above 0",
                symbol: "Pri-Q",
                source: "Dart §VI-B: two priority levels, short flows over long ones",
                help: "Messages up to this size go before longer ones, at the NIC and in switches.",
            },
            |c| &mut c.short_first,
        ),
    ];
    let pacing = PacingConfig::parameters("DCQCN §3.3 regulates a rate; HPCC simulator's *_vwin: varying");
    own.into_iter().chain(part(pacing, |c: &mut Dcqcn| &mut c.pacing)).collect()
}

/// The parameters where DCQCN is what is left under Dart: the paper's variant it is, and marking is Dart's.
pub(in crate::schemes) fn parameters_below_dart() -> Vec<ParameterOf<Dcqcn>> {
    const NOT_THERE: [&str; 5] = ["variant", "decrease_timer", "clamp_target", "ecn", "short_first"];
    let mut parameters = parameters();
    parameters.retain(|k| !NOT_THERE.contains(&k.info.name));
    parameters
}

const MARKING_OR_VARIANT: &str = "variant (paper 5KB-200KB:0.01/40Gbps, simulator 100KB-400KB:0.2/25Gbps), \
                                  K/rate for a step, or Kmin-Kmax:Pmax/rate";
