//! Kinds of workloads: the trait [`Workload`], the registry [`Workloads`], and [`WorkloadSpec`], a workload in an experiment
//! file.

use super::context::{InvalidKey, RandomStreams, WorkloadContext};
use super::source::{FlowSource, SenderAnnouncement};
use crate::file::SchemeEntry;
use crate::yaml;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_yaml::{Mapping, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use weir_controller::topology::HostIx;
use weir_host::suggest::did_you_mean;
use weir_units::{Bytes, Time};

/// A kind of workload. The fields of the type are the keys of the workload in an experiment file.
///
/// Other crates add kinds with [`Workloads::with`]. `docs/own-experiment.md` has a complete example.
pub trait Workload:
    Clone + fmt::Debug + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// The value of `kind` in an experiment file.
    const KIND: &'static str;
    /// Description in one line, for `--help` and the schema.
    const ABOUT: &'static str;

    /// Returns a short description of this workload for reports, such as `Poisson, websearch, at 50%`.
    fn title(&self) -> String {
        Self::KIND.to_owned()
    }

    /// Returns all keys that are times. A scale model multiplies them.
    fn times_mut(&mut self) -> Vec<&mut Time>;

    /// Multiplies by `factor` all times that [`times_mut`](Workload::times_mut) does not return, such as those in a file.
    fn stretch(&mut self, _factor: f64) {}

    /// Resolves relative paths among the keys against `base`, the directory of the experiment file.
    fn resolve_paths(&mut self, _base: &Path) {}

    /// Returns the key `scheme`, if the kind has this key and it is set.
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        None
    }

    /// Returns the sending hosts, to which the key `scheme` applies.
    ///
    /// # Errors
    ///
    /// If a key has undeclared hosts.
    fn senders(&self, _context: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        Ok(Vec::new())
    }

    /// Checks the keys and returns the flows on the topology of `context`.
    ///
    /// # Errors
    ///
    /// If a key has an invalid value.
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey>;
}

/// The flows of a workload.
pub enum Flows {
    /// Flows that are known before the run.
    Static(Vec<StaticFlow>),
    /// Flows that a source generates during the run.
    Dynamic(SourceFactory),
}

/// Creates the source of a workload's flows. Called once for each scheme of a run, so that every scheme starts with a
/// source of its own.
pub type SourceFactory = Arc<dyn Fn(&RandomStreams) -> Box<dyn FlowSource> + Send + Sync>;

impl Flows {
    /// Returns flows that sources generate during the run. `make` creates the source for each scheme.
    pub fn dynamic<S: FlowSource + 'static>(
        make: impl Fn(&RandomStreams) -> S + Send + Sync + 'static,
    ) -> Flows {
        Flows::Dynamic(Arc::new(move |streams| Box::new(make(streams))))
    }
}

/// A flow that is known before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticFlow {
    /// Sender.
    pub from: HostIx,
    /// Receiver.
    pub to: HostIx,
    /// Start time.
    pub start: Time,
    /// Payload; `None`: the flow sends until the end of the run.
    pub size: Option<Bytes>,
    /// Senders that the first packets of the flow announce.
    pub announces: Option<SenderAnnouncement>,
    /// True if the flow is part of an incast.
    pub incast: bool,
}

impl StaticFlow {
    /// Returns a flow that announces no sender and is not part of an incast.
    pub fn new(from: HostIx, to: HostIx, start: Time, size: Option<Bytes>) -> StaticFlow {
        StaticFlow { from, to, start, size, announces: None, incast: false }
    }
}

/// Object-safe form of [`Workload`], with which the registry stores workloads of any type.
pub(crate) trait DynWorkload {
    fn title(&self) -> String;
    fn keys(&self) -> Mapping;
    fn times_mut(&mut self) -> Vec<&mut Time>;
    fn stretch(&mut self, factor: f64);
    fn resolve_paths(&mut self, base: &Path);
    fn scheme(&self) -> Option<SchemeEntry>;
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry>;
    fn senders(&self, context: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey>;
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey>;
}

impl<W: Workload> DynWorkload for W {
    fn title(&self) -> String {
        Workload::title(self)
    }
    fn keys(&self) -> Mapping {
        match serde_yaml::to_value(self) {
            Ok(Value::Mapping(keys)) => keys,
            // A unit struct serialises as null.
            _ => Mapping::new(),
        }
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        Workload::times_mut(self)
    }
    fn stretch(&mut self, factor: f64) {
        Workload::stretch(self, factor);
    }
    fn resolve_paths(&mut self, base: &Path) {
        Workload::resolve_paths(self, base);
    }
    fn scheme(&self) -> Option<SchemeEntry> {
        Workload::scheme_mut(&mut self.clone()).cloned()
    }
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        Workload::scheme_mut(self)
    }
    fn senders(&self, context: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        Workload::senders(self, context)
    }
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        Workload::flows(self, context)
    }
}

/// A workload of an experiment file: its kind and the keys of that kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// Name of the kind.
    pub kind: String,
    /// Name of the workload in results; `None`: see [`Experiment::workload_names`](crate::Experiment::workload_names).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The other keys, as written in the file.
    #[serde(flatten)]
    pub keys: Mapping,
}

impl JsonSchema for WorkloadSpec {
    fn schema_name() -> Cow<'static, str> {
        "Workload".into()
    }
    /// Accepts any keys; [`Catalogue::schema`](crate::Catalogue::schema) replaces this schema by those of the kinds.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

/// The path of a key of a workload, empty for the whole workload, and the reason of the error.
pub(crate) type ReadError = (String, String);

/// A registered kind of workloads.
#[derive(Clone, Copy)]
struct Registered {
    about: &'static str,
    read: fn(Value) -> Result<Box<dyn DynWorkload>, ReadError>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

/// The kinds of workloads that experiment files can use.
#[derive(Clone, Default)]
pub struct Workloads {
    kinds: BTreeMap<&'static str, Registered>,
}

impl Workloads {
    /// Adds a kind.
    ///
    /// # Panics
    ///
    /// If a kind of this name exists already.
    #[must_use]
    #[track_caller]
    pub fn with<W: Workload>(mut self) -> Workloads {
        let read = |keys| Ok(Box::new(yaml::read_keys::<W>(keys)?) as Box<dyn DynWorkload>);
        let entry = Registered { about: W::ABOUT, read, schema: W::json_schema };
        let previous = self.kinds.insert(W::KIND, entry);
        assert!(previous.is_none(), "workload kind {} is registered twice", W::KIND);
        self
    }

    /// Returns the name of every kind and one line about it, in alphabetical order.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.kinds.iter().map(|(kind, entry)| (*kind, entry.about))
    }

    /// Returns the schema of every kind's keys, in alphabetical order.
    pub(crate) fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<Schema> {
        self.kinds
            .iter()
            .map(|(kind, entry)| {
                let mut schema = schema_of_kind(kind, entry.about, (entry.schema)(generator));
                if let Some(keys) = schema.get_mut("properties").and_then(|keys| keys.as_object_mut()) {
                    keys.insert("name".to_owned(), schema_of_name());
                }
                schema
            })
            .collect()
    }

    /// Reads the keys of a workload with the type of its kind.
    pub(crate) fn read(&self, spec: &WorkloadSpec) -> Result<Box<dyn DynWorkload>, ReadError> {
        let Some(entry) = self.kinds.get(spec.kind.as_str()) else {
            let names: Vec<&str> = self.kinds.keys().copied().collect();
            let meant = did_you_mean(&spec.kind, names.iter().copied());
            let reason = format!(
                "unknown workload kind \"{}\"; expected one of {}{meant}",
                spec.kind,
                names.join(", ")
            );
            return Err(("kind".to_owned(), reason));
        };
        (entry.read)(Value::Mapping(spec.keys.clone())).map_err(|(key, reason)| {
            // The keys of a map in the workload are its own.
            let reason = if key.contains('.') { reason } else { with_common_keys(&reason) };
            (key, reason)
        })
    }

    /// Applies `change` to a workload and writes its keys back, including defaults of absent keys.
    pub(crate) fn edit(
        &self,
        spec: &mut WorkloadSpec,
        change: impl FnOnce(&mut dyn DynWorkload),
    ) -> Result<(), ReadError> {
        let mut workload = self.read(spec)?;
        change(&mut *workload);
        spec.keys = workload.keys();
        Ok(())
    }
}

/// Adds the keys that every kind has to the list of known keys in a message about an unknown one.
fn with_common_keys(reason: &str) -> String {
    /// Keys of [`WorkloadSpec`], which the type of a kind does not have.
    const COMMON_KEYS: [&str; 2] = ["kind", "name"];
    let unknown = reason.strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    let Some((unknown, _)) = unknown else { return reason.to_owned() };
    let common = COMMON_KEYS.map(|key| format!("`{key}`")).join(", ");
    let (before, known) = match reason.split_once("expected ") {
        Some((before, known)) => (before, format!(", {}", known.trim_start_matches("one of "))),
        // A kind without keys: "there are no fields".
        None => (reason.split_inclusive("`, ").next().unwrap_or(reason), String::new()),
    };
    let meant = match reason.contains("did you mean") {
        true => String::new(),
        false => did_you_mean(unknown, COMMON_KEYS),
    };
    format!("{before}expected one of {common}{known}{meant}")
}

/// Returns the schema of the key `name`, which all kinds have.
fn schema_of_name() -> serde_json::Value {
    serde_json::json!({
        "description": "Name of this workload in results: letters, digits, `-` and `_`; absent: the kind, with a number if several workloads without a name have this kind.",
        "type": "string",
        "pattern": "^[A-Za-z0-9_-]+$",
    })
}

/// Returns the schema of a kind's keys, completed by the key `kind`, a title and a description.
pub(crate) fn schema_of_kind(kind: &str, about: &str, keys: Schema) -> Schema {
    let mut schema = keys;
    let object = schema.ensure_object();
    object.insert("title".to_owned(), kind.into());
    object.insert("description".to_owned(), about.into());
    let properties = object.entry("properties").or_insert_with(Default::default);
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("kind".to_owned(), serde_json::json!({"const": kind}));
    }
    if let Some(required) = object.entry("required").or_insert_with(|| serde_json::json!([])).as_array_mut() {
        required.insert(0, "kind".into());
    }
    schema
}

impl fmt::Debug for Workloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kinds.keys()).finish()
    }
}
