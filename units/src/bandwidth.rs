use crate::parse::{ParseUnitError, UnitSystem, format_quantity};
use crate::{Bytes, Time};
use std::{fmt, ops, str::FromStr};

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

const PS_PER_SECOND: u64 = 1_000_000_000_000;

const SYSTEM: UnitSystem = UnitSystem {
    quantity: "rate",
    example: "100Gbps or 10Mbps",
    suffixes: &[
        ("bps", 1),
        ("Kbps", 1_000),
        ("kbps", 1_000),
        ("Mbps", 1_000_000),
        ("Gbps", 1_000_000_000),
        ("Tbps", 1_000_000_000_000),
        ("bit/s", 1),
        ("Kbit/s", 1_000),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
        ("Mb/s", 1_000_000),
        ("Gb/s", 1_000_000_000),
    ],
};

impl Bandwidth {
    /// Returns a regular expression (ECMA 262) for the text form, for JSON Schemas. It does not check range and precision.
    pub fn pattern() -> String {
        SYSTEM.pattern()
    }
    /// 0 bit/s.
    pub const ZERO: Bandwidth = Bandwidth(0);

    /// Creates a rate from bits per second.
    pub const fn from_bps(bps: u64) -> Bandwidth {
        Bandwidth(bps)
    }
    /// Creates a rate from megabits (10^6) per second.
    pub const fn from_mbps(mbps: u64) -> Bandwidth {
        Bandwidth(mbps * 1_000_000)
    }
    /// Creates a rate from gigabits (10^9) per second.
    pub const fn from_gbps(gbps: u64) -> Bandwidth {
        Bandwidth(gbps * 1_000_000_000)
    }
    /// Creates a rate from bits per second, rounded; negative and NaN give zero.
    pub fn from_bps_f64(bps: f64) -> Bandwidth {
        Bandwidth(bps.round() as u64)
    }
    /// Returns the rate in bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Returns the rate in bits per second, for ratios.
    pub fn as_bps_f64(self) -> f64 {
        self.0 as f64
    }
    /// Returns the rate in bytes per second, for ratios.
    pub fn as_bytes_per_sec_f64(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Returns the time to serialise `bytes`, rounded up to a picosecond; [`Time::MAX`] at rate zero.
    ///
    /// ```
    /// # use weir_units::*;
    /// assert_eq!(Bandwidth::from_gbps(100).tx_time(Bytes::new(1518)), Time::from_ps(121_440));
    /// ```
    pub fn tx_time(self, bytes: Bytes) -> Time {
        const PS_BITS: u64 = 8 * PS_PER_SECOND;
        if self.0 == 0 {
            return Time::MAX;
        }
        // Fast path: frames fit 64-bit arithmetic; only bulk sizes need the slower 128-bit division.
        match bytes.get().checked_mul(PS_BITS) {
            Some(scaled) => Time::from_ps(scaled.div_ceil(self.0)),
            None => {
                let scaled = u128::from(bytes.get()) * u128::from(PS_BITS);
                Time::from_ps(u64::try_from(scaled.div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns when the last bit of `bytes` is sent that are ready at `now`, by a transmitter that is free at `free_at`.
    #[inline]
    pub fn end_of_tx(self, free_at: Time, now: Time, bytes: Bytes) -> Time {
        free_at.max(now) + self.tx_time(bytes)
    }

    /// Returns the number of whole bytes sent in `time`.
    pub fn bytes_in(self, time: Time) -> Bytes {
        let bits = u128::from(self.0) * u128::from(time.as_ps()) / u128::from(PS_PER_SECOND);
        Bytes::new(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }
}

impl ops::Add for Bandwidth {
    type Output = Bandwidth;
    fn add(self, other: Bandwidth) -> Bandwidth {
        Bandwidth(self.0 + other.0)
    }
}
impl ops::Mul<u64> for Bandwidth {
    type Output = Bandwidth;
    fn mul(self, n: u64) -> Bandwidth {
        Bandwidth(self.0 * n)
    }
}
impl ops::Div<u64> for Bandwidth {
    type Output = Bandwidth;
    fn div(self, n: u64) -> Bandwidth {
        Bandwidth(self.0 / n)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: &[(&str, u64)] = &[
            ("Tbps", 1_000_000_000_000),
            ("Gbps", 1_000_000_000),
            ("Mbps", 1_000_000),
            ("Kbps", 1_000),
            ("bps", 1),
        ];
        format_quantity(f, self.0, UNITS)
    }
}

impl FromStr for Bandwidth {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Bandwidth, ParseUnitError> {
        SYSTEM.parse(text).map(Bandwidth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialisation_is_exact() {
        assert_eq!(Bandwidth::from_gbps(400).tx_time(Bytes::new(1)), Time::from_ps(20));
        assert_eq!(Bandwidth::from_mbps(10).tx_time(Bytes::new(1500)), Time::from_us(1200));
        // 1 GB exceeds the range of the 64-bit fast path.
        assert_eq!(Bandwidth::from_gbps(100).tx_time(Bytes::new(1_000_000_000)), Time::from_ms(80));
        assert_eq!(Bandwidth::ZERO.tx_time(Bytes::new(1)), Time::MAX);
        assert_eq!(Bandwidth::from_gbps(100).bytes_in(Time::from_us(12)), Bytes::new(150_000));
    }

    #[test]
    fn parses_and_prints() {
        for text in ["100Gbps", "10Mbps", "1.5Gbps", "1bps", "0bps", "800Gbps"] {
            assert_eq!(text.parse::<Bandwidth>().unwrap().to_string(), text);
        }
        assert_eq!("10 Mbit/s".parse(), Ok(Bandwidth::from_mbps(10)));
        let error = "100".parse::<Bandwidth>().unwrap_err().to_string();
        assert_eq!(error, "rate \"100\" has no unit, write it like 100Gbps or 10Mbps");
    }

    #[test]
    fn a_unit_in_another_case_or_shortened_has_a_suggestion() {
        let error = |text: &str| text.parse::<Bandwidth>().unwrap_err().to_string();
        assert_eq!(
            error("100gbps"),
            "rate \"100gbps\" has an unknown unit \"gbps\"; did you mean \"100Gbps\"?"
        );
        assert!(error("1.5 MBIT/S").ends_with("; did you mean \"1.5Mbit/s\"?"));
        assert!(error("100Gb").ends_with("; did you mean \"100Gbps\"?"));
        assert!(error("1K").ends_with("; did you mean \"1Kbps\"?"));
        assert!(error("100parsecs").ends_with(", write it like 100Gbps or 10Mbps"));
        let bytes = |text: &str| text.parse::<Bytes>().unwrap_err().to_string();
        assert!(bytes("64kb").ends_with("; did you mean \"64KB\"?") && bytes("2mib").contains("\"2MiB\""));
        assert!(!bytes("64K").contains("mean"), "KB and KiB differ");
        let time = |text: &str| text.parse::<Time>().unwrap_err().to_string();
        assert!(
            time("5US").ends_with("; did you mean \"5us\"?") && !time("5m").contains("mean"),
            "ms or min"
        );
    }
}
