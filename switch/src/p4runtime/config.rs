//! Forwarding pipelines as controllers push them: read, checked, made into a switch beside the running one.

use super::packet_io::ControllerHeader;
use crate::control::{Control, ControlError};
use crate::engine::{Switch, SwitchConfig};
use crate::program::Program;
use prost::Message;
use std::borrow::Cow;
use std::sync::Arc;
use weir_proto::google::rpc::Code;
use weir_proto::p4::v1::ForwardingPipelineConfig;
use weir_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use weir_proto::p4info::Index;

/// A pipeline that could be put in: its program on a switch of its own, with nothing in its tables.
pub struct Candidate {
    pub switch: Box<Switch>,
    pub control: Control,
    pub headers: Headers,
    /// As it came.
    pub config: ForwardingPipelineConfig,
}

/// The controller headers of a program.
#[derive(Clone, Debug, Default)]
pub struct Headers {
    pub packet_in: ControllerHeader,
    pub packet_out: ControllerHeader,
}

/// The older form of `p4_device_config` that PI still takes: the JSON wrapped in a message (p4/tmp/p4config.proto).
#[derive(Clone, PartialEq, Message)]
struct PackedConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// Loads a pipeline. Without a device config it is the program that runs already, as in BMv2: only the P4Info of a
/// program given on the command line is missing.
pub fn load(
    config: ForwardingPipelineConfig,
    running: Option<Arc<Program>>,
    switch: SwitchConfig,
    seed: u64,
) -> Result<Candidate, ControlError> {
    let invalid = |what: String| ControlError::new(Code::InvalidArgument, what);
    let p4info = config.p4info.clone().ok_or_else(|| invalid("the config has no P4Info".into()))?;
    let index = Index::new(p4info).map_err(|error| invalid(format!("the P4Info is wrong: {error}")))?;
    let program = match program_text(&config.p4_device_config)? {
        Some(text) => Program::from_json(&text).map_err(|error| {
            invalid(format!("p4_device_config is not a program for this switch: {error}"))
        })?,
        None => running.ok_or_else(|| {
            invalid("p4_device_config is empty and no program runs; send the BMv2 JSON of p4c-bm2-ss".into())
        })?,
    };
    let headers = Headers {
        packet_in: ControllerHeader::of(&index, "packet_in")?,
        packet_out: ControllerHeader::of(&index, "packet_out")?,
    };
    let switch = Switch::new(program, switch, seed).map_err(|error| invalid(error.to_string()))?;
    let control = Control::new(Arc::new(index), &switch)?;
    Ok(Candidate { switch: Box::new(switch), control, headers, config })
}

/// The JSON in a device config, `None` if it is empty.
fn program_text(device_config: &[u8]) -> Result<Option<Cow<'_, str>>, ControlError> {
    let invalid = |what: &str| ControlError::new(Code::InvalidArgument, what);
    let json = match device_config.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => return Ok(None),
        Some(b'{') => Cow::Borrowed(device_config),
        Some(_) => match PackedConfig::decode(device_config) {
            Ok(packed) if packed.device_data.is_empty() => return Ok(None),
            Ok(packed) => Cow::Owned(packed.device_data),
            Err(_) => {
                return Err(invalid(
                    "p4_device_config is not BMv2 JSON; send what p4c-bm2-ss writes with -o",
                ));
            }
        },
    };
    let text = match json {
        Cow::Borrowed(json) => std::str::from_utf8(json).map(Cow::Borrowed).ok(),
        Cow::Owned(json) => String::from_utf8(json).map(Cow::Owned).ok(),
    };
    text.map(Some).ok_or_else(|| invalid("p4_device_config is not text in UTF-8"))
}

/// What a GetForwardingPipelineConfig asks for of a config.
pub fn part(config: &ForwardingPipelineConfig, kind: ResponseType) -> ForwardingPipelineConfig {
    let p4info = matches!(kind, ResponseType::All | ResponseType::P4infoAndCookie);
    let device = matches!(kind, ResponseType::All | ResponseType::DeviceConfigAndCookie);
    ForwardingPipelineConfig {
        p4info: config.p4info.clone().filter(|_| p4info),
        p4_device_config: if device { config.p4_device_config.clone() } else { Vec::new() },
        cookie: config.cookie,
    }
}
