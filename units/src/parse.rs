//! Parses and prints decimal numbers with a unit, without rounding through floats.

use std::fmt;

/// The reason why a text is not a valid quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseUnitError {
    text: String,
    quantity: &'static str,
    problem: ParseErrorKind,
    example: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ParseErrorKind {
    NotANumber,
    Negative,
    NoUnit,
    UnknownUnit {
        unit: String,
        /// The text with the unit that was probably meant.
        meant: Option<String>,
    },
    TooLarge {
        /// The largest value, in the unit of the text.
        max: String,
    },
    TooFine,
}

impl fmt::Display for ParseUnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, quantity, problem, example } = self;
        match problem {
            ParseErrorKind::NotANumber => write!(f, "\"{text}\" is not a {quantity}")?,
            ParseErrorKind::Negative => write!(f, "{quantity} \"{text}\" is negative")?,
            ParseErrorKind::NoUnit => write!(f, "{quantity} \"{text}\" has no unit")?,
            ParseErrorKind::UnknownUnit { unit, meant } => {
                write!(f, "{quantity} \"{text}\" has an unknown unit \"{unit}\"")?;
                if let Some(meant) = meant {
                    return write!(f, "; did you mean \"{meant}\"?");
                }
            }
            ParseErrorKind::TooLarge { max } => {
                return write!(f, "{quantity} \"{text}\" is too large; the largest is {max}");
            }
            ParseErrorKind::TooFine => {
                write!(f, "{quantity} \"{text}\" has more precision than can be represented")?
            }
        }
        write!(f, ", write it like {example}")
    }
}

impl std::error::Error for ParseUnitError {}

/// A system of units.
pub(crate) struct UnitSystem {
    /// Name of the quantity in messages.
    pub quantity: &'static str,
    pub example: &'static str,
    /// Suffixes, each with its multiple of the smallest unit.
    pub suffixes: &'static [(&'static str, u64)],
}

impl UnitSystem {
    /// Returns a regular expression (ECMA 262) for what [`parse`](Self::parse) accepts, apart from its range and precision.
    pub(crate) fn pattern(&self) -> String {
        let suffixes: Vec<&str> = self.suffixes.iter().map(|(suffix, _)| *suffix).collect();
        const NUMBER: &str = r"([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)";
        format!(r"^\s*({NUMBER}\s*({})|[0_]*0[0_]*(\.[0_]*)?)\s*$", suffixes.join("|"))
    }

    /// Returns the suffix that `wrong` is in another case, or of which it is the beginning: `Gbps` for `gbps` or `Gb`. `None` if
    /// suffixes with different values are possible.
    fn closest_suffix(&self, wrong: &str) -> Option<&'static str> {
        let wrong = wrong.to_lowercase();
        let equal = |suffix: &str| suffix.to_lowercase() == wrong;
        let longer = |suffix: &str| suffix.to_lowercase().starts_with(&wrong);
        let candidates = |is_candidate: &dyn Fn(&str) -> bool| {
            let mut found = self.suffixes.iter().filter(|(suffix, _)| is_candidate(suffix));
            let first = found.next()?;
            found.all(|(_, scale)| *scale == first.1).then_some(first.0)
        };
        candidates(&equal).or_else(|| candidates(&longer))
    }

    /// Parses `<decimal><suffix>` into an exact integer count of the smallest unit.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, ParseUnitError> {
        let error = |problem| ParseUnitError {
            text: text.to_owned(),
            quantity: self.quantity,
            problem,
            example: self.example,
        };
        let trimmed = text.trim();
        if trimmed.starts_with('-') {
            return Err(error(ParseErrorKind::Negative));
        }
        let split =
            trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
        let (number, suffix) = trimmed.split_at(split);
        let suffix = suffix.trim_start();
        let number: String = number.chars().filter(|&c| c != '_').collect();
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
            return Err(error(ParseErrorKind::NotANumber));
        }
        let is_zero = whole.bytes().chain(fraction.bytes()).all(|b| b == b'0');
        let scale = match self.suffixes.iter().find(|(s, _)| *s == suffix) {
            Some(&(_, scale)) => u128::from(scale),
            None if suffix.is_empty() && is_zero => return Ok(0),
            None if suffix.is_empty() => return Err(error(ParseErrorKind::NoUnit)),
            None => {
                let meant = self.closest_suffix(suffix).map(|meant| format!("{number}{meant}"));
                return Err(error(ParseErrorKind::UnknownUnit { unit: suffix.to_owned(), meant }));
            }
        };
        // In the unit of the text.
        let too_large = || {
            let max = format!("{}{suffix}", u128::from(u64::MAX) / scale);
            error(ParseErrorKind::TooLarge { max })
        };
        let fraction = fraction.trim_end_matches('0');
        // Keeps `numerator * scale` within u128. Decimal units never need more than 14 digits; a fraction of a binary
        // unit may need more (2^-20 GiB has 20 digits) and is refused as too fine.
        if fraction.len() > 15 {
            return Err(error(ParseErrorKind::TooFine));
        }
        let whole: u128 = match whole.trim_start_matches('0') {
            "" => 0,
            digits => digits.parse().map_err(|_| too_large())?,
        };
        let numerator: u128 = if fraction.is_empty() { 0 } else { fraction.parse().expect("ASCII digits") };
        let denominator = 10u128.pow(fraction.len() as u32);
        if !(numerator * scale).is_multiple_of(denominator) {
            return Err(error(ParseErrorKind::TooFine));
        }
        whole
            .checked_mul(scale)
            .and_then(|w| w.checked_add(numerator * scale / denominator))
            .and_then(|v| u64::try_from(v).ok())
            .ok_or_else(too_large)
    }
}

/// Prints `count` in the largest of `units` (sorted largest first) that needs at most three decimals, so that the
/// text parses to the same count; otherwise in the smallest unit.
pub(crate) fn format_quantity(f: &mut fmt::Formatter<'_>, count: u64, units: &[(&str, u64)]) -> fmt::Result {
    for &(suffix, scale) in units {
        if count < scale && scale != 1 {
            continue;
        }
        let (whole, rest) = (count / scale, count % scale);
        if rest == 0 {
            return f.pad(&format!("{whole}{suffix}"));
        }
        let thousandths = u128::from(rest) * 1000;
        if thousandths.is_multiple_of(u128::from(scale)) {
            let decimals = format!("{:03}", thousandths / u128::from(scale));
            return f.pad(&format!("{whole}.{}{suffix}", decimals.trim_end_matches('0')));
        }
    }
    let (suffix, _) = units.last().expect("a unit system has units");
    f.pad(&format!("{count}{suffix}"))
}
