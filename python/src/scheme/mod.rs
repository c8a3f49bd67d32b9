//! Congestion control schemes that are Python classes (`weir.Scheme`).

mod declaration;
mod events;
mod failure;
mod sender;
mod value;

pub(crate) use events::{Ack, Flow, Hop, Loss, RateNotice};
pub(crate) use failure::Failure;

use crate::errors::input_error;
use declaration::{Declaration, ParameterDeclaration};
use pyo3::prelude::*;
use sender::PythonSender;
use std::sync::Arc;
use value::Value;
use weir_host::parameter::{Parameter, ParameterError, Scale, ValueSyntax};
use weir_host::port_algorithm::PortAlgorithm;
use weir_host::scheme::{FlowParams, MultipathSender, Needs, Receiver, SchemeConfig, Sender};
use weir_host::schemes::Registry;
use weir_units::Time;

/// Returns the built-in schemes and those of two lists of classes, and the exception that one of the latter may raise. A class
/// of `chosen` is in the run; those of `others` are there in case that the experiment names them, and are left out if their
/// declaration is wrong or their name is taken.
pub(crate) fn registry(
    py: Python<'_>,
    chosen: &[Bound<'_, PyAny>],
    others: &[Bound<'_, PyAny>],
) -> PyResult<(Registry, Failure)> {
    let (mut registry, failure) = (Registry::builtin(), Failure::default());
    for (class, is_chosen) in chosen.iter().map(|it| (it, true)).chain(others.iter().map(|it| (it, false))) {
        let declaration = match Declaration::read(py, class) {
            Ok(declaration) => Arc::new(declaration),
            Err(_) if !is_chosen => continue,
            Err(error) => return Err(error),
        };
        if registry.names().any(|name| name == declaration.name) {
            if !is_chosen {
                continue;
            }
            let place = class.getattr("__qualname__")?;
            let reason = format!("{place}.name: there is a scheme \"{}\" already", declaration.name);
            return Err(input_error(py, reason));
        }
        let failure = failure.clone();
        registry = registry.with_factory(move || {
            let values = declaration.parameters.iter().map(|parameter| parameter.default).collect();
            Box::new(PythonScheme { declaration: declaration.clone(), values, failure: failure.clone() })
        });
    }
    Ok((registry, failure))
}

/// A class with the values of its parameters.
#[derive(Debug)]
struct PythonScheme {
    declaration: Arc<Declaration>,
    values: Vec<Value>,
    failure: Failure,
}

impl PythonScheme {
    fn index_of(&self, name: &str) -> Option<usize> {
        self.declaration.parameters.iter().position(|parameter| parameter.info.name == name)
    }

    fn named(&self, text: impl Fn(Value) -> String) -> Vec<(&'static str, String)> {
        let names = self.declaration.parameters.iter().map(|parameter| parameter.info.name);
        names.zip(self.values.iter().map(|value| text(*value))).collect()
    }
}

impl SchemeConfig for PythonScheme {
    fn name(&self) -> &'static str {
        self.declaration.name
    }
    fn about(&self) -> &'static str {
        self.declaration.about
    }
    fn parameters(&self) -> Vec<Parameter> {
        let parameter = |declared: &ParameterDeclaration| Parameter {
            info: declared.info,
            syntax: ValueSyntax { limits: None, ..declared.default.syntax() },
            default: declared.default.text(),
        };
        self.declaration.parameters.iter().map(parameter).collect()
    }
    fn get(&self, parameter: &str) -> Option<String> {
        Some(self.values[self.index_of(parameter)?].text())
    }
    fn values(&self) -> Vec<(&'static str, String)> {
        self.named(Value::text)
    }
    fn set(&mut self, parameter: &str, value: &str) -> Result<(), ParameterError> {
        let index = self
            .index_of(parameter)
            .ok_or_else(|| ParameterError::unknown(self.name(), &self.parameters(), parameter))?;
        let declared = &self.declaration.parameters[index];
        let parsed = declared.default.parse(value).and_then(|value| declared.check(value));
        self.values[index] = parsed.map_err(|problem| ParameterError::InvalidValue {
            parameter: declared.info.name,
            problem,
            range: declared.info.range,
        })?;
        Ok(())
    }
    fn scaled_values(&self, scale: &dyn Scale) -> Vec<(&'static str, String)> {
        self.named(|value| value.scaled(scale).text())
    }
    fn needs(&self) -> Needs {
        let needs = self.declaration.like.needs();
        match self.declaration.record_fields {
            [] => needs,
            fields => Needs { custom_record_fields: Some(fields), ..needs },
        }
    }
    fn port_algorithm(&self, base_rtt: Time) -> Option<PortAlgorithm> {
        self.declaration.like.port_algorithm(base_rtt)
    }
    fn sender(&self, flow: &FlowParams) -> Box<dyn Sender> {
        Box::new(PythonSender::new(&self.declaration, &self.values, &self.failure, flow))
    }
    fn multipath_sender(&self, flow: &FlowParams) -> Box<dyn MultipathSender> {
        Box::new(self.sender(flow))
    }
    fn receiver(&self, host: &FlowParams) -> Box<dyn Receiver> {
        self.declaration.like.receiver(host)
    }
    fn gauges(&self) -> Vec<&'static str> {
        self.declaration.gauges.clone()
    }
}
