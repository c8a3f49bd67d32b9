//! The common part of all Thrift services: state and errors.

use super::nodes::Pre;
use super::notifications::Notifier;
use super::value::{Fields, Value};
use crate::p4runtime::Programs;
use std::sync::Arc;
use thrift::ApplicationErrorKind;
use weir_switch::Switch;
use weir_switch::driver::{DataplaneError, DataplaneHandle};
use weir_switch::pipeline::{Pipeline, TableError};
use weir_units::Time;

/// The reason why a call has no result.
#[derive(Debug)]
pub(super) enum CallError {
    /// The exception that BMv2 declares for the call. All of these are structs with one error code.
    Exception(i32),
    /// TApplicationException of Thrift itself.
    Application(ApplicationErrorKind, String),
}

pub(super) type CallResult = Result<Value, CallError>;

impl CallError {
    pub(super) fn internal(what: impl Into<String>) -> CallError {
        CallError::Application(ApplicationErrorKind::InternalError, what.into())
    }
}

/// Converts errors of missing arguments or arguments of another type.
impl From<thrift::Error> for CallError {
    fn from(error: thrift::Error) -> CallError {
        let text = match error {
            thrift::Error::Protocol(error) => error.message,
            other => other.to_string(),
        };
        CallError::Application(ApplicationErrorKind::ProtocolError, text)
    }
}

impl From<DataplaneError> for CallError {
    fn from(error: DataplaneError) -> CallError {
        CallError::internal(error.to_string())
    }
}

/// The state of all services of one switch.
pub(super) struct Service {
    pub handle: DataplaneHandle,
    /// Publishes digests; `None` without a notifications socket.
    pub notifier: Option<Notifier>,
    pub device_id: u64,
    /// Port of this server, for `bm_mgmt_get_info`.
    pub port: u16,
    /// Seed of the `random` extern after `reset_state`.
    pub seed: u64,
    pub pre: Pre,
    /// Whether clients may load programs.
    pub allow_config_swap: bool,
    pub programs: Arc<Programs>,
    /// Switch with the program of `bm_load_new_config` until `bm_swap_configs` installs it. As in BMv2, calls on
    /// tables, counters, meters and registers refer to it in the meantime.
    pub staged_switch: Option<Box<Switch>>,
}

impl Service {
    /// Runs an operation on the switch. Without a program no object exists, so the call then fails with the exception
    /// `unknown`: the code with which BMv2 reports an unknown object.
    ///
    /// # Errors
    ///
    /// The switch runs no program, or the data plane does not reply.
    pub(super) fn on_switch<R: Send + 'static>(
        &self,
        unknown: i32,
        operation: impl FnOnce(&mut Switch, Time) -> R + Send + 'static,
    ) -> Result<R, CallError> {
        let operation = |switch: &mut Switch, now| {
            switch.set_now(now);
            operation(switch, now)
        };
        match self.handle.with(operation) {
            Err(DataplaneError::NoProgram) => Err(CallError::Exception(unknown)),
            answer => Ok(answer?),
        }
    }

    /// Runs an operation on the program that was loaded last: the running one, or the one that waits for
    /// `bm_swap_configs`.
    ///
    /// # Errors
    ///
    /// See [`on_switch`](Self::on_switch).
    pub(super) fn on_program<R: Send + 'static>(
        &mut self,
        unknown: i32,
        operation: impl FnOnce(&mut Pipeline) -> R + Send + 'static,
    ) -> Result<R, CallError> {
        match &mut self.staged_switch {
            Some(pending) => Ok(operation(pending.pipeline_mut())),
            None => self.on_switch(unknown, |switch, _| operation(switch.pipeline_mut())),
        }
    }

    /// Runs an operation on the pipeline of that program; `code` converts its error.
    ///
    /// # Errors
    ///
    /// The operation failed, or as for [`on_program`](Self::on_program).
    pub(super) fn on_pipeline<R: Send + 'static>(
        &mut self,
        unknown: i32,
        code: impl FnOnce(&TableError) -> i32,
        operation: impl FnOnce(&mut Pipeline) -> Result<R, TableError> + Send + 'static,
    ) -> Result<R, CallError> {
        let answer = self.on_program(unknown, operation)?;
        answer.map_err(|error| CallError::Exception(code(&error)))
    }
}

/// Checks the context of a call, field 1. BMv2's interface has several; simple_switch has only context 0.
pub(super) fn check_context(args: &Fields) -> Result<(), CallError> {
    match args.i32(1)? {
        0 => Ok(()),
        other => Err(CallError::internal(format!("unknown context {other}; there is only context 0"))),
    }
}
