use std::{fmt, str::FromStr};

/// A dimensionless factor such as eta or a load: `0.95` or `95%`. Never negative, never NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// The ratio 1, or 100 %.
    pub const ONE: Ratio = Ratio(1.0);

    /// Creates a ratio; `None` if `value` is negative or not finite.
    pub fn new(value: f64) -> Option<Ratio> {
        (value.is_finite() && value >= 0.0).then_some(Ratio(value))
    }

    /// Creates the limit of a range, a literal that is neither negative nor infinite.
    ///
    /// # Panics
    ///
    /// If it is.
    pub const fn limit(value: f64) -> Ratio {
        assert!(value >= 0.0 && value < f64::INFINITY);
        Ratio(value)
    }

    /// A regular expression (ECMA 262) for the text form, for JSON Schemas.
    pub const PATTERN: &str = r"^\s*\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*%?\s*$";

    /// Returns why this share is not at most 1: `140 % is more than 100 %`. A number such as 60 may have been meant in
    /// percent, which the text then suggests.
    pub fn exceeds_one(self) -> String {
        // 1.4 is 140 %, and nobody writes 500 % or more.
        let is_percent = (5.0..=100.0).contains(&self.0);
        let suggestion = if is_percent { format!("; did you mean {self}%?") } else { String::new() };
        // Rounded, as 1.1 has no exact binary fraction.
        let percent = (self.0 * 1e8).round() / 1e6;
        format!("{percent} % is more than 100 %{suggestion}")
    }

    /// Returns the ratio as a float.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Ratio {
    type Err = String;
    fn from_str(text: &str) -> Result<Ratio, String> {
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        number
            .parse::<f64>()
            .ok()
            .and_then(|n| Ratio::new(n / scale))
            .ok_or_else(|| format!("\"{text}\" is not a ratio, write it like 0.95 or 95%"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_meant_in_percent_has_a_suggestion() {
        let reason = |text: &str| text.parse::<Ratio>().unwrap().exceeds_one();
        assert_eq!(reason("60"), "6000 % is more than 100 %; did you mean 60%?");
        assert_eq!(reason("140%"), "140 % is more than 100 %");
        assert_eq!(reason("1.1"), "110 % is more than 100 %");
    }

    #[test]
    fn parses_fractions_and_percent() {
        assert_eq!("95%".parse(), Ok(Ratio(0.95)));
        assert_eq!("0.95".parse::<Ratio>().unwrap().to_string(), "0.95");
        for bad in ["-1", "NaN", "inf", "", "5x"] {
            assert!(bad.parse::<Ratio>().unwrap_err().contains("write it like"), "{bad}");
        }
    }
}
