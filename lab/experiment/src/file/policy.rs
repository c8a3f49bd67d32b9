//! `policy:`: hosts agree on the parameters of congestion control by Trickle (`docs/policy.md`), and who changes them when.

use super::{ExperimentError, Scheme, faults};
use crate::rng::stream_seed;
use crate::scalar::Scalar;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use std::collections::BTreeMap;
use weir_controller::topology::{AsText, HostIx, Topology};
use weir_host::policy::{Policy, PolicyConfig, PolicyKey, default_trickle};
use weir_host::schemes::Registry;
use weir_host::trickle::TrickleConfig;
use weir_units::Time;

/// The section. Every host takes part.
#[serde_as]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// The shortest interval; absent: 16 base round trips.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imin: Option<Time>,
    /// Number of doublings of the interval; absent: 16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imax: Option<u32>,
    /// Number of other messages that make a host's own redundant; 0: infinity; absent: 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<u32>,
    /// Key that all hosts share, at least 16 characters; absent: a key that is not secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Hosts with parameters of their own, which they should not have (RFC 6206 §6).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tune: Vec<TuneSpec>,
    /// Policies to set, with time and host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<SetSpec>,
}

/// Parameters of some hosts.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TuneSpec {
    /// Hosts with parameters of their own.
    pub hosts: Vec<String>,
    /// As in the section.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imin: Option<Time>,
    /// As in the section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imax: Option<u32>,
    /// As in the section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<u32>,
}

/// A policy that is set: `{at: 1ms, via: h1, eta: 0.9}`.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetSpec {
    /// Time of the change.
    #[serde_as(as = "AsText")]
    pub at: Time,
    /// At which host.
    pub via: String,
    /// Changes: `scheme`, `T`, `ecn_thresholds`, `lifetime`, or a parameter of the scheme.
    #[serde(flatten)]
    pub edits: BTreeMap<String, Scalar>,
}

impl SetSpec {
    /// Keys and values.
    pub fn edits(&self) -> Vec<(String, String)> {
        self.edits.iter().map(|(key, value)| (key.clone(), value.text().to_owned())).collect()
    }
}

/// The key of experiments that have none.
const DEFAULT_KEY: &str = "weir experiments share this key";

impl PolicySpec {
    /// Returns its times, and the values of its edits, for a scale model.
    pub(super) fn times_mut(&mut self) -> Vec<&mut Time> {
        let tuned = self.tune.iter_mut().filter_map(|tune| tune.imin.as_mut());
        self.imin.iter_mut().chain(tuned).chain(self.set.iter_mut().map(|set| &mut set.at)).collect()
    }

    /// Returns the configuration of a host that takes part from `start` on, in virtual time, which is its clock.
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
        let key = PolicyKey::new(key.as_bytes()).expect("its length was checked");
        let default = default_trickle(base_rtt);
        let own = self.tune.iter().find(|tune| tune.hosts.contains(name));
        let trickle = TrickleConfig::new(
            own.and_then(|own| own.imin).or(self.imin).unwrap_or(default.imin),
            own.and_then(|own| own.imax).or(self.imax).unwrap_or(default.doublings),
            own.and_then(|own| own.k).or(self.k).unwrap_or(default.redundancy()),
        );
        let trickle = trickle.expect("its numbers were checked");
        let seed = stream_seed(seed, &format!("policy {name}"));
        PolicyConfig { trickle, start, ..PolicyConfig::new(key, seed, base_rtt) }
    }

    /// Returns whether it makes sense.
    pub(super) fn check(
        &self,
        registry: &Registry,
        topology: &Topology,
        schemes: &[Scheme],
        wrong: &impl Fn(&str, String) -> ExperimentError,
    ) -> Result<(), ExperimentError> {
        let key = self.key.as_deref().unwrap_or(DEFAULT_KEY);
        PolicyKey::new(key.as_bytes()).map_err(|e| wrong("policy.key", e.to_string()))?;
        // What is absent is right.
        let timer = |imin: Option<Time>, imax: Option<u32>| {
            let imin = imin.unwrap_or(weir_host::trickle::MIN_IMIN);
            TrickleConfig::new(imin, imax.unwrap_or(0), 1)
        };
        timer(self.imin, self.imax).map_err(|e| wrong("policy", e.to_string()))?;
        for (i, tune) in self.tune.iter().enumerate() {
            let place = format!("policy.tune[{i}]");
            timer(tune.imin, tune.imax).map_err(|e| wrong(&place, e.to_string()))?;
            for name in &tune.hosts {
                faults::host(topology, name, &place, wrong)?;
            }
        }
        for (i, set) in self.set.iter().enumerate() {
            let place = format!("policy.set[{i}]");
            if set.edits.is_empty() {
                return Err(wrong(&place, "nothing is changed, name a parameter like eta: 0.9".to_owned()));
            }
            faults::host(topology, &set.via, &format!("{place}.via"), wrong)?;
        }
        // One after the other; in the run a host edits what it holds by then.
        let mut in_order: Vec<_> = (0..).zip(&self.set).collect();
        in_order.sort_by_key(|(_, set)| set.at);
        for scheme in schemes {
            let mut policy = Policy::of(&*scheme.config);
            for (i, set) in &in_order {
                let edited = policy.edit(registry, &set.edits());
                policy = edited.map_err(|e| wrong(&format!("policy.set[{i}]"), e.to_string()))?;
            }
        }
        Ok(())
    }
}
