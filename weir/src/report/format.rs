//! Numbers as people read them.

use weir_units::Time;

/// A count, its digits in groups of three: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with this many decimals, its whole part in groups of three.
pub fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A number of unknown size with three significant digits: `0.625`, `12.3`, `1,240`.
pub fn significant(value: f64) -> String {
    match value.abs() {
        v if v == 0.0 || v >= 99.95 => decimal(value, 0),
        v if v >= 9.995 => decimal(value, 1),
        v if v >= 0.9995 => decimal(value, 2),
        _ => decimal(value, 3),
    }
}

/// Bytes in the unit that reads best, with three significant digits: `12.3 KB`.
pub fn bytes(bytes: f64) -> String {
    let (unit, scale) = match bytes {
        b if b >= 1e9 => ("GB", 1e9),
        b if b >= 1e6 => ("MB", 1e6),
        b if b >= 1e3 => ("KB", 1e3),
        _ => ("B", 1.0),
    };
    format!("{} {unit}", significant(bytes / scale))
}

/// As [`bytes`], without decimals that say nothing, for the ticks of an axis: `5 KB`.
pub fn bytes_short(value: f64) -> String {
    let text = bytes(value);
    match text.split_once(' ') {
        Some((number, unit)) => format!("{} {unit}", short(number)),
        None => text,
    }
}

/// As [`significant`], without decimals that say nothing, for the ticks of an axis: `5`.
pub fn significant_short(value: f64) -> String {
    short(&significant(value)).to_owned()
}

fn short(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// A time in microseconds, exact to the picosecond: `12.48576`.
pub fn micros(time: Time) -> String {
    const PS: u64 = 1_000_000;
    let (whole, rest) = (time.as_ps() / PS, time.as_ps() % PS);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{}", format!("{rest:06}").trim_end_matches('0'))
}

/// A flow's name with an arrow.
pub fn flow(name: &str) -> String {
    name.replace("->", "→")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_digits() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1_000, 1_234_567].map(count));
        assert_eq!(decimal(-1234.56, 1), "-1,234.6");
        assert_eq!(decimal(999.97, 1), "1,000.0");
    }

    #[test]
    fn three_digits_are_enough() {
        assert_eq!(
            [0.0, 0.6249, 1.0, 12.34, 99.99, 1240.4].map(significant),
            ["0", "0.625", "1.00", "12.3", "100", "1,240"]
        );
        assert_eq!([0.0, 999.0, 12_340.0, 2.5e6].map(bytes), ["0 B", "999 B", "12.3 KB", "2.50 MB"]);
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!([1e3, 1.5e3, 2e5, 1e6].map(bytes_short), ["1 KB", "1.5 KB", "200 KB", "1 MB"]);
        assert_eq!([1.0, 1.5, 10.0, 100.0].map(significant_short), ["1", "1.5", "10", "100"]);
    }

    #[test]
    fn micros_are_exact() {
        assert_eq!(micros(Time::from_ps(12_485_760)), "12.48576");
        assert_eq!(micros(Time::from_us(300)), "300");
        assert_eq!(micros(Time::from_ps(1)), "0.000001");
    }
}
