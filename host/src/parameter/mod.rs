//! Parameters of schemes: each is declared once, for help, sweeps, reports and documentation.
//!
//! [`parameters!`](crate::parameters!) declares a configuration with its fields, defaults and descriptions.

mod declare;
mod value;

pub use value::{
    EnumParameter, HostDefault, Keyword, KeywordOr, Off, OnDequeue, ParameterValue, RateSpec, VariantDefault,
    parse_fraction, read_within,
};

use crate::suggest::did_you_mean;
use std::fmt;
use std::ops::RangeInclusive;

/// The description of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Its name in experiment files.
    pub name: &'static str,
    /// Its unit, or `-`.
    pub unit: &'static str,
    /// The values that it takes.
    pub range: &'static str,
    /// The symbol that the paper uses, or `-`.
    pub symbol: &'static str,
    /// The source of the default.
    pub source: &'static str,
    /// One sentence on the effect of the parameter.
    pub help: &'static str,
}

impl Default for ParameterInfo {
    /// Without unit and symbol.
    fn default() -> Self {
        ParameterInfo { name: "", unit: "-", range: "", symbol: "-", source: "", help: "" }
    }
}

/// A configuration whose fields are parameters.
pub trait Parameters: fmt::Debug + Clone + Default + Send + Sync + 'static {
    /// Declares the parameters.
    fn parameters() -> Vec<ParameterDef<Self>>;
}

/// A parameter of a scheme and its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The description.
    pub info: ParameterInfo,
    /// The default, as [`SchemeConfig::set`](crate::scheme::SchemeConfig::set) reads it.
    pub default: String,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameter { info: ParameterInfo { name, unit, range, symbol, source, help }, default } = self;
        write!(f, "{name} ({symbol}, {unit}, {range}; default {default}, from {source}): {help}")
    }
}

type Get<C> = Box<dyn Fn(&mut C) -> String>;
type Set<C> = Box<dyn Fn(&mut C, &str) -> Result<(), String>>;

/// A parameter of a configuration `C`: its description, and how it is read and written there.
pub struct ParameterDef<C> {
    /// The description.
    pub info: ParameterInfo,
    get: Get<C>,
    set: Set<C>,
}

impl<C: 'static> ParameterDef<C> {
    /// Declares a parameter that is a field of `C`.
    pub fn new<V: ParameterValue>(info: ParameterInfo, field: fn(&mut C) -> &mut V) -> Self {
        ParameterDef {
            info,
            get: Box::new(move |c| field(c).to_text()),
            set: Box::new(move |c, text| V::parse(text).map(|value| *field(c) = value)),
        }
    }

    /// Declares a parameter whose value is within limits. A number may be written as a percentage.
    pub fn with_range<V: ParameterValue + PartialOrd>(
        info: ParameterInfo,
        limits: RangeInclusive<V>,
        field: fn(&mut C) -> &mut V,
    ) -> Self {
        ParameterDef {
            info,
            get: Box::new(move |c| field(c).to_text()),
            set: Box::new(move |c, text| read_within(text, &limits).map(|value| *field(c) = value)),
        }
    }

    /// Returns the value in `config` as [`set`](Self::set) reads it.
    pub fn get(&self, config: &C) -> String
    where
        C: Clone,
    {
        // One projection to a field serves reading and writing; it wants a configuration of its own.
        (self.get)(&mut config.clone())
    }

    /// Sets the value in `config`. On error nothing has changed.
    ///
    /// # Errors
    ///
    /// If the text is no value of this parameter.
    pub fn set(&self, config: &mut C, text: &str) -> Result<(), ParameterError> {
        let ParameterInfo { name, range, .. } = self.info;
        (self.set)(config, text).map_err(|problem| ParameterError::InvalidValue {
            parameter: name,
            problem,
            range,
        })
    }
}

/// Turns the parameters of a part of a configuration into parameters of the whole.
pub fn nested<P: 'static, C: 'static>(
    parameters: Vec<ParameterDef<P>>,
    of: fn(&mut C) -> &mut P,
) -> impl Iterator<Item = ParameterDef<C>> {
    parameters.into_iter().map(move |ParameterDef { info, get, set }| ParameterDef {
        info,
        get: Box::new(move |c: &mut C| get(of(c))),
        set: Box::new(move |c: &mut C, text: &str| set(of(c), text)),
    })
}

/// Returns the parameters but those with these names.
pub fn without<C>(mut parameters: Vec<ParameterDef<C>>, names: &[&str]) -> Vec<ParameterDef<C>> {
    parameters.retain(|it| !names.contains(&it.info.name));
    parameters
}

/// Replaces the source of the parameter with this name.
pub fn with_source<C>(
    mut parameters: Vec<ParameterDef<C>>,
    name: &str,
    source: &'static str,
) -> Vec<ParameterDef<C>> {
    for parameter in parameters.iter_mut().filter(|it| it.info.name == name) {
        parameter.info.source = source;
    }
    parameters
}

/// A reason why a parameter could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The parameter does not take this value.
    #[error("{parameter}: {problem}, it takes {range}")]
    InvalidValue {
        /// The parameter.
        parameter: &'static str,
        /// The problem.
        problem: String,
        /// The values that it takes.
        range: &'static str,
    },
    /// The scheme has no such parameter.
    #[error("{scheme} has no parameter \"{parameter}\", it has {known}")]
    Unknown {
        /// The scheme.
        scheme: &'static str,
        /// As given.
        parameter: String,
        /// The parameters that it has, and the one that may be meant.
        known: String,
    },
}

impl ParameterError {
    /// Returns the parameter's name, as given.
    pub fn parameter(&self) -> &str {
        match self {
            ParameterError::InvalidValue { parameter, .. } => parameter,
            ParameterError::Unknown { parameter, .. } => parameter,
        }
    }

    /// Returns the error for a name that is none of the scheme's parameters.
    pub fn unknown(scheme: &'static str, parameters: &[Parameter], parameter: &str) -> ParameterError {
        let known: Vec<_> = parameters.iter().map(|it| it.info.name).collect();
        let meant = did_you_mean(parameter, known.iter().copied());
        let known = known.join(", ") + &meant;
        ParameterError::Unknown { scheme, parameter: parameter.to_owned(), known }
    }
}
