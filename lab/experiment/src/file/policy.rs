//! The key `policy`: Trickle parameters, and the policies to set during the run (`docs/policy.md`).

use super::error::ExperimentError;
use super::lookup;
use super::scheme::Scheme;
use crate::rng::stream_seed;
use crate::scalar::Scalar;
use crate::yaml::join_path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use std::collections::BTreeMap;
use weir_controller::topology::{AsText, HostIx, Topology};
use weir_host::parameter::ParameterError;
use weir_host::policy::{Policy, PolicyConfig, PolicyError, PolicyKey, default_trickle};
use weir_host::schemes::{Registry, SchemeError};
use weir_host::trickle::TrickleConfig;
use weir_units::Time;

/// Policy dissemination by Trickle, in which every host takes part.
#[serde_as]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// Minimum Trickle interval Imin; absent: 16 base RTTs.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imin: Option<Time>,
    /// Maximum number of doublings of the interval; absent: 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imax: Option<u32>,
    /// Redundancy constant k: a host that received this many consistent messages in an interval sends none; 0: infinity;
    /// absent: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<u32>,
    /// Key shared by all hosts, at least 16 characters; absent: a public default key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Hosts with different Trickle parameters. RFC 6206 §6 advises against this; use it to study the effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tune: Vec<TuneSpec>,
    /// Policies to set during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<SetSpec>,
}

/// Trickle parameters of some hosts.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TuneSpec {
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Minimum interval; absent: that of all hosts.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imin: Option<Time>,
    /// Maximum number of doublings; absent: that of all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imax: Option<u32>,
    /// Redundancy constant; absent: that of all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<u32>,
}

/// A policy to set during the run, such as `{at: 1ms, via: h1, eta: 0.9}`.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetSpec {
    /// Time at which the policy is set.
    #[serde_as(as = "AsText")]
    pub at: Time,
    /// Host at which the policy is set.
    pub via: String,
    /// Values to change: `scheme`, `T`, `ecn_thresholds`, `lifetime`, or parameters of the scheme.
    #[serde(flatten)]
    pub edits: BTreeMap<String, Scalar>,
}

impl SetSpec {
    /// Returns keys and values as text, in the order of the keys.
    pub fn edits(&self) -> Vec<(String, String)> {
        self.edits.iter().map(|(key, value)| (key.clone(), value.text().to_owned())).collect()
    }
}

/// Key of experiments without `policy.key`.
const DEFAULT_KEY: &str = "weir experiments share this key";

impl PolicySpec {
    /// Returns all times except those among the edits. A scale model multiplies them.
    pub(super) fn times_mut(&mut self) -> Vec<&mut Time> {
        let tuned = self.tune.iter_mut().filter_map(|tune| tune.imin.as_mut());
        self.imin.iter_mut().chain(tuned).chain(self.set.iter_mut().map(|set| &mut set.at)).collect()
    }

    /// Returns the configuration of a host that joins at `start`, in virtual time.
    ///
    /// # Panics
    ///
    /// If the key or the Trickle parameters are invalid; loading an experiment has checked them.
    pub fn config(
        &self,
        topology: &Topology,
        host: HostIx,
        base_rtt: Time,
        seed: u64,
        start: Time,
    ) -> PolicyConfig {
        let name = &topology.host(host).name;
        let key = self.key.as_deref().unwrap_or(DEFAULT_KEY);
        let key =
            PolicyKey::new(key.as_bytes()).expect("the length of the key is checked when the file is loaded");
        let default = default_trickle(base_rtt);
        let tune = self.tune.iter().find(|tune| tune.hosts.contains(name));
        let trickle = TrickleConfig::new(
            tune.and_then(|tune| tune.imin).or(self.imin).unwrap_or(default.imin),
            tune.and_then(|tune| tune.imax).or(self.imax).unwrap_or(default.doublings),
            tune.and_then(|tune| tune.k).or(self.k).unwrap_or(default.redundancy()),
        );
        let trickle = trickle.expect("Trickle parameters are checked when the file is loaded");
        let seed = stream_seed(seed, &format!("policy {name}"));
        PolicyConfig { trickle, start, ..PolicyConfig::new(key, seed, base_rtt) }
    }

    /// Checks key, Trickle parameters, hosts, and that every policy can be applied to every scheme.
    pub(super) fn check(
        &self,
        registry: &Registry,
        topology: &Topology,
        schemes: &[Scheme],
        invalid: &impl Fn(&str, String) -> ExperimentError,
    ) -> Result<(), ExperimentError> {
        let key = self.key.as_deref().unwrap_or(DEFAULT_KEY);
        PolicyKey::new(key.as_bytes()).map_err(|e| invalid("policy.key", e.to_string()))?;
        // In place of an absent value, one that is valid with any value of the other parameter.
        let check_trickle = |imin: Option<Time>, imax: Option<u32>| {
            let imin = imin.unwrap_or(weir_host::trickle::MIN_IMIN);
            TrickleConfig::new(imin, imax.unwrap_or(0), 1)
        };
        check_trickle(self.imin, self.imax)
            .map_err(|e| invalid(&join_path("policy", e.key()), e.to_string()))?;
        for (i, tune) in self.tune.iter().enumerate() {
            let key_path = format!("policy.tune[{i}]");
            check_trickle(tune.imin, tune.imax)
                .map_err(|e| invalid(&join_path(&key_path, e.key()), e.to_string()))?;
            for (j, name) in tune.hosts.iter().enumerate() {
                lookup::host(topology, name, &format!("{key_path}.hosts[{j}]"), invalid)?;
            }
        }
        for (i, set) in self.set.iter().enumerate() {
            let key_path = format!("policy.set[{i}]");
            if set.edits.is_empty() {
                return Err(invalid(&key_path, "no parameter to set, for example eta: 0.9".to_owned()));
            }
            lookup::host(topology, &set.via, &format!("{key_path}.via"), invalid)?;
        }
        // Applied in sequence, as in the run: each policy edits the one that the host has at that time.
        let mut by_time: Vec<_> = (0..).zip(&self.set).collect();
        by_time.sort_by_key(|(_, set)| set.at);
        for scheme in schemes {
            let mut policy = Policy::of(&*scheme.config);
            for (i, set) in &by_time {
                let result = policy.edit(registry, &set.edits());
                policy = result.map_err(|e| {
                    let key_path = format!("policy.set[{i}]");
                    let is_unknown = matches!(
                        &e,
                        PolicyError::Scheme(SchemeError::Parameter(ParameterError::Unknown { .. }))
                    );
                    let key = match &e {
                        PolicyError::Scheme(SchemeError::Unknown { .. }) => "scheme",
                        _ => e.key().unwrap_or_default(),
                    };
                    let error = invalid(&join_path(&key_path, key), e.reason());
                    if is_unknown { error.about_key() } else { error }
                })?;
            }
        }
        Ok(())
    }
}
