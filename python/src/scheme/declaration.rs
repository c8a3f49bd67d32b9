//! What a class declares.

use super::value::Value;
use crate::errors::input_error;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use weir_host::custom_record::MAX_FIELDS;
use weir_host::parameter::ParameterInfo;
use weir_host::scheme::{BUILTIN_GAUGES, SchemeConfig};
use weir_host::schemes::Registry;

/// What a class declares.
#[derive(Debug)]
pub(super) struct Declaration {
    pub(super) class: Py<PyAny>,
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The built-in scheme whose switches, marks, receivers and transport the scheme uses.
    pub(super) like: Arc<dyn SchemeConfig>,
    pub(super) parameters: Vec<ParameterDeclaration>,
    pub(super) gauges: Vec<&'static str>,
    pub(super) record_fields: &'static [&'static str],
}

#[derive(Debug)]
pub(super) struct ParameterDeclaration {
    pub(super) info: ParameterInfo,
    pub(super) default: Value,
    /// Least and largest value, as [`Value::number`] returns it.
    pub(super) limits: (f64, f64),
}

/// Returns the text with a lifetime that names of schemes have. Equal texts are kept once: programs define the same classes
/// again and again.
fn interned(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    let text = Box::leak(text.to_owned().into_boxed_str());
    texts.insert(text);
    text
}

impl Declaration {
    pub(super) fn read(py: Python<'_>, class: &Bound<'_, PyAny>) -> PyResult<Declaration> {
        let place = class.getattr("__qualname__")?.to_string();
        let wrong = |what: &str, reason: &str| input_error(py, format!("{place}.{what}: {reason}"));
        // The class itself finds what is missing or misspelt.
        let declared: Vec<(String, Bound<'_, PyAny>)> = class.call_method0("_parameters")?.extract()?;
        let text = |what: &str| -> PyResult<String> {
            let value = class.getattr(what)?;
            let text = value.cast::<PyString>().map_err(|_| wrong(what, "expected a text"))?;
            Ok(text.to_string())
        };
        let name = text("name")?;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(wrong("name", "expected small letters, digits, - and _"));
        }
        let like =
            Registry::builtin().get(&text("like")?).map_err(|error| wrong("like", &error.to_string()))?;
        if like.needs().transport.subflows > 1 {
            return Err(wrong("like", "expected a scheme with one path for each message"));
        }
        let about = class.getattr("__doc__")?;
        let about = if about.is_none() { String::new() } else { about.to_string() };
        let about = about.trim().lines().next().unwrap_or_default().trim_end_matches('.');
        let names = |what: &str| -> PyResult<Vec<&'static str>> {
            let names: Vec<String> =
                class.getattr(what)?.extract().map_err(|_| wrong(what, "expected a list of names"))?;
            Ok(names.iter().map(|name| interned(name)).collect())
        };
        let gauges = names("gauges")?;
        if let Some(gauge) = gauges.iter().find(|gauge| BUILTIN_GAUGES.contains(gauge)) {
            return Err(wrong("gauges", &format!("\"{gauge}\" is recorded of each scheme")));
        }
        let record_fields = names("record_fields")?;
        if record_fields.len() > MAX_FIELDS {
            return Err(wrong("record_fields", &format!("at most {MAX_FIELDS} fields can be read")));
        }
        let parameters = declared
            .iter()
            .map(|(name, parameter)| {
                ParameterDeclaration::read(name, parameter)
                    .map_err(|error| wrong(name, &error.value(py).to_string()))
            })
            .collect::<PyResult<_>>()?;
        Ok(Declaration {
            class: class.clone().unbind(),
            name: interned(&name),
            about: interned(if about.is_empty() { "a scheme in Python" } else { about }),
            like,
            parameters,
            gauges,
            record_fields: fields_of(&record_fields),
        })
    }
}

/// Returns the names as a list that lives as long as the process; equal lists are kept once.
fn fields_of(names: &[&'static str]) -> &'static [&'static str] {
    static LISTS: Mutex<BTreeSet<&'static [&'static str]>> = Mutex::new(BTreeSet::new());
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lists.get(names) {
        return known;
    }
    let names = Vec::leak(names.to_vec());
    lists.insert(names);
    names
}

impl ParameterDeclaration {
    fn read(name: &str, parameter: &Bound<'_, PyAny>) -> PyResult<ParameterDeclaration> {
        let default = Value::of_default(&parameter.getattr("default")?)?;
        let limit = |what: &str, missing: f64| -> PyResult<(f64, Option<String>)> {
            let limit = parameter.getattr(what)?;
            if limit.is_none() {
                return Ok((missing, None));
            }
            let text = limit.to_string();
            let value = default.parse(&text).map_err(|reason| {
                PyValueError::new_err(format!("{what}: {reason}; write it like the default"))
            })?;
            Ok((value.number(), Some(text)))
        };
        let ((low, low_text), (high, high_text)) = (limit("low", 0.0)?, limit("high", f64::INFINITY)?);
        let range = match (low_text, high_text) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (Some(low), None) => format!("{low} or more"),
            (None, Some(high)) => format!("{}, at most {high}", default.kind()),
            (None, None) => default.kind().to_owned(),
        };
        let text =
            |what: &str| -> PyResult<&'static str> { Ok(interned(&parameter.getattr(what)?.to_string())) };
        let info = ParameterInfo {
            name: interned(name),
            unit: default.unit(),
            range: interned(&range),
            symbol: text("symbol")?,
            source: text("source")?,
            help: text("help")?,
        };
        let declaration = ParameterDeclaration { info, default, limits: (low, high) };
        let is_wrong = |reason| PyValueError::new_err(format!("the default {reason}; expected {range}"));
        declaration.check(default).map_err(is_wrong)?;
        Ok(declaration)
    }

    pub(super) fn check(&self, value: Value) -> Result<Value, String> {
        let (low, high) = self.limits;
        if (low..=high).contains(&value.number()) {
            Ok(value)
        } else {
            Err(format!("{} is out of range", value.text()))
        }
    }
}
