use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde_with::{DeserializeAs, SerializeAs};
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::str::FromStr;

/// A value written as text (`100Gbps`, `1us`), for `#[serde_as(as = "AsText")]`.
///
/// Unlike `DisplayFromStr` it also takes a bare number to the value's own parser, which then says
/// what is missing ("rate \"100\" has no unit") instead of "expected a string".
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
