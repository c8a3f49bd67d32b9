//! A scheme of an experiment: its entry in the file, and its configuration.

use super::error::ExperimentError;
use super::program::{Entries, EntriesSpec, Program, ProgramSpec};
use crate::artifacts::Artifact;
use crate::scalar::Scalar;
use crate::yaml::join_path;
use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use weir_controller::plan::FORWARD;
use weir_controller::reconcile::{DesiredState, updates};
use weir_controller::topology::SwitchIx;
use weir_host::parameter::{ParameterError, Scale};
use weir_host::scheme::SchemeConfig;
use weir_host::schemes::{Registry, SchemeError};

/// `fncc`, or `{scheme: fncc, label: ..., set: {lhcs: off}}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SchemeMap {
    scheme: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    set: BTreeMap<String, Scalar>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<ProgramSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entries: Option<Vec<EntriesSpec>>,
}

/// One scheme to run.
#[derive(Clone, Debug)]
pub struct SchemeEntry {
    /// Name in the registry.
    pub scheme: String,
    /// Name in the results; by default the name of the scheme.
    pub label: String,
    /// Parameters that differ from their defaults.
    pub set: BTreeMap<String, String>,
    /// P4 program of all switches in the run of this scheme; `None`: the experiment's, or the scheme's own.
    pub program: Option<ProgramSpec>,
    /// Table entries in the run of this scheme; `None`: the experiment's.
    pub entries: Option<Vec<EntriesSpec>>,
}

impl SchemeEntry {
    /// Returns the scheme `name` with default parameters.
    pub fn named(name: &str) -> SchemeEntry {
        let name = name.to_owned();
        SchemeEntry { label: name.clone(), scheme: name, set: BTreeMap::new(), program: None, entries: None }
    }

    /// Returns the scheme's configuration.
    ///
    /// # Errors
    ///
    /// If the scheme or a parameter is unknown, or a value is invalid.
    pub fn config(&self, registry: &Registry) -> Result<Arc<dyn SchemeConfig>, SchemeError> {
        let parameters: Vec<_> = self.set.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        registry.make(&self.scheme, &parameters)
    }

    /// Sets the parameters to their values in a scale model, also those with default values: a default may be a timer.
    pub(super) fn scale(&mut self, scale: &dyn Scale, registry: &Registry) {
        let Ok(config) = self.config(registry) else { return };
        let pairs = config.values().into_iter().zip(config.scaled_values(scale));
        let changed = pairs.filter(|((_, value), (_, scaled))| value != scaled);
        self.set.extend(changed.map(|(_, (name, scaled))| (name.to_owned(), scaled)));
    }
}

impl Serialize for SchemeEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SchemeEntry { scheme, label, set, program, entries } = self.clone();
        if set.is_empty() && label == scheme && program.is_none() && entries.is_none() {
            return serializer.serialize_str(&scheme);
        }
        let set = set.into_iter().map(|(name, value)| (name, Scalar::from_text(value))).collect();
        SchemeMap { scheme, label: Some(label), set, program, entries }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SchemeEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SchemeVisitor;
        impl<'de> Visitor<'de> for SchemeVisitor {
            type Value = SchemeEntry;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scheme name or a map like {scheme: fncc, label: no-lhcs, set: {lhcs: off}}")
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
                Ok(SchemeEntry::named(name))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let map = SchemeMap::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SchemeEntry {
                    label: map.label.unwrap_or_else(|| map.scheme.clone()),
                    scheme: map.scheme,
                    set: map.set.into_iter().map(|(name, value)| (name, value.into_text())).collect(),
                    program: map.program,
                    entries: map.entries,
                })
            }
        }
        deserializer.deserialize_any(SchemeVisitor)
    }
}

impl JsonSchema for SchemeEntry {
    fn schema_name() -> Cow<'static, str> {
        "SchemeEntry".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let map = generator.subschema_for::<SchemeMap>();
        json_schema!({"anyOf": [{"type": "string"}, map]})
    }
}

/// Returns the configuration of the scheme `entry`, at `key_path`.
pub(super) fn configure(
    registry: &Registry,
    entry: &SchemeEntry,
    key_path: &str,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Arc<dyn SchemeConfig>, ExperimentError> {
    entry.config(registry).map_err(|error| {
        let SchemeError::Parameter(error) = error else { return invalid(key_path, error.to_string()) };
        let at_parameter =
            invalid(&join_path(key_path, &format!("set.{}", error.parameter())), error.reason());
        match error {
            ParameterError::Unknown { .. } => at_parameter.about_key(),
            ParameterError::InvalidValue { .. } => at_parameter,
        }
    })
}

/// A scheme of an experiment with its parameters.
#[derive(Clone)]
pub struct Scheme {
    /// Name in the results; unique within the experiment.
    pub label: String,
    /// Factory of the scheme's senders and receivers.
    pub config: Arc<dyn SchemeConfig>,
    /// P4 program from the file; `None`: the scheme's own.
    pub(super) program: Option<Program>,
    /// Table entries in addition to the controller's plan.
    pub(super) entries: Arc<[Entries]>,
}

impl Scheme {
    /// Returns the P4 program of the switches.
    pub(super) fn artifact(&self) -> Artifact {
        let own = || Artifact::builtin(self.config.needs().program);
        self.program.as_ref().map_or_else(own, |program| program.artifact.clone())
    }

    /// Returns the P4Runtime updates for the file's `entries` on a switch, in addition to the controller's plan.
    ///
    /// # Errors
    ///
    /// If the program lacks an object that the entries refer to. The text has file, line and column.
    pub fn entry_updates(&self, switch: SwitchIx, p4info: &Index) -> Result<Vec<Update>, String> {
        let mut desired = DesiredState::default();
        for entries in &*self.entries {
            desired.merge(&entries.desired_state(switch, p4info)?);
        }
        Ok(updates(&desired))
    }

    /// Returns whether `entries` provide the routes, because the program lacks the controller's routing table.
    pub fn provides_routes(&self, p4info: &Index) -> bool {
        !self.entries.is_empty() && p4info.tables.named(FORWARD).is_err()
    }
}
