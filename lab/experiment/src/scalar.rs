//! Values with a short and a long form in YAML. The deserialisers are written by hand, because serde's untagged enums report
//! "did not match any variant" without the key of the invalid value.

use crate::file::{EntriesSpec, ProgramSpec};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::{fmt, marker::PhantomData};
use weir_host::scheme::SchemeConfig;
use weir_host::schemes::{Registry, SchemeError};

/// `off`, or a map of keys.
#[derive(Clone, Debug)]
pub enum OffOr<T> {
    Off,
    On(T),
}

impl<T> OffOr<T> {
    /// Returns the keys; `None` if off.
    pub fn on(&self) -> Option<&T> {
        match self {
            OffOr::Off => None,
            OffOr::On(value) => Some(value),
        }
    }

    pub fn on_mut(&mut self) -> Option<&mut T> {
        match self {
            OffOr::Off => None,
            OffOr::On(value) => Some(value),
        }
    }
}

impl<T: Serialize> Serialize for OffOr<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            OffOr::Off => serializer.serialize_str("off"),
            OffOr::On(value) => value.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OffOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OffOrVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OffOrVisitor<T> {
            type Value = OffOr<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"off\" or a map of keys")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                match text {
                    "off" => Ok(OffOr::Off),
                    other => Err(E::custom(format_args!("\"{other}\" is neither \"off\" nor a map of keys"))),
                }
            }
            fn visit_bool<E: Error>(self, on: bool) -> Result<Self::Value, E> {
                if on { Err(E::custom("expected a map of keys instead of true")) } else { Ok(OffOr::Off) }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(OffOr::On)
            }
        }
        deserializer.deserialize_any(OffOrVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for OffOr<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OffOr{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let on = generator.subschema_for::<T>();
        json_schema!({"anyOf": [{"enum": ["off", false]}, on]})
    }
}

/// `fncc`, or `{scheme: fncc, label: ..., set: {lhcs: off}}`.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, JsonSchema)]
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
}

impl Serialize for SchemeEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SchemeEntry { scheme, label, set, program, entries } = self.clone();
        if set.is_empty() && label == scheme && program.is_none() && entries.is_none() {
            return serializer.serialize_str(&scheme);
        }
        let set = set.into_iter().map(|(k, v)| (k, Scalar(v))).collect();
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
                    set: map.set.into_iter().map(|(k, Scalar(v))| (k, v)).collect(),
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

/// The value of a parameter: any YAML scalar, as text. The scheme parses it with its unit.
#[derive(Clone, Debug)]
pub struct Scalar(String);

impl Scalar {
    pub fn text(&self) -> &str {
        &self.0
    }
    pub(crate) fn replace(&mut self, text: String) {
        self.0 = text;
    }
}

impl JsonSchema for Scalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let _ = generator;
        json_schema!({"type": ["string", "number", "boolean"]})
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a single value")
            }
            fn visit_str<E: Error>(self, v: &str) -> Result<Scalar, E> {
                Ok(Scalar(v.to_owned()))
            }
            fn visit_bool<E: Error>(self, v: bool) -> Result<Scalar, E> {
                Ok(Scalar(if v { "on" } else { "off" }.to_owned()))
            }
            fn visit_u64<E: Error>(self, v: u64) -> Result<Scalar, E> {
                Ok(Scalar(v.to_string()))
            }
            fn visit_i64<E: Error>(self, v: i64) -> Result<Scalar, E> {
                Ok(Scalar(v.to_string()))
            }
            fn visit_f64<E: Error>(self, v: f64) -> Result<Scalar, E> {
                Ok(Scalar(v.to_string()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// Deserialises a list of strings. A single string may be written without the brackets.
pub(crate) fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct ListVisitor;
    impl<'de> Visitor<'de> for ListVisitor {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a list of strings")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![text.to_owned()])
        }
        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }
    deserializer.deserialize_any(ListVisitor)
}

/// Returns the schema of what [`one_or_many`] reads.
pub(crate) fn one_or_many_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
}
