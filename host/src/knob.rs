//! Knobs: what of a scheme can be tuned, described once for help, sweeps, reports and docs.

use crate::scheme::SchemeConfig;
use std::fmt;
use std::ops::RangeInclusive;
use weir_units::{Bandwidth, Bytes, ParseUnitError, Time};

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

type Get<C> = Box<dyn Fn(&mut C) -> String>;
type Set<C> = Box<dyn Fn(&mut C, &str) -> Result<(), String>>;

/// A knob and how to read and write it in a configuration `C`. Reading gets a copy of it, so that one
/// projection to a field serves both.
pub(crate) struct KnobOf<C> {
    pub knob: Knob,
    pub get: Get<C>,
    pub set: Set<C>,
}

impl<C: 'static> KnobOf<C> {
    /// A knob that is a field.
    pub fn new<S: Setting>(knob: Knob, field: fn(&mut C) -> &mut S) -> Self {
        KnobOf {
            knob,
            get: Box::new(move |c| field(c).write()),
            set: Box::new(move |c, text| S::read(text).map(|value| *field(c) = value)),
        }
    }

    /// A knob that is a number within limits.
    pub fn number(knob: Knob, limits: RangeInclusive<f64>, field: fn(&mut C) -> &mut f64) -> Self {
        KnobOf {
            knob,
            get: Box::new(move |c| field(c).to_string()),
            set: Box::new(move |c, text| number_in(text, &limits).map(|value| *field(c) = value)),
        }
    }
}

/// The knobs of a part of a configuration, as knobs of the whole.
pub(crate) fn part<P: 'static, C: 'static>(
    knobs: Vec<KnobOf<P>>,
    of: fn(&mut C) -> &mut P,
) -> impl Iterator<Item = KnobOf<C>> {
    knobs.into_iter().map(move |KnobOf { knob, get, set }| KnobOf {
        knob,
        get: Box::new(move |c: &mut C| get(of(c))),
        set: Box::new(move |c: &mut C, text: &str| set(of(c), text)),
    })
}

/// A kind of value, read and written the way people do.
pub(crate) trait Setting: Copy + 'static {
    fn read(text: &str) -> Result<Self, String>;
    fn write(self) -> String;
}

impl Setting for bool {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "on" | "true" => Ok(true),
            "off" | "false" => Ok(false),
            _ => Err(format!("\"{text}\" is neither on nor off")),
        }
    }
    fn write(self) -> String {
        if self { "on" } else { "off" }.to_owned()
    }
}

/// A count above 0.
impl Setting for u32 {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().ok().filter(|&n| n > 0).ok_or_else(|| format!("\"{text}\" is not a count above 0"))
    }
    fn write(self) -> String {
        self.to_string()
    }
}

/// A time above 0.
impl Setting for Time {
    fn read(text: &str) -> Result<Self, String> {
        match text.parse().map_err(|e: ParseUnitError| e.to_string())? {
            Time::ZERO => Err("zero is too short".to_owned()),
            time => Ok(time),
        }
    }
    fn write(self) -> String {
        self.to_string()
    }
}

/// A size above 0.
impl Setting for Bytes {
    fn read(text: &str) -> Result<Self, String> {
        match text.parse().map_err(|e: ParseUnitError| e.to_string())? {
            Bytes::ZERO => Err("zero is too little".to_owned()),
            bytes => Ok(bytes),
        }
    }
    fn write(self) -> String {
        self.to_string()
    }
}

/// A rate above 0, as such or as a part of the NIC's, so that a default fits 10 Mbit/s and 400 Gbit/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateOf {
    Rate(Bandwidth),
    NicOver(u32),
}

impl RateOf {
    /// What it is beside a NIC of this rate.
    pub fn of(self, nic: Bandwidth) -> Bandwidth {
        match self {
            RateOf::Rate(rate) => rate,
            RateOf::NicOver(n) => nic / u64::from(n),
        }
    }
}

impl Setting for RateOf {
    fn read(text: &str) -> Result<Self, String> {
        if let Some(n) = share(text, "nic") {
            return Ok(RateOf::NicOver(n));
        }
        match text.parse().map_err(|e: ParseUnitError| e.to_string())? {
            Bandwidth::ZERO => Err("at rate zero a flow stands still for ever".to_owned()),
            rate => Ok(RateOf::Rate(rate)),
        }
    }
    fn write(self) -> String {
        match self {
            RateOf::Rate(rate) => rate.to_string(),
            RateOf::NicOver(n) => format!("nic/{n}"),
        }
    }
}

/// A value, or the word that stands for leaving it to another knob or to the host.
impl<W: Word, S: Setting> Setting for Or<W, S> {
    fn read(text: &str) -> Result<Self, String> {
        if text == W::WORD { Ok(Or::Word(W::default())) } else { S::read(text).map(Or::Value) }
    }
    fn write(self) -> String {
        match self {
            Or::Word(_) => W::WORD.to_owned(),
            Or::Value(value) => value.write(),
        }
    }
}

/// A value of type `S`, or a word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Or<W, S> {
    Word(W),
    Value(S),
}

impl<W: Word, S> Or<W, S> {
    /// The word.
    pub fn word() -> Self {
        Or::Word(W::default())
    }
    /// The value, if it is one.
    pub fn value(self) -> Option<S> {
        match self {
            Or::Word(_) => None,
            Or::Value(value) => Some(value),
        }
    }
    /// The value, or what the word stands for here.
    pub fn or(self, meant: S) -> S {
        match self {
            Or::Word(_) => meant,
            Or::Value(value) => value,
        }
    }
}

/// A word that may stand in place of a value.
pub(crate) trait Word: Copy + Default + 'static {
    const WORD: &'static str;
}

/// `host`: what the host was told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostsOwn;
impl Word for HostsOwn {
    const WORD: &'static str = "host";
}

/// `dequeue`: not by time, but whenever a packet leaves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EveryDequeue;
impl Word for EveryDequeue {
    const WORD: &'static str = "dequeue";
}

/// `off`: not at all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Off;
impl Word for Off {
    const WORD: &'static str = "off";
}

/// `variant`: what the scheme's variant has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Variants;
impl Word for Variants {
    const WORD: &'static str = "variant";
}

/// Reads `<word>/<count>`.
pub(crate) fn share(text: &str, word: &str) -> Option<u32> {
    text.strip_prefix(word)?.strip_prefix('/')?.parse().ok().filter(|&n| n > 0)
}

/// A kind of value that has a few settings, each with its word.
pub(crate) trait OneOf: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: OneOf> Setting for T {
    fn read(text: &str) -> Result<Self, String> {
        let found = T::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|&(_, value)| value).ok_or_else(|| format!("\"{text}\" is none of its settings"))
    }
    fn write(self) -> String {
        let found = T::WORDS.iter().find(|(_, value)| *value == self);
        found.map_or_else(String::new, |(word, _)| (*word).to_owned())
    }
}

/// Reads a number between two limits.
pub(crate) fn number_in(text: &str, limits: &RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.parse::<weir_units::Ratio>()?.get();
    if limits.contains(&number) { Ok(number) } else { Err(format!("{text} is out of range")) }
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
