//! Conventions of Mininet that the files of p4-utils and of the P4 tutorials share: units, and the order of names.

use super::imported::ImportError;
use serde_json::Value;
use std::cmp::Ordering;
use weir_units::{Bandwidth, RateCode, Time};

/// Converts a rate in Mbit/s. If telemetry has no code for the rate, uses the next higher one and adds a warning.
pub(super) fn rate_of(
    mbps: f64,
    location: &str,
    warnings: &mut Vec<String>,
) -> Result<Bandwidth, ImportError> {
    let invalid = || ImportError::at(location, format!("{mbps} Mbit/s is not a valid bandwidth"));
    if !mbps.is_finite() || mbps <= 0.0 {
        return Err(invalid());
    }
    let exact = Bandwidth::from_bps((mbps * 1e6).round() as u64);
    if RateCode::from_bandwidth(exact).is_some() {
        return Ok(exact);
    }
    let next = RateCode::rates().find(|&rate| rate > exact).ok_or_else(invalid)?;
    warnings.push(format!("{location}: {exact} has no telemetry code; {next} is used instead"));
    Ok(next)
}

/// Converts a delay: a number without a unit is in milliseconds.
pub(super) fn delay_of(json: &Value, location: &str) -> Result<Time, ImportError> {
    let invalid = || ImportError::at(location, format!("{json} is not a valid delay"));
    let milliseconds = |ms: f64| {
        let ps = ms * 1e9;
        if ps.is_finite() && ps >= 0.0 { Ok(Time::from_ps(ps.round() as u64)) } else { Err(invalid()) }
    };
    match json {
        Value::Null => Ok(Time::ZERO),
        Value::Number(number) => milliseconds(number.as_f64().ok_or_else(invalid)?),
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(ms) => milliseconds(ms),
            Err(_) => text.trim().parse().map_err(|_| invalid()),
        },
        _ => Err(invalid()),
    }
}

/// Compares names in natural order (`s2` before `s10`), in which Mininet starts nodes and assigns ports.
fn natural_order(a: &str, b: &str) -> Ordering {
    let split = |name: &str| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (word, number) = name.split_at(name.len() - digits);
        (word.to_owned(), number.parse::<u64>().unwrap_or(0))
    };
    split(a).cmp(&split(b)).then_with(|| a.cmp(b))
}

/// Sorts names in natural order.
pub(super) fn sorted_names<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = names.cloned().collect();
    names.sort_by(|a, b| natural_order(a, b));
    names
}
