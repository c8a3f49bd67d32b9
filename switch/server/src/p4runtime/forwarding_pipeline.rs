//! Forwarding pipelines as controllers push them: read, checked, made into a switch beside the running one.

use super::device::lock;
use super::packet_io::ControllerHeader;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::ForwardingPipelineConfig;
use p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime::p4info::Index;
use prost::Message;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, Weak};
use weir_switch::control::{Control, ControlError};
use weir_switch::engine::{Switch, SwitchConfig};
use weir_switch::program::Program;

/// The memory that loading a program may take, bytes: its text, the copies of it, and the JSON in memory. Programs of
/// p4c-bm2-ss take about 15 times their size by this estimate, so that one of 4 MB is below it.
const MAX_PROGRAM_MEMORY: usize = 64 << 20;

/// The programs that run on the switches of a process. Each text is loaded once, however many switches it is pushed to.
#[derive(Debug, Default)]
pub struct Programs(Mutex<Vec<Weak<Program>>>);

impl Programs {
    /// Returns the program of a text of BMv2 JSON.
    ///
    /// # Errors
    ///
    /// RESOURCE_EXHAUSTED: it would take too much memory to load. INVALID_ARGUMENT: it is not a program for this switch.
    pub(crate) fn load(&self, text: &str) -> Result<Arc<Program>, ControlError> {
        if estimate_load_memory(text) > MAX_PROGRAM_MEMORY {
            let what = format!(
                "to load a program of {} bytes would need more than {MAX_PROGRAM_MEMORY} bytes of memory",
                text.len()
            );
            return Err(ControlError::new(Code::ResourceExhausted, what));
        }

        // Others wait meanwhile: what is loaded may be theirs.
        let mut known = lock(&self.0);
        known.retain(|program| program.strong_count() > 0);
        if let Some(same) = known.iter().filter_map(Weak::upgrade).find(|program| program.json() == text) {
            return Ok(same);
        }
        let program = Program::from_json(text).map_err(|error| {
            ControlError::invalid(format!("this is not a program for this switch: {error}"))
        })?;
        known.push(Arc::downgrade(&program));
        Ok(program)
    }
}

/// A pipeline that could be put in: its program on a switch of its own, with nothing in its tables.
pub struct StagedPipeline {
    pub switch: Box<Switch>,
    pub control: Control,
    pub headers: ControllerHeaders,
    /// As it came.
    pub config: ForwardingPipelineConfig,
}

/// The controller headers of a program.
#[derive(Clone, Debug, Default)]
pub struct ControllerHeaders {
    pub packet_in: ControllerHeader,
    pub packet_out: ControllerHeader,
}

/// The older form of `p4_device_config` that PI still takes: the JSON wrapped in a message (p4/tmp/p4config.proto).
#[derive(Clone, PartialEq, Message)]
struct PackedConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// Loads a pipeline. Without a device config it is the program that runs already, as in BMv2: only the P4Info
/// of a program given on the command line is missing.
///
/// # Errors
///
/// INVALID_ARGUMENT: the P4Info or the program is missing, malformed, or they do not belong together.
/// RESOURCE_EXHAUSTED: the program would take too much memory.
pub fn load(
    programs: &Programs,
    config: ForwardingPipelineConfig,
    running: Option<Arc<Program>>,
    switch: SwitchConfig,
    seed: u64,
) -> Result<StagedPipeline, ControlError> {
    let invalid = |what: String| ControlError::new(Code::InvalidArgument, what);
    let p4info = config.p4info.clone().ok_or_else(|| invalid("the config has no P4Info".into()))?;
    let index = Index::new(p4info).map_err(|error| invalid(format!("the P4Info is wrong: {error}")))?;
    let program = match program_text(&config.p4_device_config)? {
        Some(text) => programs.load(&text).map_err(|error| ControlError {
            message: format!("p4_device_config: {}", error.message),
            ..error
        })?,
        None => running.ok_or_else(|| {
            invalid("p4_device_config is empty and no program runs; send the BMv2 JSON of p4c-bm2-ss".into())
        })?,
    };
    let headers = ControllerHeaders {
        packet_in: ControllerHeader::of(&index, "packet_in")?,
        packet_out: ControllerHeader::of(&index, "packet_out")?,
    };
    let switch = Switch::new(program, switch, seed).map_err(|error| invalid(error.to_string()))?;
    let control = Control::new(Arc::new(index), &switch)?;
    Ok(StagedPipeline { switch: Box::new(switch), control, headers, config })
}

/// Returns the JSON in a device config, `None` if it is empty.
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
                    "p4_device_config is not BMv2 JSON; send the file that p4c-bm2-ss writes with -o",
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

/// Estimates the memory that it takes to load a program, bytes, never too low. Text of a few bytes becomes values and
/// map nodes of hundreds.
fn estimate_load_memory(json: &str) -> usize {
    const VALUE: usize = size_of::<serde_json::Value>();
    /// A place that the loader keeps beside the value, with its path.
    const NODE: usize = 96;
    /// A list has room for four values at first. A map has nodes for eleven.
    const LIST: usize = 4 * VALUE + NODE;
    const MAP: usize = 11 * (VALUE + size_of::<String>()) + NODE;
    /// A list that grows occupies up to three times what is in it; a map's nodes are half full.
    const ELEMENT: usize = 3 * VALUE + NODE;
    const TEXT: usize = 32;
    let (mut memory, mut in_text, mut escaped) = (3 * json.len(), false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => {
                in_text = !in_text;
                memory += TEXT;
            }
            b'[' if !in_text => memory += LIST,
            b'{' if !in_text => memory += MAP,
            b',' if !in_text => memory += ELEMENT,
            _ if in_text => memory += 1,
            _ => {}
        }
    }
    memory
}

/// Returns what a GetForwardingPipelineConfig asks for of a config.
pub fn filter_response(config: &ForwardingPipelineConfig, kind: ResponseType) -> ForwardingPipelineConfig {
    let p4info = matches!(kind, ResponseType::All | ResponseType::P4infoAndCookie);
    let device = matches!(kind, ResponseType::All | ResponseType::DeviceConfigAndCookie);
    ForwardingPipelineConfig {
        p4info: config.p4info.clone().filter(|_| p4info),
        p4_device_config: if device { config.p4_device_config.clone() } else { Vec::new() },
        cookie: config.cookie,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_loaded_once_while_a_switch_runs_it() {
        let programs = Programs::default();
        let text = include_str!("../../../tests/programs/p4runtime.json");
        let one = programs.load(text).unwrap();
        assert!(Arc::ptr_eq(&one, &programs.load(text).unwrap()));
        assert!(!Arc::ptr_eq(&one, &programs.load(&format!("{text}\n")).unwrap()), "another text");
        assert!(programs.load("{}").is_err());
        drop(one);
        programs.load("{}").unwrap_err();
        assert_eq!(lock(&programs.0).len(), 0, "nobody runs them any more");
    }

    #[test]
    fn loading_is_estimated_by_what_the_text_becomes() {
        let each = |text: &str| estimate_load_memory(&text.repeat(1000)) / 1000;
        assert!(each("[],") > 300, "an element that is a list");
        assert!(each("{\"a\":0},") > 600, "a node of a map");
        assert!(each("\"[{,\\\"[{,\"") < 200, "text is text");
        let program = include_str!("../../../tests/programs/p4runtime.json");
        assert!((8..18).contains(&(estimate_load_memory(program) / program.len())));
    }
}
