use crate::parameter::{ParameterError, ParameterValue};
use crate::scheme::{EcnThresholds, SchemeConfig};
use crate::schemes::{Registry, SchemeError};
use crate::trickle::{MIN_IMIN, TrickleConfig, TrickleError};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use weir_units::Time;

/// The content of a policy. It is complete: parameters at their defaults are included, so that it means the same to a
/// host whose build has other defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Name of the scheme.
    pub scheme: String,
    /// All its parameters, as [`SchemeConfig::get`] writes them.
    pub parameters: BTreeMap<String, String>,
    /// Base RTT `T`; `Open`: that of each host's own configuration.
    pub base_rtt: Option<Time>,
    /// Thresholds at which switches should mark; `Open`: those of the scheme. Hosts only distribute them: a
    /// controller has to write them into the switches' tables.
    pub ecn: Option<EcnThresholds>,
    /// Trickle's parameters for all hosts. RFC 6206 section 6 recommends that they can be set at run time: if
    /// they differ, some hosts send more than their share (sections 6.1 to 6.3). They apply as long as the
    /// policy is held, whether or not it runs.
    pub timer: TrickleOverrides,
    /// Time after which the policy ends, counted from when it was set; each host then returns to its own configuration.
    /// `Open`: until the next policy.
    pub lifetime: Option<Time>,
}

/// Trickle's parameters in a policy; `Open`: the parameter of each host's own configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrickleOverrides {
    /// Imin.
    pub imin: Option<Time>,
    /// Imax in doublings.
    pub doublings: Option<u32>,
    /// k; 0: infinity.
    pub k: Option<u32>,
}

impl TrickleOverrides {
    /// Returns these parameters; those that are `Open` are taken from `told`, the host's own configuration.
    pub fn apply_to(&self, told: TrickleConfig) -> TrickleConfig {
        TrickleConfig {
            imin: self.imin.unwrap_or(told.imin),
            doublings: self.doublings.unwrap_or(told.doublings),
            k: self.k.map_or(told.k, NonZeroU32::new),
        }
    }

    /// Checks that such a timer can exist, whatever a host's own configuration is.
    pub(super) fn check(&self) -> Result<(), TrickleError> {
        self.apply_to(TrickleConfig { imin: MIN_IMIN, doublings: 0, k: None }).check()
    }
}

/// The keys of [`Policy::edit`] that are not parameters.
pub(super) const SCHEME: &str = "scheme";
const BASE_RTT: &str = "T";
const ECN: &str = "ecn_thresholds";
const LIFETIME: &str = "lifetime";
const IMIN: &str = "imin";
const IMAX: &str = "imax";
const REDUNDANCY: &str = "k";
/// Their values that stand for nothing.
const HOST_DEFAULT: &str = "host";
const SCHEME_DEFAULT: &str = "scheme";
const NO_LIFETIME: &str = "forever";
/// The parameter by which schemes ask for thresholds.
const ECN_PARAMETER: &str = "ecn";

impl Policy {
    /// Returns the policy of a host that runs this scheme and nothing else.
    pub fn of(scheme: &dyn SchemeConfig) -> Policy {
        let parameters = scheme.values().into_iter().map(|(name, value)| (name.to_owned(), value));
        let (scheme, parameters) = (scheme.name().to_owned(), parameters.collect());
        Policy {
            scheme,
            parameters,
            base_rtt: None,
            ecn: None,
            timer: TrickleOverrides::default(),
            lifetime: None,
        }
    }

    /// Returns this policy with some keys changed: `scheme` (whose parameters then have their defaults), `T`
    /// (a time or `host`), `ecn_thresholds` (as the parameter `ecn` of schemes, or `scheme`), `lifetime` (a
    /// time or `forever`), `imin` (a time or `host`), `imax` (doublings or `host`), `k` (a number, 0 for
    /// infinity, or `host`), or any parameter of the scheme. The order of edits does not matter.
    ///
    /// # Errors
    ///
    /// There is no such scheme or key, a value does not parse or is out of range, or no timer can have these
    /// settings.
    pub fn edit<K: AsRef<str>, V: AsRef<str>>(
        &self,
        registry: &Registry,
        edits: &[(K, V)],
    ) -> Result<Policy, PolicyError> {
        let mut policy = self.clone();
        let edits = || edits.iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
        for (_, name) in edits().filter(|(key, _)| *key == SCHEME) {
            if name != policy.scheme {
                let scheme = registry.get(name)?;
                policy = Policy {
                    base_rtt: self.base_rtt,
                    ecn: self.ecn,
                    timer: self.timer,
                    lifetime: self.lifetime,
                    ..Policy::of(&*scheme)
                };
            }
        }
        let mut parameters: Vec<(&str, &str)> =
            policy.parameters.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        for (key, value) in edits() {
            let bad = |reason: String| PolicyError::Value { key: key.to_owned(), reason };
            match key {
                SCHEME => {}
                BASE_RTT => policy.base_rtt = optional(value, HOST_DEFAULT).map_err(bad)?,
                ECN => policy.ecn = optional(value, SCHEME_DEFAULT).map_err(bad)?,
                LIFETIME => policy.lifetime = optional(value, NO_LIFETIME).map_err(bad)?,
                IMIN => policy.timer.imin = optional(value, HOST_DEFAULT).map_err(bad)?,
                IMAX => policy.timer.doublings = optional_count(value).map_err(bad)?,
                REDUNDANCY => policy.timer.k = optional_count(value).map_err(bad)?,
                parameter => parameters.push((parameter, value)),
            }
        }
        policy.timer.check()?;
        // Read and written again, so that equal policies have equal bytes.
        let scheme = registry.make(&policy.scheme, &parameters)?;
        policy.parameters = Policy::of(&*scheme).parameters;
        Ok(policy)
    }

    /// Returns the scheme with its parameters set. If it asks for marks, it asks for those of the policy.
    ///
    /// # Errors
    ///
    /// The registry has no such scheme, or the scheme does not take a parameter.
    pub fn config(&self, registry: &Registry) -> Result<Arc<dyn SchemeConfig>, SchemeError> {
        let mut parameters: Vec<(&str, String)> =
            self.parameters.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        if let Some(marking) = self.ecn
            && let Some(asked) = parameters.iter_mut().find(|(parameter, _)| *parameter == ECN_PARAMETER)
        {
            asked.1 = marking.to_text();
        }
        registry.make(&self.scheme, &parameters)
    }

    /// Keys and values as [`edit`](Self::edit) takes them, the scheme's name first.
    pub fn entries(&self) -> Vec<(String, String)> {
        let or = |value: Option<String>, word: &str| value.unwrap_or_else(|| word.to_owned());
        let own = [
            (SCHEME, self.scheme.clone()),
            (BASE_RTT, or(self.base_rtt.map(ParameterValue::to_text), HOST_DEFAULT)),
            (ECN, or(self.ecn.map(ParameterValue::to_text), SCHEME_DEFAULT)),
            (LIFETIME, or(self.lifetime.map(ParameterValue::to_text), NO_LIFETIME)),
            (IMIN, or(self.timer.imin.map(ParameterValue::to_text), HOST_DEFAULT)),
            (IMAX, or(self.timer.doublings.map(|n| n.to_string()), HOST_DEFAULT)),
            (REDUNDANCY, or(self.timer.k.map(|n| n.to_string()), HOST_DEFAULT)),
        ];
        let own = own.into_iter().map(|(key, value)| (key.to_owned(), value));
        own.chain(self.parameters.clone()).collect()
    }

    /// Returns the [`entries`](Self::entries) of this policy that differ from `other`.
    pub fn changed_entries(&self, other: &Policy) -> Vec<(String, String)> {
        let theirs = other.entries();
        self.entries().into_iter().filter(|entry| !theirs.contains(entry)).collect()
    }
}

/// Returns a value, or nothing if it is `word`.
fn optional<S: ParameterValue>(text: &str, word: &str) -> Result<Option<S>, String> {
    if text == word { Ok(None) } else { S::parse(text).map(Some) }
}

/// Returns a number that may be 0, or each host's own.
fn optional_count(text: &str) -> Result<Option<u32>, String> {
    if text == HOST_DEFAULT {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("\"{text}\" is not a count"))
}

/// `hpcc eta=0.9 ...`
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        self.entries().iter().skip(1).try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

/// A reason why a policy cannot exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No such scheme or parameter, or no such value of a parameter.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// A value of another key that cannot be.
    #[error("{key}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// The problem.
        reason: String,
    },
    /// It does not fit a packet.
    #[error("the policy needs {bytes} bytes in a packet, which has room for {max}")]
    TooLong {
        /// Size of the policy.
        bytes: usize,
        /// Largest size that fits.
        max: usize,
    },
    /// There can be no such timer.
    #[error(transparent)]
    Timer(#[from] TrickleError),
    /// It does not fit the switches, or messages in progress.
    #[error("{0}")]
    Refused(super::PolicyRefusal),
    /// There are no versions left.
    #[error("version {} is the last there can be", u64::MAX)]
    LastVersion,
    /// The host takes no part.
    #[error("this host takes no part in policies: it has no policy key")]
    Off,
}

impl From<ParameterError> for PolicyError {
    fn from(error: ParameterError) -> Self {
        PolicyError::Scheme(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hpcc() -> Policy {
        Policy::of(&*Registry::builtin().get("hpcc").unwrap())
    }

    #[test]
    fn edits_are_read_and_written_again() {
        let policy = hpcc()
            .edit(&Registry::builtin(), &[("eta", "0.90"), ("T", "13000ns"), ("lifetime", "1min")])
            .unwrap();
        assert_eq!(policy.parameters["eta"], "0.9");
        assert_eq!((policy.base_rtt, policy.lifetime), (Some(Time::from_us(13)), Some(Time::from_secs(60))));
        let changed = policy.changed_entries(&hpcc());
        assert_eq!(
            changed,
            [("T", "13us"), ("lifetime", "60s"), ("eta", "0.9")].map(|(k, v)| (k.into(), v.into()))
        );
        // And back.
        let back = [("T", "host"), ("lifetime", "forever"), ("eta", "0.95")];
        assert_eq!(policy.edit(&Registry::builtin(), &back).unwrap(), hpcc());
        assert_eq!(policy.edit(&Registry::builtin(), &policy.entries()).unwrap(), policy);
    }

    #[test]
    fn another_scheme_begins_with_its_defaults() {
        let policy = hpcc().edit(&Registry::builtin(), &[("alpha", "1.1"), ("scheme", "fncc")]).unwrap();
        assert_eq!((policy.scheme.as_str(), policy.parameters["alpha"].as_str()), ("fncc", "1.1"));
        assert!(!policy.parameters.contains_key("multi_rate"));
        // Naming the present one is no change of it.
        let tuned = hpcc().edit(&Registry::builtin(), &[("eta", "0.9")]).unwrap();
        assert_eq!(tuned.edit(&Registry::builtin(), &[("scheme", "hpcc")]).unwrap(), tuned);
    }

    #[test]
    fn thresholds_reach_the_scheme() {
        let dctcp = Policy::of(&*Registry::builtin().get("dctcp").unwrap());
        let policy = dctcp.edit(&Registry::builtin(), &[("ecn_thresholds", "60KB/10Gbps")]).unwrap();
        assert_eq!(policy.config(&Registry::builtin()).unwrap().needs().ecn, policy.ecn);
        assert_eq!(policy.parameters, dctcp.parameters);
        // A scheme that does not look at marks carries them.
        assert!(
            hpcc()
                .edit(&Registry::builtin(), &[("ecn_thresholds", "60KB/10Gbps")])
                .unwrap()
                .config(&Registry::builtin())
                .is_ok()
        );
    }

    #[test]
    fn errors_are_reported_with_the_reason() {
        let wrong = |key: &str, value: &str| {
            hpcc().edit(&Registry::builtin(), &[(key, value)]).unwrap_err().to_string()
        };
        assert!(wrong("eta", "9").starts_with("eta: "));
        assert!(wrong("etta", "0.9").starts_with("hpcc has no parameter \"etta\""));
        assert!(wrong("scheme", "tcp").starts_with("there is no scheme \"tcp\""));
        assert!(wrong("T", "0").starts_with("T: "));
        assert!(wrong("lifetime", "long").starts_with("lifetime: "));
        assert!(wrong("imin", "0").starts_with("imin: "));
        assert!(wrong("imax", "64").starts_with("imax: "));
        assert!(wrong("k", "-1").starts_with("k: "));
        assert!(wrong("ecn_thresholds", "60KB").starts_with("ecn_thresholds: "));
    }

    /// No parameter may have the name of a policy's own key.
    #[test]
    fn keys_do_not_collide() {
        for scheme in Registry::builtin().schemes() {
            for (parameter, _) in scheme.values() {
                assert!(
                    ![SCHEME, BASE_RTT, ECN, LIFETIME, IMIN, IMAX, REDUNDANCY].contains(&parameter),
                    "{} {}",
                    scheme.name(),
                    parameter
                );
            }
        }
    }
}
