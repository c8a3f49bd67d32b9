//! `simple_switch`: rates and depths of queues, clone sessions, clocks.

use super::service::{CallError, CallResult, Service};
use super::value::{Fields, Value};
use std::time::{SystemTime, UNIX_EPOCH};
use weir_switch::engine::{CloneSession, Replica};
use weir_switch::tm::{QueueLimits, Rate};
use weir_units::Bytes;

/// `MirroringOperationErrorCode` (simple_switch.thrift). Also the error of calls on sessions if no program is loaded.
const SESSION_NOT_FOUND: i32 = 1;
/// Result of the queue calls, which cannot fail in BMv2.
const SUCCESS: Value = Value::I32(0);
/// Result of `mirroring_mapping_get_egress_port` for a session without a port.
const NO_PORT: i32 = -1;

/// Dispatches the methods of this file; `None` for any other.
pub(super) fn call(service: &mut Service, method: &str, args: &Fields) -> Option<CallResult> {
    // The numbers are ids of Thrift fields: port, priority, and the value to set.
    let answer = match method {
        "set_egress_priority_queue_depth" => set_depth(service, args, Some(1), Some(2), 3),
        "set_egress_queue_depth" => set_depth(service, args, Some(1), None, 2),
        "set_all_egress_queue_depths" => set_depth(service, args, None, None, 1),
        "set_egress_priority_queue_rate" => set_rate(service, args, Some(1), Some(2), 3),
        "set_egress_queue_rate" => set_rate(service, args, Some(1), None, 2),
        "set_all_egress_queue_rates" => set_rate(service, args, None, None, 1),
        "mirroring_session_add" => add_session(service, args),
        "mirroring_session_delete" => delete_session(service, args).and_then(|found| match found {
            true => Ok(Value::Void),
            false => Err(CallError::Exception(SESSION_NOT_FOUND)),
        }),
        "mirroring_session_get" => get_session(service, args),
        "mirroring_mapping_add" => add_mapping(service, args),
        // As in BMv2, the result is 1 if a session was deleted and 0 if not.
        "mirroring_mapping_delete" => delete_session(service, args).map(|found| Value::I32(i32::from(found))),
        "mirroring_mapping_get_egress_port" => get_mapping(service, args),
        "get_time_elapsed_us" => elapsed_us(service),
        "get_time_since_epoch_us" => Ok(Value::I64(epoch_us())),
        _ => return None,
    };
    Some(answer)
}

// Queues. As in BMv2, a port without a priority means each of its queues.

/// Returns the port and the priority of the selected queues. `None` selects all ports or all priorities.
fn queue_selector(
    args: &Fields,
    port_field: Option<i16>,
    priority_field: Option<i16>,
) -> Result<(Option<u16>, Option<u8>), CallError> {
    let port = port_field.map(|id| args.i32(id)).transpose()?;
    let priority = priority_field.map(|id| args.i32(id)).transpose()?;
    // An out-of-range port or priority becomes the maximum, which no queue has, so the call fails as for an unknown
    // one.
    let port = port.map(|port| u16::try_from(port).unwrap_or(u16::MAX));
    Ok((port, priority.map(|priority| u8::try_from(priority).unwrap_or(u8::MAX))))
}

fn ok_or_unknown_queue(exists: bool) -> CallResult {
    match exists {
        true => Ok(SUCCESS),
        false => Err(CallError::internal("there is no such port or priority; see --priority-queues")),
    }
}

fn set_depth(
    service: &Service,
    args: &Fields,
    port_field: Option<i16>,
    priority_field: Option<i16>,
    depth_field: i16,
) -> CallResult {
    let (port, priority) = queue_selector(args, port_field, priority_field)?;
    // As in BMv2, a negative depth is read as a large unsigned one.
    let limits = QueueLimits { packets: args.i32(depth_field)? as u32, bytes: Bytes::MAX };
    ok_or_unknown_queue(service.handle.set_queue_limits(port, priority, limits).wait()?)
}

fn set_rate(
    service: &Service,
    args: &Fields,
    port_field: Option<i16>,
    priority_field: Option<i16>,
    rate_field: i16,
) -> CallResult {
    let (port, priority) = queue_selector(args, port_field, priority_field)?;
    // Packets per second.
    let rate = Rate::Packets(args.i64(rate_field)? as u64);
    ok_or_unknown_queue(service.handle.set_queue_rates(port, priority, rate).wait()?)
}

// Clone sessions.

/// Adds a session. As in BMv2, an invalid session is ignored.
fn add_session(service: &Service, args: &Fields) -> CallResult {
    let (id, config) = (args.i32(1)?, args.fields(2)?);
    let port = config.get(1).map(|_| config.i32(1)).transpose()?;
    let group = config.get(2).map(|_| config.i32(2)).transpose()?;
    set_session(service, id, port, group)?;
    Ok(Value::Void)
}

/// Adds a session with one port. As in BMv2, the result is 1 if it was added and 0 if not.
fn add_mapping(service: &Service, args: &Fields) -> CallResult {
    let added = set_session(service, args.i32(1)?, Some(args.i32(2)?), None)?;
    Ok(Value::I32(i32::from(added)))
}

/// Replaces a session. Returns `false` if the session is invalid.
fn set_session(service: &Service, id: i32, port: Option<i32>, group: Option<i32>) -> Result<bool, CallError> {
    let to_u16 = |value: Option<i32>| value.map(u16::try_from).transpose();
    let (Ok(id), Ok(port), Ok(group)) = (u16::try_from(id), to_u16(port), to_u16(group)) else {
        return Ok(false);
    };
    let replicas = port.map(|port| Replica { port, instance: 0 }).into_iter().collect();
    let session = CloneSession { group, replicas, ..CloneSession::default() };
    let result = service.handle.with(move |switch, _| switch.set_clone_session(id, session))?;
    Ok(result.is_ok())
}

fn session_id(args: &Fields) -> Result<u16, CallError> {
    u16::try_from(args.i32(1)?).map_err(|_| CallError::Exception(SESSION_NOT_FOUND))
}

/// Deletes a session. Returns `false` if there is no such session.
fn delete_session(service: &Service, args: &Fields) -> Result<bool, CallError> {
    let id = session_id(args)?;
    service.on_switch(SESSION_NOT_FOUND, move |switch, _| switch.delete_clone_session(id))
}

fn find_session(service: &Service, args: &Fields) -> Result<CloneSession, CallError> {
    let id = session_id(args)?;
    let found =
        service.on_switch(SESSION_NOT_FOUND, move |switch, _| switch.clone_sessions().get(&id).cloned())?;
    found.ok_or(CallError::Exception(SESSION_NOT_FOUND))
}

/// Returns the first port of a session. A session that Thrift added has at most one.
fn port_of(session: &CloneSession) -> Option<i32> {
    session.replicas.first().map(|replica| i32::from(replica.port))
}

fn get_session(service: &Service, args: &Fields) -> CallResult {
    let session = find_session(service, args)?;
    let port = port_of(&session).map(|port| (1, Value::I32(port)));
    let group = session.group.map(|group| (2, Value::I32(i32::from(group))));
    Ok(Value::structure(port.into_iter().chain(group)))
}

fn get_mapping(service: &Service, args: &Fields) -> CallResult {
    let port = match find_session(service, args) {
        Ok(session) => port_of(&session),
        Err(CallError::Exception(_)) => None,
        Err(error) => return Err(error),
    };
    Ok(Value::I32(port.unwrap_or(NO_PORT)))
}

// Clocks.

fn elapsed_us(service: &Service) -> CallResult {
    Ok(Value::I64(service.handle.stats().wait()?.uptime.as_us() as i64))
}

/// Returns the microseconds since the Unix epoch; 0 if the system clock is earlier.
fn epoch_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}
