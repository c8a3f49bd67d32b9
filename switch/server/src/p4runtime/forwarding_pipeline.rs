//! Loads forwarding pipelines that controllers push, each on a new switch next to the running one.

use super::packet_io::ControllerHeader;
use super::sync::lock;
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

/// Memory limit of loading a program, in bytes: its text, copies of it, and the parsed JSON. By this estimate,
/// programs of p4c-bm2-ss need about 15 times their size, so a program of 4 MB is below the limit.
const MAX_PROGRAM_MEMORY: usize = 64 << 20;

/// The loaded programs of a process. Equal texts share one program, whatever the number of switches.
///
/// The references are weak: a program is freed when no switch runs it any more.
#[derive(Debug, Default)]
pub struct Programs(Mutex<Vec<Weak<Program>>>);

impl Programs {
    /// Returns the program with this BMv2 JSON, loading it if necessary.
    ///
    /// # Errors
    ///
    /// RESOURCE_EXHAUSTED: loading would need too much memory. INVALID_ARGUMENT: the switch does not
    /// support the program.
    pub(crate) fn load(&self, text: &str) -> Result<Arc<Program>, ControlError> {
        if estimate_load_memory(text) > MAX_PROGRAM_MEMORY {
            let what = format!(
                "loading a program of {} bytes would need more than {MAX_PROGRAM_MEMORY} bytes of memory",
                text.len()
            );
            return Err(ControlError::new(Code::ResourceExhausted, what));
        }

        // Keep the lock while loading: concurrent pushes often have the same program.
        let mut known = lock(&self.0);
        known.retain(|program| program.strong_count() > 0);
        if let Some(program) = known.iter().filter_map(Weak::upgrade).find(|program| program.json() == text) {
            return Ok(program);
        }
        let program = Program::from_json(text)
            .map_err(|error| ControlError::invalid(format!("unsupported program: {error}")))?;
        known.push(Arc::downgrade(&program));
        Ok(program)
    }
}

/// A pipeline that is ready to be installed: its program on a new switch with empty tables.
pub(super) struct StagedPipeline {
    pub switch: Box<Switch>,
    pub control: Control,
    pub headers: ControllerHeaders,
    pub config: ForwardingPipelineConfig,
}

/// The controller headers of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct ControllerHeaders {
    pub packet_in: ControllerHeader,
    pub packet_out: ControllerHeader,
}

/// The older form of `p4_device_config` that PI still accepts: JSON wrapped in a message (p4/tmp/p4config.proto).
#[derive(Clone, PartialEq, Message)]
struct PackedConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// Loads a pipeline. An empty device config selects the program that already runs, as in BMv2: a controller then only
/// adds the P4Info of a program given on the command line.
///
/// # Errors
///
/// INVALID_ARGUMENT: the P4Info or the program is missing, malformed, or they do not match. RESOURCE_EXHAUSTED: loading
/// would need too much memory.
pub(super) fn load(
    programs: &Programs,
    config: ForwardingPipelineConfig,
    running: Option<Arc<Program>>,
    switch: SwitchConfig,
    seed: u64,
) -> Result<StagedPipeline, ControlError> {
    let invalid = |what: String| ControlError::new(Code::InvalidArgument, what);
    let p4info = config.p4info.clone().ok_or_else(|| invalid("the config has no P4Info".into()))?;
    let index = Index::new(p4info).map_err(|error| invalid(format!("invalid P4Info: {error}")))?;
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
        packet_in: ControllerHeader::from_p4info(&index, "packet_in")?,
        packet_out: ControllerHeader::from_p4info(&index, "packet_out")?,
    };
    let switch = Switch::new(program, switch, seed).map_err(|error| invalid(error.to_string()))?;
    let control = Control::new(Arc::new(index), &switch)?;
    Ok(StagedPipeline { switch: Box::new(switch), control, headers, config })
}

/// Returns the JSON in a device config; `None` if it is empty.
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

/// Returns an upper bound of the memory that loading a program needs, in bytes. A few bytes of text become values and
/// map nodes of hundreds of bytes.
fn estimate_load_memory(json: &str) -> usize {
    const VALUE: usize = size_of::<serde_json::Value>();
    /// The loader's record of a value, with its path.
    const NODE: usize = 96;
    /// Initial capacity: a list has four values, a map node eleven entries.
    const LIST: usize = 4 * VALUE + NODE;
    const MAP: usize = 11 * (VALUE + size_of::<String>()) + NODE;
    /// A growing list occupies up to three times its content; map nodes are half full.
    const ELEMENT: usize = 3 * VALUE + NODE;
    /// Half of the overhead of a string, since every string has two quotation marks.
    const QUOTE: usize = 32;
    // The text itself and two copies of it.
    let (mut memory, mut is_in_text, mut is_escaped) = (3 * json.len(), false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_text => is_escaped = true,
            b'"' => {
                is_in_text = !is_in_text;
                memory += QUOTE;
            }
            b'[' if !is_in_text => memory += LIST,
            b'{' if !is_in_text => memory += MAP,
            b',' if !is_in_text => memory += ELEMENT,
            _ if is_in_text => memory += 1,
            _ => {}
        }
    }
    memory
}

/// Returns the parts of a config that a GetForwardingPipelineConfig requests.
pub(super) fn filter_response(
    config: &ForwardingPipelineConfig,
    kind: ResponseType,
) -> ForwardingPipelineConfig {
    let has_p4info = matches!(kind, ResponseType::All | ResponseType::P4infoAndCookie);
    let has_device_config = matches!(kind, ResponseType::All | ResponseType::DeviceConfigAndCookie);
    ForwardingPipelineConfig {
        p4info: config.p4info.clone().filter(|_| has_p4info),
        p4_device_config: if has_device_config { config.p4_device_config.clone() } else { Vec::new() },
        cookie: config.cookie,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_program_while_it_is_in_use() {
        let programs = Programs::default();
        let text = include_str!("../../../tests/programs/p4runtime.json");
        let one = programs.load(text).unwrap();
        assert!(Arc::ptr_eq(&one, &programs.load(text).unwrap()));
        assert!(!Arc::ptr_eq(&one, &programs.load(&format!("{text}\n")).unwrap()), "another text");
        assert!(programs.load("{}").is_err());
        drop(one);
        programs.load("{}").unwrap_err();
        assert_eq!(lock(&programs.0).len(), 0, "unused programs are removed");
    }

    #[test]
    fn the_estimate_counts_the_parsed_values() {
        let each = |text: &str| estimate_load_memory(&text.repeat(1000)) / 1000;
        assert!(each("[],") > 300, "an element that is a list");
        assert!(each("{\"a\":0},") > 600, "a node of a map");
        assert!(each("\"[{,\\\"[{,\"") < 200, "brackets in strings do not count");
        let program = include_str!("../../../tests/programs/p4runtime.json");
        assert!((8..18).contains(&(estimate_load_memory(program) / program.len())));
    }
}
