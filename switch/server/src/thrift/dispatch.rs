//! Dispatches calls to the files of the three services.

use super::service::{CallError, CallResult, Service};
use super::value::Fields;
use super::{config, dev_mgr, entries, externs, profiles, simple_pre_lag, simple_switch, tables};
use thrift::ApplicationErrorKind;

/// Executes a call named `service:method`, as in Thrift's multiplexed protocol.
pub(super) fn call(service: &mut Service, name: &str, args: &Fields) -> CallResult {
    let answer = match name.split_once(':') {
        Some(("standard", method)) => tables::call(service, method, args)
            .or_else(|| entries::call(service, method, args))
            .or_else(|| profiles::call(service, method, args))
            .or_else(|| externs::call(service, method, args))
            .or_else(|| dev_mgr::call(service, method, args))
            .or_else(|| config::call(service, method, args)),
        Some(("simple_pre_lag", method)) => simple_pre_lag::call(service, method, args),
        Some(("simple_switch", method)) => simple_switch::call(service, method, args),
        _ => None,
    };
    answer.unwrap_or_else(|| {
        Err(CallError::Application(ApplicationErrorKind::UnknownMethod, format!("unknown method {name}")))
    })
}
