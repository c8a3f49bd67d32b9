//! The types of parameter values and their text forms.

use std::ops::RangeInclusive;
use weir_units::{Bandwidth, Bytes, ParseUnitError, Ratio, Time};

/// A type of parameter values that can be parsed and printed.
pub trait ParameterValue: Copy + 'static {
    /// Parses a value.
    ///
    /// # Errors
    ///
    /// The reason why the text is not a valid value, without a full stop.
    fn parse(text: &str) -> Result<Self, String>;
    /// Returns the value in a form that [`parse`](Self::parse) accepts.
    fn to_text(self) -> String;
    /// Returns which values of a JSON Schema may be valid. The default accepts every text, number and boolean.
    fn syntax() -> ValueSyntax {
        ValueSyntax { types: &["string", "number", "boolean"], pattern: None, limits: None }
    }
    /// Returns the value in a scale model. Default: the same, as for counts, ratios and sizes.
    fn scaled(self, _scale: &dyn Scale) -> Self {
        self
    }
    /// Returns the value as a number, for the limits in the JSON Schema; `None` if it has a unit or is not a number.
    fn as_number(self) -> Option<f64> {
        None
    }
}

/// Converts the quantities of a network to those of a scale model, in which everything takes longer and bytes are the same.
pub trait Scale {
    /// Returns the time in the model.
    fn time(&self, time: Time) -> Time;
    /// Returns the rate in the model.
    fn rate(&self, rate: Bandwidth) -> Bandwidth;
}

/// The values of a parameter as a JSON Schema describes them. An editor rejects others; [`ParameterValue::parse`] may
/// reject more.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSyntax {
    /// The accepted JSON types.
    pub types: &'static [&'static str],
    /// Regular expression (ECMA 262) for texts; `None`: any text.
    pub pattern: Option<String>,
    /// Smallest and largest number.
    pub limits: Option<(f64, f64)>,
}

impl ValueSyntax {
    fn new(types: &'static [&'static str], pattern: impl Into<String>) -> ValueSyntax {
        ValueSyntax { types, pattern: Some(pattern.into()), limits: None }
    }
}

impl ParameterValue for bool {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "on" | "true" => Ok(true),
            "off" | "false" => Ok(false),
            _ => Err(format!("\"{text}\" is neither on nor off")),
        }
    }
    fn to_text(self) -> String {
        if self { "on" } else { "off" }.to_owned()
    }
    fn syntax() -> ValueSyntax {
        ValueSyntax::new(&["boolean", "string"], "^(on|off|true|false)$")
    }
}

/// A count above 0.
impl ParameterValue for u32 {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().ok().filter(|&n| n > 0).ok_or_else(|| format!("\"{text}\" is not a count above 0"))
    }
    fn to_text(self) -> String {
        self.to_string()
    }
    fn syntax() -> ValueSyntax {
        ValueSyntax {
            limits: Some((1.0, f64::INFINITY)),
            ..ValueSyntax::new(&["integer", "string"], "^[0-9]*[1-9][0-9]*$")
        }
    }
    fn as_number(self) -> Option<f64> {
        Some(self.into())
    }
}

/// A count from 0 to 65,535.
impl ParameterValue for u16 {
    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|_| format!("\"{text}\" is not a count from 0 to {}", u16::MAX))
    }
    fn to_text(self) -> String {
        self.to_string()
    }
    fn syntax() -> ValueSyntax {
        ValueSyntax {
            limits: Some((0.0, u16::MAX.into())),
            ..ValueSyntax::new(&["integer", "string"], "^[0-9]+$")
        }
    }
    fn as_number(self) -> Option<f64> {
        Some(self.into())
    }
}

/// A non-negative number, or a percentage.
impl ParameterValue for f64 {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.parse::<Ratio>()?.get())
    }
    fn to_text(self) -> String {
        self.to_string()
    }
    fn syntax() -> ValueSyntax {
        ValueSyntax {
            limits: Some((0.0, f64::INFINITY)),
            ..ValueSyntax::new(&["number", "string"], Ratio::PATTERN)
        }
    }
    fn as_number(self) -> Option<f64> {
        Some(self)
    }
}

/// A ratio from 0 to 1. `Ratio` itself may be larger.
impl ParameterValue for Ratio {
    fn parse(text: &str) -> Result<Self, String> {
        let ratio: Ratio = text.parse()?;
        if ratio.get() <= 1.0 { Ok(ratio) } else { Err(format!("{text} is out of range")) }
    }
    fn to_text(self) -> String {
        self.to_string()
    }
    fn syntax() -> ValueSyntax {
        ValueSyntax { limits: Some((0.0, 1.0)), ..f64::syntax() }
    }
    fn as_number(self) -> Option<f64> {
        Some(self.get())
    }
}

/// A time above 0.
impl ParameterValue for Time {
    fn parse(text: &str) -> Result<Self, String> {
        match text.parse().map_err(|e: ParseUnitError| e.to_string())? {
            Time::ZERO => Err("must be greater than zero".to_owned()),
            time => Ok(time),
        }
    }
    fn to_text(self) -> String {
        self.to_string()
    }
    fn scaled(self, scale: &dyn Scale) -> Self {
        scale.time(self)
    }
    fn syntax() -> ValueSyntax {
        ValueSyntax::new(&["string"], Time::pattern())
    }
}

/// A size above 0.
impl ParameterValue for Bytes {
    fn parse(text: &str) -> Result<Self, String> {
        match text.parse().map_err(|e: ParseUnitError| e.to_string())? {
            Bytes::ZERO => Err("must be greater than zero".to_owned()),
            bytes => Ok(bytes),
        }
    }
    fn to_text(self) -> String {
        self.to_string()
    }
    fn syntax() -> ValueSyntax {
        ValueSyntax::new(&["string"], Bytes::pattern())
    }
}

/// A rate above 0, absolute or as a fraction of the NIC's rate, so that one default fits NICs of 10 Mbit/s and of 400
/// Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSpec {
    /// An absolute rate.
    Rate(Bandwidth),
    /// The NIC's rate divided by this number.
    NicOver(u32),
}

impl RateSpec {
    /// Returns the rate on a host whose NIC has rate `nic`.
    pub fn resolve(self, nic: Bandwidth) -> Bandwidth {
        match self {
            RateSpec::Rate(rate) => rate,
            RateSpec::NicOver(n) => nic / u64::from(n),
        }
    }
}

impl ParameterValue for RateSpec {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(n) = parse_fraction(text, "nic") {
            return Ok(RateSpec::NicOver(n));
        }
        match text.parse().map_err(|e: ParseUnitError| e.to_string())? {
            Bandwidth::ZERO => Err("must be greater than zero".to_owned()),
            rate => Ok(RateSpec::Rate(rate)),
        }
    }
    fn to_text(self) -> String {
        match self {
            RateSpec::Rate(rate) => rate.to_string(),
            RateSpec::NicOver(n) => format!("nic/{n}"),
        }
    }
    fn scaled(self, scale: &dyn Scale) -> Self {
        match self {
            RateSpec::Rate(rate) => RateSpec::Rate(scale.rate(rate)),
            RateSpec::NicOver(n) => RateSpec::NicOver(n),
        }
    }
    fn syntax() -> ValueSyntax {
        ValueSyntax::new(&["string"], format!("^nic/[0-9]*[1-9][0-9]*$|{}", Bandwidth::pattern()))
    }
}

/// The keyword, or a value.
impl<W: Keyword, S: ParameterValue> ParameterValue for KeywordOr<W, S> {
    fn parse(text: &str) -> Result<Self, String> {
        if text == W::WORD { Ok(KeywordOr::Word(W::default())) } else { S::parse(text).map(KeywordOr::Value) }
    }
    fn to_text(self) -> String {
        match self {
            KeywordOr::Word(_) => W::WORD.to_owned(),
            KeywordOr::Value(value) => value.to_text(),
        }
    }
    fn scaled(self, scale: &dyn Scale) -> Self {
        match self {
            KeywordOr::Word(word) => KeywordOr::Word(word),
            KeywordOr::Value(value) => KeywordOr::Value(value.scaled(scale)),
        }
    }
    fn syntax() -> ValueSyntax {
        let value = S::syntax();
        // YAML 1.1 reads `off` as a boolean.
        let types: &[&str] = match value.types {
            types if types.contains(&"boolean") => types,
            types if types.contains(&"number") => &["number", "string", "boolean"],
            types if types.contains(&"integer") => &["integer", "string", "boolean"],
            _ => &["string", "boolean"],
        };
        let types = if W::WORD == "off" { types } else { value.types };
        ValueSyntax {
            types,
            pattern: value.pattern.map(|pattern| format!("^{}$|{pattern}", W::WORD)),
            limits: value.limits,
        }
    }
    fn as_number(self) -> Option<f64> {
        self.value().and_then(S::as_number)
    }
}

/// A value of type `S`, or a keyword that selects another source of the value.
#[derive(Clone, Copy, Debug)]
pub enum KeywordOr<W, S> {
    /// The keyword.
    Word(W),
    /// The value.
    Value(S),
}

impl<W: Keyword, S> KeywordOr<W, S> {
    /// Returns the keyword.
    pub fn word() -> Self {
        KeywordOr::Word(W::default())
    }
    /// Returns the value; `None` for the keyword.
    pub fn value(self) -> Option<S> {
        match self {
            KeywordOr::Word(_) => None,
            KeywordOr::Value(value) => Some(value),
        }
    }
    /// Returns the value, or `keyword_value` for the keyword.
    pub fn or(self, keyword_value: S) -> S {
        match self {
            KeywordOr::Word(_) => keyword_value,
            KeywordOr::Value(value) => value,
        }
    }
}

/// A keyword that may stand in place of a value.
pub trait Keyword: Copy + Default + 'static {
    /// The keyword in experiment files.
    const WORD: &'static str;
}

/// `host`: use the value of the host's configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDefault;
impl Keyword for HostDefault {
    const WORD: &'static str = "host";
}

/// `dequeue`: act whenever a packet is dequeued instead of periodically.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDequeue;
impl Keyword for OnDequeue {
    const WORD: &'static str = "dequeue";
}

/// `off`: disabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Off;
impl Keyword for Off {
    const WORD: &'static str = "off";
}

/// `variant`: use the value of the scheme's variant.
#[derive(Clone, Copy, Debug, Default)]
pub struct VariantDefault;
impl Keyword for VariantDefault {
    const WORD: &'static str = "variant";
}

/// Parses `<word>/<count>`; `None` if the text has another form or the count is 0.
pub fn parse_fraction(text: &str, word: &str) -> Option<u32> {
    text.strip_prefix(word)?.strip_prefix('/')?.parse().ok().filter(|&n| n > 0)
}

/// A parameter with a few named values.
pub trait EnumParameter: Copy + PartialEq + 'static {
    /// The values with their names in experiment files.
    const NAMES: &'static [(&'static str, Self)];
}

impl<T: EnumParameter> ParameterValue for T {
    fn parse(text: &str) -> Result<Self, String> {
        let found = T::NAMES.iter().find(|(word, _)| *word == text);
        found.map(|&(_, value)| value).ok_or_else(|| format!("invalid value \"{text}\""))
    }
    fn to_text(self) -> String {
        let found = T::NAMES.iter().find(|(_, value)| *value == self);
        found.map_or_else(String::new, |(word, _)| (*word).to_owned())
    }
    fn syntax() -> ValueSyntax {
        let words: Vec<&str> = T::NAMES.iter().map(|(word, _)| *word).collect();
        let types: &[&str] = if words.contains(&"off") { &["string", "boolean"] } else { &["string"] };
        ValueSyntax::new(types, format!("^({})$", words.join("|")))
    }
}

/// Parses a value and checks that it is within `limits`.
///
/// # Errors
///
/// The text is not a valid value, or the value is out of range.
pub fn read_within<V: ParameterValue + PartialOrd>(
    text: &str,
    limits: &RangeInclusive<V>,
) -> Result<V, String> {
    let value = V::parse(text)?;
    if limits.contains(&value) { Ok(value) } else { Err(format!("{text} is out of range")) }
}
