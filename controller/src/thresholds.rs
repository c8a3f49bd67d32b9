//! Queue length thresholds of ports: for ECN marking, and for deflection. They may be given for one port rate, and then
//! scale with the rate of each port.

use crate::topology::AsText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use thiserror::Error;
use weir_units::{Bandwidth, Bytes, Ratio};

/// ECN marking thresholds: no packet is marked up to `kmin`, every packet above `kmax`, and in between the probability
/// rises linearly to `pmax`. `kmin` = `kmax` is DCTCP's step.
///
/// With `per`, the thresholds apply to a port of that rate and scale with the rate of each port. HPCC §5.1 uses
/// `kmin: 100KB, kmax: 400KB, per: 25Gbps` for DCQCN and `kmin: 30KB, kmax: 30KB, per: 10Gbps` for DCTCP.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EcnConfig {
    /// Queue length up to which no packet is marked.
    #[serde_as(as = "AsText")]
    pub kmin: Bytes,
    /// Queue length above which every packet is marked.
    #[serde_as(as = "AsText")]
    pub kmax: Bytes,
    /// Marking probability just below `kmax`.
    #[serde_as(as = "AsText")]
    #[schemars(extend("maximum" = 1))]
    pub pmax: Ratio,
    /// Port rate for which the thresholds are given; they scale with each port's rate. Absent: they apply unscaled.
    #[serde_as(as = "Option<AsText>")]
    #[serde(rename = "per", default)]
    pub reference_rate: Option<Bandwidth>,
}

/// The ECN thresholds of one port, as `p4src/controls/ecn.p4` reads them: the marking probability rises linearly, as a
/// ramp, from `kmin` to `kmax`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnRamp {
    /// Queue length up to which no packet is marked, in bytes.
    pub kmin: u32,
    /// Queue length above which every packet is marked, in bytes; 0: never mark.
    pub kmax: u32,
    /// Probability per byte above `kmin`, in units of 2^-32.
    pub slope: u32,
}

/// Invalid ECN thresholds.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum EcnError {
    #[error("kmin {kmin} is above kmax {kmax}")]
    Order { kmin: Bytes, kmax: Bytes },
    /// Every packet would be marked.
    #[error("kmax is zero; leave ecn out to mark nothing")]
    ZeroKmax,
    #[error("pmax of {}", .0.exceeds_one())]
    Probability(Ratio),
    #[error("per is zero")]
    ZeroReferenceRate,
    /// A threshold does not fit the table.
    #[error("kmax is {kmax} on a port of {rate}, and switches support at most {}B", u32::MAX)]
    TooLarge { kmax: Bytes, rate: Bandwidth },
}

impl EcnError {
    /// Returns the key of [`EcnConfig`] to which the error refers.
    pub fn key(&self) -> &'static str {
        match self {
            EcnError::Order { .. } => "kmin",
            EcnError::ZeroKmax | EcnError::TooLarge { .. } => "kmax",
            EcnError::Probability(_) => "pmax",
            EcnError::ZeroReferenceRate => "per",
        }
    }
}

impl EcnConfig {
    /// Returns the ECN thresholds of a port of this rate.
    ///
    /// # Errors
    ///
    /// `kmin` is above `kmax`, `kmax` is 0, `pmax` is above 1, `per` is 0, or a scaled threshold does not fit in 32
    /// bits.
    pub fn ramp(&self, rate: Bandwidth) -> Result<EcnRamp, EcnError> {
        if self.kmin > self.kmax {
            return Err(EcnError::Order { kmin: self.kmin, kmax: self.kmax });
        }
        if self.kmax == Bytes::ZERO {
            return Err(EcnError::ZeroKmax);
        }
        if self.pmax.get() > 1.0 {
            return Err(EcnError::Probability(self.pmax));
        }
        let reference_rate = self.reference_rate.unwrap_or(rate);
        if reference_rate == Bandwidth::ZERO {
            return Err(EcnError::ZeroReferenceRate);
        }
        let scale = |threshold| {
            scale(threshold, rate, reference_rate).map_err(|kmax| EcnError::TooLarge { kmax, rate })
        };
        // A small kmax on a slow port may round to 0, which the switch takes for "never mark". The configuration means
        // the opposite, marking nearly every packet, so use at least 1.
        let (kmin, kmax) = (scale(self.kmin)?, scale(self.kmax)?.max(1));
        // In units of 2^-32 per byte; u32::MAX stands for probability 1.
        let slope = match kmax - kmin {
            0 => 0,
            width => (self.pmax.get() * f64::from(u32::MAX) / f64::from(width)) as u32,
        };
        Ok(EcnRamp { kmin, kmax, slope })
    }
}

/// Scales a threshold that holds for ports of `reference_rate` to a port of `rate`. The error is the scaled value if it
/// does not fit in 32 bits.
fn scale(threshold: Bytes, rate: Bandwidth, reference_rate: Bandwidth) -> Result<u32, Bytes> {
    let bytes = u128::from(threshold.get()) * u128::from(rate.as_bps()) / u128::from(reference_rate.as_bps());
    u32::try_from(bytes).map_err(|_| Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)))
}

/// Deflection of packets from congested ports to other ports of the switch, called IOFD in Dart
/// (docs/algorithms/dart.md#iofd). In Dart's paper the threshold is 15 KB, below its ECN threshold of 22.5 KB.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeflectionConfig {
    /// Queue length above which a port is congested.
    #[serde_as(as = "AsText")]
    pub threshold: Bytes,
    /// Port rate for which the threshold is given; it scales with the rate of each port. Absent: it applies unscaled.
    #[serde_as(as = "Option<AsText>")]
    #[serde(rename = "per", default)]
    pub reference_rate: Option<Bandwidth>,
    /// Also deflects packets from congested ports that lead to hosts. Such a packet leaves for another switch, and
    /// comes back to this one later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_hosts: bool,
    /// Number of ticks of the switch's clock (1 us on BMv2) without a packet of a deflected message after which the
    /// switch may forget the message and reuse its entry; 0: never.
    #[serde(default = "default_lifetime")]
    pub lifetime: u64,
    /// Number of tokens of a new packet, up to [`MAX_DEFLECTIONS`]: each deflection takes one, so this is the maximum
    /// number of deflections per packet. Each needs two priority queues of its own.
    #[serde(default = "default_tokens")]
    pub tokens: u8,
}

/// 100 ms in ticks of BMv2's clock: the hosts' longest default of the retransmission timeout.
fn default_lifetime() -> u64 {
    100_000
}
fn default_tokens() -> u8 {
    1
}

/// Maximum number of deflections per packet. Of eight priority queues, data and feedback use one each, and each
/// deflection uses two.
pub const MAX_DEFLECTIONS: u8 = 3;

/// An invalid deflection threshold or number of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeflectionError {
    #[error("deflection: per is zero")]
    ZeroReferenceRate,
    /// The threshold does not fit the table.
    #[error("deflection: the threshold is {threshold} on a port of {rate}, and switches support at most {max}", max = Bytes::new(u32::MAX.into()))]
    TooLarge { threshold: Bytes, rate: Bandwidth },
    /// There are not enough priority queues.
    #[error("deflection: {0} tokens; with eight priority queues at most {MAX_DEFLECTIONS} are possible")]
    Tokens(u8),
}

impl DeflectionConfig {
    /// Checks that there are enough priority queues.
    ///
    /// # Errors
    ///
    /// `tokens` is above [`MAX_DEFLECTIONS`].
    pub fn check(&self) -> Result<(), DeflectionError> {
        if self.tokens > MAX_DEFLECTIONS { Err(DeflectionError::Tokens(self.tokens)) } else { Ok(()) }
    }

    /// Returns the deflection threshold of a port of this rate, in bytes.
    ///
    /// # Errors
    ///
    /// `per` is 0, or the scaled threshold does not fit in 32 bits.
    pub fn scaled_threshold(&self, rate: Bandwidth) -> Result<u32, DeflectionError> {
        let reference_rate = self.reference_rate.unwrap_or(rate);
        if reference_rate == Bandwidth::ZERO {
            return Err(DeflectionError::ZeroReferenceRate);
        }
        scale(self.threshold, rate, reference_rate)
            .map_err(|threshold| DeflectionError::TooLarge { threshold, rate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dcqcn() -> EcnConfig {
        EcnConfig {
            kmin: Bytes::from_kb(100),
            kmax: Bytes::from_kb(400),
            pmax: "0.2".parse().unwrap(),
            reference_rate: Some(Bandwidth::from_gbps(25)),
        }
    }

    #[test]
    fn thresholds_scale_with_the_port() {
        let ramp = dcqcn().ramp(Bandwidth::from_gbps(100)).unwrap();
        assert_eq!((ramp.kmin, ramp.kmax), (400_000, 1_600_000));
        // 0.2 * (2^32 - 1) / 1,200,000 = 715.8
        assert_eq!(ramp.slope, 715);
        let slow = dcqcn().ramp(Bandwidth::from_mbps(1)).unwrap();
        assert_eq!((slow.kmin, slow.kmax), (4, 16));
    }

    #[test]
    fn a_step_has_no_slope_and_a_tiny_threshold_still_marks() {
        let step = EcnConfig { kmin: Bytes::from_kb(30), kmax: Bytes::from_kb(30), ..dcqcn() };
        assert_eq!(step.ramp(Bandwidth::from_gbps(10)).unwrap().slope, 0);
        let tiny = EcnConfig { kmin: Bytes::ZERO, kmax: Bytes::new(1), ..dcqcn() };
        assert_eq!(tiny.ramp(Bandwidth::from_mbps(1)).unwrap().kmax, 1);
    }

    #[test]
    fn deflection_thresholds_scale_too() {
        let dart = DeflectionConfig {
            threshold: Bytes::from_kb(15),
            reference_rate: Some(Bandwidth::from_gbps(10)),
            at_hosts: false,
            lifetime: 0,
            tokens: 3,
        };
        assert_eq!(dart.check(), Ok(()));
        let many = DeflectionConfig { tokens: 4, ..dart }.check().unwrap_err().to_string();
        assert!(many.contains("4 tokens"), "{many}");
        assert_eq!(dart.scaled_threshold(Bandwidth::from_gbps(100)), Ok(150_000));
        assert_eq!(
            DeflectionConfig { reference_rate: None, ..dart }.scaled_threshold(Bandwidth::from_gbps(100)),
            Ok(15_000)
        );
        let error = |config: DeflectionConfig| {
            config.scaled_threshold(Bandwidth::from_gbps(100)).unwrap_err().to_string()
        };
        assert!(
            error(DeflectionConfig { reference_rate: Some(Bandwidth::ZERO), ..dart }).contains("per is zero")
        );
        assert!(error(DeflectionConfig { threshold: Bytes::MAX, ..dart }).contains("at most"));
    }

    #[test]
    fn invalid_ecn_thresholds_are_rejected() {
        let rate = Bandwidth::from_gbps(100);
        let error = |config: EcnConfig| config.ramp(rate).unwrap_err().to_string();
        assert_eq!(
            error(EcnConfig { kmin: Bytes::from_kb(500), ..dcqcn() }),
            "kmin 500KB is above kmax 400KB"
        );
        assert!(
            error(EcnConfig { kmin: Bytes::ZERO, kmax: Bytes::ZERO, ..dcqcn() }).contains("kmax is zero")
        );
        assert!(error(EcnConfig { pmax: "150%".parse().unwrap(), ..dcqcn() }).contains("more than 100 %"));
        assert!(
            error(EcnConfig { reference_rate: Some(Bandwidth::ZERO), ..dcqcn() }).contains("per is zero")
        );
        assert!(error(EcnConfig { kmax: Bytes::MAX, ..dcqcn() }).contains("at most"));
    }
}
