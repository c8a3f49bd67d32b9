//! Quantities as text in YAML files, such as `100Gbps`.

use schemars::{Schema, SchemaGenerator};
use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde_with::schemars_1::JsonSchemaAs;
use serde_with::{DeserializeAs, SerializeAs};
use std::borrow::Cow;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;
use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// A value written as text (`100Gbps`, `1us`), for `#[serde_as(as = "AsText")]`.
///
/// Unlike `DisplayFromStr` it also passes a bare number to the value's own parser, which then reports what is missing
/// ("rate \"100\" has no unit") instead of "expected a string".
pub struct AsText;

impl<T: Display> SerializeAs<T> for AsText {
    fn serialize_as<S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }
}

impl<'de, T: FromStr<Err: Display>> DeserializeAs<'de, T> for AsText {
    fn deserialize_as<D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        struct Scalar<T>(PhantomData<T>);
        impl<T: FromStr<Err: Display>> Visitor<'_> for Scalar<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number with a unit")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, n: u64) -> Result<T, E> {
                self.visit_str(&n.to_string())
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<T, E> {
                self.visit_str(&n.to_string())
            }
            fn visit_f64<E: Error>(self, n: f64) -> Result<T, E> {
                self.visit_str(&n.to_string())
            }
        }
        deserializer.deserialize_any(Scalar(PhantomData))
    }
}

impl<T> JsonSchemaAs<T> for AsText {
    fn schema_name() -> Cow<'static, str> {
        let name = std::any::type_name::<T>();
        name.rsplit_once("::").map_or(name, |(_, name)| name).into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match <AsText as JsonSchemaAs<T>>::schema_name().as_ref() {
            "Time" => quantity("a time: 1.5us, 20ms", &Time::pattern()),
            "Bytes" => quantity("bytes: 64KB, 1MiB", &Bytes::pattern()),
            "Bandwidth" => quantity("a rate: 100Gbps", &Bandwidth::pattern()),
            "Ratio" => schemars::json_schema!({
                "type": ["string", "number"], "format": "a share: 0.4, 40%", "pattern": Ratio::PATTERN, "minimum": 0,
            }),
            _ => schemars::json_schema!({"type": "string", "format": "text"}),
        }
    }
    fn inline_schema() -> bool {
        true
    }
}

/// Returns the schema of a number with a unit; `format` is its description. Only 0 needs no unit.
fn quantity(format: &str, pattern: &str) -> Schema {
    schemars::json_schema!({
        "type": ["string", "number"], "format": format, "pattern": pattern, "minimum": 0, "maximum": 0,
    })
}
