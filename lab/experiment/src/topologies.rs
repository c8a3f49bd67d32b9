//! Kinds of topologies that other crates add.

#![warn(missing_docs)]

use crate::workload::{InvalidKey, schema_of_kind};
use crate::yaml;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_yaml::Value;
use std::collections::BTreeMap;
use std::fmt;
use weir_controller::topology::{Custom, TopologySpec};
use weir_host::suggest::did_you_mean;

/// A parameterised topology. The fields of the type are the keys of `topology` in an experiment file.
pub trait TopologyKind: DeserializeOwned + JsonSchema + 'static {
    /// The value of `kind` in an experiment file.
    const KIND: &'static str;
    /// Description in one line, for `--help` and the schema.
    const ABOUT: &'static str;

    /// Returns the hosts, switches and links.
    ///
    /// # Errors
    ///
    /// If a key has an invalid value.
    fn build(&self) -> Result<Custom, InvalidKey>;
}

/// Reads the keys of a kind and returns the topology. An error has the path of the key, empty for the whole topology.
type ReadFn = fn(Value) -> Result<Custom, (String, String)>;

/// A registered kind of topologies.
#[derive(Clone, Copy)]
struct Registered {
    about: &'static str,
    read: ReadFn,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

/// Kinds of topologies in addition to the built-in ones.
#[derive(Clone, Default)]
pub struct Topologies {
    kinds: BTreeMap<&'static str, Registered>,
}

impl Topologies {
    /// Adds a kind.
    ///
    /// # Panics
    ///
    /// If a kind of this name exists already, including the built-in ones.
    #[must_use]
    #[track_caller]
    pub fn with<T: TopologyKind>(mut self) -> Topologies {
        let read: ReadFn = |keys| {
            let kind: T = yaml::read_keys(keys)?;
            kind.build().map_err(|error| (error.key.into_owned(), error.reason))
        };
        let entry = Registered { about: T::ABOUT, read, schema: T::json_schema };
        assert!(!TopologySpec::KINDS.contains(&T::KIND), "{} is a built-in topology kind", T::KIND);
        let previous = self.kinds.insert(T::KIND, entry);
        assert!(previous.is_none(), "topology kind {} is registered twice", T::KIND);
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
            .map(|(kind, entry)| schema_of_kind(kind, entry.about, (entry.schema)(generator)))
            .collect()
    }

    /// Replaces a topology of one of these kinds by its list of hosts, switches and links, and returns true; leaves
    /// topologies of built-in kinds unchanged and returns false.
    ///
    /// # Errors
    ///
    /// If the kind is unknown or the keys are invalid: the path of the key, empty for the whole topology, and the reason.
    pub fn expand(&self, topology: &mut Value) -> Result<bool, (String, String)> {
        let Some(kind) = topology.get("kind").and_then(Value::as_str) else { return Ok(false) };
        let Some(entry) = self.kinds.get(kind) else {
            if TopologySpec::KINDS.contains(&kind) {
                return Ok(false);
            }
            let names: Vec<&str> =
                TopologySpec::KINDS.into_iter().chain(self.kinds.keys().copied()).collect();
            let meant = did_you_mean(kind, names.iter().copied());
            let reason =
                format!("unknown topology kind \"{kind}\"; expected one of {}{meant}", names.join(", "));
            return Err(("kind".to_owned(), reason));
        };
        let mut keys = topology.clone();
        if let Value::Mapping(keys) = &mut keys {
            keys.shift_remove("kind");
        }
        let expanded = TopologySpec::Custom((entry.read)(keys)?);
        *topology = serde_yaml::to_value(expanded).map_err(|error| (String::new(), error.to_string()))?;
        Ok(true)
    }
}

impl fmt::Debug for Topologies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kinds.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalogue, Experiment};
    use serde::Deserialize;

    #[derive(Deserialize, JsonSchema)]
    struct Named<const N: usize> {
        #[serde(default, rename = "arity")]
        _arity: u32,
    }

    const KINDS: [&str; 3] = ["ring", "star", "leaf-spine"];

    impl<const N: usize> TopologyKind for Named<N> {
        const KIND: &'static str = KINDS[N];
        const ABOUT: &'static str = "a kind";

        fn build(&self) -> Result<Custom, InvalidKey> {
            Err(InvalidKey::new("arity", format!("invalid value {N}")))
        }
    }

    #[test]
    fn an_invalid_key_is_reported_with_its_position() {
        let topologies = Topologies::default().with::<Named<0>>();
        let catalogue = Catalogue { topologies, ..Catalogue::builtin() };
        let text = "topology: {kind: ring, arity: 3}\nschemes: [hpcc]\nduration: 1ms\n";
        let error = Experiment::parse_with(&catalogue, text, "x.yaml", "x", &[], None).err().unwrap();
        assert_eq!(error.to_string(), "x.yaml:1:31: topology.arity: invalid value 0");
    }

    #[test]
    fn duplicate_kinds_panic() {
        assert_eq!(Topologies::default().with::<Named<0>>().kinds().count(), 1);
        let panics = |register: fn() -> Topologies| {
            let panic = std::panic::catch_unwind(register).unwrap_err();
            panic.downcast_ref::<String>().unwrap().clone()
        };
        let star = panics(|| Topologies::default().with::<Named<1>>());
        assert_eq!(star, "star is a built-in topology kind");
        let leaves = panics(|| Topologies::default().with::<Named<2>>());
        assert_eq!(leaves, "leaf-spine is a built-in topology kind");
        let twice = panics(|| Topologies::default().with::<Named<0>>().with::<Named<0>>());
        assert_eq!(twice, "topology kind ring is registered twice");
    }
}
