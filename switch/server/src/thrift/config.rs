//! Calls on the program: its JSON and program swaps. Also rejects calls for functions that are configured elsewhere.

use super::learning::Learning;
use super::nodes::Pre;
use super::service::{CallError, CallResult, Service, check_context};
use super::value::{Fields, Value};
use md5::{Digest, Md5};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weir_switch::driver::DataplaneError;
use weir_switch::engine::CloneSession;
use weir_switch::pipeline::Pipeline;
use weir_switch::{Program, Switch};

/// `SwapOperationErrorCode` (standard.thrift).
const CONFIG_SWAP_DISABLED: i32 = 1;
const ONGOING_SWAP: i32 = 2;
const NO_ONGOING_SWAP: i32 = 3;
/// `LearnOperationErrorCode`.
const INVALID_LIST_ID: i32 = 1;
const LEARN_ERROR: i32 = 3;
/// `IdLookupErrorCode`.
const INVALID_RESOURCE_TYPE: i32 = 0;
const INVALID_RESOURCE_NAME: i32 = 1;

/// JSON keys of the objects of each `BmResourceType`, in the order of the enum.
const RESOURCES: [&str; 6] =
    ["tables", "action_profiles", "counter_arrays", "meter_arrays", "register_arrays", "learn_lists"];

/// Dispatches the methods of this file; `None` for any other.
pub(super) fn call(service: &mut Service, method: &str, args: &Fields) -> Option<CallResult> {
    let answer = match method {
        "bm_get_config" => json(service).map(Value::text),
        "bm_get_config_md5" => json(service).map(|json| Value::Binary(Md5::digest(json).to_vec())),
        "bm_get_id_from_name" => id_from_name(service, args),
        "bm_reset_state" => reset_state(service),
        "bm_load_new_config" | "bm_swap_configs" if !service.allow_config_swap => {
            Err(CallError::Exception(CONFIG_SWAP_DISABLED))
        }
        "bm_load_new_config" => load(service, args),
        "bm_swap_configs" => swap(service),
        "bm_learning_ack" => acknowledge(service, args),
        "bm_learning_ack_buffer" => on_learn_list(service, args, args.i64(3), |learning, list, buffer| {
            learning.acknowledge_buffer(list, buffer as u64);
        }),
        "bm_learning_set_timeout" => on_learn_list(service, args, args.i32(3), |learning, list, ms| {
            // As in BMv2, a negative number is read as a large unsigned one.
            learning.set_timeout(list, Duration::from_millis(u64::from(ms as u32)));
        }),
        "bm_learning_set_buffer_size" => {
            on_learn_list(service, args, args.i32(3), |learning, list, samples| {
                learning.set_buffer_size(list, samples as u32 as usize);
            })
        }
        "bm_serialize_state" => serialize_state(service),
        _ => return None,
    };
    Some(answer)
}

/// Returns the JSON of the program that was loaded last, or an empty object without one, as in BMv2.
fn json(service: &Service) -> Result<String, CallError> {
    if let Some(pending) = &service.staged_switch {
        return Ok(pending.pipeline().program().json().to_owned());
    }
    match service.handle.with(|switch, _| switch.pipeline().program().clone()) {
        Err(DataplaneError::NoProgram) => Ok("{}".into()),
        program => Ok(program?.json().to_owned()),
    }
}

/// Returns the state of the running program; empty without one.
fn serialize_state(service: &Service) -> CallResult {
    match service.handle.with(|switch, _| switch.pipeline().save_state()) {
        Err(DataplaneError::NoProgram) => Ok(Value::text("")),
        state => Ok(Value::text(state?)),
    }
}

fn id_from_name(service: &Service, args: &Fields) -> CallResult {
    check_context(args)?;
    let kind = usize::try_from(args.i32(2)?).ok().and_then(|kind| RESOURCES.get(kind));
    let kind = *kind.ok_or(CallError::Exception(INVALID_RESOURCE_TYPE))?;
    let name = args.text(3)?;
    let json: Json =
        serde_json::from_str(&json(service)?).map_err(|error| CallError::internal(error.to_string()))?;
    let pipelines = json["pipelines"].as_array().into_iter().flatten();
    let mut objects = pipelines.chain([&json]).filter_map(|holder| holder[kind].as_array()).flatten();
    let id = objects.find(|object| object["name"] == name.as_str()).and_then(|object| object["id"].as_i64());
    let id = id.and_then(|id| i32::try_from(id).ok()).ok_or(CallError::Exception(INVALID_RESOURCE_NAME))?;
    Ok(Value::I32(id))
}

/// Loads a program on a new switch. The current one forwards packets until the swap.
fn load(service: &mut Service, args: &Fields) -> CallResult {
    if service.staged_switch.is_some() {
        return Err(CallError::Exception(ONGOING_SWAP));
    }
    let program =
        service.programs.load(&args.text(1)?).map_err(|error| CallError::internal(error.message))?;
    service.staged_switch = Some(new_switch(service, program)?);
    Ok(Value::Void)
}

/// Installs the loaded switch. As in BMv2, multicast groups and clone sessions belong to the target and are kept;
/// queued packets are lost.
fn swap(service: &mut Service) -> CallResult {
    let mut switch = service.staged_switch.take().ok_or(CallError::Exception(NO_ONGOING_SWAP))?;
    let state = service
        .handle
        .with(|running, _| (running.multicast_groups().clone(), running.clone_sessions().clone()));
    let (groups, sessions) = match state {
        Err(DataplaneError::NoProgram) => Default::default(),
        state => state?,
    };
    for (group, replicas) in groups {
        switch
            .set_multicast_group(group, replicas)
            .map_err(|error| CallError::internal(error.to_string()))?;
    }
    set_sessions(&mut switch, sessions)?;
    service.handle.install(switch).wait()?;
    service.handle.with(|switch, now| {
        switch.set_now(now);
        switch.pipeline_mut().restart_timeouts();
    })?;
    Ok(Value::Void)
}

/// Returns a switch with empty tables.
fn new_switch(service: &Service, program: Arc<Program>) -> Result<Box<Switch>, CallError> {
    let config = service.handle.switch_config().wait()?;
    let switch = Switch::new(program, config, service.seed);
    switch.map(Box::new).map_err(|error| CallError::internal(error.to_string()))
}

fn set_sessions(switch: &mut Switch, sessions: BTreeMap<u16, CloneSession>) -> Result<(), CallError> {
    for (id, session) in sessions {
        switch.set_clone_session(id, session).map_err(|error| CallError::internal(error.to_string()))?;
    }
    Ok(())
}

/// Runs an operation on the learn list with the id in field 2 of the program that was loaded last. Without a
/// notifications socket there are no notifications to configure or acknowledge.
fn on_learn_list<A>(
    service: &mut Service,
    args: &Fields,
    argument: thrift::Result<A>,
    operation: impl FnOnce(&mut Learning, i32, A),
) -> CallResult {
    check_context(args)?;
    let (list, argument) = (args.i32(2)?, argument?);
    let exists =
        move |pipeline: &mut Pipeline| pipeline.program().learn_list_ids().any(|id| id == i64::from(list));
    if !service.on_program(INVALID_LIST_ID, exists)? {
        return Err(CallError::Exception(INVALID_LIST_ID));
    }
    let notifier = service.notifier.as_ref().ok_or(CallError::Exception(LEARN_ERROR))?;
    notifier.with_learning(|learning| operation(learning, list, argument));
    Ok(Value::Void)
}

fn acknowledge(service: &mut Service, args: &Fields) -> CallResult {
    let samples = args.list(4)?.iter().map(|sample| match sample {
        Value::I32(sample) => *sample as u32 as usize,
        // No sample has this position, so the acknowledgement is ignored.
        _ => usize::MAX,
    });
    let samples: Vec<usize> = samples.collect();
    on_learn_list(service, args, args.i64(3), |learning, list, buffer| {
        learning.acknowledge(list, buffer as u64, samples);
    })
}

/// Resets tables, counters, meters, registers and multicast groups to the initial state of the program. As in BMv2
/// (`SimpleSwitch::reset_target_state_`), clone sessions are kept; queued packets are lost.
fn reset_state(service: &mut Service) -> CallResult {
    if let Some(pending) = &service.staged_switch {
        let program = pending.pipeline().program().clone();
        service.staged_switch = Some(new_switch(service, program)?);
    }
    let running = service
        .handle
        .with(|switch, _| (switch.pipeline().program().clone(), switch.clone_sessions().clone()));
    let (program, sessions) = match running {
        Err(DataplaneError::NoProgram) => return Ok(Value::Void),
        running => running?,
    };
    let mut switch = new_switch(service, program)?;
    set_sessions(&mut switch, sessions)?;
    service.handle.install(switch).wait()?;
    service.pre = Pre::default();
    if let Some(notifier) = &service.notifier {
        notifier.with_learning(Learning::reset);
    }
    Ok(Value::Void)
}
