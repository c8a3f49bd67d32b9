//! Units of the values in `summary.json`, which the names of their keys end with.

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueUnit {
    Microseconds,
    Gbps,
    Bytes,
    /// Counts and ratios.
    None,
}

impl ValueUnit {
    /// Returns the unit of a key: microseconds for `mean_us`. `None` if the key does not say; then a key around it may.
    pub fn of_key(key: &str) -> Option<ValueUnit> {
        match key.rsplit_once('_')?.1 {
            "us" => Some(ValueUnit::Microseconds),
            "gbps" => Some(ValueUnit::Gbps),
            "bytes" => Some(ValueUnit::Bytes),
            _ => None,
        }
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
            ValueUnit::Bytes => "bytes",
            ValueUnit::None => "",
        }
    }

    /// Converts a value of a scale model, which ran `slowdown` times slower, to full speed.
    pub fn at_full_speed(self, value: f64, slowdown: f64) -> f64 {
        match self {
            ValueUnit::Microseconds => value / slowdown,
            ValueUnit::Gbps => value * slowdown,
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
    }
}
