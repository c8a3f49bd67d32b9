use crate::parse::{ParseUnitError, UnitSystem, format_quantity};
use std::{fmt, ops, str::FromStr};

/// A point in time or a duration, in integer picoseconds. The range is 213 days.
///
/// One byte at 400 Gbit/s takes 20 ps, so the time of a byte is exact at the usual link rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

const SYSTEM: UnitSystem = UnitSystem {
    quantity: "time",
    example: "1.5us, 300ns or 1ms",
    suffixes: &[
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("µs", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", 1_000_000_000_000),
        ("min", 60_000_000_000_000),
    ],
};

impl Time {
    /// Returns a regular expression (ECMA 262) for the text form, for JSON Schemas. It does not check range and precision.
    pub fn pattern() -> String {
        SYSTEM.pattern()
    }
    /// Start of a run, or an empty duration.
    pub const ZERO: Time = Time(0);
    /// The largest value; used for "never". Additions to it must saturate.
    pub const MAX: Time = Time(u64::MAX);

    /// Creates a time from picoseconds.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    /// Creates a time from nanoseconds.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * 1_000)
    }
    /// Creates a time from microseconds.
    pub const fn from_us(us: u64) -> Time {
        Time(us * 1_000_000)
    }
    /// Creates a time from milliseconds.
    pub const fn from_ms(ms: u64) -> Time {
        Time(ms * 1_000_000_000)
    }
    /// Creates a time from seconds.
    pub const fn from_secs(s: u64) -> Time {
        Time(s * 1_000_000_000_000)
    }
    /// Creates a time from seconds, rounded to the nearest picosecond. Negative values and NaN give zero, values out
    /// of range [`Time::MAX`].
    pub fn from_secs_f64(s: f64) -> Time {
        Time((s * 1e12).round() as u64)
    }
    /// Returns the time in picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Returns the time in whole nanoseconds, rounded down.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }
    /// Returns the time in whole microseconds, rounded down.
    pub const fn as_us(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Returns the time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-12
    }
    /// Returns the time in microseconds.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 * 1e-6
    }
    /// Returns the difference, or zero if `other` is later.
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
    /// Returns the earlier of two times, each of which may be missing.
    #[inline]
    pub fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
    /// Returns the sum, or [`Time::MAX`].
    pub const fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
    /// Returns the product, or [`Time::MAX`].
    pub const fn saturating_mul(self, n: u64) -> Time {
        Time(self.0.saturating_mul(n))
    }
    /// Returns the difference, or `None` if `other` is later.
    pub fn checked_sub(self, other: Time) -> Option<Time> {
        self.0.checked_sub(other.0).map(Time)
    }
}

impl ops::Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}
impl ops::AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}
impl ops::Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}
impl ops::Mul<u64> for Time {
    type Output = Time;
    fn mul(self, n: u64) -> Time {
        Time(self.0 * n)
    }
}
impl ops::Div<u64> for Time {
    type Output = Time;
    fn div(self, n: u64) -> Time {
        Time(self.0 / n)
    }
}
/// The number of whole times that the divisor fits.
impl ops::Div for Time {
    type Output = u64;
    fn div(self, other: Time) -> u64 {
        self.0 / other.0
    }
}
impl ops::Rem for Time {
    type Output = Time;
    fn rem(self, other: Time) -> Time {
        Time(self.0 % other.0)
    }
}
impl std::iter::Sum for Time {
    fn sum<I: Iterator<Item = Time>>(iter: I) -> Time {
        iter.fold(Time::ZERO, ops::Add::add)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: &[(&str, u64)] =
            &[("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];
        if self.0 == 0 { f.pad("0s") } else { format_quantity(f, self.0, UNITS) }
    }
}

impl FromStr for Time {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Time, ParseUnitError> {
        SYSTEM.parse(text).map(Time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_common_spellings() {
        assert_eq!("1.5us".parse(), Ok(Time::from_ns(1500)));
        assert_eq!("300 ns".parse(), Ok(Time::from_ns(300)));
        assert_eq!("0.000001s".parse(), Ok(Time::from_us(1)));
        assert_eq!("0".parse(), Ok(Time::ZERO));
    }

    #[test]
    fn refuses_with_a_reason() {
        let message = |text: &str| text.parse::<Time>().unwrap_err().to_string();
        assert_eq!(message("5"), "time \"5\" has no unit, write it like 1.5us, 300ns or 1ms");
        assert_eq!(message("-5us"), "time \"-5us\" is negative, write it like 1.5us, 300ns or 1ms");
        assert_eq!(message("us"), "\"us\" is not a time, write it like 1.5us, 300ns or 1ms");
        assert!(message("5lightyears").contains("unknown unit \"lightyears\""));
        assert!(message("0.5ps").contains("more precision"));
        assert!(message("99999999999999999999999999999999999999999s").contains("too large"));
    }

    #[test]
    fn printed_values_parse_back() {
        for ps in [0, 1, 999, 1_000, 1_500, 121_440, 12_485_760, 1_000_000_000_000, u64::MAX] {
            let time = Time::from_ps(ps);
            assert_eq!(time.to_string().parse(), Ok(time), "{time}");
        }
        assert_eq!(Time::from_ps(1_500_000).to_string(), "1.5us");
    }
}
