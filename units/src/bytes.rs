use crate::parse::{ParseUnitError, UnitSystem, format_quantity};
use std::{fmt, ops, str::FromStr};

/// An amount of data. `KB` is 1000 bytes, `KiB` is 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

const SYSTEM: UnitSystem = UnitSystem {
    quantity: "size",
    example: "1518B, 500KB or 2MiB",
    suffixes: &[
        ("B", 1),
        ("KB", 1_000),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
};

impl Bytes {
    /// Returns a regular expression (ECMA 262) for the text form, for JSON Schemas. It does not check range and precision.
    pub fn pattern() -> String {
        SYSTEM.pattern()
    }
    /// 0 bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// The largest value; used for "no limit", such as a window that is switched off.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// Creates a size from a number of bytes.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }
    /// Creates a size from kilobytes of 1000 bytes.
    pub const fn from_kb(kb: u64) -> Bytes {
        Bytes(kb * 1_000)
    }
    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// Returns the number of bytes as a float, for ratios.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
    /// Returns the difference, or zero if `other` is larger.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl ops::Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}
impl ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}
impl ops::Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}
impl ops::SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}
impl ops::Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, n: u64) -> Bytes {
        Bytes(self.0 * n)
    }
}
impl ops::Div<u64> for Bytes {
    type Output = Bytes;
    fn div(self, n: u64) -> Bytes {
        Bytes(self.0 / n)
    }
}
impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, ops::Add::add)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: &[(&str, u64)] =
            &[("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000), ("B", 1)];
        const BINARY: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        // A multiple of 1 KiB and not of 1000 bytes was most likely written in a binary unit.
        let is_binary = self.0 > 0 && self.0.is_multiple_of(1 << 10) && !self.0.is_multiple_of(1_000);
        let is_short = self.0 < 10_000 && !self.0.is_multiple_of(100);
        match (is_binary, is_short) {
            (true, _) => format_quantity(f, self.0, BINARY),
            (_, true) => f.pad(&format!("{}B", self.0)),
            _ => format_quantity(f, self.0, UNITS),
        }
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Bytes, ParseUnitError> {
        SYSTEM.parse(text).map(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_decimal_and_binary_prefixes() {
        assert_eq!("500KB".parse(), Ok(Bytes::new(500_000)));
        assert_eq!("32MiB".parse(), Ok(Bytes::new(32 << 20)));
        assert_eq!("1518B".parse(), Ok(Bytes::new(1518)));
        assert!("1500".parse::<Bytes>().unwrap_err().to_string().contains("has no unit"));
        assert!("-1KB".parse::<Bytes>().unwrap_err().to_string().contains("is negative"));
        assert!("0.5B".parse::<Bytes>().unwrap_err().to_string().contains("more precision"));
    }

    #[test]
    fn printed_values_parse_back() {
        for n in [0, 1, 999, 1_000, 1_024, 15_180, 500_000, 1 << 30, u64::MAX] {
            assert_eq!(Bytes::new(n).to_string().parse(), Ok(Bytes::new(n)));
        }
        for (bytes, text) in [(22_500, "22.5KB"), (1518, "1518B"), (32 << 20, "32MiB"), (1_500, "1.5KB")] {
            assert_eq!(Bytes::new(bytes).to_string(), text);
        }
    }
}
