//! Checks whether a host can change to another configuration while the switches keep theirs.

use crate::config::HostConfig;
use crate::policy::PolicyRefusal;
use crate::scheme::{Needs, TelemetrySource};

/// Checks that a host with the configuration `present`, for which the switches are configured, can change to
/// `wanted`; otherwise returns the refusal.
pub(super) fn check_applicable(present: &HostConfig, wanted: &HostConfig) -> Result<(), PolicyRefusal> {
    let (present_needs, wanted_needs) = (present.scheme.needs(), wanted.scheme.needs());
    if present.unmet_needs(&wanted_needs).is_some() {
        return Err(PolicyRefusal::SwitchProgram);
    }
    let deflection = |needs: &Needs| needs.deflection.map(|it| (it.threshold, it.lifetime));
    let port_algorithm = |config: &HostConfig| config.scheme.port_algorithm(config.base_rtt);
    // The record format needs no table entry: the packet selects the action of the same program. RATE packets do,
    // because switches mirror packets to create them.
    let uses_rate_packets = |needs: &Needs| needs.telemetry == TelemetrySource::RateNotifications;
    // Switches have as many classes for deflected packets as the present scheme has tokens; packets with more tokens
    // would not be deflected.
    let tokens = |needs: &Needs| needs.deflection.map_or(0, |it| it.tokens);
    if port_algorithm(present) != port_algorithm(wanted)
        || deflection(&present_needs) != deflection(&wanted_needs)
        || tokens(&wanted_needs) > tokens(&present_needs)
        || uses_rate_packets(&present_needs) != uses_rate_packets(&wanted_needs)
    {
        return Err(PolicyRefusal::SwitchTables);
    }
    if wanted_needs.ecn.is_some() && present_needs.ecn.is_none() {
        return Err(PolicyRefusal::NoMarks);
    }
    if present.recovery() != wanted.recovery() {
        return Err(PolicyRefusal::Transport);
    }
    wanted.check().map_err(|_| PolicyRefusal::Config)
}
