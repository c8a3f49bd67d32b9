//! The P4 program that an experiment names, and entries of its own for that program.

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

/// A program: one of `p4src` by its name, or BMv2 JSON by its path, as `my.json` or
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
    /// P4Info in text format; absent: beside the JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p4info: Option<PathBuf>,
}

impl ProgramSpec {
    /// Finds the files from the directory of the file that names them.
    pub(super) fn locate(&mut self, base: &Path) {
        if let ProgramSpec::User(files) = self {
            files.json = base.join(&files.json);
            files.p4info = files.p4info.as_ref().map(|path| base.join(path));
        }
    }

    /// Reads the program.
    pub(super) fn artifact(&self) -> Result<Artifact, String> {
        match self {
            ProgramSpec::Builtin(program) => Ok(Artifact::of(*program)),
            ProgramSpec::User(files) => Artifact::read(&files.json, files.p4info.as_deref()),
        }
    }

    /// Returns the arguments by which an agent learns of the program.
    ///
    /// # Errors
    ///
    /// A program of the user's has no P4Info beside its JSON.
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
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = ProgramSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a program of p4src like weir, a file like my.json, or {json: my.json, p4info: FILE}",
                )
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                if name.ends_with(".json") {
                    return Ok(ProgramSpec::User(ProgramFiles { json: name.into(), p4info: None }));
                }
                if name.ends_with(".p4") {
                    let reason =
                        format!("{name} is P4 source: compile it with p4c-bm2-ss and name the .json");
                    return Err(E::custom(reason));
                }
                let shipped = name.parse().map(ProgramSpec::Builtin);
                shipped.map_err(|reason: String| {
                    E::custom(format!("{reason}; an own one is a file that ends in .json"))
                })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                ProgramFiles::deserialize(MapAccessDeserializer::new(map)).map(ProgramSpec::User)
            }
        }
        deserializer.deserialize_any(V)
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

/// Entries that switches get besides those of the controller's plan.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntriesSpec {
    /// A p4 tutorials runtime.json, or a P4Runtime WriteRequest in text format (`.txtpb`).
    pub file: PathBuf,
    /// The switches; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switches: Option<Vec<String>>,
}

/// [`EntriesSpec`], read.
#[derive(Clone, Debug)]
pub struct Entries {
    file: String,
    /// The text of the file, for the positions of errors.
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
    /// Reads the files of an experiment.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a switch is not declared: the path of the key, and the problem.
    pub fn read(specs: &[EntriesSpec], topology: &Topology) -> Result<Vec<Entries>, (String, String)> {
        let read = |(i, spec): (usize, &EntriesSpec)| {
            let file = spec.file.display().to_string();
            let wrong = |reason: String| (format!("entries[{i}].file"), reason);
            let text = read_file(&spec.file).map_err(|e| wrong(format!("{file}: {e}")))?;
            let in_file = |reason: String| wrong(with_file_position(&file, &text, &reason));
            let content = if file.ends_with(".json") {
                Content::Json(RuntimeJson::parse(&text).map_err(|e| in_file(e.to_string()))?)
            } else {
                Content::Text(entities(&text).map_err(in_file)?)
            };
            let switch = |name: &String| {
                let reason =
                    || (format!("entries[{i}].switches"), format!("switch \"{name}\" is not declared"));
                topology.switch_named(name).ok_or_else(reason)
            };
            let named = spec.switches.as_ref().map(|names| names.iter().map(switch).collect());
            Ok(Entries { content, switches: named.transpose()?, file: file.clone(), text: text.into() })
        };
        specs.iter().enumerate().map(read).collect()
    }

    /// Returns what a switch with this program should hold because of them.
    ///
    /// # Errors
    ///
    /// If the program lacks what they name. The text names file, line and column.
    pub fn goal(&self, switch: SwitchIx, p4info: &Index) -> Result<DesiredState, String> {
        let mut goal = DesiredState::default();
        match &self.content {
            _ if self.switches.as_ref().is_some_and(|switches| !switches.contains(&switch)) => {}
            Content::Text(entities) => entities.iter().for_each(|entity| goal.insert(BASE, entity.clone())),
            Content::Json(json) => {
                goal = json
                    .desired_state(p4info)
                    .map_err(|e| with_file_position(&self.file, &self.text, &e.to_string()))?;
            }
        }
        Ok(goal)
    }
}

/// Returns the entities of a WriteRequest in text format.
fn entities(text: &str) -> Result<Vec<Entity>, String> {
    let request: WriteRequest = text::parse(text).map_err(|e| e.to_string())?;
    let entity = |(i, update): (usize, Update)| match (update.r#type(), update.entity) {
        (Type::Insert | Type::Modify, Some(entity)) => Ok(entity),
        _ => Err(format!("updates[{i}] is not INSERT or MODIFY of an entity")),
    };
    request.updates.into_iter().enumerate().map(entity).collect()
}
