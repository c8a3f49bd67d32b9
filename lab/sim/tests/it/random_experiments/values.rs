//! Draws numbers, quantities and parameters of schemes.

use weir_experiment::rng::RandomStream;
use weir_host::parameter::Parameter;
use weir_units::{Bytes, Time};

/// Formats of quantities in the schema of experiment files.
pub(crate) const TIME: &str = "a time: 1.5us, 20ms";
pub(crate) const RATE: &str = "a rate: 100Gbps";
const BYTES: &str = "bytes: 64KB, 1MiB";
const SHARE: &str = "a share: 0.4, 40%";

/// Draws a number between `min` and `max`; its logarithm is uniformly distributed.
fn logarithmic(min: u64, max: u64, stream: &mut RandomStream) -> u64 {
    let octaves = u64::from((max / min.max(1)).max(1).ilog2());
    let low = min << stream.below(octaves + 1);
    (low + stream.below(low.max(1))).min(max)
}

/// Draws a size.
pub(crate) fn size(min: u64, max: u64, stream: &mut RandomStream) -> String {
    Bytes::new(logarithmic(min, max, stream)).to_string()
}

/// Draws a whole number for a key.
pub(crate) fn integer(key: &str, stream: &mut RandomStream) -> u64 {
    let (min, max) = match key {
        "port" => (1_024, 60_000),
        "count" => (1, 60),
        "times" => (1, 20),
        "queue_packets" => (4, 300),
        "quanta" => (300, 65_535),
        "packet_rate" => (200_000, 20_000_000),
        "weight" | "ack_every" | "imax" => (1, 8),
        "seed" => (1, 1_000),
        "k" => (0, 4),
        "parallel" | "incast" => (1, 3),
        // Often there are only two or three hosts.
        "senders" | "servers" => (1, 2),
        _ => (1, 4),
    };
    min + stream.below(max - min + 1)
}

/// Draws a number that is not whole.
pub(crate) fn number(key: &str, stream: &mut RandomStream) -> f64 {
    let (min, max) = if key == "shape" { (1.1, 3.0) } else { (0.1, 2.0) };
    // Two digits, as people write them.
    ((min + (max - min) * stream.uniform()) * 100.0).round() / 100.0
}

/// Draws a quantity for a key of this format, in a run of this duration; `None` if it is not a quantity.
pub(crate) fn quantity(key: &str, format: &str, duration: Time, stream: &mut RandomStream) -> Option<String> {
    Some(match format {
        TIME => time(key, duration, stream).to_string(),
        RATE if key == "model_rate" => pick(&["100Mbps", "1Gbps", "10Gbps"], stream),
        RATE => pick(&["10Gbps", "25Gbps", "40Gbps", "50Gbps", "100Gbps", "200Gbps", "400Gbps"], stream),
        SHARE => match key {
            "load" => format!("{}%", 5 + stream.below(96)),
            _ => format!("{}%", logarithmic(1, 200, stream) as f64 / 10.0),
        },
        BYTES => match key {
            "buffer" => size(40_000, 32 << 20, stream),
            "threshold" => size(5_000, 500_000, stream),
            "resume_offset" => size(1_000, 5_000, stream),
            "kmin" | "min" => size(500, 50_000, stream),
            "kmax" | "max" => size(60_000, 400_000, stream),
            _ => size(64, 60_000, stream),
        },
        _ => return None,
    })
}

fn time(key: &str, duration: Time, stream: &mut RandomStream) -> Time {
    let ns = duration.as_ns().max(2_000);
    let percent = |from: u64, to: u64, stream: &mut RandomStream| {
        Time::from_ns(ns * (from + stream.below(to - from)) / 100)
    };
    match key {
        "from" | "start" | "at" => match stream.below(4) {
            0 => Time::ZERO,
            _ => percent(0, 60, stream),
        },
        "to" | "stop" => percent(61, 110, stream),
        // From one process for several nodes to long lookaheads, and delays that are no multiple of a frame time.
        "delay" | "global_delay" => {
            Time::from_ns([20, 99, 100, 333, 600, 1_000, 1_000, 1_500, 5_000][stream.below(9) as usize])
        }
        // Fewer than 200 samples.
        "interval" => Time::from_ns(ns / (2 + stream.below(198))),
        "base_rtt" => Time::from_ns(logarithmic(2_000, 60_000, stream)),
        _ => Time::from_ns(logarithmic(1_000, ns / 2, stream)),
    }
}

fn pick(choices: &[&str], stream: &mut RandomStream) -> String {
    choices[stream.below(choices.len() as u64) as usize].to_owned()
}

/// Draws a value for a parameter of a scheme. It may be invalid: parameters say what they take in words.
pub(crate) fn parameter(parameter: &Parameter, duration: Time, stream: &mut RandomStream) -> String {
    let words: Vec<&str> =
        parameter.info.range.split(|c: char| !c.is_alphanumeric() && !"./-".contains(c)).collect();
    match stream.below(3) {
        // A word, a bound or an example.
        0 => pick(&words, stream),
        // A number near the default, for instance half of it.
        1 => match parameter.default.parse::<f64>() {
            Ok(default) => format!("{}", default * f64::from(1u32 << stream.below(3)) / 2.0),
            Err(_) => (1 + stream.below(8)).to_string(),
        },
        _ => match stream.below(6) {
            0 => format!("{}%", 1 + stream.below(100)),
            1 => format!("nic/{}", logarithmic(10, 5_000, stream)),
            2 => format!("{}/10Gbps", size(2_000, 60_000, stream)),
            3 => format!(
                "{}-{}:0.{}/25Gbps",
                size(2_000, 40_000, stream),
                size(50_000, 400_000, stream),
                1 + stream.below(9)
            ),
            4 => size(64, 100_000, stream),
            _ => time("parameter", duration, stream).to_string(),
        },
    }
}
