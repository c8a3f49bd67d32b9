//! Kinds of workloads: what one is ([`Workload`]), which there are ([`Workloads`]), and one of an experiment file
//! ([`WorkloadSpec`]).

use super::context::{InvalidKey, RandomStreams, WorkloadContext};
use super::{Arrival, FlowSource, SenderAnnouncement};
use crate::scalar::SchemeEntry;
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

/// A rule that makes flows. Its fields are the keys of the workload in an experiment file.
///
/// Your crate adds a kind with [`Workloads::with`]. `docs/own-experiment.md` has a whole one.
pub trait Workload:
    Clone + fmt::Debug + Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    /// The value of `kind` in an experiment file.
    const KIND: &'static str;
    /// The workload in one line.
    const ABOUT: &'static str;

    /// Describes one workload in a few words, for reports.
    fn title(&self) -> String {
        Self::KIND.to_owned()
    }

    /// Returns every time among its keys. A scale model multiplies them.
    fn times_mut(&mut self) -> Vec<&mut Time>;

    /// Takes `times` as long, beyond what [`times_mut`](Workload::times_mut) returns.
    fn stretch(&mut self, _times: f64) {}

    /// Resolves the names of files against the directory `base`.
    fn locate(&mut self, _base: &Path) {}

    /// Returns the scheme of its senders, if it has one of its own.
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        None
    }

    /// Returns the hosts that send with a scheme of the workload's own.
    ///
    /// # Errors
    ///
    /// If a key names hosts that do not exist.
    fn senders(&self, _fabric: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        Ok(Vec::new())
    }

    /// Checks the keys against a fabric and returns the flows.
    ///
    /// # Errors
    ///
    /// If a key has a value that makes no sense. The error names the key.
    fn flows(&self, fabric: &WorkloadContext<'_>) -> Result<Flows, InvalidKey>;
}

/// The flows of a workload.
pub enum Flows {
    /// They are known before the run.
    Static(Vec<StaticFlow>),
    /// A source makes them as time goes on.
    Dynamic(SourceFactory),
}

/// Makes the source of a workload's flows anew, for each scheme of a run.
pub type SourceFactory = Arc<dyn Fn(&RandomStreams) -> Box<dyn FlowSource> + Send + Sync>;

impl Flows {
    /// Returns flows that the sources of `make` make.
    pub fn made<S: FlowSource + 'static>(
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
    /// Time at which it starts.
    pub start: Time,
    /// Payload; `None` sends until the end of the run.
    pub size: Option<Bytes>,
    /// Senders that its first packets announce.
    pub announces: Option<SenderAnnouncement>,
    /// True if it is part of an incast.
    pub incast: bool,
}

impl StaticFlow {
    /// Returns a flow that announces no sender and is not part of an incast.
    pub fn new(from: HostIx, to: HostIx, start: Time, size: Option<Bytes>) -> StaticFlow {
        StaticFlow { from, to, start, size, announces: None, incast: false }
    }
}

impl Arrival {
    /// Returns a flow that announces no sender, is not part of an incast, and has the tag 0.
    pub fn new(from: HostIx, to: HostIx, start: Time, size: Bytes) -> Arrival {
        Arrival { from, to, start, size, announces: None, incast: false, tag: 0 }
    }
}

/// A [`Workload`] whose type is not known.
pub(crate) trait DynWorkload {
    fn title(&self) -> String;
    fn keys(&self) -> Mapping;
    fn times_mut(&mut self) -> Vec<&mut Time>;
    fn stretch(&mut self, times: f64);
    fn locate(&mut self, base: &Path);
    fn scheme(&self) -> Option<SchemeEntry>;
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry>;
    fn senders(&self, fabric: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey>;
    fn flows(&self, fabric: &WorkloadContext<'_>) -> Result<Flows, InvalidKey>;
}

impl<W: Workload> DynWorkload for W {
    fn title(&self) -> String {
        Workload::title(self)
    }
    fn keys(&self) -> Mapping {
        match serde_yaml::to_value(self) {
            Ok(Value::Mapping(keys)) => keys,
            // A type without fields has no keys.
            _ => Mapping::new(),
        }
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        Workload::times_mut(self)
    }
    fn stretch(&mut self, times: f64) {
        Workload::stretch(self, times);
    }
    fn locate(&mut self, base: &Path) {
        Workload::locate(self, base);
    }
    fn scheme(&self) -> Option<SchemeEntry> {
        Workload::scheme_mut(&mut self.clone()).cloned()
    }
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        Workload::scheme_mut(self)
    }
    fn senders(&self, fabric: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        Workload::senders(self, fabric)
    }
    fn flows(&self, fabric: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        Workload::flows(self, fabric)
    }
}

/// A workload of an experiment file: its kind and the keys of that kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// The kind's name.
    pub kind: String,
    /// The keys and values, as the file has them.
    #[serde(flatten)]
    pub keys: Mapping,
}

impl JsonSchema for WorkloadSpec {
    fn schema_name() -> Cow<'static, str> {
        "Workload".into()
    }
    /// Returns a schema of any keys; [`Catalogue::schema`](crate::Catalogue::schema) puts those of the kinds in its place.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

/// The path of a key of a workload, empty for the whole, and what is wrong with it.
pub(crate) type KeyFault = (String, String);

/// A kind that is registered.
#[derive(Clone, Copy)]
struct Registered {
    about: &'static str,
    read: fn(Value) -> Result<Box<dyn DynWorkload>, KeyFault>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

/// The kinds of workloads that experiment files can name.
#[derive(Clone, Default)]
pub struct Workloads {
    kinds: BTreeMap<&'static str, Registered>,
}

impl Workloads {
    /// Adds a kind.
    ///
    /// # Panics
    ///
    /// If there is a kind of that name already.
    #[must_use]
    #[track_caller]
    pub fn with<W: Workload>(mut self) -> Workloads {
        let read = |keys| Ok(Box::new(yaml::read_keys::<W>(keys)?) as Box<dyn DynWorkload>);
        let entry = Registered { about: W::ABOUT, read, schema: W::json_schema };
        let known = self.kinds.insert(W::KIND, entry);
        assert!(known.is_none(), "{} is the kind of two workloads", W::KIND);
        self
    }

    /// Returns the name of every kind and one line about it, in alphabetical order.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.kinds.iter().map(|(kind, entry)| (*kind, entry.about))
    }

    /// Returns the schema of every kind's keys, in alphabetical order.
    pub(crate) fn schemas(&self, generator: &mut SchemaGenerator) -> Vec<Schema> {
        self.kinds.iter().map(|(kind, it)| of_kind(kind, it.about, (it.schema)(generator))).collect()
    }

    /// Reads the keys of a workload as its kind demands.
    pub(crate) fn read(&self, spec: &WorkloadSpec) -> Result<Box<dyn DynWorkload>, KeyFault> {
        let Some(entry) = self.kinds.get(spec.kind.as_str()) else {
            let names: Vec<&str> = self.kinds.keys().copied().collect();
            let meant = did_you_mean(&spec.kind, names.iter().copied());
            let reason =
                format!("there is no kind \"{}\" of workloads, only {}{meant}", spec.kind, names.join(", "));
            return Err(("kind".to_owned(), reason));
        };
        (entry.read)(Value::Mapping(spec.keys.clone()))
    }

    /// Changes a workload. Keys that it leaves out get their defaults.
    pub(crate) fn edit(
        &self,
        spec: &mut WorkloadSpec,
        change: impl FnOnce(&mut dyn DynWorkload),
    ) -> Result<(), KeyFault> {
        let mut workload = self.read(spec)?;
        change(&mut *workload);
        spec.keys = workload.keys();
        Ok(())
    }
}

/// Adds `kind` to the schema of a kind's keys.
pub(crate) fn of_kind(kind: &str, about: &str, keys: Schema) -> Schema {
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
