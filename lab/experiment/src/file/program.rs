//! The keys `program` and `entries`: the P4 program of an experiment, and table entries for it.

use crate::artifacts::{Artifact, find_p4info};
use crate::input::read_file;
use crate::yaml::with_file_position;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{Entity, Update, WriteRequest};
use p4runtime::p4info::Index;
use p4runtime::text;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_controller::reconcile::{BASE, DesiredState};
use weir_controller::runtime_json::RuntimeJson;
use weir_controller::topology::{SwitchIx, Topology};
use weir_host::scheme::SwitchProgram;
use weir_host::switch_profile::SwitchProfile;

/// A P4 program: the name of a program of `p4src`, or the BMv2 JSON of a user's program, as `my.json` or
/// `{json: my.json, p4info: my.p4info.txtpb}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramSpec {
    /// A program of `p4src`.
    Builtin(SwitchProgram),
    /// A user's program.
    User(ProgramFiles),
}

/// The files of a user's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramFiles {
    /// BMv2 JSON.
    pub json: PathBuf,
    /// P4Info in text format; absent: the file next to the JSON, such as `my.p4info.txtpb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p4info: Option<PathBuf>,
}

impl ProgramSpec {
    /// Resolves relative paths against `base`, the directory of the experiment file.
    pub(super) fn resolve_paths(&mut self, base: &Path) {
        if let ProgramSpec::User(files) = self {
            files.json = base.join(&files.json);
            files.p4info = files.p4info.as_ref().map(|path| base.join(path));
        }
    }

    pub(super) fn artifact(&self) -> Result<Artifact, String> {
        match self {
            ProgramSpec::Builtin(program) => Ok(Artifact::builtin(*program)),
            ProgramSpec::User(files) => Artifact::read(&files.json, files.p4info.as_deref()),
        }
    }

    /// Returns the value of an agent's `--program`: the name of a built-in program, or the path of a P4Info file.
    ///
    /// # Errors
    ///
    /// If a user's program has no P4Info next to its JSON.
    pub fn agent_argument(&self) -> Result<String, String> {
        Ok(match self {
            ProgramSpec::Builtin(program) => program.name().to_owned(),
            ProgramSpec::User(ProgramFiles { p4info: Some(path), .. }) => path.display().to_string(),
            ProgramSpec::User(files) => find_p4info(&files.json)?.display().to_string(),
        })
    }
}

impl Serialize for ProgramSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ProgramSpec::Builtin(program) => serializer.collect_str(program),
            ProgramSpec::User(ProgramFiles { json, p4info: None }) => serializer.collect_str(&json.display()),
            ProgramSpec::User(files) => files.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ProgramSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ProgramVisitor;
        impl<'de> Visitor<'de> for ProgramVisitor {
            type Value = ProgramSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a program of p4src such as weir, a file such as my.json, or {json: my.json, p4info: FILE}",
                )
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                if name.ends_with(".json") {
                    return Ok(ProgramSpec::User(ProgramFiles { json: name.into(), p4info: None }));
                }
                if name.ends_with(".p4") {
                    let reason =
                        format!("{name} is P4 source; compile it with p4c-bm2-ss and specify the .json");
                    return Err(E::custom(reason));
                }
                let builtin = name.parse().map(ProgramSpec::Builtin);
                builtin.map_err(|reason: String| {
                    E::custom(format!("{reason}; your own program is a file that ends in .json"))
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                ProgramFiles::deserialize(MapAccessDeserializer::new(map)).map(ProgramSpec::User)
            }
        }
        deserializer.deserialize_any(ProgramVisitor)
    }
}

impl JsonSchema for ProgramSpec {
    fn schema_name() -> Cow<'static, str> {
        "ProgramSpec".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let files = generator.subschema_for::<ProgramFiles>();
        json_schema!({"anyOf": [{"type": "string"}, files]})
    }
}

/// The program of a key `program`.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) spec: ProgramSpec,
    pub(super) artifact: Artifact,
    pub(super) profile: SwitchProfile,
}

/// Table entries in addition to those of the controller's plan.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntriesSpec {
    /// A runtime.json as in the p4 tutorials, or a P4Runtime WriteRequest in text format (`.txtpb`).
    pub file: PathBuf,
    /// Switches that get the entries; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<Vec<String>>,
}

/// The entries of one [`EntriesSpec`], read from its file.
#[derive(Clone, Debug)]
pub struct Entries {
    file: String,
    /// Content of the file, from which the positions of errors are derived.
    text: Arc<str>,
    content: Content,
    switches: Option<Vec<SwitchIx>>,
}

#[derive(Clone, Debug)]
enum Content {
    Json(RuntimeJson),
    Text(Vec<Entity>),
}

impl Entries {
    /// Reads the files of the list `entries` at `key_path`.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a switch is not declared: the path of the key, and the reason.
    pub fn read(
        specs: &[EntriesSpec],
        key_path: &str,
        topology: &Topology,
    ) -> Result<Vec<Entries>, (String, String)> {
        let read = |(i, spec): (usize, &EntriesSpec)| {
            let file = spec.file.display().to_string();
            let invalid = |reason: String| (format!("{key_path}[{i}].file"), reason);
            let text = read_file(&spec.file).map_err(|e| invalid(format!("{file}: {e}")))?;
            let in_file = |reason: String| invalid(with_file_position(&file, &text, &reason));
            let content = if file.ends_with(".json") {
                Content::Json(RuntimeJson::parse(&text).map_err(|e| in_file(e.to_string()))?)
            } else {
                Content::Text(entities(&text).map_err(in_file)?)
            };
            let switch = |name: &String| {
                let reason =
                    || (format!("{key_path}[{i}].switches"), format!("switch \"{name}\" is not declared"));
                topology.switch_named(name).ok_or_else(reason)
            };
            let named = spec.switches.as_ref().map(|names| names.iter().map(switch).collect());
            Ok(Entries { content, switches: named.transpose()?, file: file.clone(), text: text.into() })
        };
        specs.iter().enumerate().map(read).collect()
    }

    /// Returns the desired state of a switch with this program; empty if the entries are not for this switch.
    ///
    /// # Errors
    ///
    /// If the program lacks an object that the entries refer to. The text has file, line and column.
    pub fn desired_state(&self, switch: SwitchIx, p4info: &Index) -> Result<DesiredState, String> {
        let mut desired = DesiredState::default();
        match &self.content {
            _ if self.switches.as_ref().is_some_and(|switches| !switches.contains(&switch)) => {}
            Content::Text(entities) => {
                entities.iter().for_each(|entity| desired.insert(BASE, entity.clone()))
            }
            Content::Json(json) => {
                desired = json
                    .desired_state(p4info)
                    .map_err(|e| with_file_position(&self.file, &self.text, &e.to_string()))?;
            }
        }
        Ok(desired)
    }
}

/// Returns the entities of a WriteRequest in text format. DELETE is not allowed.
fn entities(text: &str) -> Result<Vec<Entity>, String> {
    let request: WriteRequest = text::parse(text).map_err(|e| e.to_string())?;
    let entity = |(i, update): (usize, Update)| match (update.r#type(), update.entity) {
        (Type::Insert | Type::Modify, Some(entity)) => Ok(entity),
        _ => Err(format!("updates[{i}] is not INSERT or MODIFY of an entity")),
    };
    request.updates.into_iter().enumerate().map(entity).collect()
}
