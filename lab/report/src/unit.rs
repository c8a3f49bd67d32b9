//! Units of numbers, which their names end with: of the keys of `summary.json`, and of the quantities of senders.

/// Unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueUnit {
    Microseconds,
    Gbps,
    BitsPerSecond,
    Bytes,
    /// Counts, ratios, and units of a scheme's own.
    None,
}

/// The last words of names. A key of `summary.json` ends with the symbol of a unit, a quantity of a sender may also end with
/// what it measures. Keys do not, because some are names that the user has chosen.
const LAST_WORDS: [(&str, ValueUnit); 7] = [
    ("us", ValueUnit::Microseconds),
    ("gbps", ValueUnit::Gbps),
    ("bytes", ValueUnit::Bytes),
    ("rtt", ValueUnit::Microseconds),
    ("delay", ValueUnit::Microseconds),
    ("window", ValueUnit::Bytes),
    ("rate", ValueUnit::BitsPerSecond),
];
/// Number of `LAST_WORDS` that are symbols of units.
const SYMBOLS: usize = 3;

impl ValueUnit {
    /// Returns the unit of a key: microseconds for `mean_us`. `None` if the key does not say; then a key around it may.
    pub fn of_key(key: &str) -> Option<ValueUnit> {
        let (_, last) = key.rsplit_once('_')?;
        LAST_WORDS[..SYMBOLS].iter().find(|(word, _)| *word == last).map(|(_, unit)| *unit)
    }

    /// Returns the unit of a quantity of senders: bytes for `window` and `reference_window`.
    pub fn of_quantity(name: &str) -> ValueUnit {
        let last = name.rsplit('_').next();
        LAST_WORDS.iter().find(|(word, _)| Some(*word) == last).map_or(ValueUnit::None, |(_, unit)| *unit)
    }

    /// Returns the unit at a path of keys: microseconds for `fct.classes.0.fct_us.p99`.
    pub fn of_path(path: &str) -> ValueUnit {
        path.rsplit('.').find_map(ValueUnit::of_key).unwrap_or(ValueUnit::None)
    }

    /// Returns the unit as text; empty for counts and ratios.
    pub fn text(self) -> &'static str {
        match self {
            ValueUnit::Microseconds => "us",
            ValueUnit::Gbps => "Gbit/s",
            ValueUnit::BitsPerSecond => "bit/s",
            ValueUnit::Bytes => "bytes",
            ValueUnit::None => "",
        }
    }

    /// Converts a value of a scale model, which ran `slowdown` times slower, to full speed.
    pub fn at_full_speed(self, value: f64, slowdown: f64) -> f64 {
        match self {
            ValueUnit::Microseconds => value / slowdown,
            ValueUnit::Gbps | ValueUnit::BitsPerSecond => value * slowdown,
            ValueUnit::Bytes | ValueUnit::None => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_that_of_the_innermost_key_with_one() {
        let unit = |path: &str| ValueUnit::of_path(path).text();
        assert_eq!(unit("fct.classes.0.fct_us.p99"), "us");
        assert_eq!(unit("queues.s1:3.peak_bytes"), "bytes");
        assert_eq!(unit("queue_gbps.1"), "Gbit/s");
        assert_eq!((unit("jain"), unit("fct.slowdown.p99")), ("", ""));
        assert_eq!(unit("low_delay.fct.slowdown.p99"), "", "the label of a scheme");
    }

    #[test]
    fn quantities_of_senders_end_with_what_they_measure() {
        let unit = |name: &str| ValueUnit::of_quantity(name).text();
        let names = ["rtt", "target_delay", "reference_window", "rate", "alpha"];
        assert_eq!(names.map(unit), ["us", "us", "bytes", "bit/s", ""]);
    }
}
