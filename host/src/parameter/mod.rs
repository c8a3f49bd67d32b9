//! Parameters of schemes: each is declared once, for help texts, sweeps, reports and documentation.
//!
//! [`parameters!`](crate::parameters!) declares a configuration with its fields, defaults and descriptions.

mod declare;
mod value;

pub use value::{
    EnumParameter, HostDefault, Keyword, KeywordOr, Off, OnDequeue, ParameterValue, RateSpec, Scale,
    ValueSyntax, VariantDefault, parse_fraction, read_within,
};

use crate::suggest::did_you_mean;
use std::fmt;
use std::ops::RangeInclusive;

/// The description of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterInfo {
    /// Name in experiment files.
    pub name: &'static str,
    /// Unit, or `-`.
    pub unit: &'static str,
    /// Description of the accepted values.
    pub range: &'static str,
    /// Symbol in the paper, or `-`.
    pub symbol: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
    /// Help text: one sentence on the effect of the parameter.
    pub help: &'static str,
}

impl Default for ParameterInfo {
    /// Returns a description without unit and symbol.
    fn default() -> Self {
        ParameterInfo { name: "", unit: "-", range: "", symbol: "-", source: "", help: "" }
    }
}

/// A configuration with parameters, usually declared by [`parameters!`](crate::parameters!).
pub trait Parameters: fmt::Debug + Clone + Default + Send + Sync + 'static {
    /// Declares the parameters.
    fn parameters() -> Vec<ParameterDef<Self>>;
}

/// A parameter of a scheme, with its default.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Description of the parameter.
    pub info: ParameterInfo,
    /// The values that a JSON Schema accepts.
    pub syntax: ValueSyntax,
    /// The default, in the form that [`SchemeConfig::set`](crate::scheme::SchemeConfig::set) accepts.
    pub default: String,
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parameter { info: ParameterInfo { name, unit, range, symbol, source, help }, default, .. } = self;
        write!(f, "{name} ({symbol}, {unit}, {range}; default {default}, from {source}): {help}")
    }
}

type Get<C> = Box<dyn Fn(&mut C) -> String>;
type Set<C> = Box<dyn Fn(&mut C, &str) -> Result<(), String>>;
type ApplyScale<C> = Box<dyn Fn(&mut C, &dyn Scale)>;

/// A parameter of a configuration `C`: its description, and the functions that read and write it in `C`.
pub struct ParameterDef<C> {
    /// Description of the parameter.
    pub info: ParameterInfo,
    /// The values that a JSON Schema accepts.
    pub syntax: ValueSyntax,
    get: Get<C>,
    set: Set<C>,
    apply_scale: ApplyScale<C>,
}

impl<C: 'static> ParameterDef<C> {
    /// Declares a parameter that is a field of `C`.
    pub fn new<V: ParameterValue>(info: ParameterInfo, field: fn(&mut C) -> &mut V) -> Self {
        ParameterDef {
            info,
            syntax: V::syntax(),
            get: Box::new(move |c| field(c).to_text()),
            set: Box::new(move |c, text| V::parse(text).map(|value| *field(c) = value)),
            apply_scale: Box::new(move |c, scale| *field(c) = field(c).scaled(scale)),
        }
    }

    /// Declares a parameter that is a field of `C` and whose value must lie within `limits`.
    pub fn with_range<V: ParameterValue + PartialOrd>(
        info: ParameterInfo,
        limits: RangeInclusive<V>,
        field: fn(&mut C) -> &mut V,
    ) -> Self {
        let numbers = limits.start().as_number().zip(limits.end().as_number());
        ParameterDef {
            info,
            syntax: ValueSyntax { limits: numbers, ..V::syntax() },
            get: Box::new(move |c| field(c).to_text()),
            set: Box::new(move |c, text| read_within(text, &limits).map(|value| *field(c) = value)),
            apply_scale: Box::new(move |c, scale| *field(c) = field(c).scaled(scale)),
        }
    }

    /// Declares a parameter that is a field of `C` and whose value is a keyword or must lie within `limits`.
    pub fn with_value_range<W: Keyword, V: ParameterValue + PartialOrd>(
        info: ParameterInfo,
        limits: RangeInclusive<V>,
        field: fn(&mut C) -> &mut KeywordOr<W, V>,
    ) -> Self {
        let numbers = limits.start().as_number().zip(limits.end().as_number());
        let mut parameter = ParameterDef::new(info, field);
        parameter.syntax.limits = numbers;
        parameter.set = Box::new(move |c, text| {
            let value = KeywordOr::<W, V>::parse(text)?;
            match value {
                KeywordOr::Value(number) if !limits.contains(&number) => {
                    Err(format!("{text} is out of range"))
                }
                value => {
                    *field(c) = value;
                    Ok(())
                }
            }
        });
        parameter
    }

    /// Returns the value in `config`, in the form that [`set`](Self::set) accepts.
    pub fn get(&self, config: &C) -> String
    where
        C: Clone,
    {
        // The same projection `&mut C -> &mut V` serves reading and writing, hence the clone.
        (self.get)(&mut config.clone())
    }

    /// Replaces the value in `config` by that of a scale model.
    pub fn apply_scale(&self, config: &mut C, scale: &dyn Scale) {
        (self.apply_scale)(config, scale);
    }

    /// Sets the value in `config`. On error `config` is unchanged.
    ///
    /// # Errors
    ///
    /// The text is not a valid value of this parameter.
    pub fn set(&self, config: &mut C, text: &str) -> Result<(), ParameterError> {
        let ParameterInfo { name, range, .. } = self.info;
        (self.set)(config, text).map_err(|problem| ParameterError::InvalidValue {
            parameter: name,
            problem,
            range,
        })
    }
}

/// Converts the parameters of a nested configuration, `field` of the enclosing one, into parameters of the enclosing
/// one.
pub fn nested<P: 'static, C: 'static>(
    parameters: Vec<ParameterDef<P>>,
    field: fn(&mut C) -> &mut P,
) -> impl Iterator<Item = ParameterDef<C>> {
    parameters.into_iter().map(move |ParameterDef { info, syntax, get, set, apply_scale }| ParameterDef {
        info,
        syntax,
        get: Box::new(move |c: &mut C| get(field(c))),
        set: Box::new(move |c: &mut C, text: &str| set(field(c), text)),
        apply_scale: Box::new(move |c: &mut C, scale: &dyn Scale| apply_scale(field(c), scale)),
    })
}

/// Returns the parameters except those with the given names.
pub fn without<C>(mut parameters: Vec<ParameterDef<C>>, names: &[&str]) -> Vec<ParameterDef<C>> {
    parameters.retain(|def| !names.contains(&def.info.name));
    parameters
}

/// Replaces the source of the parameter with the name `name`.
pub fn with_source<C>(
    mut parameters: Vec<ParameterDef<C>>,
    name: &str,
    source: &'static str,
) -> Vec<ParameterDef<C>> {
    for parameter in parameters.iter_mut().filter(|def| def.info.name == name) {
        parameter.info.source = source;
    }
    parameters
}

/// The reason why a parameter cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The parameter does not accept this value.
    #[error("{parameter}: {problem}; expected {range}")]
    InvalidValue {
        /// Name of the parameter.
        parameter: &'static str,
        /// What is wrong with the value, without a full stop.
        problem: String,
        /// Description of the accepted values.
        range: &'static str,
    },
    /// The scheme has no such parameter.
    #[error("unknown parameter \"{parameter}\" of {scheme}; known parameters: {known}")]
    Unknown {
        /// Name of the scheme.
        scheme: &'static str,
        /// The unknown name.
        parameter: String,
        /// The parameters of the scheme, and a spelling suggestion if there is one.
        known: String,
    },
}

impl ParameterError {
    /// Returns the message without the name of the parameter in front.
    pub fn reason(&self) -> String {
        match self {
            ParameterError::InvalidValue { problem, range, .. } => format!("{problem}; expected {range}"),
            ParameterError::Unknown { .. } => self.to_string(),
        }
    }

    /// Returns the name of the parameter, as passed to `set`.
    pub fn parameter(&self) -> &str {
        match self {
            ParameterError::InvalidValue { parameter, .. } => parameter,
            ParameterError::Unknown { parameter, .. } => parameter,
        }
    }

    /// Returns the error for `parameter`, which is not among `parameters`.
    pub fn unknown(scheme: &'static str, parameters: &[Parameter], parameter: &str) -> ParameterError {
        let known: Vec<_> = parameters.iter().map(|parameter| parameter.info.name).collect();
        let suggestion = did_you_mean(parameter, known.iter().copied());
        let known = known.join(", ") + &suggestion;
        ParameterError::Unknown { scheme, parameter: parameter.to_owned(), known }
    }
}
