//! `bm_dev_mgr_*` and `bm_mgmt_get_info`: ports, and identification of the switch.

use super::service::{CallError, CallResult, Service};
use super::value::{Fields, Value};
use thrift::protocol::TType;

/// The only value of `DevMgrErrorCode` (standard.thrift).
const ERROR: i32 = 1;

/// Dispatches the methods of this file; `None` for any other.
pub(super) fn call(service: &mut Service, method: &str, args: &Fields) -> Option<CallResult> {
    let answer = match method {
        "bm_dev_mgr_add_port" => add(service, args),
        "bm_dev_mgr_remove_port" => remove(service, args),
        "bm_dev_mgr_show_ports" => show(service),
        "bm_mgmt_get_info" => {
            // `BmConfig` without the sockets for events and the debugger, which the switch lacks.
            let (device, port) = (service.device_id as i64, i32::from(service.port));
            let notifications =
                service.notifier.as_ref().map(|notifier| (3, Value::text(notifier.address())));
            let fields = [(1, Value::I64(device)), (2, Value::I32(port))];
            Ok(Value::structure(fields.into_iter().chain(notifications)))
        }
        _ => return None,
    };
    Some(answer)
}

fn port_number(args: &Fields, id: i16) -> Result<u16, CallError> {
    u16::try_from(args.i32(id)?).map_err(|_| CallError::Exception(ERROR))
}

fn add(service: &Service, args: &Fields) -> CallResult {
    let (interface, port, capture) = (args.text(1)?, port_number(args, 2)?, args.text(3)?);
    if !capture.is_empty() {
        tracing::warn!(port, interface, "port not added: per-port capture is not supported; use --pcap");
        return Err(CallError::Exception(ERROR));
    }
    to_result(service.handle.add_port(port, interface).wait())
}

fn remove(service: &Service, args: &Fields) -> CallResult {
    to_result(service.handle.remove_port(port_number(args, 1)?).wait())
}

/// Converts a result. The exception has no text, so the reason is logged.
fn to_result(result: Result<(), weir_switch::driver::DataplaneError>) -> CallResult {
    result.map(|()| Value::Void).map_err(|error| {
        tracing::warn!(%error, "port command failed");
        CallError::Exception(ERROR)
    })
}

fn show(service: &Service) -> CallResult {
    let stats = service.handle.stats().wait()?;
    let port = |port: &weir_switch::driver::PortStatus| {
        Value::structure([
            (1, Value::I32(i32::from(port.port))),
            (2, Value::text(&port.interface)),
            (3, Value::Bool(port.up)),
            (4, Value::Map(Vec::new())),
        ])
    };
    Ok(Value::List(TType::Struct, stats.ports.iter().map(port).collect()))
}
