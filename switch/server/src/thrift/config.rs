//! The program itself: its JSON, for clients who want to know its names; and what is configured elsewhere here.

use super::pre::Pre;
use super::service::{Answer, Fault, Service, context};
use super::value::{Fields, Value};
use md5::{Digest, Md5};
use serde_json::Value as Json;
use thrift::ApplicationErrorKind;
use weir_switch::Switch;
use weir_switch::driver::DataplaneError;

/// Error codes of standard.thrift.
const CONFIG_SWAP_DISABLED: i32 = 1;
const INVALID_CALCULATION_NAME: i32 = 1;
const LEARN_ERROR: i32 = 3;
const INVALID_RESOURCE_TYPE: i32 = 0;
const INVALID_RESOURCE_NAME: i32 = 1;

/// `BmResourceType` in order: where the JSON has such objects.
const RESOURCES: [&str; 6] =
    ["tables", "action_profiles", "counter_arrays", "meter_arrays", "register_arrays", "learn_lists"];

/// Answers it, if it is one of these.
pub(super) fn call(service: &mut Service, method: &str, args: &Fields) -> Option<Answer> {
    let answer = match method {
        "bm_get_config" => json(service).map(Value::text),
        "bm_get_config_md5" => json(service).map(|json| Value::Binary(Md5::digest(json).to_vec())),
        "bm_get_id_from_name" => id_from_name(service, args),
        "bm_reset_state" => reset_state(service),
        // Programs come by P4Runtime, digests go by it.
        "bm_load_new_config" | "bm_swap_configs" => Err(Fault::Declared(CONFIG_SWAP_DISABLED)),
        "bm_learning_ack"
        | "bm_learning_ack_buffer"
        | "bm_learning_set_timeout"
        | "bm_learning_set_buffer_size" => Err(Fault::Declared(LEARN_ERROR)),
        // A program's hashes are what it says.
        "bm_set_crc16_custom_parameters" | "bm_set_crc32_custom_parameters" | "bm_set_toeplitz_hash_key" => {
            Err(Fault::Declared(INVALID_CALCULATION_NAME))
        }
        "bm_serialize_state" => Err(Fault::Application(
            ApplicationErrorKind::UnknownMethod,
            "the switch saves no state; let its controller write it again".into(),
        )),
        _ => return None,
    };
    Some(answer)
}

/// Returns the program as it was loaded; without one, an empty object as in BMv2.
fn json(service: &Service) -> Result<String, Fault> {
    match service.handle.with(|switch, _| switch.pipeline().program().clone()) {
        Err(DataplaneError::NoProgram) => Ok("{}".into()),
        program => Ok(program?.json().to_owned()),
    }
}

fn id_from_name(service: &Service, args: &Fields) -> Answer {
    context(args)?;
    let kind = usize::try_from(args.i32(2)?).ok().and_then(|kind| RESOURCES.get(kind));
    let kind = *kind.ok_or(Fault::Declared(INVALID_RESOURCE_TYPE))?;
    let name = args.text(3)?;
    let json: Json =
        serde_json::from_str(&json(service)?).map_err(|error| Fault::internal(error.to_string()))?;
    let pipelines = json["pipelines"].as_array().into_iter().flatten();
    let mut objects = pipelines.chain([&json]).filter_map(|holder| holder[kind].as_array()).flatten();
    let id = objects.find(|object| object["name"] == name.as_str()).and_then(|object| object["id"].as_i64());
    let id = id.and_then(|id| i32::try_from(id).ok()).ok_or(Fault::Declared(INVALID_RESOURCE_NAME))?;
    Ok(Value::I32(id))
}

/// Tables, cells and multicast groups as they are when the program starts; clone sessions stay, as in BMv2
/// (`SimpleSwitch::reset_target_state_`). Packets that wait are lost.
fn reset_state(service: &mut Service) -> Answer {
    let config = service.handle.switch_config().wait()?;
    let present = service
        .handle
        .with(|switch, _| (switch.pipeline().program().clone(), switch.clone_sessions().clone()));
    let (program, sessions) = match present {
        Err(DataplaneError::NoProgram) => return Ok(Value::Void),
        present => present?,
    };
    let refused = |error: &dyn std::fmt::Display| Fault::internal(error.to_string());
    let mut switch = Switch::new(program, config, service.seed).map_err(|error| refused(&error))?;
    for (id, session) in sessions {
        switch.set_clone_session(id, session).map_err(|error| refused(&error))?;
    }
    service.handle.install(Box::new(switch)).wait()?;
    service.pre = Pre::default();
    Ok(Value::Void)
}
