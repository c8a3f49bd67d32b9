//! The configuration of the hosts of an experiment.

use crate::file::NicSpec;
use crate::{Experiment, Scheme};
use weir_controller::plan::EXPRESS_PRIORITY;
use weir_controller::topology::HostIx;
use weir_controller::{BaseRtt, Routes};
use weir_host::{ConfigError, HostConfig};
use weir_units::Time;

/// Returns the base RTT `T` of all senders: `transport.base_rtt`, or the largest base RTT in the topology.
pub fn base_rtt(experiment: &Experiment, routes: &Routes) -> Time {
    let topology = &experiment.topology;
    let max = || BaseRtt::new(topology, routes, experiment.spec.mtu).max(topology);
    experiment.spec.transport.base_rtt.unwrap_or_else(max)
}

/// Returns the configuration of a host in the run of `scheme`. `base_rtt` is `T` of all senders, `tick` the period of the switches'
/// clock.
pub fn host_config(
    experiment: &Experiment,
    scheme: &Scheme,
    ix: HostIx,
    base_rtt: Time,
    tick: Time,
) -> HostConfig {
    let (topology, spec) = (&experiment.topology, &experiment.spec);
    let host = topology.host(ix);
    let nic_rate = topology.link(host.link).rate;
    let mut config = HostConfig::new(host.ip, nic_rate, base_rtt, experiment.scheme_of(ix, scheme));
    config.registry = experiment.catalogue.schemes.clone();
    config.switch_profile = experiment.switch_profile(scheme);
    config.policy = experiment.policy_of(ix, base_rtt);
    config.mac = host.mac;
    config.mtu = spec.mtu;
    config.tick = tick;
    spec.transport.apply(&mut config);
    config.nic = spec.nic.as_ref().map(NicSpec::config).unwrap_or_default();
    config.transport.recovery = Some(experiment.recovery(scheme));
    config.data_class = experiment.data_class(ix);
    config.express_class = EXPRESS_PRIORITY;
    config.control_class = experiment.feedback_class(scheme);
    config
}

/// Checks the configuration of every host for every scheme. An error has the path of the key, and the reason.
pub(crate) fn check(experiment: &Experiment) -> Result<(), (String, String)> {
    let spec = &experiment.spec;
    let base_rtt = match spec.transport.base_rtt {
        Some(base_rtt) => base_rtt,
        None if spec.policy.is_some() => base_rtt(experiment, experiment.routes()),
        // Hosts accept any positive base RTT, and only the timers of policies depend on it.
        None => Time::from_us(1),
    };
    for (i, scheme) in experiment.schemes.iter().enumerate() {
        for ix in experiment.topology.host_ixs() {
            let config = host_config(experiment, scheme, ix, base_rtt, Time::from_ns(1));
            config.check().map_err(|error| {
                let key = key_of(&error, spec.transport.recovery.is_some());
                let key = key.unwrap_or_else(|| format!("schemes[{i}]"));
                (key, message_without_key(&error))
            })?;
        }
    }
    Ok(())
}

/// Returns the key to which an error refers; `None` if it refers to the scheme.
fn key_of(error: &ConfigError, has_recovery_key: bool) -> Option<String> {
    Some(match error {
        ConfigError::MtuTooSmall { .. } | ConfigError::MtuTooLarge { .. } => "mtu".to_owned(),
        ConfigError::ZeroNicRate => "topology".to_owned(),
        ConfigError::ZeroBaseRtt => "transport.base_rtt".to_owned(),
        ConfigError::ZeroAckEvery => "transport.ack_every".to_owned(),
        ConfigError::PacingCreditTooLarge { .. } => "transport.pacing_credit".to_owned(),
        ConfigError::ZeroTimer { key } => format!("transport.{key}"),
        ConfigError::Nic(error) => format!("nic.{}", error.key()),
        ConfigError::Trickle(error) => format!("policy.{}", error.key()),
        ConfigError::SubflowsNeedSelective { .. } | ConfigError::NeedsGoBackN { .. } if has_recovery_key => {
            "transport.recovery".to_owned()
        }
        ConfigError::SubflowsNeedSelective { .. }
        | ConfigError::NeedsGoBackN { .. }
        | ConfigError::UnsupportedBySwitches { .. }
        | ConfigError::EntryLifetimeTooShort { .. }
        | ConfigError::InvalidClass { .. }
        | ConfigError::ZeroMaxInbound => return None,
    })
}

/// Returns the message without the key at its beginning, because the key path already contains it.
fn message_without_key(error: &ConfigError) -> String {
    let message = match error {
        ConfigError::Trickle(error) => return error.to_string(),
        error => error.to_string(),
    };
    let is_key = |prefix: &str| prefix.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    match message.split_once(": ") {
        Some((key, reason)) if is_key(key) => reason.to_owned(),
        _ => message,
    }
}
