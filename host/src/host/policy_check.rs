//! Checks whether a host can change to another configuration while the switches keep theirs.

use crate::config::HostConfig;
use crate::policy::PolicyRefusal;
use crate::scheme::{EcnThresholds, Needs, SchemeConfig, TelemetrySource};

/// Checks that a host can change from `base_config`, for which the switches are configured, to `new_config`; otherwise
/// returns the refusal. `thresholds` are those that the policy names, if it names any.
pub(super) fn check_applicable(
    base_config: &HostConfig,
    new_config: &HostConfig,
    thresholds: Option<EcnThresholds>,
) -> Result<(), PolicyRefusal> {
    let (base_needs, new_needs) = (base_config.scheme.needs(), new_config.scheme.needs());
    if base_config.unmet_need(&new_needs).is_some() {
        return Err(PolicyRefusal::SwitchProgram);
    }
    let deflection = |needs: &Needs| {
        needs.deflection.map(|deflection| (deflection.threshold, deflection.at_hosts, deflection.lifetime))
    };
    let port_algorithm = |config: &HostConfig| config.scheme.port_algorithm(config.base_rtt);
    // The record format needs no table entry: the packet selects the action of the same program. RATE packets do,
    // because switches mirror packets to create them.
    let uses_rate_packets = |needs: &Needs| needs.telemetry == TelemetrySource::RateNotifications;
    // Switches have as many classes for deflected packets as packets of the base configuration have tokens; packets
    // with more tokens would not be deflected.
    let tokens = |needs: &Needs| needs.deflection.map_or(0, |deflection| deflection.tokens);
    // Switches have a class for short messages if the base configuration uses one.
    let has_express_class = |needs: &Needs| needs.express_max_size.is_some();
    if port_algorithm(base_config) != port_algorithm(new_config)
        || deflection(&base_needs) != deflection(&new_needs)
        || tokens(&new_needs) > tokens(&base_needs)
        || uses_rate_packets(&base_needs) != uses_rate_packets(&new_needs)
        || has_express_class(&new_needs) && !has_express_class(&base_needs)
        || marks_elsewhere(base_config, new_config, thresholds)
    {
        return Err(PolicyRefusal::SwitchTables);
    }
    if new_needs.ecn.is_some() && base_needs.ecn.is_none() {
        return Err(PolicyRefusal::NoMarks);
    }
    if base_config.recovery() != new_config.recovery() {
        return Err(PolicyRefusal::Transport);
    }
    new_config.check().map_err(|_| PolicyRefusal::Config)
}

/// Returns whether ports would have to mark at other thresholds than now. If only the scheme changes, its flows use the
/// marks that there are; `chosen` thresholds, even those that are the scheme's default, are in force or refused.
fn marks_elsewhere(base_config: &HostConfig, new_config: &HostConfig, chosen: Option<EcnThresholds>) -> bool {
    let thresholds = |scheme: &dyn SchemeConfig| scheme.needs().ecn;
    let Some(wanted) = thresholds(&*new_config.scheme) else { return false };
    let default = new_config.registry.get(new_config.scheme.name()).ok();
    let is_default = default.is_some_and(|default| thresholds(&*default) == Some(wanted));
    let is_other_scheme = new_config.scheme.name() != base_config.scheme.name();
    thresholds(&*base_config.scheme).is_some_and(|present| present != wanted)
        && !(is_other_scheme && is_default && chosen.is_none())
}
