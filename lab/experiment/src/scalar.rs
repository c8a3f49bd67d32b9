//! Values that YAML may have in several forms. The deserialisers are written by hand, because serde's untagged enums report
//! "did not match any variant" without the key of the invalid value.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::{fmt, marker::PhantomData};

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

/// The value of a parameter: any YAML scalar, as text. The scheme parses it with its unit.
#[derive(Clone, Debug)]
pub struct Scalar(String);

impl Scalar {
    pub(crate) fn from_text(text: String) -> Scalar {
        Scalar(text)
    }
    pub fn text(&self) -> &str {
        &self.0
    }
    pub(crate) fn into_text(self) -> String {
        self.0
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
