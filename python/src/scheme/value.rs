//! Values of the parameters that a class declares.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use weir_host::parameter::{ParameterValue, RateSpec, Scale, ValueSyntax};
use weir_units::{Bandwidth, Bytes, Time};

/// A value, of the kind that the parameter's default has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Switch(bool),
    Count(u64),
    Number(f64),
    Time(Time),
    Rate(Bandwidth),
    Size(Bytes),
}

impl Value {
    /// Reads a default: a boolean, a whole number, a number, or a text with the unit of a time, a rate or a size.
    pub(super) fn of_default(default: &Bound<'_, PyAny>) -> PyResult<Value> {
        if default.is_instance_of::<PyBool>() {
            return Ok(Value::Switch(default.extract()?));
        }
        if default.is_instance_of::<PyInt>() {
            return default
                .extract()
                .map(Value::Count)
                .map_err(|_| PyValueError::new_err("expected a whole number, 0 or more"));
        }
        if default.is_instance_of::<PyFloat>() {
            return Value::Number(0.0).parse(&default.to_string()).map_err(PyValueError::new_err);
        }
        let text = default.cast::<PyString>().map_err(|_| {
            PyTypeError::new_err(
                "expected a number, a boolean, or a text such as \"25us\", \"1Gbps\" or \"30KB\"",
            )
        })?;
        let text = text.to_string();
        let kinds = [Value::Time(Time::ZERO), Value::Rate(Bandwidth::ZERO), Value::Size(Bytes::ZERO)];
        kinds.iter().find_map(|kind| kind.parse(&text).ok()).ok_or_else(|| {
            PyValueError::new_err(format!(
                "\"{text}\" is no time, rate or size above 0; write it like 25us, 1Gbps or 30KB"
            ))
        })
    }

    /// Parses a value of the same kind.
    pub(super) fn parse(self, text: &str) -> Result<Value, String> {
        Ok(match self {
            Value::Switch(_) => Value::Switch(ParameterValue::parse(text)?),
            Value::Count(_) => Value::Count(
                text.parse().map_err(|_| format!("\"{text}\" is not a whole number, 0 or more"))?,
            ),
            Value::Number(_) => Value::Number(ParameterValue::parse(text)?),
            Value::Time(_) => Value::Time(ParameterValue::parse(text)?),
            Value::Rate(_) => match RateSpec::parse(text)? {
                RateSpec::Rate(rate) => Value::Rate(rate),
                RateSpec::NicOver(_) => return Err(format!("\"{text}\" is not a rate")),
            },
            Value::Size(_) => Value::Size(ParameterValue::parse(text)?),
        })
    }

    /// Returns the value in a form that [`parse`](Self::parse) accepts.
    pub(super) fn text(self) -> String {
        match self {
            Value::Switch(value) => value.to_text(),
            Value::Count(value) => value.to_string(),
            Value::Number(value) => value.to_text(),
            Value::Time(value) => value.to_text(),
            Value::Rate(value) => value.to_string(),
            Value::Size(value) => value.to_text(),
        }
    }

    pub(super) fn scaled(self, scale: &dyn Scale) -> Value {
        match self {
            Value::Time(time) => Value::Time(scale.time(time)),
            Value::Rate(rate) => Value::Rate(scale.rate(rate)),
            other => other,
        }
    }

    /// Returns the value in the units of [`to_python`](Self::to_python).
    pub(super) fn number(self) -> f64 {
        match self {
            Value::Switch(value) => f64::from(u8::from(value)),
            Value::Count(value) => value as f64,
            Value::Number(value) => value,
            // Divided, so that 10 us are 1e-05.
            Value::Time(time) => time.as_ps() as f64 / 1e12,
            Value::Rate(rate) => rate.as_bps_f64(),
            Value::Size(bytes) => bytes.as_f64(),
        }
    }

    /// Returns the value as the scheme's methods see it: seconds, bit/s and bytes.
    pub(super) fn to_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(match self {
            Value::Switch(value) => PyBool::new(py, value).to_owned().into_any(),
            Value::Count(value) => value.into_pyobject(py)?.into_any(),
            Value::Size(bytes) => bytes.get().into_pyobject(py)?.into_any(),
            other => PyFloat::new(py, other.number()).into_any(),
        })
    }

    pub(super) fn syntax(self) -> ValueSyntax {
        match self {
            Value::Switch(_) => bool::syntax(),
            Value::Count(_) => u16::syntax(),
            Value::Number(_) => f64::syntax(),
            Value::Time(_) => Time::syntax(),
            Value::Rate(_) => RateSpec::syntax(),
            Value::Size(_) => Bytes::syntax(),
        }
    }

    /// Returns the unit for tables of parameters.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Value::Switch(_) | Value::Count(_) | Value::Number(_) => "-",
            Value::Time(_) => "s",
            Value::Rate(_) => "bit/s",
            Value::Size(_) => "B",
        }
    }

    /// Returns what values of this kind are, for messages.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Value::Switch(_) => "on or off",
            Value::Count(_) => "a whole number, 0 or more",
            Value::Number(_) => "a number, 0 or more",
            Value::Time(_) => "a time above 0",
            Value::Rate(_) => "a rate above 0",
            Value::Size(_) => "a size above 0",
        }
    }
}
