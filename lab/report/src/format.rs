//! Formats numbers for the report.

use std::time::{SystemTime, UNIX_EPOCH};
use weir_units::Time;

/// Formats a count with thousands separators: `1,234,567`.
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

/// Formats a number with this many decimals and thousands separators.
pub fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// Formats a number with three significant digits: `0.625`, `12.3`, `1,240`.
pub fn significant(value: f64) -> String {
    match value.abs() {
        v if v == 0.0 || v >= 99.95 => decimal(value, 0),
        v if v >= 9.995 => decimal(value, 1),
        v if v >= 0.9995 => decimal(value, 2),
        _ => decimal(value, 3),
    }
}

/// Formats bytes in a suitable unit with three significant digits: `12.3 KB`.
pub fn bytes(bytes: f64) -> String {
    let (unit, scale) = match bytes {
        b if b >= 1e9 => ("GB", 1e9),
        b if b >= 1e6 => ("MB", 1e6),
        b if b >= 1e3 => ("KB", 1e3),
        _ => ("B", 1.0),
    };
    format!("{} {unit}", significant(bytes / scale))
}

/// Formats the sizes of a class, above `over` and up to `upto` bytes: `up to 100 KB`, `100 KB to 1 MB`, `above 1 MB`.
pub fn size_range(over: u64, upto: Option<u64>) -> String {
    let text = |bytes: u64| bytes_short(bytes as f64);
    match (over, upto) {
        (0, None) => "all sizes".to_owned(),
        (0, Some(upto)) => format!("up to {}", text(upto)),
        (over, Some(upto)) => format!("{} to {}", text(over), text(upto)),
        (over, None) => format!("above {}", text(over)),
    }
}

/// Like [`bytes`], without trailing zeros, for ticks of an axis: `5 KB`.
pub fn bytes_short(value: f64) -> String {
    let text = bytes(value);
    match text.split_once(' ') {
        Some((number, unit)) => format!("{} {unit}", short(number)),
        None => text,
    }
}

/// Like [`significant`], without trailing zeros, for ticks of an axis: `5`.
pub fn significant_short(value: f64) -> String {
    short(&significant(value)).to_owned()
}

/// Removes trailing zeros after the decimal point.
fn short(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Formats a time in microseconds, exact to the picosecond: `12.48576`.
pub fn micros(time: Time) -> String {
    const PS: u64 = 1_000_000;
    let (whole, rest) = (time.as_ps() / PS, time.as_ps() % PS);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{}", format!("{rest:06}").trim_end_matches('0'))
}

/// Formats a time in a suitable unit with three significant digits: `3.02 s`, `27.2 h`.
pub fn duration(time: Time) -> String {
    let seconds = time.as_secs_f64();
    let (unit, scale) = match seconds {
        s if s >= 3600.0 => ("h", 3600.0),
        s if s >= 120.0 => ("min", 60.0),
        s if s >= 1.0 => ("s", 1.0),
        s if s >= 1e-3 => ("ms", 1e-3),
        s if s >= 1e-6 || s == 0.0 => ("us", 1e-6),
        _ => ("ns", 1e-9),
    };
    format!("{} {unit}", significant_short(seconds / scale))
}

/// Formats a time in UTC as in RFC 3339, with milliseconds: `2026-11-23T11:49:06.120Z`.
pub fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, ms) = (since.as_secs(), since.subsec_millis());
    // Hinnant's civil_from_days: eras of 400 years that begin on 1 March, so that leap days are at the end of a year.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = 400 * era + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Returns the name of a flow with an arrow character in place of `->`.
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
    fn numbers_have_three_significant_digits() {
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
    fn durations_have_three_digits() {
        let times = [
            Time::from_ps(3_017_049_600_000),
            Time::from_secs_f64(98_862.681),
            Time::from_ns(1_500),
            Time::ZERO,
        ];
        assert_eq!(times.map(duration), ["3.02 s", "27.5 h", "1.5 us", "0 us"]);
    }

    #[test]
    fn times_are_in_utc() {
        let at = |ms: u64| utc(UNIX_EPOCH + std::time::Duration::from_millis(ms));
        // The expected values are from `date -u -d @951782400.5`.
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_400_500), "2000-02-29T00:00:00.500Z");
        assert_eq!(at(1_795_433_346_120), "2026-11-23T11:29:06.120Z");
        assert_eq!(at(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
        assert_eq!(at(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn micros_are_exact() {
        assert_eq!(micros(Time::from_ps(12_485_760)), "12.48576");
        assert_eq!(micros(Time::from_us(300)), "300");
        assert_eq!(micros(Time::from_ps(1)), "0.000001");
    }
}
