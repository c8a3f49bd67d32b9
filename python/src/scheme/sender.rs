//! A flow of a scheme that is a Python class.

use super::declaration::Declaration;
use super::events::{Ack, Flow, Loss, RateNotice};
use super::failure::Failure;
use super::value::Value;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use weir_host::custom_record::RecordFields;
use weir_host::scheme::{
    AckEvent, Decision, FlowParams, GaugeReporter, LossEvent, RateEvent, Sender, SendingRate,
};
use weir_host::telemetry::TelemetryCounters;
use weir_units::{Bandwidth, Bytes, Time};

/// An instance of the class.
#[derive(Debug)]
struct Instance {
    object: Py<PyAny>,
    /// Its method, looked up once: it is called for each ACK.
    on_ack: Py<PyAny>,
}

#[derive(Debug)]
pub(super) struct PythonSender {
    declaration: Arc<Declaration>,
    failure: Failure,
    /// `None` if the class failed to make one.
    instance: Option<Instance>,
    decision: Decision,
    nic_rate: Bandwidth,
    /// True if the scheme left the rate of its last decision open.
    is_window_based: bool,
    record: RecordFields,
}

impl PythonSender {
    pub(super) fn new(
        declaration: &Arc<Declaration>,
        values: &[Value],
        failure: &Failure,
        flow: &FlowParams,
    ) -> PythonSender {
        let window = flow.nic_rate.bytes_in(flow.base_rtt).max(Bytes::new(1));
        let mut sender = PythonSender {
            declaration: declaration.clone(),
            failure: failure.clone(),
            instance: None,
            decision: Decision { window, rate: flow.nic_rate, timer: None },
            nic_rate: flow.nic_rate,
            is_window_based: false,
            record: flow.record,
        };
        if sender.failure.is_set() {
            return sender;
        }
        Python::attach(|py| {
            let start = || -> PyResult<(Instance, Bound<'_, PyAny>)> {
                let object = sender.declaration.class.bind(py).call0()?;
                for (parameter, value) in sender.declaration.parameters.iter().zip(values) {
                    object.setattr(parameter.info.name, value.to_python(py)?)?;
                }
                let decision = object.call_method1("start", (Flow::new(flow),))?;
                let on_ack = object.getattr("on_ack")?.unbind();
                Ok((Instance { object: object.unbind(), on_ack }, decision))
            };
            let result = start().map(|(instance, decision)| {
                sender.instance = Some(instance);
                decision
            });
            sender.apply(py, "start", None, result);
        });
        sender
    }

    /// Calls a method and applies its decision. Once a method has failed, nothing is called any more.
    fn call(
        &mut self,
        method: &str,
        now: Time,
        invoke: impl for<'py> FnOnce(Python<'py>, &Instance) -> PyResult<Bound<'py, PyAny>>,
    ) -> Decision {
        if !self.failure.is_set() {
            Python::attach(|py| {
                let Some(instance) = &self.instance else { return };
                let result = invoke(py, instance);
                self.apply(py, method, Some(now), result);
            });
        }
        self.decision
    }

    /// Calls a method of events that are rarer than ACKs.
    fn call_method<A: for<'py> IntoPyObject<'py>>(
        &mut self,
        method: &str,
        now: Time,
        argument: A,
    ) -> Decision {
        self.call(method, now, |py, instance| instance.object.bind(py).call_method1(method, (argument,)))
    }

    /// Applies the decision that a method returned, or keeps its exception.
    fn apply(&mut self, py: Python<'_>, method: &str, now: Option<Time>, result: PyResult<Bound<'_, PyAny>>) {
        let Err(error) = result.and_then(|value| self.read(method, now, &value)) else { return };
        let at = now.map_or_else(String::new, |now| format!(" at {now}"));
        self.fail(py, error, format!("in {method} of the scheme {}{at}", self.declaration.name));
    }

    fn fail(&self, py: Python<'_>, error: PyErr, note: String) {
        // A note is an addition: without it the exception has its own traceback.
        let _ = error.value(py).call_method1("add_note", (note,));
        self.failure.set(error);
    }

    fn read(&mut self, method: &str, now: Option<Time>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if value.is_none() {
            return Ok(());
        }
        let expected = || {
            PyTypeError::new_err(format!(
                "{method} returned {value}; expected None, (window, rate) or (window, rate, timer)"
            ))
        };
        let parts = value.cast::<PyTuple>().map_err(|_| expected())?;
        if !matches!(parts.len(), 2 | 3) {
            return Err(expected());
        }
        let number = |index: usize, name: &str| -> PyResult<Option<f64>> {
            let part = parts.get_item(index)?;
            if part.is_none() {
                return Ok(None);
            }
            let number: f64 = part.extract().map_err(|_| expected())?;
            if number >= 0.0 {
                return Ok(Some(number));
            }
            Err(PyValueError::new_err(format!("{method} returned the {name} {number}; expected 0 or more")))
        };
        let (window, rate) = (number(0, "window")?, number(1, "rate")?);
        let timer = if parts.len() == 3 { number(2, "timer")? } else { None };
        let timer = timer.map(Time::from_secs_f64);
        match (timer, now) {
            (Some(_), None) => {
                return Err(PyValueError::new_err(
                    "start returned a timer; set it in on_ack, which has the time",
                ));
            }
            (Some(timer), Some(now)) if timer <= now => {
                return Err(PyValueError::new_err(format!(
                    "{method} set a timer for {timer}, which is over"
                )));
            }
            _ => {}
        }
        self.decision = Decision {
            window: window.map_or(Bytes::MAX, |window| Bytes::new((window as u64).max(1))),
            rate: rate.map_or(self.nic_rate, |rate| {
                Bandwidth::from_bps_f64(rate).clamp(Bandwidth::from_bps(1), self.nic_rate)
            }),
            timer,
        };
        self.is_window_based = rate.is_none();
        Ok(())
    }
}

impl Sender for PythonSender {
    fn on_ack(&mut self, ack: &AckEvent<'_>, _checks: &mut TelemetryCounters) -> Decision {
        let (record, fields) = (self.record, self.declaration.record_fields.len());
        self.call("on_ack", ack.now, |py, instance| {
            instance.on_ack.bind(py).call1((Ack::new(ack, &record, fields),))
        })
    }
    fn on_loss(&mut self, loss: &LossEvent) -> Decision {
        self.call_method("on_loss", loss.now, Loss::from(loss))
    }
    fn on_cnp(&mut self, now: Time) -> Decision {
        self.call_method("on_cnp", now, now.as_secs_f64())
    }
    fn on_rate(&mut self, rate: &RateEvent) -> Decision {
        self.call_method("on_rate", rate.now, RateNotice::from(rate))
    }
    fn on_timer(&mut self, now: Time) -> Decision {
        self.decision.timer = None;
        self.call_method("on_timer", now, now.as_secs_f64())
    }
    fn resume(&mut self, now: Time, from: &SendingRate) -> Decision {
        let rate = Bandwidth::from_bps_f64(from.rate).clamp(Bandwidth::from_bps(1), self.nic_rate);
        self.decision = Decision { window: Bytes::new((from.window as u64).max(1)), rate, timer: None };
        self.call_method("resume", now, from.rate)
    }
    fn decision(&self) -> Decision {
        self.decision
    }
    fn is_window_based(&self) -> bool {
        self.is_window_based
    }
    fn gauges(&self, report: &mut GaugeReporter<'_>) {
        if self.declaration.gauges.is_empty() {
            return;
        }
        Python::attach(|py| {
            for gauge in &self.declaration.gauges {
                let value = self.instance.as_ref().map(|instance| {
                    instance.object.bind(py).getattr(*gauge).and_then(|value| value.extract::<f64>())
                });
                match value.transpose() {
                    Ok(value) => report(gauge, value.unwrap_or(0.0)),
                    Err(error) => {
                        report(gauge, 0.0);
                        let note = format!("gauge {gauge} of the scheme {}", self.declaration.name);
                        self.fail(py, error, note);
                    }
                }
            }
        });
    }
}
