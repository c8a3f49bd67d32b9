//! Checks whether a host can change to another configuration while the switches keep theirs.

use crate::config::HostConfig;
use crate::policy::PolicyRefusal;
use crate::scheme::{Needs, TelemetrySource};

/// Checks that a host can change from `base_config`, for which the switches are configured, to `new_config`; otherwise
/// returns the refusal.
pub(super) fn check_applicable(
    base_config: &HostConfig,
    new_config: &HostConfig,
) -> Result<(), PolicyRefusal> {
    let (base_needs, new_needs) = (base_config.scheme.needs(), new_config.scheme.needs());
    if base_config.unmet_need(&new_needs).is_some() {
        return Err(PolicyRefusal::SwitchProgram);
    }
    let deflection =
        |needs: &Needs| needs.deflection.map(|deflection| (deflection.threshold, deflection.lifetime));
    let port_algorithm = |config: &HostConfig| config.scheme.port_algorithm(config.base_rtt);
    // The record format needs no table entry: the packet selects the action of the same program. RATE packets do,
    // because switches mirror packets to create them.
    let uses_rate_packets = |needs: &Needs| needs.telemetry == TelemetrySource::RateNotifications;
    // Switches have as many classes for deflected packets as packets of the base configuration have tokens; packets
    // with more tokens would not be deflected.
    let tokens = |needs: &Needs| needs.deflection.map_or(0, |deflection| deflection.tokens);
    if port_algorithm(base_config) != port_algorithm(new_config)
        || deflection(&base_needs) != deflection(&new_needs)
        || tokens(&new_needs) > tokens(&base_needs)
        || uses_rate_packets(&base_needs) != uses_rate_packets(&new_needs)
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
