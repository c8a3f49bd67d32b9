use crate::parameter::{ParameterError, ParameterValue};
use crate::scheme::{EcnThresholds, SchemeConfig};
use crate::schemes::{Registry, SchemeError};
use crate::trickle::{MIN_IMIN, TrickleConfig, TrickleError};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use weir_units::Time;

/// The content of a policy. It includes parameters that are at their defaults, so that it has the same meaning for a
/// host whose build has other defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Name of the scheme, as in the registry.
    pub scheme: String,
    /// All parameters of the scheme, in the form of [`SchemeConfig::get`].
    pub parameters: BTreeMap<String, String>,
    /// Base RTT `T`; `None` for each host's own.
    pub base_rtt: Option<Time>,
    /// Thresholds at which switches should mark; `None` for those of the scheme. Hosts run the policy only if the
    /// switches were configured for these thresholds, as a policy does not write tables.
    pub ecn: Option<EcnThresholds>,
    /// Trickle parameters for all hosts. RFC 6206 section 6 recommends that they can be set at run time: if they
    /// differ, some hosts send more than their share (sections 6.1 to 6.3). They apply while the policy is held,
    /// whether or not it is active.
    pub timer: TrickleOverrides,
    /// Time after which the policy ends, counted from when it was set; each host then returns to its own
    /// configuration. `None`: the policy ends only when another one replaces it.
    pub lifetime: Option<Time>,
}

/// Trickle parameters in a policy; `None` for each host's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrickleOverrides {
    /// Imin, the shortest interval.
    pub imin: Option<Time>,
    /// Imax, as the number of doublings of Imin.
    pub doublings: Option<u32>,
    /// k; 0 means infinity.
    pub k: Option<u32>,
}

impl TrickleOverrides {
    /// Returns `base` with these parameters in place of its own, except for those that are `None`.
    pub fn apply_to(&self, base: TrickleConfig) -> TrickleConfig {
        TrickleConfig {
            imin: self.imin.unwrap_or(base.imin),
            doublings: self.doublings.unwrap_or(base.doublings),
            k: self.k.map_or(base.k, NonZeroU32::new),
        }
    }

    /// Checks that the parameters are valid, whatever the host's own configuration is.
    pub(super) fn check(&self) -> Result<(), TrickleError> {
        self.apply_to(TrickleConfig { imin: MIN_IMIN, doublings: 0, k: None }).check()
    }
}

// The keys of `Policy::edit` that are not parameters of a scheme.
pub(super) const SCHEME: &str = "scheme";
const BASE_RTT: &str = "T";
const ECN: &str = "ecn_thresholds";
const LIFETIME: &str = "lifetime";
const IMIN: &str = "imin";
const IMAX: &str = "imax";
const REDUNDANCY: &str = "k";
// The values that unset an entry.
const HOST_DEFAULT: &str = "host";
const SCHEME_DEFAULT: &str = "scheme";
const NO_LIFETIME: &str = "forever";
/// The parameter of schemes that holds ECN thresholds.
const ECN_PARAMETER: &str = "ecn";

impl Policy {
    /// Returns the policy that a host with this scheme follows implicitly: its parameters, and nothing else set.
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

    /// Returns this policy with some entries changed, each a key (a name) and a value. The keys are `scheme` (whose
    /// parameters then have their defaults), `T` (a time or `host`), `ecn_thresholds` (as the parameter `ecn` of
    /// schemes, or `scheme`), `lifetime` (a time or `forever`), `imin` (a time or `host`), `imax` (doublings or
    /// `host`), `k` (a number, 0 for infinity, or `host`), or any parameter of the scheme. The order of edits does not
    /// matter.
    ///
    /// # Errors
    ///
    /// A scheme or key is unknown, a value does not parse or is out of range, or the Trickle parameters are invalid.
    pub fn edit<K: AsRef<str>, V: AsRef<str>>(
        &self,
        registry: &Registry,
        edits: &[(K, V)],
    ) -> Result<Policy, PolicyError> {
        let mut policy = self.clone();
        let pairs = || edits.iter().map(|(key, value)| (key.as_ref(), value.as_ref()));
        // The scheme first, because it replaces all parameters.
        for (_, name) in pairs().filter(|(key, _)| *key == SCHEME) {
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
        for (key, value) in pairs() {
            let invalid = |reason: String| PolicyError::Value { key: key.to_owned(), reason };
            match key {
                SCHEME => {}
                BASE_RTT => policy.base_rtt = parse_optional(value, HOST_DEFAULT).map_err(invalid)?,
                ECN => policy.ecn = parse_optional(value, SCHEME_DEFAULT).map_err(invalid)?,
                LIFETIME => policy.lifetime = parse_optional(value, NO_LIFETIME).map_err(invalid)?,
                IMIN => policy.timer.imin = parse_optional(value, HOST_DEFAULT).map_err(invalid)?,
                IMAX => policy.timer.doublings = parse_optional_count(value).map_err(invalid)?,
                REDUNDANCY => policy.timer.k = parse_optional_count(value).map_err(invalid)?,
                parameter => parameters.push((parameter, value)),
            }
        }
        // Thresholds that are the default of the new scheme may still be those that somebody wants.
        if let Some((_, value)) = pairs().find(|(key, _)| *key == ECN_PARAMETER) {
            let wanted = EcnThresholds::parse(value).ok();
            if pairs().any(|(key, _)| key == ECN) && policy.ecn != wanted {
                let reason = format!("differs from `{ECN}`; give one of them");
                return Err(PolicyError::Value { key: ECN_PARAMETER.to_owned(), reason });
            }
            policy.ecn = wanted;
        }
        policy.timer.check()?;
        // Normalise the values, so that equal policies have equal bytes.
        let scheme = registry.make(&policy.scheme, &parameters)?;
        policy.parameters = Policy::of(&*scheme).parameters;
        Ok(policy)
    }

    /// Returns the scheme with its parameters set. The ECN thresholds of the policy, if it has any, replace those of
    /// the scheme.
    ///
    /// # Errors
    ///
    /// The registry has no such scheme, or the scheme refuses a parameter.
    pub fn config(&self, registry: &Registry) -> Result<Arc<dyn SchemeConfig>, SchemeError> {
        let mut parameters: Vec<(&str, String)> =
            self.parameters.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        if let Some(thresholds) = self.ecn
            && let Some(parameter) = parameters.iter_mut().find(|(name, _)| *name == ECN_PARAMETER)
        {
            parameter.1 = thresholds.to_text();
        }
        registry.make(&self.scheme, &parameters)
    }

    /// Returns all keys and values in the form that [`edit`](Self::edit) accepts, the scheme's name first.
    pub fn entries(&self) -> Vec<(String, String)> {
        let text_or = |value: Option<String>, keyword: &str| value.unwrap_or_else(|| keyword.to_owned());
        let policy_keys = [
            (SCHEME, self.scheme.clone()),
            (BASE_RTT, text_or(self.base_rtt.map(ParameterValue::to_text), HOST_DEFAULT)),
            (ECN, text_or(self.ecn.map(ParameterValue::to_text), SCHEME_DEFAULT)),
            (LIFETIME, text_or(self.lifetime.map(ParameterValue::to_text), NO_LIFETIME)),
            (IMIN, text_or(self.timer.imin.map(ParameterValue::to_text), HOST_DEFAULT)),
            (IMAX, text_or(self.timer.doublings.map(|n| n.to_string()), HOST_DEFAULT)),
            (REDUNDANCY, text_or(self.timer.k.map(|n| n.to_string()), HOST_DEFAULT)),
        ];
        let policy_keys = policy_keys.into_iter().map(|(key, value)| (key.to_owned(), value));
        policy_keys.chain(self.parameters.clone()).collect()
    }

    /// Returns the [`entries`](Self::entries) of this policy that differ from `other`.
    pub fn changed_entries(&self, other: &Policy) -> Vec<(String, String)> {
        let theirs = other.entries();
        self.entries().into_iter().filter(|entry| !theirs.contains(entry)).collect()
    }
}

/// Parses a value, or returns `None` if the text is `keyword`.
fn parse_optional<S: ParameterValue>(text: &str, keyword: &str) -> Result<Option<S>, String> {
    if text == keyword { Ok(None) } else { S::parse(text).map(Some) }
}

/// Parses a count, which may be 0, or returns `None` for the keyword `host`.
fn parse_optional_count(text: &str) -> Result<Option<u32>, String> {
    if text == HOST_DEFAULT {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("\"{text}\" is not a count"))
}

/// Writes for example `hpcc eta=0.9 ...`.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        self.entries().iter().skip(1).try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

impl PolicyError {
    /// Returns the key to which the error refers, if it refers to one.
    pub fn key(&self) -> Option<&str> {
        match self {
            PolicyError::Scheme(SchemeError::Parameter(error)) => Some(error.parameter()),
            PolicyError::Value { key, .. } => Some(key),
            PolicyError::Timer(error) => Some(error.key()),
            PolicyError::Scheme(_)
            | PolicyError::TooLong { .. }
            | PolicyError::Refused(_)
            | PolicyError::LastVersion
            | PolicyError::Disabled => None,
        }
    }

    /// Returns the message without the key in front.
    pub fn reason(&self) -> String {
        match self {
            PolicyError::Scheme(SchemeError::Parameter(error)) => error.reason(),
            PolicyError::Value { reason, .. } => reason.clone(),
            PolicyError::Timer(error) => error.to_string(),
            error => error.to_string(),
        }
    }
}

/// The reason why a policy cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The scheme, a parameter or its value is invalid.
    #[error(transparent)]
    Scheme(#[from] SchemeError),
    /// The value of another key is invalid.
    #[error("{key}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// The problem.
        reason: String,
    },
    /// The policy, one of its strings, or the number of its parameters exceeds a limit of the packet format.
    #[error(
        "the policy is too large: {size} exceeds a limit of {max} (bytes of the packet, bytes of a value, or number of parameters)"
    )]
    TooLong {
        /// The size that was found, in bytes or parameters.
        size: usize,
        /// The largest size allowed, in the same unit.
        max: usize,
    },
    /// The Trickle parameters are invalid.
    #[error("{}: {_0}", _0.key())]
    Timer(#[from] TrickleError),
    /// This host cannot run the policy.
    #[error("{0}")]
    Refused(super::PolicyRefusal),
    /// The held policy has the highest version.
    #[error("policy version {} is the highest possible; no newer policy can be set", u64::MAX)]
    LastVersion,
    /// Policies are disabled on this host.
    #[error("policies are disabled on this host (no policy key)")]
    Disabled,
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
        // Unset the keys again.
        let back = [("T", "host"), ("lifetime", "forever"), ("eta", "0.95")];
        assert_eq!(policy.edit(&Registry::builtin(), &back).unwrap(), hpcc());
        assert_eq!(policy.edit(&Registry::builtin(), &policy.entries()).unwrap(), policy);
    }

    #[test]
    fn another_scheme_starts_with_its_defaults() {
        let policy = hpcc().edit(&Registry::builtin(), &[("alpha", "1.1"), ("scheme", "fncc")]).unwrap();
        assert_eq!((policy.scheme.as_str(), policy.parameters["alpha"].as_str()), ("fncc", "1.1"));
        assert!(!policy.parameters.contains_key("multi_rate"));
        // Naming the present scheme keeps its parameters.
        let tuned = hpcc().edit(&Registry::builtin(), &[("eta", "0.9")]).unwrap();
        assert_eq!(tuned.edit(&Registry::builtin(), &[("scheme", "hpcc")]).unwrap(), tuned);
    }

    #[test]
    fn thresholds_reach_the_scheme() {
        let dctcp = Policy::of(&*Registry::builtin().get("dctcp").unwrap());
        let policy = dctcp.edit(&Registry::builtin(), &[("ecn_thresholds", "60KB/10Gbps")]).unwrap();
        assert_eq!(policy.config(&Registry::builtin()).unwrap().needs().ecn, policy.ecn);
        assert_eq!(policy.parameters, dctcp.parameters);
        // Both keys say the same, but for the text of the parameter.
        let by_parameter = dctcp.edit(&Registry::builtin(), &[("ecn", "60KB/10Gbps")]).unwrap();
        assert_eq!(by_parameter.ecn, policy.ecn);
        let both = [("ecn", "60KB/10Gbps"), ("ecn_thresholds", "70KB/10Gbps")];
        let error = dctcp.edit(&Registry::builtin(), &both).unwrap_err().to_string();
        assert_eq!(error, "ecn: differs from `ecn_thresholds`; give one of them");
        // A scheme that ignores marks accepts thresholds too.
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
        let error = |key: &str, value: &str| {
            hpcc().edit(&Registry::builtin(), &[(key, value)]).unwrap_err().to_string()
        };
        assert!(error("eta", "9").starts_with("eta: "));
        assert!(error("etta", "0.9").starts_with("unknown parameter \"etta\" of hpcc"));
        assert!(error("scheme", "tcp").starts_with("unknown scheme \"tcp\""));
        assert!(error("T", "0").starts_with("T: "));
        assert!(error("lifetime", "long").starts_with("lifetime: "));
        assert!(error("imin", "0").starts_with("imin: "));
        assert!(error("imax", "64").starts_with("imax: "));
        assert!(error("k", "-1").starts_with("k: "));
        assert!(error("ecn_thresholds", "60KB").starts_with("ecn_thresholds: "));
    }

    /// No parameter of a scheme may have the name of a key that every policy has.
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
