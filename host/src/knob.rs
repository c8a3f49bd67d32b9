//! Knobs: what of a scheme can be tuned, described once for help, sweeps, reports and docs.

use crate::scheme::SchemeConfig;
use std::fmt;

/// A parameter of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// Its name in experiment files.
    pub name: &'static str,
    /// Its unit, or `-`.
    pub unit: &'static str,
    /// Its default, as [`SchemeConfig::set`] reads it.
    pub default: &'static str,
    /// What values it takes.
    pub range: &'static str,
    /// The paper's symbol.
    pub symbol: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
    /// What it does.
    pub help: &'static str,
}

impl fmt::Display for Knob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Knob { name, unit, default, range, symbol, source, help } = self;
        write!(f, "{name} ({symbol}, {unit}, {range}; default {default}, from {source}): {help}")
    }
}

/// A knob and how to read and write it in a configuration `C`.
pub(crate) struct KnobOf<C> {
    pub knob: Knob,
    pub get: fn(&C) -> String,
    pub set: fn(&mut C, &str) -> Result<(), String>,
}

/// The present value of the knob `name`.
pub(crate) fn get<C>(knobs: &[KnobOf<C>], config: &C, name: &str) -> Option<String> {
    knobs.iter().find(|k| k.knob.name == name).map(|k| (k.get)(config))
}

/// Tunes the knob `name`, if it is one of these.
pub(crate) fn set<C>(
    knobs: &'static [KnobOf<C>],
    config: &mut C,
    name: &str,
    value: &str,
) -> Option<Result<(), KnobError>> {
    let found = knobs.iter().find(|k| k.knob.name == name)?;
    Some((found.set)(config, value).map_err(|problem| KnobError::BadValue {
        knob: found.knob.name,
        problem,
        range: found.knob.range,
    }))
}

/// Reads a number between two limits.
pub(crate) fn number_in(text: &str, low: f64, high: f64) -> Result<f64, String> {
    let number = text.parse::<weir_units::Ratio>()?.get();
    if (low..=high).contains(&number) { Ok(number) } else { Err(format!("{text} is out of range")) }
}

/// Reads `on` or `off`.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(format!("\"{text}\" is neither on nor off")),
    }
}

/// Writes what [`switch`] reads.
pub(crate) fn on_off(value: bool) -> String {
    if value { "on" } else { "off" }.to_owned()
}

/// Why a knob could not be tuned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// The value cannot be.
    #[error("{knob}: {problem}, it takes {range}")]
    BadValue {
        /// Which knob.
        knob: &'static str,
        /// What is wrong.
        problem: String,
        /// What it takes.
        range: &'static str,
    },
    /// There is no such knob.
    #[error("{scheme} has no knob \"{knob}\", it has {known}")]
    Unknown {
        /// Which scheme.
        scheme: &'static str,
        /// As given.
        knob: String,
        /// All there are.
        known: String,
    },
}

impl KnobError {
    pub(crate) fn unknown(scheme: &dyn SchemeConfig, knob: &str) -> KnobError {
        let known: Vec<_> = scheme.knobs().iter().map(|k| k.name).collect();
        KnobError::Unknown { scheme: scheme.name(), knob: knob.to_owned(), known: known.join(", ") }
    }
}
